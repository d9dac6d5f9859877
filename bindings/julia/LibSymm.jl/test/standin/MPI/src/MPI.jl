"""A stand-in for MPI.jl: the functions that the extension calls, on Open MPI's library."""
module MPI

const LIBRARY = "libmpi.so.40"

struct Comm
    handle::Ptr{Cvoid}
end

world() = Comm(cglobal((:ompi_mpi_comm_world, LIBRARY)))
Init() = ccall((:MPI_Init, LIBRARY), Cint, (Ptr{Cvoid}, Ptr{Cvoid}), C_NULL, C_NULL)
Finalize() = ccall((:MPI_Finalize, LIBRARY), Cint, ())
Barrier(comm) = ccall((:MPI_Barrier, LIBRARY), Cint, (Ptr{Cvoid},), comm.handle)

function Comm_rank(comm)
    out = Ref{Cint}(-1)
    ccall((:MPI_Comm_rank, LIBRARY), Cint, (Ptr{Cvoid}, Ref{Cint}), comm.handle, out)
    return Int(out[])
end

function Comm_size(comm)
    out = Ref{Cint}(-1)
    ccall((:MPI_Comm_size, LIBRARY), Cint, (Ptr{Cvoid}, Ref{Cint}), comm.handle, out)
    return Int(out[])
end

function bcast(text, comm; root=0)
    bytes = zeros(UInt8, 4096)
    text === nothing || copyto!(bytes, codeunits(text))
    ccall(
        (:MPI_Bcast, LIBRARY),
        Cint,
        (Ptr{UInt8}, Cint, Ptr{Cvoid}, Cint, Ptr{Cvoid}),
        bytes,
        length(bytes),
        cglobal((:ompi_mpi_byte, LIBRARY)),
        root,
        comm.handle,
    )
    return unsafe_string(pointer(bytes))
end

end
