"""What owns a reference to an object of the library: its field `handle`, which is NULL once it is released."""
abstract type Handle{T} end

# Also the finalizer: local, and neither waits nor fails, whatever was released before.
function release(x::Handle, stream...)
    handle, x.handle = x.handle, C_NULL
    handle == C_NULL || release_reference(handle, stream...)
    return nothing
end
release_reference(handle::Ptr{symm_group_t}) = symm_group_release(handle)
release_reference(handle::Ptr{symm_buffer_t}) = symm_buffer_release(handle)
release_reference(handle::Ptr{symm_memory_t}) = symm_memory_release(handle)
release_reference(handle::Ptr{symm_heap_t}) = symm_heap_release(handle)
const ALL_STREAMS = Ptr{Cvoid}(typemax(UInt))
# Where an import was used nobody knows.
release_reference(handle::Ptr{symm_ipc_t}, stream=ALL_STREAMS) = symm_ipc_release(handle, stream)

Base.close(x::Handle) = release(x)
Base.isopen(x::Handle) = x.handle != C_NULL
Base.cconvert(::Type{Ptr{T}}, x::Handle{T}) where {T} = x
Base.unsafe_convert(::Type{Ptr{T}}, x::Handle{T}) where {T} = x.handle
