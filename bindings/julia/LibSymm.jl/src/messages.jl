# Messages: what one rank sends another one receives, in order on each channel.

"""
    LibSymm.send(group, rank, source; channel=0, timeout=nothing, stream=nothing)

Send `source` to rank `rank`. A short message is left for the receiver; for a longer one the call
returns when it has been received. On a GPU the call returns at once, and the stream goes on when
the message is received. Local; on the host blocking.
"""
function send(
    group::Group,
    rank::Integer,
    source;
    channel::Integer=0,
    timeout=nothing,
    stream=nothing,
)
    on = stream_for(stream, group)
    from = operand(source)
    attempt() do call
        how = within(call, timeout)
        return symm_send(group, rank, channel, from, bytes(source), how, on)
    end
    return nothing
end

"""
    LibSymm.recv!(destination, group, rank; channel=0, timeout=nothing, stream=nothing)

Receive the next message from rank `rank` into `destination`, which may be longer, and return the
number of bytes that came. On a GPU the message has to be as long as `destination`, since the call
returns before it comes. Local; on the host blocking.
"""
function recv!(
    destination,
    group::Group,
    rank::Integer;
    channel::Integer=0,
    timeout=nothing,
    stream=nothing,
)
    on = stream_for(stream, group)
    to = operand(destination)
    came = Ref{Csize_t}(0)
    attempt() do call
        how = within(call, timeout)
        return symm_recv(group, rank, channel, to, bytes(destination), how, came, on)
    end
    return Int(came[])
end

"""
    messages(group, sides; timeout=nothing, stream=nothing)

Send and receive messages that progress together, in whatever order they are listed, so that ranks
in a ring, or all with all, never wait for each other in a circle. `sides` are tuples
`(:send, rank, source)` and `(:recv, rank, destination)`, with the channel as a fourth item where it
is not 0. Returns the number of bytes of each. Local; on the host blocking.
"""
function messages(group::Group, sides; timeout=nothing, stream=nothing)
    on = stream_for(stream, group)
    kept = collect(sides)
    made = symm_message_t[message(side...) for side in kept]
    lengths = zeros(Csize_t, length(made))
    GC.@preserve kept attempt() do call
        how = within(call, timeout)
        return symm_messages(group, made, length(made), how, lengths, on)
    end
    return Int.(lengths)
end

"""One side of a message, as the library takes it. The caller keeps the array alive."""
function message(kind::Symbol, rank::Integer, array, channel::Integer=0)
    code = value_of(MESSAGE_KINDS, kind)
    address = address_of(array)
    from, to = kind === :send ? (address, C_NULL) : (C_NULL, address)
    return symm_message_t(
        sizeof(symm_message_t), code, rank, channel, from, to, bytes(array)
    )
end
