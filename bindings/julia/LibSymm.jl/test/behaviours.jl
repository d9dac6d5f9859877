"""
Runs tests/bindings/behaviours/table.txt as one of three ranks. The README beside the table
describes its format.

Each verb of the table is a function: `run_put` is the verb `put`.
"""
module Behaviours

using LibSymm

"""Bytes of the memory and of the array with which a scenario begins."""
const BYTES = 262144

include("behaviours/line.jl")
include("behaviours/memory.jl")
include("behaviours/verbs.jl")
include("behaviours/collectives.jl")

function verb_of(line)
    name = Symbol("run_", line.verb)
    isdefined(@__MODULE__, name) || error("unknown verb $(line.verb)")
    return getfield(@__MODULE__, name)
end

"""Run a line, which must fail as it says, or not at all."""
function run_line(r)
    if has(r, "into")
        push!(get!(r.waiting, r.line.keys["into"], Line[]), r.line)
        return nothing
    end
    try
        made = verb_of(r.line)(r)
        if has(r, "as")
            r.things[word(r, "as")] = made
        end
    catch why
        why isa SymmError || rethrow()
        r.line.failure === nothing && rethrow()
        expect_failure(r, why)
        return nothing
    end
    r.line.failure === nothing || error("it succeeded")
    return require_all_used(r)
end

function require_all_used(r)
    unused = setdiff(keys(r.line.keys), r.line.used)
    isempty(unused) || error("not understood: $(join(unused, ", "))")
    return nothing
end

function expect_failure(r, why)
    expected = constant("STATUS", r.line.failure)
    same("status ($(why.message))", why.status, expected)
    for words in r.line.words
        occursin(words, why.message) || error("'$words' is not in '$(why.message)'")
    end
    if !isempty(r.line.blamed)
        same("the rank to blame", something(why.rank, -1), integer(r, r.line.blamed))
    end
end

function begin_scenario(r, name)
    for thing in values(r.things)
        thing isa Union{Vector,Nothing} || close(thing)
    end
    empty!(r.things)
    empty!(r.waiting)

    group = Group(; backend=:host, name=name, timeout=60, create_timeout=60)
    buffer = Buffer(group, BYTES)
    r.things["group"] = group
    r.things["b"] = buffer
    r.things["m"] = SymmMemory(group, buffer)
    r.things["p"] = zeros(UInt8, BYTES)
    return nothing
end

"""Run the whole table. Returns the number of scenarios, if all have gone well."""
function run_table(path, rank)
    scenarios = 0
    r = Runner(rank)
    for (number_, text) in enumerate(eachline(path))
        try
            if isempty(text) || startswith(text, '#')
                continue
            elseif startswith(text, "scenario ")
                begin_scenario(r, text[10:end])
                scenarios += 1
            else
                r.line = Line(text)
                r.rank in r.line.ranks && run_line(r)
            end
        catch why
            println("table.txt:", number_, ": rank ", rank, ": ", sprint(showerror, why))
            exit(1)
        end
    end

    if scenarios == 0
        println(path, " has no scenarios")
        exit(1)
    end
    return scenarios
end

end
