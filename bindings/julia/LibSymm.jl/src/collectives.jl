# Collectives: calls that all ranks of a group make together.
#
# The destination comes first, as everywhere in Julia. The group may be left out where an array is
# in symmetric memory. Every collective is blocking on the host and in stream order on CUDA, and
# takes these options:
#
# - `algorithm`: a Symbol, for instance :one_shot; equal on all ranks.
# - `timeout`: seconds.
# - `stream`: the stream of a CUDA group.
# - `tag`: a text that is shown where the call is: in ranges of NVTX, traces, `symm top` and
#   messages; each rank's own.
# - `max_blocks`: the most multiprocessors that a kernel of the call may use, equal on all ranks; 0
#   for as many as the plan says. The host only compares it.
# - `order`: the order in which floats are combined, :group, :ranks, :tree or :any; equal on all
#   ranks.
#
# Reductions of floats also take `scale`, a factor: a number, equal on all ranks, or an array of one
# Float32, which is read when the call runs. `scale_position` is :before (every operand is scaled)
# or :after (the result is). A destination of Float32 has an unrounded result if the source is
# narrower.
#
# Sums and averages also take `wire`, :f8e4m3, :f8e5m2 or :i8: operands and sums travel as codes of
# this type, with the error that symm.h states; and `wire_group`, how many elements have a scale in
# common, 32 or 128 (0: 128). Both are equal on all ranks.
#
# All-gathers, all-reduces and reduce-scatters also take `chunk_bytes`, a multiple of 16 that is
# equal on all ranks: they are made in chunks. `progress`, of an all-gather, is an array of UInt32,
# one for each chunk of each rank: a word becomes `word_value` when its chunk is in the destination,
# this rank's first, then those of the ranks after it. `ready`, of the others, is an array of
# UInt32, one for each chunk of the source, which has reached `word_value` when the chunk is there.
# `word_value` is a number, or an array of one UInt32, which is read when the call runs.

"""
Calls of collectives for one submission: see [`batch`](@ref). It stands where the group of a
collective stands.
"""
struct Batch
    group::Group
    calls::Vector{symm_collective_call_t}
    # What the calls point to, as long as the batch lives.
    kept::Vector{Any}
end

# A collective asks these of its group.
function Base.getproperty(calls::Batch, name::Symbol)
    name in (:rank, :size) && return getproperty(getfield(calls, :group), name)
    return getfield(calls, name)
end

# What makes a collective: a group at once, a batch later.
const Maker = Union{Group,Batch}

"""
The options of a collective but for its call's own. `scale` and `word_value`, if they are arrays,
`progress`, `ready` and `tag` must be kept alive until the call has returned.
"""
struct Choice
    algorithm::symm_algorithm_t
    timeout_ms::UInt64
    position::symm_scale_t
    factor::Float64
    factor_at::Ptr{Cvoid}
    tag::Cstring
    max_blocks::Int32
    order::symm_order_t
    wire::symm_dtype_t
    wire_group::Int32
    chunk_bytes::UInt64
    progress::Ptr{Cvoid}
    ready::Ptr{Cvoid}
    word_value::UInt32
    word_at::Ptr{Cvoid}
end

@inline function Choice(;
    algorithm=nothing,
    timeout=nothing,
    scale=nothing,
    scale_position::Symbol=:before,
    tag=nothing,
    max_blocks::Integer=0,
    order::Symbol=:group,
    wire=nothing,
    wire_group::Integer=0,
    chunk_bytes::Integer=0,
    progress=nothing,
    ready=nothing,
    word_value=0,
)
    code = algorithm_of(algorithm)
    deadline = milliseconds(timeout)
    position, value, address = factor(scale, scale_position)
    text = text_for_c(tag)
    limit = Int32(max_blocks)
    in_order = value_of(ORDERS, order)
    codes = wire === nothing ? Int32(0) : value_of(WIRES, wire)
    per_scale = Int32(wire_group)
    word, word_at = word_of(word_value)
    return Choice(
        code,
        deadline,
        position,
        value,
        address,
        text,
        limit,
        in_order,
        codes,
        per_scale,
        UInt64(chunk_bytes),
        words_at(progress, "progress"),
        words_at(ready, "ready"),
        word,
        word_at,
    )
end

"""The address of words of chunks."""
words_at(::Nothing, name) = Ptr{Cvoid}(C_NULL)
function words_at(words::AbstractArray, name)
    eltype(words) === UInt32 || throw(ArgumentError("$name: is not of UInt32"))
    return Ptr{Cvoid}(address_of(words))
end

"""The value of words of chunks, and the address at which it is read."""
word_of(value::Integer) = (UInt32(value), Ptr{Cvoid}(C_NULL))
function word_of(value::AbstractArray)
    length(value) == 1 || throw(ArgumentError("word_value: is not one UInt32"))
    return UInt32(0), words_at(value, "word_value")
end

algorithm_of(::Nothing) = SYMM_ALGORITHM_AUTO
algorithm_of(name) = value_of(ALGORITHMS, name)

"""Position, value and address of a factor."""
factor(::Nothing, position) = (SYMM_SCALE_NONE, 0.0, C_NULL)
factor(scale, position) = (value_of(SCALES, position), Float64(scale), C_NULL)
function factor(scale::AbstractArray, position)
    eltype(scale) === Float32 && length(scale) == 1 ||
        throw(ArgumentError("scale: is not one Float32"))
    return value_of(SCALES, position), 0.0, address_of(scale)
end

"""A tag as `Choice` takes it."""
tag_text(::Nothing) = nothing
tag_text(tag) = String(tag)

