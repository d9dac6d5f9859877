"""
    Group(; options...)
    Group(rank, size; options...)

The ranks that share memory. Collective: every rank makes the group.

The first form takes rank and size from the launcher (`symm run`, `mpirun`, `torchrun`, `srun`);
without a launcher it is a group of one.

Options:

- `bootstrap`: where the ranks meet: `"tcp://host:port"`, where rank 0 listens on its machine;
  `"dir:///path"`, a private directory; `"thread://name"`, for ranks that are threads of this
  process; `"env://"`, what the launcher says; or `nothing` for `\$SYMM_BOOTSTRAP`, else `"env://"`.
- `store`: a [`Store`](@ref) of the caller's, instead of `bootstrap`; it needs rank and size.
- `id`: what `unique_id()` returned on one rank, the same on all ranks, instead of `bootstrap`; it
  needs rank and size.
- `backend`: `:auto`, `:host` or `:cuda`. Automatic is CUDA if a device is named, else
  `\$SYMM_BACKEND`, else the host.
- `device`: a CUDA ordinal, `"cuda:1"`, or `"cuda"` for this rank's share of the devices.
- `name`: tells apart groups that are made at one time.
- `timeout`, `create_timeout`: seconds; `Inf` for none, `nothing` for the default.
- `overlapping_devices`: several ranks may use one GPU.
- `check`: compare the arguments of every collective on all ranks.
- `multicast`: multicast addresses for the group's memories, where the hardware has them. All ranks
  must ask.
- `shared_scratch`: groups made of this one, except by `shrink`, work in its scratch, for CUDA only.
  Collectives of all these groups have one order, in graphs too, and a failure of one is a failure
  of all; symm.h has the exact rules.
- `any_order`: all-reduces between machines may combine floats in an order of their own, which takes
  less time. All ranks must ask.
- `tree_order`: floats are combined as a balanced binary tree of the ranks, so that a sum has the
  same bits however many ranks share the work. All ranks must ask.
- `same_offsets`: a promise about each all-reduce, all-gather, all-to-all and broadcast: the
  destination is private on all ranks, or at one offset of one memory on all ranks, and the call is
  in place on all ranks or on none. Large calls then use copy engines with CUDA. All ranks must ask.
- `variables_at_load`: the environment variables for this call are those that the library found when
  it was loaded; for a thread that makes a group while another one may change `ENV`.
- `channels`: the number of channels of barriers, and of signals of memories that ask for no other
  number; 0 means 64.
- `scratch_bytes`: the most bytes for the scratch of this group and of each group made of it; 0
  means as many as are fastest.

`check`, `multicast`, `any_order` and `tree_order` are what the environment says (`\$SYMM_CHECK`,
`\$SYMM_MULTICAST`, `\$SYMM_ORDER`) unless they are given; `false` is a "no", whatever it says.

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

Group(; options...) = Group(0, 0; options...)

"""
    unique_id()

An id by which the ranks of one group meet: bytes that one rank, or any other process, makes and
sends to all ranks by any means. Local. Each rank passes them to
`Group(rank, size; id)`.

