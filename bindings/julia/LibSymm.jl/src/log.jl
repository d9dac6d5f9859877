# The library logs from any thread, its monitor thread among them, where
# Julia code must not run: before Julia 1.9 it cannot, and after it would
# make the monitor wait for Julia's garbage collector. So the library writes
# lines to a pipe, and a task of Julia's reads them and calls the user's
# function. A full pipe loses messages, and never holds up the library.

mutable struct LogPipe
    callback::Any
    read_end::Int32
    listener::UInt64
    pending::Vector{UInt8}
end
const LOG_PIPE = Ref{Union{Nothing,LogPipe}}(nothing)

const O_NONBLOCK, O_CLOEXEC = 0o4000, 0o2000000  # as Linux has them

"""
    on_log(f, level=:info)
    on_log(nothing)

Call `f(level::Symbol, message::String)` for every message of the library of at most `level` (`:error`, `:warning`, `:info`, `:debug`), for the whole
process; `nothing` stops it. `f` runs in a task of Julia's, so as soon as the current task waits or yields; [`LibSymm.flush_log`](@ref) does
not wait for that. What `f` throws is logged by Julia, and ends nothing.
"""
function on_log(f, level::Symbol=:info)
    finest = value_of(LOG_LEVELS, level)
    on_log(nothing)
    channel = open_log_pipe(f, finest)
    LOG_PIPE[] = channel
    @async read_log(channel)
    return nothing
end

function on_log(::Nothing)
    channel = LOG_PIPE[]
    channel === nothing && return nothing
    # after it, nobody writes, and read_log comes to the end
    check(symm_log_remove_listener(channel.listener))
    flush_log()
    LOG_PIPE[] = nothing
    return nothing
end

"`LibSymm.flush_log()`: deliver the messages that the library has written so far, now and on this task."
flush_log() = LOG_PIPE[] === nothing ? nothing : (drain(LOG_PIPE[]); nothing)

function open_log_pipe(f, finest)
    ends = Ref{NTuple{2,Int32}}((-1, -1))
    ccall(:pipe2, Cint, (Ptr{Cvoid}, Cint), ends, O_NONBLOCK | O_CLOEXEC) == 0 || throw(SystemError("pipe2"))
    try
        return LogPipe(f, ends[][1], given(UInt64, symm_log_to_fd, ends[][2], finest), UInt8[])
    catch
        close_descriptor(ends[][1])
        rethrow()
    finally
        close_descriptor(ends[][2])  # the library has its own
    end
end

function read_log(channel)
    while true
        FileWatching.poll_fd(RawFD(channel.read_end); readable=true)
        drain(channel) || break
    end
    close_descriptor(channel.read_end)
end

"""Deliver what is in the pipe; false at its end."""
function drain(channel)
    chunk = Vector{UInt8}(undef, 4096)
    while true
        count = ccall(:read, Cssize_t, (Cint, Ptr{UInt8}, Csize_t), channel.read_end, chunk, length(chunk))
        count > 0 || return count != 0
        append!(channel.pending, view(chunk, 1:Int(count)))
        while (stop = findfirst(==(UInt8('\n')), channel.pending)) !== nothing
            line = String(splice!(channel.pending, 1:stop))
            level, message = Base.split(chomp(line), ": "; limit=2)
            try
                channel.callback(Symbol(level), String(message))
            catch why
                @error "on_log: the function threw" exception = (why, catch_backtrace())
            end
        end
    end
end

close_descriptor(descriptor) = ccall(:close, Cint, (Cint,), descriptor)
