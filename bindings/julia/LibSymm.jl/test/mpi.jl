# The extension for MPI.jl, with a stand-in that calls Open MPI (see standin/MPI): a program of two ranks, started by its mpirun.

@testset "MPI.jl's communicators" begin
    mpirun = Sys.which("mpirun.openmpi")
    mpirun === nothing && @info "skipped: MPI.jl's communicators (mpirun.openmpi is not installed)"
    mpirun === nothing || mktempdir() do folder
        program = joinpath(@__DIR__, "mpi_rank.jl")
        command = `$mpirun --oversubscribe -n 2 $(Base.julia_cmd()) --startup-file=no --project=$(Base.active_project()) $program`
        as_root = ("OMPI_ALLOW_RUN_AS_ROOT" => "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM" => "1")
        command = setenv(command, merge(Dict(ENV), Dict("TMPDIR" => folder, as_root...)))
        @test success(pipeline(command; stdout=stdout, stderr=stderr))
        @test !any(startswith("symm-mpi-"), readdir(folder))
    end
end
