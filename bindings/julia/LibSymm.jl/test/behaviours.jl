"""
Runs tests/bindings/behaviours/table.txt as one of three ranks; README.md beside it says how a line is read.
"""
module Behaviours

using LibSymm

const BYTES = 262144  # of the memory and the array with which a scenario begins

struct Line
    ranks::Any
    verb::String
    keys::Dict{String,String}
    used::Set{String}
    failure::Union{Nothing,String}
    blamed::String
    words::Vector{String}
end

function Line(text)
    parts = split(text, " -> "; limit=2)
    words = split(parts[1])
    ranks = words[1] == "all" ? (0:2) : parse.(Int, split(words[1], ','))
    keys = Dict{String,String}(Pair(String.(split(word, '='; limit=2))...) for word in words[3:end])
    length(parts) == 1 && return Line(ranks, words[2], keys, Set(), nothing, "", [])
    head, message = split(parts[2], ": "; limit=2)
    failure, blamed = [split(head, " rank="); ""]
    return Line(ranks, words[2], keys, Set(), failure, blamed, split(message, " & "))
end

"""The things of one scenario by their names. What was released stays, so that it can be misused."""
mutable struct Runner
    rank::Int
    things::Dict{String,Any}
    line::Line
end

has(r, key) = haskey(r.line.keys, key)
word(r, key) = (push!(r.line.used, key); r.line.keys[key])
word(r, key, default) = has(r, key) ? word(r, key) : default
thing(r, key) = r.things[word(r, key)]
group(r) = r.things[word(r, "group", "group")]

function integer(r, text::AbstractString)
    occursin(',', text) && return integer(r, split(text, ',')[r.rank + 1])
    text == "self" && return r.rank
    text == "left" && return mod(r.rank + 2, 3)
    text == "right" && return mod(r.rank + 1, 3)
    return parse(Int64, text)
end
number(r, key) = integer(r, word(r, key))
number(r, key, default) = has(r, key) ? number(r, key) : default
seconds(r) = has(r, "timeout_ms") && word(r, "timeout_ms") == "now" ? 0 : (ms = number(r, "timeout_ms", 0); ms == 0 ? nothing : ms / 1000)

"""A constant of the header."""
function constant(prefix, text)
    name = Symbol("SYMM_", prefix, "_", text)
    prefix == "STATUS" && (name = text == "OK" ? :SYMM_OK : Symbol("SYMM_ERR_", text))
    return getfield(LibSymm, name)
end

memory_of(x) = x
memory_of(x::Heap) = x.memory

# On another machine: its memory is not mapped here, and a
# copy stands for it. Only in the group of the scenario.
far(r) = has(r, "rank") && LibSymm.peer_info(r.things["group"], number(r, "rank")).mapped == 0
use_all(r) = union!(r.line.used, keys(r.line.keys))

function address(r, key)
    name, offset = split(word(r, key), '+')
    at = memory_of(r.things[name])
    if at isa SymmMemory && key == "at" && far(r)
        r.things["copy"] = LibSymm.get!(zeros(UInt8, LibSymm.info(at).bytes), at, number(r, "rank"))
        at = r.things["copy"]
    end
    rank = at isa SymmMemory && key == "at" ? number(r, "rank", at.rank) : nothing
    start = at isa SymmMemory ? (rank === nothing ? pointer(at) : pointer(at, rank)) : Ptr{Cvoid}(pointer(at))
    return start + integer(r, offset)
end

piece(r, key="at") = Span{UInt8}(address(r, key), number(r, "bytes"))
memory(r) = memory_of(thing(r, "memory"))
rank(r) = number(r, "rank")
offset(r) = number(r, "offset")
channel(r) = number(r, "channel", 0)

# ---- elements, bit by bit
# ----------------------------------------------------------------------------------

const TYPES = Dict(
    LibSymm.dtype(T) => T for
    T in (Bool, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float16, Float32, Float64, LibSymm.BFloat16, Float8E4M3, Float8E5M2)
)
const WORDS = Dict(1 => UInt8, 2 => UInt16, 4 => UInt32, 8 => UInt64)
storage(T) = WORDS[sizeof(T)]

encode(::Type{T}, value) where {T<:Integer} = value % storage(T)
encode(::Type{T}, value) where {T} = reinterpret(storage(T), T(value))

