"""
Arrays, pointers and streams of CUDA.jl as operands of LibSymm, and symmetric or imported device
memory as a `CuArray`.
"""
module LibSymmCUDAExt

import CUDA
import LibSymm
using CUDA: CuArray, CuPtr, CuStream
using LibSymm: Bundle, Import, SymmMemory, Span

address(p::CuPtr) = reinterpret(Ptr{Cvoid}, p)

LibSymm.operand(A::CuArray) = LibSymm.KeepAlive(A, address(pointer(A)))
LibSymm.operand(p::CuPtr) = address(p)
LibSymm.Span{T}(p::CuPtr, length::Integer) where {T} = Span{T}(address(p), length)
LibSymm.stream_handle(stream::CuStream) = Ptr{Cvoid}(stream.handle)
LibSymm.part(A::CuArray, first, count) = view(vec(A), (first + 1):(first + count))

# A call on a CUDA group that names no stream is on the current task's, and so ordered with all
# other work of the task.
task_stream() = LibSymm.stream_handle(CUDA.stream())

"""
    CuArray{T}(memory, dims; rank=memory.rank, offset=0)

The block of a rank as an array of CUDA.jl, `offset` bytes from its start. Local. The array keeps
the memory mapped; arrays made from it (views, reshapes) do not, once it is gone.
"""
function CUDA.CuArray{T}(
    memory::SymmMemory, dims::Dims; rank::Integer=memory.rank, offset::Integer=0
) where {T}
    LibSymm.dtype(T)
    LibSymm.require_within(T, memory.bytes, dims, offset)
    block = reinterpret(CuPtr{T}, pointer(memory, rank) + offset)
    return LibSymm.hold(unsafe_wrap(CuArray, block, dims; own=false), memory)
end

function CUDA.CuArray{T}(memory::SymmMemory, dims::Integer...; options...) where {T}
    return CuArray{T}(memory, Dims(dims); options...)
end

"""
    CuArray{T}(import, dims; offset=0)
    CuArray(bundle, name)

Memory of another process as an array of CUDA.jl: of an import, `offset` bytes from its start, or of
a bundle, with the type and the extents that its maker has told. Local. The array keeps the memory
mapped; arrays made from it (views, reshapes) do not, once it is gone. A kernel that stores into
memory that was imported for reading only fails.
"""
function CUDA.CuArray{T}(made::Import, dims::Dims; offset::Integer=0) where {T}
    LibSymm.require_within(T, made.bytes, dims, offset)
    return imported(T, pointer(made) + offset, dims, made)
end

function CUDA.CuArray{T}(made::Import, dims::Integer...; options...) where {T}
    return CuArray{T}(made, Dims(dims); options...)
end

function CUDA.CuArray(bundle::Bundle, name::AbstractString)
    piece = LibSymm.piece_called(bundle, name)
    T, dims = LibSymm.read_about(LibSymm.about_of(piece), piece.bytes)
    return imported(T, piece.pointer, dims, bundle.import_)
end

function imported(::Type{T}, start, dims, made) where {T}
    place = reinterpret(CuPtr{T}, start)
    return LibSymm.hold(unsafe_wrap(CuArray, place, dims; own=false), made)
end

__init__() = LibSymm.TASK_STREAM[] = task_stream

end
