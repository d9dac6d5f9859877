# What a call may read or write: an array, or an address with a length.

"""
    Span{T}(address, length)

`length` elements of type `T` at an address, given as a `Ptr` or an integer: a device pointer, or memory that some other library owns. Every call that
takes an array takes a span. Whoever makes it answers for the memory's life.
"""
struct Span{T}
    address::Ptr{Cvoid}
    length::Int
    Span{T}(address::Union{Ptr,UInt,Int}, length::Integer) where {T} = new{T}(Ptr{Cvoid}(address), length)
end
Base.length(span::Span) = span.length
Base.eltype(::Type{Span{T}}) where {T} = T
Base.cconvert(::Type{Ptr{Cvoid}}, span::Span) = span.address

"""
    LibSymm.operand(x)

What is passed to the library for `x`, kept alive by `ccall` for the call. CUDA.jl's arrays have a method in the package extension.
"""
operand(A::DenseArray) = A
operand(A::StridedArray) = contiguous(A)
operand(span::Span) = span
operand(address::Ptr) = Ptr{Cvoid}(address)
operand(address::UInt) = Ptr{Cvoid}(address)
operand(::Nothing) = C_NULL
operand(x) = throw(ArgumentError("a $(typeof(x)) is not memory that can be passed to symm: a dense array, a Span or an address is"))

"""An address, and what must live while it is used."""
struct KeepAlive{T}
    owner::T
    address::Ptr{Cvoid}
end
Base.cconvert(::Type{Ptr{Cvoid}}, x::KeepAlive) = x
Base.unsafe_convert(::Type{Ptr{Cvoid}}, x::KeepAlive) = x.address

function contiguous(A::StridedArray)
    expected = 1
    for (n, stride) in zip(size(A), strides(A))
        n == 1 || stride == expected || throw(ArgumentError("the elements of this view do not lie one after the other"))
        expected *= n
    end
    return A
end

"""Address of an operand, which the caller keeps alive."""
address_of(x) = Base.unsafe_convert(Ptr{Cvoid}, Base.cconvert(Ptr{Cvoid}, operand(x)))

"""Bytes of an operand."""
bytes(x) = length(x) * sizeof(eltype(x))

"""A stream as the library takes it: an address of any form. The package extension knows CUDA.jl's streams."""
stream_handle(stream::Ptr) = Ptr{Cvoid}(stream)
stream_handle(stream::UInt) = Ptr{Cvoid}(stream)

# Set by the package extension: the current task's stream.
const TASK_STREAM = Ref{Function}(() -> C_NULL)

# The host has no streams; a call on a CUDA group that names none is on the current
# task's, or without CUDA.jl on the default one.
@inline stream_for(stream, group) = stream_handle(stream)
@inline stream_for(::Nothing, group) = group.backend === :cuda ? (TASK_STREAM[]()::Ptr{Cvoid}) : C_NULL
