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
    put_signal!(A, rank, source; at=1, channel=0, op=+, value=1, timeout=nothing, stream=nothing)
    put_signal!(memory, rank, source; offset=0, channel=0, op=+, value=1, timeout=nothing,
                stream=nothing)

`LibSymm.put!`, then `signal_value!`, in one call; by default that is a `signal!`.
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
    op=+,
    value::Integer=1,
    timeout=nothing,
    stream=nothing,
)
    on = stream_for(stream, memory.group)
    from = operand(source)
    count = bytes(source)
    code = signal_op(op)
    attempt() do call
        how = within(call, timeout)
        # An older library of this major version may load, and lack symm_put_signal_value().
        if code == SYMM_SIGNAL_ADD && value == 1
            return symm_put_signal(memory, rank, offset, from, count, channel, how, on)
        end
        return symm_put_signal_value(
            memory, rank, offset, from, count, channel, code, value, how, on
        )
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

const Copied = Union{UInt8,UInt16,UInt32,UInt64}

"""
    fill!(A, value, rank; at=1, count=length(A) - at + 1, timeout=nothing, stream=nothing)
    fill!(memory, value::Union{UInt8,UInt16,UInt32,UInt64}, rank; offset=0, count,
          timeout=nothing, stream=nothing)

Store `count` copies of a value of 1, 2, 4 or 8 bytes in rank `rank`'s array. Local; on CUDA in
stream order.
"""
function Base.fill!(
    A::SymmArray{T},
    value,
    rank::Integer;
    at::Integer=1,
    count::Integer=length(A) - at + 1,
    options...,
) where {T}
    bits = reinterpret(unsigned_of(T), convert(T, value))
    fill!(A.memory, bits, rank; offset=offset_at(A, at, count), count=count, options...)
    return A
end

function Base.fill!(
    memory::SymmMemory,
    value::Copied,
    rank::Integer;
    count::Integer,
    offset::Integer=0,
    timeout=nothing,
    stream=nothing,
)
    on = stream_for(stream, memory.group)
    f = fill_of(value)
    attempt(call -> f(memory, rank, offset, value, count, within(call, timeout), on))
    return memory
end

fill_of(value::UInt8) = symm_fill8
fill_of(value::UInt16) = symm_fill16
fill_of(value::UInt32) = symm_fill32
fill_of(value::UInt64) = symm_fill64

"""The unsigned type that has the bits of an element type."""
function unsigned_of(::Type{T}) where {T}
    isbitstype(T) && sizeof(T) == 1 && return UInt8
    isbitstype(T) && sizeof(T) == 2 && return UInt16
    isbitstype(T) && sizeof(T) == 4 && return UInt32
    isbitstype(T) && sizeof(T) == 8 && return UInt64
    throw(ArgumentError("only elements of 1, 2, 4 or 8 bytes can be stored in copies, not $T"))
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
    LibSymm.read_value(A, rank; at=1, timeout=nothing)
    LibSymm.read_value(UInt32, memory, rank; offset=0, timeout=nothing)

The element of 4 or 8 bytes in rank `rank`'s array, as it is now, whatever streams there are.
Whatever was written before it in release order is visible afterwards. Local. An
`UnsupportedError` for a GPU on another machine.
"""
function read_value(A::SymmArray{T}, rank::Integer; at::Integer=1, timeout=nothing) where {T}
    offset = offset_at(A, at, 1)
    W = typeof(word(T, zero(T)))
    return reinterpret(T, read_value(W, A.memory, rank; offset=offset, timeout=timeout))
end

function read_value(
    ::Type{T}, memory::SymmMemory, rank::Integer; offset::Integer=0, timeout=nothing
) where {T<:Union{UInt32,UInt64}}
    f = T === UInt32 ? symm_read_value32 : symm_read_value64
    seen = Ref{T}()
    attempt(call -> f(memory, rank, offset, within(call, timeout), seen))
    return seen[]
end

"""
    LibSymm.atomic!(A, op, value, rank; at=1, compare=nothing, into=nothing, timeout=nothing,
                    stream=nothing)
    LibSymm.atomic!(memory, op, value::Union{UInt32,UInt64}, rank; offset=0, compare=nothing,
                    into=nothing, timeout=nothing, stream=nothing)

Change an element of 4 or 8 bytes of rank `rank`'s array in one step, and return what it was. `op`
is `+`, `&`, `|` or `xor`, of integers; `:swap`, which stores the value; `:compare_swap`, which does
so if the element equals `compare`; or `:fetch`, whose value is 0. The change is atomic to those of
all ranks, to `write_value!` and to `wait_value`. Whatever this rank wrote before is visible to a
rank that sees the element changed. Local; on CUDA in stream order, where nothing is returned:
`into`, an array of one element on the device, receives what the element was. An `UnsupportedError`
for a GPU on another machine.
"""
function atomic!(
    A::SymmArray{T}, op, value, rank::Integer; at::Integer=1, compare=nothing, options...
) where {T}
    T <: Integer || op isa Symbol || throw(ArgumentError("$op is for elements that are integers"))
    offset = offset_at(A, at, 1)
    compared = compare === nothing ? nothing : word(T, compare)
    seen = atomic!(
        A.memory, op, word(T, value), rank; offset=offset, compare=compared, options...
    )
    return seen === nothing ? nothing : reinterpret(T, seen)
end

function atomic!(
    memory::SymmMemory,
    op,
    value::T,
    rank::Integer;
    offset::Integer=0,
    compare=nothing,
    into=nothing,
    timeout=nothing,
    stream=nothing,
) where {T<:Union{UInt32,UInt64}}
    f = T === UInt32 ? symm_atomic32 : symm_atomic64
    how = atomic_operation(op)
    if how == SYMM_ATOMIC_COMPARE_SWAP && compare === nothing
        throw(ArgumentError("compare is missing, with which :compare_swap compares"))
    end
    compared = compare === nothing ? zero(T) : T(compare)
    on = stream_for(stream, memory.group)

    to, seen = fetched(T, into, memory.group)
    attempt() do call
        limit = within(call, timeout)
        return f(memory, rank, offset, how, value, compared, limit, to, on)
    end
    return seen === nothing ? nothing : seen[]
end

"""
Where an atomic operation writes what the element was, as an argument of C, and the reference to
read it from, or nothing. It is `into` if that is given, else on the host a reference, and on CUDA
nowhere.
"""
function fetched(::Type{T}, into, group) where {T}
    if into !== nothing
        bytes(into) == sizeof(T) ||
            throw(ArgumentError("into has $(bytes(into)) bytes, the element $(sizeof(T))"))
        return operand(into), nothing
    end
    group.backend === :host || return C_NULL, nothing
    seen = Ref{T}()
    return seen, seen
end

atomic_operation(::typeof(+)) = SYMM_ATOMIC_ADD
atomic_operation(::typeof(&)) = SYMM_ATOMIC_AND
atomic_operation(::typeof(|)) = SYMM_ATOMIC_OR
atomic_operation(::typeof(xor)) = SYMM_ATOMIC_XOR
function atomic_operation(op::Symbol)
    op === :fetch && return SYMM_ATOMIC_FETCH
    op === :swap && return SYMM_ATOMIC_SWAP
    op === :compare_swap && return SYMM_ATOMIC_COMPARE_SWAP
    throw(ArgumentError(":$op is not an operation; :fetch, :swap and :compare_swap are"))
end

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
