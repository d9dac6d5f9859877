# One rank of a group whose other ranks may be written in other languages. They share one heap, of
# which each rank takes equal pieces. Each rank writes its own piece, puts some of it into its
# neighbour's inbox and signals it, all-reduces, checks every bit, and hands its piece to the next
# rank by a token, which only ranks of its machine can use. With an argument, the sum is written to
# a file in that directory. Started by: symm run -n 4 -- julia demo.jl
using LibSymm

const HEAP = 1024 * 1024     # bytes
const FLOATS = 131072        # of this rank's own piece
const PUT = 4096             # floats put into the neighbour's inbox
const REDUCED = 65536        # floats all-reduced
const MAIL = 1024            # bytes for a token: its length in 4 bytes, then its bytes

value(rank, i) = Float32((rank + 1) * (i % 1024)) * 0.3f0
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
    isempty(ARGS) || write(joinpath(ARGS[1], string(group.rank)), sum)
    return seconds
end

"""
Give this rank's piece to the next rank, and read the piece of the previous rank. Returns the length
of the token that came; 0 if it came from another machine.
"""
function pass_on_by_token(mine, mail, right, left, mapped)
    token = export_token(mine)
    length_ = reinterpret(UInt8, [htol(UInt32(length(token)))])
    put_signal!(mail, right, [length_; token]; channel=2)

    wait_signal(mail, left; channel=2)
    mapped || return 0
    size = ltoh(reinterpret(UInt32, mail[1:4])[1])
    piece = import_token(Float32, mail[5:(4 + size)])
    check(piece[1:16] == values(left, 16), "the imported piece")
    close(piece)
    return size
end

function main()
    group = Group(; backend=:host)
    rank = group.rank
    right = mod(rank + 1, group.size)
    left = mod(rank - 1, group.size)

    heap = Heap(group, HEAP)
    mine = SymmArray{Float32}(heap, FLOATS)
    inbox = SymmArray{Float32}(heap, PUT)
    mail = SymmArray{UInt8}(heap, MAIL)
    mine .= values(rank, FLOATS)
    barrier(group)

    part = view(mine, 1:PUT)
    put_seconds = @elapsed put_signal!(inbox, right, part; channel=1)
    wait_signal(inbox, left; channel=1)
    check(inbox == values(left, PUT), "what the neighbour put")

    reduce_seconds = all_reduce_and_check(group, view(mine, 1:REDUCED))
    is_mapped = peer_info(group, left).mapped != 0
    token = pass_on_by_token(mine, mail, right, left, is_mapped)

    microseconds(t) = "$(round(1e6 * t; digits=1)) us"
    println(
        "rank $rank (Julia): put $(4PUT) B to rank $right in $(microseconds(put_seconds)); ",
        "all-reduce $(4REDUCED) B in $(microseconds(reduce_seconds)); all bits right; ",
        "imported rank $left's piece by token ($token bytes)",
    )
    return finalize_group(group)
end

main()
