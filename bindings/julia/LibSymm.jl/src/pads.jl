# Puts, signals and fences between processes that are in no group.

"""
    LibSymm.put_pieces!(import, source, pieces; offset=0, epoch=0, channel=nothing, op=+, value=1,
                        timeout=nothing)
    LibSymm.put_pages!(import, source, page; from=nothing, to=nothing, offset=0, epoch=0, ...)

Copy pieces, or pages of `page` bytes, of `source` into imported memory in one call. `epoch` is the
number of the request that the put serves: one that comes too late for an [`ipc_fence`](@ref) is an
`AbortedError`. All else is as for a `SymmMemory`. Local.
"""
function put_pieces!(made::Import, source, pieces::AbstractVector{symm_piece_t}; options...)
    with_pieces(pieces; options...) do call, how
        return put_import(made, source, call; how...)
    end
    return made
end

function put_pages!(made::Import, source, page::Integer; options...)
    with_pages(page; options...) do call, how
        return put_import(made, source, call; how...)
    end
    return made
end

"""
    LibSymm.get_pieces!(destination, import, pieces; offset=0, channel=nothing, op=+, value=1)
    LibSymm.get_pages!(destination, import, page; from=nothing, to=nothing, offset=0, ...)

Copy pieces, or pages, of imported memory to `destination` in one call. A signal tells the owner
that it may write them anew. Local.
"""
function get_pieces!(destination, made::Import, pieces::AbstractVector{symm_piece_t}; options...)
    with_pieces(pieces; options...) do call, how
        return get_import(destination, made, call; how...)
    end
    return destination
end

function get_pages!(destination, made::Import, page::Integer; options...)
    with_pages(page; options...) do call, how
        return get_import(destination, made, call; how...)
    end
    return destination
end

function put_import(made, source, pieces; offset::Integer=0, epoch::Integer=0, timeout=nothing)
    local_side = operand(source)
    return attempt() do call
        how = within(call, timeout)
        return symm_ipc_put_pieces(
            made, offset, local_side, bytes(source), pieces, epoch, how, C_NULL
        )
    end
end

function get_import(destination, made, pieces; offset::Integer=0)
    local_side = operand(destination)
    return attempt() do call
        how = within(call)
        return symm_ipc_get_pieces(
            made, offset, local_side, bytes(destination), pieces, how, C_NULL
        )
    end
end

"""
    signal_value!(import, value; channel=0, op=+)

Add `value` to a word of the imported token, or with `op=identity` set the word to it. The owner
waits for it by [`ipc_wait_value`](@ref), and then sees what was written before. Local; never waits.
"""
function signal_value!(made::Import, value::Integer; channel::Integer=0, op=+)
    return attempt() do call
        return symm_ipc_signal_value(made, channel, signal_op(op), value, within(call), C_NULL)
    end
end

"""
    ipc_wait_value(token, compare, value; channel=0, timeout=nothing)

Wait until a word of a token of this process compares with `value`, and return the word, which stays
as it is. `compare` is as in `wait_signal_value`. A `PeerFailedError` names the process that was to
write it, if none is left that has imported the token. Local, blocking.
"""
function ipc_wait_value(
    token::AbstractVector{UInt8}, compare, value::Integer; channel::Integer=0, timeout=nothing
)
    given_bytes = convert(Vector{UInt8}, token)
    seen = Ref{UInt64}(0)
    how = comparison(compare)
    attempt() do call
        return symm_ipc_wait_value(
            given_bytes,
            length(given_bytes),
            channel,
            how,
            value,
            within(call, timeout),
            seen,
            C_NULL,
        )
    end
    return seen[]
end

"""
    ipc_fence(A, epoch; timeout=nothing)

Keep late puts off the memory of `A`: when the call returns, no put of an epoch below `epoch` stores
there any more, and no signal of such a put comes. `A` is made of whole parts (`fence` of
[`export_token`](@ref)). Local, blocking: waits for the puts that are under way.
"""
function ipc_fence(A, epoch::Integer; timeout=nothing)
    piece, size = exported(A)
    return attempt(call -> symm_ipc_fence(piece, size, epoch, within(call, timeout), C_NULL))
end
