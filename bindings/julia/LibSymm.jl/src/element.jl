"""
    LibSymm.dtype(T)

The data type of the library (`LibSymm.SYMM_DTYPE_*`) that a Julia type is stored as. A package with a narrow float of its own may add a
method: `LibSymm.dtype(::Type{MyBFloat16}) = LibSymm.SYMM_DTYPE_BF16`.
"""
dtype(::Type{Int8}) = SYMM_DTYPE_I8
dtype(::Type{Bool}) = SYMM_DTYPE_BOOL
dtype(::Type{Int16}) = SYMM_DTYPE_I16
dtype(::Type{Int32}) = SYMM_DTYPE_I32
dtype(::Type{Int64}) = SYMM_DTYPE_I64
dtype(::Type{UInt8}) = SYMM_DTYPE_U8
dtype(::Type{UInt16}) = SYMM_DTYPE_U16
dtype(::Type{UInt32}) = SYMM_DTYPE_U32
dtype(::Type{UInt64}) = SYMM_DTYPE_U64
dtype(::Type{Float16}) = SYMM_DTYPE_F16
dtype(::Type{Float32}) = SYMM_DTYPE_F32
dtype(::Type{Float64}) = SYMM_DTYPE_F64
dtype(::Type{BFloat16}) = SYMM_DTYPE_BF16
dtype(::Type{Float8E4M3}) = SYMM_DTYPE_F8E4M3
dtype(::Type{Float8E5M2}) = SYMM_DTYPE_F8E5M2
@static if isdefined(Core, :BFloat16)
    dtype(::Type{Core.BFloat16}) = SYMM_DTYPE_BF16
end
dtype(::Type{T}) where {T} = throw(ArgumentError("symm has no data type for elements of type $T"))

"`avg`: names the average to a collective, as `+`, `*`, `min` and `max` name themselves: `allreduce!(A, avg)`."
function avg end

"""The library's reduction for a Julia function."""
reduction(::typeof(+)) = SYMM_OP_SUM
reduction(::typeof(avg)) = SYMM_OP_AVG
reduction(::typeof(min)) = SYMM_OP_MIN
reduction(::typeof(max)) = SYMM_OP_MAX
reduction(::typeof(*)) = SYMM_OP_PROD
reduction(op) = throw(ArgumentError("a reduction is +, *, min, max or avg; not $op"))
