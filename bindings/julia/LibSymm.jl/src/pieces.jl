# Puts and gets of many pieces in one call, and a signal behind them: views of any strides, pages by
# their numbers, and lists of one's own.

"""The signal behind pieces, as fields of `symm_pieces_call_t`; `channel` nothing: there is none."""
struct PieceSignal
    flags::UInt64
    channel::Int32
    op::Int32
    value::UInt64
end
function PieceSignal(channel, op, value)
    if channel === nothing
        op === (+) && value == 1 ||
            throw(ArgumentError("op and value are of a signal, and channel is nothing"))
        return PieceSignal(0, 0, 0, 0)
    end
    return PieceSignal(SYMM_PIECES_SIGNAL, channel, signal_op(op), value)
end

"""A call for the pieces of a list, which the caller keeps alive."""
function pieces_call(list::Vector{symm_piece_t}, signal::PieceSignal)
    return sized_with(
        symm_pieces_call_t, pointer(list), length(list), 0, C_NULL, C_NULL, signal_fields(signal)...
    )
end

"""A call for pages by tables, which the caller keeps alive; an empty one stands for 0, 1, 2, ..."""
function pages_call(page, from::Vector{UInt64}, to::Vector{UInt64}, signal::PieceSignal)
    isempty(from) ||
        isempty(to) ||
        length(from) == length(to) ||
        throw(ArgumentError("from and to differ in length: $(length(from)) and $(length(to))"))
    count = max(length(from), length(to))
    table(numbers) = isempty(numbers) ? Ptr{UInt64}(C_NULL) : pointer(numbers)
    return sized_with(
        symm_pieces_call_t, C_NULL, count, page, table(from), table(to), signal_fields(signal)...
    )
end

"""
Calls `copy` with the call for a list of pieces, which is kept alive meanwhile, and with the options
that are not of the signal.
"""
function with_pieces(copy, pieces; channel=nothing, op=+, value::Integer=1, options...)
    list = convert(Vector{symm_piece_t}, pieces)
    call = pieces_call(list, PieceSignal(channel, op, value))
    return GC.@preserve list copy(call, options)
end

"""As `with_pieces`, of pages by tables."""
function with_pages(
    copy, page; from=nothing, to=nothing, channel=nothing, op=+, value::Integer=1, options...
)
    tables = (numbers(from), numbers(to))
    call = pages_call(page, tables..., PieceSignal(channel, op, value))
    return GC.@preserve tables copy(call, options)
end

# device_count comes last: lists are on the host.
signal_fields(signal) = (signal.flags, signal.channel, signal.op, signal.value, C_NULL)

"""
    LibSymm.put_pieces!(memory, rank, source, pieces; offset=0, channel=nothing, op=+, value=1,
                        timeout=nothing, stream=nothing)

Copy pieces of `source` to rank `rank`'s block, from byte `offset` on, in one call. `pieces` is a
vector of `symm_piece_t(from, to, bytes, rows, from_stride, to_stride)`, all in bytes from 0. With a
`channel`, a signal that is there when all pieces are: `op` and `value` are those of
`signal_value!`, and by default `wait_signal` takes it. Local. An `UnsupportedError` for GPUs of
another machine.
"""
function put_pieces!(
    memory::SymmMemory, rank::Integer, source, pieces::AbstractVector{symm_piece_t}; options...
)
    with_pieces(pieces; options...) do call, how
        return copy_pieces(symm_put_pieces, memory, rank, source, call; how...)
    end
    return memory
end

"""
    LibSymm.get_pieces!(destination, memory, rank, pieces; offset=0, channel=nothing, op=+, value=1,
                        timeout=nothing, stream=nothing)

Copy pieces of rank `rank`'s block to `destination` in one call. A signal tells that rank that it
may write them anew. All else is as for `LibSymm.put_pieces!`.
"""
function get_pieces!(
    destination, memory::SymmMemory, rank::Integer, pieces::AbstractVector{symm_piece_t}; options...
)
    with_pieces(pieces; options...) do call, how
        return copy_pieces(symm_get_pieces, memory, rank, destination, call; how...)
    end
    return destination
end

"""
    LibSymm.put_pages!(memory, rank, source, page; from=nothing, to=nothing, offset=0,
                       channel=nothing, op=+, value=1, timeout=nothing, stream=nothing)

Copy pages of `page` bytes of `source` to rank `rank`'s block, by their numbers, which count from 0.
Without one of the tables its numbers are 0, 1, 2 and so on. All else is as for
`LibSymm.put_pieces!`.
"""
function put_pages!(memory::SymmMemory, rank::Integer, source, page::Integer; options...)
    with_pages(page; options...) do call, how
        return copy_pieces(symm_put_pieces, memory, rank, source, call; how...)
    end
    return memory
end

"""
    LibSymm.get_pages!(destination, memory, rank, page; from=nothing, to=nothing, offset=0,
                       channel=nothing, op=+, value=1, timeout=nothing, stream=nothing)

Copy pages of rank `rank`'s block to pages of `destination`. All else is as for
`LibSymm.put_pages!`.
"""
function get_pages!(destination, memory::SymmMemory, rank::Integer, page::Integer; options...)
    with_pages(page; options...) do call, how
        return copy_pieces(symm_get_pieces, memory, rank, destination, call; how...)
    end
    return destination
