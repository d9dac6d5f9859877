"""
    Group(; options...)
    Group(rank, size, address; options...)
    Group(rank, size, store::Store; options...)

The ranks that share memory. Collective: every rank makes the group.

The first form takes rank and size from the launcher (`symm run`, `mpirun`, `torchrun`, `srun`);
without a launcher it is a group of one. `address` names the place where ranks meet without a
launcher: `"dir:///path"`, a private directory, or `"thread://name"`, for ranks that are threads of
this process.

Options:

- `backend`: `:auto`, `:host` or `:cuda`. Automatic is CUDA if a device is named, else
  `\$SYMM_BACKEND`, else the host.
- `device`: a CUDA ordinal, `"cuda:1"`, or `"cuda"` for this rank's share of the devices.
- `name`: tells apart groups that are made at one time.
- `timeout`, `create_timeout`: seconds; `Inf` for none.
- `overlapping_devices`: several ranks may use one GPU.
- `check`: compare the arguments of every collective on all ranks.
- `multicast`: multicast addresses for the group's memories, where the hardware has them. All ranks
  must ask.
- `shared_scratch`: groups made of this one, except by `shrink`, work in its scratch, for CUDA only.
  Collectives of all these groups have one order, in graphs too, and a failure of one is a failure
  of all; symm.h has the exact rules.
- `any_order`: all-reduces between machines may combine floats in an order of their own, which takes
  less time. All ranks must ask.
- `same_offsets`: a promise about each all-reduce, all-gather, all-to-all and broadcast: the
  destination is private on all ranks, or at one offset of one memory on all ranks, and the call is
  in place on all ranks or on none. Large calls then use copy engines with CUDA. All ranks must ask.
- `channels`: the number of channels of barriers, and of signals of memories that ask for no other
  number; 0 means 64.
- `scratch_bytes`: the most bytes for the scratch of this group and of each group made of it; 0
  means as many as are fastest.

The fields `rank` and `size` count from 0. `close(group)`, or the garbage collector, releases the
group; objects that were made from it stay valid.
"""
mutable struct Group <: Handle{symm_group_t}
    handle::Ptr{symm_group_t}
    rank::Int
    size::Int
    backend::Symbol

    # Takes over the reference to `handle`.
    function Group(handle::Ptr{symm_group_t})
        info = filled(symm_group_info_t, symm_group_info, handle)
        backend = name_of(BACKENDS, info.backend)
        return finalizer(release, new(handle, info.rank, info.size, backend))
    end
end

Group(; options...) = Group(0, 0, nothing; options...)

function Group(
    rank::Integer,
    size::Integer,
    meet::Union{AbstractString,Store,Nothing};
    backend::Symbol=:auto,
    device::Union{Integer,AbstractString}=SYMM_DEVICE_AUTO,
    name::AbstractString="",
    timeout=nothing,
    create_timeout=nothing,
    overlapping_devices::Bool=false,
    check::Bool=false,
    multicast::Bool=false,
    shared_scratch::Bool=false,
    any_order::Bool=false,
    same_offsets::Bool=false,
    channels::Integer=0,
    scratch_bytes::Integer=0,
)
    backend, device = backend_and_device(backend, device)
    flags =
        overlapping_devices * SYMM_GROUP_OVERLAPPING_DEVICES |
        check * SYMM_GROUP_CHECK |
        multicast * SYMM_GROUP_MULTICAST |
        shared_scratch * SYMM_GROUP_SHARED_SCRATCH |
        any_order * SYMM_GROUP_ANY_ORDER |
        same_offsets * SYMM_GROUP_SAME_OFFSETS

    has_store = meet isa Store
    call = StoreCall(has_store ? meet : Store(nothing, nothing), nothing)
    store = Ref(symm_store(call))
    return with_text(name) do name_text
        return with_text(has_store ? nothing : meet) do address
            return GC.@preserve call store begin
                callbacks = has_store ? Base.unsafe_convert(Ptr{symm_store_t}, store) : C_NULL
                config = options_with(
                    symm_group_config_t,
                    rank,
                    size,
                    value_of(BACKENDS, backend),
                    device,
                    flags,
                    address,
                    callbacks,
                    milliseconds(create_timeout),
                    milliseconds(timeout),
                    name_text,
                    scratch_bytes,
                    channels,
                )
                has_store ? create(config, call) : create(config)
            end
        end
    end
end

function backend_and_device(backend, device::Integer)
    is_cuda = backend === :auto && device >= 0
    return is_cuda ? :cuda : backend, device
end

function backend_and_device(backend, device::AbstractString)
    found = match(r"^cuda(?::(\d+))?$", device)
    found === nothing &&
        throw(ArgumentError("device: $device is neither cuda nor cuda:<ordinal>"))
    ordinal = found[1] === nothing ? SYMM_DEVICE_AUTO : parse(Int32, found[1])
    return backend === :auto ? :cuda : backend, ordinal
end

function create(config)
    return Group(given(Ptr{symm_group_t}, symm_group_create_without_callbacks, config))
end

