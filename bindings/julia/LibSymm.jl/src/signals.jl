"""
    barrier(group; ranks=nothing, channel=0, timeout=nothing, stream=nothing)

Wait until all ranks of the group, or those of `ranks`, are here. Whatever a rank wrote before its
barrier is visible to these ranks afterwards. Collective over the ranks; on the host blocking, on
CUDA in stream order.
"""
function barrier(
    group::Group; ranks=nothing, channel::Integer=0, timeout=nothing, stream=nothing
)
    set = ranks === nothing ? C_NULL : collect(Int32, ranks)
    count = ranks === nothing ? 0 : length(set)
    on = stream_for(stream, group)
    return attempt() do call
        return symm_barrier(group, set, count, channel, within(call, timeout), on)
    end
end

"""
    signal!(A, rank; channel=0, timeout=nothing, stream=nothing)

Add one to the signals that this rank has sent to `rank` on a channel. `A` is a memory or an array
in symmetric memory. Local; on CUDA in stream order. It waits for nothing but a rank on another
machine that has not taken what was sent before, at most `timeout` seconds.
"""
function signal!(A, rank::Integer; channel::Integer=0, timeout=nothing, stream=nothing)
    memory = memory_of(A)
    on = stream_for(stream, memory.group)
    return attempt(call -> symm_signal(memory, rank, channel, within(call, timeout), on))
end

"""
    wait_signal(A, rank; channel=0, timeout=nothing, stream=nothing)

Take one signal from `rank`, and wait for it if it is not there; with `timeout=0` only look, on the
host. Local; on the host blocking, on CUDA in stream order.
"""
function wait_signal(
    A, rank::Integer; channel::Integer=0, timeout=nothing, stream=nothing
)
    memory = memory_of(A)
    on = stream_for(stream, memory.group)
    return attempt(call -> symm_wait_signal(memory, rank, channel, within(call, timeout), on))
end

"""
    signal_value!(A, rank, value; op=+, channel=0, timeout=nothing, stream=nothing)

Add `value` to the word of 64 bits that `rank` has for signals of this rank, or set that word
(`op=identity`). Local; waits as [`signal!`](@ref) does; on CUDA in stream order.
"""
function signal_value!(
    A,
    rank::Integer,
    value::Integer;
    op=+,
    channel::Integer=0,
    timeout=nothing,
    stream=nothing,
)
    memory = memory_of(A)
    on = stream_for(stream, memory.group)
    code = signal_op(op)
    return attempt() do call
        return symm_signal_value(memory, rank, channel, code, value, within(call, timeout), on)
    end
end

signal_op(::typeof(+)) = SYMM_SIGNAL_ADD
signal_op(::typeof(identity)) = SYMM_SIGNAL_SET
signal_op(number::Integer) = number

"""
    wait_signal_value(A, rank, compare, value; channel=0, timeout=nothing, stream=nothing)

Wait until the word from `rank` compares with `value` as `compare` says: `==`, `!=`, `<`, `<=`, `>`
or `>=`. Takes nothing. Local; on the host blocking, on CUDA in stream order.

Returns the word that ended the wait, or `nothing` on a GPU, where the call does not wait.
"""
function wait_signal_value(
    A,
    rank::Integer,
    compare,
    value::Integer;
    channel::Integer=0,
    timeout=nothing,
    stream=nothing,
)
    group = group_of(A)
    memory = memory_of(A)
    on = stream_for(stream, group)
    seen = on_host(group) ? Ref{UInt64}(0) : nothing
    out = something(seen, C_NULL)
    code = comparison(compare)
    attempt() do call
        how = within(call, timeout)
        return symm_wait_signal_value(memory, rank, channel, code, value, how, out, on)
    end
    return seen === nothing ? nothing : seen[]
end

