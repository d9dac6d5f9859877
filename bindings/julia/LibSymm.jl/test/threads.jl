# Ranks that are threads of this process. One rank waits in the library while the other makes
# garbage: if waiting held up the collector, the other rank would stop in it and never come.

function rank_of_threads(rank)
    place = "thread://julia-$(getpid())"
    group = Group(rank, 2; bootstrap=place, backend=:host, create_timeout=60, timeout=30)
    A = SymmArray{Float64}(group, 1000)
    A .= rank + 1
    if rank == 1
        for _ in 1:20
            sum(rand(100_000))
            GC.gc(false)
        end
    end
    barrier(group)

    allreduce!(A, +)
    rank == 0 && signal!(A, 1)
    rank == 1 && wait_signal(A, 0)
    finalize_group(group)
    return sum(A)
end

@testset "ranks as threads" begin
    if Threads.nthreads() < 2
        @info "skipped: ranks as threads (start julia with -t 2)"
    else
        # One task on each thread, whatever the scheduler would like.
        results = zeros(2)
        Threads.@threads for rank in 0:1
            results[rank + 1] = rank_of_threads(rank)
        end
        @test results == [3000, 3000]
    end
end

"""
The number of calls, of many tasks that share a thread, that threw the failure of another call. Each
call asks for a channel of its own, which does not exist, and which the message names.
"""
function misled_calls(group, tasks, calls)
    misled = 0
    @sync for task in 1:tasks
        @async for call in 1:calls
            channel = 1000 + task * calls + call
            why = error_of(() -> barrier(group; channel=channel))
            misled += !startswith(why.message, "channel: $channel ")
            yield()
        end
    end
    return misled
end

# The library keeps the last failure of each thread, and tasks share threads and change them. So
# each call has a place of its own for its failure.
@testset "failures of tasks that share a thread" begin
    group = Group(; backend=:host, name="tasks")
    @test misled_calls(group, 500, 10) == 0
    close(group)
end

@testset "a failure belongs to its call" begin
    group = Group(; backend=:host, name="own")
    memory = SymmMemory(group, 64)
    beyond(call, channel) =
        LibSymm.symm_signal(memory, 0, channel, LibSymm.within(call), C_NULL)

    # Between a call and the look at its failure a finalizer may fail, in calls of both kinds.
    first_call = LibSymm.take_frame()
    status = beyond(first_call, 1001)
    @test error_of(() -> signal!(memory, 0; channel=1002)).message[1:13] == "channel: 1002"
    @test error_of(() -> pointer(memory, 77)).status == LibSymm.SYMM_ERR_INVALID_ARGUMENT
    why = LibSymm.failure_of(first_call, status)
    @test startswith(why.message, "channel: 1001 ")

    # What one call has left is not shown by the next.
    @test first_call === LibSymm.take_frame()
    lost = LibSymm.failure_of(first_call, LibSymm.SYMM_ERR_TIMEOUT)
    @test lost.status == LibSymm.SYMM_ERR_INTERNAL
    @test !occursin("1001", lost.message)

    # A frame that is lost with an exception of Julia's is replaced.
    @test_throws InexactError signal!(memory, typemax(Int))
    @test error_of(() -> signal!(memory, 0; channel=1003)).message[1:13] == "channel: 1003"
    close(group)
end

# A task waits at another thread's end with the failure of a call that this thread made.
@testset "a failure that another thread reads" begin
    if Threads.nthreads() < 2
        @info "skipped: a failure that another thread reads (start julia with -t 2)"
    else
        group = Group(; backend=:host, name="wandering")
        memory = SymmMemory(group, 64)
        call = LibSymm.take_frame()
        status = LibSymm.symm_signal(memory, 0, 1004, LibSymm.within(call), C_NULL)
        messages = Vector{String}(undef, 2)
        Threads.@threads for n in 1:2
            if n == 2
                error_of(() -> signal!(memory, 0; channel=1005))
                messages[2] = LibSymm.failure_of(call, status).message
            end
        end
        @test startswith(messages[2], "channel: 1004 ")
        close(group)
    end
end
