# What a call costs over C's: an all-reduce of 8 bytes in a group of one, by this
# package and by the bare function, by turns.
using LibSymm

const CALLS = 20_000
const ROUNDS = 21

by_package(to, from, group) = (allreduce!(to, from, +, group); nothing)

# What a C program does: a call through a pointer, and a look at the status.
function by_pointer(entry, to, from, group)
    status = ccall(
        entry, Int32, (Ptr{Cvoid}, Ptr{Cvoid}, Ptr{Cvoid}, Csize_t, Int32, Int32, Ptr{Cvoid}, Ptr{Cvoid}),
        group, from, to, 1, LibSymm.SYMM_DTYPE_F64, LibSymm.SYMM_OP_SUM, C_NULL, C_NULL,
    )
    status == Int32(LibSymm.SYMM_OK) || error("status $status")
    return nothing
end

function nanoseconds(call::F, arguments...) where {F}
    start = time_ns()
    for _ in 1:CALLS
        call(arguments...)
    end
    return (time_ns() - start) / CALLS
end

median(samples) = sort(samples)[(end + 1) ÷ 2]

function main()
    group = Group(0, 1, "thread://overhead"; backend=:host)
    from, to = [1.5], [0.0]
    entry, raw = LibSymm.address(LibSymm.index_of(:symm_allreduce)), Ptr{Cvoid}(group.handle)
    package, bare = Float64[], Float64[]
    GC.@preserve from to for round in 0:ROUNDS
        mine = nanoseconds(by_package, to, from, group)
        other = nanoseconds(by_pointer, entry, Ptr{Cvoid}(pointer(to)), Ptr{Cvoid}(pointer(from)), raw)
        round == 0 || (push!(package, mine); push!(bare, other))  # in the first, they are compiled
    end
    mine, other = median(package), median(bare)
    shown(ns) = "$(round(ns; digits=1)) ns"
    println("8-byte all-reduce, one rank: LibSymm.jl $(shown(mine)), raw call $(shown(other)), difference $(shown(mine - other))")
end

main()
