# One of three ranks: first the tests that are Julia's own, then the table of behaviours that all
# languages run, which ends with the death of rank 2.
using LibSymm
using Test

include("behaviours.jl")

function test_peers(group)
    rank = group.rank
    right = mod(rank + 1, 3)
    left = mod(rank - 1, 3)
    A = SymmArray{Float32}(group, 10, 10)
    A .= rank
    barrier(group)
    @test all(==(right), peer(A, right))
    @test all(==(left), peer(A, left))
    @test peer(peer(A, right), left)[1] == left

    barrier(group)
    LibSymm.put!(A, right, fill(100.0f0 + rank, 5); at=11)
    signal!(A, right; channel=2)
    wait_signal(A, left; channel=2)
    @test A[11:15] == fill(100 + left, 5)
    @test A[10] == rank
    @test A[16] == rank

    put_signal!(A, left, view(A, 11:12); at=99)
    wait_signal(A, right)
    @test A[99:100] == [100 + rank, 100 + rank]
    barrier(group)
    got = LibSymm.get!(zeros(Float32, 2), A, right; at=99)
    @test got == [100 + right, 100 + right]
    return barrier(group)
end

# Faces of grids: rows, columns and planes, each in one call, with a signal that is there last.
function test_faces(group)
    rank = group.rank
    right = mod(rank + 1, 3)
    left = mod(rank - 1, 3)
    A = SymmArray{Float64}(group, 5, 6, 7)
    B = reshape(collect(Float64, 1:210), 5, 6, 7) .+ 1000 * rank
    theirs = B .- 1000 * rank .+ 1000 * left
    expected = zeros(5, 6, 7)
    faces = [
        ((1, :, :), (5, :, :)),
        ((:, 1, :), (:, 6, :)),
        ((:, :, 1), (:, :, 7)),
        ((2:4, 3:2:5, 2:6), (4:-1:2, 1:2, 1:5)),
        ((1:1, 1:6, 7:7), (2:2, 6:-1:1, 3:3)),
        ((3, 3, 3), (2, 2, 2)),
        ((2:1, :, :), (1:0, :, :)),
        ((:, :, :), (:, :, :)),
    ]
    for (to, from) in faces
        LibSymm.put_view!(view(A, to...), right, view(B, from...); channel=4)
        wait_signal(A, left; channel=4)
        view(expected, to...) .= view(theirs, from...)
        @test A == expected
        barrier(group)

        seen = zeros(size(view(A, to...)))
        LibSymm.get_view!(view(seen, axes(seen)...), view(A, to...), right; channel=5)
        @test seen == view(B, from...)
        wait_signal(A, left; channel=5)
        barrier(group)
    end
    @test_throws DimensionMismatch LibSymm.put_view!(view(A, 1, :, :), right, zeros(5, 6))
    @test_throws ArgumentError LibSymm.put_view!(view(A, 1, :, :), right, zeros(Float32, 6, 7))
    @test_throws ArgumentError LibSymm.put_view!(view(B, 1, :, :), right, zeros(6, 7))
    @test_throws ArgumentError LibSymm.put_view!(A, right, B; value=3)
    return barrier(group)
end

"""What `f` throws."""
function thrown(f)
    try
        f()
    catch why
        return why
    end
    return nothing
end

function test_exchanges(group)
    rank = group.rank
    right = mod(rank + 1, 3)
    left = mod(rank - 1, 3)
    # Columns of halo at both ends; the rows of views do not lie in one stretch.
    A = SymmArray{Float64}(group, 5, 6)
    A .= -1
    barrier(group)
    exchange = Exchange(group, [
        Neighbor(left, view(A, 2:4, 6), view(A, 2:4, 2)),
        Neighbor(right, view(A, 2:4, 1), view(A, 2:4, 5)),
    ])
    for round in 1:20
        A[:, 2:5] .= 100 * rank + round
        start_round!(exchange)
        finish_round!(exchange)
        @test all(==(100 * left + round), A[2:4, 1])
        @test all(==(100 * right + round), A[2:4, 6])
        @test A[1, 1] == A[5, 6] == -1
    end
    why = thrown(() -> finish_round!(exchange))
    @test why.status == LibSymm.SYMM_ERR_INVALID_ARGUMENT

    # Row 2 to the right only, by pieces; the ring is closed by what comes from the left.
    source = Float64[7, 8, 9]
    pieces = [LibSymm.symm_piece_t(8, 0, 8, 2, 8, 40)]
    one_way = Exchange(
        group,
        [
            Neighbor(right, A.memory, source, pieces; expected=0),
            Neighbor(left; expected=16),
        ],
    )
    start_round!(one_way)
    finish_round!(one_way)
    @test A[1, 1:2] == [8, 9]
    barrier(group)

    wrong = [Neighbor(left, view(A, :, 1), view(A, :, 2); expected=0)]
    why = thrown(() -> Exchange(group, wrong))
    @test why.status == LibSymm.SYMM_ERR_MISMATCH
    @test_throws DimensionMismatch Neighbor(left, view(A, :, 1), zeros(4))

    send = Int32[10 * rank + i for i in 1:5]
    recv = zeros(Int32, 7)
    neighbor_alltoallv!(
        recv, [right, left], [2, 3], send, [left, right], [2, 3], group;
        from_displacements=[5, 1],
    )
    from_left, from_right = 10 * left, 10 * right
    @test recv ==
        [0, from_left + 3, from_left + 4, from_left + 5, 0, from_right + 1, from_right + 2]
    @test_throws DimensionMismatch neighbor_alltoallv!(
        recv, [right], [2, 3], send, [left], [2], group
    )
    return barrier(group)
