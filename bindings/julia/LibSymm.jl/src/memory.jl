"""
    Buffer(group, bytes; host=false, node=nothing, alignment=0, page_bytes=0, name="")

One rank's block of memory on the group's device, zeroed, before other ranks can see it. Local.

- `host`: whether the block lies in memory of the host; there it is pinned, and devices reach it as
  the host does.
- `node`: the NUMA node of memory of the host; `nothing` for the node nearest to the device (in a
  host group, to the calling thread).
- `alignment`: alignment of the block's address, a power of two; 0 for the usual.
- `page_bytes`: least size of the block's pages, a power of two, for instance of huge pages; 0 for
  the usual.
- `name`: shown in messages.
"""
mutable struct Buffer <: Handle{symm_buffer_t}
    handle::Ptr{symm_buffer_t}
    bytes::Int

    # Takes over the reference to `handle`.
    function Buffer(handle::Ptr{symm_buffer_t}, bytes::Integer)
        return finalizer(release, new(handle, bytes))
    end
end

"""The first fields of the options of every call that allocates."""
function placement(;
    host::Bool=false,
    node::Union{Nothing,Integer}=nothing,
    alignment::Integer=0,
    page_bytes::Integer=0,
)
    if node !== nothing && !(0 <= node <= typemax(Int32))
        throw(ArgumentError("node: $node is not in 0 .. 2^31-1"))
    end
    flags = host * SYMM_ALLOC_HOST | (node !== nothing) * SYMM_ALLOC_ON_NODE
    return flags, something(node, 0), alignment, page_bytes
end

function Buffer(group::Group, bytes::Integer; name::AbstractString="", where_to_lie...)
    place = placement(; where_to_lie...)
    return with_text(name) do text
        handle = with_relief(group, bytes) do
            return produced(Ptr{symm_buffer_t}) do call, out
                how = options_of(call, symm_alloc_options_t, place..., text, call.failure)
                return symm_alloc(group, bytes, how, out)
            end
        end
        return Buffer(handle, bytes)
    end
end

# The functions that give memory back, in the order in which they were added. The lists are never
# changed, only replaced, so that a task may go through one while another adds to it.
const RELIEVERS = Ref{Vector{Function}}(Function[])
const RELIEVERS_LOCK = ReentrantLock()

"""
    on_memory_pressure(f)

Add a function that gives memory back when an allocation is short of it: `f(backend, device, bytes)`
returns the bytes that it gave back, or 0. When `Buffer(group, bytes)` finds too little memory,
after the library has collected what nobody uses, the functions are asked in the order in which they
were added, in the task that allocates, and after each that has given something back the allocation
is tried again. The result is a function without arguments that ends this. Local.

The library's own allocations, as of a heap, do not ask: Julia code must not run inside of a call.
"""
function on_memory_pressure(f)
    lock(RELIEVERS_LOCK) do
        return RELIEVERS[] = push!(copy(RELIEVERS[]), f)
    end
    return () -> lock(RELIEVERS_LOCK) do
        RELIEVERS[] = filter(!=(f), RELIEVERS[])
        return nothing
    end
end

function with_relief(allocate, group, bytes)
    relievers = RELIEVERS[]
    next = 1
    while true
        try
            return allocate()
        catch failure
            is_short = failure isa SymmError && failure.status == SYMM_ERR_OUT_OF_MEMORY
            is_short || rethrow()
            device = LibSymm.info(group).device
            given_back = 0
            while given_back == 0 && next <= length(relievers)
                given_back = relievers[next](group.backend, device, bytes)
                next += 1
            end
            given_back == 0 && rethrow()
        end
    end
end

"""
    LibSymm.group_of(buffer)

The group that a buffer was made for. Local. A buffer does not keep its group alive: if the group is
gone, the call fails with `SYMM_ERR_NOT_FOUND`.
"""
group_of(buffer::Buffer) = Group(given(Ptr{symm_group_t}, symm_buffer_group, buffer))

"""
    LibSymm.adopt(group, address, bytes; name="")
    LibSymm.adopt(group, fd::RawFD, bytes; offset=0, name="")

A buffer of memory that another library has made. Local.

The first form takes device memory that was made by `cuMemCreate`, on the group's device and with
handles that are POSIX file descriptors. The buffer keeps the physical memory, so its owner may free
its own mapping at any time; the owner's mapping is not touched. `address` is anywhere inside a
mapped allocation, at a multiple of 16; `pointer(buffer)` is a new address of these bytes.

The second form takes a piece of a memfd, in a host group: open for reading and writing, and sealed
against shrinking. The descriptor stays its owner's.
"""
function adopt(group::Group, address, bytes::Integer; name::AbstractString="")
    return adopt(group, operand(address), bytes, name, UInt64(0), 0, 0)
end

