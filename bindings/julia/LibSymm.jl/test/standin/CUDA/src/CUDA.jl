"""
Stands in for CUDA.jl in the tests, under its names: "device" memory is the host's, and the only stream is NULL. It shows that the extension fits
these names and passes on the right addresses; what the real package does, it cannot show.
"""
module CUDA

export CuArray, CuPtr, CuStream

primitive type CuPtr{T} 64 end
Base.:+(p::CuPtr{T}, n::Integer) where {T} = reinterpret(CuPtr{T}, reinterpret(UInt64, p) + n % UInt64)

struct CuStream
    handle::Ptr{Cvoid}
end
const CURRENT = Ref(CuStream(C_NULL))
stream() = CURRENT[]

mutable struct CuArray{T,N} <: DenseArray{T,N}
    memory::Vector{T}  # empty, if not its own
    address::CuPtr{T}
    dims::Dims{N}
end
function CuArray(host::AbstractArray{T,N}) where {T,N}
    memory = collect(vec(host))
    return CuArray{T,N}(memory, reinterpret(CuPtr{T}, pointer(memory)), size(host))
end
Base.unsafe_wrap(::Type{CuArray}, p::CuPtr{T}, dims::Dims{N}; own::Bool=false) where {T,N} = CuArray{T,N}(T[], p, dims)
Base.size(A::CuArray) = A.dims
Base.pointer(A::CuArray) = A.address
Base.Array(A::CuArray{T}) where {T} = GC.@preserve A copy(unsafe_wrap(Array, reinterpret(Ptr{T}, A.address), A.dims))
Base.getindex(::CuArray, ::Int...) = error("scalar indexing of device memory")

end
