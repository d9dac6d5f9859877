# SPDX-License-Identifier: Apache-2.0

"""
    SymmError(status, message)

What a failed call throws. `status` is one of `Symm.SYMM_ERR_*`; `message` is the library's own: one line that names the argument, the rank
or the system call.
"""
struct SymmError <: Exception
    status::symm_status_t
    message::String
end

Base.showerror(io::IO, e::SymmError) = print(io, "SymmError: ", status_name(e.status), ": ", e.message)

const STATUS_NAMES = Dict(
    getfield(@__MODULE__, name) => replace(String(name), "SYMM_ERR_" => "") for
    name in names(@__MODULE__; all=true) if startswith(String(name), "SYMM_ERR_")
)

"""Name of a status without its prefix. It needs no library, since failing to load one has a status, too."""
status_name(status) = get(STATUS_NAMES, status, "unknown status $status")

# The message is that of the last failing call on this thread of the system, so it must be read before anything else can run here. A task
# is switched, or moved to another thread, only where it waits or yields, and between the call and this function there is no such
# place. Finalizers may run, when the string is allocated; those of this package only release, and a release neither fails nor touches the
# message.
@inline check(status::symm_status_t) = status == SYMM_OK ? nothing : fail(status)
@noinline fail(status) = throw(SymmError(status, unsafe_string(symm_last_error())))