function formula(r)
    a, b, m, c = parse.(Int64, split(word(r, "f"), ':'))
    return (rank, i) -> mod(a * rank + b * i, m) + c
end

const OPS = Dict("SUM" => +, "AVG" => avg, "MIN" => min, "MAX" => max, "PROD" => *)

function write_elements(r, key="at")
    T, f = TYPES[constant("DTYPE", word(r, "dtype"))], formula(r)
    at = Ptr{storage(T)}(address(r, key))
    for i in 0:(number(r, "count") - 1)
        unsafe_store!(at, encode(T, f(r.rank, i)), i + 1)
    end
    far(r) || return
    name, offset = split(word(r, "at"), '+')
    piece = (1:(number(r, "count") * sizeof(storage(T)))) .+ integer(r, offset)
    LibSymm.put!(memory_of(r.things[name]), number(r, "rank"), r.things["copy"][piece]; offset=integer(r, offset))
end

function expect_elements(r, key="at")
    # what a dead machine had is gone
    far(r) && status(group(r)).status != LibSymm.SYMM_OK && return use_all(r)
    T, f = TYPES[constant("DTYPE", word(r, has(r, "result") ? "result" : "dtype"))], formula(r)
    at, shift, from = Ptr{storage(T)}(address(r, key)), number(r, "shift", 0), number(r, "from", r.rank)
    op = word(r, "op", nothing)
    for i in 0:(number(r, "count") - 1)
        value = op === nothing ? f(from, i + shift) : reduce(op == "AVG" ? (+) : OPS[op], f(rank, i + shift) for rank in 0:2)
        op == "AVG" && (value = div(value, 3))
        value *= number(r, "times", 1)
        seen = unsafe_load(at, i + 1)
        seen == encode(T, value) || error("element $i has the bits $seen, not those of $value")
    end
end

# ---- verbs
# ---------------------------------------------------------------------------------------------------

same(what, seen, expected) = seen == expected || error("$what is $seen, not $expected")
same_fields(r, info, names) = foreach(name -> same(name, getfield(info, Symbol(name)), number(r, name, getfield(info, Symbol(name)))), names)

