# A program of several ranks, started by `symm run`.

@testset "several ranks" begin
    if !haskey(ENV, "SYMM_TOOL")
        @info "skipped: several ranks (SYMM_TOOL does not name the launcher)"
    else
        ENV["SYMM_TEST_DIRECTORY"] = mktempdir()
        # The table's last scenario kills rank 2, and only that may go wrong.
        status, lines = run_ranks(3, joinpath(@__DIR__, "ranks.jl"), joinpath(ROOT, "tests", "bindings", "behaviours", "table.txt"))
        ended = status == 137 && all(rank -> any(l -> occursin(Regex("^\\[$rank\\] rank $rank: [0-9]+ scenarios"), l), lines), 0:1)
        ended || foreach(println, lines)
        @test ended
    end
end
