"""The header's constants of one kind by their names without the prefix, in small letters."""
struct Names
    one::String  # as a message says it: "an algorithm"
    prefix::String
    values::Vector{Pair{Int32,Symbol}}
end

function Names(one, prefix)
    found = filter(name -> startswith(String(name), prefix), names(@__MODULE__; all=true))
    short(name) = Symbol(lowercase(String(name)[(length(prefix) + 1):end]))
    return Names(one, prefix, sort([Int32(getfield(@__MODULE__, name)) => short(name) for name in found]))
end

"""The name of a value; of one that only a newer library knows, what it is and its number: `:algorithm_9`."""
function name_of(names::Names, value)
    index = findfirst(pair -> pair.first == value, names.values)
    return index === nothing ? Symbol(lowercase(names.prefix[6:end]), value) : names.values[index].second
end

function value_of(names::Names, name::Symbol)
    index = findfirst(pair -> pair.second === name, names.values)
    index === nothing && throw(ArgumentError("$(names.one) is one of $(join(last.(names.values), ", ")); not $name"))
    return names.values[index].first
end

const BACKENDS = Names("a back end", "SYMM_BACKEND_")
const COLLECTIVES = Names("a collective", "SYMM_COLLECTIVE_")
const SCALES = Names("a position", "SYMM_SCALE_")
const ALGORITHMS = Names("an algorithm", "SYMM_ALGORITHM_")
const TOPOLOGIES = Names("a topology", "SYMM_TOPOLOGY_")
const LOG_LEVELS = Names("a level", "SYMM_LOG_")