Where libsodium, the secret file and an address of this machine can be had, this process listens for
ranks on any machine, and must live until the group is formed. Else, or with
`SYMM_ID_ADDRESS=machine`, the ranks must be on this machine, and this process may end. An id serves
for one group.
"""
function unique_id()
    id = Vector{UInt8}(undef, SYMM_UNIQUE_ID_MAX_BYTES)
    used = produced(Csize_t) do call, out
        return symm_unique_id(within(call), id, length(id), out)
    end
    return resize!(id, used)
end

function Group(
    rank::Integer,
    size::Integer;
    bootstrap::Union{AbstractString,Nothing}=nothing,
    store::Union{Store,Nothing}=nothing,
    id::Union{AbstractVector{UInt8},Nothing}=nothing,
    backend::Symbol=:auto,
    device::Union{Integer,AbstractString,Nothing}=nothing,
    name::AbstractString="",
    timeout=nothing,
    create_timeout=nothing,
    channels::Integer=0,
    scratch_bytes::Integer=0,
    variables_at_load::Bool=false,
    flags...,
)
    count(!isnothing, (bootstrap, store, id)) <= 1 ||
        throw(ArgumentError("ranks meet by one of bootstrap, store and id"))
    backend, ordinal = backend_and_device(backend, device)
    added, removed = group_flags(; flags...)
    on_device = ordinal === nothing ? UInt64(0) : SYMM_GROUP_ON_DEVICE
    at_load = variables_at_load ? SYMM_GROUP_VARIABLES_AT_LOAD : UInt64(0)
    store_call = StoreCall(something(store, Store(nothing, nothing)), nothing)
    callbacks = Ref(symm_store(store_call))
    texts = (String(name), bootstrap === nothing ? nothing : String(bootstrap))

    id_bytes = id === nothing ? UInt8[] : Vector{UInt8}(id)

    GC.@preserve store_call callbacks texts id_bytes begin
        has_store = store !== nothing
        fields = (
            rank,
            size,
            value_of(BACKENDS, backend),
            something(ordinal, 0),
            added | on_device | at_load,
            text_for_c(texts[2]),
            has_store ? Base.unsafe_convert(Ptr{symm_store_t}, callbacks) : C_NULL,
            id === nothing ? C_NULL : Ptr{Cvoid}(pointer(id_bytes)),
            length(id_bytes),
            milliseconds(create_timeout),
            milliseconds(timeout),
            text_for_c(texts[1]),
            scratch_bytes,
            channels,
        )
        return has_store ? create(fields, store_call) : create(fields)
    end
end

function backend_and_device(backend, device::AbstractString)
    found = match(r"^cuda(?::(\d+))?$", device)
    found === nothing &&
        throw(ArgumentError("device: $device is neither cuda nor cuda:<ordinal>"))
    ordinal = found[1] === nothing ? nothing : parse(Int32, found[1])
    return backend === :auto ? :cuda : backend, ordinal
end
backend_and_device(backend, device) = backend, device

# Each option of a group that is a flag of C, with the flag of its opposite, if it has one.
const GROUP_FLAGS = (
    overlapping_devices=(SYMM_GROUP_OVERLAPPING_DEVICES, nothing),
    check=(SYMM_GROUP_CHECK, SYMM_GROUP_NO_CHECK),
    multicast=(SYMM_GROUP_MULTICAST, SYMM_GROUP_NO_MULTICAST),
    shared_scratch=(SYMM_GROUP_SHARED_SCRATCH, nothing),
    any_order=(SYMM_GROUP_ANY_ORDER, SYMM_GROUP_RANK_ORDER),
    tree_order=(SYMM_GROUP_TREE_ORDER, SYMM_GROUP_RANK_ORDER),
    same_offsets=(SYMM_GROUP_SAME_OFFSETS, nothing),
)

"""
The flags that these options add, and those that a group made of another does not inherit. What is
`nothing` is left to the environment, or to the other group.
"""
function group_flags(; options...)
    added = removed = UInt64(0)
    for (name, choice) in pairs(options)
        if !haskey(GROUP_FLAGS, name)
            known = join(keys(GROUP_FLAGS), ", ")
            throw(ArgumentError("$name is not an option of a group; its flags are $known"))
        end
        flag, opposite = GROUP_FLAGS[name]
        if choice === true
            added |= flag
        elseif choice === false && opposite !== nothing
            added |= opposite
        elseif choice === false
            removed |= flag
        elseif choice !== nothing
            throw(ArgumentError("$name is true, false, or nothing for what is so anyway"))
        end
    end
    # An order that is asked for goes before another one that is not wanted.
    if added & (SYMM_GROUP_ANY_ORDER | SYMM_GROUP_TREE_ORDER) != 0
        added &= ~SYMM_GROUP_RANK_ORDER
    end
    return added, removed
end

function create(fields)
    made = produced(Ptr{symm_group_t}) do call, out
        config = options_of(call, symm_group_config_t, fields..., call.failure)
        return symm_group_create_without_callbacks(config, out)
    end
    return Group(made)
end

function create(fields, store_call::StoreCall)
    task = current_task()
    # A store that waits could move this task to another thread, but the call of the library belongs
    # to the thread that began it.
    sticky = task.sticky
    task.sticky = true
    try
        made = produced(Ptr{symm_group_t}) do call, out
            config = options_of(call, symm_group_config_t, fields..., call.failure)
            return symm_group_create(config, out)
        end
        return Group(made)
    catch
        # What the store has thrown is the cause of the failure.
        store_call.failure === nothing || throw(first(store_call.failure))
        rethrow()
    finally
        task.sticky = sticky
    end
end

function Base.show(io::IO, group::Group)
    print(io, "Group(rank ", group.rank, " of ", group.size, ", ", group.backend)
    return print(io, isopen(group) ? ")" : ", closed)")
end

"""
    LibSymm.split(group, color, key=group.rank; options...)

