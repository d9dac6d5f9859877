# SPDX-License-Identifier: Apache-2.0
#
# First of those that call: until here no library was loaded.

"""The SymmError that `body` throws."""
function error_of(body)
    try
        body()
    catch why
        why isa SymmError || rethrow()
        return why
    end
    return SymmError(Symm.SYMM_OK, "nothing was thrown")
end

@testset "finding the library" begin
    named = get(ENV, "SYMM_LIB", nothing)
    ENV["SYMM_LIB"] = "/nowhere/libsymm.so"
    why = error_of(() -> Group())
    @test why.status == Symm.SYMM_ERR_UNAVAILABLE && occursin("/nowhere/libsymm.so", why.message)
    ENV["SYMM_LIB"] = "libc.so.6"
    @test error_of(() -> Group()).message == "libc.so.6 is not libsymm: it has no symm_version"
    named === nothing ? delete!(ENV, "SYMM_LIB") : (ENV["SYMM_LIB"] = named)

    @test Symm.version() >= v"0.2.0"
    @test occursin("\"version\"", Symm.build_info())
    @test all(index -> Symm.address(index) != C_NULL, 1:length(Symm.FUNCTIONS))
    @test sprint(showerror, SymmError(Symm.SYMM_ERR_TIMEOUT, "rank 2")) == "SymmError: TIMEOUT: rank 2"
    @test all(unsafe_string(Symm.symm_status_string(status)) isa String for status in keys(Symm.STATUS_NAMES))
    @test length(Symm.STATUS_NAMES) == 13
    @test isempty(detect_ambiguities(Symm))
    @test Symm.name_of(Symm.ALGORITHMS, Symm.SYMM_ALGORITHM_ONE_SHOT) === :one_shot
    @test Symm.name_of(Symm.ALGORITHMS, 99) === :algorithm_99  # of a newer library
    @test last.(Symm.BACKENDS.values) == [:auto, :host, :cuda]
end
