# The functions of the CUDA driver that a program with device pointers and a stream needs. DRIVER is
# nothing where there is no driver.
using Libdl

const DRIVER = Libdl.dlopen("libcuda.so.1"; throw_error=false)

macro cuda(call)
    name = String(call.args[1])
    arguments = call.args[2:end]
    types = [argument.args[2] for argument in arguments]
    values = [esc(argument.args[1]) for argument in arguments]
    return quote
        result = ccall(Libdl.dlsym(DRIVER, $name), Cint, ($(types...),), $(values...))
        result == 0 || error($name, " failed with ", result)
    end
end

"""
Make the primary context of a device current, as other CUDA libraries do. Returns a stream of it.
"""
function use_device(ordinal)
    device = Ref{Cint}(0)
    context = Ref{Ptr{Cvoid}}(C_NULL)
    stream = Ref{Ptr{Cvoid}}(C_NULL)
    @cuda cuDeviceGet(device::Ptr{Cint}, ordinal::Cint)
    @cuda cuDevicePrimaryCtxRetain(context::Ptr{Ptr{Cvoid}}, device[]::Cint)
    @cuda cuCtxSetCurrent(context[]::Ptr{Cvoid})
    @cuda cuStreamCreate(stream::Ptr{Ptr{Cvoid}}, 1::Cuint)
    return stream[]
end

function device_memory(bytes)
    address = Ref{UInt64}(0)
    @cuda cuMemAlloc_v2(address::Ptr{UInt64}, bytes::Csize_t)
    return address[]
end

finish(stream) = @cuda cuStreamSynchronize(stream::Ptr{Cvoid})

function to_device(address, data, stream)
    GC.@preserve data begin
        @cuda cuMemcpyHtoDAsync_v2(
            UInt64(address)::UInt64,
            pointer(data)::Ptr{Cvoid},
            sizeof(data)::Csize_t,
            stream::Ptr{Cvoid},
        )
        finish(stream)
    end
    return nothing
end

function from_device(::Type{T}, address, count, stream) where {T}
    data = Vector{T}(undef, count)
    GC.@preserve data begin
        @cuda cuMemcpyDtoHAsync_v2(
            pointer(data)::Ptr{Cvoid},
            UInt64(address)::UInt64,
            sizeof(data)::Csize_t,
            stream::Ptr{Cvoid},
        )
        finish(stream)
    end
    return data
end