Divide a group. Collective, blocking. Ranks that pass equal colors form a new group, in the order of
their keys. A rank with a negative color is in no group, and gets `nothing`.

Options, here and of [`create_from_ranks`](@ref), [`local_group`](@ref) and [`shrink`](@ref):

- `timeout`: seconds for this call; `nothing` for the `create_timeout` of `group`.
- `name`: that of the new group; `nothing` for one made of the name of `group`.
- `create_timeout`, `group_timeout`: of the new group, which are the `create_timeout` and `timeout`
  of [`Group`](@ref).
- `check`, `multicast`, `any_order`, `tree_order`, `same_offsets`, `shared_scratch`,
  `overlapping_devices`, `channels`, `scratch_bytes`: as of [`Group`](@ref); `false` is a "no".

What is not given is inherited from `group`. All ranks of the new group give the same, but for
`timeout`.
"""
function split(group::Group, color::Integer, key::Integer=group.rank; options...)
    part = group_of_group(; options...) do how, out
        return symm_group_split(group, color, key, how, out)
    end
    return part == C_NULL ? nothing : Group(part)
end

"""
    create_from_ranks(group, ranks; options...)

A group of some ranks of `group`, in this order. Collective over these ranks, which pass equal
lists; blocking. Options are those of [`LibSymm.split`](@ref).
"""
function create_from_ranks(group::Group, ranks; options...)
    list = collect(Int32, ranks)
    made = group_of_group(; options...) do how, out
        return symm_group_create_from_ranks(group, list, length(list), how, out)
    end
    return Group(made)
end

"""
    local_group(group; options...)

A group of the ranks of this rank's machine. Collective over these ranks; blocking. Options are
those of [`LibSymm.split`](@ref).
"""
function local_group(group::Group; options...)
    return Group(group_of_group((how, out) -> symm_group_local(group, how, out); options...))
end

"""
The handle of a group that is made of another: `group_of_group(; options...) do how, out`, of which
the body makes the call.
"""
function group_of_group(
    body::F;
    name::Union{AbstractString,Nothing}=nothing,
    timeout=nothing,
    create_timeout=nothing,
    group_timeout=nothing,
    channels::Integer=0,
    scratch_bytes::Integer=0,
    flags...,
) where {F}
    added, removed = group_flags(; flags...)
    text = name === nothing ? nothing : String(name)
    return GC.@preserve text produced(Ptr{symm_group_t}) do call, out
        how = options_of(
            call,
            symm_group_options_t,
            milliseconds(timeout),
            call.failure,
            text_for_c(text),
            added,
            removed,
            scratch_bytes,
            milliseconds(create_timeout),
            milliseconds(group_timeout),
            channels,
        )
        return body(how, out)
    end
end

"""
    shrink(group; options...)

A group of the ranks that are alive and have not closed `group`, in their old order. It works after
a failure too: `group` may be revoked, and stays as it is. Options are those of
[`LibSymm.split`](@ref).

