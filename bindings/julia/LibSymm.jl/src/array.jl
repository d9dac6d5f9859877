"""
Arrays in host memory that the library maps. `A.data` borrows that memory, and keeps it mapped.
"""
abstract type MappedArray{T,N} <: DenseArray{T,N} end

Base.size(A::MappedArray) = size(A.data)
Base.length(A::MappedArray) = length(A.data)
Base.IndexStyle(::Type{<:MappedArray}) = IndexLinear()
Base.elsize(::Type{<:MappedArray{T}}) where {T} = sizeof(T)
Base.@propagate_inbounds Base.getindex(A::MappedArray, i::Int) = A.data[i]
Base.@propagate_inbounds function Base.setindex!(A::MappedArray, value, i::Int)
    A.data[i] = value
    return A
end
Base.pointer(A::MappedArray) = pointer(A.data)
Base.pointer(A::MappedArray, i::Integer) = pointer(A.data, i)
Base.unsafe_convert(::Type{Ptr{T}}, A::MappedArray{T}) where {T} = pointer(A.data)
Base.strides(A::MappedArray) = strides(A.data)
Base.dataids(A::MappedArray) = Base.dataids(A.data)
function Serialization.serialize(::Serialization.AbstractSerializer, A::MappedArray)
    return refuse_copy(A, "; Array(A) is a copy that can be sent")
end
function Base.deepcopy_internal(A::MappedArray, ::IdDict)
    return refuse_copy(A, "; Array(A) is a copy")
end

"""
    SymmArray{T}(group, dims...; tag=0)
    SymmArray(group, array; tag=0)
    SymmArray{T}(memory, dims; rank=memory.rank, offset=0)

An array in symmetric memory on the host: the block of one rank, by default this rank's. The first
two forms are collective and blocking: they allocate a block on every rank, share the blocks, and
give an array of zeros or a copy. The third form is local: a view of a memory, `offset` bytes into
the block of `rank`.

It is an ordinary dense array: indexing, broadcasting, BLAS and `ccall` work on it. Other ranks see
what is stored in it, so two ranks agree by signals or barriers on who writes when. `peer(A, rank)`
is the array at this place on another rank.
"""
struct SymmArray{T,N} <: MappedArray{T,N}
    data::Array{T,N}
    memory::SymmMemory
    rank::Int
    offset::Int

    function SymmArray{T}(
        memory::SymmMemory, dims::Dims{N}; rank::Integer=memory.rank, offset::Integer=0
    ) where {T,N}
        dtype(T)
        backend = memory.group.backend
        backend === :host || throw(
            ArgumentError(
                "a SymmArray is in host memory, this group's is $backend: see CuArray and Span"
            ),
        )
        block = wrap_block(T, pointer(memory, rank), memory.bytes, dims, offset)
        return new{T,N}(hold(block, memory), memory, rank, offset)
    end
end

function wrap_block(::Type{T}, block, bytes, dims, offset) where {T}
    require_within(T, bytes, dims, offset)
    return unsafe_wrap(Array, Ptr{T}(block + offset), dims)
end

function require_within(::Type{T}, bytes, dims, offset) where {T}
    size = sizeof(T)
    if offset < 0 || offset % size != 0
        throw(ArgumentError("offset $offset is not a multiple of $size bytes"))
    end
    if any(<(0), dims) || offset + widemul(prod(widen.(dims)), size) > bytes
        elements = join(dims, '×')
        throw(
            ArgumentError(
                "$elements elements of $T from byte $offset on are more than the block of " *
                "$bytes bytes",
            ),
        )
    end
end

function SymmArray{T}(memory::SymmMemory, dims::Integer...; options...) where {T}
    return SymmArray{T}(memory, Dims(dims); options...)
end

function SymmArray{T}(group::Group, dims::Integer...; tag::Integer=0) where {T}
    return SymmArray{T}(group, Dims(dims); tag=tag)
end

function SymmArray{T}(group::Group, dims::Dims; tag::Integer=0) where {T}
    dtype(T)
    # A block has at least one byte, and an array may have no elements.
    bytes = max(prod(dims) * sizeof(T), 1)
    return SymmArray{T}(SymmMemory(group, bytes; tag=tag), dims)
end

function SymmArray(group::Group, array::AbstractArray{T}; tag::Integer=0) where {T}
    made = SymmArray{T}(group, size(array); tag=tag)
    return copyto!(made, array)
end

"""
    peer(A, rank)

The array at the place of `A` in the block of another rank. Its elements are that rank's: a load
reads what that rank has, and a store is seen there. Local.
"""
function peer(A::SymmArray{T}, rank::Integer) where {T}
    return SymmArray{T}(A.memory, size(A); rank=rank, offset=A.offset)
end

"""The symmetric array that an array is part of, or `nothing`."""
owner(A::SymmArray) = A
owner(A::Union{SubArray,Base.ReshapedArray,Base.ReinterpretArray}) = owner(parent(A))
owner(A) = nothing

"""
    LibSymm.group_of(A, ...)

The group of the first argument that is symmetric memory, or part of an array in symmetric memory.
"""
group_of(A, others...) = group_of_owner(owner(A), others...)
group_of(memory::SymmMemory) = memory.group
function group_of()
    throw(ArgumentError("nothing here is in symmetric memory, so the group must be given"))
end
group_of_owner(A::SymmArray, others...) = A.memory.group
group_of_owner(::Nothing, others...) = group_of(others...)