"""The fields of `symm_collective_options_t` after its size."""
@inline function fields_of(choice::Choice, failure, result, place)
    return (
        choice.algorithm,
        choice.timeout_ms,
        failure,
        choice.position,
        result,
        choice.factor,
        choice.factor_at,
        choice.tag,
        choice.max_blocks,
        choice.order,
        place,
        choice.wire,
        choice.wire_group,
        choice.chunk_bytes,
        choice.progress,
        choice.ready,
        choice.word_value,
        choice.word_at,
    )
end

# Compiled once, and not into every call.
@noinline function collective_options(call::CallFrame, choice::Choice, result::Int32=Int32(0))
    values = fields_of(choice, call.failure, result, place_of_request())
    return options_of(call, symm_collective_options_t, values...)
end

# Floats whose sums can be left unrounded in Float32, and to which those of Float32 can be rounded.
const NARROW = (SYMM_DTYPE_F16, SYMM_DTYPE_BF16, SYMM_DTYPE_F8E4M3, SYMM_DTYPE_F8E5M2)

"""The type of a result that is another one than that of the operands, else 0."""
result_type(A, B) = A === nothing || eltype(A) === eltype(B) ? Int32(0) : dtype(eltype(A))

@noinline differ(what) = throw(DimensionMismatch(what))
@noinline function differ_in_type(A, B)
    throw(ArgumentError("elements of $(eltype(A)) and $(eltype(B)) do not go together"))
end

# Whether elements go together: of one type, or for reductions also narrow floats into Float32 and
# Float32 into them.
@inline same_type(A, B) = eltype(A) === eltype(B) || differ_in_type(A, B)
function reduces(A, B)
    eltype(A) === eltype(B) && return true
    eltype(A) === Float32 && dtype(eltype(B)) in NARROW && return true
    eltype(B) === Float32 && dtype(eltype(A)) in NARROW && return true
    return differ_in_type(A, B)
end

"""
Require that `to` has `to_parts` parts of a length, and `from` has `from_parts` parts of this
length. An operand that this rank does not use may be nothing.
"""
@inline function fit(to, to_parts, from, from_parts, types=same_type)
    (to === nothing || from === nothing) && return nothing
    types(to, from)
    length(to) * from_parts == length(from) * to_parts && return nothing
    return differ(
        "destination and source have $(length(to)) and $(length(from)) elements, " *
        "which are not as $to_parts to $from_parts",
    )
end

"""The length of one rank's part of elements that are divided among all ranks."""
@inline function part_length(elements, group)
    count, rest = divrem(elements, group.size)
    rest == 0 || differ("$elements elements are not $(group.size) equal parts")
    return count
end

"""The part of a divided operand that belongs to this rank."""
function own_part(A, group)
    count = part_length(length(A), group)
    return part(A, group.rank * count, count)
end

part(A::AbstractArray, first, count) = view(vec(A), (first + 1):(first + count))
function part(span::Span{T}, first, count) where {T}
    return Span{T}(span.address + first * sizeof(T), count)
end

"""
Call the function `f` of C for a collective. `more` are its arguments between the data type and the
options.
"""
@inline function collective(
    f::F,
    group,
    from,
    to,
    count,
    T,
    more...;
    stream=nothing,
    scale=nothing,
    tag=nothing,
    chosen...,
) where {F}
    result = to === nothing || from === nothing ? Int32(0) : result_type(to, from)
    text = tag_text(tag)
    choice = Choice(; scale=scale, tag=text, chosen...)
    on = stream_for(stream, group)
    # As `attempt`, whose body would be a closure over more than the compiler takes apart.
    call = take_frame()
    GC.@preserve call scale text chosen begin
        how = collective_options(call, choice, result)
        finish(call, f(group, operand(from), operand(to), count, dtype(T), more..., how, on))
    end
    return to
end

"""
    allreduce!(A, op, group=LibSymm.group_of(A))
    allreduce!(destination, source, op, group)

`destination[i] = op` over `source[i]` of all ranks, on every rank; the first form in place. `op` is
`+`, `*`, `min`, `max`, `avg`, or of integers `&`, `|`, `xor`. Ranks are combined in the order 0, 1,
..., so results have equal bits everywhere.
"""
@inline function allreduce!(A, op, group::Maker=group_of(A); keywords...)
    return allreduce!(A, A, op, group; keywords...)
end
@inline function allreduce!(to, from, op, group::Maker=group_of(to, from); keywords...)
    fit(to, 1, from, 1, reduces)
    op_ = reduction(op)
    T = eltype(from)
    return collective(symm_allreduce, group, from, to, length(from), T, op_; keywords...)
end

"""
    allreduce(A, op, group=LibSymm.group_of(A))

As [`allreduce!`](@ref), into a new array.
"""
function allreduce(A::AbstractArray, op, group::Maker=group_of(A); keywords...)
    return allreduce!(similar(A), A, op, group; keywords...)
end

"""
    reduce_scatter!(destination, source, op, group)
    reduce_scatter!(A, op, group=LibSymm.group_of(A))

Rank r receives the r-th part of the reduction of `source` of all ranks, which has `size` parts of
the length of `destination`. The second form is in place: the result goes into the r-th part of `A`,
and a view of that part is returned.
"""
function reduce_scatter!(to, from, op, group::Maker=group_of(to, from); keywords...)
    fit(to, 1, from, group.size, reduces)
    op_ = reduction(op)
    T = eltype(from)
    return collective(symm_reduce_scatter, group, from, to, length(to), T, op_; keywords...)
end
function reduce_scatter!(A, op, group::Maker=group_of(A); keywords...)
    return reduce_scatter!(own_part(A, group), A, op, group; keywords...)
end

