"""
    Group(; options...)
    Group(rank, size, address; options...)
    Group(rank, size, store::Store; options...)

The ranks that share memory. Collective: every rank makes it. The first form takes rank and size from the launcher (`symm run`, `mpirun`,
`torchrun`, `srun`; alone, a group of one). `address` says where ranks meet without a launcher: `"dir:///path"`, a private directory, or
`"thread://name"`, for ranks that are threads of this process.

Options: `backend` (`:auto`, `:host`, `:cuda`; automatic is CUDA where a device is named, else `\$SYMM_BACKEND`, else the host), `device` (CUDA
ordinal, `"cuda:1"`, or `"cuda"` for this rank's share), `name` (tells apart groups that are made at once), `timeout` and
`create_timeout` (seconds; `Inf` for none), `overlapping_devices` (several ranks may use one GPU), `check` (compare the arguments of every
collective on all ranks), `multicast` (multicast addresses for the group's memories, where they can be had; all ranks must ask),
`shared_scratch` (groups made of this one, but by `shrink`, work in its scratch: CUDA only; collectives of all of them have one order, also in
graphs, and a failure of one is a failure of all: symm.h says it exactly), `any_order` (all-reduces between machines
may combine floats in an order of their own, which takes less time; all must ask), `same_offsets` (a promise that the recvs of all ranks are private or lie alike
in each all-reduce, all-gather, all-to-all and broadcast, in place on all or none: large ones then go by copy engines with CUDA; all must ask), `channels` (of barriers, and of signals of memories that ask for no other number; 0: 64), `scratch_bytes` (at most for the scratch of this group
and of each made of it; 0: what is fastest).

Its fields `rank` and `size` count from 0. `close(group)`, or the garbage collector, releases it; what was made from it stays valid.
"""
mutable struct Group <: Handle{symm_group_t}
    handle::Ptr{symm_group_t}
    rank::Int
    size::Int
    backend::Symbol

    # Takes over the reference to `handle`.
    function Group(handle::Ptr{symm_group_t})
        info = filled(symm_group_info_t, symm_group_info, handle)
        return finalizer(release, new(handle, info.rank, info.size, name_of(BACKENDS, info.backend)))
    end
end

Group(; options...) = Group(0, 0, nothing; options...)

function Group(
    rank::Integer, size::Integer, meet::Union{AbstractString,Store,Nothing}; backend::Symbol=:auto,
    device::Union{Integer,AbstractString}=SYMM_DEVICE_AUTO, name::AbstractString="", timeout=nothing, create_timeout=nothing,
    overlapping_devices::Bool=false, check::Bool=false, multicast::Bool=false, shared_scratch::Bool=false,
    any_order::Bool=false, same_offsets::Bool=false, channels::Integer=0, scratch_bytes::Integer=0,
)
    backend, device = where_to_work(backend, device)
    flags = overlapping_devices * SYMM_GROUP_OVERLAPPING_DEVICES | check * SYMM_GROUP_CHECK | multicast * SYMM_GROUP_MULTICAST |
            shared_scratch * SYMM_GROUP_SHARED_SCRATCH | any_order * SYMM_GROUP_ANY_ORDER |
            same_offsets * SYMM_GROUP_SAME_OFFSETS
    call = StoreCall(meet isa Store ? meet : Store(nothing, nothing), nothing)
    store = Ref(symm_store(call))
    return with_text(name) do name
        with_text(meet isa Store ? nothing : meet) do address
            GC.@preserve call store begin
                callbacks = meet isa Store ? Base.unsafe_convert(Ptr{symm_store_t}, store) : C_NULL
                config = options_with(
                    symm_group_config_t, rank, size, value_of(BACKENDS, backend), device, flags, address, callbacks,
                    milliseconds(create_timeout), milliseconds(timeout), name, scratch_bytes, channels,
                )
                meet isa Store ? create(config, call) : create(config)
            end
        end
    end
end

where_to_work(backend, device::Integer) = (backend === :auto && device >= 0 ? :cuda : backend, device)
function where_to_work(backend, device::AbstractString)
    found = match(r"^cuda(?::(\d+))?$", device)
    found === nothing && throw(ArgumentError("device: $device is neither cuda nor cuda:<ordinal>"))
    ordinal = found[1] === nothing ? SYMM_DEVICE_AUTO : parse(Int32, found[1])
    return backend === :auto ? :cuda : backend, ordinal
end

create(config) = Group(given(Ptr{symm_group_t}, symm_group_create_without_callbacks, config))

