"""
Symmetric memory for any language, from Julia. Each rank of a [`Group`](@ref) allocates a block, of
equal size on all ranks. As a [`SymmArray`](@ref) the block is an array, and the blocks of all other
ranks are arrays here too. Collectives, signals, puts and gets work on these arrays, and on any
other dense arrays.

Ranks are counted from 0, as in MPI and in every other language that may be in the group; elements
are counted from 1.

All functions of `symm.h` are there under their own names (`LibSymm.symm_allreduce`); the header has
their documentation.
"""
module LibSymm

import FileWatching
import Libdl
import Serialization

# These names are not exported: put!, get!, send, recv!, split and broadcast!, which mean something
# else in Base or its libraries;
# names that other packages export (gather! and scatter!: NNlib; BFloat16: BFloat16s; devices:
# CUDA); and names that are rarely needed.
export Group, Buffer, SymmMemory, SymmArray, Heap, SymmError, Store, Span, Float8E4M3, Float8E5M2
export status, abort, shrink, create_from_ranks, local_group, translate_rank
export invite, join_by_ticket, grow, keep_spares, move_memory, move_heap
export failed_ranks, failure_fd, peer_info, finalize_group, unique_id, on_memory_pressure
export barrier, signal!, wait_signal, put_signal!, write_value!, wait_value, peer, avg
export minloc, maxloc
export signal_value!, wait_signal_value, wait_signals, test_signal, test_signal_value
export messages, Exchange, Neighbor, start_round!, finish_round!, neighbor_alltoallv!
export synchronize_group, stream_done, stream_wait, record_use, suspend!, resume!
export allreduce, allreduce!, reduce_scatter!, allgather!, reduce!, alltoall!, plan, batch, on_log
export scan!, exscan!, reduce_by!
export allgatherv!, reduce_scatterv!, alltoallv!, alltoallv_device!, allgather_rows!
export reduce_scatter_rows!, gatherv!, scatterv!, broadcast_bytes!
export allreduce_rmsnorm!
export export_token, import_token, ipc_collect, ipc_holders, ipc_stats, ipc_withdraw
export ipc_wait_value, ipc_fence
export export_bundle, import_bundle, ipc_publish, ipc_lookup, ipc_withdraw_version

include("call.jl")
include("generated.jl")
include("structs.jl")
include("library.jl")
include("error.jl")
include("formats.jl")
include("store.jl")
include("group.jl")
include("memory.jl")
include("array.jl")
include("heap.jl")
include("operand.jl")
include("signals.jl")
include("data.jl")
include("messages.jl")
include("pieces.jl")
include("collectives.jl")
include("exchange.jl")
include("requests.jl")
include("ipc.jl")
include("pads.jl")
include("bundles.jl")
include("log.jl")

# An image of this module may hold addresses of the process that made it, which are wrong here.
function __init__()
    OPENED[] = C_NULL
    fill!(ADDRESSES, C_NULL)
    # Since Julia 1.9 there may be more threads than nthreads() of one pool.
    threads = @static isdefined(Threads, :maxthreadid) ? Threads.maxthreadid() : Threads.nthreads()
    return fill!(resize!(FRAMES, threads), nothing)
end

end
