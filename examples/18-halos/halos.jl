# The heat equation on a plate, with halos that neighbours exchange while they compute.
#   symm run -n 3 -- julia halos.jl
#
# Each rank has a band of rows, with a row more above and below: its halo, or an edge of the plate.
# It computes the outer rows first. Then they go into its neighbours' halos, while it computes the
# others. Rows are views, and no copies: their elements lie far apart. Two plates take turns as
# source and target, and each has an exchange of its own.
using LibSymm

const ROWS = 240
const COLUMNS = 238
const STEPS = 400
const HOT = 100.0  # the temperature of the upper edge; the others have 0

before(rank, size) = ROWS * rank ÷ size
rows_of(rank, size) = before(rank + 1, size) - before(rank, size)

"""One step of some rows of a band. Returns the greatest change."""
function step!(to, from, rows)
    change = 0.0
    @inbounds for column in 2:(COLUMNS + 1), row in rows
        value = (from[row - 1, column] + from[row + 1, column] +
                 from[row, column - 1] + from[row, column + 1]) / 4
        change = max(change, abs(value - from[row, column]))
        to[row, column] = value
    end
    return change
end

"""What puts the outer rows of a plate into the halos of the neighbours."""
function exchange_of(plate, group)
    rank, size = group.rank, group.size
    rows = rows_of(rank, size)
    neighbors = Neighbor[]
    if rank > 0
        halo = view(plate, rows_of(rank - 1, size) + 2, :)
        push!(neighbors, Neighbor(rank - 1, halo, view(plate, 2, :)))
    end
    if rank + 1 < size
        push!(neighbors, Neighbor(rank + 1, view(plate, 1, :), view(plate, rows + 1, :)))
    end
    return Exchange(group, neighbors)
end

function main()
    group = Group(; backend=:host)
    rank, size = group.rank, group.size
    rows = rows_of(rank, size)
    most = maximum(one -> rows_of(one, size), 0:(size - 1))
    plates = [SymmArray{Float64}(group, most + 2, COLUMNS + 2) for _ in 1:2]
    for plate in plates
        fill!(plate, 0)
        rank == 0 && (plate[1, :] .= HOT)
    end
    barrier(group)  # nobody puts into a plate that is being filled
    exchanges = [exchange_of(plate, group) for plate in plates]

    change = 0.0
    for number in 1:STEPS
        from, to = isodd(number) ? plates : reverse(plates)
        exchange = exchanges[isodd(number) ? 2 : 1]
        edges = max(step!(to, from, 2:2), step!(to, from, (rows + 1):(rows + 1)))
        start_round!(exchange)
        change = max(edges, step!(to, from, 3:rows))
        finish_round!(exchange)
    end

    greatest = allreduce!([0.0], [change], max, group)
    row = ROWS ÷ 8 + 1 - before(rank, size)
    if 1 <= row <= rows
        degrees = round(plates[1][row + 1, COLUMNS ÷ 2 + 2]; digits=6)
        print("after $STEPS steps row 30 has $degrees degrees in the middle, and changed by ")
        println(round(greatest[1]; digits=6))
    end
    return finalize(group)
end

main()
