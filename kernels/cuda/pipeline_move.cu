// The pipeline (pipeline.cuh) of collectives that only move: all-gather, all-to-all, broadcast.
// One kernel does any type and any number of ranks.
#include "kernels/cuda/bulk.cuh"
#include "kernels/cuda/pipeline.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {
// Stores by the copy engines of a few multiprocessors, if all operands are aligned; else by all
// threads. Not inlined, for registers.
__device__ __noinline__ void store_parts(const CollectiveArgs& args, const Parts& all) {
  const uint64_t bytes = args.unit;
  const int n = all.ranks;
  uint32_t thread = threadIdx.x;
  uint32_t of_block = blockDim.x;
  int parts = all.is_one ? 1 : n;
  int places = all.is_one ? n : 1;
#if __CUDA_ARCH__ >= 900
  extern __shared__ Bulk bulk[];
  const auto movers = static_cast<uint32_t>(args.movers);
  bool in_bulk = movers != 0 && bytes % kPack == 0;
  for (int i = 0; i < n; ++i) {
    in_bulk = in_bulk && is_aligned(all.from[i]) && is_aligned(all.to[i]);
  }
  if (in_bulk) {
    if (thread == 0 && blockIdx.x < movers) copy_in_bulk(bulk[0], all, bytes, blockIdx.x, movers);
    if (thread < kWarp || all.to[0] == nullptr) return;
    thread -= kWarp;
    of_block -= kWarp;
    // This rank's own part remains.
    parts = 1;
    places = 1;
  }
#endif

  const uint32_t threads = gridDim.x * of_block;
  // A little of each part by turns: while this rank's own part is copied, no link has work.
  const uint64_t turn = parts == 1 ? bytes : uint64_t{threads} * 4 * kPack;
  for (uint64_t done = 0; done < bytes; done += turn) {
    for (int i = 0; i < parts; ++i) {
      const int part = (static_cast<int>(blockIdx.x) + i) % parts;
      push(all.from[part] + done, bytes - done < turn ? bytes - done : turn,
          blockIdx.x * of_block + thread, threads, places, [&](int d) {
            char* const to = all.to[part + d];
            return to != nullptr ? to + done : nullptr;
          });
    }
  }
}

// Sends everything at once if all recvs are memory of the group; false: they are not.
__device__ __forceinline__ bool send_at_once(const WorkGroup& s, const Operands& at) {
  const CollectiveArgs& args = s.args;
  const bool is_broadcast = s.collective == Collective::broadcast;
  bool can = !is_broadcast || args.direct != 0;
  for (int p = 0; p < s.n; ++p) {
    can = can && (at.recv[p] != nullptr || !s.collects(p));
  }
  if (!can || (is_broadcast && s.me != args.root)) return can;

  SYMM_SHARED(Parts, all);
  if (const int d = static_cast<int>(threadIdx.x); d < s.n) {
    const int p = d == 0 ? s.me : s.another(d - 1, s.first_of(0));
    const char* from = reinterpret_cast<const char*>(args.send) + s.in_send(p);
    char* to = (d == 0 ? reinterpret_cast<char*>(args.recv) : at.recv[p]) + s.in_recv(s.me);
    all.from[d] = from;
    all.to[d] = to != from ? to : nullptr;
    all.is_one = !s.exchanges();
    all.ranks = s.n;
  }
  __syncthreads();

  store_parts(args, all);
  return true;
}

// The root of a broadcast that others pass on sends each byte once, straight into the owner's
// recv if that is memory of the group.
__device__ __forceinline__ void send_to_owners(const WorkGroup& s, const Operands& at, uint32_t i) {
  const CollectiveArgs& args = s.args;
  const auto* send = reinterpret_cast<const char*>(args.send);
  auto* recv = reinterpret_cast<char*>(args.recv);
  const int first = s.first_of(i);

  for (int d = 0; d < s.n - 1; ++d) {
    const int p = s.another(d, first);
    const WorkGroup::Chunk chunk = s.chunk(p, i);
    char* const to = at.recv[p] != nullptr ? at.recv[p] + chunk.at : s.chunk_slot(p, 0, i, s.me);
    push(send + chunk.at, chunk.bytes, threadIdx.x, blockDim.x, 2, [&](int to_self) {
      if (to_self == 0) return to;
      return send != recv ? recv + chunk.at : nullptr;
    });
  }
}

