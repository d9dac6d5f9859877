"""
    SymmError(status, message, rank=nothing, pid=nothing, os_error=nothing, cuda_result=nothing)

The exception of a failed call.

- `status` is one of `LibSymm.SYMM_ERR_*`.
- `message` is the library's: one line that names the argument, the rank or the system call.
- `rank` is the rank to blame, as numbered in the group of the call, and `pid` its process;
  `nothing` if nobody in particular is to blame, or it is not known.
- `os_error` is the errno of the system call that failed on that rank, and `cuda_result` the
  CUresult of the driver call; `nothing` if no such call failed.
"""
struct SymmError <: Exception
    status::symm_status_t
    message::String
    rank::Union{Int,Nothing}
    pid::Union{Int,Nothing}
    os_error::Union{Int,Nothing}
    cuda_result::Union{Int,Nothing}
end
SymmError(status, message) = SymmError(status, message, nothing, nothing, nothing, nothing)

function Base.showerror(io::IO, e::SymmError)
    return print(io, "SymmError: ", status_name(e.status), ": ", e.message)
end

const STATUS_NAMES = Dict(
    getfield(@__MODULE__, name) => replace(String(name), "SYMM_ERR_" => "") for
    name in names(@__MODULE__; all=true) if startswith(String(name), "SYMM_ERR_")
)

"""
Name of a status without its prefix. It needs no library, because a failure to load the library has
a status too.
"""
status_name(status) = get(STATUS_NAMES, status, "unknown status $(Int(status))")

# ---- calls that act
#
# Every call that acts has options, and with them a place for the failure of this very call. The
# failure is not asked of the thread afterwards: a task may have moved to another thread meanwhile,
# and a finalizer that runs on this thread may have made a failing call of its own.

"""
The memory of one call: its options, and the failure that the library writes. Neither moves. A call
has a frame to itself, and gives it back when it has returned.
"""
mutable struct CallFrame
    memory::Vector{UInt64}
    failure::Ptr{symm_failure_t}
    options::Ptr{Cvoid}
end

"""Bytes of the largest struct of options."""
const MOST_OPTIONS = maximum(sizeof, filter(T -> hasfield(T, :failure), collect(STRUCTS)))

@noinline function CallFrame()
    of_failure = cld(sizeof(symm_failure_t), sizeof(UInt64))
    memory = zeros(UInt64, of_failure + cld(MOST_OPTIONS, sizeof(UInt64)))
    memory[1] = sizeof(symm_failure_t)
    failure = Ptr{symm_failure_t}(pointer(memory))
    return CallFrame(memory, failure, Ptr{Cvoid}(pointer(memory, of_failure + 1)))
end

"""
A frame for each thread, or nothing while a call has it. A call that finds none makes one, and so a
frame that is lost with an exception is replaced. `__init__` gives the vector its length.
"""
const FRAMES = Vector{Union{Nothing,CallFrame}}()

@inline function take_frame()
    thread = Threads.threadid()
    thread <= length(FRAMES) || return CallFrame()
    frame = @inbounds FRAMES[thread]
    @inbounds FRAMES[thread] = nothing
    return frame === nothing ? CallFrame() : frame
end

@inline function give_back(frame)
    thread = Threads.threadid()
    if thread <= length(FRAMES)
        @inbounds FRAMES[thread] = frame
    end
    return nothing
end

"""
    attempt() do call
        symm_function(arguments..., within(call, timeout))
    end

Make a call that acts, and throw its failure. The body returns the status. It makes the options by
`within` or [`options_of`](@ref), once.
"""
@inline function attempt(body::F) where {F}
    call = take_frame()
    return finish(call, GC.@preserve call body(call))
end

"""End a call, and throw its failure."""
@inline function finish(call, status)
    status == SYMM_OK || throw(failure_of(call, status))
    give_back(call)
    return nothing
end

"""As [`attempt`](@ref), for a look-up: whether it has found something."""
@inline function looked_up(body::F) where {F}
    call = take_frame()
    status = GC.@preserve call body(call)
    status in (SYMM_OK, SYMM_ERR_NOT_FOUND) || throw(failure_of(call, status))
    give_back(call)
    return status == SYMM_OK
end

"""The `T` that a call writes: `produced(T) do call, out`."""
function produced(body::F, ::Type{T}) where {F,T}
    out = Ref{T}()
    attempt(call -> body(call, out))
    return out[]
end

"""The fields of the `T` that a call fills: `described(T) do call, out`."""
function described(body::F, ::Type{T}) where {F,T}
    out = sized(T)
    attempt(call -> body(call, out))
    return fields(out)
end

"""The options of a call: a `T` with these fields after its size."""
@inline function options_of(call::CallFrame, ::Type{T}, values...) where {T}
    options = Ptr{T}(call.options)
    unsafe_store!(options, T(sizeof(T), values...))
    return options
end

"""The options of a call that has no others than a deadline."""
@noinline function within(call::CallFrame, timeout=nothing)
    place = place_of_request()
    return options_of(call, symm_call_options_t, milliseconds(timeout), call.failure, place)
end

"""The failure of a call, whose frame is given back."""
@noinline function failure_of(call::CallFrame, status)
    why = GC.@preserve call failure_at(call.failure)
    # A status without a failure would otherwise show that of an earlier call.
    fill!(view(call.memory, 2:(sizeof(symm_failure_t) ÷ sizeof(UInt64))), 0)
    give_back(call)
    why.status == status && return why
    return SymmError(SYMM_ERR_INTERNAL, "$(status_name(status)), and the library says not why")
end

# ---- calls without options
#
# The failure that is read is that of the last failing call on this thread of the system, so it must
# be read before anything else can run here. A task is switched, or moved to another thread, only
# where it waits or yields, and between the call and this function there is no such place.

@inline check(status::symm_status_t) = status == SYMM_OK ? nothing : fail()
@noinline fail() = throw(last_failure())

function last_failure()
    out = sized(symm_failure_t)
    symm_last_failure(out)
    return GC.@preserve out failure_at(Base.unsafe_convert(Ptr{symm_failure_t}, out))
end

function failure_at(address)
    failure = fields_at(symm_failure_t, address)
    return SymmError(failure.status, in_own_words(failure.message), blamed(failure)...)
end

"""
Who and what is to blame in a `symm_failure_t`, in the words of [`SymmError`](@ref): `nothing` where
it is nobody, or not known.
"""
function blamed(failure)
    unless(none, value) = value == none ? nothing : Int(value)
    return (
        rank=unless(-1, failure.rank),
        pid=unless(0, failure.pid),
        os_error=unless(0, failure.os_error),
        cuda_result=unless(0, failure.cuda_result),
    )
end

"""The message of the library, where it names a deadline by its field of C, with the keyword."""
function in_own_words(message)
    named = r"^(?:options\.|config\.)?(\w*timeout)_ms: SYMM_TIMEOUT_NOW"
    return replace(message, named => s"\1: 0 means to look once")
end
