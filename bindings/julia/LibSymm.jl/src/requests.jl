# Calls that do not block on the host.

"""
    LibSymm.start(f, arguments...; options...)

Make the call `f(arguments...; options...)` of a host group without waiting for its end, and return
a [`Request`](@ref). `f` is a function of this package that makes one call of the library: a
collective, a barrier, a message, a signal or a wait for one, a copy, or a round of an exchange. The
arguments are read now; arrays are kept, and are to be left alone until the call is over.

    sum = LibSymm.start(allreduce!, A, +, group)
    work_on_something_else()
    fetch(sum)

Calls of one kind begin in the order in which they were started, and blocking ones come behind them.
Nothing waits behind a receive or a wait for a signal. `abort(group)` ends all requests. Local.
"""
function start(f, arguments...; options...)
    forget_ended()
    haskey(task_local_storage(), :LibSymm_request) &&
        throw(ArgumentError("start: is called within start"))
    made = Ref(Ptr{symm_request_t}(C_NULL))
    returned = nothing
    request = nothing
    Threads.atomic_add!(STARTING, 1)
    try
        returned = task_local_storage(:LibSymm_request, made) do
            return f(arguments...; options...)
        end
    finally
        Threads.atomic_sub!(STARTING, 1)
        # What went wrong behind the call that has begun does not end it.
        if made[] != C_NULL
            kept = (f, arguments, options, returned)
            request = Request(made[], number_kind(f, returned), returned, kept)
        end
    end
    request === nothing && throw(ArgumentError("start: the function makes no call"))
    return request
end

"""How many tasks are in [`start`](@ref), so that other calls need not look for theirs."""
const STARTING = Threads.Atomic{Int}(0)

"""Where the call that is made now leaves its request; NULL where the call has to block."""
@inline function place_of_request()
    STARTING[] == 0 && return Ptr{Ptr{symm_request_t}}(C_NULL)
    return place_of_started()
end

@noinline function place_of_started()
    made = get(task_local_storage(), :LibSymm_request, nothing)
    made === nothing && return Ptr{Ptr{symm_request_t}}(C_NULL)
    made[] == C_NULL ||
        throw(ArgumentError("start: the function makes several calls, and one has the request"))
    # The task's storage keeps the place.
    return Base.unsafe_convert(Ptr{Ptr{symm_request_t}}, made::Ref{Ptr{symm_request_t}})
end

"""Whether a function returns a number that only the end of its call tells, or an index from 1."""
@enum NumberKind NO_NUMBER NUMBER INDEX

function number_kind(f, returned)
    f === wait_signals && returned !== nothing && return INDEX
    return f === messages || returned isa Number ? NUMBER : NO_NUMBER
end

"""
A call that the library makes while the program goes on: see [`LibSymm.start`](@ref).

`wait(request; timeout=nothing)` and `fetch(request; timeout=nothing)` wait for its end and throw
its failure; other tasks of the thread run meanwhile. `timeout` is in seconds, and by default as
long as it takes: a `SYMM_ERR_TIMEOUT` of the wait leaves the call alone. `fetch` returns what the
function would have returned, but for `messages` the bytes received in all. `isready(request)` says
whether the call is over. `close(request)` drops it, and the call goes on.
"""
mutable struct Request <: Handle{symm_request_t}
    handle::Ptr{symm_request_t}
    number::NumberKind
    returned::Any

    function Request(handle, number, returned, kept)
        request = new(handle, number, returned)
        keep(handle, kept)
        return finalizer(release, request)
    end
end

release_reference(handle::Ptr{symm_request_t}) = symm_request_release(handle)

# What the calls under way read and write, by request, of which each has a reference here, and these
# requests in the order in which they were last looked at.
const KEPT = Dict{Ptr{symm_request_t},Any}()
const LOOKED_AT = Ptr{symm_request_t}[]
const KEPT_LOCK = ReentrantLock()

function keep(handle, kept)
    symm_request_retain(handle)  # for KEPT
    return lock(KEPT_LOCK) do
        push!(LOOKED_AT, handle)
        KEPT[handle] = kept
        return nothing
    end
