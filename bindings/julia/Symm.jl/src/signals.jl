# SPDX-License-Identifier: Apache-2.0

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

Take one signal from `rank`, waiting for it if need be.
"""
wait_signal(A, rank::Integer; channel::Integer=0, timeout=nothing, stream=nothing) =
    check(symm_wait_signal(memory_of(A), rank, channel, within(timeout), stream_for(stream, group_of(A))))

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

"""
    stream_done(group; stream=nothing)

Whether all that was issued on `stream` is over; always on the host.
"""
function stream_done(group::Group; stream=nothing)
    done = Ref{Int32}(0)
    check(symm_stream_query(group, stream_for(stream, group), done))
    return done[] != 0
end

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
