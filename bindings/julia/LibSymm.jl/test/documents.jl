# The programs of the documents, run as they stand by `symm run`.

const PACKAGE = normpath(@__DIR__, "..")
const ROOT = normpath(PACKAGE, "..", "..", "..")

"""Run a program as ranks. Returns its exit status and its lines."""
function run_ranks(ranks, program, arguments...)
    launcher = `$(ENV["SYMM_TOOL"]) run -n $ranks --timeout 300 --grace 60`
    julia = `$(Base.julia_cmd()) --startup-file=no --project=$PACKAGE`
    command = `$launcher -- $julia $program $arguments`
    out = IOBuffer()
    process = run(pipeline(ignorestatus(command); stdout=out, stderr=out))
    return process.exitcode, split(String(take!(out)), '\n')
end

"""Run the first program of a page as two ranks. Returns the program and its sorted lines."""
function run_first_program(page)
    program = match(r"```julia\n(using .*?)```"s, read(page, String))[1]
    path = joinpath(mktempdir(), "first.jl")
    write(path, program)
    status, lines = run_ranks(2, path)
    status == 0 || foreach(println, lines)
    @test status == 0
    return program, sort(filter(!isempty, lines))
end

@testset "documents" begin
    if !haskey(ENV, "SYMM_TOOL")
        @info "skipped: documents (SYMM_TOOL does not name the launcher)"
    else
        program, lines = run_first_program(joinpath(PACKAGE, "README.md"))
        @test count(==('\n'), program) <= 15
        @test lines == ["[$rank] rank $rank of 2: the sum is 3.0" for rank in 0:1]
        run_first_program(joinpath(ROOT, "docs", "julia.md"))

        status, lines = run_ranks(3, joinpath(ROOT, "examples", "18-halos", "halos.jl"))
        @test status == 0
        degrees = "row 30 has 2.841348 degrees in the middle, and changed by 0.060499"
        @test count(contains(degrees), lines) == 1
    end
end

@testset "a reader of weights" begin
    group = Group(; backend=:host)
    name = "weights of $(getpid())"
    publish(version, value) = ipc_publish(
        name,
        version,
        export_bundle([
            "weight" => SymmArray(group, fill(Float32(value), 4, 16)),
            "steps" => SymmArray(group, [version, value]),
        ]),
    )
    julia = `$(Base.julia_cmd()) --startup-file=no --project=$PACKAGE`
    reader = open(`$julia $(joinpath(PACKAGE, "examples", "follow_weights.jl")) $name 2`)
    for (version, value) in ((1, 2), (2, 5))
        publish(version, value)
        @test readline(reader) ==
            "version $version: weight is 4×16 of Float32, adds up to $(64.0 * value)"
        @test readline(reader) ==
            "version $version: steps is 2 of Int64, adds up to $(version + value)"
    end
    wait(reader)
    @test success(reader)
    foreach(version -> ipc_withdraw_version(name, version; timeout=20), (1, 2))
    close(group)
end
