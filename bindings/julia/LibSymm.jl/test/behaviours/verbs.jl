# The verbs of the table but for collectives. If a line has a name for it, the value of a verb gets
# that name.

# ---- groups

function run_create(r)
    return Group(;
        backend=:host,
        name=word(r, "as"),
        timeout=60,
        create_timeout=seconds(r),
        shared_scratch=flag(r, "shared_scratch"),
        check=flag(r, "check"),
    )
end

function run_split(r)
    color = number(r, "color")
    part = LibSymm.split(group(r), color, number(r, "key"))
    (part === nothing) == (color < 0) || error("a group although color < 0, or none")
    return part
end

run_local(r) = local_group(group(r))
run_create_from_ranks(r) = create_from_ranks(group(r), list(r, "ranks"))
run_shrink(r) = shrink(group(r))
run_finalize(r) = finalize_group(group(r))
run_abort(r) = abort(group(r), word(r, "reason"))

function run_expect_group(r)
    return same_fields(r, LibSymm.info(group(r)), ("rank", "size", "channels"))
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

run_die(r) = ccall(:kill, Cint, (Cint, Cint), getpid(), 9)
run_synchronize(r) = synchronize_group(group(r); timeout=seconds(r))
run_stream_wait(r) = stream_wait(group(r))
run_expect_stream_done(r) = same("done", stream_done(group(r)), true)
run_record_use(r) = record_use(thing(r, "name"))

# ---- buffers and memories

function run_alloc(r)
    alignment = number(r, "alignment", 0)
    return Buffer(group(r), number(r, "bytes"); alignment=alignment)
end

function run_rendezvous(r)
    tag = number(r, "tag", 0)
    channels = number(r, "channels", 0)
    made = SymmMemory(group(r), thing(r, "buffer"); tag=tag, channels=channels)
    has(r, "memory") && same("handle", made.handle, memory(r).handle)
    return made
end

run_release(r) = close(thing(r, "name"))

function run_expect_memory(r)
    return same_fields(r, LibSymm.info(memory(r)), ("rank", "size", "bytes", "channels"))
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

run_put(r) = LibSymm.put!(memory(r), rank(r), piece(r, "source"); offset=offset(r))
run_get(r) = LibSymm.get!(piece(r, "destination"), memory(r), rank(r); offset=offset(r))

function run_fill32(r)
    value = UInt32(number(r, "value"))
    return fill!(memory(r), value, rank(r); offset=offset(r), count=number(r, "count"))
end

function run_write_value(r, T)
    return write_value!(memory(r), T(number(r, "value")), rank(r); offset=offset(r))
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
    names = ("used_bytes", "free_bytes", "largest_free", "pieces", "fragmentation")
    return same_fields(r, LibSymm.info(thing(r, "heap")), names)
end

# ---- signals

run_signal(r) = signal!(memory(r), rank(r); channel=channel(r))

function run_wait_signal(r)
    return wait_signal(memory(r), rank(r); channel=channel(r), timeout=seconds(r))
end

run_test_signal(r) = expect_count(r, test_signal(memory(r), rank(r); channel=channel(r)))

function run_put_signal(r)
    source = piece(r, "source")
    return put_signal!(memory(r), rank(r), source; offset=offset(r), channel=channel(r))
end

function run_signal_value(r)
    op = constant("SIGNAL", word(r, "signal"))
    return signal_value!(memory(r), rank(r), number(r, "value"); op=op, channel=channel(r))
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

run_export(r) = export_token(piece(r); hold=seconds(r, "hold_ms"))
run_import(r) = import_token(thing(r, "token"))
run_withdraw(r) = ipc_withdraw(piece(r); timeout=seconds(r))

function run_expect_import(r)
    names = ("bytes", "offset", "host_memory")
    return same_fields(r, LibSymm.info(thing(r, "import")), names)
end

function run_expect_holders(r)
    return same_fields(r, ipc_holders(piece(r)), ("leases", "processes", "quarantined"))
end
