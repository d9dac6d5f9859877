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
    return (class=name_of(TOPOLOGIES, class[]), links=permutedims(links))  # the library's matrix has its rows together
end

"`LibSymm.version()`: version of the loaded library."
version() = VersionNumber(dotted(symm_version()))

"`LibSymm.build_info()`: how the library was built: a JSON object."
build_info() = unsafe_string(symm_build_info())
