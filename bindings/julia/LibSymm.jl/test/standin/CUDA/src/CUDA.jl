"""
Stands in for CUDA.jl in the tests, under its names. "Device" memory is the host's, and the only
stream is NULL. The tests show that the extension fits these names and passes on the right
addresses; they cannot show what the real package does.
"""
module CUDA

using LinearAlgebra: Adjoint

export CuArray, CuPtr, CuStream, @cuda, blockDim, blockIdx, threadIdx

primitive type CuPtr{T} 64 end
function Base.:+(p::CuPtr{T}, n::Integer) where {T}
    return reinterpret(CuPtr{T}, reinterpret(UInt64, p) + n % UInt64)
end

struct CuStream
    handle::Ptr{Cvoid}
end
const CURRENT = Ref(CuStream(C_NULL))
stream() = CURRENT[]

mutable struct CuArray{T,N} <: DenseArray{T,N}
    memory::Vector{T}  # empty, if not its own
    address::CuPtr{T}
    dims::Dims{N}
end
function CuArray(host::AbstractArray{T,N}) where {T,N}
    memory = collect(vec(host))
    return CuArray{T,N}(memory, reinterpret(CuPtr{T}, pointer(memory)), size(host))
end
function Base.unsafe_wrap(
    ::Type{CuArray}, p::CuPtr{T}, dims::Dims{N}; own::Bool=false
) where {T,N}
    return CuArray{T,N}(T[], p, dims)
end
Base.size(A::CuArray) = A.dims
Base.pointer(A::CuArray) = A.address
function Base.Array(A::CuArray{T}) where {T}
    return GC.@preserve A copy(unsafe_wrap(Array, reinterpret(Ptr{T}, A.address), A.dims))
end
Base.getindex(::CuArray, ::Int...) = error("scalar indexing of device memory")

# What the real package does by kernels and cuBLAS: broadcasts, and products of matrix and vector.
const Style = Base.Broadcast.ArrayStyle{CuArray}
const Lazy = Base.Broadcast.Broadcasted{Style}
Base.BroadcastStyle(::Type{<:CuArray}) = Style()
Base.similar(lazy::Lazy, ::Type{T}) where {T} = CuArray(zeros(T, size(lazy)))
on_host(x) = x
on_host(x::CuArray) = Array(x)
on_host(lazy::Lazy) = Base.Broadcast.broadcasted(lazy.f, map(on_host, lazy.args)...)
function Base.copyto!(to::CuArray{T}, lazy::Lazy) where {T}
    made = Base.Broadcast.materialize(on_host(lazy))
    GC.@preserve to copyto!(unsafe_wrap(Array, reinterpret(Ptr{T}, to.address), to.dims), made)
    return to
end
Base.:*(A::CuArray{T,2}, x::CuArray{T,1}) where {T} = CuArray(Array(A) * Array(x))
function Base.:*(A::Adjoint{T,<:CuArray{T,2}}, x::CuArray{T,1}) where {T}
    return CuArray(Array(parent(A))' * Array(x))
end

# Kernels: here each thread of each block runs after the other, on arrays of the host.
const PLACE = Ref((thread=1, block=1, threads=1))
threadIdx() = (x=PLACE[].thread,)
blockIdx() = (x=PLACE[].block,)
blockDim() = (x=PLACE[].threads,)

in_kernel(x) = x
function in_kernel(A::CuArray{T}) where {T}
    return unsafe_wrap(Array, reinterpret(Ptr{T}, A.address), A.dims)
end

function launch(kernel, arguments...; threads=1, blocks=1)
    GC.@preserve arguments begin
        given = map(in_kernel, arguments)
        for block in 1:blocks, thread in 1:threads
            PLACE[] = (thread=thread, block=block, threads=threads)
            kernel(given...)
        end
    end
    return nothing
end

macro cuda(arguments...)
    options = [Expr(:kw, one.args[1], esc(one.args[2])) for one in arguments[1:(end - 1)]]
    call = map(esc, arguments[end].args)
    return Expr(:call, launch, Expr(:parameters, options...), call...)
end

end
