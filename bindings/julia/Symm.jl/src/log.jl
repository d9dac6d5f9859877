# SPDX-License-Identifier: Apache-2.0
#
# The library logs from any thread, its monitor thread among them, where Julia code must not run: before Julia 1.9 it cannot, and after
# it would make the monitor wait for Julia's garbage collector. So the function that the library calls is native and only writes the message to a pipe; a
# task of Julia's reads the pipe and calls the user's function. A full pipe loses messages, and never holds up the library.

# What the library passes to the writer: where to write and how.
struct LogWriter
    descriptor::Int64
    format::NTuple{8,UInt8}
end
const LOG_FORMAT = (Vector{UInt8}("%d %s\n")..., 0x00, 0x00)

mutable struct LogPipe
    callback::Any
    read_end::Int32
    write_end::Int32
    writer::Ptr{LogWriter}  # outlives everything; the library may hold it
    pending::Vector{UInt8}
end
const LOG_PIPE = Ref{Union{Nothing,LogPipe}}(nothing)

@static if VERSION >= v"1.9"
    # A thread that Julia does not know is adopted when it comes; this function allocates nothing.
    function write_log(writer::Ptr{LogWriter}, level::Cint, message::Ptr{UInt8})
        format = Ptr{UInt8}(writer) + fieldoffset(LogWriter, 2)
        descriptor = unsafe_load(Ptr{Int64}(writer))
        @ccall dprintf(descriptor::Cint, format::Ptr{UInt8}; level::Cint, message::Ptr{UInt8})::Cint
        return nothing
    end
    log_writer() = @cfunction(write_log, Cvoid, (Ptr{LogWriter}, Cint, Ptr{UInt8}))
else
    # The same as above as LLVM's text, since what @cfunction makes looks for the thread's Julia state at its entry.
    const DPRINTF = "declare i32 @dprintf(i32, i8*, ...)"
    const WRITE_LOG = join(
        (
            "define void @symm_write_log(i8* %writer, i32 %level, i8* %message) {",
            "%where = bitcast i8* %writer to i64*",
            "%wide = load i64, i64* %where",
            "%descriptor = trunc i64 %wide to i32",
            "%format = getelementptr i8, i8* %writer, i64 8",
            "%written = call i32 (i32, i8*, ...) @dprintf(i32 %descriptor, i8* %format, i32 %level, i8* %message)",
            "ret void }",
        ),
        " ",
    )
    @eval log_writer() = Ptr{Cvoid}(Base.llvmcall(
        ($(DPRINTF * "\n" * WRITE_LOG), "ret i64 ptrtoint (void (i8*, i32, i8*)* @symm_write_log to i64)"), Int64, Tuple{}
    ))
end

const O_NONBLOCK, O_CLOEXEC = 0o4000, 0o2000000  # as Linux has them

"""
    on_log(f, level=:info)
    on_log(nothing)

Call `f(level::Symbol, message::String)` for every message of the library of at most `level` (`:error`, `:warning`, `:info`, `:debug`), for the whole
process; `nothing` stops it. `f` runs in a task of Julia's, so as soon as the current task waits or yields; [`Symm.flush_log`](@ref) does
not wait for that.
"""
function on_log(f, level::Symbol=:info)
    finest = value_of(LOG_LEVELS, level)
    on_log(nothing)
    channel = open_log_pipe(f)
    check(symm_set_log_callback(log_writer(), channel.writer, finest))
    LOG_PIPE[] = channel
    @async read_log(channel)
    return nothing
end

function on_log(::Nothing)
    channel = LOG_PIPE[]
    channel === nothing && return nothing
    check(symm_set_log_callback(C_NULL, C_NULL, SYMM_LOG_ERROR))  # after it, nobody writes
    flush_log()
    LOG_PIPE[] = nothing
    close_descriptor(channel.write_end)  # read_log comes to the end, and closes the other
    return nothing
end

"""
    Symm.flush_log()

Deliver the messages that the library has written so far, now and on this task.
"""
flush_log() = LOG_PIPE[] === nothing ? nothing : (drain(LOG_PIPE[]); nothing)

function open_log_pipe(f)
    ends = Ref{NTuple{2,Int32}}((-1, -1))
    ccall(:pipe2, Cint, (Ptr{Cvoid}, Cint), ends, O_NONBLOCK | O_CLOEXEC) == 0 || throw(SystemError("pipe2"))
    writer = Ptr{LogWriter}(Libc.malloc(sizeof(LogWriter)))
    unsafe_store!(writer, LogWriter(ends[][2], LOG_FORMAT))
    return LogPipe(f, ends[][1], ends[][2], writer, UInt8[])
end

function read_log(channel)
    while true
        FileWatching.poll_fd(RawFD(channel.read_end); readable=true)
        drain(channel) || break
    end
    close_descriptor(channel.read_end)
    Libc.free(channel.writer)
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
            level, message = split(chomp(line), ' '; limit=2)
            channel.callback(name_of(LOG_LEVELS, parse(Int, level)), String(message))
        end
    end
end

close_descriptor(descriptor) = ccall(:close, Cint, (Cint,), descriptor)
