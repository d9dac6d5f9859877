# SPDX-License-Identifier: Apache-2.0
#
# The structs of the header, which say their own size in their first field.

"""A reference to a `T` that is zero but for its size."""
function sized(::Type{T}) where {T}
    ref = Ref{T}()
    GC.@preserve ref begin
        address = Base.unsafe_convert(Ptr{T}, ref)
        ccall(:memset, Ptr{Cvoid}, (Ptr{Cvoid}, Cint, Csize_t), address, 0, sizeof(T))
        unsafe_store!(Ptr{Csize_t}(address), sizeof(T))
    end
    return ref
end

"""`with(struct; field=value, ...)`: a changed copy."""
function with(value::T; changes...) where {T}
    return T((get(changes, name, getfield(value, name)) for name in fieldnames(T))...)
end

"""The text in a `char` array."""
text(bytes::NTuple{N,UInt8}) where {N} = String(collect(Iterators.takewhile(!iszero, bytes)))

"""The fields of an info struct as a named tuple, without its size and with text as strings."""
function fields(value::T) where {T}
    names = filter(!=(:struct_size), fieldnames(T))
    return NamedTuple{names}(map(name -> plain(getfield(value, name)), names))
end
plain(value::NTuple{N,UInt8}) where {N} = text(value)
plain(value) = value

"""Deadlines are in seconds here, `Inf` for none and `nothing` for the default."""
milliseconds(::Nothing) = UInt64(0)
function milliseconds(seconds::Real)
    seconds > 0 || throw(ArgumentError("a timeout is a number of seconds > 0, Inf, or nothing for the default; not $seconds"))
    return isinf(seconds) ? SYMM_TIMEOUT_INFINITE : ceil(UInt64, 1000 * seconds)
end
