# Measures what a call of this package costs beyond the call of C: an all-reduce of 8 bytes in a
# group of one, by this package and by the bare function in turn.
using LibSymm

const CALLS = 20_000
const ROUNDS = 21

function by_package(to, from, group)
    allreduce!(to, from, +, group)
    return nothing
end

# A program in C does this too: it calls through a pointer, and looks at the status.
function by_pointer(entry, to, from, group)
    status = ccall(
        entry,
        Int32,
        (Ptr{Cvoid}, Ptr{Cvoid}, Ptr{Cvoid}, Csize_t, Int32, Int32, Ptr{Cvoid}, Ptr{Cvoid}),
        group,
        from,
        to,
        1,
        LibSymm.SYMM_DTYPE_F64,
        LibSymm.SYMM_OP_SUM,
        C_NULL,
        C_NULL,
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
    group = Group(0, 1; bootstrap="thread://overhead", backend=:host)
    from = [1.5]
    to = [0.0]
    entry = LibSymm.address(LibSymm.index_of(:symm_allreduce))
    raw = Ptr{Cvoid}(group.handle)

    package = Float64[]
    bare = Float64[]
    GC.@preserve from to begin
        to_pointer = Ptr{Cvoid}(pointer(to))
        from_pointer = Ptr{Cvoid}(pointer(from))
        for round in 0:ROUNDS
            mine = nanoseconds(by_package, to, from, group)
            other = nanoseconds(by_pointer, entry, to_pointer, from_pointer, raw)
            round == 0 && continue  # the functions are compiled in this round
            push!(package, mine)
            push!(bare, other)
        end
    end

    mine = median(package)
    other = median(bare)
    shown(ns) = "$(round(ns; digits=1)) ns"
    println(
        "8-byte all-reduce, one rank: LibSymm.jl $(shown(mine)), raw call $(shown(other)), ",
        "difference $(shown(mine - other))",
    )
    return nothing
end

main()