# What the verb makes is called as the line says.
const VERBS = Dict{String,Function}(
    "expect_group" => r -> same_fields(r, LibSymm.info(group(r)), ("rank", "size", "channels")),
    "expect_memory" => r -> same_fields(r, LibSymm.info(memory(r)), ("rank", "size", "bytes", "channels")),
    "expect_status" => r -> expect_status(r),
    "create" => r -> Group(;
        backend=:host, name=word(r, "as"), timeout=60, create_timeout=seconds(r), shared_scratch=number(r, "shared_scratch", 0) != 0,
        check=number(r, "check", 0) != 0
    ),
    "split" => r -> split_group(r),
    "local" => r -> local_group(group(r)),
    "create_from_ranks" => r -> create_from_ranks(group(r), among(r, "ranks")),
    "shrink" => r -> shrink(group(r)),
    "expect_failed" => r -> same("failed", failed_ranks(group(r)), among(r, "ranks")),
    "finalize" => r -> finalize_group(group(r)),
    "abort" => r -> abort(group(r), word(r, "reason")),
    "synchronize" => r -> synchronize_group(group(r); timeout=seconds(r)),
    "stream_wait" => r -> stream_wait(group(r)),
    "expect_stream_done" => r -> same("done", stream_done(group(r)), true),
    "record_use" => r -> record_use(thing(r, "name")),
    "die" => r -> ccall(:kill, Cint, (Cint, Cint), getpid(), 9),
    "alloc" => r -> Buffer(group(r), number(r, "bytes"); alignment=number(r, "alignment", 0)),
    "rendezvous" => r -> begin
        made = SymmMemory(group(r), thing(r, "buffer"); tag=number(r, "tag", 0), channels=number(r, "channels", 0))
        has(r, "memory") && same("handle", made.handle, memory(r).handle)
        made
    end,
    "heap" => r -> Heap(group(r), number(r, "bytes")),
    "take" => r -> (at = LibSymm.alloc(thing(r, "heap"), number(r, "bytes"); alignment=number(r, "alignment", 0)); same("offset", at, number(r, "offset"))),
    "give" => r -> (heap = thing(r, "heap"); LibSymm.free(heap, address(r, "at") - pointer(heap.memory))),
    "expect_piece" => r -> same_fields(r, something(LibSymm.find(thing(r, "heap"), address(r, "at")), (offset=0, bytes=0)), ("offset", "bytes")),
    "expect_heap" => r -> same_fields(r, LibSymm.info(thing(r, "heap")), ("used_bytes", "free_bytes", "largest_free", "pieces", "fragmentation")),
    "export" => r -> (ms = number(r, "hold_ms", 0); export_token(piece(r); hold=ms == 0 ? nothing : ms / 1000)),
    "import" => r -> import_token(thing(r, "token")),
    "expect_import" => r -> same_fields(r, LibSymm.info(thing(r, "import")), ("bytes", "offset", "host_memory")),
    "expect_holders" => r -> same_fields(r, ipc_holders(piece(r)), ("leases", "processes", "quarantined")),
    "withdraw" => r -> ipc_withdraw(piece(r); timeout=seconds(r)),
    "release" => r -> close(thing(r, "name")),
    "find" => r -> find(r),
    "write" => write_elements,
    "expect" => expect_elements,
    "put" => r -> LibSymm.put!(memory(r), rank(r), piece(r, "source"); offset=offset(r)),
    "put_signal" => r -> put_signal!(memory(r), rank(r), piece(r, "source"); offset=offset(r), channel=channel(r)),
    "get" => r -> LibSymm.get!(piece(r, "destination"), memory(r), rank(r); offset=offset(r)),
    "fill32" => r -> fill!(memory(r), UInt32(number(r, "value")), rank(r); offset=offset(r), count=number(r, "count")),
    "write_value32" => r -> write_value!(memory(r), UInt32(number(r, "value")), rank(r); offset=offset(r)),
    "signal" => r -> signal!(memory(r), rank(r); channel=channel(r)),
    "wait_signal" => r -> wait_signal(memory(r), rank(r); channel=channel(r), timeout=seconds(r)),
    "signal_value" => r -> signal_value!(memory(r), rank(r), number(r, "value"); op=constant("SIGNAL", word(r, "signal")), channel=channel(r)),
    "wait_signal_value" => r -> expect_count(
        r, wait_signal_value(memory(r), rank(r), compare(r), number(r, "value"); channel=channel(r), timeout=seconds(r))
    ),
    "wait_signals" => r -> wait_several(r),
    "test_signal" => r -> expect_count(r, test_signal(memory(r), rank(r); channel=channel(r))),
    "test_signal_value" => r -> expect_count(r, test_signal_value(memory(r), rank(r); channel=channel(r))),
    "write_value64" => r -> write_value!(memory(r), UInt64(number(r, "value")), rank(r); offset=offset(r)),
    "wait_value32" => r -> wait_value(memory(r), compare(r), UInt32(number(r, "value")); offset=offset(r), timeout=seconds(r)),
    "wait_value64" => r -> wait_value(memory(r), compare(r), UInt64(number(r, "value")); offset=offset(r), timeout=seconds(r)),
    "barrier" => r -> barrier(group(r); ranks=among(r), channel=channel(r), timeout=seconds(r)),
    "allreduce" => r -> reducing(r, (a, op; o...) -> allreduce!(a..., op, group(r); o...)),
    "reduce" => r -> reducing(r, (a, op; o...) -> reduce!(a..., op, group(r); root=number(r, "root"), o...)),
    "reduce_scatter" => r -> reducing(r, (a, op; o...) -> reduce_scatter!(a..., op, group(r); o...); from=3),
    "allgather" => r -> moving(r, (a; o...) -> allgather!(a..., group(r); o...); to=3),
    "broadcast" => r -> moving(r, (a; o...) -> LibSymm.broadcast!(a..., group(r); root=number(r, "root"), o...)),
    "gather" => r -> moving(r, (a; o...) -> LibSymm.gather!(a..., group(r); root=number(r, "root"), o...); to=3),
    "scatter" => r -> moving(r, (a; o...) -> LibSymm.scatter!(a..., group(r); root=number(r, "root"), o...); from=3),
    "allgather_rows" => r -> begin
        T, rows, count, stride = TYPES[constant("DTYPE", word(r, "dtype"))], number(r, "rows"), number(r, "count"), number(r, "recv_stride")
        to, from = Span{T}(address(r, "recv"), rows * stride), Span{T}(address(r, "send"), rows * count)
        allgather_rows!(to, from, rows, group(r); stride)
    end,
    "allreduce_rmsnorm" => r -> begin
        T, tokens, hidden = TYPES[constant("DTYPE", word(r, "dtype"))], number(r, "tokens"), number(r, "hidden")
        array(key, E, count) = has(r, key) ? Span{E}(address(r, key), count) : nothing
        scales = has(r, "quant_scale") && word(r, "quant_scale") == "GROUP" ? tokens * hidden ÷ 128 : tokens
        rows(key) = array(key, T, tokens * hidden)
        allreduce_rmsnorm!(
            rows("norm_out"), rows("send"), array("weight", T, hidden), group(r); residual=rows("residual_in"), residual_out=rows("residual_out"),
            epsilon=0, weight_offset=number(r, "weight_offset", 0), quantised=array("quant_out", UInt8, tokens * hidden),
            scale=array("scale_in", Float32, 1), scales=array("scale_out", Float32, scales),
        )
    end,
    "allgatherv" => r -> in_blocks(r, (to, tc, td, from, fc, fd) -> allgatherv!(to, tc, from, group(r); displacements=td)),
    "reduce_scatterv" => r -> in_blocks(
        r, (to, tc, td, from, fc, fd) -> reduce_scatterv!(to, from, fc, OPS[word(r, "op")], group(r); displacements=fd)
    ),
    "alltoallv" => r -> in_blocks(
        r, (to, tc, td, from, fc, fd) -> alltoallv!(to, tc, from, fc, group(r); to_displacements=td, from_displacements=fd)
    ),
    "alltoallv_device" => r -> begin
        T = TYPES[constant("DTYPE", word(r, "dtype"))]
        list(key) = has(r, key) ? Int64.(among(r, key)) : nothing
        to, from = (Span{T}(address(r, key), number(r, key * "_capacity")) for key in ("recv", "send"))
        alltoallv_device!(
            to, list("recv_counts"), from, list("send_counts"), group(r);
            to_displacements=list("recv_displacements"), from_displacements=list("send_displacements"),
        )
    end,
    "alltoall" => r -> moving(r, (a; o...) -> alltoall!(a..., group(r); o...); to=3, from=3),
)

