# Needs SYMM_LIB (or a built tree) and, for several ranks, SYMM_TOOL, the launcher `symm`. Two threads, or the test of threads is skipped:
#   SYMM_LIB=... SYMM_TOOL=... julia -t 2 --project=. test/runtests.jl
using LibSymm
using Test

@testset "LibSymm" begin
    include("formats.jl")
    include("library.jl")
    include("layout.jl")
    include("one_rank.jl")
    include("log.jl")
    include("threads.jl")
    include("failures.jl")
    include("cuda.jl")
    include("mpi.jl")
    include("documents.jl")
    include("several_ranks.jl")
end
