# Exchanges of neighbours: what ranks put into each other's blocks in every round; and blocks that
# neighbours pass as messages.

"""
    Neighbor(rank, view(A, ...), source; expected=sizeof(source))

What this rank puts to rank `rank` in every round of an [`Exchange`](@ref): `source`, an array or a
view of any strides, to the place of a view of a symmetric array, of the same size. `expected` are
the bytes that `rank` puts here in a round, by default as many as go there.

    Neighbor(rank, memory, source, pieces; offset=0, expected=bytes_of_the_pieces)
    Neighbor(rank; expected)

Pieces of `source`, as for `LibSymm.put_pieces!`; and a neighbour that only puts here. A rank may
have several for one neighbour.
"""
struct Neighbor
    memory::Union{Nothing,SymmMemory}
    source::Any  # keeps alive what the exchange reads
    pieces::Vector{symm_piece_t}
    rank::Int32
    offset::Int
    span::Span{UInt8}
    expected::Int
end

function Neighbor(rank::Integer, to::AbstractArray, source::AbstractArray; expected=nothing)
    memory, offset, there = block_side(to)
    require_alike(to, source)
    here = Side(source)
    pieces = pieces_between(size(source), here, there, sizeof(eltype(source)))
    bytes = something(expected, piece_bytes(pieces))
    return Neighbor(memory, source, pieces, rank, offset + there.lowest, here.span, bytes)
end

function Neighbor(
    rank::Integer,
    memory::SymmMemory,
    source,
    pieces::AbstractVector{symm_piece_t};
    offset::Integer=0,
    expected=nothing,
)
    list = convert(Vector{symm_piece_t}, pieces)
    span = Span{UInt8}(address_of(source), bytes(source))
    return Neighbor(
        memory, source, list, rank, offset, span, something(expected, piece_bytes(list))
    )
end

function Neighbor(rank::Integer; expected::Integer)
    return Neighbor(nothing, nothing, symm_piece_t[], rank, 0, Span{UInt8}(C_NULL, 0), expected)
end

piece_bytes(pieces) = mapreduce(one -> Int(one.bytes * max(one.rows, 1)), +, pieces; init=0)

# The caller keeps the neighbour alive.
function in_c(one::Neighbor)
    memory = one.memory === nothing ? Ptr{symm_memory_t}(C_NULL) : one.memory.handle
    return symm_neighbor_t(
        sizeof(symm_neighbor_t),
        one.rank,
        memory,
        one.offset,
        one.span.address,
        one.span.length,
        pointer(one.pieces),
        length(one.pieces),
        one.expected,
    )
end

"""
    Exchange(group, neighbors; timeout=nothing)

Agree with the neighbours on what is put in every round. Collective, blocking: all ranks of the
group call, those without neighbours with an empty vector of [`Neighbor`](@ref)s. Two ranks that
name each other expect what the other one puts; else all ranks get a `SYMM_ERR_MISMATCH` that names
both.

    exchange = Exchange(group, [
        Neighbor(left, view(A, :, n), view(B, :, 2)),
        Neighbor(right, view(A, :, 1), view(B, :, n - 1)),
    ])
    for step in 1:steps
        start_round!(exchange)
        # work on all but the edge
        finish_round!(exchange)
        # work on the edge
    end

Between [`finish_round!`](@ref) and the next [`start_round!`](@ref) what came may be read, and no
neighbour writes there: a rank that is ahead waits. Between `start_round!` and `finish_round!` what
goes must not change, and what comes must not be touched. The exchange keeps sources and memories
alive; one task at a time may be in a call on it. On GPUs each of the two calls is one kernel on a
stream; an `UnsupportedError` for GPUs of several machines.
"""
mutable struct Exchange <: Handle{symm_exchange_t}
    handle::Ptr{symm_exchange_t}
    group::Group
    neighbors::Vector{Neighbor}

    function Exchange(group::Group, neighbors; timeout=nothing)
        kept = convert(Vector{Neighbor}, collect(neighbors))
        made = symm_neighbor_t[in_c(one) for one in kept]
        handle = GC.@preserve kept produced(Ptr{symm_exchange_t}) do call, out
            return symm_exchange_create(group, made, length(made), within(call, timeout), out)
        end
        return finalizer(release, new(handle, group, kept))
    end
end

"""
    start_round!(exchange; timeout=nothing, stream=nothing)

Begin a round: put to all neighbours that are ready for it. Waits for no rank to make a call; what
neighbours are not ready for, [`finish_round!`](@ref) puts. Local; `timeout` is for ranks on other
machines.
"""
function start_round!(exchange::Exchange; timeout=nothing, stream=nothing)
    kept = exchange.neighbors
    on = stream_for(stream, exchange.group)
    GC.@preserve kept attempt() do call
        return symm_exchange_start(exchange, within(call, timeout), on)
    end
    return exchange
end

"""
    finish_round!(exchange; timeout=nothing, stream=nothing)

End a round: wait until all neighbours have put. After a `SYMM_ERR_TIMEOUT`, which names the
neighbour that has not, the call may be made again. Local; on the host blocking.
"""
function finish_round!(exchange::Exchange; timeout=nothing, stream=nothing)
    kept = exchange.neighbors
    on = stream_for(stream, exchange.group)
    GC.@preserve kept attempt() do call
        return symm_exchange_finish(exchange, within(call, timeout), on)
    end
    return exchange
end

"""
    neighbor_alltoallv!(destination, from_ranks, from_counts, source, to_ranks, to_counts, group;
                        from_displacements=nothing, to_displacements=nothing, channel=0,
                        timeout=nothing, stream=nothing)

Block i of `source`, of `to_counts[i]` elements, goes to rank `to_ranks[i]`, and block i of
`destination` comes from rank `from_ranks[i]`, as [`messages`](@ref) do. Blocks of two ranks meet in
the order of their lists. Local; on the host blocking.
"""
function neighbor_alltoallv!(
    destination,
    from_ranks,
    from_counts,
    source,
    to_ranks,
    to_counts,
    group::Group;
    from_displacements=nothing,
    to_displacements=nothing,
    channel::Integer=0,
    timeout=nothing,
    stream=nothing,
)
    same_type(destination, source)
    require_blocks("source", length(source), to_counts, to_displacements, length(to_ranks))
    require_blocks(
        "destination", length(destination), from_counts, from_displacements, length(from_ranks)
    )
    on = stream_for(stream, group)
    attempt() do call
        how = within(call, timeout)
        return symm_neighbor_alltoallv(
            group,
            convert(Vector{Int32}, to_ranks),
            length(to_ranks),
            operand(source),
            sizes(to_counts),
            sizes(to_displacements),
            convert(Vector{Int32}, from_ranks),
            length(from_ranks),
            operand(destination),
            sizes(from_counts),
            sizes(from_displacements),
            dtype(eltype(destination)),
            channel,
            how,
            on,
        )
    end
    return destination
end