function adopt(
    group::Group, fd::RawFD, bytes::Integer; offset::Integer=0, name::AbstractString=""
)
    number = reinterpret(Int32, fd)
    return adopt(group, C_NULL, bytes, name, SYMM_ADOPT_FD, offset, number)
end

function adopt(group, address, bytes, name, flags, offset, fd)
    return with_text(name) do text
        handle = produced(Ptr{symm_buffer_t}) do call, out
            how = options_of(
                call, symm_adopt_options_t, flags, offset, fd, text, call.failure
            )
            return symm_buffer_adopt(group, address, bytes, how, out)
        end
        return Buffer(handle, bytes)
    end
end

"""
    LibSymm.export_dmabuf(buffer; offset=0, bytes=buffer.bytes - offset)

A DMA-BUF descriptor, an `RawFD`, of a piece of a buffer, for a device of another kind to map. The
caller closes it, before the buffer and the memories made of the buffer are closed. The address at
`offset` must be a multiple of the page size; the size is rounded up to whole pages. Local.
"""
function export_dmabuf(
    buffer::Buffer; offset::Integer=0, bytes::Integer=buffer.bytes - offset
)
    fd = produced(Int32) do call, out
        return symm_buffer_export_dmabuf(buffer, offset, bytes, within(call), out)
    end
    return RawFD(fd)
end

"""
    SymmMemory(group, buffer; tag=0, timeout=nothing, channels=0)
    SymmMemory(group, bytes; tag=0, timeout=nothing, channels=0)

The blocks of all ranks, mapped here: a buffer after the rendezvous. Collective, blocking; the
blocks must be of equal size. Calls with equal tags meet. `channels` is the number of signal
channels, equal on all ranks; 0 for as many as the group has. A second call with one buffer is local
and gives the memory that the first made, as long as neither group nor buffer was closed.

`pointer(memory, rank)` is the address of a rank's block, `LibSymm.signal_pad(memory, rank)` that of
its signal pad. On the host a [`SymmArray`](@ref) makes an array of a block; with CUDA.jl,
`CuArray{T}(memory, dims)`. (`Memory` is Julia's own name since 1.11.)
"""
mutable struct SymmMemory <: Handle{symm_memory_t}
    handle::Ptr{symm_memory_t}
    group::Group
    rank::Int
    size::Int
    bytes::Int

    # Takes over the reference to `handle`.
    function SymmMemory(handle::Ptr{symm_memory_t}, group::Group=group_at(handle))
        about = filled(symm_memory_info_t, symm_memory_info, handle)
        return finalizer(release, new(handle, group, about.rank, about.size, about.bytes))
    end
end

group_at(memory::Ptr{symm_memory_t}) = Group(given(Ptr{symm_group_t}, symm_memory_group, memory))

function SymmMemory(
    group::Group, buffer::Buffer; tag::Integer=0, timeout=nothing, channels::Integer=0
)
    handle = produced(Ptr{symm_memory_t}) do call, out
        deadline = milliseconds(timeout)
        how = options_of(
            call, symm_rendezvous_options_t, tag, deadline, channels, call.failure
        )
        return symm_rendezvous(group, buffer, how, out)
    end
    return SymmMemory(handle, group)
end

function SymmMemory(group::Group, bytes::Integer; options...)
    buffer = Buffer(group, bytes)
    try
        return SymmMemory(group, buffer; options...)
    finally
        close(buffer)  # the memory keeps the block
    end
end

"""
    LibSymm.hold(x, memory)

Make `x`, which borrows a block, keep the block mapped by a reference of its own: a loop over the
elements may have only `x` in hand while `memory` is collected. (A finalizer that merely knew
`memory` would not do, because objects that only finalizers know are garbage.)
"""
function hold(x, memory::SymmMemory)
    handle = memory.handle
    check(symm_memory_retain(memory))
    return finalizer(_ -> symm_memory_release(handle), x)
end

function Base.show(io::IO, m::SymmMemory)
    print(io, "SymmMemory(", m.bytes, " bytes of each of ", m.size, " ranks")
    return print(io, isopen(m) ? ")" : ", closed)")
end

"""
    pointer(buffer)
    pointer(memory, rank=memory.rank)

Address of a block, valid while the buffer or a memory made of it is open. Local.
"""
Base.pointer(buffer::Buffer) = given(Ptr{Cvoid}, symm_buffer_pointer, buffer)
function Base.pointer(memory::SymmMemory, rank::Integer=memory.rank)
    return given(Ptr{Cvoid}, symm_memory_pointer, memory, rank)
end

"""
    LibSymm.signal_pad(memory, rank)

Address of a rank's signal pad: `UInt64[size, channels]` in Julia's order, indexed by source rank
and channel. Local.
"""
function signal_pad(memory::SymmMemory, rank::Integer)
    return Ptr{UInt64}(given(Ptr{Cvoid}, symm_memory_signal_pad, memory, rank))
end

