# Reads the weights that another process of this user publishes by a name, in whatever language, and
# goes from version to version with the arrays that it has.
#
#   julia --project=<with LibSymm> follow_weights.jl <name> [<how many versions>]
#
# Weights on a GPU need CUDA.jl in the project, too; they were never read so on a GPU.
using LibSymm

@static if Base.find_package("CUDA") !== nothing
    import CUDA
end

"""An array over the memory that the publisher has, in the order of Julia: transposed C."""
function array_of(model, name)
    LibSymm.info(model).backend == LibSymm.SYMM_BACKEND_HOST && return model[name]
    return CUDA.CuArray(model, name)
end

"""Map the next version: at the addresses of the one that was there, or anywhere."""
function map_next(name, last, model)
    while true
        found = ipc_lookup(name, >, last; timeout=60)
        try
            model === nothing && return found.version, import_bundle(found.token)
            resume!(model, found.token)
            return found.version, model
        catch why
            # If it was withdrawn since it was found, there is a newer one.
            why isa SymmError && why.status == LibSymm.SYMM_ERR_INVALID_HANDLE || rethrow()
        end
    end
end

# What a program would compute with; here each array is added up.
function describe(version, weights)
    for (name, A) in weights
        extents = join(size(A), '×')
        println("version $version: $name is $extents of $(eltype(A)), adds up to $(sum(A))")
    end
    return flush(stdout)
end

function follow(name, versions)
    version, model = map_next(name, 0, nothing)
    weights = [key => array_of(model, key) for key in keys(model)]
    describe(version, weights)
    for _ in 2:versions
        suspend!(model)  # until the next one is there, this process keeps no memory
        version, _ = map_next(name, version, model)
        describe(version, weights)
    end
    return close(model)
end

follow(ARGS[1], parse(Int, get(ARGS, 2, "1")))