"""
    allgather!(destination, source, group)
    allgather!(A, group=LibSymm.group_of(A))

`destination` receives `source` of all ranks, one after the other. The second form is in place: rank
r's source is the r-th part of `A`.
"""
function allgather!(to, from, group::Maker=group_of(to, from); keywords...)
    fit(to, group.size, from, 1)
    count = length(from)
    return collective(symm_allgather, group, from, to, count, eltype(from); keywords...)
end
function allgather!(A, group::Maker=group_of(A); keywords...)
    allgather!(A, own_part(A, group), group; keywords...)
    return A
end

"""
    LibSymm.broadcast!(A, group; root=0)
    LibSymm.broadcast!(destination, source, group; root=0)

`destination` receives `source` of the root on every rank. `source` is read on the root only, and
may be `nothing` on other ranks. For an array in symmetric memory the group may be left out:
`LibSymm.broadcast!(A; root=0)`.
"""
function broadcast!(A::Union{AbstractArray,Span}, group::Maker; keywords...)
    return broadcast_from!(A, A, group; keywords...)
end
function broadcast!(A::SymmArray; keywords...)
    return broadcast_from!(A, A, group_of(A); keywords...)
end
function broadcast!(to::Union{AbstractArray,Span}, from, group::Maker; keywords...)
    return broadcast_from!(to, from, group; keywords...)
end

function broadcast_from!(to, from, group; root::Integer=0, keywords...)
    fit(to, 1, from, 1)
    count = length(to)
    return collective(symm_broadcast, group, from, to, count, eltype(to), root; keywords...)
end

"""
    reduce!(A, op, group=LibSymm.group_of(A); root=0)
    reduce!(destination, source, op, group; root=0)

As [`allreduce!`](@ref), on the root only. `destination` may be `nothing` on other ranks.
"""
function reduce!(A, op, group::Maker=group_of(A); keywords...)
    return reduce!(A, A, op, group; keywords...)
end
function reduce!(
    to, from, op, group::Maker=group_of(to, from); root::Integer=0, keywords...
)
    fit(to, 1, from, 1, reduces)
    op_ = reduction(op)
    T = eltype(from)
    return collective(symm_reduce, group, from, to, length(from), T, op_, root; keywords...)
end

"""
    scan!(A, op, group=LibSymm.group_of(A))
    scan!(destination, source, op, group)

`destination[i] = op` over `source[i]` of the ranks up to this one, in their order; the first form
in place. `op` is one of [`allreduce!`](@ref), but not `avg`.
"""
function scan!(A, op, group::Maker=group_of(A); keywords...)
    return scan!(A, A, op, group; keywords...)
end
function scan!(to, from, op, group::Maker=group_of(to, from); keywords...)
    fit(to, 1, from, 1)
    op_ = reduction(op)
    T = eltype(from)
    return collective(symm_scan, group, from, to, length(from), T, op_; keywords...)
end

"""
    exscan!(A, op, group=LibSymm.group_of(A))
    exscan!(destination, source, op, group)

As [`scan!`](@ref), over the ranks before this one. Rank 0, before which there is none, receives the
neutral element of `op`, which for `+` is 0.
"""
function exscan!(A, op, group::Maker=group_of(A); keywords...)
    return exscan!(A, A, op, group; keywords...)
end
function exscan!(to, from, op, group::Maker=group_of(to, from); keywords...)
    fit(to, 1, from, 1)
    op_ = reduction(op)
    T = eltype(from)
    return collective(symm_exscan, group, from, to, length(from), T, op_; keywords...)
end

# The operation of one reduction. Exceptions must not cross the library, so one is kept here, and
# thrown when the call returns.
mutable struct Operation{T}
    combine::Any
    width::Int
    failure::Any
end

function combine_elements(user::Ptr{Cvoid}, into::Ptr{Cvoid}, other::Ptr{Cvoid}, count::Csize_t)
    operation = unsafe_pointer_to_objref(user)::Operation
    try
        combine_as(operation, into, other, Int(count))
        return Int32(0)
    catch why
        operation.failure = why
        return Int32(1)
    end
end

function combine_as(operation::Operation{T}, into, other, count) where {T}
    numbers = count * operation.width
    operation.combine(
        unsafe_wrap(Array, Ptr{T}(into), numbers), unsafe_wrap(Array, Ptr{T}(other), numbers)
    )
    return nothing
end

const COMBINED = Dict(
    :allreduce => SYMM_COLLECTIVE_ALLREDUCE,
    :reduce => SYMM_COLLECTIVE_REDUCE,
    :reduce_scatter => SYMM_COLLECTIVE_REDUCE_SCATTER,
    :scan => SYMM_COLLECTIVE_SCAN,
    :exscan => SYMM_COLLECTIVE_EXSCAN,
)

