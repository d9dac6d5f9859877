# The package's extensions, with stand-ins for CUDA.jl and MPI.jl, which are in the folder standin.
# Julia before 1.9 loads no extensions, so one is included here.

pushfirst!(LOAD_PATH, joinpath(@__DIR__, "standin"))
import CUDA
@static if VERSION < v"1.9"
    include(joinpath(@__DIR__, "..", "ext", "LibSymmCUDAExt.jl"))
end
popfirst!(LOAD_PATH)

@testset "arrays of CUDA.jl as operands" begin
    group = Group(; backend=:host)
    x = CUDA.CuArray(Float32[1, 2, 3, 4])
    y = CUDA.CuArray(zeros(Float32, 4))
    @test allreduce!(y, x, +, group) === y
    @test Array(y) == 1:4
    @test Array(LibSymm.broadcast!(CUDA.CuArray([7, 8]), group)) == [7, 8]

    two = CUDA.CuArray(Float32[2])
    @test Array(allreduce!(y, x, +, group; scale=two)) == 2:2:8
    four = CUDA.CuArray([4])
    @test Array(alltoallv_device!(y, four, x, four, group)) == 1:4
    span = Span{Float32}(pointer(x), 4)
    @test Array(allreduce!(y, span, max, group)) == 1:4

    three = CUDA.CuArray(zeros(Float32, 3))
    @test_throws DimensionMismatch allreduce!(three, x, +, group)
    close(group)
end

@testset "symmetric memory as arrays of CUDA.jl" begin
    group = Group(; backend=:host)
    memory = SymmMemory(group, 64)
    x = CUDA.CuArray(Float32[1, 2, 3, 4])
    LibSymm.put!(memory, 0, x; offset=16)

    block = CUDA.CuArray{Float32}(memory, 2, 2; offset=16)
    @test pointer(block) == reinterpret(CUDA.CuPtr{Float32}, pointer(memory) + 16)
    @test Array(block) == [1 3; 2 4]
    y = CUDA.CuArray(zeros(Float32, 4))
    @test Array(LibSymm.get!(y, memory, 0; offset=20))[1:3] == 2:4
    @test LibSymm.find(group, pointer(block)).offset == 16
    @test Array(import_token(Float32, export_token(block))) == 1:4
    @test_throws ArgumentError CUDA.CuArray{Float32}(memory, 16; offset=16)

    # The array keeps the memory.
    other = CUDA.CuArray{Int64}(SymmMemory(group, 8), 1)
    GC.gc()
    @test Array(allreduce!(other, +, group)) == [0]
    close(group)
end

@testset "imported memory as arrays of CUDA.jl" begin
    group = Group(; backend=:host)
    weight = SymmArray(group, reshape(collect(Float32, 1:6), 2, 3))
    token = export_bundle(["weight" => weight, "steps" => SymmArray(group, [7, 8])])
    bundle = import_bundle(token)
    read = CUDA.CuArray(bundle, "weight")
    @test Array(read) == weight
    @test Array(CUDA.CuArray(bundle, "steps")) == [7, 8]
    @test_throws KeyError CUDA.CuArray(bundle, "step")

    made = import_token(export_token(weight))
    part = CUDA.CuArray{Float32}(made, 2, 2; offset=8)
    @test Array(part) == [3 5; 4 6]
    @test_throws ArgumentError CUDA.CuArray{Float32}(made, 2, 2; offset=12)

    # The arrays keep the memory.
    leases = ipc_stats().leases
    close(bundle)
    close(made)
    @test Array(read) == weight
    @test Array(part) == [3 5; 4 6]
    @test ipc_stats().leases == leases
    foreach(finalize, (read, part))
    @test ipc_stats().leases < leases
    close(group)
end

@testset "streams of CUDA.jl" begin
    group = Group(; backend=:host)
    memory = SymmMemory(group, 64)
    CUDA.CURRENT[] = CUDA.CuStream(Ptr{Cvoid}(UInt(0x1234)))
    @test LibSymm.stream_for(nothing, group) == C_NULL

    # A group of devices has streams, and its calls are on the current task's.
    group.backend = :cuda
    @test LibSymm.stream_for(nothing, group) == Ptr{Cvoid}(UInt(0x1234))
    other = CUDA.CuStream(Ptr{Cvoid}(UInt(0x99)))
    @test LibSymm.stream_for(other, group) == Ptr{Cvoid}(UInt(0x99))
    @test LibSymm.stream_for(UInt(0x77), group) == Ptr{Cvoid}(UInt(0x77))
    @test_throws ArgumentError SymmArray{Float32}(memory, 1)
    CUDA.CURRENT[] = CUDA.CuStream(C_NULL)
    close(group)
end

@testset "memory as kernels in C++ see it" begin
    view = LibSymm.symm_memory_view_t
    @test isbitstype(view)
    @test sizeof(view) == 64
    @test fieldnames(view)[2:4] == (:layout, :rank, :size)

    group = Group(; backend=:host)
    memory = SymmMemory(group, 64)
    @test error_of(() -> LibSymm.device_view(memory)).status == LibSymm.SYMM_ERR_UNSUPPORTED
    close(group)
end

@testset "the examples for CUDA.jl" begin
    if !haskey(ENV, "SYMM_TOOL")
        @info "skipped: the examples for CUDA.jl (SYMM_TOOL does not name the launcher)"
    else
        julia = `$(Base.julia_cmd()) --startup-file=no --project=$(Base.active_project())`
        rank = joinpath(@__DIR__, "cuda_rank.jl")
        said_by(example) = read(
            `$(ENV["SYMM_TOOL"]) run -n 2 --timeout 170 -- $julia $rank $example`, String
        )

        said = said_by("least_squares.jl")
        found = collect(eachmatch(r"rank \d of 2: off by (\S+), bits (\d+)", said))
        @test length(found) == 2
        @test all(one -> parse(Float64, one[1]) < 1e-4, found)
        @test length(unique(one[2] for one in found)) == 1

        said = said_by("ring_kernel.jl")
        for rank in 0:1
            @test occursin("rank $rank of 2: 0 numbers wrong after a round", said)
        end
    end
end

# The stand-in for MPI.jl calls Open MPI, in a program of two ranks that mpirun starts.
@testset "communicators of MPI.jl" begin
    mpirun = Sys.which("mpirun.openmpi")
    if mpirun === nothing
        @info "skipped: communicators of MPI.jl (mpirun.openmpi is not installed)"
    else
        mktempdir() do folder
            julia = `$(Base.julia_cmd()) --startup-file=no --project=$(Base.active_project())`
            program = joinpath(@__DIR__, "mpi_rank.jl")
            as_root = (
                "OMPI_ALLOW_RUN_AS_ROOT" => "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM" => "1"
            )
            environment = merge(Dict(ENV), Dict("TMPDIR" => folder, as_root...))
            command = setenv(`$mpirun --oversubscribe -n 2 $julia $program`, environment)
            @test success(pipeline(command; stdout=stdout, stderr=stderr))
            @test !any(startswith("symm-mpi-"), readdir(folder))
        end
    end
end
