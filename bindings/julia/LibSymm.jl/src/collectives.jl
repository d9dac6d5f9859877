# Destination first, as everywhere in Julia. The group may be left out where an array is
# in symmetric memory. Every collective takes `algorithm` (a Symbol, for instance
# :one_shot; the same on all ranks), `timeout` (seconds) and `stream`. Reductions of
# floats also take `scale`, a factor (a number, the same on all ranks, or an array of
# one Float32, which is read when the call runs), and `scale_position`, :before (of
# every operand) or :after (of the result); and a destination of Float32 where the
# source is narrower has the result unrounded.

@inline options(::Nothing, ::Nothing, result=0, ::Nothing=nothing, position=nothing) = result == 0 ? C_NULL : scaled(nothing, nothing, result)
options(algorithm, timeout, result=0, scale=nothing, position=:before) = scaled(algorithm, timeout, result, scale, position)
function scaled(algorithm, timeout, result=0, scale=nothing, position=:before)
    pointer_, value = scale isa AbstractArray ? (address_of(scale), 0.0) : (C_NULL, scale === nothing ? 0.0 : Float64(scale))
    scale isa AbstractArray && !(eltype(scale) === Float32 && length(scale) == 1) && throw(ArgumentError("scale: is not one Float32"))
    return sized_with(
        symm_collective_options_t, algorithm === nothing ? SYMM_ALGORITHM_AUTO : value_of(ALGORITHMS, algorithm),
        milliseconds(timeout), C_NULL, scale === nothing ? SYMM_SCALE_NONE : value_of(SCALES, position), result, value, pointer_
    )
end

const NARROW = (SYMM_DTYPE_F16, SYMM_DTYPE_BF16, SYMM_DTYPE_F8E4M3, SYMM_DTYPE_F8E5M2)
reduces(A, B) = eltype(A) === eltype(B) || (eltype(A) === Float32 && dtype(eltype(B)) in NARROW) || differ_in_type(A, B)
wider(A, B) = A === nothing || eltype(A) === eltype(B) ? Int32(0) : dtype(eltype(A))

# A collective of C; `more` is what it takes between the type and the options.
@inline function collective(f, group, from, to, count, T, more...; algorithm=nothing, timeout=nothing, stream=nothing, scale=nothing, scale_position=:before)
    result = to === nothing || from === nothing ? Int32(0) : wider(to, from)
    how = options(algorithm, timeout, result, scale, scale_position)
    GC.@preserve scale check(f(group, operand(from), operand(to), count, dtype(T), more..., how, stream_for(stream, group)))
    return to
end

@noinline differ(what) = throw(DimensionMismatch(what))
@noinline differ_in_type(A, B) = throw(ArgumentError("elements of $(eltype(A)) and $(eltype(B)) do not go together"))
@inline same_type(A, B) = eltype(A) === eltype(B) || differ_in_type(A, B)

# That `to` is so many parts of the length of which `from`
# is so many. What a rank does not use may be nothing.
@inline function fit(to, to_parts, from, from_parts, types=same_type)
    (to === nothing || from === nothing) && return
    types(to, from)
    length(to) * from_parts == length(from) * to_parts ||
        differ("destination and source have $(length(to)) and $(length(from)) elements, which are not as $to_parts to $from_parts")
end

"""
    allreduce!(A, op, group=LibSymm.group_of(A))
    allreduce!(destination, source, op, group)

`destination[i] = op` over all ranks' `source[i]`, on every rank; the first form in place. `op` is `+`, `*`, `min`, `max` or `avg`. Ranks are combined
in the order 0, 1, ..., so the result has the same bits everywhere.
"""
@inline allreduce!(A, op, group::Group=group_of(A); keywords...) = allreduce!(A, A, op, group; keywords...)
@inline function allreduce!(to, from, op, group::Group=group_of(to, from); keywords...)
    fit(to, 1, from, 1, reduces)
    return collective(symm_allreduce, group, from, to, length(from), eltype(from), reduction(op); keywords...)
