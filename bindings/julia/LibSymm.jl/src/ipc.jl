# Sharing memory with any process of this user on this machine, outside of any group.

"""
    export_token(A; hold=nothing, imports=0, channels=0, fence=0, stream=nothing)

A token for the memory of `A` (an array in symmetric or imported memory, a `Buffer`, a `SymmMemory`
or a `Span`): bytes that may travel by any means. A process that imports them maps that memory.
Local; on CUDA an importer sees the results of work that was issued on `stream` before.

`hold` keeps the memory for this token for so many seconds, even if its buffer is released, or until
it was imported `imports` times. With `nothing` it is `\$SYMM_IPC_HOLD_MS`, and with 0 the memory is
not kept, whatever that says.

With `channels`, those who import the token signal this process by so many words, for which
[`ipc_wait_value`](@ref) waits. `fence` is the size in bytes of a part that [`ipc_fence`](@ref) can
close by itself; with 0 it is the whole piece. Memory of the host that this process made.
"""
function export_token(
    A;
    hold=nothing,
    imports::Integer=0,
    channels::Integer=0,
    fence::Integer=0,
    stream=nothing,
)
    token = Vector{UInt8}(undef, SYMM_IPC_TOKEN_MAX_BYTES)
    used = Ref{Csize_t}(0)
    flags, kept_ms = hold_of(hold)
    piece, size = exported(A)
    on = ipc_stream(stream)
    attempt() do call
        how = options_of(
            call,
            symm_ipc_export_options_t,
            flags,
            kept_ms,
            imports,
            call.failure,
            channels,
            fence,
        )
        return symm_ipc_export(piece, size, how, token, length(token), used, on)
    end
    return resize!(token, used[])
end

"""The flags and the milliseconds of a time for which memory is held."""
function hold_of(hold)
    is_none = hold !== nothing && iszero(hold)
    return is_none ? (SYMM_IPC_NO_HOLD, UInt64(0)) : (UInt64(0), milliseconds(hold))
end

"""Operand and bytes of the memory of an argument that can be exported."""
exported(A) = operand(A), bytes(A)
exported(buffer::Buffer) = KeepAlive(buffer, pointer(buffer)), buffer.bytes
exported(memory::SymmMemory) = KeepAlive(memory, pointer(memory)), memory.bytes

# Without a stream the library gets none, and not the current task's: memory that is exported or
# imported may be that of the host, for which the library accepts no stream.
ipc_stream(::Nothing) = C_NULL
ipc_stream(stream) = stream_handle(stream)

"""
    import_token(token; read_only=false, timeout=nothing, directory=nothing, device=nothing,
                 stream=nothing)
    import_token(T, token, dims...; options...)

Map the memory that a token names. Local, blocking.

The result of the first form has `pointer(import)` and `import.bytes`; `close(import)`, or the
garbage collector, ends the lease. The result of the second form is an array of host memory with
elements of type `T`; without dims a vector of the whole piece.

`directory` is the path of the exporter's socket directory in this process, if it is not the
exporter's path. `device` is the CUDA ordinal for which the memory is mapped; without it, the GPU
that has the memory. With `read_only` it is mapped so that a store throws a `ReadOnlyMemoryError`.
"""
function import_token(token::AbstractVector{UInt8}; options...)
    return finalizer(release, open_token(token; options...))
end

function import_token(
    ::Type{T}, token::AbstractVector{UInt8}, dims::Integer...; options...
) where {T}
    dims_of(made) = isempty(dims) ? (made.bytes ÷ sizeof(T),) : Dims(dims)
    return ImportedArray{T}(open_token(token; options...), dims_of)
end

function open_token(
    token; read_only=false, timeout=nothing, directory=nothing, device=nothing, stream=nothing
)
    given_bytes = convert(Vector{UInt8}, token)
    on = ipc_stream(stream)
    flags = device === nothing ? UInt64(0) : SYMM_IPC_ON_DEVICE
    read_only && (flags |= SYMM_IPC_READ_ONLY)
    return with_text(directory) do path
        handle = produced(Ptr{symm_ipc_t}) do call, out
            how = options_of(
                call,
                symm_ipc_import_options_t,
                flags,
                milliseconds(timeout),
                path,
                something(device, 0),
                call.failure,
            )
            return symm_ipc_import(given_bytes, length(given_bytes), how, out, on)
        end
        return Import(handle)
    end
end

"""Memory of another process, made by [`import_token`](@ref)."""
mutable struct Import <: Handle{symm_ipc_t}
    handle::Ptr{symm_ipc_t}
    bytes::Int

    function Import(handle::Ptr{symm_ipc_t})
        return new(handle, given(Csize_t, symm_ipc_bytes, handle))
    end
end

"""Make `x`, which borrows imported memory, keep it mapped by a reference of its own."""
function hold(x, made::Import)
    check(symm_ipc_retain(made))
    own = Import(made.handle)
    return finalizer(_ -> release(own), x)
end

