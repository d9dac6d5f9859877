"""
    Buffer(group, bytes; host=false, node=nothing, alignment=0, page_bytes=0, name="")

One rank's allocation on the group's device, zeroed. Local.

With `host` it lies in memory of the host, pinned, which devices and host reach alike: on NUMA node `node`, or else on the one nearest to the
device (in a host group, to the calling thread). `alignment` is that of its address and `page_bytes` the least size of its pages, powers of
two, 0 for what is usual: huge pages, say. `name` is shown in messages.
"""
mutable struct Buffer <: Handle{symm_buffer_t}
    handle::Ptr{symm_buffer_t}
    bytes::Int

    # Takes over the reference to `handle`.
    Buffer(handle::Ptr{symm_buffer_t}, bytes::Integer) = finalizer(release, new(handle, bytes))
end

"""What the options of all that allocates begin with."""
function placement(; host::Bool=false, node::Union{Nothing,Integer}=nothing, alignment::Integer=0, page_bytes::Integer=0)
    node === nothing || 0 <= node <= typemax(Int32) || throw(ArgumentError("node: $node is not in 0 .. 2^31-1"))
    return host ? SYMM_ALLOC_HOST : 0, node === nothing ? SYMM_NODE_NEAREST : node, alignment, page_bytes
end

function Buffer(group::Group, bytes::Integer; name::AbstractString="", where_to_lie...)
    return with_text(name) do text
        options = options_with(symm_alloc_options_t, placement(; where_to_lie...)..., text)
        Buffer(given(Ptr{symm_buffer_t}, symm_alloc, group, bytes, options), bytes)
    end
end

"""
    LibSymm.adopt(group, address, bytes; name="")

A buffer of device memory that another library has made by `cuMemCreate`, on the group's device and for a POSIX file descriptor. It keeps the physical
memory, so the owner may free its own at any time, and is never touched. Local.

`address` is anywhere inside a mapped allocation, a multiple of 16; `pointer(buffer)` is a new address of the same bytes.

    LibSymm.adopt(group, fd::RawFD, bytes; offset=0, name="")

A buffer of a piece of a memfd, in a host group: open for reading and writing, and sealed against shrinking. The descriptor stays its owner's.
"""
adopt(group::Group, address, bytes::Integer; name::AbstractString="") = adopt(group, operand(address), -1, 0, bytes, name)
adopt(group::Group, fd::RawFD, bytes::Integer; offset::Integer=0, name::AbstractString="") =
    adopt(group, C_NULL, reinterpret(Int32, fd), offset, bytes, name)
adopt(group, address, fd, offset, bytes, name) = with_text(name) do text
    options = options_with(symm_adopt_options_t, fd, offset, text)
    Buffer(given(Ptr{symm_buffer_t}, symm_buffer_adopt, group, address, bytes, options), bytes)
end

"""
    LibSymm.export_dmabuf(buffer; offset=0, bytes=buffer.bytes - offset)

A descriptor, an `RawFD`, of a piece of a buffer as DMA-BUF, for a device of another kind to map. The caller closes it, before the buffer and the memories of
it go. The address at `offset` must be a multiple of the page size; the size is rounded up to whole pages.
"""
export_dmabuf(buffer::Buffer; offset::Integer=0, bytes::Integer=buffer.bytes - offset) =
    RawFD(given(Int32, symm_buffer_export_dmabuf, buffer, offset, bytes))

"""
    SymmMemory(group, buffer; tag=0, timeout=nothing, channels=0)
    SymmMemory(group, bytes; tag=0, timeout=nothing, channels=0)

A buffer after the exchange: every rank's block is mapped here. Collective; the blocks must be of one size. Calls with equal tags meet.
`channels` is the number of its signal channels, the same on all ranks, 0 for as many as the group has. A
second call with the same buffer is local and gives the same memory, for as long as neither group nor buffer was closed.

`pointer(memory, rank)` is the address of a rank's block, `LibSymm.signal_pad(memory, rank)` that of its signal pad. On the host a
[`SymmArray`](@ref) makes an array of it; with CUDA.jl, `CuArray(memory, T, dims)`.
(`Memory` is Julia's own since 1.11.)
"""
mutable struct SymmMemory <: Handle{symm_memory_t}
    handle::Ptr{symm_memory_t}
    group::Group
    rank::Int
    size::Int
    bytes::Int

    # Takes over the reference to `handle`.
    function SymmMemory(handle::Ptr{symm_memory_t}, group::Group)
        about = filled(symm_memory_info_t, symm_memory_info, handle)
        return finalizer(release, new(handle, group, about.rank, about.size, about.bytes))
    end
end