"""
    wait_signals(A, waits; any=false, timeout=nothing, stream=nothing)

Wait until each of `waits`, tuples `(rank, channel, compare, value)`, has compared as it says at
some moment, or with `any` until one of them does. Takes nothing. Local; on the host blocking, on
CUDA in stream order.

With `any` it returns the index (from 1) of the first that does, or `nothing` on a GPU, where the
call does not wait.
"""
function wait_signals(A, waits; any::Bool=false, timeout=nothing, stream=nothing)
    group = group_of(A)
    size = sizeof(symm_signal_wait_t)
    all = [
        symm_signal_wait_t(size, rank, channel, comparison(compare), value) for
        (rank, channel, compare, value) in waits
    ]

    first = any && on_host(group) ? Ref{Csize_t}(0) : nothing
    out = something(first, C_NULL)
    on = stream_for(stream, group)
    memory = memory_of(A)
    mode = any ? SYMM_WAIT_ANY : SYMM_WAIT_ALL
    attempt() do call
        how = within(call, timeout)
        return symm_wait_signals(memory, all, length(all), mode, how, out, on)
    end
    return first === nothing ? nothing : Int(first[]) + 1
end

"""
    test_signal(A, rank; channel=0)
    test_signal_value(A, rank; channel=0)

The number of signals from `rank` that have arrived and were not taken, and the word of 64 bits in
which they count. Local; never waits.
"""
function test_signal(A, rank::Integer; channel::Integer=0)
    memory = memory_of(A)
    return produced(UInt64) do call, out
        return symm_test_signal(memory, rank, channel, within(call), out)
    end
end
function test_signal_value(A, rank::Integer; channel::Integer=0)
    memory = memory_of(A)
    return produced(UInt64) do call, out
        return symm_test_signal_value(memory, rank, channel, within(call), out)
    end
end

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

Wait until all work that was issued on `stream` is done, and throw the failure of the group if there
was one. Local, blocking. A timeout leaves the group usable.
"""
function synchronize_group(group::Group; timeout=nothing, stream=nothing)
    on = stream_for(stream, group)
    return attempt(call -> symm_group_synchronize(group, on, within(call, timeout)))
end

"""
    stream_done(group; stream=nothing)

Whether all work that was issued on `stream` is done; always true on the host. Local; never waits.
"""
function stream_done(group::Group; stream=nothing)
    on = stream_for(stream, group)
    done = produced(Int32) do call, out
        return symm_stream_query(group, on, within(call), out)
    end
    return done != 0
end

"""
    stream_wait(group; stream=nothing, after=nothing)

Order work that is issued on `stream` from now on after the work that was issued on `after`; without
`after`, on all streams on which calls on this group were issued. Local, in stream order.
"""
function stream_wait(group::Group; stream=nothing, after=nothing)
    on = stream_for(stream, group)
    other = after === nothing ? ALL_STREAMS : stream_handle(after)
    return attempt(call -> symm_stream_wait(group, on, other, within(call)))
end

"""
    record_use(memory; stream=nothing)
    record_use(buffer; stream=C_NULL)

Record that the work that was issued on `stream` so far uses the memory. Local, in stream order.

The call is optional, because memory is never given back under a kernel. Without records, memory is
given back when all work that the device had at the release is done. With records, it is given back
when the recorded work and this package's own calls are done; so record every use then, each after
its last work.
"""
function record_use(A; stream=nothing)
    memory = memory_of(A)
    on = stream_for(stream, memory.group)
    return attempt(call -> symm_memory_record_use(memory, within(call), on))
end
function record_use(buffer::Buffer; stream=C_NULL)
    on = stream_handle(stream)
    return attempt(call -> symm_buffer_record_use(buffer, within(call), on))
end

"""
    suspend!(buffer; keep=false, stream=C_NULL)

Give the memory of a buffer back to the system, and keep its address, for a program that sleeps.
With `keep` its contents are kept in memory of the host. Until [`resume!`](@ref), an access faults.
The tokens of the buffer end; those who have imported it keep what they have. Local, in stream
order: what was issued on `stream` before is over when the memory goes.
"""
function suspend!(buffer::Buffer; keep::Bool=false, stream=C_NULL)
    on = stream_handle(stream)
    flags = keep ? SYMM_SUSPEND_KEEP : UInt64(0)
    return attempt(call -> symm_buffer_suspend(buffer, flags, within(call), on))
end

"""
    resume!(buffer; stream=C_NULL)

Bring memory back to the address of a suspended buffer: with the contents that were kept, or zeroed.
If there is not as much memory, the buffer stays suspended. Local, in stream order.
"""
function resume!(buffer::Buffer; stream=C_NULL)
    on = stream_handle(stream)
    return attempt(call -> symm_buffer_resume(buffer, within(call), on))
end