end

"`allreduce(A, op, group=LibSymm.group_of(A))`: as [`allreduce!`](@ref), into a new array."
allreduce(A::AbstractArray, op, group::Group=group_of(A); keywords...) = allreduce!(similar(A), A, op, group; keywords...)

"""
    reduce_scatter!(destination, source, op, group)
    reduce_scatter!(A, op, group=LibSymm.group_of(A))

Rank r receives the r-th part of the reduction of all ranks' `source`, which has `size` parts of the length of `destination`. The second form puts it
in place, into the r-th part of `A`, and returns a view of that.
"""
function reduce_scatter!(to, from, op, group::Group=group_of(to, from); keywords...)
    fit(to, 1, from, group.size, reduces)
    return collective(symm_reduce_scatter, group, from, to, length(to), eltype(from), reduction(op); keywords...)
end
reduce_scatter!(A, op, group::Group=group_of(A); keywords...) = reduce_scatter!(own_part(A, group), A, op, group; keywords...)

"""
    allgather!(destination, source, group)
    allgather!(A, group=LibSymm.group_of(A))

`destination` receives all ranks' `source`, one after the other. The second form is in place: rank r's source is the r-th part of `A`.
"""
function allgather!(to, from, group::Group=group_of(to, from); keywords...)
    fit(to, group.size, from, 1)
    return collective(symm_allgather, group, from, to, length(from), eltype(from); keywords...)
end
allgather!(A, group::Group=group_of(A); keywords...) = (allgather!(A, own_part(A, group), group; keywords...); A)

function own_part(A, group)
    count, rest = divrem(length(A), group.size)
    rest == 0 || differ("$(length(A)) elements are not $(group.size) equal parts")
    return part(A, group.rank * count, count)
end
part(A::AbstractArray, first, count) = view(vec(A), (first + 1):(first + count))
part(span::Span{T}, first, count) where {T} = Span{T}(span.address + first * sizeof(T), count)

"""
    LibSymm.broadcast!(A, group; root=0)
    LibSymm.broadcast!(destination, source, group; root=0)

`destination` receives `source` of the root on every rank. `source` is read on the root only, and may be `nothing` elsewhere. For an array in symmetric
memory the group may be left out: `LibSymm.broadcast!(A; root=0)`.
"""
broadcast!(A::Union{AbstractArray,Span}, group::Group; keywords...) = broadcast_from!(A, A, group; keywords...)
broadcast!(A::SymmArray; keywords...) = broadcast_from!(A, A, group_of(A); keywords...)
broadcast!(to::Union{AbstractArray,Span}, from, group::Group; keywords...) = broadcast_from!(to, from, group; keywords...)

function broadcast_from!(to, from, group; root::Integer=0, keywords...)
    fit(to, 1, from, 1)
    return collective(symm_broadcast, group, from, to, length(to), eltype(to), root; keywords...)
end

"""
    reduce!(A, op, group=LibSymm.group_of(A); root=0)
    reduce!(destination, source, op, group; root=0)

As [`allreduce!`](@ref), on the root only. `destination` may be `nothing` elsewhere.
"""
reduce!(A, op, group::Group=group_of(A); keywords...) = reduce!(A, A, op, group; keywords...)
function reduce!(to, from, op, group::Group=group_of(to, from); root::Integer=0, keywords...)
    fit(to, 1, from, 1, reduces)
    return collective(symm_reduce, group, from, to, length(from), eltype(from), reduction(op), root; keywords...)
end

"""
    alltoall!(A, group=LibSymm.group_of(A))
    alltoall!(destination, source, group)

The r-th part of `source` goes to rank r; the r-th part of `destination` comes from rank r.
"""
function alltoall!(to, from, group::Group=group_of(to, from); keywords...)
    fit(to, 1, from, 1)
    count, rest = divrem(length(from), group.size)
    rest == 0 || differ("$(length(from)) elements are not $(group.size) equal parts")
    return collective(symm_alltoall, group, from, to, count, eltype(from); keywords...)
