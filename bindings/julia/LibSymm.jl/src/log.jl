# The library logs from any thread, its monitor thread among them, where Julia code must not run:
# before Julia 1.9 it cannot, and later it would make the monitor wait for Julia's garbage
# collector. So the library writes lines to a pipe, and a task of Julia's reads them and calls the
# user's function. A full pipe loses messages, and never delays the library.

mutable struct LogPipe
    callback::Any
    read_end::Int32
    listener::UInt64
    pending::Vector{UInt8}
end
const LOG_PIPE = Ref{Union{Nothing,LogPipe}}(nothing)

# Flags of Linux.
const O_NONBLOCK = 0o4000
const O_CLOEXEC = 0o2000000
const O_PATH = 0o10000000
const F_GETFL = 3

"""
    on_log(f, level=:info)
    on_log(nothing)

Call `f(level::Symbol, message::String)` for every message of the library of at most `level`
(`:error`, `:warning`, `:info` or `:debug`), for the whole process; `nothing` stops it. `f` runs in
a task of Julia's, so as soon as the current task waits or yields; [`LibSymm.flush_log`](@ref) does
not wait for that. An exception of `f` is logged by Julia, and ends nothing. Local.
"""
function on_log(f, level::Symbol=:info)
    finest = value_of(LOG_LEVELS, level)
    on_log(nothing)
    pipe = open_log_pipe(f, finest)
    LOG_PIPE[] = pipe
    @async read_log(pipe)
    return nothing
end

function on_log(::Nothing)
    pipe = LOG_PIPE[]
    pipe === nothing && return nothing
    # After this call nobody writes to the pipe, and read_log comes to its end.
    check(symm_log_remove_listener(pipe.listener))
    flush_log()
    LOG_PIPE[] = nothing
    return nothing
end

"""
    LibSymm.flush_log()

Deliver the messages that the library has written so far, now and on this task. Local; never waits.
"""
function flush_log()
    pipe = LOG_PIPE[]
    pipe === nothing || drain(pipe)
    return nothing
end

function open_log_pipe(f, finest)
    ends = Ref{NTuple{2,Int32}}((-1, -1))
    made = with_streams_held() do
        ccall(:pipe2, Cint, (Ptr{Cvoid}, Cint), ends, O_NONBLOCK | O_CLOEXEC)
    end
    made == 0 || throw(SystemError("pipe2"))
    read_end, write_end = ends[]
    try
        listener = given(UInt64, symm_log_to_fd, write_end, finest)
        return LogPipe(f, read_end, listener, UInt8[])
    catch
        close_descriptor(read_end)
        rethrow()
    finally
        close_descriptor(write_end)  # the library has its own
    end
end

# Calls a function while no number of a standard stream is free: the program may have closed one,
# and another thread's text would become a message. What takes the numbers can be neither read nor
# written, as a closed stream.
function with_streams_held(make)
    held = Cint[]
    try
        while isempty(held) || last(held) in 0:2
            push!(held, ccall(:open, Cint, (Cstring, Cint), "/", O_PATH | O_CLOEXEC))
        end
        return make()
    finally
        # The program may have opened its stream meanwhile.
        for fd in held
            flags = ccall(:fcntl, Cint, (Cint, Cint), fd, F_GETFL)
            flags >= 0 && flags & O_PATH != 0 && close_descriptor(fd)
        end
    end
end

function read_log(pipe)
    while true
        FileWatching.poll_fd(RawFD(pipe.read_end); readable=true)
        drain(pipe) || break
    end
    return close_descriptor(pipe.read_end)
end

"""Deliver the messages that are in the pipe. Returns false at the end of the pipe."""
function drain(pipe)
    chunk = Vector{UInt8}(undef, 4096)
    while true
        count = ccall(
            :read,
            Cssize_t,
            (Cint, Ptr{UInt8}, Csize_t),
            pipe.read_end,
            chunk,
            length(chunk),
        )
        count > 0 || return count != 0
        append!(pipe.pending, view(chunk, 1:Int(count)))
        deliver_lines(pipe)
    end
end

function deliver_lines(pipe)
    while true
        stop = findfirst(==(UInt8('\n')), pipe.pending)
        stop === nothing && return nothing
        line = String(splice!(pipe.pending, 1:stop))
        level, message = Base.split(chomp(line), ": "; limit=2)
        try
            pipe.callback(Symbol(level), String(message))
        catch why
            @error "on_log: the function threw" exception = (why, catch_backtrace())
        end
    end
end

close_descriptor(descriptor) = ccall(:close, Cint, (Cint,), descriptor)