// Chunk i of an all-to-all goes to each other rank, into its recv if that may be stored into.
__device__ __forceinline__ void send_to_all(const WorkGroup& s, const Operands& at, uint32_t i) {
  const auto* send = reinterpret_cast<const char*>(s.args.send);
  const int first = s.first_of(i);

  const auto transfer = [&](int d) {
    const int p = s.another(d, first);
    const WorkGroup::Chunk chunk = s.chunk(p, i);
    char* const to = at.recv[p] != nullptr ? at.recv[p] + s.in_recv(s.me) + chunk.at
                                           : s.chunk_slot(p, 0, i, s.me);
    return Transfer{send + s.in_send(p) + chunk.at, to, chunk.bytes};
  };

  if constexpr (kRoom > kSmallRanks) {
    copy_chunks(s.n - 1, s.args.tile, transfer);
  } else {
    for (int d = 0; d < s.n - 1; ++d) {
      const Transfer one = transfer(d);
      push_part(one.from, one.to, one.bytes);
    }
  }
}

// Chunk i of an all-to-all, from this rank's send and from the slots of its first stage, as far
// as it is not in recv already.
__device__ __forceinline__ void take_from_all(const WorkGroup& s, uint32_t i) {
  const auto* send = reinterpret_cast<const char*>(s.args.send);
  auto* recv = reinterpret_cast<char*>(s.args.recv);
  for (int p = 0; p < s.n; ++p) {
    const uint64_t at = s.in_recv(p) + s.chunk(p, i).at;
    if (p == s.me ? send == recv : s.args.recv_memory != 0) continue;

    push_part(p == s.me ? send + at : s.chunk_slot(s.me, 0, i, p), recv + at, s.chunk(p, i).bytes);
  }
}

__device__ __forceinline__ void run(const CollectiveArgs& args) {
  begin();
  if (args.comm.size == 0) return;  // a launch to make it ready
  const WorkGroup s(args, args.comm.size, true);
  const bool is_passed_on = args.spares_root != 0;
  const bool is_alltoall = s.exchanges();
  const bool sends = s.collective == Collective::allgather || s.me == args.root;

  // Loads what this thread sends first into the cache, while ranks meet.
  for (uint32_t u = 0; u < kAtOnce && sends; ++u) {
    const uint64_t at = ((uint64_t{u} * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x) * kPack;
    if (at < args.unit) prefetch(reinterpret_cast<const char*>(args.send) + at);
  }

  symm::cuda::run(
      s, [&](const Operands& at) { return send_at_once(s, at); },
      [&](const Operands& at, uint32_t i) {
        if (is_passed_on && s.me == args.root) send_to_owners(s, at, i);
        if (is_alltoall) send_to_all(s, at, i);
      },
      [&](const Operands& at, uint32_t i) {
        if (is_alltoall) return take_from_all(s, i);

        const WorkGroup::Chunk chunk = s.chunk(s.me, i);
        const char* from = nullptr;
        if (!is_passed_on) {
          from = reinterpret_cast<const char*>(args.send) + chunk.at;
        } else if (args.copies_out != 0) {
          from = s.chunk_slot(s.me, 0, i, args.root);
        } else {
          from = reinterpret_cast<const char*>(args.recv) + chunk.at;
        }
        push(from, chunk.bytes, threadIdx.x, blockDim.x, s.n,
            [&](int d) { return at.to[d] != from ? at.to[d] : nullptr; });
      });
}
}  // namespace

// Registers are for one block of 1024 threads, or two of 512, on each multiprocessor, as
// Facts::max_blocks promises (plan.hpp).
extern "C" __global__ void __launch_bounds__(1024, 1)
    SYMM_KERNEL(pipeline_move)(const __grid_constant__ CollectiveArgs a) {
  run(a);
}
