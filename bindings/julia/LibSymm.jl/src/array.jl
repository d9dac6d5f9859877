"""
Arrays in host memory that the library maps. `A.data` borrows that memory, and keeps it mapped.
"""
abstract type MappedArray{T,N} <: DenseArray{T,N} end

Base.size(A::MappedArray) = size(A.data)
Base.length(A::MappedArray) = length(A.data)
Base.IndexStyle(::Type{<:MappedArray}) = IndexLinear()
Base.elsize(::Type{<:MappedArray{T}}) where {T} = sizeof(T)
Base.@propagate_inbounds Base.getindex(A::MappedArray, i::Int) = A.data[i]
Base.@propagate_inbounds Base.setindex!(A::MappedArray, value, i::Int) = (A.data[i] = value; A)
Base.pointer(A::MappedArray) = pointer(A.data)
Base.pointer(A::MappedArray, i::Integer) = pointer(A.data, i)
Base.unsafe_convert(::Type{Ptr{T}}, A::MappedArray{T}) where {T} = pointer(A.data)
Base.strides(A::MappedArray) = strides(A.data)
Base.dataids(A::MappedArray) = Base.dataids(A.data)

"""
    SymmArray{T}(group, dims...; tag=0)
    SymmArray(group, array; tag=0)
    SymmArray{T}(memory, dims; rank=memory.rank, offset=0)

An array in symmetric memory on the host: one rank's block, by default one's own. The first two are collective: they allocate, exchange, and
give an array of zeros or a copy. The third is a view of a memory, `offset` bytes into the block of `rank`.

It is an ordinary dense array: indexing, broadcasting, BLAS and `ccall` work on it. Other ranks see what is stored in it, so two sides agree
on who writes when by signals or barriers. `peer(A, rank)` is the same array on another rank.
"""
struct SymmArray{T,N} <: MappedArray{T,N}
    data::Array{T,N}
    memory::SymmMemory
    rank::Int
    offset::Int

    function SymmArray{T}(memory::SymmMemory, dims::Dims{N}; rank::Integer=memory.rank, offset::Integer=0) where {T,N}
        dtype(T)
        memory.group.backend === :host ||
            throw(ArgumentError("a SymmArray is in host memory, this group's is $(memory.group.backend): see CuArray and Span"))
        data = hold(wrap_block(T, pointer(memory, rank), memory.bytes, dims, offset), memory)
        return new{T,N}(data, memory, rank, offset)
    end
end

function wrap_block(::Type{T}, block, bytes, dims, offset) where {T}
    require_within(T, bytes, dims, offset)
    return unsafe_wrap(Array, Ptr{T}(block + offset), dims)
end

function require_within(::Type{T}, bytes, dims, offset) where {T}
    offset >= 0 && offset % sizeof(T) == 0 || throw(ArgumentError("offset $offset is not a multiple of $(sizeof(T)) bytes"))
    all(>=(0), dims) && offset + widemul(prod(widen.(dims)), sizeof(T)) <= bytes ||
        throw(ArgumentError("$(join(dims, '×')) elements of $T from byte $offset on are more than the block of $bytes bytes"))
end

SymmArray{T}(memory::SymmMemory, dims::Integer...; options...) where {T} = SymmArray{T}(memory, Dims(dims); options...)
SymmArray{T}(group::Group, dims::Integer...; tag::Integer=0) where {T} = SymmArray{T}(group, Dims(dims); tag=tag)

function SymmArray{T}(group::Group, dims::Dims; tag::Integer=0) where {T}
    dtype(T)
    # A block has at least one byte; an array of no elements is one all the same.
    return SymmArray{T}(SymmMemory(group, max(prod(dims) * sizeof(T), 1); tag=tag), dims)
end

function SymmArray(group::Group, array::AbstractArray{T}; tag::Integer=0) where {T}
    made = SymmArray{T}(group, size(array); tag=tag)
    return copyto!(made, array)
end

"`peer(A, rank)`: the same array in the block of another rank: what it holds, and what is stored there, is that rank's."
peer(A::SymmArray{T}, rank::Integer) where {T} = SymmArray{T}(A.memory, size(A); rank=rank, offset=A.offset)

"""The symmetric array that an array is part of, or `nothing`."""
owner(A::SymmArray) = A
owner(A::Union{SubArray,Base.ReshapedArray,Base.ReinterpretArray}) = owner(parent(A))
owner(A) = nothing

"`LibSymm.group_of(A, ...)`: the group of the first that is symmetric memory, or a part of such an array."
group_of(A, others...) = group_of_owner(owner(A), others...)
group_of(memory::SymmMemory) = memory.group
group_of() = throw(ArgumentError("nothing here is in symmetric memory, so the group must be given"))
group_of_owner(A::SymmArray, others...) = A.memory.group
group_of_owner(::Nothing, others...) = group_of(others...)