"""
    reduce_by!(combine, destination, source, group; collective=:allreduce, width=1, root=0,
               timeout=nothing)

Combine the operands of the ranks by `combine(into, other)`, in their order, on a host group:

    reduce_by!(destination, source, group) do into, other
        into .= max.(abs.(into), abs.(other))
    end

`combine` changes `into`, which is of lower ranks; it need not commute. Both are vectors of `width`
numbers for each element, and any number of elements at a time; they must not be kept. `collective`
says who gets what: `:allreduce`, `:reduce` (`root`), `:reduce_scatter`, `:scan`, or `:exscan`, of
which rank 0 gets nothing. `destination` may be `source`, but in a reduce-scatter.

What `combine` throws is thrown here, and the group is aborted. `timeout`: seconds for each wait.
"""
function reduce_by!(
    combine,
    destination,
    source,
    group::Group;
    collective::Symbol=:allreduce,
    width::Integer=1,
    root::Integer=0,
    timeout=nothing,
)
    which = get(COMBINED, collective, nothing)
    which === nothing && throw(ArgumentError("collective: $collective has no such operation"))
    scatters = collective === :reduce_scatter
    receives = collective !== :reduce || group.rank == root
    if receives
        fit(destination, 1, source, scatters ? group.size : 1)
    else
        same_type(destination, source)
    end
    numbers = scatters ? length(destination) : length(source)
    if width < 1 || numbers % width != 0
        throw(ArgumentError("width: $width does not divide $numbers numbers"))
    end

    T = eltype(source)
    operation = Operation{T}(combine, width, nothing)
    entry = @cfunction(
        combine_elements, Int32, (Ptr{Cvoid}, Ptr{Cvoid}, Ptr{Cvoid}, Csize_t)
    )
    task = current_task()
    # A function that waits could move this task to another thread, but the call of the library
    # belongs to the thread that began it.
    sticky = task.sticky
    task.sticky = true
    try
        GC.@preserve operation attempt() do call
            return symm_reduce_by(
                group,
                which,
                operand(source),
                operand(destination),
                numbers ÷ width,
                width * sizeof(T),
                entry,
                pointer_from_objref(operation),
                root,
                within(call, timeout),
            )
        end
    catch
        operation.failure === nothing || throw(operation.failure)
        rethrow()
    finally
        task.sticky = sticky
    end
    return destination
end

"""
    alltoall!(A, group=LibSymm.group_of(A))
    alltoall!(destination, source, group)

The r-th part of `source` goes to rank r; the r-th part of `destination` comes from rank r.
"""
function alltoall!(to, from, group::Maker=group_of(to, from); keywords...)
    fit(to, 1, from, 1)
    count = part_length(length(from), group)
    return collective(symm_alltoall, group, from, to, count, eltype(from); keywords...)
end
function alltoall!(A, group::Maker=group_of(A); keywords...)
    return alltoall!(A, A, group; keywords...)
end

"""
    LibSymm.gather!(destination, source, group; root=0)

The r-th part of `destination` receives rank r's `source`, on the root only; on other ranks
`destination` may be `nothing`. In place the root's `source` is its part of `destination`.
"""
function gather!(to, from, group::Maker=group_of(from); root::Integer=0, keywords...)
    group.rank == root && fit(to, group.size, from, 1)
    count = length(from)
    return collective(symm_gather, group, from, to, count, eltype(from), root; keywords...)
end

"""
    LibSymm.scatter!(destination, source, group; root=0)

`destination` receives this rank's part of the root's `source`, which is read on the root only and
may be `nothing` on other ranks. In place the root's `destination` is its part of `source`.
"""
function scatter!(to, from, group::Maker=group_of(to); root::Integer=0, keywords...)
    group.rank == root && fit(to, 1, from, group.size)
    count = length(to)
    return collective(symm_scatter, group, from, to, count, eltype(to), root; keywords...)
end

"""
    broadcast_bytes!(destination, source, group; root=0)

The first bytes of `destination` receive those of the root's `source`, on all ranks but the root.
`source` is read on the root only, `destination` is written on the others; the other one may be
`nothing`. Returns the number of bytes, which other ranks need not know. If one rank has too little
room, this fails on all ranks, nothing is written, and the group stays usable.
"""
function broadcast_bytes!(
    to,
    from,
    group::Group=group_of(something(to, from));
    root::Integer=0,
    stream=nothing,
    tag=nothing,
    chosen...,
)
    am_root = group.rank == root
    room(x) = x === nothing ? 0 : bytes(x)
    text = tag_text(tag)
    choice = Choice(; tag=text, chosen...)
    on = stream_for(stream, group)
    came = Ref{Csize_t}(0)
    call = take_frame()
    GC.@preserve call text finish(
        call,
        symm_broadcast_bytes(
            group,
            operand(am_root ? from : nothing),
            am_root ? room(from) : 0,
            operand(am_root ? nothing : to),
            am_root ? 0 : room(to),
            root,
            collective_options(call, choice),
            came,
            on,
        ),
    )
    return Int(came[])
end

# ---- blocks of lengths of their own

"""Counts or displacements for C; NULL for `nothing`."""
sizes(::Nothing) = C_NULL
sizes(numbers) = collect(Csize_t, numbers)

"""
Require a count (and a displacement) for each rank, and all blocks within `elements`. Returns the
number of elements before this rank's block.
"""
function require_blocks(what, elements, counts, displacements, group)
    return require_blocks(what, elements, counts, displacements, group.size)[group.rank + 1]
end
function require_blocks(what, elements, counts, displacements, size::Int)
    length(counts) == size || differ("$(length(counts)) counts of $what for $size ranks")
    if displacements !== nothing && length(displacements) != size
        differ("$(length(displacements)) displacements of $what for $size ranks")
    end

    places = displacements === nothing ? cumsum(counts) .- counts : displacements
    # Sums of small integers could overflow.
    ends = (Int128(at) + n for (at, n) in zip(places, counts) if n > 0)
    needed = reduce(max, ends; init=0)
    needed <= elements || differ("$what has $elements elements; its blocks need $needed")
    return Int.(places)
end

"""Require that an operand is as long as this rank's block."""
function require_own_block(what, A, counts, group)
    count = counts[group.rank + 1]
    length(A) == count && return nothing
    return differ("a block of $count elements for a $what of $(length(A))")
end

"""
Call the function `f` of C for a collective with counts. `arguments` are those between the group and
the options.
"""
function finish_collective(
    f::F, group, arguments...; stream=nothing, tag=nothing, chosen...
) where {F}
    text = tag_text(tag)
    choice = Choice(; tag=text, chosen...)
    on = stream_for(stream, group)
    call = take_frame()
    GC.@preserve call text begin
        return finish(call, f(group, arguments..., collective_options(call, choice), on))
    end
