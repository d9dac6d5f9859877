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

# The failure that is read is that of the last failing call on this thread of the system, so it must
# be read before anything else can run here. A task is switched, or moved to another thread, only
# where it waits or yields, and between the call and this function there is no such place.
# Finalizers may run, when something is allocated; those of this package only release, and a release
# neither fails nor touches the failure.
@inline check(status::symm_status_t) = status == SYMM_OK ? nothing : fail()
@noinline fail() = throw(last_failure())

function last_failure()
    out = sized(symm_failure_t)
    symm_last_failure(out)
    failure = fields(out)
    unless(none, value) = value == none ? nothing : Int(value)
    return SymmError(
        failure.status,
        failure.message,
        unless(-1, failure.rank),
        unless(0, failure.pid),
        unless(0, failure.os_error),
        unless(0, failure.cuda_result),
    )
end
