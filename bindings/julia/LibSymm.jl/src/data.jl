# Into and out of other ranks' blocks. On an array, `at` is the index from which
# elements are meant; on a memory, `offset` counts bytes.

"""
    LibSymm.put!(A, rank, source; at=1, stream=nothing)
    LibSymm.put!(memory, rank, source; offset=0, stream=nothing)

Copy `source` to rank `rank`'s array, from index `at` on. Visible there after a signal or barrier.
"""
put!(A::SymmArray, rank::Integer, source; at::Integer=1, stream=nothing) =
    (put!(A.memory, rank, source; offset=offset_of(A, at, source), stream=stream); A)

function put!(memory::SymmMemory, rank::Integer, source; offset::Integer=0, stream=nothing)
    check(symm_put(memory, rank, offset, operand(source), bytes(source), stream_for(stream, memory.group)))
    return memory
end

"""
    put_signal!(A, rank, source; at=1, channel=0, stream=nothing)
    put_signal!(memory, rank, source; offset=0, channel=0, stream=nothing)

`LibSymm.put!`, then `signal!`, in one call.
"""
put_signal!(A::SymmArray, rank::Integer, source; at::Integer=1, channel::Integer=0, stream=nothing) =
    (put_signal!(A.memory, rank, source; offset=offset_of(A, at, source), channel=channel, stream=stream); A)

function put_signal!(memory::SymmMemory, rank::Integer, source; offset::Integer=0, channel::Integer=0, stream=nothing)
    check(symm_put_signal(memory, rank, offset, operand(source), bytes(source), channel, stream_for(stream, memory.group)))
    return memory
end

"""
    LibSymm.get!(destination, A, rank; at=1, stream=nothing)
    LibSymm.get!(destination, memory, rank; offset=0, stream=nothing)

Fill `destination` from rank `rank`'s array, from index `at` on.
"""
get!(destination, A::SymmArray, rank::Integer; at::Integer=1, stream=nothing) =
    get!(destination, A.memory, rank; offset=offset_of(A, at, destination), stream=stream)

function get!(destination, memory::SymmMemory, rank::Integer; offset::Integer=0, stream=nothing)
    check(symm_get(memory, rank, offset, operand(destination), bytes(destination), stream_for(stream, memory.group)))
    return destination
end

"""
    fill!(A, value, rank; at=1, count=length(A) - at + 1, stream=nothing)
    fill!(memory, value::UInt32, rank; offset=0, count, stream=nothing)

Store copies of a value of 4 bytes in rank `rank`'s array, in stream order.
"""
function Base.fill!(A::SymmArray{T}, value, rank::Integer; at::Integer=1, count::Integer=length(A) - at + 1, stream=nothing) where {T}
    sizeof(T) == 4 || throw(ArgumentError("only elements of 4 bytes can be stored in copies, not $T"))
    fill!(A.memory, word(T, value), rank; offset=offset_at(A, at, count), count=count, stream=stream)
    return A
end

function Base.fill!(memory::SymmMemory, value::UInt32, rank::Integer; count::Integer, offset::Integer=0, stream=nothing)
    check(symm_fill32(memory, rank, offset, value, count, stream_for(stream, memory.group)))
    return memory
end

"""
    write_value!(A, value, rank; at=1, stream=nothing)
    write_value!(memory, value::Union{UInt32,UInt64}, rank; offset=0, stream=nothing)

Store one value of 4 or 8 bytes in rank `rank`'s array, after everything that this rank wrote before.
"""
function write_value!(A::SymmArray{T}, value, rank::Integer; at::Integer=1, stream=nothing) where {T}
    write_value!(A.memory, word(T, value), rank; offset=offset_at(A, at, 1), stream=stream)
    return A
end

write_word(value::UInt32) = symm_write_value32
write_word(value::UInt64) = symm_write_value64
function write_value!(memory::SymmMemory, value::Union{UInt32,UInt64}, rank::Integer; offset::Integer=0, stream=nothing)
    check(write_word(value)(memory, rank, offset, value, stream_for(stream, memory.group)))
    return memory
end

"""
    wait_value(A, compare, value; at=1, timeout=nothing, stream=nothing)
    wait_value(memory, compare, value::Union{UInt32,UInt64}; offset=0, timeout=nothing, stream=nothing)

Wait until an element of 4 or 8 bytes of this rank's own array compares so with `value` (`==`, `!=`, `<`, `<=`, `>`, `>=`, as unsigned numbers),
whoever writes it. What was written before it in release order is visible after.
"""
wait_value(A::SymmArray{T}, compare, value; at::Integer=1, options...) where {T} =
    wait_value(A.memory, compare, word(T, value); offset=offset_at(A, at, 1), options...)
wait_value(memory::SymmMemory, compare, value::UInt32; offset::Integer=0, timeout=nothing, stream=nothing) =
    check(symm_wait_value32(memory, offset, comparison(compare), value, within(timeout), stream_for(stream, memory.group)))
wait_value(memory::SymmMemory, compare, value::UInt64; offset::Integer=0, timeout=nothing, stream=nothing) =
    check(symm_wait_value64(memory, offset, comparison(compare), value, within(timeout), stream_for(stream, memory.group)))

word(::Type{T}, value) where {T<:Union{Int64,UInt64,Float64}} = reinterpret(UInt64, convert(T, value))
word(::Type{T}, value) where {T<:Union{Int32,UInt32,Float32}} = reinterpret(UInt32, convert(T, value))
word(::Type{T}, value) where {T} = throw(ArgumentError("only elements of 4 or 8 bytes are words, not $T"))

function offset_at(A, at, count)
    1 <= at && at - 1 + count <= length(A) || throw(BoundsError(A, at:(at + count - 1)))
    return A.offset + (at - 1) * sizeof(eltype(A))
end

function offset_of(A, at, other)
    eltype(other) === eltype(A) || throw(ArgumentError("elements of $(eltype(other)) and $(eltype(A)) do not go together"))
    return offset_at(A, at, length(other))
end
