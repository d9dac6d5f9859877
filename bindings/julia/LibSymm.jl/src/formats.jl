# Narrow floats that Julia lacks, as storage: they convert from and to Float32, and have no
# arithmetic. A package that has such a type can name it to symm: see `LibSymm.dtype`.

"""Storage for bfloat16: the upper half of a Float32."""
primitive type BFloat16 <: AbstractFloat 16 end

"""
Storage for an 8-bit float of 4 exponent and 3 mantissa bits without infinities (e4m3fn).
Finite numbers saturate at 448, and infinities are NaN.
"""
primitive type Float8E4M3 <: AbstractFloat 8 end

"""
Storage for an 8-bit float of 5 exponent and 2 mantissa bits. Finite numbers saturate at 57344.
"""
primitive type Float8E5M2 <: AbstractFloat 8 end

const Narrow = Union{BFloat16,Float8E4M3,Float8E5M2}
const Float8 = Union{Float8E4M3,Float8E5M2}

bits(x::BFloat16) = reinterpret(UInt16, x)
bits(x::Float8) = reinterpret(UInt8, x)

Base.Float32(x::BFloat16) = reinterpret(Float32, UInt32(bits(x)) << 16)

function BFloat16(x::Float32)
    isnan(x) && return reinterpret(BFloat16, 0x7fc0)
    word = reinterpret(UInt32, x)
    half = 0x00007fff + ((word >> 16) & 0x00000001)  # to nearest, ties to even
    return reinterpret(BFloat16, ((word + half) >> 16) % UInt16)
end

"""The finite number >= 0 with this code, of a format with this width of mantissa and this bias."""
function decode(code, mantissa, bias)
    exponent = Int(code >> mantissa)
    fraction = Int(code & (0x01 << mantissa - 0x01))
    exponent == 0 && return ldexp(Float32(fraction), 1 - bias - mantissa)
    return ldexp(Float32(fraction + 1 << mantissa), exponent - bias - mantissa)
end

# The codes of finite numbers >= 0 are in the order of their values.
const E4M3_VALUES = [decode(UInt8(code), 3, 7) for code in 0x00:0x7e]
const E5M2_VALUES = [decode(UInt8(code), 2, 15) for code in 0x00:0x7b]
values_of(::Type{Float8E4M3}) = E4M3_VALUES
values_of(::Type{Float8E5M2}) = E5M2_VALUES

function Base.Float32(x::Float8)
    magnitude = abs_of(x)
    return bits(x) > 0x7f ? -magnitude : magnitude
end

function abs_of(x::Float8)
    code = bits(x) & 0x7f
    values = values_of(typeof(x))
    code < length(values) && return values[code + 1]
    return isinf(x) ? Inf32 : NaN32
end

"""
The code of the finite number that is nearest to `x >= 0`; of two, the even one. The code behind the
largest is infinity, or NaN where there is no infinity.
"""
function nearest_code(values, x::Float32)
    above = searchsortedfirst(values, x)  # index of the first value that is not less
    isinf(x) && return length(values)
    above > length(values) && return length(values) - 1  # saturated
    (above == 1 || values[above] == x) && return above - 1

    # An index is a code and one, so the even code of two neighbours has the odd index.
    down = x - values[above - 1]
    up = values[above] - x
    is_down = down < up || (down == up && isodd(above - 1))
    return is_down ? above - 2 : above - 1
end

for T in (:Float8E4M3, :Float8E5M2)
    @eval function $T(x::Float32)
        isnan(x) && return reinterpret($T, 0x7f)
        sign = signbit(x) ? 0x80 : 0x00
        return reinterpret($T, nearest_code(values_of($T), abs(x)) % UInt8 | sign)
    end
end

