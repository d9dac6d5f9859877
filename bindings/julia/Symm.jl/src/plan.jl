# SPDX-License-Identifier: Apache-2.0

"""
    plan(collective, destination, source, [op,] group; root=0, algorithm=nothing)

Which algorithm a collective would use if every rank passed memory like this rank's, and why: a named tuple with `algorithm`, `slices`,
`chunk_bytes`, `nontemporal` and `reason`. `collective` is `:allreduce`, `:reduce_scatter`, `:allgather`, `:broadcast`, `:reduce`, `:alltoall`, `:gather` or
`:scatter`.
"""
function plan(collective::Symbol, to, from, op, group::Group=group_of(to, from); root::Integer=0, algorithm=nothing)
    code = value_of(COLLECTIVES, collective)
    send, recv = operand(from), operand(to)
    found = GC.@preserve send recv begin
        call = sized_with(
            symm_collective_call_t, code, Base.unsafe_convert(Ptr{Cvoid}, Base.cconvert(Ptr{Cvoid}, send)),
            Base.unsafe_convert(Ptr{Cvoid}, Base.cconvert(Ptr{Cvoid}, recv)), own_count(collective, to, from, group),
            dtype(eltype(from)), reduction(op), root, C_NULL, C_NULL, C_NULL, C_NULL, 0, 0,
        )
        filled(symm_plan_info_t, symm_collective_plan, group, call, options(algorithm, nothing, recv === nothing ? Int32(0) : wider(to, from)))
    end
    return (; found..., algorithm=name_of(ALGORITHMS, found.algorithm))
end
plan(collective::Symbol, to, from, group::Group=group_of(to, from); keywords...) = plan(collective, to, from, +, group; keywords...)

"""A collective's own count argument."""
own_count(collective, to, from, group) =
    collective in (:reduce_scatter, :scatter) ? length(to) : collective === :alltoall ? length(from) ÷ group.size : length(from)
