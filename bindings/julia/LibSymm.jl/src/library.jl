# Finding libsymm when the first function is called, so that the package loads and precompiles
# without the library; and information about the library and its devices.

"""
Addresses of the functions, in the order of FUNCTIONS; NULL until first used. Two threads that find
an address at once write equal values.
"""
const ADDRESSES = fill(C_NULL, length(FUNCTIONS))

@inline function address(index)
    found = @inbounds ADDRESSES[index]
    return found == C_NULL ? find_function(index) : found
end

const OPENED = Ref{Ptr{Cvoid}}(C_NULL)

"""
    LibSymm.candidates()

The files that may be the library, in the order in which they are tried. If `SYMM_LIB`, or else the
preference `library`, names a file, it is the only one. Otherwise they are the build trees beside
this package, and then the file that the system's loader finds (`LD_LIBRARY_PATH`, `ldconfig`). If
none of these is there, the library of the `symm` on `PATH` is (`library_of_tool`).
"""
function candidates()
    named = get(ENV, "SYMM_LIB", "")
    isempty(named) && (named = preference("library"))
    isempty(named) || return [named]

    root = normpath(@__DIR__, "..", "..", "..", "..")
    presets = ("release", "debug")
    built = [joinpath(root, "build", preset, "lib", "libsymm.so.0") for preset in presets]
    return [filter(isfile, built); "libsymm.so.0"]
end

"""
    LibSymm.library_of_tool()

The library that was installed with the `symm` on `PATH`, in an array: CMake installs both into one
prefix, and the `symm` of the Python package says where its own is. Nothing if there is none.
"""
function library_of_tool()
    tool = Sys.which("symm")
    tool === nothing && return String[]

    beside = dirname(dirname(realpath(tool)))
    found = libraries(beside)
    isempty(found) || return found
    # Other programs of this name fail, or print what is not a prefix.
    prefix = try
        readchomp(pipeline(`$tool --prefix`; stdin=devnull, stderr=devnull))
    catch why
        why isa Union{ProcessFailedException,Base.IOError} || rethrow()
        return String[]
    end
    return libraries(prefix)
end

function libraries(prefix)
    return filter(isfile, [joinpath(prefix, lib, "libsymm.so.0") for lib in ("lib", "lib64")])
end

# The preference of this package in `LocalPreferences.toml` of the active project, or of a project
# that it stands on; Julia 1.6 and later have preferences.
function preference(key)
    isdefined(Base, :get_preferences) || return ""
    return get(Base.get_preferences(Base.PkgId(@__MODULE__).uuid), key, "")
end

function open_library()
    OPENED[] == C_NULL || return OPENED[]

    paths = candidates()
    reason = open_first(paths)
    # Where a file is named, no other is tried.
    if OPENED[] == C_NULL && last(paths) == "libsymm.so.0"
        open_first(library_of_tool())
    end
    OPENED[] == C_NULL || return OPENED[]

    message = "cannot load libsymm: $reason (SYMM_LIB names the file to load)"
    throw(SymmError(SYMM_ERR_UNAVAILABLE, message))
end

"""Open the first of the files that can be loaded; if none can, return why the last cannot."""
function open_first(paths)
    reason = ""
    for path in paths
        handle = C_NULL
        try
            # With RTLD_LOCAL, nothing that the process loads later can bind to the library's
            # symbols.
            handle = Libdl.dlopen(path, Libdl.RTLD_LAZY | Libdl.RTLD_LOCAL)
        catch why
            reason = sprint(showerror, why)
            continue
        end
        refuse_other_version(handle, path)
        OPENED[] = handle
        return reason
    end
    return reason
end

function refuse_other_version(handle, path)
    entry = Libdl.dlsym(handle, :symm_version; throw_error=false)
    if entry === nothing
        message = "$path is not libsymm: it has no symm_version"
        throw(SymmError(SYMM_ERR_UNAVAILABLE, message))
    end

    found = ccall(entry, UInt32, ())
    found >> 24 == SYMM_VERSION_MAJOR && return nothing
    own = dotted(SYMM_VERSION)
    message = "$path has version $(dotted(found)), this package is for $own"
    throw(SymmError(SYMM_ERR_UNSUPPORTED, message))
end

dotted(version) = join((version >> 24, (version >> 12) & 0xfff, version & 0xfff), '.')

# This is slow, and happens once for each function and process. An older library of this major
# version may lack a function; that is an error of its call, which names both versions.
@noinline function find_function(index)
    name = FUNCTIONS[index]
    entry = Libdl.dlsym(open_library(), name; throw_error=false)
    if entry === nothing
        found = dotted(symm_version())
        own = dotted(SYMM_VERSION)
        message = "there is no $name in libsymm $found, and this package is for $own"
        throw(SymmError(SYMM_ERR_UNSUPPORTED, message))
    end
    ADDRESSES[index] = entry
    return entry
end

"""
    devices(backend=:auto)

Describe each device of a back end: a vector of named tuples with `name`, `uuid`, `memory_bytes`,
`multicast`, `multicast_reason` and so on. Local.
"""
function devices(backend::Symbol=:auto)
    code = value_of(BACKENDS, backend)
    count = given(Int32, symm_device_count, code)
    return map(0:(count - 1)) do device
        about = filled(symm_device_info_t, symm_device_info, code, device)
        return (; about..., backend=name_of(BACKENDS, about.backend))
    end
end

"""
    topology(backend=:auto)

The links between the devices of a back end, as a named tuple: `class` (`:fully_connected`,
`:hybrid_cube_mesh` or `:unknown`), and `links`, the symmetric matrix of the numbers of direct links
between two devices. Local.
"""
function topology(backend::Symbol=:auto)
    code = value_of(BACKENDS, backend)
    count = given(Int32, symm_device_count, code)
    class = Ref{symm_topology_class_t}(0)
    links = zeros(Int32, count, count)
    check(symm_topology(code, class, links, length(links), C_NULL))
    # The library writes row after row, and Julia reads column after column.
    return (class=name_of(TOPOLOGIES, class[]), links=permutedims(links))
end

"""
    LibSymm.version()

Version of the loaded library, a `VersionNumber`.
"""
version() = VersionNumber(dotted(symm_version()))

"""
    LibSymm.build_info()

How the library was built: a JSON object, as a string.
"""
build_info() = unsafe_string(symm_build_info())