end

"""
    allgatherv!(destination, counts, source, group; displacements=nothing)
    allgatherv!(A, counts, group=LibSymm.group_of(A); displacements=nothing)

Block r of `destination`, of `counts[r + 1]` elements, receives rank r's `source`. The counts are
equal on all ranks. `displacements` are the elements before each block; `nothing` means that each
block begins where the one before ends. The second form is in place: rank r's source is its block of
`A`.
"""
function allgatherv!(
    to, counts, from, group::Maker=group_of(to, from); displacements=nothing, keywords...
)
    same_type(to, from)
    require_blocks("destination", length(to), counts, displacements, group)
    require_own_block("source", from, counts, group)
    finish_collective(
        symm_allgatherv,
        group,
        operand(from),
        operand(to),
        sizes(counts),
        sizes(displacements),
        dtype(eltype(to));
        keywords...,
    )
    return to
end
function allgatherv!(
    A, counts, group::Maker=group_of(A); displacements=nothing, keywords...
)
    at = require_blocks("A", length(A), counts, displacements, group)
    own = part(A, at, counts[group.rank + 1])
    return allgatherv!(A, counts, own, group; displacements=displacements, keywords...)
end

"""
    reduce_scatterv!(destination, source, counts, op, group; displacements=nothing)

Rank r receives the reduction of block r of `source` of all ranks, which has `counts[r + 1]`
elements. The counts are equal on all ranks; see [`allgatherv!`](@ref) for `displacements`. In place
`destination` is this rank's block of `source`.
"""
function reduce_scatterv!(
    to,
    from,
    counts,
    op,
    group::Maker=group_of(to, from);
    displacements=nothing,
    keywords...,
)
    same_type(to, from)
    require_blocks("source", length(from), counts, displacements, group)
    require_own_block("destination", to, counts, group)
    finish_collective(
        symm_reduce_scatterv,
        group,
        operand(from),
        sizes(counts),
        sizes(displacements),
        operand(to),
        dtype(eltype(to)),
        reduction(op);
        keywords...,
    )
    return to
end

"""
    gatherv!(destination, counts, source, group; root=0, displacements=nothing)

Block r of `destination`, of `counts[r + 1]` elements, receives rank r's `source`, on the root only;
on other ranks `destination` and `counts` may be `nothing`. See [`allgatherv!`](@ref) for
`displacements`. In place the root's `source` is its block of `destination`.
"""
function gatherv!(
    to,
    counts,
    from,
    group::Maker=group_of(from);
    root::Integer=0,
    displacements=nothing,
    keywords...,
)
    am_root = group.rank == root
    if am_root
        same_type(to, from)
        require_blocks("destination", length(to), counts, displacements, group)
        require_own_block("source", from, counts, group)
    end
    finish_collective(
        symm_gatherv,
        group,
        operand(from),
        length(from),
        operand(am_root ? to : nothing),
        sizes(am_root ? counts : nothing),
        sizes(am_root ? displacements : nothing),
        dtype(eltype(from)),
        root;
        keywords...,
    )
    return to
end

"""
    scatterv!(destination, source, counts, group; root=0, displacements=nothing)

`destination` receives this rank's block of the root's `source`, in which block r has
`counts[r + 1]` elements. `source` and `counts` are read on the root only and may be `nothing` on
other ranks. See [`allgatherv!`](@ref) for `displacements`. In place the root's `destination` is its
block of `source`.
"""
function scatterv!(
    to,
    from,
    counts,
    group::Maker=group_of(to);
    root::Integer=0,
    displacements=nothing,
    keywords...,
)
    am_root = group.rank == root
    if am_root
        same_type(to, from)
        require_blocks("source", length(from), counts, displacements, group)
        require_own_block("destination", to, counts, group)
    end
    finish_collective(
        symm_scatterv,
        group,
        operand(am_root ? from : nothing),
        sizes(am_root ? counts : nothing),
        sizes(am_root ? displacements : nothing),
        operand(to),
        length(to),
        dtype(eltype(to)),
        root;
        keywords...,
    )
    return to
end

"""
    alltoallv!(destination, to_counts, source, from_counts, group; to_displacements=nothing,
               from_displacements=nothing)

Block r of `source`, of `from_counts[r + 1]` elements, goes to rank r; block r of `destination`
comes from rank r, which gives an equal length. In place both are one array, with equal counts and
displacements; see [`allgatherv!`](@ref) for those.
"""
function alltoallv!(
    to,
    to_counts,
    from,
    from_counts,
    group::Maker=group_of(to, from);
    to_displacements=nothing,
    from_displacements=nothing,
    keywords...,
)
    same_type(to, from)
    require_blocks("source", length(from), from_counts, from_displacements, group)
    require_blocks("destination", length(to), to_counts, to_displacements, group)
    finish_collective(
        symm_alltoallv,
        group,
        operand(from),
        sizes(from_counts),
        sizes(from_displacements),
        operand(to),
        sizes(to_counts),
        sizes(to_displacements),
        dtype(eltype(to));
        keywords...,
    )
    return to
end

