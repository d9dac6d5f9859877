# One rank of a group on GPUs whose other ranks may be written in other languages, with raw device
# pointers and a stream of the driver's. Each rank writes its part, puts some of it into its
# neighbour's block and signals it, all-reduces, compares every bit with a computation on the host,
# and hands its block to the next rank by a token. `run` starts it.
using LibSymm
include("driver.jl")

const FLOATS = 131072        # the first half of a block of 1 MiB
const HALF = 4 * FLOATS      # the byte at which the second half begins
const PUT = 4096             # floats put into the neighbour's block
const REDUCED = 65536        # floats all-reduced
const TOKEN = 768 * 1024     # the byte from which a token is put

values(rank, count) = [Float32((rank + 1) * (i % 1024)) * 0.3f0 for i in 0:(count - 1)]
same_bits(a, b) = reinterpret(UInt32, a) == reinterpret(UInt32, b)
check(right, what) = right || error("wrong result: $what")

"""Sums of the values of all ranks, added in the order of the ranks, as the library adds."""
function sums(ranks, count)
    total = values(0, count)
    for rank in 1:(ranks - 1)
        total .+= values(rank, count)
    end
    return total
end

"""
Give this rank's block to the next rank, and read the block of the previous rank. Returns the length
of the token that came.
"""
function pass_on_by_token(memory, stream, right, left, device)
    token = export_token(memory; stream=stream)
    letter = [reinterpret(UInt8, [htol(UInt32(length(token)))]); token]
    staged = device_memory(length(letter))
    to_device(staged, letter, stream)
    source = Span{UInt8}(staged, length(letter))
    put_signal!(memory, right, source; offset=TOKEN, channel=2, stream=stream)

    wait_signal(memory, left; channel=2, stream=stream)
    size = ltoh(from_device(UInt32, pointer(memory) + TOKEN, 1, stream)[1])
    came = from_device(UInt8, pointer(memory) + TOKEN + 4, Int(size), stream)
    # Without a device, the block is mapped for the GPU that has the memory.
    block = import_token(came; device=device, stream=stream)
    seen = from_device(Float32, pointer(block), 16, stream)
    check(same_bits(seen, values(left, 16)), "the imported block")
    close(block; stream=stream)
    return size
end

"""Calls that this rank makes alone."""
function own_calls(memory, stream, left)
    private = device_memory(4096)
    LibSymm.get!(Span{UInt8}(private, 4096), memory, left; stream=UInt(stream))
    got = from_device(Float32, private, 1024, stream)
    check(same_bits(got, values(left, 1024)), "what was got from the neighbour")

    words = HALF + 4PUT
    fill!(memory, 0x01020304, memory.rank; offset=words, count=1000, stream=stream)
    write_value!(memory, 0x05060708, memory.rank; offset=words + 4000, stream=stream)
    seen = from_device(UInt32, pointer(memory) + words, 1001, stream)
    check(seen == [fill(0x01020304, 1000); 0x05060708], "words")

    found = LibSymm.find(memory.group, pointer(memory) + 100)
    check((found.rank, found.offset) == (memory.rank, 100), "the place of an address")
    return check_wrong_rank(memory, stream)
end

function check_wrong_rank(memory, stream)
    why = try
        signal!(memory, 99; stream=stream)
    catch e
        e
    end
    check(why isa SymmError, "a signal to rank 99")
    check(why.status == LibSymm.SYMM_ERR_INVALID_ARGUMENT, "the status of a signal to rank 99")
    return check(occursin("99", why.message), "the message of a signal to rank 99")
end

function main()
    # Ranks share GPUs if there are fewer GPUs than ranks.
    group = Group(; backend=:cuda, overlapping_devices=true)
    rank = group.rank
    right = mod(rank + 1, group.size)
    left = mod(rank - 1, group.size)
    device = LibSymm.info(group).device
    stream = use_device(device)

    memory = SymmMemory(group, 2 * HALF)
    at = pointer(memory)
    to_device(at, values(rank, FLOATS), stream)
    barrier(group; stream=stream)

    part = Span{Float32}(at, PUT)
    put_signal!(memory, right, part; offset=HALF, channel=1, stream=stream)
    wait_signal(memory, left; channel=1, stream=stream)
    seen = from_device(Float32, at + HALF, PUT, stream)
    check(same_bits(seen, values(left, PUT)), "what the neighbour put")

    reduced = device_memory(4 * REDUCED)
    destination = Span{Float32}(reduced, REDUCED)
    source = Span{Float32}(at, REDUCED)
    allreduce!(destination, source, +, group; stream=stream)
    seen = from_device(Float32, reduced, REDUCED, stream)
    check(same_bits(seen, sums(group.size, REDUCED)), "the all-reduce")

    own_calls(memory, stream, left)
    token = pass_on_by_token(memory, stream, right, left, device)
    finish(stream)
    finalize_group(group)
    println(
        "rank $rank (Julia) on GPU $device: put $(4PUT) B to rank $right; ",
        "all-reduce $(4REDUCED) B; all bits right; ",
        "imported rank $left's block by token ($token bytes)",
    )
    return nothing
end

main()
