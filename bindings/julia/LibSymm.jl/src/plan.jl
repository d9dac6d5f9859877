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
    code = value_of(COLLECTIVES, collective)
    send, recv = operand(from), operand(to)
    blocks = map(sizes, (from_counts, from_displacements, to_counts, to_displacements))
    count = own_count(collective, to, from, group) ÷ max(rows, 1)
    found = GC.@preserve send recv scale blocks begin
        call = sized_with(
            symm_collective_call_t, code, Base.unsafe_convert(Ptr{Cvoid}, Base.cconvert(Ptr{Cvoid}, send)),
            Base.unsafe_convert(Ptr{Cvoid}, Base.cconvert(Ptr{Cvoid}, recv)), count,
            dtype(eltype(from)), reduction(op), root, map(list -> list === C_NULL ? Ptr{Csize_t}(C_NULL) : pointer(list), blocks)..., rows,
            something(stride, group.size * count),
        )
        result = recv === nothing ? Int32(0) : wider(to, from)
        filled(symm_plan_info_t, symm_collective_plan, group, call, options(algorithm, nothing, result, scale, scale_position))
    end
    return (; found..., algorithm=name_of(ALGORITHMS, found.algorithm))
end
plan(collective::Symbol, to, from, group::Group=group_of(to, from); keywords...) = plan(collective, to, from, +, group; keywords...)

"""A collective's own count argument."""
own_count(collective, to, from, group) =
    collective in (:reduce_scatter, :scatter) ? length(to) : collective === :alltoall ? length(from) ÷ group.size : length(from)
