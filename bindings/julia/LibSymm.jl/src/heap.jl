"""
    Heap(group, bytes; host=false, node=nothing, alignment=0, page_bytes=0, name="", timeout=nothing)

Symmetric memory that is handed out in pieces without a word to the other ranks. Collective, with the same arguments on all ranks; `host`, `node`,
`page_bytes` and `name` are as in [`Buffer`](@ref), and `alignment`, a power of two, is the most that a piece can have (0: 4096 bytes).

    A = SymmArray{Float32}(heap, 100, 100)    # a piece as an array; local, and its elements are whatever was there
    offset = LibSymm.alloc(heap, bytes; alignment=0)
    LibSymm.free(heap, A); LibSymm.free(heap, offset)

Ranks that make the same calls in the same order get the same offsets. So pieces go back by `LibSymm.free`, and not when garbage is collected, which every
rank does in its own time; `close(heap)` ends all of them. What is freed may be handed out again at once: no rank may use it any more (a
barrier says so), and on a device what was issued with it must be ahead of what uses the next piece, as it is on one stream.
`heap.memory` is what the pieces lie in: `CuArray{T}(heap.memory, dims; offset)` is one on a device.
"""
mutable struct Heap <: Handle{symm_heap_t}
    handle::Ptr{symm_heap_t}
    memory::SymmMemory

    # Takes over the reference to `handle`.
    function Heap(handle::Ptr{symm_heap_t}, group::Group)
        heap = finalizer(release, new(handle))
        heap.memory = SymmMemory(given(Ptr{symm_memory_t}, symm_heap_memory, heap), group)
        return heap
    end
end

function Heap(group::Group, bytes::Integer; name::AbstractString="", timeout=nothing, where_to_lie...)
    return with_text(name) do text
        options = options_with(symm_heap_options_t, placement(; where_to_lie...)..., text, milliseconds(timeout))
        Heap(given(Ptr{symm_heap_t}, symm_heap_create, group, bytes, options), group)
    end
end

"""
    LibSymm.alloc(heap, bytes; alignment=0)

Offset of a new piece in this rank's block, a multiple of 256 and of `alignment`. Local. Without room it fails with `SYMM_ERR_OUT_OF_MEMORY` and
says what was asked for, what is free, and the largest free piece.
"""
function alloc(heap::Heap, bytes::Integer; alignment::Integer=0)
    pointer_, offset = Ref{Ptr{Cvoid}}(C_NULL), Ref{Csize_t}(0)
    check(symm_heap_alloc(heap, bytes, alignment, pointer_, offset))
    return Int(offset[])
end

"""
    LibSymm.free(heap, A)
    LibSymm.free(heap, offset)

Give a piece back: see [`Heap`](@ref). Local; never waits.
"""
free(heap::Heap, offset::Integer) = check(symm_heap_free(heap, pointer(heap.memory) + offset))
free(heap::Heap, A::SymmArray) = isempty(A) ? nothing : check(symm_heap_free(heap, pointer(A)))

SymmArray{T}(heap::Heap, dims::Integer...; alignment::Integer=0) where {T} = SymmArray{T}(heap, Dims(dims); alignment=alignment)
function SymmArray{T}(heap::Heap, dims::Dims; alignment::Integer=0) where {T}
    dtype(T)
    bytes = prod(dims) * sizeof(T)
    return SymmArray{T}(heap.memory, dims; offset=bytes == 0 ? 0 : alloc(heap, bytes; alignment=alignment))
end

"`LibSymm.find(heap, address)`: offset and length in bytes of the piece that contains an address of this rank's block; `nothing` if there is none."
function find(heap::Heap, address)
    found, size = Ref{Ptr{Cvoid}}(C_NULL), Ref{Csize_t}(0)
    looked_up(symm_heap_find(heap, operand(address), found, size)) || return nothing
    return (offset=Int(found[] - pointer(heap.memory)), bytes=Int(size[]))
end

info(heap::Heap) = filled(symm_heap_info_t, symm_heap_info, heap)

Base.show(io::IO, heap::Heap) =
    print(io, "Heap(", heap.memory.bytes, " bytes of each of ", heap.memory.size, " ranks", isopen(heap) ? ")" : ", closed)")