end

"""
Keep no longer what two of the calls have read and written, if they are over. A program that drops
requests starts others, so all are looked at in time, however many there are.
"""
function forget_ended()
    return lock(KEPT_LOCK) do
        for _ in 1:min(2, length(LOOKED_AT))
            handle = popfirst!(LOOKED_AT)
            haskey(KEPT, handle) && !forget_if_over(handle) && push!(LOOKED_AT, handle)
        end
    end
end

"""With the lock: whether the call of a request is over, and what it had is forgotten."""
function forget_if_over(handle)
    filled(symm_request_info_t, symm_request_info, handle).done == 0 && return false
    delete!(KEPT, handle)
    symm_request_release(handle)
    return true
end

"""Keep no longer what the call of a request has read and written, if it is over."""
function forget_if_over(request::Request)
    return lock(KEPT_LOCK) do
        handle = request.handle
        haskey(KEPT, handle) && forget_if_over(handle)
        return nothing
    end
end

"""
    LibSymm.info(request)

Facts about a request, as a named tuple: `done`, `status`, `value`, the number that the call would
have returned, and `call`, its name. Local.
"""
info(request::Request) = filled(symm_request_info_t, symm_request_info, request)

Base.isready(request::Request) = info(request).done != 0

"""
    LibSymm.test(request)

Whether the call of a request is over and has succeeded. Throws its failure. Local.
"""
function test(request::Request)
    done = produced(Int32) do call, out
        return symm_request_test(request, without_request(call, nothing), out)
    end
    return done != 0
end

# What concerns a request is no call that may have one itself.
function without_request(call::CallFrame, timeout)
    null = Ptr{Ptr{symm_request_t}}(C_NULL)
    return options_of(call, symm_call_options_t, milliseconds(timeout), call.failure, null)
end

function Base.wait(request::Request; timeout=nothing)
    if !isready(request) && timeout != 0
        fd = RawFD(given(Int32, symm_request_fd, request))
        limit = timeout === nothing || timeout > LONGEST_TIMEOUT ? -1 : timeout
        # The descriptor stays readable, so the call is over when this has returned in time.
        FileWatching.poll_fd(fd, limit; readable=true)
    end
    over = isready(request)
    try
        attempt() do call
            return symm_request_wait(request, without_request(call, over ? nothing : 0))
        end
    catch why
        # The library was asked to look once, after this function had waited.
        over || timeout == 0 || throw(waited_for(why, timeout))
        rethrow()
    finally
        forget_if_over(request)
    end
    return nothing
end

"""The failure of a look as that of a wait of so many seconds."""
function waited_for(why::SymmError, timeout)
    message = replace(why.message, "within 0 ms" => "within $(milliseconds(timeout)) ms")
    return SymmError(why.status, message, why.rank, why.pid, why.os_error, why.cuda_result)
end

function Base.fetch(request::Request; timeout=nothing)
    wait(request; timeout=timeout)
    request.number === NO_NUMBER && return request.returned
    value = info(request).value
    request.number === INDEX && return Int(value) + 1
    return number_of(request.returned, value)
end

"""
The number that the end of a call tells, whose bits are `value`, in the type of the number that the
function returned before it was known: that of an element, for instance. Else it is a count.
"""
number_of(returned, value) = Int(value)
number_of(::T, value) where {T<:Integer} = value % T
number_of(::T, value) where {T<:Number} =
    reinterpret(T, sizeof(T) == 4 ? value % UInt32 : value)

"""
    LibSymm.wait_any(requests; timeout=nothing)

Wait until one of the requests is over, in whatever way, and return the index of the first. The
thread waits, and no other task of it runs meanwhile. Local, blocking.
"""
function wait_any(requests; timeout=nothing)
    kept = collect(Request, requests)
    handles = [request.handle for request in kept]
    found = GC.@preserve kept produced(Csize_t) do call, out
        how = without_request(call, timeout)
        return symm_request_wait_any(handles, length(handles), how, out)
    end
    forget_if_over(kept[Int(found) + 1])
    return Int(found) + 1
end
