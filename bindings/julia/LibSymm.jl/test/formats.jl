using LibSymm: BFloat16

const FLOAT8 = (Float8E4M3, Float8E5M2)

# Type, bits and value of some numbers.
const NARROW_VALUES = (
    (BFloat16, 0x3f80, 1.0f0),
    (BFloat16, 0xc2f7, -123.5f0),
    (BFloat16, 0x0001, 9.1835f-41),
    (BFloat16, 0x7f80, Inf32),
    (Float8E4M3, 0x38, 1.0f0),
    (Float8E4M3, 0x7e, 448.0f0),
    (Float8E4M3, 0x81, -0.001953125f0),
    (Float8E4M3, 0x00, 0.0f0),
    (Float8E5M2, 0x3c, 1.0f0),
    (Float8E5M2, 0x7b, 57344.0f0),
    (Float8E5M2, 0x01, 1.5258789f-5),
    (Float8E5M2, 0xfc, -Inf32),
)

@testset "bits of narrow floats" begin
    @testset "$T $code" for (T, code, value) in NARROW_VALUES
        x = reinterpret(T, code)
        @test Float32(x) ≈ value
        @test T(value) === x
    end

    @test isnan(Float32(reinterpret(Float8E4M3, 0x7f)))
    @test isnan(Float32(reinterpret(Float8E5M2, 0x7e)))
    @test all(isnan(Float32(T(NaN32))) for T in (BFloat16, FLOAT8...))
    @testset "all codes of $T" for T in FLOAT8
        @test all(Float32(T(Float32(x))) === Float32(x) for x in reinterpret.(T, 0x00:0x7b))
    end
    upper_half(x) = Float32(reinterpret(Float16, UInt16(x) << 8))
    @test all(upper_half(x) === Float32(reinterpret(Float8E5M2, x)) for x in 0x00:0x7c)
end

# To nearest, ties to even; finite numbers saturate beyond.
@testset "rounding of narrow floats" begin
    rounded(T, x) = Float32(T(x))
    @test rounded(BFloat16, 1.00390625f0) == 1.0f0
    @test rounded(BFloat16, 1.01171875f0) == 1.015625f0
    @test rounded(Float8E4M3, 17.0f0) == 16.0f0
    @test rounded(Float8E4M3, 19.0f0) == 20.0f0
    @test rounded(Float8E4M3, -1.0f9) == -448.0f0
    @test rounded(Float8E5M2, 4.5f0) == 4.0f0
    @test rounded(Float8E5M2, 5.5f0) == 6.0f0
    @test rounded(Float8E5M2, 1.0f9) == 57344.0f0
    @test rounded(Float8E5M2, -Inf32) == -Inf32
    @test isnan(rounded(Float8E4M3, Inf32))
end

@testset "narrow floats are numbers" begin
    @test BFloat16(3) == BFloat16(3.0)
    @test Float64(BFloat16(3)) === 3.0
    @test_throws Exception BFloat16(1) + BFloat16(1)  # storage, without arithmetic
end

@testset "names of types and reductions" begin
    @test LibSymm.dtype(BFloat16) == LibSymm.SYMM_DTYPE_BF16
    @test LibSymm.dtype(UInt32) == LibSymm.SYMM_DTYPE_U32
    @test LibSymm.dtype(Complex{Float32}) == LibSymm.SYMM_DTYPE_C64
    @test_throws ArgumentError LibSymm.dtype(Complex{Float16})
    @test_throws ArgumentError LibSymm.reduction(-)
end

# Julia's layout of the mirrors of the headers' structs is compared with that of a C compiler.

@testset "layout of structs" begin
    number(value) = value isa Enum ? Int(value) : value
    golden = normpath(@__DIR__, "..", "..", "..", "..", "tests", "abi")
    lines = vcat((readlines(joinpath(golden, name)) for name in ("layout.txt", "fused.txt"))...)
    counted = Dict{String,Int}()
    for line in lines
        words = split(line)
        kind = words[1]
        counted[kind] = get(counted, kind, 0) + 1
        if kind == "typedef"
            @test sizeof(getfield(LibSymm, Symbol(words[2]))) == parse(Int, words[4])
        elseif kind == "enumerator"
            @test number(getfield(LibSymm, Symbol(words[3]))) == parse(Int, words[4])
        elseif kind == "macro"
            @test getfield(LibSymm, Symbol(words[2])) == parse(UInt64, words[3])
        elseif kind == "struct"
            T = getfield(LibSymm, Symbol(words[2]))
            @test T in LibSymm.STRUCTS
            @test sizeof(T) == parse(Int, words[4])
            ref = LibSymm.sized(T)
            GC.@preserve ref begin
                pointer = Base.unsafe_convert(Ptr{T}, ref)
                @test unsafe_load(Ptr{Csize_t}(pointer)) == sizeof(T)
            end
        elseif kind == "field"
            struct_name, field_name = split(words[2], '.')
            T = getfield(LibSymm, Symbol(struct_name))
            field = findfirst(==(Symbol(field_name)), fieldnames(T))
            @test fieldoffset(T, field) == parse(Int, words[4])
            @test sizeof(fieldtype(T, field)) == parse(Int, words[6])
        end
    end
    @test counted["struct"] == length(LibSymm.STRUCTS)
end
