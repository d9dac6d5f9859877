# Bundles, which are many named pieces of memory by one token, and versions, which are tokens by a
# name and a number.

# The element types by the names that they have in what a bundle says of an array.
const ELEMENT_NAMES = Dict{String,DataType}(
    "bool" => Bool,
    "i8" => Int8,
    "i16" => Int16,
    "i32" => Int32,
    "i64" => Int64,
    "u8" => UInt8,
    "u16" => UInt16,
    "u32" => UInt32,
    "u64" => UInt64,
    "f16" => Float16,
    "f32" => Float32,
    "f64" => Float64,
    "f8e4m3" => Float8E4M3,
    "f8e5m2" => Float8E5M2,
)
const NAMES_OF_ELEMENTS = Dict{DataType,String}(T => name for (name, T) in ELEMENT_NAMES)

"""What a bundle says of an array, with its extents in the order of C: `f32[3,4]` of a 4×3 array."""
function about_of(A::AbstractArray{T}) where {T}
    name = get(NAMES_OF_ELEMENTS, T, nothing)
    name === nothing && return ""
    return "$name[$(join(reverse(size(A)), ','))]"
end

"""Type and extents that `about` says; else bytes, as the maker of another array left them."""
function read_about(about, size)
    said = match(r"^(\w+)\[((?:\d+(?:,\d+)*)?)\]$", about)
    if said !== nothing && haskey(ELEMENT_NAMES, said[1])
        T = ELEMENT_NAMES[said[1]]
        dims = reverse(Tuple(parse.(Int, filter(!isempty, Base.split(said[2], ',')))))
        prod((1, dims...)) * sizeof(T) == size && return T, dims
    end
    return UInt8, (Int(size),)
end

"""
    export_bundle(arrays; hold=nothing, imports=0, stream=nothing)

One token for many named arrays: `arrays` is a `Dict`, or a vector of pairs, of names and arrays in
symmetric memory or in buffers of one device. Their element types and extents travel with them. A
process that imports the token maps all of them, each block once. Local; `hold`, `imports` and
`stream` are as for [`export_token`](@ref).
"""
function export_bundle(arrays; hold=nothing, imports::Integer=0, stream=nothing)
    token = Vector{UInt8}(undef, SYMM_IPC_TOKEN_MAX_BYTES)
    used = Ref{Csize_t}(0)
    flags, kept_ms = hold_of(hold)
    on = ipc_stream(stream)
    names = String[String(name) for (name, _) in arrays]
    abouts = String[about_of(A) for (_, A) in arrays]
    places = [exported(A) for (_, A) in arrays]
    kept = Any[Base.cconvert(Ptr{Cvoid}, piece) for (piece, _) in places]
    GC.@preserve names abouts kept begin
        pieces = [
            symm_ipc_piece_t(
                sizeof(symm_ipc_piece_t),
                last(places[n]) == 0 ? C_NULL : Base.unsafe_convert(Ptr{Cvoid}, kept[n]),
                last(places[n]),
                Base.unsafe_convert(Cstring, names[n]),
                Ptr{Cvoid}(pointer(abouts[n])),
                sizeof(abouts[n]),
            ) for n in eachindex(names)
        ]
        attempt() do call
            how = options_of(
                call, symm_ipc_export_options_t, flags, kept_ms, imports, call.failure, 0, 0
            )
            return symm_ipc_export_bundle(
                pieces, length(pieces), how, token, length(token), used, on
            )
        end
    end
    return resize!(token, used[])
end

"""
    import_bundle(token; read_only=true, timeout=nothing, directory=nothing, device=nothing,
                  stream=nothing)

Map the arrays of a bundle. Local, blocking. `bundle["name"]` is an array of host memory, or the
address and the bytes of a piece on a device; `keys(bundle)` are the names, `length(bundle)` is
their number, and `haskey(bundle, "name")` costs the same for any number. Arrays hold the lease, as
the bundle does until `close(bundle)`.

A store into an array that was mapped with `read_only` throws a `ReadOnlyMemoryError`.
"""
function import_bundle(token::AbstractVector{UInt8}; read_only::Bool=true, options...)
    made = finalizer(release, open_token(token; read_only, options...))
    return Bundle(made, given(Csize_t, symm_ipc_bundle_size, made))
end

"""Many named arrays of another process, made by [`import_bundle`](@ref)."""
struct Bundle
    import_::Import
    length::Int
