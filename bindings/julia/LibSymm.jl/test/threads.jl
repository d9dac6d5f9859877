# Ranks that are threads of this process. One waits in the library while the other makes garbage: if waiting held up the collector, the
# other would stop in it and never come.

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

# Other tasks run on a task's thread, or it moves to another one, between a call of C and the question what failed: the failure in the
# call's options is that of the call, whoever failed on the thread since. SYMM_TEST_TASKS=100000 makes more of them.

@testset "failures of tasks that share threads" begin
    count = parse(Int, get(ENV, "SYMM_TEST_TASKS", "5000"))
    group = Group(backend=:host, name="tasks")
    wrong, moved, misled = Threads.Atomic{Int}(0), Threads.Atomic{Int}(0), Threads.Atomic{Int}(0)
    go = Base.Event()
    tasks = map(1:count) do task
        Threads.@spawn begin
            failure = LibSymm.sized(LibSymm.symm_failure_t)
            thread = Threads.threadid()
            GC.@preserve failure begin
                address = Base.unsafe_convert(Ptr{LibSymm.symm_failure_t}, failure)
                options = LibSymm.sized_with(LibSymm.symm_wait_options_t, 0, address)
                LibSymm.symm_barrier(group, C_NULL, 0, 1000 + task, options, C_NULL)  # there is no such channel
            end
            wait(go)  # until all have called
            Threads.threadid() == thread || Threads.atomic_add!(moved, 1)
            own = "channel: $(1000 + task) "
            startswith(LibSymm.fields(failure).message, own) || Threads.atomic_add!(wrong, 1)
            startswith(LibSymm.last_failure().message, own) || Threads.atomic_add!(misled, 1)
        end
    end
    while any(task -> !istaskdone(task) && !istaskstarted(task), tasks)
        yield()
    end
    notify(go)
    foreach(wait, tasks)
    @test wrong[] == 0
    @info "of $count tasks $(moved[]) changed threads; the thread's last failure was another's for $(misled[]), their own call's for none"
    close(group)
end
