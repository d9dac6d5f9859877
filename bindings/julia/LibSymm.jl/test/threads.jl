# Ranks that are threads of this process. One waits in the library while the other makes
# garbage: if waiting held up the collector, the other would stop in it and never come.

@testset "ranks as threads" begin
    if Threads.nthreads() < 2
        @info "skipped: ranks as threads (start julia with -t 2)"
    else
        function rank_main(rank)
            group = Group(rank, 2, "thread://julia-$(getpid())"; backend=:host, create_timeout=60, timeout=30)
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
        # One task on each thread, whatever the scheduler would like.
        results = zeros(2)
        Threads.@threads for rank in 0:1
            results[rank + 1] = rank_main(rank)
        end
        @test results == [3000, 3000]
    end
end