end
alltoall!(A, group::Group=group_of(A); keywords...) = alltoall!(A, A, group; keywords...)

# ---- blocks of lengths of their own

# As C takes them; nothing for NULL.
sizes(::Nothing) = C_NULL
sizes(numbers) = collect(Csize_t, numbers)

# One number for each rank, and all blocks within `elements`.
function require_blocks(what, elements, counts, displacements, group)
    length(counts) == group.size || differ("$(length(counts)) counts of $what for $(group.size) ranks")
    displacements === nothing || length(displacements) == group.size || differ("$(length(displacements)) displacements of $what for $(group.size) ranks")
    places = displacements === nothing ? cumsum(counts) .- counts : displacements
    # small integers overflow
    needed = reduce(max, (Int128(at) + n for (at, n) in zip(places, counts) if n > 0); init=0)
    needed <= elements || differ("$what has $elements elements; its blocks need $needed")
    return Int(places[group.rank + 1])
end

# What follows the operands and counts in every call.
function finish_collective(f, group, arguments...; algorithm=nothing, timeout=nothing, stream=nothing)
    return check(f(group, arguments..., options(algorithm, timeout), stream_for(stream, group)))
end

"""
    allgatherv!(destination, counts, source, group; displacements=nothing)
    allgatherv!(A, counts, group=LibSymm.group_of(A); displacements=nothing)

Block r of `destination`, of `counts[r + 1]` elements, receives rank r's `source`. The counts are the same on all ranks. `displacements` says how many
elements lie before each block; `nothing`: one behind the other. The second form is in place: rank r's source is its block of `A`.
"""
function allgatherv!(to, counts, from, group::Group=group_of(to, from); displacements=nothing, keywords...)
    same_type(to, from)
    require_blocks("destination", length(to), counts, displacements, group)
    length(from) == counts[group.rank + 1] || differ("a block of $(counts[group.rank + 1]) elements for a source of $(length(from))")
    finish_collective(symm_allgatherv, group, operand(from), operand(to), sizes(counts), sizes(displacements), dtype(eltype(to)); keywords...)
    return to
end
function allgatherv!(A, counts, group::Group=group_of(A); displacements=nothing, keywords...)
    at = require_blocks("A", length(A), counts, displacements, group)
    return allgatherv!(A, counts, part(A, at, counts[group.rank + 1]), group; displacements, keywords...)
end

"""
    reduce_scatterv!(destination, source, counts, op, group; displacements=nothing)

Rank r receives the reduction of all ranks' block r of `source`, which has `counts[r + 1]` elements. The counts are the same on all ranks; see
[`allgatherv!`](@ref) for `displacements`. In place `destination` is this rank's block of `source`.
"""
function reduce_scatterv!(to, from, counts, op, group::Group=group_of(to, from); displacements=nothing, keywords...)
    same_type(to, from)
    require_blocks("source", length(from), counts, displacements, group)
    length(to) == counts[group.rank + 1] || differ("a block of $(counts[group.rank + 1]) elements for a destination of $(length(to))")
    finish_collective(
        symm_reduce_scatterv, group, operand(from), sizes(counts), sizes(displacements), operand(to), dtype(eltype(to)), reduction(op); keywords...
    )
    return to
end

"""
    alltoallv!(destination, to_counts, source, from_counts, group; to_displacements=nothing, from_displacements=nothing)

Block r of `source`, of `from_counts[r + 1]` elements, goes to rank r; block r of `destination` comes from rank r, which gives the same length. In place
both are one array, with equal counts and displacements; see [`allgatherv!`](@ref) for those.
"""
function alltoallv!(
    to, to_counts, from, from_counts, group::Group=group_of(to, from); to_displacements=nothing, from_displacements=nothing, keywords...
)
    same_type(to, from)
    require_blocks("source", length(from), from_counts, from_displacements, group)
    require_blocks("destination", length(to), to_counts, to_displacements, group)
    finish_collective(
        symm_alltoallv, group, operand(from), sizes(from_counts), sizes(from_displacements), operand(to), sizes(to_counts), sizes(to_displacements),
        dtype(eltype(to)); keywords...,
    )
    return to