Collective over the ranks that are alive, which all get one group or all one failure; a rank that
dies meanwhile is left out. Blocking: a rank that is alive and does not call is `SYMM_ERR_TIMEOUT`;
once it is gone the call can be made again.
"""
function shrink(group::Group; options...)
    return Group(group_of_group((how, out) -> symm_group_shrink(group, how, out); options...))
end

"""
    invite(group; lifetime=nothing)

A ticket, by which other processes of this user on this machine join `group` when it grows, and the
groups that [`shrink`](@ref) and [`grow`](@ref) make of it: bytes that may travel by any means.
Local. `lifetime` is for how many seconds it is good; `nothing`: until the machine is started anew.
"""
function invite(group::Group; lifetime=nothing)
    ticket = Vector{UInt8}(undef, SYMM_TICKET_MAX_BYTES)
    used = produced(Csize_t) do call, out
        how = options_of(call, symm_invite_options_t, milliseconds(lifetime), call.failure)
        return symm_group_invite(group, how, ticket, length(ticket), out)
    end
    return resize!(ticket, used)
end

"""
    join_by_ticket(ticket; timeout=nothing, device=nothing, overlapping_devices=nothing,
                   check=nothing)

Wait, as a newcomer, until the group of the ticket grows, and become a rank of what it becomes.
Blocking. A process that waits here as a spare costs the ranks of the group nothing until they call
[`grow`](@ref). `timeout` is in seconds; `nothing` for `\$SYMM_CREATE_TIMEOUT_MS`, else 300. The
back end is the group's; `device` and `overlapping_devices` are as of [`Group`](@ref), and a spare
that names its device loads the kernels there while it waits.
"""
function join_by_ticket(
    ticket::AbstractVector{UInt8};
    timeout=nothing,
    device::Union{Integer,AbstractString,Nothing}=nothing,
    overlapping_devices=nothing,
    check=nothing,
)
    bytes = Vector{UInt8}(ticket)
    backend, ordinal = backend_and_device(:auto, device)
    flags, _ = group_flags(; check, overlapping_devices)
    on_device = ordinal === nothing ? UInt64(0) : SYMM_GROUP_ON_DEVICE
    made = GC.@preserve bytes produced(Ptr{symm_group_t}) do call, out
        config = options_of(
            call,
            symm_group_config_t,
            0,
            0,
            value_of(BACKENDS, backend),
            something(ordinal, 0),
            flags | on_device,
            C_NULL,
            C_NULL,
            C_NULL,
            0,
            milliseconds(timeout),
            0,
            C_NULL,
            0,
            0,
            call.failure,
        )
        return symm_group_join(bytes, length(bytes), config, out)
    end
    return Group(made)
end

"""
    grow(group; append=0, timeout=nothing)

A group of the ranks that are alive and have not closed `group`, and of newcomers, which wait in
[`join_by_ticket`](@ref). They take the numbers of the ranks that are gone; with `append`, so many
follow the living instead, who move up as in [`shrink`](@ref). It works after a failure too: `group`
may be revoked, and stays as it is.

Collective over the ranks that are alive, which all get one group or all one failure, after which
the call can be made again. Blocking; `timeout` is in seconds, `nothing` for the `create_timeout` of
`group`.
"""
function grow(group::Group; append::Integer=0, timeout=nothing)
    mode = append == 0 ? SYMM_GROW_FILL_DEAD : SYMM_GROW_APPEND
    made = produced(Ptr{symm_group_t}) do call, out
        how = options_of(
            call, symm_grow_options_t, milliseconds(timeout), call.failure, mode, append
        )
        return symm_group_grow(group, how, out)
    end
    return Group(made)
end

"""
    keep_spares(group, count; timeout=nothing)

Connect `count` newcomers with the ranks that are alive, as the spares of `group`: they stay in
[`join_by_ticket`](@ref), and [`grow`](@ref) takes them first, and is faster then.
`info(group).spares` tells how many wait. Groups that [`shrink`](@ref) and [`grow`](@ref) make keep
those that are left, and a later call replaces them.