"""
    alltoallv_device!(destination, to_counts, source, from_counts, group;
                      to_displacements=nothing, from_displacements=nothing)

[`alltoallv!`](@ref) with counts and displacements that are read when the call runs: arrays of one
`Int64` or `UInt64` for each rank, in memory of the kind of the operands. A captured call reads them
again at each replay. Never in place. If a block does not lie within its array, on the host the call
fails, on CUDA the group.
"""
function alltoallv_device!(
    to,
    to_counts,
    from,
    from_counts,
    group::Maker=group_of(to, from);
    to_displacements=nothing,
    from_displacements=nothing,
    keywords...,
)
    same_type(to, from)
    lists = (from_counts, from_displacements, to_counts, to_displacements)
    numbers = map(list -> device_list(list, group), lists)
    keep!(group, lists)
    GC.@preserve to_counts from_counts to_displacements from_displacements finish_collective(
        symm_alltoallv_device,
        group,
        operand(from),
        length(from),
        numbers[1],
        numbers[2],
        operand(to),
        length(to),
        numbers[3],
        numbers[4],
        dtype(eltype(to));
        keywords...,
    )
    return to
end

# What a call refers to by its address must live until the call is made.
keep!(::Group, owners) = nothing
keep!(calls::Batch, owners) = push!(calls.kept, owners)

device_list(::Nothing, group) = C_NULL
function device_list(list, group)
    T = eltype(list)
    T in (Int64, UInt64) && length(list) == group.size ||
        differ("$(length(list)) $T, not an Int64 for each rank")
    return Ptr{UInt64}(address_of(list))
end

"""
    allgather_rows!(destination, source, rows, group; stride=nothing)

All-gather along the last dimension. Both operands have `rows` rows, whose elements are adjacent in
memory. A row of `destination` is that row of `source` of all ranks, one after the other, and begins
`stride` elements after the row before; `nothing` means no gap.
"""
function allgather_rows!(
    to, from, rows::Integer, group::Maker=group_of(to, from); stride=nothing, keywords...
)
    same_type(to, from)
    count, rest = rows == 0 ? (0, length(from)) : divrem(length(from), rows)
    rest == 0 || differ("$(length(from)) elements are not $rows equal rows")

    step = something(stride, group.size * count)
    needed = count == 0 ? 0 : (rows - 1) * step + group.size * count
    needed <= length(to) ||
        differ("destination has $(length(to)) elements; its rows need $needed")

    finish_collective(
        symm_allgather_rows,
        group,
        operand(from),
        operand(to),
        rows,
        count,
        step,
        dtype(eltype(to));
        keywords...,
    )
    return to
end

"""
    reduce_scatter_rows!(destination, source, rows, op, group; stride=nothing)

Reduce-scatter along the last dimension. Both operands have `rows` rows, whose elements are adjacent
in memory. A row of `source` has a part for each rank, one after the other, and begins `stride`
elements after the row before; `nothing` means no gap. That row of `destination` is the reduction of
this rank's part of all ranks.
"""
function reduce_scatter_rows!(
    to, from, rows::Integer, op, group::Maker=group_of(to, from); stride=nothing, keywords...
)
    same_type(to, from)
    count, rest = rows == 0 ? (0, length(to)) : divrem(length(to), rows)
    rest == 0 || differ("$(length(to)) elements are not $rows equal rows")

    step = something(stride, group.size * count)
    needed = count == 0 ? 0 : (rows - 1) * step + group.size * count
    needed <= length(from) || differ("source has $(length(from)) elements; its rows need $needed")

    finish_collective(
        symm_reduce_scatter_rows,
        group,
        operand(from),
        operand(to),
        rows,
        count,
        step,
        dtype(eltype(to)),
        reduction(op);
        keywords...,
    )
    return to
end

# ---- all-reduce, residual and RMSNorm in one

"""
    allreduce_rmsnorm!(destination, source, weight, group; residual=nothing,
                       residual_out=residual, epsilon=1e-6, weight_offset=0,
                       quantised=nothing, scale=nothing, scales=nothing)

Sum `source` of all ranks, add a residual and normalise by RMSNorm, in one kernel. Matrices have
columns as long as `weight`. The arithmetic is that of `fused.h`, which may still change: a library
with another major version of it is refused.

- `destination` receives the normalised columns; may be `nothing`.
- `epsilon` is added to the mean of squares; 0 means 1e-6, too.
- `residual` is added to the sum, and `residual_out` receives that sum; either may be `nothing`.
- `quantised` receives `destination` as Float8 bytes of the kind e4m3, divided by a scale: either
  `scale`, an array of one Float32, or scales of the call's own, which go to `scales`, one for a
  column or one for 128 elements of it.
"""
function allreduce_rmsnorm!(
    to,
    from,
    weight,
    group::Maker=group_of(from);
    residual=nothing,
    residual_out=residual,
    epsilon=1e-6,
    weight_offset=0,
    quantised=nothing,
    scale=nothing,
    scales=nothing,
    chosen...,
)
    require_fused(symm_fused_version())
    hidden = length(weight)
    columns, rest = hidden == 0 ? (0, 1) : divrem(length(from), hidden)
    rest == 0 || differ("$(length(from)) elements are not columns of $hidden")
    require_matrices((to, residual, residual_out), from)
    if quantised !== nothing && length(quantised) * sizeof(eltype(quantised)) != length(from)
        differ("quantised needs $(length(from)) bytes")
    end

    kind = quant_scale_kind(scales, columns)
    by_group = kind == SYMM_QUANT_SCALE_GROUP
    require_scales(scale, 1)
    require_scales(scales, by_group ? columns * hidden ÷ 128 : columns)

    operands = (residual, residual_out, to, weight, quantised, scale, scales, from)
    GC.@preserve operands begin
        addresses = map(address_of, operands)
        norm = sized_with(
            symm_rmsnorm_call_t,
            addresses[1:4]...,
            dtype(eltype(weight)),
            epsilon,
            weight_offset,
            kind,
            addresses[5:7]...,
        )
        make_rmsnorm(group, norm, operands, columns, hidden; chosen...)
    end
    return to