end

Base.length(bundle::Bundle) = bundle.length
Base.close(bundle::Bundle; options...) = close(bundle.import_; options...)
info(bundle::Bundle) = info(bundle.import_)
suspend!(bundle::Bundle; options...) = suspend!(bundle.import_; options...)
resume!(bundle::Bundle, token...; options...) = resume!(bundle.import_, token...; options...)

"""The place of the piece that has a name, from 0; `nothing` if there is none."""
function place_of(bundle::Bundle, name::AbstractString)
    place = Ref{Csize_t}(0)
    is_there = with_text(name) do text
        return looked_up(call -> symm_ipc_bundle_find(bundle.import_, text, place))
    end
    return is_there ? Int(place[]) : nothing
end

function piece_at(bundle::Bundle, place::Integer)
    out = sized(symm_ipc_piece_t)
    check(symm_ipc_bundle_piece(bundle.import_, place, out))
    return out[]
end

function piece_called(bundle::Bundle, name::AbstractString)
    place = place_of(bundle, name)
    place === nothing && throw(KeyError(name))
    return piece_at(bundle, place)
end

name_of(piece) = piece.name == C_NULL ? nothing : unsafe_string(piece.name)
about_of(piece::symm_ipc_piece_t) =
    piece.about_bytes == 0 ? "" : unsafe_string(Ptr{UInt8}(piece.about), piece.about_bytes)

Base.haskey(bundle::Bundle, name::AbstractString) = place_of(bundle, name) !== nothing

function Base.keys(bundle::Bundle)
    found = [name_of(piece_at(bundle, place)) for place in 0:(bundle.length - 1)]
    return String[name for name in found if name !== nothing]
end

function Base.getindex(bundle::Bundle, name::AbstractString)
    piece = piece_called(bundle, name)
    is_on_host = info(bundle).backend == SYMM_BACKEND_HOST
    is_on_host || return (pointer=piece.pointer, bytes=Int(piece.bytes), about=about_of(piece))
    T, dims = read_about(about_of(piece), piece.bytes)
    check(symm_ipc_retain(bundle.import_))
    made = Import(bundle.import_.handle)
    return ImportedArray{T}(made, _ -> dims, piece.pointer, Int(piece.bytes))
end

# ---- versions

"""
    ipc_publish(name, version, token; keep=0)

Publish a token of this process under a name and the number of a version; larger numbers are newer.
Versions coexist: readers keep the one that they have imported. With `keep`, so many versions of the
name stay published, with this one, and the tokens of those with the lowest numbers end. Local.
"""
function ipc_publish(
    name::AbstractString, version::Integer, token::AbstractVector{UInt8}; keep::Integer=0
)
    bytes = convert(Vector{UInt8}, token)
    return with_text(name) do text
        return attempt() do call
            how = options_of(call, symm_ipc_publish_options_t, keep, call.failure)
            return symm_ipc_publish(text, version, bytes, length(bytes), how)
        end
    end
end

"""
    ipc_lookup(name, compare=(>=), version=0; timeout=nothing, directory=nothing)

The newest published version of a name that compares with `version`, and its token; waits for one.
`ipc_lookup("model", >, 3)` is the newest that is newer than 3. Local, blocking.
"""
function ipc_lookup(
    name::AbstractString, compare=(>=), version::Integer=0; timeout=nothing, directory=nothing
)
    token = Vector{UInt8}(undef, SYMM_IPC_TOKEN_MAX_BYTES)
    used = Ref{Csize_t}(0)
    found = Ref{UInt64}(0)
    how_compared = comparison(compare)
    with_text(name) do text
        with_text(directory) do path
            attempt() do call
                how = options_of(
                    call, symm_ipc_lookup_options_t, milliseconds(timeout), path, call.failure
                )
                return symm_ipc_lookup(
                    text, how_compared, version, how, token, length(token), used, found
                )
            end
        end
    end
    return (version=found[], token=resize!(token, used[]))
end

"""
    ipc_withdraw_version(name, version; timeout=nothing)

End the token of a version that this process has published, and wait until nobody holds it; then its
memory may be written anew. Local, blocking.
"""
function ipc_withdraw_version(name::AbstractString, version::Integer; timeout=nothing)
    return with_text(name) do text
        return attempt(call -> symm_ipc_withdraw_version(text, version, within(call, timeout)))
    end
end
