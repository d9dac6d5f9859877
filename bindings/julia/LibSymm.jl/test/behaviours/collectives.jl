# Collectives of the table.

const OPS = Dict(
    "SUM" => +,
    "AVG" => avg,
    "MIN" => min,
    "MAX" => max,
    "PROD" => *,
    "BAND" => &,
    "BOR" => |,
    "BXOR" => xor,
    "MINLOC" => minloc,
    "MAXLOC" => maxloc,
)

"""
Destination and source; their lengths are multiples of the collective's own count. With `result` the
destination has that type.
"""
function operands(r; to=1, from=1)
    T = element_type(r)
    R = has(r, "result") ? element_type(r, "result") : T
    count = number(r, "count")
    recv = Span{R}(address(r, "recv"), to * count)
    send = Span{T}(address(r, "send"), from * count)
    return recv, send
end

in_place(r) = flag(r, "in_place")

"""The options that a line sets: the algorithm, tag and limit, and the scale of a reduction."""
function options(r)
    chosen = Dict{Symbol,Any}()
    if has(r, "algorithm")
        chosen[:algorithm] = Symbol(lowercase(word(r, "algorithm")))
    end
    if has(r, "tag")
        chosen[:tag] = word(r, "tag")
    end
    if has(r, "max_blocks")
        chosen[:max_blocks] = number(r, "max_blocks")
    end
    if has(r, "order")
        chosen[:order] = Symbol(lowercase(word(r, "order")))
    end
    if has(r, "wire")
        chosen[:wire] = Symbol(lowercase(word(r, "wire")))
    end
    if has(r, "wire_group")
        chosen[:wire_group] = number(r, "wire_group")
    end
    if has(r, "chunk_bytes")
        chosen[:chunk_bytes] = number(r, "chunk_bytes")
        chosen[:word_value] = has(r, "word_at") ? words(r, "word_at") : value_of_words(r)
    end
    has(r, "progress") && (chosen[:progress] = words(r, "progress"))
    has(r, "ready") && (chosen[:ready] = words(r, "ready"))
    if has(r, "position")
        chosen[:scale_position] = Symbol(lowercase(word(r, "position")))
        chosen[:scale] = scale_of(r)
    end
    return chosen
end

value_of_words(r) = has(r, "word_value") ? number(r, "word_value") : 0

# The library takes the address only.
words(r, key) = unsafe_wrap(Array, Ptr{UInt32}(address(r, key)), 1)

function scale_of(r)
    has(r, "scale_at") || return number(r, "scale")
    return unsafe_wrap(Array, Ptr{Float32}(address(r, "scale_at")), 1)
end

"""
Run a reduction: `call(arrays, op)`, in place with one array, and otherwise with two. With a formula
the source is written before, and the destination is compared afterwards.
"""
function run_reduction(call, r; from=1)
    recv, send = operands(r; from=from)
    op = OPS[word(r, "op")]
    arrays = in_place(r) ? (send,) : (recv, send)
    has(r, "f") && write_elements(r, "send")
    call(arrays, op)
    has(r, "f") && expect_elements(r, "recv")
    return nothing
end

function run_allreduce(r)
    return run_reduction(r) do arrays, op
        return allreduce!(arrays..., op, group(r); options(r)...)
    end
end

function run_reduce(r)
    return run_reduction(r) do arrays, op
        return reduce!(arrays..., op, group(r); root=number(r, "root"), options(r)...)
    end
end

function run_scan(r)
    return run_reduction(r) do arrays, op
        return scan!(arrays..., op, group(r); options(r)...)
    end
end

# The last rank wins.
function run_reduce_by(r)
    which = Symbol(lowercase(word(r, "collective")))
    recv, send = operands(r; from=which === :reduce_scatter ? 3 : 1)
    root = number(r, "root", 0)
    return reduce_by!(recv, send, group(r); collective=which, root) do into, other
        copyto!(into, other)
    end
end

function run_exscan(r)
    return run_reduction(r) do arrays, op
        return exscan!(arrays..., op, group(r); options(r)...)
    end
end

function run_reduce_scatter(r)
    return run_reduction(r; from=3) do arrays, op
        return reduce_scatter!(arrays..., op, group(r); options(r)...)
    end
end

function run_allgather(r)
    recv, send = operands(r; to=3)
    arrays = in_place(r) ? (recv,) : (recv, send)
    return allgather!(arrays..., group(r); options(r)...)
end

function run_broadcast(r)
    recv, send = operands(r)
    arrays = in_place(r) ? (send,) : (recv, send)
    return LibSymm.broadcast!(arrays..., group(r); root=number(r, "root"), options(r)...)
end

function run_alltoall(r)
    recv, send = operands(r; to=3, from=3)
    arrays = in_place(r) ? (recv,) : (recv, send)
    return alltoall!(arrays..., group(r); options(r)...)
end

# Gather and scatter have no form of their own for calls in place: the operands of a line with
# `in_place` are parts of one array.

function run_gather(r)
    recv, send = operands(r; to=3)
    word(r, "in_place", "0")
    return LibSymm.gather!(recv, send, group(r); root=number(r, "root"), options(r)...)
end

function run_scatter(r)
    recv, send = operands(r; from=3)
    word(r, "in_place", "0")
    return LibSymm.scatter!(recv, send, group(r); root=number(r, "root"), options(r)...)
end

"""Counts and displacements of one operand; nothing if the collective has none of it."""
struct Blocks
    counts::Any
    displacements::Any