function create(config, call::StoreCall)
    out = Ref{Ptr{symm_group_t}}(C_NULL)
    task = current_task()
    # A store that waits may move this task to another thread;
    # the library and its error belong to the one that called.
    sticky, task.sticky = task.sticky, true
    status = symm_group_create(config, out)
    problem = status == SYMM_OK ? nothing : last_failure()
    task.sticky = sticky
    call.failure === nothing || throw(first(call.failure))
    problem === nothing || throw(problem)
    return Group(out[])
end

Base.show(io::IO, group::Group) =
    print(io, "Group(rank ", group.rank, " of ", group.size, ", ", group.backend, isopen(group) ? ")" : ", closed)")

"""
    LibSymm.split(group, color, key=group.rank)

Divide a group. Collective. Ranks that pass the same color form a new group, in the order of their keys; a negative color is in none, and gives
`nothing`.
"""
function split(group::Group, color::Integer, key::Integer=group.rank)
    part = given(Ptr{symm_group_t}, symm_group_split, group, color, key)
    return part == C_NULL ? nothing : Group(part)
end

"`create_from_ranks(group, ranks)`: a group of some ranks of `group` (they count from 0), in this order; only they call it, with the same list."
create_from_ranks(group::Group, ranks) =
    Group(given(Ptr{symm_group_t}, symm_group_create_from_ranks, group, collect(Int32, ranks), length(ranks)))

"A group of the ranks of this rank's machine; only they call it."
local_group(group::Group) = Group(given(Ptr{symm_group_t}, symm_group_local, group))

"""
    shrink(group; name=nothing, timeout=nothing)

A group of the ranks that live and have not closed `group`, in their old order, also after a failure: `group` may be revoked, and stays as it
is. All that live call it, and get the same group or the same failure; who dies meanwhile is left out. A rank that lives and does not
come is `SYMM_ERR_TIMEOUT`; once it is gone the call can be made again.
"""
shrink(group::Group; name=nothing, timeout=nothing) = with_text(name) do text
    options = options_with(symm_group_shrink_options_t, milliseconds(timeout), text)
    Group(given(Ptr{symm_group_t}, symm_group_shrink, group, options))
end

"`translate_rank(group, other, rank)`: which rank of `group` is rank `rank` of `other`; `nothing` if it is not in `group`."
function translate_rank(group::Group, other::Group, rank::Integer)
    found = Ref{Int32}(-1)
    return looked_up(symm_group_translate_rank(group, other, rank, found)) ? Int(found[]) : nothing
end

"`failed_ranks(group)`: the ranks that this rank knows to be dead, or to have closed the group, ascending. Never waits."
function failed_ranks(group::Group)
    ranks = zeros(Int32, group.size)
    count = given(Csize_t, symm_group_failed_ranks, group, ranks, length(ranks))
    return Int.(ranks[1:count])
end

"`failure_fd(group)`: a descriptor that becomes readable when the group is revoked, for event loops; the group's, not to be closed."
failure_fd(group::Group) = RawFD(given(Int32, symm_group_failure_fd, group))

"`peer_info(group, rank)`: what is known of one rank, as a named tuple: `pid`, `host`, `machine`, `device`, `uuid`, `alive`, ..."
peer_info(group::Group, rank::Integer) = filled(symm_peer_info_t, symm_peer_info, group, rank)

"""
    stats(group)

What this rank has done on the group so far, as a named tuple; element `value + 1` of `collective_calls`, `collective_bytes` and
`algorithm_calls` is that of the collective or algorithm.
"""
stats(group::Group) = filled(symm_group_stats_t, symm_group_stats, group)

"`LibSymm.info(group)`: what is known of a group, as a named tuple: `channels`, `bootstrap`, `id`, ..."
info(group::Group) = filled(symm_group_info_t, symm_group_info, group)

"""
    status(group)

Health of a group, as a named tuple: `status` (`LibSymm.SYMM_OK`, or why the group was revoked), `failed_rank` (-1 if none), `failed_pid`,
`message`. Never waits.
"""
status(group::Group) = filled(symm_group_status_t, symm_group_status, group)

"""
    abort(group, reason="")

Revoke the group on all ranks: pending and later calls fail with `SYMM_ERR_ABORTED`. Local, never waits, from any task or thread.
"""
abort(group::Group, reason::AbstractString="") = check(symm_group_abort(group, String(reason)))

"""
    finalize_group(group; timeout=nothing)

Politely end a group: wait until all ranks have come here, so that none sees another leave early. Collective, optional.
"""
finalize_group(group::Group; timeout=nothing) = check(symm_group_finalize(group, within(timeout)))