end

"""
    alltoallv_device!(destination, to_counts, source, from_counts, group; to_displacements=nothing, from_displacements=nothing)

[`alltoallv!`](@ref) with counts and displacements that are read when it runs: arrays of one `Int64` or `UInt64` for each rank, where the operands lie. A
captured call takes new ones at each replay. Never in place. A block that does not lie within its array is an error: on the host of the call, on CUDA of the
group.
"""
function alltoallv_device!(
    to, to_counts, from, from_counts, group::Group=group_of(to, from); to_displacements=nothing, from_displacements=nothing, keywords...
)
    same_type(to, from)
    numbers(::Nothing) = C_NULL
    function numbers(list)
        eltype(list) in (Int64, UInt64) && length(list) == group.size || differ("$(length(list)) $(eltype(list)), not an Int64 for each rank")
        return Ptr{UInt64}(address_of(list))
    end
    GC.@preserve to_counts from_counts to_displacements from_displacements finish_collective(
        symm_alltoallv_device, group, operand(from), length(from), numbers(from_counts), numbers(from_displacements), operand(to), length(to),
        numbers(to_counts), numbers(to_displacements), dtype(eltype(to)); keywords...,
    )
    return to
end

"""
    LibSymm.gather!(destination, source, group; root=0)

The r-th part of `destination` receives rank r's `source`, on the root only; elsewhere `destination` may be `nothing`. In place the root's `source` is its
part of `destination`.
"""
function gather!(to, from, group::Group=group_of(from); root::Integer=0, keywords...)
    group.rank == root && fit(to, group.size, from, 1)
    return collective(symm_gather, group, from, to, length(from), eltype(from), root; keywords...)
end

"""
    LibSymm.scatter!(destination, source, group; root=0)

`destination` receives this rank's part of the root's `source`, which is read on the root only and may be `nothing` elsewhere. In place the root's
`destination` is its part of `source`.
"""
function scatter!(to, from, group::Group=group_of(to); root::Integer=0, keywords...)
    group.rank == root && fit(to, 1, from, group.size)
    return collective(symm_scatter, group, from, to, length(to), eltype(to), root; keywords...)
end

"""
    allgather_rows!(destination, source, rows, group; stride=nothing)

Of `rows` rows each (in memory one behind the other), a row of `destination` receives that row of all ranks' `source`, one behind the other. From one row of
`destination` to the next are `stride` elements; `nothing`: no gap.
"""
function allgather_rows!(to, from, rows::Integer, group::Group=group_of(to, from); stride=nothing, keywords...)
    same_type(to, from)
    count, rest = rows == 0 ? (0, length(from)) : divrem(length(from), rows)
    rest == 0 || differ("$(length(from)) elements are not $rows equal rows")
    step = something(stride, group.size * count)
    needed = count == 0 ? 0 : (rows - 1) * step + group.size * count
    needed <= length(to) || differ("destination has $(length(to)) elements; its rows need $needed")
    finish_collective(symm_allgather_rows, group, operand(from), operand(to), rows, count, step, dtype(eltype(to)); keywords...)
    return to
end