end

numbers(::Nothing) = UInt64[]
numbers(table) = convert(Vector{UInt64}, collect(table))

"""
    LibSymm.put_view!(view(A, ...), rank, source; channel=nothing, op=+, value=1, timeout=nothing,
                      stream=nothing)

Copy `source` to the place of a view of a symmetric array in rank `rank`'s block, in one call: a
face of a grid, every second column. `source` is an array of the same size, or a view, of any
strides. With a `channel` a signal follows, as for `LibSymm.put_pieces!`. Local.
"""
function put_view!(to::AbstractArray, rank::Integer, source::AbstractArray; options...)
    memory, offset, there = block_side(to)
    require_alike(to, source)
    here = Side(source)
    pieces = pieces_between(size(source), here, there, sizeof(eltype(source)))
    GC.@preserve source put_pieces!(
        memory, rank, here.span, pieces; offset=offset + there.lowest, options...
    )
    return to
end

"""
    LibSymm.get_view!(destination, view(A, ...), rank; channel=nothing, op=+, value=1,
                      timeout=nothing, stream=nothing)

Fill `destination`, an array or a view of any strides, from the place of a view of a symmetric array
in rank `rank`'s block, in one call. All else is as for `LibSymm.put_view!`.
"""
function get_view!(destination::AbstractArray, from::AbstractArray, rank::Integer; options...)
    memory, offset, there = block_side(from)
    require_alike(from, destination)
    here = Side(destination)
    pieces = pieces_between(size(from), there, here, sizeof(eltype(from)))
    GC.@preserve destination get_pieces!(
        here.span, memory, rank, pieces; offset=offset + there.lowest, options...
    )
    return destination
end

# A view of a symmetric array: its memory, where the whole array begins in a block, and its side
# from there on.
function block_side(A)
    whole = owner(A)
    whole === nothing && throw(ArgumentError("this is no symmetric array, and no view of one"))
    return whole.memory, whole.offset, Side(A, pointer(whole))
end

function require_alike(A, other)
    size(A) == size(other) ||
        throw(DimensionMismatch("sizes differ: $(size(A)) and $(size(other))"))
    eltype(A) === eltype(other) && return nothing
    throw(ArgumentError("elements of $(eltype(A)) and $(eltype(other)) do not go together"))
end

"""
An array of any strides, in bytes: the strides, where its lowest byte lies from `start` on, and from
there its first element; and all its bytes.
"""
struct Side{N}
    strides::NTuple{N,Int}
    lowest::Int
    first::Int
    span::Span{UInt8}
end

function Side(A::AbstractArray, start=nothing)
    applicable(strides, A) || throw(ArgumentError("a $(typeof(A)) has no strides"))
    itemsize = sizeof(eltype(A))
    steps = strides(A) .* itemsize
    reaches = (size(A) .- 1) .* steps
    first = isempty(A) ? 0 : -reduce(+, min.(reaches, 0); init=0)
    length = isempty(A) ? 0 : mapreduce(abs, +, reaches; init=0) + itemsize
    lowest = Ptr{Cvoid}(pointer(A)) - first
    from_start = start === nothing ? 0 : Int(lowest - Ptr{Cvoid}(start))
    return Side(steps, from_start, first, Span{UInt8}(lowest, length))
end

"""
The pieces by which each element goes to its place. The axes that lie in one stretch on both sides
make a row, the longest of the others makes the rows of a piece, and the rest make pieces.
"""
function pieces_between(extents, from, to, itemsize)
    any(==(0), extents) && return symm_piece_t[]
    dims = [dim for dim in zip(extents, from.strides, to.strides) if dim[1] != 1]
    row = itemsize
    while !isempty(dims) && dims[1][2] == dims[1][3] == row
        row *= popfirst!(dims)[1]
    end

    able = [i for (i, dim) in enumerate(dims) if dim[2] >= 0 && dim[3] >= row]
    rows = (1, 0, 0)
    if !isempty(able)
        longest = able[argmax([dims[i][1] for i in able])]
        rows = dims[longest]
        deleteat!(dims, longest)
    end

    places = Iterators.product((0:(dim[1] - 1) for dim in dims)...)
    at(place, side) = mapreduce(((i, dim),) -> i * dim[side], +, zip(place, dims); init=0)
    return vec([
        symm_piece_t(
            from.first + at(place, 2), to.first + at(place, 3), row, rows[1], rows[2], rows[3]
        ) for place in places
    ])
end

function copy_pieces(
    f, memory, rank, array, pieces; offset::Integer=0, timeout=nothing, stream=nothing
)
    on = stream_for(stream, memory.group)
    local_side = operand(array)
    return attempt() do call
        how = within(call, timeout)
        return f(memory, rank, offset, local_side, bytes(array), pieces, how, on)
    end
end
