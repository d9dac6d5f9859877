# The tests need SYMM_LIB (or a built tree) and, for several ranks, SYMM_TOOL, the launcher `symm`.
# With fewer than two threads, the tests of threads are skipped:
#   SYMM_LIB=... SYMM_TOOL=... julia -t 2 --project=. test/runtests.jl
using LibSymm
using Test

@testset "LibSymm" begin
    include("formats.jl")
    include("library.jl")
    include("one_rank.jl")
    include("threads.jl")
    include("requests.jl")
    include("extensions.jl")
    include("documents.jl")

    @testset "several ranks" begin
        if !haskey(ENV, "SYMM_TOOL")
            @info "skipped: several ranks (SYMM_TOOL does not name the launcher)"
        else
            ENV["SYMM_TEST_DIRECTORY"] = mktempdir()
            table = joinpath(ROOT, "tests", "bindings", "behaviours", "table.txt")
            # The table says so where a token shall not be held.
            status, lines = withenv("SYMM_IPC_HOLD_MS" => "60000") do
                return run_ranks(3, joinpath(@__DIR__, "ranks.jl"), table)
            end

            # The table's last scenario kills rank 2, and only that may go wrong.
            is_end(line, rank) = occursin(Regex("^\\[$rank\\] rank $rank: [0-9]+ scenarios"), line)
            ended = status == 137 && all(any(is_end(line, rank) for line in lines) for rank in 0:1)
            ended || foreach(println, lines)
            @test ended
        end
    end
end