(::Type{T})(x::Real) where {T<:Narrow} = T(Float32(x))
(::Type{T})(x::T) where {T<:Narrow} = x
Base.convert(::Type{T}, x::Real) where {T<:Narrow} = T(x)
(::Type{T})(x::Narrow) where {T<:Union{Float16,Float64}} = T(Float32(x))
Base.promote_rule(::Type{T}, ::Type{S}) where {T<:Narrow,S<:Union{Float32,Float64}} = S
Base.isinf(x::Float8E5M2) = bits(x) & 0x7f == 0x7c
Base.isinf(x::Float8E4M3) = false
Base.isnan(x::Narrow) = isnan(Float32(x))
Base.:(==)(x::T, y::T) where {T<:Narrow} = Float32(x) == Float32(y)
Base.zero(::Type{T}) where {T<:Narrow} = T(0.0f0)
Base.show(io::IO, x::Narrow) = print(io, typeof(x), "(", Float32(x), ")")

# ---- the library's names of element types and reductions

const ELEMENTS = (
    (:Bool, :SYMM_DTYPE_BOOL),
    (:Int8, :SYMM_DTYPE_I8),
    (:Int16, :SYMM_DTYPE_I16),
    (:Int32, :SYMM_DTYPE_I32),
    (:Int64, :SYMM_DTYPE_I64),
    (:UInt8, :SYMM_DTYPE_U8),
    (:UInt16, :SYMM_DTYPE_U16),
    (:UInt32, :SYMM_DTYPE_U32),
    (:UInt64, :SYMM_DTYPE_U64),
    (:Float16, :SYMM_DTYPE_F16),
    (:Float32, :SYMM_DTYPE_F32),
    (:Float64, :SYMM_DTYPE_F64),
    (:BFloat16, :SYMM_DTYPE_BF16),
    (:Float8E4M3, :SYMM_DTYPE_F8E4M3),
    (:Float8E5M2, :SYMM_DTYPE_F8E5M2),
    (:ComplexF32, :SYMM_DTYPE_C64),
    (:ComplexF64, :SYMM_DTYPE_C128),
    (:(Tuple{Int32,Int32}), :SYMM_DTYPE_I32_I32),
    (:(Tuple{Int64,Int64}), :SYMM_DTYPE_I64_I64),
    (:(Tuple{Float32,Int32}), :SYMM_DTYPE_F32_I32),
    (:(Tuple{Float64,Int64}), :SYMM_DTYPE_F64_I64),
)
for (T, name) in ELEMENTS
    @eval dtype(::Type{$T}) = $name
end
@static if isdefined(Core, :BFloat16)
    dtype(::Type{Core.BFloat16}) = SYMM_DTYPE_BF16
end

"""
    LibSymm.dtype(T)

The data type of the library (`LibSymm.SYMM_DTYPE_*`) that a Julia type is stored as. A package with
a narrow float of its own may add a method:
`LibSymm.dtype(::Type{MyBFloat16}) = LibSymm.SYMM_DTYPE_BF16`.
"""
dtype(::Type{T}) where {T} =
    throw(ArgumentError("symm has no data type for elements of type $T"))

"""
`avg` names the average to a collective, as `+`, `*`, `min` and `max` name themselves:
`allreduce!(A, avg)`.
"""
function avg end

"""
`minloc` names the least of pairs to a collective: of arrays of `Tuple{Float32,Int32}`,
`Tuple{Float64,Int64}`, `Tuple{Int32,Int32}` or `Tuple{Int64,Int64}`, a value and an index. Of equal
values the pair with the lowest index is found.
"""
function minloc end

"""
`maxloc` names the greatest of pairs to a collective, as `minloc` names the least.
"""
function maxloc end

"""The library's reduction for a Julia function."""
reduction(::typeof(+)) = SYMM_OP_SUM
reduction(::typeof(avg)) = SYMM_OP_AVG
reduction(::typeof(min)) = SYMM_OP_MIN
reduction(::typeof(max)) = SYMM_OP_MAX
reduction(::typeof(*)) = SYMM_OP_PROD
reduction(::typeof(&)) = SYMM_OP_BAND
reduction(::typeof(|)) = SYMM_OP_BOR
reduction(::typeof(xor)) = SYMM_OP_BXOR
reduction(::typeof(minloc)) = SYMM_OP_MINLOC
reduction(::typeof(maxloc)) = SYMM_OP_MAXLOC
reduction(op) = throw(
    ArgumentError("a reduction is +, *, min, max, avg, &, |, xor, minloc or maxloc; not $op"),
)
