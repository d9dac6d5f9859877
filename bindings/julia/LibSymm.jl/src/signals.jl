"""
    barrier(group; ranks=nothing, channel=0, timeout=nothing, stream=nothing)

Wait until all ranks of the group, or those of `ranks`, are here. What they wrote before is visible after.
"""
function barrier(group::Group; ranks=nothing, channel::Integer=0, timeout=nothing, stream=nothing)
    set = ranks === nothing ? C_NULL : collect(Int32, ranks)
    count = ranks === nothing ? 0 : length(set)
    return check(symm_barrier(group, set, count, channel, within(timeout), stream_for(stream, group)))
end

"""
    signal!(A, rank; channel=0, stream=nothing)

Add one to the signals that this rank has sent to `rank` on a channel of the memory (or the memory of the array). Never waits.
"""
signal!(A, rank::Integer; channel::Integer=0, stream=nothing) =
    check(symm_signal(memory_of(A), rank, channel, stream_for(stream, group_of(A))))

"""
    wait_signal(A, rank; channel=0, timeout=nothing, stream=nothing)

Take one signal from `rank`, waiting for it if need be; with `timeout=0` only looking, on the host.
"""
wait_signal(A, rank::Integer; channel::Integer=0, timeout=nothing, stream=nothing) =
    check(symm_wait_signal(memory_of(A), rank, channel, within(timeout), stream_for(stream, group_of(A))))

"""
    signal_value!(A, rank, value; op=+, channel=0, stream=nothing)

Add `value` to the word of 64 bits that `rank` sees of this rank, or set it (`op=identity`). Never waits.
"""
signal_value!(A, rank::Integer, value::Integer; op=+, channel::Integer=0, stream=nothing) =
    check(symm_signal_value(memory_of(A), rank, channel, signal_op(op), value, stream_for(stream, group_of(A))))
signal_op(::typeof(+)) = SYMM_SIGNAL_ADD
signal_op(::typeof(identity)) = SYMM_SIGNAL_SET
signal_op(number::Integer) = number

"""
    wait_signal_value(A, rank, compare, value; channel=0, timeout=nothing, stream=nothing)

Wait until the word from `rank` compares so with `value`: `compare` is `==`, `!=`, `<`, `<=`, `>` or `>=`. Takes nothing. Returns what the word
was then, or `nothing` on a GPU, where the call does not wait.
"""
function wait_signal_value(A, rank::Integer, compare, value::Integer; channel::Integer=0, timeout=nothing, stream=nothing)
    group = group_of(A)
    seen = on_host(group) ? Ref{UInt64}(0) : nothing
    check(symm_wait_signal_value(memory_of(A), rank, channel, comparison(compare), value, within(timeout), something(seen, C_NULL),
                                 stream_for(stream, group)))
    return seen === nothing ? nothing : seen[]
end

"""
    wait_signals(A, waits; any=false, timeout=nothing, stream=nothing)

Wait until each of `waits`, tuples `(rank, channel, compare, value)`, has been as awaited, or with `any` until one of them is. Takes nothing.
With `any` it returns the index (from 1) of the first that is, or `nothing` on a GPU, where the call does not wait.
"""
function wait_signals(A, waits; any::Bool=false, timeout=nothing, stream=nothing)
    group = group_of(A)
    all = [symm_signal_wait_t(sizeof(symm_signal_wait_t), rank, channel, comparison(compare), value) for (rank, channel, compare, value) in waits]
    first = any && on_host(group) ? Ref{Csize_t}(0) : nothing
    check(symm_wait_signals(memory_of(A), all, length(all), any, within(timeout), something(first, C_NULL), stream_for(stream, group)))
    return first === nothing ? nothing : Int(first[]) + 1
end

"""
    test_signal(A, rank; channel=0)
    test_signal_value(A, rank; channel=0)

How many signals from `rank` are there and not taken, and the word of 64 bits in which they count. Never waits.
"""
test_signal(A, rank::Integer; channel::Integer=0) = given(UInt64, symm_test_signal, memory_of(A), rank, channel)
test_signal_value(A, rank::Integer; channel::Integer=0) = given(UInt64, symm_test_signal_value, memory_of(A), rank, channel)

comparison(::typeof(==)) = SYMM_COMPARE_EQ
comparison(::typeof(!=)) = SYMM_COMPARE_NE
comparison(::typeof(<)) = SYMM_COMPARE_LT
comparison(::typeof(<=)) = SYMM_COMPARE_LE
comparison(::typeof(>)) = SYMM_COMPARE_GT
comparison(::typeof(>=)) = SYMM_COMPARE_GE
comparison(number::Integer) = number

on_host(group::Group) = group.backend === :host
memory_of(memory::SymmMemory) = memory
memory_of(A::AbstractArray) = memory_of_owner(owner(A))
memory_of_owner(A::SymmArray) = A.memory
memory_of_owner(::Nothing) = throw(ArgumentError("this array is not in symmetric memory"))

"""
    synchronize_group(group; timeout=nothing, stream=nothing)

Wait until what was issued on `stream` is over, and throw what went wrong with the group. A time-out leaves it usable.
"""
synchronize_group(group::Group; timeout=nothing, stream=nothing) =
    check(symm_group_synchronize(group, stream_for(stream, group), within(timeout)))

"`stream_done(group; stream=nothing)`: whether all that was issued on `stream` is over; always on the host."
stream_done(group::Group; stream=nothing) = given(Int32, symm_stream_query, group, stream_for(stream, group)) != 0

"""
    stream_wait(group; stream=nothing, after=nothing)

What is issued on `stream` next runs after what was issued on `after`; without it, on all streams that calls on this group were issued on.
"""
stream_wait(group::Group; stream=nothing, after=nothing) =
    check(symm_stream_wait(group, stream_for(stream, group), after === nothing ? ALL_STREAMS : stream_handle(after)))

"""
    record_use(memory; stream=nothing)
    record_use(buffer; stream=C_NULL)

Say that what was issued on `stream` so far uses the memory. Needed by nobody: memory is never given back under a kernel. Without it that is
when all that the device had to do at the release is over; where uses were recorded, when those and this package's own calls are, so then
all must have been recorded, each behind its last work.
"""
record_use(A; stream=nothing) = check(symm_memory_record_use(memory_of(A), stream_for(stream, group_of(A))))
record_use(buffer::Buffer; stream=C_NULL) = check(symm_buffer_record_use(buffer, stream_handle(stream)))