compare(r) = Dict("EQ" => ==, "NE" => !=, "LT" => <, "LE" => <=, "GT" => >, "GE" => >=)[word(r, "compare")]
expect_count(r, seen) = has(r, "expected") && same("what was seen", seen, number(r, "expected"))

function wait_several(r)
    waits = [(rank, number(r, "channel"), compare(r), number(r, "value")) for rank in among(r)]
    first = wait_signals(memory(r), waits; any=number(r, "any") == 1, timeout=seconds(r))
    return first === nothing || expect_count(r, first - 1)
end

among(r, key="among") = has(r, key) ? parse.(Int, split(word(r, key), ':')) : nothing

# Operands of the lengths that their blocks need, or of this rank's block of the other.
function in_blocks(r, f)
    T, me = TYPES[constant("DTYPE", word(r, "dtype"))], r.rank + 1
    tc, td, fc, fd = among(r, "recv_counts"), among(r, "recv_displacements"), among(r, "send_counts"), among(r, "send_displacements")
    ends(counts, at) = reduce(max, ((at === nothing ? sum(counts[1:i-1]) : at[i]) + counts[i] for i in 1:3 if counts[i] > 0); init=0)
    to = Span{T}(address(r, "recv"), tc === nothing ? fc[me] : ends(tc, td))
    from = Span{T}(address(r, "send"), fc === nothing ? tc[me] : ends(fc, fd))
    return f(to, tc, td, from, fc, fd)
end

function expect_status(r)
    expected = constant("STATUS", word(r, "status"))
    timedwait(() -> status(group(r)).status == expected, 20.0; pollint=0.001)
    now = status(group(r))
    same("status ($(now.message))", now.status, expected)
    has(r, "failed_rank") && same("failed_rank", now.failed_rank, number(r, "failed_rank"))
end

function split_group(r)
    color = number(r, "color")
    part = LibSymm.split(group(r), color, number(r, "key"))
    (part === nothing) == (color < 0) || error("a group although color < 0, or none")
    return part
end