end

function make_rmsnorm(
    group::Group, norm, operands, columns, hidden; stream=nothing, tag=nothing, chosen...
)
    from = last(operands)
    text = tag_text(tag)
    choice = Choice(; tag=text, chosen...)
    on = stream_for(stream, group)
    GC.@preserve operands text attempt() do call
        how = collective_options(call, choice)
        type = dtype(eltype(from))
        return symm_allreduce_rmsnorm(
            group, address_of(from), columns, hidden, type, norm, how, on
        )
    end
end

function make_rmsnorm(calls::Batch, norm, operands, columns, hidden; chosen...)
    from = last(operands)
    fused = Base.unsafe_convert(Ptr{symm_rmsnorm_call_t}, norm)
    return note!(
        calls,
        :allreduce_rmsnorm,
        (operands, norm),
        Int32(0),
        chosen;
        send=address_of(from),
        count=hidden,
        dtype=dtype(eltype(from)),
        rows=columns,
        fused=Ptr{Cvoid}(fused),
        fused_version=SYMM_FUSED_VERSION,
    )
end

"Refuse a library that has another `fused.h`, of which it says the version `found`."
function require_fused(found)
    found >> 16 == SYMM_FUSED_VERSION_MAJOR && return nothing
    spelled(version) = string(version >> 16, '.', version & 0xffff)
    own = spelled(SYMM_FUSED_VERSION)
    message = "libsymm has version $(spelled(found)) of fused.h, and this package calls $own"
    throw(SymmError(SYMM_ERR_UNSUPPORTED, message))
end

"""
The kind of the scales of a quantised result: the caller's, one for each column, or one for each 128
elements.
"""
function quant_scale_kind(scales, columns)
    scales === nothing && return SYMM_QUANT_SCALE_TENSOR
    return length(scales) == columns ? SYMM_QUANT_SCALE_TOKEN : SYMM_QUANT_SCALE_GROUP
end

function require_matrices(matrices, from)
    for matrix in matrices
        matrix === nothing && continue
        same_type(matrix, from)
        length(matrix) == length(from) ||
            differ("a result has $(length(matrix)) elements, source $(length(from))")
    end
end

function require_scales(numbers, count)
    numbers === nothing && return nothing
    eltype(numbers) === Float32 && length(numbers) == count && return nothing
    return differ("$count scales of Float32 are needed")
end

# ---- batches

"""
    batch(group; timeout=nothing, stream=nothing, tag=nothing) do calls
        allreduce!(A, +, calls)
        allgather!(B, C, calls)
    end

Make several collectives in one submission. The function makes them with `calls` in the place of the
group, and with their options but `timeout`, `stream` and `tag`, which are those of the batch. They
are made when the function has returned, and not at all if it throws. They are independent: what one
of them writes must not overlap an operand of another. A refusal names the call, `calls[0]` for the
first one, and then none was made.
"""
function batch(
    f::Function, group::Group; timeout=nothing, stream=nothing, tag::Union{Nothing,String}=nothing
)
    calls = Batch(group, [], [])
    f(calls)

    on = stream_for(stream, group)
    made = calls.calls
    GC.@preserve calls made tag attempt() do call
        how = options_of(
            call,
            symm_batch_options_t,
            milliseconds(timeout),
            call.failure,
            text_for_c(tag),
            place_of_request(),
        )
        return symm_batch(group, pointer(made), length(made), how, on)
    end
    return nothing
end

"""
Add a call to a batch. `fields` are those of `symm_collective_call_t` that are not 0, and `kept`
what must live until the batch is made.
"""
function note!(calls::Batch, collective, kept, result, chosen; scale=nothing, fields...)
    for name in (:timeout, :stream, :tag)
        get(chosen, name, nothing) === nothing ||
            throw(ArgumentError("$name: is that of the batch"))
    end
    own = Base.structdiff(values(chosen), NamedTuple{(:timeout, :stream, :tag)})
    choice = Choice(; scale=scale, own...)
    options = sized_with(symm_collective_options_t, fields_of(choice, C_NULL, result, C_NULL)...)
    pointers = (; options=Base.unsafe_convert(Ptr{symm_collective_options_t}, options))
    push!(calls.calls, call_struct(collective, merge(pointers, values(fields))))
    push!(calls.kept, (kept, scale, own, options))
    return nothing
end

"""A call with these fields; the others are 0 or NULL."""
function call_struct(collective, fields)
    values = map(fieldnames(symm_collective_call_t)) do name
        name === :struct_size && return sizeof(symm_collective_call_t)
        name === :collective && return value_of(COLLECTIVES, collective)
        empty = fieldtype(symm_collective_call_t, name) <: Ptr ? C_NULL : 0
        return get(fields, name, empty)
    end
    return symm_collective_call_t(values...)
end

