# These tests are the first that call: until here no library was loaded.

"""The SymmError that `body` throws."""
function error_of(body)
    try
        body()
    catch why
        why isa SymmError || rethrow()
        return why
    end
    return SymmError(LibSymm.SYMM_OK, "nothing was thrown")
end

"""Whether `body` throws a SymmError with this status and these words."""
function refused(body, status, words="")
    why = error_of(body)
    return why.status == status && occursin(words, why.message)
end

@testset "names" begin
    foreign = [names(Base); :gather!; :scatter!; :BFloat16; :devices]
    @test isempty(intersect(names(LibSymm), foreign))
    @testset "$name" for name in (:put!, :get!, :split, :broadcast!)
        @test getfield(LibSymm, name) !== getfield(Base, name)
    end
end

@testset "finding the library" begin
    named = get(ENV, "SYMM_LIB", nothing)
    ENV["SYMM_LIB"] = "/nowhere/libsymm.so"
    @test refused(() -> Group(), LibSymm.SYMM_ERR_UNAVAILABLE, "/nowhere/libsymm.so")
    ENV["SYMM_LIB"] = "libc.so.6"
    @test error_of(() -> Group()).message == "libc.so.6 is not libsymm: it has no symm_version"
    delete!(ENV, "SYMM_LIB")

    # Julia 1.5 has no preferences, so the function of later versions is made up.
    if !isdefined(Base, :get_preferences)
        preferred = :(Dict("library" => "/preferred/" * string(uuid)[1:8]))
        Core.eval(Base, :(get_preferences(uuid) = $preferred))
        @test Base.invokelatest(LibSymm.candidates) == ["/preferred/7d2c5a0e"]
        Core.eval(Base, :(get_preferences(uuid) = Dict{String,String}()))
    end

    # The tool of an installed prefix, that of the Python package, and another program of the name.
    mktempdir() do prefix
        library = joinpath(mkpath(joinpath(prefix, "lib")), "libsymm.so.0")
        touch(library)
        tools = ("bin" => "exit 1", "venv/bin" => "echo $prefix", "other/bin" => "exit 1")
        for (folder, program) in tools
            tool = joinpath(mkpath(joinpath(prefix, folder)), "symm")
            write(tool, "#!/bin/sh\n$program\n")
            chmod(tool, 0o755)
        end
        in_path(folder) = withenv(LibSymm.library_of_tool, "PATH" => joinpath(prefix, folder))
        @test in_path("bin") == [joinpath(realpath(prefix), "lib", "libsymm.so.0")]
        @test in_path("venv/bin") == [library]
        @test in_path("other/bin") == in_path("nowhere") == String[]
    end

    if named === nothing
        delete!(ENV, "SYMM_LIB")
    else
        ENV["SYMM_LIB"] = named
    end
end

@testset "the library" begin
    @test LibSymm.version() >= v"0.2.0"
    @test occursin("\"version\"", LibSymm.build_info())
    @test all(LibSymm.address(index) != C_NULL for index in 1:length(LibSymm.FUNCTIONS))
    @test isempty(detect_ambiguities(LibSymm))
end

# A later package with this library: the function is not there, and both versions are named.
@testset "a function that the library lacks" begin
    index = LibSymm.index_of(:symm_ipc_stats)
    entry = LibSymm.address(index)
    LibSymm.FUNCTIONS[index] = :symm_ipc_stats_of_tomorrow
    LibSymm.ADDRESSES[index] = C_NULL
    why = error_of(ipc_stats)
    LibSymm.FUNCTIONS[index] = :symm_ipc_stats
    LibSymm.ADDRESSES[index] = entry

    @test why.status == LibSymm.SYMM_ERR_UNSUPPORTED
    found = LibSymm.dotted(LibSymm.symm_version())
    own = LibSymm.dotted(LibSymm.SYMM_VERSION)
    says = "there is no symm_ipc_stats_of_tomorrow in libsymm $found, and this package is for $own"
    @test why.message == says
end

# What fused.h has may change with the library, so calls of another major version are refused.
@testset "another version of fused.h" begin
    own = LibSymm.SYMM_FUSED_VERSION
    @test LibSymm.require_fused(LibSymm.symm_fused_version()) === nothing
    @test LibSymm.require_fused(UInt32(own + 1)) === nothing
    for found in (UInt32(own + (1 << 16)), UInt32(0))
        why = error_of(() -> LibSymm.require_fused(found))
        @test why.status == LibSymm.SYMM_ERR_UNSUPPORTED
        @test occursin("version $(found >> 16).0 of fused.h", why.message)
    end
end

@testset "statuses" begin
    why = SymmError(LibSymm.SYMM_ERR_TIMEOUT, "rank 2")
    @test sprint(showerror, why) == "SymmError: TIMEOUT: rank 2"
    @test length(LibSymm.STATUS_NAMES) == 13
    for status in keys(LibSymm.STATUS_NAMES)
        @test unsafe_string(LibSymm.symm_status_string(status)) isa String
    end
    newer = reinterpret(LibSymm.symm_status_t, Int32(-99))
    @test LibSymm.status_name(newer) == "unknown status -99"
end

@testset "names of constants" begin
    one_shot = LibSymm.SYMM_ALGORITHM_ONE_SHOT
    @test LibSymm.name_of(LibSymm.ALGORITHMS, one_shot) === :one_shot
    @test LibSymm.name_of(LibSymm.ALGORITHMS, 99) === :algorithm_99  # of a newer library
    @test last.(LibSymm.BACKENDS.values) == [:auto, :host, :cuda]
end