function find(r)
    far(r) && return use_all(r)  # and found by no address
    found, buffer = LibSymm.find(group(r), address(r, "at")), LibSymm.find_buffer(address(r, "at"))
    if !has(r, "memory")
        found === nothing && buffer === nothing || error("found where there is nothing")
        return
    end
    if number(r, "rank") == r.rank
        same("offset in the buffer", buffer.offset, number(r, "offset"))
        same("id by the buffer", LibSymm.info(LibSymm.memory_of(group(r), buffer.buffer)).id, LibSymm.info(memory(r)).id)
    end
    same("id", LibSymm.info(found.memory).id, LibSymm.info(memory(r)).id)
    same("rank", found.rank, number(r, "rank"))
    same("offset", found.offset, number(r, "offset"))
end

# Lengths of destination and source are multiples of the collective's own count.
function operands(r, to, from)
    T, count = TYPES[constant("DTYPE", word(r, "dtype"))], number(r, "count")
    return Span{T}(address(r, "recv"), to * count), Span{T}(address(r, "send"), from * count)
end

in_place(r) = number(r, "in_place", 0) != 0
options(r) = has(r, "algorithm") ? (algorithm=Symbol(lowercase(word(r, "algorithm"))),) : NamedTuple()

function scaling(r)
    has(r, "position") || return NamedTuple()
    scale = has(r, "scale_at") ? unsafe_wrap(Array, Ptr{Float32}(address(r, "scale_at")), 1) : number(r, "scale")
    return (scale=scale, scale_position=Symbol(lowercase(word(r, "position"))))
end

function reducing(r, call; to=1, from=1)
    receive, send = operands(r, to, from)
    has(r, "result") && (receive = Span{Float32}(address(r, "recv"), length(receive)); word(r, "result"))
    op = OPS[word(r, "op")]
    has(r, "f") && write_elements(r, "send")
    call(in_place(r) ? (send,) : (receive, send), op; options(r)..., scaling(r)...)
    has(r, "f") && expect_elements(r, "recv")
end

function moving(r, call; to=1, from=1)
    receive, send = operands(r, to, from)
    alone = in_place(r) && !(r.line.verb in ("gather", "scatter"))  # which have no form for that
    return call(alone ? (to > 1 ? receive : send,) : (receive, send); options(r)...)
end

# ---- the table
# -----------------------------------------------------------------------------------------------

function run_line(r)
    try
        made = VERBS[r.line.verb](r)
        has(r, "as") && (r.things[word(r, "as")] = made)
    catch why
        why isa SymmError || rethrow()
        r.line.failure === nothing && rethrow()
        same("status ($(why.message))", why.status, constant("STATUS", r.line.failure))
        missing_ = filter(words -> !occursin(words, why.message), r.line.words)
        isempty(missing_) || error("'$(missing_[1])' is not in '$(why.message)'")
        isempty(r.line.blamed) || same("the rank to blame", something(why.rank, -1), integer(r, r.line.blamed))
        return
    end
    r.line.failure === nothing || error("it succeeded")
    unused = setdiff(keys(r.line.keys), r.line.used)
    isempty(unused) || error("not understood: $(join(unused, ", "))")
end

function begin_scenario(r, name)
    foreach(x -> x isa Union{Vector,Nothing} || close(x), values(r.things))
    empty!(r.things)
    group = r.things["group"] = Group(backend=:host, name=name, timeout=60, create_timeout=60)
    buffer = r.things["b"] = Buffer(group, BYTES)
    r.things["m"] = SymmMemory(group, buffer)
    r.things["p"] = zeros(UInt8, BYTES)
end

"""The number of scenarios, when all have gone well."""
function run_table(path, rank)
    scenarios, r = 0, Runner(rank, Dict(), Line("all nothing"))
    for (number_, text) in enumerate(eachline(path))
        try
            if isempty(text) || startswith(text, '#')
                continue
            elseif startswith(text, "scenario ")
                begin_scenario(r, text[10:end])
                scenarios += 1
            else
                for one in split(text, "; ")
                    r.line = Line(one)
                    rank in r.line.ranks && run_line(r)
                end
            end
        catch why
            println("table.txt:", number_, ": rank ", rank, ": ", sprint(showerror, why))
            exit(1)
        end
    end
    scenarios > 0 || (println(path, " has no scenarios"); exit(1))
    return scenarios
end

end
