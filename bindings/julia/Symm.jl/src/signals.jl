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
