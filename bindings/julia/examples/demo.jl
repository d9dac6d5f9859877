# SPDX-License-Identifier: Apache-2.0
#
# One rank of a group whose other ranks may be written in other languages. Each writes its part, puts some of it into its neighbour's block and
# signals it, all-reduces, checks every bit, and hands its block to the next rank by a token. Started by: symm run -n 4 -- julia demo.jl
using Symm

const FLOATS = 131072        # the first half of a block of 1 MiB
const HALF = 4 * FLOATS      # where the second half begins, in bytes
const PUT = 4096             # floats put into the neighbour's block
const REDUCED = 65536        # floats all-reduced
const TOKEN = 768 * 1024     # where a token is put, in bytes

value(rank, i) = Float32((rank + 1) * (i % 1024))
values(rank, count) = [value(rank, i) for i in 0:(count - 1)]
check(right, what) = right || error("wrong result: $what")

function all_reduce_and_check(group, mine)
    sum = zeros(Float32, REDUCED)
    seconds = @elapsed allreduce!(sum, mine, +, group)
    expected = values(0, REDUCED)
    for rank in 1:(group.size - 1)
        expected .+= values(rank, REDUCED)
    end
    check(reinterpret(UInt32, sum) == reinterpret(UInt32, expected), "the all-reduce")
    return seconds
end

"""Give this rank's block to the next, and read the one that came. Returns the length of that token."""
function pass_on_by_token(memory, right, left)
    token = export_token(memory)
    length_ = reinterpret(UInt8, [htol(UInt32(length(token)))])
    put_signal!(memory, right, [length_; token]; offset=TOKEN, channel=2)
    wait_signal(memory, left; channel=2)
    size = ltoh(SymmArray{UInt32}(memory, 1; offset=TOKEN)[1])
    came = Array(SymmArray{UInt8}(memory, Int(size); offset=TOKEN + 4))
    block = import_token(Float32, came)
    check(block[1:16] == values(left, 16), "the imported block")
    close(block)
    return size
end

function main()
    group = Group(backend=:host)
    rank, right, left = group.rank, mod(group.rank + 1, group.size), mod(group.rank - 1, group.size)
    memory = SymmMemory(group, 2 * HALF)
    mine = SymmArray{Float32}(memory, FLOATS)
    received = SymmArray{Float32}(memory, PUT; offset=HALF)
    mine .= values(rank, FLOATS)
    barrier(group)

    part = view(mine, 1:PUT)
    put_seconds = @elapsed put_signal!(memory, right, part; offset=HALF, channel=1)
    wait_signal(memory, left; channel=1)
    check(received == values(left, PUT), "what the neighbour put")

    reduce_seconds = all_reduce_and_check(group, view(mine, 1:REDUCED))
    token = pass_on_by_token(memory, right, left)
    microseconds(t) = round(1e6 * t; digits=1)
    println(
        "rank $rank (Julia): put $(4PUT) B to rank $right in $(microseconds(put_seconds)) us; all-reduce $(4REDUCED) B in ",
        "$(microseconds(reduce_seconds)) us; all bits right; imported rank $left's block by token ($token bytes)",
    )
    finalize_group(group)
end

main()
