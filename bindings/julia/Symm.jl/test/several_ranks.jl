# SPDX-License-Identifier: Apache-2.0
#
# Programs of several ranks, started by `symm run`.

const PACKAGE = normpath(@__DIR__, "..")
const ROOT = normpath(PACKAGE, "..", "..", "..")

"""Run a program as ranks; its exit status and its lines."""
function run_ranks(ranks, program, arguments...)
    options = ["--startup-file=no", "--project=$PACKAGE"]
    command = `$(ENV["SYMM_TOOL"]) run -n $ranks --timeout 170 --grace 60 -- $(Base.julia_cmd()) $options $program $arguments`
    out = IOBuffer()
    process = run(pipeline(ignorestatus(command); stdout=out, stderr=out))
    return process.exitcode, split(String(take!(out)), '\n')
end

"""The first program of a page."""
function first_program(page)
    text = read(page, String)
    return match(r"```julia\n(.*?)```"s, text)[1]
end

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

        program = first_program(joinpath(PACKAGE, "README.md"))
        @test count(==('\n'), program) <= 15
        path = joinpath(mktempdir(), "first.jl")
        write(path, program)
        status, lines = run_ranks(2, path)
        @test status == 0
        @test sort(filter(!isempty, lines)) == ["[$rank] rank $rank of 2: the sum is 3.0" for rank in 0:1]

        status, lines = run_ranks(2, joinpath(ROOT, "bindings", "julia", "examples", "demo.jl"))
        @test status == 0
        told = filter(l -> occursin(r"^\[\d\] rank \d \(Julia\): put 16384 B to rank \d in .* all bits right; imported rank", l), lines)
        @test length(told) == 2
        length(told) == 2 || foreach(println, lines)
    end
end