# The collectives as the functions of C that they call, and what stands in a call of each behind the
# data type, or for those with counts, between the group and the options.
const NOTED = Dict{Any,Tuple{Symbol,Tuple}}(
    symm_allreduce => (:allreduce, (:op,)),
    symm_reduce_scatter => (:reduce_scatter, (:op,)),
    symm_allgather => (:allgather, ()),
    symm_broadcast => (:broadcast, (:root,)),
    symm_reduce => (:reduce, (:op, :root)),
    symm_scan => (:scan, (:op,)),
    symm_exscan => (:exscan, (:op,)),
    symm_alltoall => (:alltoall, ()),
    symm_gather => (:gather, (:root,)),
    symm_scatter => (:scatter, (:root,)),
    symm_allgatherv =>
        (:allgatherv, (:send, :recv, :recv_counts, :recv_displacements, :dtype)),
    symm_reduce_scatterv => (
        :reduce_scatterv, (:send, :send_counts, :send_displacements, :recv, :dtype, :op)
    ),
    symm_gatherv => (
        :gatherv,
        (:send, :count, :recv, :recv_counts, :recv_displacements, :dtype, :root),
    ),
    symm_scatterv => (
        :scatterv,
        (:send, :send_counts, :send_displacements, :recv, :count, :dtype, :root),
    ),
    symm_alltoallv => (
        :alltoallv,
        (
            :send,
            :send_counts,
            :send_displacements,
            :recv,
            :recv_counts,
            :recv_displacements,
            :dtype,
        ),
    ),
    symm_alltoallv_device => (
        :alltoallv,
        (
            :send,
            :send_capacity,
            :send_counts,
            :send_displacements,
            :recv,
            :recv_capacity,
            :recv_counts,
            :recv_displacements,
            :dtype,
        ),
    ),
    symm_allgather_rows => (
        :allgather_rows, (:send, :recv, :rows, :count, :recv_stride, :dtype)
    ),
    symm_reduce_scatter_rows => (
        :reduce_scatter_rows, (:send, :recv, :rows, :count, :send_stride, :dtype, :op)
    ),
)

# An argument of C as a field of a struct, whose owner is kept alive elsewhere.
raw_address(x::Union{Integer,Ptr}) = x
raw_address(x::KeepAlive) = x.address
raw_address(x) = address_of(x)

function collective(f, calls::Batch, from, to, count, T, more...; scale=nothing, chosen...)
    result = to === nothing || from === nothing ? Int32(0) : result_type(to, from)
    name, names = NOTED[f]
    kept = (operand(from), operand(to), from, to)
    fields = (;
        send=raw_address(kept[1]), recv=raw_address(kept[2]), count=count, dtype=dtype(T)
    )
    note!(
        calls,
        name,
        kept,
        result,
        chosen;
        scale=scale,
        merge(fields, NamedTuple{names}(more))...,
    )
    return to
end

function finish_collective(f, calls::Batch, arguments...; chosen...)
    name, names = NOTED[f]
    fields = NamedTuple{names}(map(raw_address, arguments))
    if f === symm_alltoallv_device
        fields = merge(fields, (; flags=SYMM_CALL_DEVICE_COUNTS))
    end
    note!(calls, name, arguments, Int32(0), chosen; fields...)
    return nothing
end

# ---- plans

"""
    plan(collective, destination, source, [op,] group; root=0, algorithm=nothing, scale=nothing,
         scale_position=:before, to_counts=nothing, to_displacements=nothing,
         from_counts=nothing, from_displacements=nothing, rows=0, stride=nothing)

The algorithm that a collective would use if every rank passed memory like this rank's, and why: a
named tuple with `algorithm`, `chunk_bytes` and `reason`. Local.

`advice` is `:nccl` if NCCL was measured to be faster for this call (`symm bench --tune --nccl`),
`:symm` if it was not, and `:unmeasured` if it was not measured; `symm_ns`, `nccl_ns` (nanoseconds)
and `advice_reason` say why. It is equal on all ranks.

`collective` is `:allreduce`, `:reduce_scatter`, `:allgather`, `:broadcast`, `:reduce`, `:scan`,
`:exscan`, `:alltoall`, `:gather`, `:scatter`, `:allgatherv` (with `to_counts`), `:reduce_scatterv`
(with `from_counts`), `:alltoallv` (with both), `:gatherv` (with `to_counts`), `:scatterv` (with
`from_counts`), `:allgather_rows` or `:reduce_scatter_rows` (with `rows` and `stride`).
"""
function plan(
    collective::Symbol,
    to,
    from,
    op,
    group::Group=group_of(to, from);
    root::Integer=0,
    algorithm=nothing,
    scale=nothing,
    scale_position=:before,
    to_counts=nothing,
    to_displacements=nothing,
    from_counts=nothing,
    from_displacements=nothing,
    rows=0,
    stride=nothing,
)
    blocks = map(sizes, (from_counts, from_displacements, to_counts, to_displacements))
    pointers = map(blocks) do list
        return list === C_NULL ? Ptr{Csize_t}(C_NULL) : pointer(list)
    end
    count = own_count(collective, to, from, group) ÷ max(rows, 1)

    choice = Choice(; algorithm=algorithm, scale=scale, scale_position=scale_position)
    found = GC.@preserve from to scale blocks begin
        fields = (;
            send=address_of(from),
            recv=address_of(to),
            count=count,
            dtype=dtype(eltype(from)),
            op=reduction(op),
            root=root,
            send_counts=pointers[1],
            send_displacements=pointers[2],
            recv_counts=pointers[3],
            recv_displacements=pointers[4],
            rows=rows,
            recv_stride=something(stride, group.size * count),
            send_stride=something(stride, group.size * count),
        )
        arguments = Ref(call_struct(collective, fields))
        result = result_type(to, from)
        described(symm_plan_info_t) do call, out
            how = collective_options(call, choice, result)
            return symm_collective_plan(group, arguments, how, out)
        end
    end
    return (;
        found...,
        algorithm=name_of(ALGORITHMS, found.algorithm),
        advice=name_of(ADVICE_NAMES, found.advice),
    )
end
function plan(collective::Symbol, to, from, group::Group=group_of(to, from); keywords...)
    return plan(collective, to, from, +, group; keywords...)
end

"""The count argument that a collective would be called with."""
function own_count(collective, to, from, group)
    by_result = (:reduce_scatter, :scatter, :reduce_scatter_rows, :scatterv)
    collective in by_result && return length(to)
    collective === :alltoall && return length(from) ÷ group.size
    return length(from)
end