function create(config, call::StoreCall)
    out = Ref{Ptr{symm_group_t}}(C_NULL)
    task = current_task()
    # A store that waits could move this task to another thread, but the library and its failure
    # belong to the thread that called.
    sticky = task.sticky
    task.sticky = true
    status = symm_group_create(config, out)
    problem = status == SYMM_OK ? nothing : last_failure()
    task.sticky = sticky

    call.failure === nothing || throw(first(call.failure))
    problem === nothing || throw(problem)
    return Group(out[])
end

function Base.show(io::IO, group::Group)
    print(io, "Group(rank ", group.rank, " of ", group.size, ", ", group.backend)
    return print(io, isopen(group) ? ")" : ", closed)")
end

"""
    LibSymm.split(group, color, key=group.rank)

Divide a group. Collective, blocking. Ranks that pass equal colors form a new group, in the order of
their keys. A rank with a negative color is in no group, and gets `nothing`.
"""
function split(group::Group, color::Integer, key::Integer=group.rank)
    part = given(Ptr{symm_group_t}, symm_group_split, group, color, key)
    return part == C_NULL ? nothing : Group(part)
end

"""
    create_from_ranks(group, ranks)

A group of some ranks of `group`, in this order. Collective over these ranks, which pass equal
lists; blocking.
"""
function create_from_ranks(group::Group, ranks)
    list = collect(Int32, ranks)
    made = given(Ptr{symm_group_t}, symm_group_create_from_ranks, group, list, length(list))
    return Group(made)
end

"""
    local_group(group)

A group of the ranks of this rank's machine. Collective over these ranks; blocking.
"""
local_group(group::Group) = Group(given(Ptr{symm_group_t}, symm_group_local, group))

"""
    shrink(group; name=nothing, timeout=nothing)

A group of the ranks that are alive and have not closed `group`, in their old order. It works after
a failure too: `group` may be revoked, and stays as it is.

Collective over the ranks that are alive, which all get one group or all one failure; a rank that
dies meanwhile is left out. Blocking: a rank that is alive and does not call is `SYMM_ERR_TIMEOUT`;
once it is gone the call can be made again.
"""
function shrink(group::Group; name=nothing, timeout=nothing)
    return with_text(name) do text
        options = options_with(symm_group_shrink_options_t, milliseconds(timeout), text)
        return Group(given(Ptr{symm_group_t}, symm_group_shrink, group, options))
    end
end

"""
    translate_rank(group, other, rank)

The rank in `group` of the process that is rank `rank` of `other`; `nothing` if it is not in
`group`. Local.
"""
function translate_rank(group::Group, other::Group, rank::Integer)
    found = Ref{Int32}(-1)
    is_there = looked_up(symm_group_translate_rank(group, other, rank, found))
    return is_there ? Int(found[]) : nothing
end

"""
    failed_ranks(group)

The ranks that this rank knows to be dead, or to have closed the group, ascending. Local; never
waits.
"""
function failed_ranks(group::Group)
    ranks = zeros(Int32, group.size)
    count = given(Csize_t, symm_group_failed_ranks, group, ranks, length(ranks))
    return Int.(ranks[1:count])
end

"""
    failure_fd(group)

A descriptor that becomes readable when the group is revoked, for event loops. It belongs to the
group and must not be closed. Local.
"""
failure_fd(group::Group) = RawFD(given(Int32, symm_group_failure_fd, group))

"""
    peer_info(group, rank)

Describe one rank, as a named tuple: `pid`, `host`, `machine`, `device`, `uuid`, `alive` and so on.
Local.
"""
function peer_info(group::Group, rank::Integer)
    return filled(symm_peer_info_t, symm_peer_info, group, rank)
end

"""
    stats(group)

Counts of what this rank has done on the group so far, as a named tuple. Element `value + 1` of
`collective_calls`, `collective_bytes` and `algorithm_calls` belongs to the collective or algorithm
of that value. Local.
"""
stats(group::Group) = filled(symm_group_stats_t, symm_group_stats, group)

"""
    LibSymm.info(group)

Describe a group, as a named tuple: `channels`, `bootstrap`, `id` and so on. Local.
"""
info(group::Group) = filled(symm_group_info_t, symm_group_info, group)

"""
    status(group)

Health of a group, as a named tuple: `status` (`LibSymm.SYMM_OK`, or why the group was revoked),
`failed_rank` (-1 if none), `failed_pid` and `message`. Local; never waits.
"""
status(group::Group) = filled(symm_group_status_t, symm_group_status, group)

"""
    abort(group, reason="")

Revoke the group on all ranks: pending and later calls fail with `SYMM_ERR_ABORTED`. Local; never
waits; may be called from any task or thread.
"""
abort(group::Group, reason::AbstractString="") = check(symm_group_abort(group, String(reason)))

"""
    finalize_group(group; timeout=nothing)

End a group: wait until all ranks have called this, so that no rank sees another leave early.
Collective, blocking, optional.
"""
function finalize_group(group::Group; timeout=nothing)
    return check(symm_group_finalize(group, within(timeout)))
end
