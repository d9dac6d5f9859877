# Memory handed to any process of this user on this machine, outside of any group.

"""
    export_token(A; hold=nothing, imports=0, stream=nothing)

A token for the memory of `A` (an array in symmetric or imported memory, a `Buffer`, a `SymmMemory`, a `Span`): bytes that may travel by any means.
Whoever imports them has the same memory. `hold` keeps it for this token for so many seconds (without it: `\$SYMM_IPC_HOLD_MS`) even if its buffer
is released, or until it was imported `imports` times.
"""
function export_token(A; hold=nothing, imports::Integer=0, stream=nothing)
    token, length_ = Vector{UInt8}(undef, SYMM_IPC_TOKEN_MAX_SIZE), Ref{Csize_t}(0)
    how = options_with(symm_ipc_export_options_t, milliseconds(hold), imports)
    piece, size = exported(A)
    check(symm_ipc_export(piece, size, how, token, length(token), length_, ipc_stream(stream)))
    return resize!(token, length_[])
end

exported(A) = operand(A), bytes(A)
exported(buffer::Buffer) = KeepAlive(buffer, pointer(buffer)), buffer.bytes
exported(memory::SymmMemory) = KeepAlive(memory, pointer(memory)), memory.bytes

# The library wants no stream for host memory, and what is exported or imported may be either.
ipc_stream(::Nothing) = C_NULL
ipc_stream(stream) = stream_handle(stream)

"""
    import_token(token; timeout=nothing, directory=nothing, device=nothing, stream=nothing)

Map the memory that a token names. The result has `pointer(import)` and `import.bytes`; `close(import)`, or the garbage collector, ends the lease.
`directory`: where the exporter's socket directory is seen here, if not under the same path.

    import_token(T, token, dims...; options...)

The same as an array of host memory with elements of type `T`; without dims a vector of the whole piece.
"""
import_token(token::AbstractVector{UInt8}; options...) = finalizer(release, open_token(token; options...))

function open_token(token; timeout=nothing, directory=nothing, device=nothing, stream=nothing)
    bytes_, out = convert(Vector{UInt8}, token), Ref{Ptr{symm_ipc_t}}(C_NULL)
    with_text(directory) do path
        how = options_with(symm_ipc_import_options_t, milliseconds(timeout), path, something(device, SYMM_DEVICE_AUTO))
        check(symm_ipc_import(bytes_, length(bytes_), how, out, ipc_stream(stream)))
    end
    return Import(out[])
end

import_token(::Type{T}, token::AbstractVector{UInt8}, dims::Integer...; options...) where {T} =
    ImportedArray{T}(open_token(token; options...), made -> isempty(dims) ? (made.bytes ÷ sizeof(T),) : Dims(dims))

"""Memory of another process, made by [`import_token`](@ref)."""
mutable struct Import <: Handle{symm_ipc_t}
    handle::Ptr{symm_ipc_t}
    bytes::Int

    Import(handle::Ptr{symm_ipc_t}) = new(handle, given(Csize_t, symm_ipc_size, handle))
end

"""An array of imported host memory, made by [`import_token`](@ref)."""
struct ImportedArray{T,N} <: MappedArray{T,N}
    data::Array{T,N}
    import_::Import

    function ImportedArray{T}(made::Import, dims_of) where {T}
        try
            info(made).backend == SYMM_BACKEND_HOST || throw(ArgumentError("a token for device memory: use pointer(import_token(token))"))
            dims = dims_of(made)
            data = wrap_block(T, pointer(made), made.bytes, dims, 0)
            # The lease ends with what borrows the memory,
            # not with `made`, which may be collected first.
            return new{T,length(dims)}(finalizer(_ -> release(made), data), made)
        catch
            release(made)
            rethrow()
        end
    end
end

"""
    close(import; stream=nothing)
    close(imported_array)

End the lease, on the device when what was issued on `stream` before is over; without it, when all that the device has to do is.
"""
Base.close(made::Import; stream=nothing) = release(made, stream === nothing ? ALL_STREAMS : stream_handle(stream))
Base.close(A::ImportedArray) = close(A.import_)

"`stream_wait(import; stream=C_NULL)`: what is issued on `stream` next runs after what the exporter had issued before the export."
stream_wait(made::Import; stream=C_NULL) = check(symm_ipc_stream_wait(made, stream_handle(stream)))

"`record_use(import; stream=C_NULL)`: say that what was issued on `stream` so far uses the import: its lease does not end before that is over."
record_use(made::Import; stream=C_NULL) = check(symm_ipc_record_use(made, stream_handle(stream)))

Base.pointer(made::Import) = given(Ptr{Cvoid}, symm_ipc_pointer, made)
info(made::Import) = filled(symm_ipc_info_t, symm_ipc_info, made)
info(A::ImportedArray) = info(A.import_)

"""
    ipc_withdraw(A; timeout=nothing)

End the tokens made so far for any part of the memory of `A`, and wait until nobody holds a lease on it: then it may be written anew.
"""
function ipc_withdraw(A; timeout=nothing)
    piece, size = exported(A)
    return check(symm_ipc_withdraw(piece, size, milliseconds(timeout)))
end

"""
    ipc_holders(A)

Who holds leases on any part of the memory of `A`, as a named tuple: `leases`, `processes`, `pid` of one of them, `quarantined`. Ends no tokens.
"""
function ipc_holders(A)
    piece, size = exported(A)
    return filled(symm_ipc_holders_t, symm_ipc_holders, piece, size)
end

"""
    ipc_collect()

Free what is provably free, without waiting. What all collections of the process have done, as a named tuple: `leases_ended`, `blocks_freed`,
`bytes_freed`, `blocks_in_limbo`, ...
"""
ipc_collect() = filled(symm_ipc_report_t, symm_ipc_collect)

"`ipc_stats()`: the state of sharing in this process, as a named tuple: `tokens`, `leased`, `limbo_blocks`, `imported`, ..."
ipc_stats() = filled(symm_ipc_stats_t, symm_ipc_stats)
