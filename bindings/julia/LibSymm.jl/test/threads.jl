# Ranks that are threads of this process. One rank waits in the library while the other makes
# garbage: if waiting held up the collector, the other rank would stop in it and never come.

function rank_of_threads(rank)
    address = "thread://julia-$(getpid())"
    group = Group(rank, 2, address; backend=:host, create_timeout=60, timeout=30)
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

# The library keeps the last failure of each thread, and tasks share threads: nothing may switch
# tasks between a call and the look at its failure.
@testset "failures of tasks that share a thread" begin
    group = Group(; backend=:host, name="tasks")
    @test misled_calls(group, 500, 10) == 0
    close(group)
end