end

function test_stores(group)
    rank = group.rank
    right = mod(rank + 1, 3)
    left = mod(rank - 1, 3)
    A = SymmArray{Float32}(group, 10, 10)
    A .= rank
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
    return barrier(group)
end

function test_collectives(group)
    rank = group.rank
    sums = 3 .* (1:6) .+ 30
    A = SymmArray{Int64}(group, 6)
    A .= (1:6) .+ 10 * rank
    @test allreduce(A, +) == sums
    @test allreduce(A, max) == (1:6) .+ 20

    source = rank == 1 ? A : nothing
    @test LibSymm.broadcast!(zeros(Int64, 6), source, group; root=1) == (1:6) .+ 10
    destination = rank == 2 ? zeros(Int64, 6) : nothing
    reduced = reduce!(destination, A, +, group; root=2)
    @test rank == 2 ? reduced == sums : reduced === nothing
    barrier(group)

    # In place: views of parts, and the group of the array.
    @test reduce_scatter!(A, +) == sums[(2rank + 1):(2rank + 2)]
    A .= rank
    @test allgather!(A) == [0, 0, 1, 1, 2, 2]
    A .+= 10rank
    @test LibSymm.broadcast!(A; root=2) == [20, 20, 21, 21, 22, 22]

    strided = view(ones(Int, 6), 1:2:5)
    @test_throws ArgumentError alltoallv_device!(
        zeros(3), strided, zeros(3), ones(Int, 3), group
    )
end

# Products of matrices, which do not commute, and a function that throws on one rank.
function test_reduce_by(group)
    rank = group.rank
    operand(r) = repeat([r + 1, 2, r, 1], 100)
    function multiply(into, other)
        for at in 1:4:length(into)
            product = reshape(into[at:(at + 3)], 2, 2) * reshape(other[at:(at + 3)], 2, 2)
            into[at:(at + 3)] = vec(product)
        end
    end
    first_ranks(n) = foldl((a, b) -> (multiply(a, b); a), map(operand, 0:(n - 1)))
    @test reduce_by!(multiply, zeros(Int, 400), operand(rank), group; width=4) == first_ranks(3)
    A = operand(rank)
    @test reduce_by!(multiply, A, A, group; width=4, collective=:scan) == first_ranks(rank + 1)
    @test_throws ArgumentError reduce_by!(multiply, A, A, group; width=3)
    @test_throws ArgumentError reduce_by!(multiply, A, A, group; collective=:allgather)

    other = LibSymm.split(group, 0)
    fails(into, other) = rank == 1 ? throw(KeyError(:here)) : nothing
    expected = rank == 1 ? KeyError : SymmError
    @test_throws expected reduce_by!(fails, zeros(Int, 4000), zeros(Int, 4000), other)
    @test status(other).status == LibSymm.SYMM_ERR_ABORTED
    return barrier(group)
end

function test_two_parts(group)
    rank = group.rank
    numbers = ComplexF64[im, rank + 2im]
    @test allreduce(numbers, +, group) == [3im, 3 + 6im]
    @test allreduce(numbers, *, group) == [im^3, (0 + 2im) * (1 + 2im) * (2 + 2im)]
    @test allreduce(numbers, avg, group) == [im, 1 + 2im]
    @test_throws SymmError allreduce(numbers, max, group)

    # All ranks have the value, and rank 2 the lowest index.
    pairs = [(2.5f0, Int32(10 - rank)), (Float32(rank), Int32(rank))]
    @test allreduce(pairs, maxloc, group) == [(2.5f0, 8), (2.0f0, 2)]
    @test allreduce(pairs, minloc, group) == [(2.5f0, 8), (0.0f0, 0)]
    @test_throws SymmError allreduce(pairs, +, group)
    return barrier(group)
end

"""A store of files, which waits and yields."""
function file_store(directory)
    named(key) = joinpath(directory, bytes2hex(Vector{UInt8}(key)))

    function set(key, value, seconds)
        write(named(key) * ".new", value)
        return mv(named(key) * ".new", named(key))
    end

    function get(key, seconds)
        deadline = time() + seconds
        while !isfile(named(key))
            time() < deadline || return nothing
            sleep(0.01)
        end
        return read(named(key))
    end

    return Store(set, get)
end

function test_store(group)
    directory = joinpath(ENV["SYMM_TEST_DIRECTORY"], "store")
    mkpath(directory)
    store = file_store(directory)
    other = Group(group.rank, 3; store=store, backend=:host, create_timeout=60)
    @test allreduce!([group.rank], +, other) == [3]
    return finalize_group(other)
end

messages = []
on_log((level, message) -> push!(messages, message), :debug)

# A rank stops at its first failure, and the others then learn of it.
group = Group(; backend=:host, name="julia", timeout=60, create_timeout=60)
@testset "rank $(group.rank)" begin
    @testset "peers" begin
        test_peers(group)
        test_faces(group)
    end
    @testset "stores" begin
        test_exchanges(group)
        test_stores(group)
    end
    @testset "collectives" begin
        test_collectives(group)
        test_reduce_by(group)
        test_two_parts(group)
    end
    @testset "a store of the caller" begin
        test_store(group)
    end
end
finalize_group(group)
close(group)

scenarios = Behaviours.run_table(ARGS[1], parse(Int, ENV["SYMM_RANK"]))

# The library's own thread logs the death of rank 2.
LibSymm.flush_log()
told = any(message -> occursin("rank 2", message), messages)
on_log(nothing)
if !told
    println("no message of rank 2 among ", messages)
    exit(1)
end
println("rank ", ENV["SYMM_RANK"], ": ", scenarios, " scenarios")