function SymmMemory(group::Group, buffer::Buffer; tag::Integer=0, timeout=nothing, channels::Integer=0)
    options = options_with(symm_rendezvous_options_t, tag, milliseconds(timeout), channels)
    return SymmMemory(given(Ptr{symm_memory_t}, symm_rendezvous, group, buffer, options), group)
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

`x`, which borrows a block, keeps it mapped by a reference of its own: a loop over its elements may have only `x` in hand while `memory` is
collected. (A finalizer that merely knew `memory` would not do, since what only finalizers know is garbage.)
"""
function hold(x, memory::SymmMemory)
    handle = memory.handle
    check(symm_memory_retain(memory))
    return finalizer(_ -> symm_memory_release(handle), x)
end

Base.show(io::IO, m::SymmMemory) =
    print(io, "SymmMemory(", m.bytes, " bytes of each of ", m.size, " ranks", isopen(m) ? ")" : ", closed)")

"""
    pointer(buffer)
    pointer(memory, rank=memory.rank)

Address of a block. Valid while the buffer or a memory of it is open.
"""
Base.pointer(buffer::Buffer) = given(Ptr{Cvoid}, symm_buffer_pointer, buffer)
Base.pointer(memory::SymmMemory, rank::Integer=memory.rank) = given(Ptr{Cvoid}, symm_memory_pointer, memory, rank)

"`LibSymm.signal_pad(memory, rank)`: address of a rank's signal pad, `UInt64[size, channels]` in Julia's order, indexed by source rank and channel."
signal_pad(memory::SymmMemory, rank::Integer) = Ptr{UInt64}(given(Ptr{Cvoid}, symm_memory_signal_pad, memory, rank))

"""
    LibSymm.pointer_table(memory)
    LibSymm.signal_pad_table(memory)

Address of the table of all ranks' blocks or pads, readable by the group's device: for kernels of your own.
"""
pointer_table(memory::SymmMemory) = given(Ptr{Ptr{Cvoid}}, symm_memory_pointer_table, memory)
signal_pad_table(memory::SymmMemory) = given(Ptr{Ptr{Cvoid}}, symm_memory_signal_pad_table, memory)

"""
    LibSymm.device_view(memory; timeout=nothing, stop=C_NULL)

The memory as kernels of your own see it, a `symm_memory_view_t` to be passed by value: `symm::device::Memory` of device.cuh. `stop` is the device
address of a word of 32 bits that ends all waits when it becomes other than 0.
"""
function device_view(memory::SymmMemory; timeout=nothing, stop=C_NULL)
    view = sized(symm_memory_view_t)
    check(symm_memory_device_view(memory, milliseconds(timeout), stop, view))
    return view[]
end

"""
    LibSymm.multicast_pointer(memory)

Address by which the multimem instructions of the device reach all ranks' blocks at once. Without one the call fails with
`SYMM_ERR_UNAVAILABLE` and the reason, which `LibSymm.info(memory).multicast_reason` is too.
"""
multicast_pointer(memory::SymmMemory) = given(Ptr{Cvoid}, symm_memory_multicast_pointer, memory)

info(memory::SymmMemory) = filled(symm_memory_info_t, symm_memory_info, memory)

"`LibSymm.info(buffer)`: what is known of a buffer, as a named tuple: `bytes`, `mapped_bytes`, `flags`, `memories`, `name`, ..."
info(buffer::Buffer) = filled(symm_buffer_info_t, symm_buffer_info, buffer)

"""
    LibSymm.find_buffer(address)

The buffer of this process that an address lies in, and how many bytes from its start: `(buffer, offset)`; `nothing` if there is none.
"""
function find_buffer(address)
    out, offset = Ref{Ptr{symm_buffer_t}}(C_NULL), Ref{Csize_t}(0)
    looked_up(symm_buffer_find(operand(address), out, offset)) || return nothing
    return (buffer=Buffer(out[], given(Csize_t, symm_buffer_size, out[])), offset=Int(offset[]))
end

"`LibSymm.memory_of(group, buffer)`: the memory that a buffer has become on a group; `nothing` before there is one."
function memory_of(group::Group, buffer::Buffer)
    out = Ref{Ptr{symm_memory_t}}(C_NULL)
    return looked_up(symm_buffer_memory(buffer, group, out)) ? SymmMemory(out[], group) : nothing
end

"""
    LibSymm.find(group, address)

The memory of `group` that maps an address, whose block it is in, and how many bytes from its start: `(memory, rank, offset)`; `nothing`
if there is none.
"""
function find(group::Group, address)
    out, rank, offset = Ref{Ptr{symm_memory_t}}(C_NULL), Ref{Int32}(-1), Ref{Csize_t}(0)
    looked_up(symm_memory_find(group, operand(address), out, rank, offset)) || return nothing
    return (memory=SymmMemory(out[], group), rank=Int(rank[]), offset=Int(offset[]))
end
