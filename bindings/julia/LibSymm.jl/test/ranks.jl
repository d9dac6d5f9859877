# One of three ranks: first what is Julia's own, then the table of behaviours that all
# languages run, which ends with the death of rank 2.
using LibSymm
using Test

include("behaviours.jl")

# Ranks, not only this process, stop at the first failure: the others then learn of it.
function own_tests(group)
    rank, right, left = group.rank, mod(group.rank + 1, 3), mod(group.rank - 1, 3)

    @testset "peers" begin
        A = SymmArray{Float32}(group, 10, 10)
        A .= rank
        barrier(group)
        @test all(==(right), peer(A, right)) && all(==(left), peer(A, left))
        @test peer(peer(A, right), left)[1] == left
        barrier(group)
        LibSymm.put!(A, right, fill(100.0f0 + rank, 5); at=11)
        signal!(A, right; channel=2)
        wait_signal(A, left; channel=2)
        @test A[11:15] == fill(100 + left, 5) && A[10] == rank && A[16] == rank
        put_signal!(A, left, view(A, 11:12); at=99)
        wait_signal(A, right)
        @test A[99:100] == [100 + rank, 100 + rank]
        barrier(group)
        @test LibSymm.get!(zeros(Float32, 2), A, right; at=99) == [100 + right, 100 + right]
        barrier(group)
        fill!(A, 7, right; at=2, count=3)
        write_value!(A, 8, right; at=5)
        barrier(group; ranks=0:2, channel=1)
        @test A[1:6] == [rank, 7, 7, 7, 8, rank]
        # Plain stores to another rank.
        barrier(group)
        peer(A, left)[1:3] .= rank
        barrier(group)
        @test A[1:3] == fill(right, 3)
        barrier(group)
    end

    @testset "collectives" begin
        A = SymmArray{Int64}(group, 6)
        A .= (1:6) .+ 10 * rank
        @test allreduce(A, +) == 3 .* (1:6) .+ 30 && allreduce(A, max) == (1:6) .+ 20
        @test LibSymm.broadcast!(zeros(Int64, 6), rank == 1 ? A : nothing, group; root=1) == (1:6) .+ 10
        sum_ = reduce!(rank == 2 ? zeros(Int64, 6) : nothing, A, +, group; root=2)
        @test rank == 2 ? sum_ == 3 .* (1:6) .+ 30 : sum_ === nothing
        barrier(group)
        # In place: views of parts, and the group of the array.
        @test reduce_scatter!(A, +) == 3 .* (2rank + 1:2rank + 2) .+ 30
        A .= rank
        @test allgather!(A) == [0, 0, 1, 1, 2, 2]
        @test LibSymm.broadcast!(A .+= 10rank; root=2) == [20, 20, 21, 21, 22, 22]
        @test_throws ArgumentError alltoallv_device!(zeros(3), view(ones(Int, 6), 1:2:5), zeros(3), ones(Int, 3), group)
    end

    @testset "a store of our own" begin
        # It waits and yields.
        directory = joinpath(ENV["SYMM_TEST_DIRECTORY"], "store")
        mkpath(directory)
        named(key) = joinpath(directory, bytes2hex(Vector{UInt8}(key)))
        function set(key, value, seconds)
            write(named(key) * ".new", value)
            mv(named(key) * ".new", named(key))
        end
        function get(key, seconds)
            deadline = time() + seconds
            while !isfile(named(key))
                time() < deadline || return nothing
                sleep(0.01)
            end
            return read(named(key))
        end
        other = Group(rank, 3, Store(set, get); backend=:host, create_timeout=60)
        @test allreduce!([rank], +, other) == [3]
        finalize_group(other)
    end
end

messages = []
on_log((level, message) -> push!(messages, message), :debug)
group = Group(backend=:host, name="julia", timeout=60, create_timeout=60)
@testset "rank $(group.rank)" begin
    own_tests(group)
end
finalize_group(group)
close(group)

scenarios = Behaviours.run_table(ARGS[1], parse(Int, ENV["SYMM_RANK"]))

# The death of rank 2 is told by the library's own thread.
LibSymm.flush_log()
told = any(message -> occursin("rank 2", message), messages)
on_log(nothing)
told || (println("no message of rank 2 among ", messages); exit(1))
println("rank ", ENV["SYMM_RANK"], ": ", scenarios, " scenarios")