end

blocks(r, name) = Blocks(list(r, name * "_counts"), list(r, name * "_displacements"))

"""Elements to the end of the last block."""
function end_of(blocks)
    counts = blocks.counts
    places = something(blocks.displacements, cumsum(counts) .- counts)
    ends = (place + count for (place, count) in zip(places, counts) if count > 0)
    return reduce(max, ends; init=0)
end

function run_allgatherv(r)
    T = element_type(r)
    of_recv = blocks(r, "recv")
    recv = Span{T}(address(r, "recv"), end_of(of_recv))
    send = Span{T}(address(r, "send"), of_recv.counts[r.rank + 1])
    displacements = of_recv.displacements
    return allgatherv!(recv, of_recv.counts, send, group(r); displacements=displacements)
end

function run_reduce_scatterv(r)
    T = element_type(r)
    of_send = blocks(r, "send")
    recv = Span{T}(address(r, "recv"), of_send.counts[r.rank + 1])
    send = Span{T}(address(r, "send"), end_of(of_send))
    op = OPS[word(r, "op")]
    displacements = of_send.displacements
    return reduce_scatterv!(
        recv, send, of_send.counts, op, group(r); displacements=displacements
    )
end

function run_broadcast_bytes(r)
    T = element_type(r)
    send = Span{T}(address(r, "send"), number(r, "count"))
    recv = Span{T}(address(r, "recv"), number(r, "capacity"))
    came = broadcast_bytes!(recv, send, group(r); root=number(r, "root"))
    return expect_count(r, came)
end

function run_gatherv(r)
    T = element_type(r)
    of_recv = blocks(r, "recv")
    recv = Span{T}(address(r, "recv"), end_of(of_recv))
    send = Span{T}(address(r, "send"), number(r, "count"))
    root = number(r, "root")
    displacements = of_recv.displacements
    return gatherv!(
        recv, of_recv.counts, send, group(r); root=root, displacements=displacements
    )
end

function run_scatterv(r)
    T = element_type(r)
    of_send = blocks(r, "send")
    recv = Span{T}(address(r, "recv"), number(r, "count"))
    send = Span{T}(address(r, "send"), end_of(of_send))
    root = number(r, "root")
    displacements = of_send.displacements
    return scatterv!(
        recv, send, of_send.counts, group(r); root=root, displacements=displacements
    )
end

function run_alltoallv(r)
    T = element_type(r)
    of_recv = blocks(r, "recv")
    of_send = blocks(r, "send")
    recv = Span{T}(address(r, "recv"), end_of(of_recv))
    send = Span{T}(address(r, "send"), end_of(of_send))
    return alltoallv!(
        recv,
        of_recv.counts,
        send,
        of_send.counts,
        group(r);
        to_displacements=of_recv.displacements,
        from_displacements=of_send.displacements,
    )
end

function run_alltoallv_device(r)
    T = element_type(r)
    recv = Span{T}(address(r, "recv"), number(r, "recv_capacity"))
    send = Span{T}(address(r, "send"), number(r, "send_capacity"))
    numbers(key) = has(r, key) ? Int64.(list(r, key)) : nothing
    return alltoallv_device!(
        recv,
        numbers("recv_counts"),
        send,
        numbers("send_counts"),
        group(r);
        to_displacements=numbers("recv_displacements"),
        from_displacements=numbers("send_displacements"),
    )
end

function run_allgather_rows(r)
    T = element_type(r)
    rows = number(r, "rows")
    stride = number(r, "recv_stride")
    recv = Span{T}(address(r, "recv"), rows * stride)
    send = Span{T}(address(r, "send"), rows * number(r, "count"))
    return allgather_rows!(recv, send, rows, group(r); stride=stride)
end

function run_reduce_scatter_rows(r)
    T = element_type(r)
    rows = number(r, "rows")
    stride = number(r, "send_stride")
    recv = Span{T}(address(r, "recv"), rows * number(r, "count"))
    send = Span{T}(address(r, "send"), rows * stride)
    op = OPS[word(r, "op")]
    return reduce_scatter_rows!(recv, send, rows, op, group(r); stride=stride)
end

function run_allreduce_rmsnorm(r)
    T = element_type(r)
    tokens = number(r, "tokens")
    hidden = number(r, "hidden")
    all = tokens * hidden
    scales = word(r, "quant_scale", "") == "GROUP" ? all ÷ 128 : tokens

    array(key, E, count) = has(r, key) ? Span{E}(address(r, key), count) : nothing
    return allreduce_rmsnorm!(
        array("norm_out", T, all),
        array("send", T, all),
        array("weight", T, hidden),
        group(r);
        residual=array("residual_in", T, all),
        residual_out=array("residual_out", T, all),
        epsilon=nextfloat(0.0),  # 0 in Float32
        weight_offset=number(r, "weight_offset", 0),
        quantised=array("quant_out", UInt8, all),
        scale=array("scale_in", Float32, 1),
        scales=array("scale_out", Float32, scales),
    )
end

function run_batch(r)
    line = r.line
    tag = word(r, "tag", nothing)
    try
        batch(group(r); timeout=seconds(r), tag=tag) do calls
            r.collecting = calls
            for one in pop!(r.waiting, word(r, "calls"))
                r.line = one
                word(r, "into")
                verb_of(one)(r)
                require_all_used(r)
            end
        end
    finally
        r.collecting = nothing
        r.line = line
    end
    return nothing
end
