# The verbs of the table but for collectives. If a line has a name for it, the value of a verb gets
# that name.

# ---- groups

function run_create(r)
    return Group(;
        backend=:host,
        name=word(r, "as"),
        timeout=has(r, "group_timeout_ms") ? seconds(r, "group_timeout_ms") : 60,
        create_timeout=seconds(r),
        shared_scratch=flag(r, "shared_scratch"),
        check=choice(r, "check"),
        any_order=choice(r, "any_order"),
        multicast=choice(r, "multicast"),
    )
end

"""The options of a call that makes a group of another."""
function part_options(r)
    return (
        timeout=seconds(r),
        name=word(r, "name", nothing),
        check=choice(r, "check"),
        any_order=choice(r, "any_order"),
        multicast=choice(r, "multicast"),
        channels=number(r, "channels", 0),
        create_timeout=seconds(r, "create_timeout_ms"),
        group_timeout=seconds(r, "group_timeout_ms"),
    )
end

function run_expect_peer(r)
    own = group(r)
    of = number(r, "rank")
    peer = peer_info(own, of)
    same("locality", uppercase(string(peer.locality)), word(r, "locality"))
    same("links", peer.links, number(r, "links"))
    return same("links", LibSymm.topology(own).links[own.rank + 1, of + 1], number(r, "links"))
end

function run_expect_advice(r)
    array = zeros(Float32, 8)
    found = plan(:allreduce, array, array, +, group(r))
    same("advice", uppercase(string(found.advice)), word(r, "advice"))
    same("times", found.symm_ns > 0 && found.nccl_ns > 0, found.advice !== :unmeasured)
    return same("reason", isempty(found.advice_reason), false)
end

function run_make_id(r)
    id = unique_id()
    array = unsafe_wrap(Array, Ptr{UInt8}(address(r, "at")), 128)
    fill!(array, 0)
    copyto!(array, id)
    return nothing
end

function run_create_by_id(r)
    own = group(r)
    id = copy(unsafe_wrap(Array, Ptr{UInt8}(address(r, "at")), number(r, "bytes")))
    return Group(own.rank, own.size; id, backend=:host, timeout=60)
end

function run_split(r)
    color = number(r, "color")
    part = LibSymm.split(group(r), color, number(r, "key"); part_options(r)...)
    (part === nothing) == (color < 0) || error("a group although color < 0, or none")
    return part
end

run_local(r) = local_group(group(r); part_options(r)...)
function run_create_from_ranks(r)
    return create_from_ranks(group(r), list(r, "ranks"); part_options(r)...)
end
run_shrink(r) = shrink(group(r); part_options(r)...)
function run_invite(r)
    ticket = invite(group(r))
    copyto!(unsafe_wrap(Array, Ptr{UInt8}(address(r, "at")), length(ticket)), ticket)
    return nothing
end
function run_join(r)
    ticket = copy(unsafe_wrap(Array, Ptr{UInt8}(address(r, "at")), number(r, "bytes")))
    return join_by_ticket(ticket; timeout=seconds(r))
end
run_grow(r) = grow(group(r); append=number(r, "append", 0), timeout=seconds(r))
run_keep_spares(r) = keep_spares(group(r), number(r, "count"); timeout=seconds(r))
run_finalize(r) = finalize_group(group(r))
run_abort(r) = abort(group(r), word(r, "reason"))

function run_expect_group(r)
    info = LibSymm.info(group(r))
    same_fields(r, info, ("rank", "size", "channels", "spares"))
    same_time(r, info, "timeout_ms")
    same_time(r, info, "create_timeout_ms")

    with = named_flags(r, "flags")
    same("flags", info.flags & with, with)
    return same("flags that are not to be there", info.flags & named_flags(r, "without"), 0)
end

function run_expect_calls(r)
    collective = Symbol(lowercase(word(r, "collective")))
    return same_fields(r, LibSymm.collective_stats(group(r), collective), ("calls", "bytes"))
end

function run_expect_cuda(r)
    device = number(r, "device")
    function status_of(name, backend)
        try
            close(Group(; backend=backend, device=device, name=name, create_timeout=20))
        catch why
            why isa SymmError || rethrow()
            return why.status
        end
        return error("there is such a device")
    end
    # The other ranks, in other languages, make the groups in this order.
    by_itself = status_of("auto", :auto)
    named = status_of("cuda", :cuda)
    return same("the status without a back end", by_itself, named)
end

