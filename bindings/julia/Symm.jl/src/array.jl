# SPDX-License-Identifier: Apache-2.0

"""
    SymmArray{T}(group, dims...; tag=0)
    SymmArray(group, array; tag=0)
    SymmArray{T}(memory, dims; rank=memory.rank, offset=0)

An array in symmetric memory on the host: one rank's block, by default one's own. The first two are collective: they allocate, exchange, and
give an array of zeros or a copy. The third is a view of a memory, `offset` bytes into the block of `rank`.

It is an ordinary dense array: indexing, broadcasting, BLAS and `ccall` work on it. Other ranks see what is stored in it, so two sides agree
on who writes when by signals or barriers. `peer(A, rank)` is the same array on another rank.
"""
struct SymmArray{T,N} <: DenseArray{T,N}
    # Borrows the block. Only this struct has it, together with the memory that keeps the block mapped.
    data::Array{T,N}
    memory::Memory
    rank::Int
    offset::Int

    function SymmArray{T}(memory::Memory, dims::Dims{N}; rank::Integer=memory.rank, offset::Integer=0) where {T,N}
        dtype(T)
        memory.group.backend === :host ||
            throw(ArgumentError("a SymmArray is in host memory, this group's is $(memory.group.backend): see CuArray and Span"))
        offset >= 0 && offset % sizeof(T) == 0 || throw(ArgumentError("offset $offset is not a multiple of $(sizeof(T)) bytes"))
        all(>=(0), dims) && offset + widemul(prod(widen.(dims)), sizeof(T)) <= memory.bytes ||
            throw(ArgumentError("$(join(dims, '×')) elements of $T from byte $offset on are more than the block of $(memory.bytes) bytes"))
        address = Ptr{T}(pointer(memory, rank) + offset)
        return new{T,N}(unsafe_wrap(Array, address, dims), memory, rank, offset)
    end
end

SymmArray{T}(memory::Memory, dims::Integer...; options...) where {T} = SymmArray{T}(memory, Dims(dims); options...)
SymmArray{T}(group::Group, dims::Integer...; tag::Integer=0) where {T} = SymmArray{T}(group, Dims(dims); tag=tag)

function SymmArray{T}(group::Group, dims::Dims; tag::Integer=0) where {T}
    dtype(T)
    # A block has at least one byte; an array of no elements is one all the same.
    return SymmArray{T}(Memory(group, max(prod(dims) * sizeof(T), 1); tag=tag), dims)
end

function SymmArray(group::Group, array::AbstractArray{T}; tag::Integer=0) where {T}
    made = SymmArray{T}(group, size(array); tag=tag)
    return copyto!(made, array)
end

Base.size(A::SymmArray) = size(A.data)
Base.length(A::SymmArray) = length(A.data)
Base.IndexStyle(::Type{<:SymmArray}) = IndexLinear()
Base.elsize(::Type{<:SymmArray{T}}) where {T} = sizeof(T)
Base.@propagate_inbounds Base.getindex(A::SymmArray, i::Int) = A.data[i]
Base.@propagate_inbounds Base.setindex!(A::SymmArray, value, i::Int) = (A.data[i] = value; A)
Base.pointer(A::SymmArray) = pointer(A.data)
Base.pointer(A::SymmArray, i::Integer) = pointer(A.data, i)
Base.unsafe_convert(::Type{Ptr{T}}, A::SymmArray{T}) where {T} = pointer(A.data)
Base.strides(A::SymmArray) = strides(A.data)
Base.dataids(A::SymmArray) = Base.dataids(A.data)

"""
    peer(A, rank)

The same array in the block of another rank: what it holds, and what is stored there, is that rank's.
"""
peer(A::SymmArray{T}, rank::Integer) where {T} = SymmArray{T}(A.memory, size(A); rank=rank, offset=A.offset)

"""The symmetric array that an array is part of, or `nothing`."""
owner(A::SymmArray) = A
owner(A::Union{SubArray,Base.ReshapedArray,Base.ReinterpretArray}) = owner(parent(A))
owner(A) = nothing

"""
    Symm.group_of(A, ...)

The group of the first that is symmetric memory, or a part of such an array.
"""
group_of(A, others...) = group_of_owner(owner(A), others...)
group_of(memory::Memory) = memory.group
group_of() = throw(ArgumentError("nothing here is in symmetric memory, so the group must be given"))
group_of_owner(A::SymmArray, others...) = A.memory.group
group_of_owner(::Nothing, others...) = group_of(others...)