Collective over the ranks that are alive. Blocking; `timeout` is in seconds, `nothing` for the
`create_timeout` of `group`.
"""
function keep_spares(group::Group, count::Integer; timeout=nothing)
    produced(Ptr{symm_group_t}) do call, out
        how = options_of(
            call,
            symm_grow_options_t,
            milliseconds(timeout),
            call.failure,
            SYMM_GROW_SPARE,
            count,
        )
        return symm_group_grow(group, how, out)
    end
    return nothing
end

"""
    translate_rank(group, other, rank)

The rank in `group` of the process that is rank `rank` of `other`; `nothing` if it is not in
`group`. Local.
"""
function translate_rank(group::Group, other::Group, rank::Integer)
    found = Ref{Int32}(-1)
    status = symm_group_translate_rank(group, other, rank, found)
    status == SYMM_ERR_NOT_FOUND && return nothing
    check(status)
    return Int(found[])
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

Describe one rank, as a named tuple: `pid`, `host`, `machine`, `machine_name`, `device`, `uuid`,
`alive` and so on. `locality` is `:same_device`, `:nvlink`, `:same_node`, `:same_machine` or
`:other_machine`, as seen from this rank. Local.
"""
function peer_info(group::Group, rank::Integer)
    about = filled(symm_group_peer_info_t, symm_group_peer_info, group, rank)
    return (; about..., locality=name_of(LOCALITIES, about.locality))
end

"""
    LibSymm.topology(group)

The links between the devices of the ranks, as `topology(backend)` has those of devices. The number
is -1 where one of two ranks is on another machine than this one. Local.
"""
function topology(group::Group)
    class = Ref{symm_topology_class_t}(0)
    links = zeros(Int32, group.size, group.size)
    check(symm_group_topology(group, class, links, length(links), C_NULL))
    # The library writes row after row, and Julia reads column after column.
    return (class=name_of(TOPOLOGIES, class[]), links=permutedims(links))
end

"""
    LibSymm.stats(group)

Counts of what this rank has done on the group so far, as a named tuple: `barriers`, `signals_sent`,
`failures`, `slept_ns` and so on. Local; never waits.
"""
stats(group::Group) = filled(symm_group_stats_t, symm_group_stats, group)

"""
    LibSymm.collective_stats(group, collective)
    LibSymm.algorithm_stats(group, algorithm)

How often this rank has made a collective on the group, `(calls, bytes)`, and how often collectives
of any kind went by an algorithm, `(calls,)`. Both are named as in [`plan`](@ref): `:allreduce`,
`:one_shot`. Local; never waits.
"""
function collective_stats(group::Group, collective::Symbol)
    code = value_of(COLLECTIVES, collective)
    return filled(symm_collective_stats_t, symm_group_collective_stats, group, code)
end
function algorithm_stats(group::Group, algorithm::Symbol)
    code = value_of(ALGORITHMS, algorithm)
    return filled(symm_algorithm_stats_t, symm_group_algorithm_stats, group, code)
end

"""
    LibSymm.info(group)

Describe a group, as a named tuple: `channels`, `bootstrap`, `id`, `flags` (those in force, of
`LibSymm.SYMM_GROUP_*`), `timeout_ms` and so on. Local.
"""
info(group::Group) = filled(symm_group_info_t, symm_group_info, group)

"""
    status(group)

Health of a group, as a named tuple with the fields of a [`SymmError`](@ref): `status`
(`LibSymm.SYMM_OK`, or why the group was revoked), `message`, and `rank`, `pid`, `os_error` and
`cuda_result`, which are `nothing` if there is none. Local; never waits.
"""
function status(group::Group)
    found = filled(symm_failure_t, symm_group_status, group)
    return (; status=found.status, message=found.message, blamed(found)...)
end

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
    return attempt(call -> symm_group_finalize(group, within(call, timeout)))
end