function run_expect_status(r)
    expected = constant("STATUS", word(r, "status"))
    timedwait(() -> status(group(r)).status == expected, 20.0; pollint=0.001)
    now = status(group(r))
    same("status ($(now.message))", now.status, expected)
    return same_fields(r, (failed_rank=something(now.rank, -1),), ("failed_rank",))
end

run_expect_failed(r) = same("failed", failed_ranks(group(r)), list(r, "ranks"))

function run_barrier(r)
    ranks = list(r, "among")
    return barrier(group(r); ranks=ranks, channel=channel(r), timeout=seconds(r))
end

# ---- messages

function run_send(r)
    source = Span{UInt8}(address(r, "source"), number(r, "bytes"))
    return LibSymm.send(group(r), rank(r), source; channel=channel(r), timeout=seconds(r))
end

function run_recv(r)
    room = Span{UInt8}(address(r, "destination"), number(r, "bytes"))
    came = LibSymm.recv!(room, group(r), rank(r); channel=channel(r), timeout=seconds(r))
    return expect_count(r, came)
end

function run_start_recv(r)
    room = Span{UInt8}(address(r, "destination"), number(r, "bytes"))
    receive(room) = LibSymm.recv!(room, group(r), rank(r); channel=channel(r), timeout=seconds(r))
    return LibSymm.start(receive, room)
end

run_wait_request(r) = expect_count(r, fetch(thing(r, "request"); timeout=seconds(r)))

# Block i is sent to the i-th rank of `to`, and received from the i-th rank of `from`.
function run_messages(r)
    bytes = number(r, "bytes")
    on = channel(r)
    sides(kind, key, at) = map(enumerate(list(r, key))) do (i, rank)
        block = Span{UInt8}(address(r, at) + (i - 1) * bytes, bytes)
        return (kind, rank, block, on)
    end
    sends = sides(:send, "to", "source")
    receives = sides(:recv, "from", "destination")
    all = flag(r, "receives_first") ? vcat(receives, sends) : vcat(sends, receives)
    return foreach(came -> expect_count(r, came), messages(group(r), all; timeout=seconds(r)))
end

# ---- neighbours

# Piece i of the line goes to the i-th rank of `to`.
function run_exchange(r)
    source = piece(r, "source")
    ranks = something(list(r, "to"), Int[])
    expected = something(list(r, "expects"), Int[])
    there = memory(r)
    neighbors = map(ranks, pieces(r), expected) do rank, one, bytes
        return Neighbor(rank, there, source, [one]; expected=bytes)
    end
    return Exchange(group(r), neighbors; timeout=seconds(r))
end

run_start_round(r) = start_round!(thing(r, "exchange"); timeout=seconds(r))
run_finish_round(r) = finish_round!(thing(r, "exchange"); timeout=seconds(r))

function run_neighbor_alltoallv(r)
    counts(key) = something(list(r, key), Int[])
    elements(key, count) = Span{Int32}(address(r, key), count)
    sent, received = counts("to_counts"), counts("from_counts")
    return neighbor_alltoallv!(
        elements("destination", sum(received)),
        counts("from"),
        received,
        elements("source", sum(sent)),
        counts("to"),
        sent,
        group(r);
        from_displacements=list(r, "from_displacements"),
        channel=channel(r),
        timeout=seconds(r),
    )
end

run_die(r) = ccall(:kill, Cint, (Cint, Cint), getpid(), 9)
run_synchronize(r) = synchronize_group(group(r); timeout=seconds(r))
run_stream_wait(r) = stream_wait(group(r))
run_expect_stream_done(r) = same("done", stream_done(group(r)), true)
run_record_use(r) = record_use(thing(r, "name"))

# ---- buffers and memories

bytes_of(buffer) = unsafe_wrap(Array, Ptr{UInt8}(pointer(buffer)), LibSymm.info(buffer).bytes)
run_suspend(r) = suspend!(thing(r, "name"); keep=flag(r, "keep"))
run_resume(r) = resume!(thing(r, "name"))
function run_expect_suspended(r)
    is_suspended = LibSymm.info(thing(r, "name")).flags & LibSymm.SYMM_BUFFER_SUSPENDED != 0
    return same("suspended", is_suspended, flag(r, "suspended"))
end
run_write_buffer(r) = fill!(bytes_of(thing(r, "name")), number(r, "value"))
function run_expect_buffer_bytes(r)
    return same("all bytes", all(==(number(r, "value")), bytes_of(thing(r, "name"))), true)
end

function run_alloc(r)
    alignment = number(r, "alignment", 0)
    return Buffer(group(r), number(r, "bytes"); alignment=alignment)
end

