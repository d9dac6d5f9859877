# First of those that call: until here no library was loaded.

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

@testset "names" begin
    @test isempty(intersect(names(LibSymm), [names(Base); :gather!; :scatter!; :BFloat16; :devices]))
    @test all(getfield(LibSymm, name) !== getfield(Base, name) for name in (:put!, :get!, :split, :broadcast!))
end

@testset "finding the library" begin
    named = get(ENV, "SYMM_LIB", nothing)
    ENV["SYMM_LIB"] = "/nowhere/libsymm.so"
    why = error_of(() -> Group())
    @test why.status == LibSymm.SYMM_ERR_UNAVAILABLE && occursin("/nowhere/libsymm.so", why.message)
    ENV["SYMM_LIB"] = "libc.so.6"
    @test error_of(() -> Group()).message == "libc.so.6 is not libsymm: it has no symm_version"
    delete!(ENV, "SYMM_LIB")
    if !isdefined(Base, :get_preferences)  # Julia 1.5 has none, so what later ones have is made up
        Core.eval(Base, :(get_preferences(uuid) = Dict("library" => "/preferred/" * string(uuid)[1:8])))
        @test Base.invokelatest(LibSymm.candidates) == ["/preferred/7d2c5a0e"]
        Core.eval(Base, :(get_preferences(uuid) = Dict{String, String}()))
    end
    named === nothing ? delete!(ENV, "SYMM_LIB") : (ENV["SYMM_LIB"] = named)

    @test LibSymm.version() >= v"0.2.0"
    @test occursin("\"version\"", LibSymm.build_info())
    @test all(index -> LibSymm.address(index) != C_NULL, 1:length(LibSymm.FUNCTIONS))
    @test sprint(showerror, SymmError(LibSymm.SYMM_ERR_TIMEOUT, "rank 2")) == "SymmError: TIMEOUT: rank 2"
    @test all(unsafe_string(LibSymm.symm_status_string(status)) isa String for status in keys(LibSymm.STATUS_NAMES))
    @test length(LibSymm.STATUS_NAMES) == 13
    @test isempty(detect_ambiguities(LibSymm))
    @test LibSymm.name_of(LibSymm.ALGORITHMS, LibSymm.SYMM_ALGORITHM_ONE_SHOT) === :one_shot
    @test LibSymm.name_of(LibSymm.ALGORITHMS, 99) === :algorithm_99  # of a newer library
    @test last.(LibSymm.BACKENDS.values) == [:auto, :host, :cuda]
end
