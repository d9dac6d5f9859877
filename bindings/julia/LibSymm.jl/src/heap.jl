"""
    Heap(group, bytes; host=false, node=nothing, alignment=0, page_bytes=0, name="",
         timeout=nothing)

Symmetric memory that is handed out in pieces without communication. Collective, blocking, with
equal arguments on all ranks. `host`, `node`, `page_bytes` and `name` are as in [`Buffer`](@ref);
`alignment`, a power of two, is the largest alignment that a piece can have (0: 4096 bytes).

    A = SymmArray{Float32}(heap, 100, 100)    # a piece as an array, whose elements are undefined
    offset = LibSymm.alloc(heap, bytes; alignment=0)
    LibSymm.free(heap, A)
    LibSymm.free(heap, offset)

These calls are local. Ranks that make equal calls in one order get equal offsets. That is why
`LibSymm.free` gives pieces back, and not the garbage collector, which runs on every rank in its own
time. `close(heap)` ends all pieces.

Memory that was freed may be handed out again at once. So a piece must be freed only when no rank
uses it any more, which a barrier ensures; and on a device, work that uses the piece must be ordered
before work that uses the next piece at its place, as it is on one stream.

`heap.memory` is the memory that the pieces lie in: `CuArray{T}(heap.memory, dims; offset)` is a
piece on a device.
"""
mutable struct Heap <: Handle{symm_heap_t}
    handle::Ptr{symm_heap_t}
    memory::SymmMemory

    # Takes over the reference to `handle`.
    function Heap(handle::Ptr{symm_heap_t}, group::Group)
        heap = finalizer(release, new(handle))
        memory = given(Ptr{symm_memory_t}, symm_heap_memory, heap)
        heap.memory = SymmMemory(memory, group)
        return heap
    end
end

function Heap(handle::Ptr{symm_heap_t})
    return Heap(handle, Group(given(Ptr{symm_group_t}, symm_heap_group, handle)))
end

function Heap(
    group::Group, bytes::Integer; name::AbstractString="", timeout=nothing, where_to_lie...
)
    place = placement(; where_to_lie...)
    return with_text(name) do text
        handle = produced(Ptr{symm_heap_t}) do call, out
            deadline = milliseconds(timeout)
            how = options_of(
                call, symm_heap_options_t, place..., text, deadline, call.failure
            )
            return symm_heap_create(group, bytes, how, out)
        end
        return Heap(handle, group)
    end
end

"""
    move_heap(group, heap=nothing; timeout=nothing)

The heap that `heap`, which is of another group, becomes on `group`, with all its pieces, as
[`move_memory`](@ref) moves a memory. Pieces stay at their offsets, also on newcomers, and are taken
from the new heap from then on.
"""
function move_heap(group::Group, heap::Union{Heap,Nothing}=nothing; timeout=nothing)
    handle = produced(Ptr{symm_heap_t}) do call, out
        return symm_heap_move(something(heap, C_NULL), group, within(call, timeout), out)
    end
    return Heap(handle, group)
end

"""
    LibSymm.alloc(heap, bytes; alignment=0)

Take a piece of this rank's block, and return its offset, a multiple of 256 and of `alignment`.
Local. Without room the call fails with `SYMM_ERR_OUT_OF_MEMORY`; the message has the bytes that
were asked for, the free bytes, and the largest free piece.
"""
function alloc(heap::Heap, bytes::Integer; alignment::Integer=0)
    address = Ref{Ptr{Cvoid}}(C_NULL)
    offset = Ref{Csize_t}(0)
    attempt() do call
        return symm_heap_alloc(heap, bytes, alignment, within(call), address, offset)
    end
    return Int(offset[])
end

"""
    LibSymm.free(heap, A)
    LibSymm.free(heap, offset)

Give a piece back: see [`Heap`](@ref). Local; never waits.
"""
free(heap::Heap, offset::Integer) = free_at(heap, pointer(heap.memory) + offset)
function free(heap::Heap, A::SymmArray)
    isempty(A) && return nothing  # no elements take no piece
    return free_at(heap, pointer(A))
end
free_at(heap, piece) = attempt(call -> symm_heap_free(heap, piece, within(call)))

function SymmArray{T}(heap::Heap, dims::Integer...; alignment::Integer=0) where {T}
    return SymmArray{T}(heap, Dims(dims); alignment=alignment)
end

function SymmArray{T}(heap::Heap, dims::Dims; alignment::Integer=0) where {T}
    dtype(T)
    bytes = prod(dims) * sizeof(T)
    offset = bytes == 0 ? 0 : alloc(heap, bytes; alignment=alignment)
    return SymmArray{T}(heap.memory, dims; offset=offset)
end

"""
    LibSymm.find(heap, address)

Offset and length in bytes of the piece that contains an address of this rank's block:
`(offset, bytes)`; `nothing` if there is none. Local.
"""
function find(heap::Heap, address)
    found = Ref{Ptr{Cvoid}}(C_NULL)
    size = Ref{Csize_t}(0)
    at = operand(address)
    looked_up(call -> symm_heap_find(heap, at, within(call), found, size)) || return nothing
    return (offset=Int(found[] - pointer(heap.memory)), bytes=Int(size[]))
end

"""
    LibSymm.info(heap)

Describe a heap, as a named tuple: `bytes`, `used_bytes`, `largest_free_bytes`, `pieces` and so
on. Local.
"""
info(heap::Heap) = filled(symm_heap_info_t, symm_heap_info, heap)

function Base.show(io::IO, heap::Heap)
    print(io, "Heap(", heap.memory.bytes, " bytes of each of ", heap.memory.size, " ranks")
    return print(io, isopen(heap) ? ")" : ", closed)")
end