# The kernel may refuse to bind memory to nodes, as in containers, but only if it is asked to.
function run_expect_node(r)
    node = has(r, "node") ? number(r, "node") : nothing
    size = number(r, "bytes")
    try
        buffer = Buffer(group(r), size; node=node)
        same("the NUMA node", LibSymm.info(buffer).numa_node, something(node, -1))
    catch why
        is_refusal = why isa SymmError && why.status == LibSymm.SYMM_ERR_UNAVAILABLE
        is_refusal && node !== nothing || rethrow()
        same("naming the node", occursin("NUMA node $node ", why.message), true)
    end
    return nothing
end

function run_rendezvous(r)
    tag = number(r, "tag", 0)
    channels = number(r, "channels", 0)
    buffer = thing(r, "buffer")
    made = SymmMemory(group(r), buffer; tag=tag, channels=channels, timeout=seconds(r))
    has(r, "memory") && same("handle", made.handle, memory(r).handle)
    return made
end

function run_move_memory(r)
    from = has(r, "memory") ? memory(r) : nothing
    return move_memory(group(r), from; timeout=seconds(r))
end

function run_move_heap(r)
    from = has(r, "heap") ? thing(r, "heap") : nothing
    return move_heap(group(r), from; timeout=seconds(r))
end

run_release(r) = close(thing(r, "name"))

function run_expect_memory(r)
    seen = memory(r)
    if has(r, "of")
        # The library's answer, and not the object that this package has.
        same_group(r, LibSymm.group_at(seen.handle))
        same("its buffer's address", pointer(LibSymm.buffer_of(seen)), pointer(seen))
    end
    return same_fields(r, LibSymm.info(seen), ("rank", "size", "bytes", "channels"))
end

function run_expect_buffer(r)
    buffer = thing(r, "buffer")
    same_group(r, LibSymm.group_of(buffer))
    bytes = LibSymm.given(Csize_t, LibSymm.symm_buffer_bytes, buffer)
    return same("bytes", bytes, number(r, "bytes"))
end

function run_find(r)
    is_remote(r) && return skip(r)  # no address is that of a remote block

    found = LibSymm.find(group(r), address(r, "at"))
    buffer = LibSymm.find_buffer(address(r, "at"))
    if !has(r, "memory")
        found === nothing && buffer === nothing || error("found where there is nothing")
        return nothing
    end

    id = LibSymm.info(memory(r)).id
    if number(r, "rank") == r.rank
        same("offset in the buffer", buffer.offset, number(r, "offset"))
        of_buffer = LibSymm.memory_of(group(r), buffer.buffer)
        same("id by the buffer", LibSymm.info(of_buffer).id, id)
    end
    same("id", LibSymm.info(found.memory).id, id)
    same("rank", found.rank, number(r, "rank"))
    return same("offset", found.offset, number(r, "offset"))
end

run_write(r) = write_elements(r)
run_expect(r) = expect_elements(r)

# Where the bytes of a copy or a store lie, and how long the call waits.
placed(r) = (offset=offset(r), timeout=seconds(r))

run_put(r) = LibSymm.put!(memory(r), rank(r), piece(r, "source"); placed(r)...)
run_get(r) = LibSymm.get!(piece(r, "destination"), memory(r), rank(r); placed(r)...)

"""The pieces of a line, as `symm_piece_t`s."""
function pieces(r)
    numbers = something(list(r, "pieces"), Int[])
    return [LibSymm.symm_piece_t(six...) for six in Iterators.partition(numbers, 6)]
end

"""The place and the signal of pieces."""
function behind_pieces(r)
    has(r, "signal") || return placed(r)
    op = constant("SIGNAL", word(r, "signal"))
    return (; channel=channel(r), op=op, value=number(r, "value"), placed(r)...)
end

tables(r) = (from=list(r, "from_table"), to=list(r, "to_table"))

function run_put_pieces(r)
    source = piece(r, "source")
    if has(r, "page_bytes")
        page = number(r, "page_bytes")
        options = behind_pieces(r)
        return LibSymm.put_pages!(memory(r), rank(r), source, page; tables(r)..., options...)
    end
    return LibSymm.put_pieces!(memory(r), rank(r), source, pieces(r); behind_pieces(r)...)
end

function run_get_pieces(r)
    destination = piece(r, "destination")
    if has(r, "page_bytes")
        page = number(r, "page_bytes")
        options = behind_pieces(r)
        return LibSymm.get_pages!(destination, memory(r), rank(r), page; tables(r)..., options...)
    end
    return LibSymm.get_pieces!(destination, memory(r), rank(r), pieces(r); behind_pieces(r)...)
