# Addresses of the table, and the elements there, compared bit by bit.

memory_of(x) = x
memory_of(x::Heap) = x.memory
memory(r) = memory_of(thing(r, "memory"))

"""
Whether the rank of the line is on another machine: its memory is not mapped here, and a copy stands
for it. Only in the group of the scenario.
"""
function is_remote(r)
    has(r, "rank") || return false
    return LibSymm.peer_info(r.things["group"], number(r, "rank")).mapped == 0
end

"""The address of a byte of an array or a block: `m+128`."""
function address(r, key)
    name, offset = split(word(r, key), '+')
    return start_of(r, memory_of(r.things[name]), key) + integer(r, offset)
end

start_of(r, array, key) = Ptr{Cvoid}(pointer(array))
function start_of(r, memory::SymmMemory, key)
    key == "at" || return pointer(memory)
    if is_remote(r)
        copy = zeros(UInt8, LibSymm.info(memory).bytes)
        r.things["copy"] = LibSymm.get!(copy, memory, number(r, "rank"))
        return Ptr{Cvoid}(pointer(copy))
    end
    return pointer(memory, number(r, "rank", memory.rank))
end

piece(r, key="at") = Span{UInt8}(address(r, key), number(r, "bytes"))

const ELEMENTS = (
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float16,
    Float32,
    Float64,
    LibSymm.BFloat16,
    Float8E4M3,
    Float8E5M2,
    ComplexF32,
    ComplexF64,
    Tuple{Int32,Int32},
    Tuple{Int64,Int64},
    Tuple{Float32,Int32},
    Tuple{Float64,Int64},
)
const TYPES = Dict(LibSymm.dtype(T) => T for T in ELEMENTS)
const WORDS = Dict(1 => UInt8, 2 => UInt16, 4 => UInt32, 8 => UInt64, 16 => UInt128)
element_type(r, key="dtype") = TYPES[constant("DTYPE", word(r, key))]

"""The unsigned integer as wide as an element."""
storage(T) = WORDS[sizeof(T)]

encode(::Type{T}, value) where {T<:Integer} = value % storage(T)
encode(::Type{T}, value) where {T} = reinterpret(storage(T), T(value))

# The second of two parts is the value with the other sign.
encode(::Type{Complex{T}}, value) where {T} = join_parts(encode(T, value), encode(T, -value))
encode(::Type{Tuple{V,I}}, value) where {V,I} = join_parts(encode(V, value), encode(I, -value))
join_parts(a::UInt32, b::UInt32) = UInt64(a) | UInt64(b) << 32
join_parts(a::UInt64, b::UInt64) = UInt128(a) | UInt128(b) << 64

"""The formula `f=a:b:m:c` of a rank and an index."""
function formula(r)
    a, b, m, c = parse.(Int64, split(word(r, "f"), ':'))
    return (rank, i) -> mod(a * rank + b * i, m) + c
end

"""The reduction of the values of all ranks, in exact integers."""
function combine(op, value)
    values = (value(rank) for rank in 0:2)
    op == "AVG" && return div(sum(values), 3)
    op == "MINLOC" && return minimum(values)
    op == "MAXLOC" && return maximum(values)
    return reduce(OPS[op], values)
end

"""Store elements by the formula."""
function write_elements(r, key="at")
    T = element_type(r)
    f = formula(r)
    count = number(r, "count")
    at = Ptr{storage(T)}(address(r, key))
    for i in 0:(count - 1)
        unsafe_store!(at, encode(T, f(r.rank, i)), i + 1)
    end
    is_remote(r) && put_copy(r, count * sizeof(T))
    return nothing
end

"""Put bytes of the copy to the remote block that the copy stands for."""
function put_copy(r, bytes)
    name, text = split(word(r, "at"), '+')
    offset = integer(r, text)
    written = r.things["copy"][(1:bytes) .+ offset]
    memory = memory_of(r.things[name])
    LibSymm.put!(memory, number(r, "rank"), written; offset=offset)
    return nothing
end

"""Require elements by the formula, or the reduction of those of all ranks."""
function expect_elements(r, key="at")
    # The memory of a dead machine is gone.
    is_remote(r) && status(group(r)).status != LibSymm.SYMM_OK && return skip(r)

    operand = element_type(r)
    T = has(r, "result") ? element_type(r, "result") : operand
    f = formula(r)
    from = number(r, "from", r.rank)
    shift = number(r, "shift", 0)
    times = number(r, "times", 1)
    op = word(r, "op", nothing)
    at = Ptr{storage(T)}(address(r, key))
    for i in 0:(number(r, "count") - 1)
        at_rank(rank) = f(rank, i + shift)
        value = times * (op === nothing ? at_rank(from) : combine(op, at_rank))
        seen = unsafe_load(at, i + 1)
        seen == encode(T, value) || error("element $i has the bits $seen, not those of $value")
    end
end
