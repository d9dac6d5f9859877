# Lines of the table, and the values in them.

struct Line
    ranks::Any
    verb::String
    keys::Dict{String,String}
    # The keys that the verb has asked for; others are mistakes of the table.
    used::Set{String}
    # The status with which the call must fail, the rank to blame, and words of the message.
    failure::Union{Nothing,String}
    blamed::String
    words::Vector{String}
end

function Line(text)
    parts = split(text, " -> "; limit=2)
    words = split(parts[1])
    ranks = words[1] == "all" ? (0:2) : parse.(Int, split(words[1], ','))
    keys = Dict{String,String}()
    for word in words[3:end]
        key, value = split(word, '='; limit=2)
        keys[key] = value
    end
    length(parts) == 1 && return Line(ranks, words[2], keys, Set(), nothing, "", [])

    head, message = split(parts[2], ": "; limit=2)
    failure, blamed = [split(head, " rank="); ""]
    return Line(ranks, words[2], keys, Set(), failure, blamed, split(message, " & "))
end

"""
The rank, the things of one scenario by their names, and the line that is run. A thing that was
released stays, so that the table can misuse it.
"""
mutable struct Runner
    rank::Int
    things::Dict{String,Any}
    line::Line
    # The lines that wait for the batch that they name, and the batch that is being collected.
    waiting::Dict{String,Vector{Line}}
    collecting::Union{Nothing,LibSymm.Batch}
end
Runner(rank) = Runner(rank, Dict(), Line("all nothing"), Dict(), nothing)

has(r, key) = haskey(r.line.keys, key)

function word(r, key)
    push!(r.line.used, key)
    return r.line.keys[key]
end
word(r, key, default) = has(r, key) ? word(r, key) : default

"""Leave the line out. Its keys are no mistakes."""
function skip(r)
    union!(r.line.used, keys(r.line.keys))
    return nothing
end

function integer(r, text::AbstractString)
    occursin(',', text) && return integer(r, split(text, ',')[r.rank + 1])
    text == "self" && return r.rank
    text == "left" && return mod(r.rank + 2, 3)
    text == "right" && return mod(r.rank + 1, 3)
    return parse(Int64, text)
end
number(r, key) = integer(r, word(r, key))
number(r, key, default) = has(r, key) ? number(r, key) : default
flag(r, key) = number(r, key, 0) != 0

"""A list of ranks or of other numbers: `2:0`; nothing if the line has none."""
list(r, key) = has(r, key) ? parse.(Int, split(word(r, key), ':')) : nothing

"""The time of a key in milliseconds, in seconds: nothing for none, 0 for a look."""
function seconds(r, key="timeout_ms")
    has(r, key) || return nothing
    word(r, key) == "now" && return 0
    word(r, key) == "infinite" && return Inf
    return number(r, key) / 1000
end

"""A key that is 0 or 1; nothing if the line does not have it."""
choice(r, key) = has(r, key) ? flag(r, key) : nothing

"""A constant of the header."""
function constant(prefix, text)
    name = Symbol("SYMM_", prefix, "_", text)
    if prefix == "STATUS"
        name = text == "OK" ? :SYMM_OK : Symbol("SYMM_ERR_", text)
    end
    return getfield(LibSymm, name)
end

const COMPARISONS = Dict("EQ" => ==, "NE" => !=, "LT" => <, "LE" => <=, "GT" => >, "GE" => >=)
compare(r) = COMPARISONS[word(r, "compare")]

thing(r, key) = r.things[word(r, key)]
group(r) = something(r.collecting, r.things[word(r, "group", "group")])
rank(r) = number(r, "rank")
offset(r) = number(r, "offset")
channel(r) = number(r, "channel", 0)

"""Require that a value is as expected."""
same(what, seen, expected) = seen == expected || error("$what is $seen, not $expected")

"""Require that fields of a named tuple are as the line says, where it says anything of them."""
function same_fields(r, info, names)
    for name in names
        seen = getfield(info, Symbol(name))
        same(name, seen, number(r, name, seen))
    end
end

"""Require that a time in milliseconds is as the line says, where it says anything of it."""
function same_time(r, info, name)
    has(r, name) || return nothing
    expected = LibSymm.milliseconds(seconds(r, name))
    return same(name, getfield(info, Symbol(name)), expected)
end

"""The flags of a group that a key names: `CHECK:RANK_ORDER`."""
function named_flags(r, key)
    has(r, key) || return UInt64(0)
    return reduce(|, constant.("GROUP", split(word(r, key), ':')))
end

"""Require that the group of a thing is the one that the line names."""
function same_group(r, group)
    has(r, "of") || return nothing
    return same("group", LibSymm.info(group).id, LibSymm.info(thing(r, "of")).id)
end

function expect_count(r, seen)
    has(r, "expected") && same("the value", seen, number(r, "expected"))
    return nothing
end
