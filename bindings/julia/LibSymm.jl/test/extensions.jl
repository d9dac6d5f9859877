# The package's extensions, with stand-ins for CUDA.jl and MPI.jl: see standin. Julia
# before 1.9 loads no extensions, so one is included here.

pushfirst!(LOAD_PATH, joinpath(@__DIR__, "standin"))
import CUDA
@static if VERSION < v"1.9"
    include(joinpath(@__DIR__, "..", "ext", "LibSymmCUDAExt.jl"))
end
popfirst!(LOAD_PATH)

@testset "CUDA.jl's names" begin
    group = Group(backend=:host)
    x = CUDA.CuArray(Float32[1, 2, 3, 4])
    y = CUDA.CuArray(zeros(Float32, 4))
    @test allreduce!(y, x, +, group) === y && Array(y) == 1:4
    @test Array(LibSymm.broadcast!(CUDA.CuArray([7, 8]), group)) == [7, 8]
    @test Array(allreduce!(y, x, +, group; scale=CUDA.CuArray(Float32[2]))) == 2:2:8
    four = CUDA.CuArray([4])
    @test Array(alltoallv_device!(y, four, x, four, group)) == 1:4
    span = Span{Float32}(pointer(x), 4)
    @test Array(allreduce!(y, span, max, group)) == 1:4
    @test_throws DimensionMismatch allreduce!(CUDA.CuArray(zeros(Float32, 3)), x, +, group)

    memory = SymmMemory(group, 64)
    LibSymm.put!(memory, 0, x; offset=16)
    view_ = CUDA.CuArray{Float32}(memory, 2, 2; offset=16)
    @test pointer(view_) == reinterpret(CUDA.CuPtr{Float32}, pointer(memory) + 16) && Array(view_) == [1 3; 2 4]
    @test Array(LibSymm.get!(y, memory, 0; offset=20))[1:3] == 2:4
    @test LibSymm.find(group, pointer(view_)).offset == 16
    @test Array(import_token(Float32, export_token(view_))) == 1:4
    @test_throws ArgumentError CUDA.CuArray{Float32}(memory, 16; offset=16)
    # The array keeps the memory.
    other = CUDA.CuArray{Int64}(SymmMemory(group, 8), 1)
    GC.gc()
    @test Array(allreduce!(other, +, group)) == [0]

    # The current task's stream, where the group has streams.
    CUDA.CURRENT[] = CUDA.CuStream(Ptr{Cvoid}(UInt(0x1234)))
    @test LibSymm.stream_for(nothing, group) == C_NULL
    group.backend = :cuda
    @test LibSymm.stream_for(nothing, group) == Ptr{Cvoid}(UInt(0x1234))
    @test LibSymm.stream_for(CUDA.CuStream(Ptr{Cvoid}(UInt(0x99))), group) == Ptr{Cvoid}(UInt(0x99))
    @test LibSymm.stream_for(UInt(0x77), group) == Ptr{Cvoid}(UInt(0x77))
    @test_throws ArgumentError SymmArray{Float32}(memory, 1)
    CUDA.CURRENT[] = CUDA.CuStream(C_NULL)
    close(group)
end

# The stand-in for MPI.jl calls Open MPI: a program of two ranks, started by its mpirun.
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
