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