"""
    LibSymm.pointer_table(memory)
    LibSymm.signal_pad_table(memory)

Address of the table of all ranks' blocks or signal pads, readable by the group's device: for
kernels of your own. Local.
"""
function pointer_table(memory::SymmMemory)
    return given(Ptr{Ptr{Cvoid}}, symm_memory_pointer_table, memory)
end
function signal_pad_table(memory::SymmMemory)
    return given(Ptr{Ptr{Cvoid}}, symm_memory_signal_pad_table, memory)
end

"""
    LibSymm.device_view(memory; timeout=nothing, stop=C_NULL)

The memory as kernels of your own see it, a `symm_memory_view_t` to be passed by value:
`symm::device::Memory` of device.cuh. `stop` is the device address of a word of 32 bits that ends
all waits when it becomes other than 0. Local.
"""
function device_view(memory::SymmMemory; timeout=nothing, stop=C_NULL)
    view = sized(symm_memory_view_t)
    attempt() do call
        return symm_memory_device_view(memory, stop, within(call, timeout), view)
    end
    return view[]
end

"""
    LibSymm.multicast_pointer(memory)

Address by which the multimem instructions of the device reach the blocks of all ranks at once.
Without such an address the call fails with `SYMM_ERR_UNAVAILABLE` and the reason, which
`LibSymm.info(memory).multicast_reason` is too. Local.
"""
function multicast_pointer(memory::SymmMemory)
    return produced(Ptr{Cvoid}) do call, out
        return symm_memory_multicast_pointer(memory, within(call), out)
    end
end

"""
    LibSymm.info(memory)

Describe a memory, as a named tuple: `bytes`, `id`, `channels`, `multicast` and so on. Local.
"""
info(memory::SymmMemory) = filled(symm_memory_info_t, symm_memory_info, memory)

"""
    LibSymm.info(buffer)

Describe a buffer, as a named tuple: `bytes`, `mapped_bytes`, `flags`, `memories`, `name` and so on.
Local.
"""
info(buffer::Buffer) = filled(symm_buffer_info_t, symm_buffer_info, buffer)

"""
    LibSymm.find_buffer(address)

The buffer of this process that contains an address, and the bytes from its start to the address:
`(buffer, offset)`; `nothing` if there is none. Local.
"""
function find_buffer(address)
    out = Ref{Ptr{symm_buffer_t}}(C_NULL)
    offset = Ref{Csize_t}(0)
    at = operand(address)
    looked_up(call -> symm_buffer_find(at, within(call), out, offset)) || return nothing
    buffer = buffer_at(out[])
    return (buffer=buffer, offset=Int(offset[]))
end

buffer_at(handle) = Buffer(handle, given(Csize_t, symm_buffer_bytes, handle))

"""
    move_memory(group, memory=nothing; timeout=nothing)

The memory that `memory`, which is of another group, becomes on `group`, which [`grow`](@ref) or
[`shrink`](@ref) made. A newcomer brings nothing and gets a block of zeros. What a rank has mapped
stays where it is; if all ranks have the numbers that they had, so do signal pads and pointer
tables. Signals that were not taken are void, and `memory` has no signals any more.

Collective and blocking: all ranks succeed, or all fail with the same error, which changes nothing.
`timeout` is in seconds, `nothing` for the `create_timeout` of `group`.
"""
function move_memory(
    group::Group, memory::Union{SymmMemory,Nothing}=nothing; timeout=nothing
)
    handle = produced(Ptr{symm_memory_t}) do call, out
        return symm_memory_move(something(memory, C_NULL), group, within(call, timeout), out)
    end
    return SymmMemory(handle, group)
end

"""
    LibSymm.buffer_of(memory)

The buffer that has become a memory: this rank's block. Local.
"""
function buffer_of(memory::SymmMemory)
    return buffer_at(given(Ptr{symm_buffer_t}, symm_memory_buffer, memory))
end

"""
    LibSymm.memory_of(group, buffer)

The memory that was made of a buffer on a group; `nothing` before there is one. Local.
"""
function memory_of(group::Group, buffer::Buffer)
    out = Ref{Ptr{symm_memory_t}}(C_NULL)
    is_there = looked_up(call -> symm_buffer_memory(buffer, group, within(call), out))
    return is_there ? SymmMemory(out[], group) : nothing
end

"""
    LibSymm.find(group, address)

The memory of `group` that maps an address, the rank whose block contains the address, and the bytes
from the start of that block: `(memory, rank, offset)`; `nothing` if there is none. Local.
"""
function find(group::Group, address)
    out = Ref{Ptr{symm_memory_t}}(C_NULL)
    rank = Ref{Int32}(-1)
    offset = Ref{Csize_t}(0)
    at = operand(address)
    is_there = looked_up() do call
        return symm_memory_find(group, at, within(call), out, rank, offset)
    end
    is_there || return nothing
    return (memory=SymmMemory(out[], group), rank=Int(rank[]), offset=Int(offset[]))
end