"""An array of imported host memory, made by [`import_token`](@ref)."""
struct ImportedArray{T,N} <: MappedArray{T,N}
    data::Array{T,N}
    import_::Import

    function ImportedArray{T}(
        made::Import, dims_of, start=pointer(made), bytes=made.bytes
    ) where {T}
        try
            info(made).backend == SYMM_BACKEND_HOST || throw(
                ArgumentError(
                    "a token for device memory: use pointer(import_token(token))"
                ),
            )
            dims = dims_of(made)
            data = wrap_block(T, start, bytes, dims, 0)
            # The lease ends with the array that borrows the memory, and not with `made`, which may
            # be collected first.
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

End the lease: on a device when the work that was issued on `stream` before is done, and without a
stream when all work of the device is. Local; never waits.
"""
function Base.close(made::Import; stream=nothing)
    return release(made, stream === nothing ? ALL_STREAMS : stream_handle(stream))
end
Base.close(A::ImportedArray) = close(A.import_)

"""
    stream_wait(import; stream=C_NULL)

Order work that is issued on `stream` from now on after the work that the exporter had issued before
the export. Local, in stream order.
"""
function stream_wait(made::Import; stream=C_NULL)
    on = stream_handle(stream)
    return attempt(call -> symm_ipc_stream_wait(made, within(call), on))
end

"""
    record_use(import; stream=C_NULL)

Record that the work that was issued on `stream` so far uses the import: its lease does not end
before that work is done. Local, in stream order.
"""
function record_use(made::Import; stream=C_NULL)
    on = stream_handle(stream)
    return attempt(call -> symm_ipc_record_use(made, within(call), on))
end

"""
    suspend!(import; stream=C_NULL)

Give the memory of an import, an imported array or a bundle up, and keep its addresses, for a reader
that sleeps or goes on with another version. The lease ends. Until [`resume!`](@ref), an access
faults. Nothing else of this process may use the memory. Local, in stream order: what was issued on
`stream` before is over when the memory goes.
"""
function suspend!(made::Import; stream=C_NULL)
    on = stream_handle(stream)
    return attempt(call -> symm_ipc_suspend(made, within(call), on))
end
suspend!(A::ImportedArray; options...) = suspend!(A.import_; options...)

"""
    resume!(import, token=UInt8[]; timeout=nothing, directory=nothing, stream=C_NULL)

Map memory at the addresses of a suspended import, imported array or bundle: what `token` names,
which lies as what was imported, or without one what was there. Device and access stay those of the
import. If this fails, it stays suspended. Local, blocking.
"""
function resume!(
    made::Import,
    token::AbstractVector{UInt8}=UInt8[];
    timeout=nothing,
    directory=nothing,
    stream=C_NULL,
)
    bytes = convert(Vector{UInt8}, token)
    on = stream_handle(stream)
    return with_text(directory) do path
        GC.@preserve bytes attempt() do call
            how = options_of(
                call,
                symm_ipc_import_options_t,
                UInt64(0),
                milliseconds(timeout),
                path,
                0,
                call.failure,
            )
            at = isempty(bytes) ? C_NULL : Ptr{Cvoid}(pointer(bytes))
            return symm_ipc_resume(made, at, length(bytes), how, on)
        end
    end
end
resume!(A::ImportedArray, token...; options...) = resume!(A.import_, token...; options...)

Base.pointer(made::Import) = given(Ptr{Cvoid}, symm_ipc_pointer, made)

"""
    LibSymm.info(import)
    LibSymm.info(imported_array)

Describe an import, as a named tuple: `bytes`, `offset`, `exporter_pid`, `exporter_alive` and so on.
Local.
"""
info(made::Import) = filled(symm_ipc_info_t, symm_ipc_info, made)
info(A::ImportedArray) = info(A.import_)

"""
    ipc_withdraw(A; timeout=nothing)

End the tokens made so far for any part of the memory of `A`, and wait until nobody holds a lease on
it; then it may be written anew. Local, blocking.
"""
function ipc_withdraw(A; timeout=nothing)
    piece, size = exported(A)
    return attempt(call -> symm_ipc_withdraw(piece, size, within(call, timeout)))
end

"""
    ipc_holders(A)

The holders of leases on any part of the memory of `A`, as a named tuple: `leases`, `processes`,
`pid` of one of them, and `quarantined`. The tokens do not end. Local; never waits.
"""
function ipc_holders(A)
    piece, size = exported(A)
    return described(symm_ipc_holders_t) do call, out
        return symm_ipc_holders(piece, size, within(call), out)
    end
end

"""
    ipc_collect()

Free memory that is provably unused, without waiting. Returns counts of what all collections of the
process have done, as a named tuple: `ended_leases`, `freed_blocks`, `freed_bytes`,
`limbo_blocks` and so on. Local.
"""
function ipc_collect()
    return described((call, out) -> symm_ipc_collect(within(call), out), symm_ipc_collect_stats_t)
end

"""
    ipc_stats()

The state of sharing in this process, as a named tuple: `tokens`, `leases`, `limbo_blocks`,
`imports` and so on. Local.
"""
ipc_stats() = filled(symm_ipc_stats_t, symm_ipc_stats)
