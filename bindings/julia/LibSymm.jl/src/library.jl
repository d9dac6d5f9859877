# Finding libsymm, when the first function is called: so the package loads and
# precompiles without it. And what is known of it and its devices.

"""Addresses of the functions, in the order of FUNCTIONS; NULL until first used. Two threads that find one at once write the same."""
const ADDRESSES = fill(C_NULL, length(FUNCTIONS))

@inline function address(index)
    found = @inbounds ADDRESSES[index]
    return found == C_NULL ? find_function(index) : found
end

const OPENED = Ref{Ptr{Cvoid}}(C_NULL)

"""
    LibSymm.candidates()

Where the library is sought: the file that `SYMM_LIB` names, else the preference `library`, and nothing else if it is named; the build
tree beside this package; the system's loader (`LD_LIBRARY_PATH`, `ldconfig`).
"""
function candidates()
    named = get(ENV, "SYMM_LIB", "")
    isempty(named) && (named = preference("library"))
    isempty(named) || return [named]
    root = normpath(@__DIR__, "..", "..", "..", "..")
    built = [joinpath(root, "build", preset, "lib", "libsymm.so.0") for preset in ("release", "debug")]
    return [filter(isfile, built); "libsymm.so.0"]
end

# What `LocalPreferences.toml` of the active project, or one
# that it stands on, says of this package; Julia 1.6 and later.
function preference(key)
    isdefined(Base, :get_preferences) || return ""
    return get(Base.get_preferences(Base.PkgId(@__MODULE__).uuid), key, "")
end

function open_library()
    OPENED[] == C_NULL || return OPENED[]
    reason = ""
    for path in candidates()
        handle = C_NULL
        try
            # RTLD_LOCAL: nothing that the process loads
            # later can bind to the library's symbols.
            handle = Libdl.dlopen(path, Libdl.RTLD_LAZY | Libdl.RTLD_LOCAL)
        catch why
            reason = sprint(showerror, why)
            continue
        end
        refuse_other_version(handle, path)
        return OPENED[] = handle
    end
    throw(SymmError(SYMM_ERR_UNAVAILABLE, "cannot load libsymm: $reason (SYMM_LIB names the file to load)"))
end

function refuse_other_version(handle, path)
    entry = Libdl.dlsym(handle, :symm_version; throw_error=false)
    entry === nothing && throw(SymmError(SYMM_ERR_UNAVAILABLE, "$path is not libsymm: it has no symm_version"))
    found = ccall(entry, UInt32, ())
    found >> 16 == SYMM_VERSION_MAJOR && return
    throw(SymmError(SYMM_ERR_UNSUPPORTED, "$path has version $(dotted(found)), this package is for $(dotted(SYMM_VERSION))"))
end

dotted(version) = join((version >> 16, (version >> 8) & 0xff, version & 0xff), '.')

# Slow, once for each function and process. An older library of the same major version
# may lack a function; that is an error of its call.
@noinline function find_function(index)
    name = FUNCTIONS[index]
    entry = Libdl.dlsym(open_library(), name; throw_error=false)
    entry === nothing && throw(SymmError(SYMM_ERR_UNSUPPORTED, "the loaded libsymm is older than this package: it has no $name"))
    return ADDRESSES[index] = entry
end

"""
    devices(backend=:auto)

What is known of each device of a back end: a vector of named tuples with `name`, `uuid`, `memory_bytes`, `multicast` and
`multicast_reason`, ...
"""
function devices(backend::Symbol=:auto)
    code = value_of(BACKENDS, backend)
    return map(0:(given(Int32, symm_device_count, code) - 1)) do device
        about = filled(symm_device_info_t, symm_device_info, code, device)
        (; about..., backend=name_of(BACKENDS, about.backend))
    end
end

"""
    topology(backend=:auto)

The links between the devices of a back end: `class` (`:fully_connected`, `:unknown`) and `links`, a symmetric matrix of the numbers
of direct links.
"""
function topology(backend::Symbol=:auto)
    code = value_of(BACKENDS, backend)
    count = given(Int32, symm_device_count, code)
    class, links = Ref{symm_topology_class_t}(0), zeros(Int32, count, count)
    check(symm_topology(code, class, links, length(links)))
    # the library's matrix has its rows together
    return (class=name_of(TOPOLOGIES, class[]), links=permutedims(links))
end

"`LibSymm.version()`: version of the loaded library."
version() = VersionNumber(dotted(symm_version()))

"`LibSymm.build_info()`: how the library was built: a JSON object."
build_info() = unsafe_string(symm_build_info())
