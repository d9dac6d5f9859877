# Operands: the memory that a call may read or write, an array or an address with a length.

"""
    Span{T}(address, length)

`length` elements of type `T` at an address, given as a `Ptr` or an integer: a device pointer, or
memory that some other library owns. Every call that takes an array takes a span. The caller keeps
the memory alive.
"""
struct Span{T}
    address::Ptr{Cvoid}
    length::Int

    function Span{T}(address::Union{Ptr,UInt,Int}, length::Integer) where {T}
        return new{T}(Ptr{Cvoid}(address), length)
    end
end
Base.length(span::Span) = span.length
Base.eltype(::Type{Span{T}}) where {T} = T
Base.cconvert(::Type{Ptr{Cvoid}}, span::Span) = span.address

"""
    LibSymm.operand(x)

The argument that is passed to the library for `x`, and that `ccall` keeps alive during the call.
The package extension has methods for arrays of CUDA.jl.
"""
operand(A::DenseArray) = A
operand(A::StridedArray) = contiguous(A)
operand(span::Span) = span
operand(address::Ptr) = Ptr{Cvoid}(address)
operand(address::UInt) = Ptr{Cvoid}(address)
operand(::Nothing) = C_NULL
function operand(x)
    throw(
        ArgumentError(
            "a $(typeof(x)) is not memory that can be passed to symm: a dense array, a Span or " *
            "an address is",
        ),
    )
end

"""An address, and the object that must live while the address is used."""
struct KeepAlive{T}
    owner::T
    address::Ptr{Cvoid}
end
Base.cconvert(::Type{Ptr{Cvoid}}, x::KeepAlive) = x
Base.unsafe_convert(::Type{Ptr{Cvoid}}, x::KeepAlive) = x.address

function contiguous(A::StridedArray)
    expected = 1
    for (n, stride) in zip(size(A), strides(A))
        if n != 1 && stride != expected
            throw(ArgumentError("the elements of this view do not lie one after the other"))
        end
        expected *= n
    end
    return A
end

"""Address of an operand, which the caller keeps alive."""
address_of(x) = Base.unsafe_convert(Ptr{Cvoid}, Base.cconvert(Ptr{Cvoid}, operand(x)))

"""Bytes of an operand."""
bytes(x) = length(x) * sizeof(eltype(x))

"""
A stream for the library: an address of any form. The package extension has a method for streams of
CUDA.jl.
"""
stream_handle(stream::Ptr) = Ptr{Cvoid}(stream)
stream_handle(stream::UInt) = Ptr{Cvoid}(stream)

# The current task's stream; the package extension sets the function.
const TASK_STREAM = Ref{Function}(() -> C_NULL)

# The host has no streams. A call on a CUDA group that names no stream is on the current task's, or
# without CUDA.jl on the default stream.
@inline stream_for(stream, group) = stream_handle(stream)
@inline function stream_for(::Nothing, group)
    return group.backend === :cuda ? (TASK_STREAM[]()::Ptr{Cvoid}) : C_NULL
end