end

function run_fill(r, T)
    value = T(number(r, "value"))
    return fill!(memory(r), value, rank(r); count=number(r, "count"), placed(r)...)
end
run_fill8(r) = run_fill(r, UInt8)
run_fill16(r) = run_fill(r, UInt16)
run_fill32(r) = run_fill(r, UInt32)
run_fill64(r) = run_fill(r, UInt64)

function run_read_value(r, T)
    return expect_count(r, LibSymm.read_value(T, memory(r), rank(r); placed(r)...))
end
run_read_value32(r) = run_read_value(r, UInt32)
run_read_value64(r) = run_read_value(r, UInt64)

const ATOMICS = Dict(
    "FETCH" => :fetch,
    "ADD" => (+),
    "AND" => (&),
    "OR" => (|),
    "XOR" => xor,
    "SWAP" => :swap,
    "COMPARE_SWAP" => :compare_swap,
)

function run_atomic(r, T)
    op = ATOMICS[word(r, "atomic")]
    compare = has(r, "compared") ? T(number(r, "compared")) : nothing
    value = T(number(r, "value", 0))
    seen = LibSymm.atomic!(memory(r), op, value, rank(r); compare=compare, placed(r)...)
    return expect_count(r, seen)
end
run_atomic32(r) = run_atomic(r, UInt32)
run_atomic64(r) = run_atomic(r, UInt64)

function run_write_value(r, T)
    return write_value!(memory(r), T(number(r, "value")), rank(r); placed(r)...)
end
run_write_value32(r) = run_write_value(r, UInt32)
run_write_value64(r) = run_write_value(r, UInt64)

function run_wait_value(r, T)
    value = T(number(r, "value"))
    return wait_value(memory(r), compare(r), value; offset=offset(r), timeout=seconds(r))
end
run_wait_value32(r) = run_wait_value(r, UInt32)
run_wait_value64(r) = run_wait_value(r, UInt64)

# ---- heaps

run_heap(r) = Heap(group(r), number(r, "bytes"))

function run_take(r)
    alignment = number(r, "alignment", 0)
    taken = LibSymm.alloc(thing(r, "heap"), number(r, "bytes"); alignment=alignment)
    return same("offset", taken, number(r, "offset"))
end

function run_give(r)
    heap = thing(r, "heap")
    return LibSymm.free(heap, address(r, "at") - pointer(heap.memory))
end

function run_expect_piece(r)
    found = LibSymm.find(thing(r, "heap"), address(r, "at"))
    return same_fields(r, something(found, (offset=0, bytes=0)), ("offset", "bytes"))
end

function run_expect_heap(r)
    names = ("used_bytes", "free_bytes", "largest_free_bytes", "pieces", "fragmentation_permille")
    heap = thing(r, "heap")
    if has(r, "of")
        handle = LibSymm.given(Ptr{LibSymm.symm_group_t}, LibSymm.symm_heap_group, heap)
        same_group(r, LibSymm.Group(handle))
    end
    return same_fields(r, LibSymm.info(heap), names)
end

# ---- signals

run_signal(r) = signal!(memory(r), rank(r); channel=channel(r), timeout=seconds(r))

function run_wait_signal(r)
    return wait_signal(memory(r), rank(r); channel=channel(r), timeout=seconds(r))
end

run_test_signal(r) = expect_count(r, test_signal(memory(r), rank(r); channel=channel(r)))

function run_put_signal(r)
    source = piece(r, "source")
    return put_signal!(memory(r), rank(r), source; channel=channel(r), placed(r)...)
end

function run_put_signal_value(r)
    op = constant("SIGNAL", word(r, "signal"))
    source = piece(r, "source")
    value = number(r, "value")
    return put_signal!(
        memory(r), rank(r), source; channel=channel(r), op=op, value=value, placed(r)...
    )
end

function run_signal_value(r)
    op = constant("SIGNAL", word(r, "signal"))
    value = number(r, "value")
    return signal_value!(
        memory(r), rank(r), value; op=op, channel=channel(r), timeout=seconds(r)
    )
end

function run_wait_signal_value(r)
    seen = wait_signal_value(
        memory(r),
        rank(r),
        compare(r),
        number(r, "value");
        channel=channel(r),
        timeout=seconds(r),
    )
    return expect_count(r, seen)
end

