"""Groups of the ranks of MPI.jl's communicators."""
module LibSymmMPIExt

import LibSymm
import MPI

"""
    Group(comm::MPI.Comm; options...)

A group of the ranks of a communicator, which must be on one machine, in its order. Collective. MPI passes on where to meet; the
meeting itself is in a private directory of rank 0, gone afterwards.
"""
function LibSymm.Group(comm::MPI.Comm; options...)
    rank = MPI.Comm_rank(comm)
    folder = MPI.bcast(rank == 0 ? mktempdir(; prefix="symm-mpi-") : nothing, comm; root=0)
    try
        group = LibSymm.Group(rank, MPI.Comm_size(comm), "dir://" * folder; options...)
        # not where it failed: all ranks fail alike, but perhaps not in time to meet again
        MPI.Barrier(comm)
        return group
    finally
        rank == 0 && rm(folder; recursive=true, force=true)
    end
end

end
