# The header's structs, whose first field is their size, its constants by name, and its handles.

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

"""A reference to a `T` with these fields after its size."""
sized_with(::Type{T}, values...) where {T} = Ref(T(sizeof(T), values...))

"""
The address of a text for C, NULL for `nothing`; good while `GC.@preserve` keeps the text.
"""
text_for_c(::Nothing) = Cstring(C_NULL)
text_for_c(text::String) = Base.unsafe_convert(Cstring, text)

"""`f(address)` with the address of a text for C, which is NULL for `nothing`."""
function with_text(f, text::AbstractString)
    kept = Base.cconvert(Cstring, String(text))
    return GC.@preserve kept f(Base.unsafe_convert(Cstring, kept))
end
with_text(f, ::Nothing) = f(Cstring(C_NULL))

"""The `T` that `f(arguments..., out)` writes."""
function given(::Type{T}, f::F, arguments...) where {T,F}
    out = Ref{T}()
    check(f(arguments..., out))
    return out[]
end

"""The [`fields`](@ref) of the struct that `f(arguments..., out)` fills."""
function filled(::Type{T}, f::F, arguments...) where {T,F}
    out = sized(T)
    check(f(arguments..., out))
    return fields(out)
end

"""The fields of an info struct as a named tuple, without its size and with text as strings."""
function fields(ref::Ref{T}) where {T}
    return GC.@preserve ref fields_at(T, Base.unsafe_convert(Ptr{T}, ref))
end

function fields_at(::Type{T}, address) where {T}
    chosen = 2:fieldcount(T)  # the first is the size
    # Fields are read from memory one by one, because the compiler takes many seconds for tuples of
    # hundreds of characters.
    start = Ptr{Cvoid}(address)
    values = [plain(fieldtype(T, n), start + fieldoffset(T, n)) for n in chosen]
    return NamedTuple{Tuple(fieldname(T, n) for n in chosen)}(Tuple(values))
end

"""The value of a field, which is text or a number."""
plain(::Type{NTuple{N,UInt8}}, address) where {N} = unsafe_string(Ptr{UInt8}(address))
plain(::Type{T}, address) where {T} = unsafe_load(Ptr{T}(address))

# In seconds, 584 million years: a longer time has no number of milliseconds, and is `Inf`.
const LONGEST_TIMEOUT = 1.8e16

"""
A deadline in milliseconds, as the library takes it, of one in seconds: `Inf` for none, 0 to look
once and `nothing` for the default.
"""
milliseconds(::Nothing) = UInt64(0)
function milliseconds(seconds::Real)
    seconds >= 0 || throw(
        ArgumentError(
            "a timeout is a number of seconds >= 0, Inf, or nothing for the default; not $seconds",
        ),
    )
    seconds == 0 && return SYMM_TIMEOUT_NOW
    # Other types of numbers, Float16 say, overflow when they are multiplied.
    wide = Float64(seconds)
    wide < LONGEST_TIMEOUT || return SYMM_TIMEOUT_INFINITE
    return max(UInt64(1), ceil(UInt64, 1000 * wide))
end

"""The header's constants of one kind by their names without the prefix, in small letters."""
struct Names
    one::String  # as a message says it: "an algorithm"
    prefix::String
    values::Vector{Pair{Int32,Symbol}}
end

function Names(one, prefix)
    found = filter(name -> startswith(String(name), prefix), names(@__MODULE__; all=true))
    short(name) = Symbol(lowercase(String(name)[(length(prefix) + 1):end]))
    values = [Int32(getfield(@__MODULE__, name)) => short(name) for name in found]
    return Names(one, prefix, sort(values))
end

"""
The name of a value. A value that only a newer library knows is called by its kind and its number:
`:algorithm_9`.
"""
function name_of(names::Names, value)
    index = findfirst(pair -> pair.first == value, names.values)
    index === nothing && return Symbol(lowercase(names.prefix[6:end]), value)
    return names.values[index].second
end

function value_of(names::Names, name::Symbol)
    index = findfirst(pair -> pair.second === name, names.values)
    index === nothing || return names.values[index].first
    known = join(last.(names.values), ", ")
    throw(ArgumentError("$(names.one) is one of $known; not $name"))
end

const BACKENDS = Names("a back end", "SYMM_BACKEND_")
const COLLECTIVES = Names("a collective", "SYMM_COLLECTIVE_")
const SCALES = Names("a position", "SYMM_SCALE_")
const ORDERS = Names("an order", "SYMM_ORDER_")
const WIRES = Names("a type of codes", "SYMM_DTYPE_")
const ALGORITHMS = Names("an algorithm", "SYMM_ALGORITHM_")
const MESSAGE_KINDS = Names("a kind of message", "SYMM_MESSAGE_")
const TOPOLOGIES = Names("a topology", "SYMM_TOPOLOGY_")
const LOCALITIES = Names("a locality", "SYMM_LOCALITY_")
const ADVICE_NAMES = Names("an advice", "SYMM_ADVICE_")
const LOG_LEVELS = Names("a level", "SYMM_LOG_")

"""
An object that owns a reference to an object of the library: its field `handle`, which is NULL once
the reference is released.
"""
abstract type Handle{T} end

# A copy would release the reference a second time, and means nothing in another process.
Serialization.serialize(::Serialization.AbstractSerializer, x::Handle) = refuse_copy(x)
Base.deepcopy_internal(x::Handle, ::IdDict) = refuse_copy(x)

function refuse_copy(x, instead="")
    what = nameof(typeof(x))
    throw(ArgumentError("a $what belongs to this process: no deepcopy, no serialize$instead"))
end

# The argument that means all streams.
const ALL_STREAMS = Ptr{Cvoid}(SYMM_ALL_STREAMS % UInt)

"""
Release the reference. This is the finalizer too: it is local, and neither waits nor fails, in any
order of releases.
"""
function release(x::Handle, stream...)
    handle = x.handle
    x.handle = C_NULL
    handle == C_NULL || release_reference(handle, stream...)
    return nothing
end

release_reference(handle::Ptr{symm_group_t}) = symm_group_release(handle)
release_reference(handle::Ptr{symm_buffer_t}) = symm_buffer_release(handle)
release_reference(handle::Ptr{symm_memory_t}) = symm_memory_release(handle)
release_reference(handle::Ptr{symm_heap_t}) = symm_heap_release(handle)
release_reference(handle::Ptr{symm_exchange_t}) = symm_exchange_release(handle)
# Nobody knows on which streams an import was used, so the default is all of them.
function release_reference(handle::Ptr{symm_ipc_t}, stream=ALL_STREAMS)
    return symm_ipc_release(handle, stream)
end

Base.close(x::Handle) = release(x)
Base.isopen(x::Handle) = x.handle != C_NULL
Base.cconvert(::Type{Ptr{T}}, x::Handle{T}) where {T} = x
Base.unsafe_convert(::Type{Ptr{T}}, x::Handle{T}) where {T} = x.handle
