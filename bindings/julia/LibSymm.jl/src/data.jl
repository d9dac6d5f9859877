# Puts and gets: copies into and out of other ranks' blocks. On an array, `at` is the index of the
# first element; on a memory, `offset` counts bytes. A rank on another machine is waited for, at
# most `timeout` seconds; otherwise these calls do not wait.

"""
    LibSymm.put!(A, rank, source; at=1, timeout=nothing, stream=nothing)
    LibSymm.put!(memory, rank, source; offset=0, timeout=nothing, stream=nothing)

Copy `source` to rank `rank`'s array, from index `at` on. That rank sees the elements after a signal
or barrier. Local; on CUDA in stream order.
"""
function put!(A::SymmArray, rank::Integer, source; at::Integer=1, options...)
    put!(A.memory, rank, source; offset=offset_of(A, at, source), options...)
    return A
end

function put!(
    memory::SymmMemory,
    rank::Integer,
    source;
    offset::Integer=0,
    timeout=nothing,
    stream=nothing,
)
    on = stream_for(stream, memory.group)
    from = operand(source)
    attempt() do call
        how = within(call, timeout)
        return symm_put(memory, rank, offset, from, bytes(source), how, on)
    end
    return memory
end

"""
    put_signal!(A, rank, source; at=1, channel=0, timeout=nothing, stream=nothing)
    put_signal!(memory, rank, source; offset=0, channel=0, timeout=nothing, stream=nothing)

`LibSymm.put!`, then `signal!`, in one call.
"""
function put_signal!(A::SymmArray, rank::Integer, source; at::Integer=1, options...)
    put_signal!(A.memory, rank, source; offset=offset_of(A, at, source), options...)
    return A
end

function put_signal!(
    memory::SymmMemory,
    rank::Integer,
    source;
    offset::Integer=0,
    channel::Integer=0,
    timeout=nothing,
    stream=nothing,
)
    on = stream_for(stream, memory.group)
    from = operand(source)
    attempt() do call
        how = within(call, timeout)
        return symm_put_signal(memory, rank, offset, from, bytes(source), channel, how, on)
    end
    return memory
end

"""
    LibSymm.get!(destination, A, rank; at=1, timeout=nothing, stream=nothing)
    LibSymm.get!(destination, memory, rank; offset=0, timeout=nothing, stream=nothing)

Fill `destination` from rank `rank`'s array, from index `at` on. Local; on CUDA in stream order.
"""
function get!(destination, A::SymmArray, rank::Integer; at::Integer=1, options...)
    offset = offset_of(A, at, destination)
    return get!(destination, A.memory, rank; offset=offset, options...)
end

function get!(
    destination,
    memory::SymmMemory,
    rank::Integer;
    offset::Integer=0,
    timeout=nothing,
    stream=nothing,
)
    on = stream_for(stream, memory.group)
    to = operand(destination)
    attempt() do call
        how = within(call, timeout)
        return symm_get(memory, rank, offset, to, bytes(destination), how, on)
    end
    return destination
end

"""
    fill!(A, value, rank; at=1, count=length(A) - at + 1, timeout=nothing, stream=nothing)
    fill!(memory, value::UInt32, rank; offset=0, count, timeout=nothing, stream=nothing)

Store `count` copies of a value of 4 bytes in rank `rank`'s array. Local; on CUDA in stream order.
"""
function Base.fill!(
    A::SymmArray{T},
    value,
    rank::Integer;
    at::Integer=1,
    count::Integer=length(A) - at + 1,
    options...,
) where {T}
    sizeof(T) == 4 ||
        throw(ArgumentError("only elements of 4 bytes can be stored in copies, not $T"))
    word_ = word(T, value)
    fill!(A.memory, word_, rank; offset=offset_at(A, at, count), count=count, options...)
    return A
end

function Base.fill!(
    memory::SymmMemory,
    value::UInt32,
    rank::Integer;
    count::Integer,
    offset::Integer=0,
    timeout=nothing,
    stream=nothing,
)
    on = stream_for(stream, memory.group)
    attempt() do call
        return symm_fill32(memory, rank, offset, value, count, within(call, timeout), on)
    end
    return memory
end

"""
    write_value!(A, value, rank; at=1, timeout=nothing, stream=nothing)
    write_value!(memory, value::Union{UInt32,UInt64}, rank; offset=0, timeout=nothing,
                 stream=nothing)

Store one value of 4 or 8 bytes in rank `rank`'s array, after everything that this rank wrote
before. Local; on CUDA in stream order.
"""
function write_value!(
    A::SymmArray{T}, value, rank::Integer; at::Integer=1, options...
) where {T}
    offset = offset_at(A, at, 1)
    write_value!(A.memory, word(T, value), rank; offset=offset, options...)
    return A
end

function write_value!(
    memory::SymmMemory,
    value::Union{UInt32,UInt64},
    rank::Integer;
    offset::Integer=0,
    timeout=nothing,
    stream=nothing,
)
    on = stream_for(stream, memory.group)
    f = write_word(value)
    attempt(call -> f(memory, rank, offset, value, within(call, timeout), on))
    return memory
end

write_word(value::UInt32) = symm_write_value32
write_word(value::UInt64) = symm_write_value64

"""
    wait_value(A, compare, value; at=1, timeout=nothing, stream=nothing)
    wait_value(memory, compare, value::Union{UInt32,UInt64}; offset=0, timeout=nothing,
               stream=nothing)

Wait until an element of 4 or 8 bytes of this rank's own array compares with `value` as `compare`
says: `==`, `!=`, `<`, `<=`, `>` or `>=`, as unsigned numbers. Any rank may write the element.
Whatever was written before it in release order is visible afterwards. Local; on the host blocking,
on CUDA in stream order.
"""
function wait_value(A::SymmArray{T}, compare, value; at::Integer=1, options...) where {T}
    offset = offset_at(A, at, 1)
    return wait_value(A.memory, compare, word(T, value); offset=offset, options...)
end

function wait_value(
    memory::SymmMemory,
    compare,
    value::Union{UInt32,UInt64};
    offset::Integer=0,
    timeout=nothing,
    stream=nothing,
)
    on = stream_for(stream, memory.group)
    f = wait_word(value)
    how = comparison(compare)
    return attempt(call -> f(memory, offset, how, value, within(call, timeout), on))
end

wait_word(value::UInt32) = symm_wait_value32
wait_word(value::UInt64) = symm_wait_value64

"""The bits of a value of an element type, as the word that the library stores or compares."""
word(::Type{T}, value) where {T<:Union{Int64,UInt64,Float64}} =
    reinterpret(UInt64, convert(T, value))
word(::Type{T}, value) where {T<:Union{Int32,UInt32,Float32}} =
    reinterpret(UInt32, convert(T, value))
word(::Type{T}, value) where {T} =
    throw(ArgumentError("only elements of 4 or 8 bytes are words, not $T"))

function offset_at(A, at, count)
    last = at - 1 + count
    1 <= at && last <= length(A) || throw(BoundsError(A, at:last))
    return A.offset + (at - 1) * sizeof(eltype(A))
end

function offset_of(A, at, other)
    if eltype(other) !== eltype(A)
        throw(ArgumentError("elements of $(eltype(other)) and $(eltype(A)) do not go together"))
    end
    return offset_at(A, at, length(other))
end
