# Calls that do not block: requests, and tasks that wait for them while others go on.

@testset "requests" begin
    group = Group(; backend=:host, name="requests", timeout=20)

    @testset "are awaited in any order" begin
        arrays = [fill(Int64(i), i) for i in 1:20]
        requests = [LibSymm.start(allreduce!, A, +, group) for A in arrays]
        for i in reverse(1:20)
            @test fetch(requests[i]) === arrays[i]
            @test isready(requests[i])
            @test LibSymm.test(requests[i])
        end
        @test LibSymm.info(requests[1]).call == "allreduce"
        @test wait(LibSymm.start(barrier, group)) === nothing
        barrier(group)
    end

    @testset "tell numbers at the end" begin
        words = SymmArray{UInt64}(group, 4)
        words .= 0
        started = [LibSymm.start(LibSymm.atomic!, words, +, 5, 0; at=2) for _ in 1:2]
        @test fetch.(started) == [0, 5]
        @test words[2] == 10
        sides = [(:recv, 0, zeros(2)), (:send, 0, ones(2))]
        @test fetch(LibSymm.start(messages, group, sides)) == 16
        signals = LibSymm.start(wait_signals, words, [(0, 1, >=, 7), (0, 2, >=, 3)]; any=true)
        signal_value!(words, 0, 3; channel=2)
        @test fetch(signals) == 2
    end

    @testset "tell elements as the blocking call does" begin
        highest = [typemax(UInt32), typemax(UInt64), Int32(-3), Int64(-3), -1.5f0, -1.5]
        for value in highest
            A = SymmArray{typeof(value)}(group, 4)
            LibSymm.atomic!(A, :swap, value, 0)
            started = LibSymm.start(LibSymm.atomic!, A, :fetch, zero(value), 0)
            @test fetch(started) === value
            @test LibSymm.atomic!(A, :fetch, zero(value), 0) === value
        end
    end

    @testset "let other tasks of the thread run" begin
        into = zeros(Int32, 4)
        turns = Ref(0)
        request = LibSymm.start(LibSymm.recv!, into, group, 0)
        other = @async begin
            for _ in 1:5
                sleep(0.01)
                turns[] += 1
            end
            LibSymm.send(group, 0, Int32[1, 2, 3])
        end
        both = [@async(fetch(request)) for _ in 1:2]
        @test fetch(request) == 12
        @test turns[] == 5
        @test fetch.(both) == [12, 12]
        @test into == [1, 2, 3, 0]
        wait(other)
    end

    @testset "go on when a wait gives up" begin
        into = zeros(UInt8, 2)
        request = LibSymm.start(LibSymm.recv!, into, group, 0; channel=1)
        for timeout in (0, 0.02)
            why = error_of(() -> wait(request; timeout=timeout))
            @test why.status == LibSymm.SYMM_ERR_TIMEOUT
            limit = round(Int, 1000 * timeout)
            @test occursin("the recv is not done within $limit ms", why.message)
        end
        @test !isready(request)
        other = LibSymm.start(LibSymm.recv!, zeros(UInt8, 2), group, 0; channel=2)
        LibSymm.send(group, 0, UInt8[7]; channel=2)
        @test LibSymm.wait_any([request, other]) == 2
        LibSymm.send(group, 0, UInt8[8, 9]; channel=1)
        @test fetch(request) == 2
        @test into == [8, 9]
    end

    @testset "keep what their calls write" begin
        function drop(group)
            LibSymm.start(LibSymm.recv!, zeros(UInt8, 100), group, 0; channel=3)
            return nothing
        end
        drop(group)
        GC.gc()
        @test length(LibSymm.KEPT) == 1
        LibSymm.send(group, 0, ones(UInt8, 100); channel=3)
        for _ in 1:1000
            fetch(LibSymm.start(barrier, group))
            isempty(LibSymm.KEPT) && break
        end
        @test isempty(LibSymm.KEPT)
    end

    @testset "are of one call" begin
        twice() = (barrier(group); barrier(group))
        @test_throws ArgumentError LibSymm.start(twice)
        @test_throws ArgumentError LibSymm.start(() -> nothing)
        @test_throws ArgumentError LibSymm.start(() -> LibSymm.start(barrier, group))
        @test error_of(() -> LibSymm.start(LibSymm.recv!, zeros(2), group, 1)).status ==
              LibSymm.SYMM_ERR_INVALID_ARGUMENT
        @test error_of(() -> LibSymm.start(synchronize_group, group)).status ==
              LibSymm.SYMM_ERR_UNSUPPORTED
        barrier(group)
    end

    @testset "end with their group" begin
        request = LibSymm.start(LibSymm.recv!, zeros(2), group, 0)
        @async (sleep(0.02); abort(group, "enough"))
        why = error_of(() -> fetch(request))
        @test why.status == LibSymm.SYMM_ERR_ABORTED
        @test occursin("enough", why.message)
    end
    close(group)
end
