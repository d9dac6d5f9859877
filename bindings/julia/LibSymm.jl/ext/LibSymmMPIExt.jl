"""Groups of the ranks of MPI.jl's communicators."""
module LibSymmMPIExt

import LibSymm
import MPI

"""
    Group(comm::MPI.Comm; options...)

A group of the ranks of a communicator, which must be on one machine, in its order. Collective,
blocking. MPI tells the ranks where to meet, and they meet in a private directory of rank 0, which
is removed afterwards.
"""
function LibSymm.Group(comm::MPI.Comm; options...)
    rank = MPI.Comm_rank(comm)
    made = rank == 0 ? mktempdir(; prefix="symm-mpi-") : nothing
    folder = MPI.bcast(made, comm; root=0)
    try
        size = MPI.Comm_size(comm)
        group = LibSymm.Group(rank, size; bootstrap="dir://" * folder, options...)
        # A creation that failed does not come here: all ranks fail, but perhaps not in time for a
        # barrier.
        MPI.Barrier(comm)
        return group
    finally
        rank == 0 && rm(folder; recursive=true, force=true)
    end
end

end
