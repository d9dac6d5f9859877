# One rank of a group on GPUs, with nothing but the driver: raw device pointers and a raw stream. Started by
#   symm run -n 4 -- julia --project=bindings/julia/LibSymm.jl bindings/julia/LibSymm.jl/test/gpu.jl
# Ranks may be more than GPUs. Ends with "N passed, N failed", or "skipped: <reason>" where there is no GPU or the library cannot use it.
using LibSymm
using Test
include("driver.jl")

function skip(reason)
    println("skipped: ", reason, "\n0 passed, 0 failed")
    exit(0)
end
DRIVER === nothing && skip("there is no libcuda.so.1")

# ---- the tests ---------------------------------------------------------------------------------------------

const BYTES = 4 << 20
numbers(rank, count) = Float32.(sin.((1:count) .+ 1000rank))
summed(count, ranks) = foldl((sum, rank) -> sum .+ numbers(rank, count), 1:(ranks - 1); init=numbers(0, count))
same_bits(a, b) = reinterpret(UInt32, a) == reinterpret(UInt32, b)

function neighbours(memory, stream, right, left)
    at = pointer(memory)
    mine = Span{Float32}(at, 4096)
    put_signal!(memory, right, mine; offset=1 << 20, channel=1, stream=stream)
    wait_signal(memory, left; channel=1, stream=stream)
    @test same_bits(from_device(Float32, at + 1 << 20, 4096, stream), numbers(left, 4096))

    private = device_memory(4096)
    get!(Span{UInt8}(private, 4096), memory, left; stream=UInt(stream))
    @test same_bits(from_device(Float32, private, 1024, stream), numbers(left, 1024))

    fill!(memory, 0x01020304, right; offset=2 << 20, count=1000, stream=stream)
    write_value!(memory, 0x05060708, right; offset=2 << 20 + 4000, stream=stream)
    barrier(memory.group; stream=stream)
    @test from_device(UInt32, at + 2 << 20, 1001, stream) == [fill(0x01020304, 1000); 0x05060708]
    # A peer's block through its own address.
    @test same_bits(from_device(Float32, pointer(memory, right), 4096, stream), numbers(right, 4096))
    barrier(memory.group; stream=stream)
end

function collectives(memory, stream)
    group = memory.group
    at, private = pointer(memory), device_memory(BYTES)
    for count in (1, 1000, 65536, 262144)
        allreduce!(Span{Float32}(private, count), Span{Float32}(at, count), +, group; stream=stream)
        @test same_bits(from_device(Float32, private, count, stream), summed(count, group.size))
    end
    to_device(private, BFloat16.(fill(group.rank + 1, 64)), stream)
    allreduce!(Span{BFloat16}(private, 64), max, group; stream=stream)
    @test all(==(BFloat16(group.size)), from_device(BFloat16, private, 64, stream))

    out = device_memory(4 * 256 * group.size)
    allgather!(Span{Float32}(out, 256 * group.size), Span{Float32}(at, 256), group; stream=stream)
    @test same_bits(from_device(Float32, out, 256 * group.size, stream), vcat((numbers(r, 256) for r in 0:(group.size - 1))...))
    broadcast!(Span{Float32}(out, 256), Span{Float32}(at, 256), group; root=group.size - 1, stream=stream)
    @test same_bits(from_device(Float32, out, 256, stream), numbers(group.size - 1, 256))
    @test plan(:allreduce, Span{Float32}(private, 1000), Span{Float32}(at, 1000), +, group).algorithm isa Symbol
    barrier(group; stream=stream)
end

"""Collective, as all tests are: every rank does the same, or one waits for another."""
function refusals(memory, stream)
    why = try
        signal!(memory, 99; stream=stream)
    catch e
        e
    end
    @test why isa SymmError && why.status == LibSymm.SYMM_ERR_INVALID_ARGUMENT && occursin("99", why.message)
    @test_throws ArgumentError SymmArray{Float32}(memory, 8)
    found = LibSymm.find(memory.group, pointer(memory) + 100)
    @test (found.rank, found.offset) == (memory.rank, 100)
end

"""Tokens for device memory, where the library makes them."""
function tokens(memory, stream, right, left)
    token = try
        export_token(memory; stream=stream)
    catch why
        why isa SymmError && why.status in (LibSymm.SYMM_ERR_UNSUPPORTED, LibSymm.SYMM_ERR_UNAVAILABLE) || rethrow()
        return println("rank ", memory.rank, ": no tokens for device memory: ", why.message)
    end
    private = device_memory(4096)
    to_device(private, [reinterpret(UInt8, [UInt32(length(token))]); token], stream)
    put_signal!(memory, right, Span{UInt8}(private, length(token) + 4); offset=3 << 20, channel=2, stream=stream)
    wait_signal(memory, left; channel=2, stream=stream)
    size = from_device(UInt32, pointer(memory) + 3 << 20, 1, stream)[1]
    given = import_token(from_device(UInt8, pointer(memory) + 3 << 20 + 4, Int(size), stream); stream=stream)
    @test given.bytes == BYTES && same_bits(from_device(Float32, pointer(given), 4096, stream), numbers(left, 4096))
    barrier(memory.group; stream=stream)
    close(given; stream=stream)
end

function main()
    group = try
        Group(backend=:cuda, overlapping_devices=true, timeout=30, create_timeout=60)
    catch why
        why isa SymmError && why.status == LibSymm.SYMM_ERR_UNAVAILABLE || rethrow()
        skip(why.message)
    end
    stream = use_device(LibSymm.info(group).device)
    memory = SymmMemory(group, BYTES)
    to_device(pointer(memory), numbers(group.rank, BYTES ÷ 4), stream)
    barrier(group; stream=stream)
    right, left = mod(group.rank + 1, group.size), mod(group.rank - 1, group.size)
    results = @testset "rank $(group.rank) of $(group.size) on GPU $(LibSymm.info(group).device)" begin
        refusals(memory, stream)
        collectives(memory, stream)
        neighbours(memory, stream, right, left)
        tokens(memory, stream, right, left)
    end
    finish(stream)
    finalize_group(group)
    println(results.n_passed, " passed, 0 failed")  # a failure has thrown
end

# The others learn of a failure by this rank's end.
try
    main()
catch why
    println(sprint(showerror, why, catch_backtrace()), "\n0 passed, 1 failed")
    exit(1)
end