function run_wait_signals(r)
    wait_for(rank) = (rank, number(r, "channel"), compare(r), number(r, "value"))
    waits = map(wait_for, list(r, "among"))
    first = wait_signals(memory(r), waits; any=flag(r, "any"), timeout=seconds(r))
    return first === nothing || expect_count(r, first - 1)
end

function run_test_signal_value(r)
    return expect_count(r, test_signal_value(memory(r), rank(r); channel=channel(r)))
end

# ---- memory that is shared by a token

# `hold` is nothing where the line has no `hold_ms`, so that the environment decides.
function run_export(r)
    words = (channels=number(r, "channels", 0), fence=number(r, "fence_bytes", 0))
    return export_token(piece(r); hold=seconds(r, "hold_ms"), words...)
end
run_import(r) = import_token(thing(r, "token"))
run_suspend_import(r) = suspend!(thing(r, "import"))
function run_resume_import(r)
    has(r, "token") || return resume!(thing(r, "import"))
    return resume!(thing(r, "import"), thing(r, "token"))
end
function run_expect_asleep(r)
    is_asleep = LibSymm.info(thing(r, "import")).flags & LibSymm.SYMM_IPC_SUSPENDED != 0
    return same("asleep", is_asleep, flag(r, "asleep"))
end
function run_put_import(r)
    made = thing(r, "import")
    source = piece(r, "source")
    options = (; epoch=number(r, "epoch"), behind_pieces(r)...)
    if has(r, "page_bytes")
        page = number(r, "page_bytes")
        return LibSymm.put_pages!(made, source, page; tables(r)..., options...)
    end
    return LibSymm.put_pieces!(made, source, pieces(r); options...)
end
function run_get_import(r)
    made = thing(r, "import")
    destination = piece(r, "destination")
    options = Base.structdiff(behind_pieces(r), NamedTuple{(:timeout,)})
    if has(r, "page_bytes")
        page = number(r, "page_bytes")
        return LibSymm.get_pages!(destination, made, page; tables(r)..., options...)
    end
    return LibSymm.get_pieces!(destination, made, pieces(r); options...)
end
function run_signal_import(r)
    op = constant("SIGNAL", word(r, "signal"))
    return signal_value!(thing(r, "import"), number(r, "value"); channel=channel(r), op=op)
end
function run_wait_token(r)
    token = thing(r, "token")
    how = (channel=channel(r), timeout=seconds(r))
    return expect_count(r, ipc_wait_value(token, compare(r), number(r, "value"); how...))
end
run_fence(r) = ipc_fence(piece(r), number(r, "epoch"); timeout=seconds(r))
run_withdraw(r) = ipc_withdraw(piece(r); timeout=seconds(r))

# ---- bundles and versions

function run_export_bundle(r)
    first = address(r, "at")
    bytes = number(r, "bytes")
    names = split(word(r, "names"), ':')
    pieces = [
        name => unsafe_wrap(Array, Ptr{UInt8}(first + (i - 1) * bytes), bytes) for
        (i, name) in enumerate(names)
    ]
    return export_bundle(pieces; hold=seconds(r, "hold_ms"))
end

run_import_bundle(r) = import_bundle(thing(r, "token"))

function run_expect_bundle(r)
    bundle = thing(r, "import")
    same("pieces", length(bundle), number(r, "pieces", length(bundle)))
    bytes = LibSymm.info(bundle).bytes
    same("bytes", bytes, number(r, "bytes", bytes))
    has(r, "name") || return nothing
    name = word(r, "name")
    count = number(r, "count")
    count == 0 && return same("haskey", haskey(bundle, name), false)
    array = bundle[name]
    seen = reinterpret(Int32, array)[1:count]
    close(array)  # it holds the lease until the collector comes
    f = formula(r)
    from = number(r, "from")
    return same("elements", seen, [f(from, i) for i in 0:(count - 1)])
end

function run_publish(r)
    token = thing(r, "token")
    return ipc_publish(word(r, "name"), number(r, "version"), token; keep=number(r, "keep", 0))
end

function run_lookup(r)
    how = compare(r)
    found = ipc_lookup(word(r, "name"), how, number(r, "version"); timeout=seconds(r))
    expect_count(r, found.version)
    return found.token
end

function run_withdraw_version(r)
    return ipc_withdraw_version(word(r, "name"), number(r, "version"); timeout=seconds(r))
end

function run_expect_import(r)
    names = ("bytes", "offset", "host_memory")
    return same_fields(r, LibSymm.info(thing(r, "import")), names)
end

function run_expect_holders(r)
    return same_fields(r, ipc_holders(piece(r)), ("leases", "processes", "quarantined"))
end