"""
    allreduce_rmsnorm!(destination, source, weight, group; residual=nothing, residual_out=residual, epsilon=1e-6, weight_offset=0,
                       quantised=nothing, scale=nothing, scales=nothing)

The sum of all ranks' `source`, columns as long as `weight`, plus `residual`, goes to `residual_out`, and normalised to `destination`; either may be
`nothing`. `quantised` receives `destination` as Float8 bytes of the kind e4m3, divided by `scale`, an array of one Float32, or by scales of its own, which go
to `scales`: one a column, or one for 128 elements of it. The arithmetic is that of `symm.h`.
"""
function allreduce_rmsnorm!(
    to, from, weight, group::Group=group_of(from); residual=nothing, residual_out=residual, epsilon=1e-6, weight_offset=0, quantised=nothing,
    scale=nothing, scales=nothing, algorithm=nothing, timeout=nothing, stream=nothing,
)
    hidden = length(weight)
    columns, rest = hidden == 0 ? (0, 1) : divrem(length(from), hidden)
    rest == 0 || differ("$(length(from)) elements are not columns of $hidden")
    for matrix in (to, residual, residual_out)
        matrix === nothing || (same_type(matrix, from); length(matrix) == length(from) || differ("a result has $(length(matrix)) elements, source $(length(from))"))
    end
    quantised === nothing || length(quantised) * sizeof(eltype(quantised)) == length(from) || differ("quantised needs $(length(from)) bytes")
    by_group = scales !== nothing && length(scales) != columns
    for (numbers, count) in ((scale, 1), (scales, by_group ? columns * hidden ÷ 128 : columns))
        numbers === nothing || (eltype(numbers) === Float32 && length(numbers) == count) || differ("$count scales of Float32 are needed")
    end
    kind = scales === nothing ? SYMM_QUANT_SCALE_TENSOR : by_group ? SYMM_QUANT_SCALE_GROUP : SYMM_QUANT_SCALE_TOKEN
    operands = (residual, residual_out, to, weight, quantised, scale, scales, from)
    GC.@preserve operands begin
        addresses = map(address_of, operands)
        norm = sized_with(
            symm_rmsnorm_t, addresses[1:4]..., dtype(eltype(weight)), epsilon, weight_offset, kind, addresses[5:7]...,
        )
        check(symm_allreduce_rmsnorm(
            group, addresses[8], columns, hidden, dtype(eltype(from)), norm, options(algorithm, timeout), stream_for(stream, group)
        ))
    end
    return to
end

# ---- which algorithm

"""
    plan(collective, destination, source, [op,] group; root=0, algorithm=nothing, scale=nothing, scale_position=:before, to_counts=nothing,
         to_displacements=nothing, from_counts=nothing, from_displacements=nothing, rows=0, stride=nothing)

Which algorithm a collective would use if every rank passed memory like this rank's, and why: a named tuple with `algorithm`, `slices`,
`chunk_bytes`, `nontemporal` and `reason`. `collective` is `:allreduce`, `:reduce_scatter`, `:allgather`, `:broadcast`, `:reduce`, `:alltoall`, `:gather`,
`:scatter`, `:allgatherv` (of `to_counts`), `:reduce_scatterv` (of `from_counts`), `:alltoallv` (of both) or `:allgather_rows` (of `rows`).
"""
function plan(
    collective::Symbol, to, from, op, group::Group=group_of(to, from); root::Integer=0, algorithm=nothing, scale=nothing, scale_position=:before,
    to_counts=nothing, to_displacements=nothing, from_counts=nothing, from_displacements=nothing, rows=0, stride=nothing,
)
    blocks = map(sizes, (from_counts, from_displacements, to_counts, to_displacements))
    count = own_count(collective, to, from, group) ÷ max(rows, 1)
    found = GC.@preserve from to scale blocks begin
        call = sized_with(
            symm_collective_call_t, value_of(COLLECTIVES, collective), address_of(from), address_of(to), count, dtype(eltype(from)),
            reduction(op), root, map(list -> list === C_NULL ? Ptr{Csize_t}(C_NULL) : pointer(list), blocks)..., rows,
            something(stride, group.size * count),
        )
        how = options(algorithm, nothing, wider(to, from), scale, scale_position)
        filled(symm_plan_info_t, symm_collective_plan, group, call, how)
    end
    return (; found..., algorithm=name_of(ALGORITHMS, found.algorithm))
end
plan(collective::Symbol, to, from, group::Group=group_of(to, from); keywords...) = plan(collective, to, from, +, group; keywords...)

"""A collective's own count argument."""
own_count(collective, to, from, group) =
    collective in (:reduce_scatter, :scatter) ? length(to) : collective === :alltoall ? length(from) ÷ group.size : length(from)
