// LL: each rank sends every other one the part of its operand that concerns it, with flags beside the data (ll.cuh); receivers
// combine or copy. For small messages, and for types that leave no bit pattern free.
#include "kernels/collective.hpp"
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/ll.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {
template <int kRanks, bool kReduces> __device__ __forceinline__ void run(const CollectiveArgs& args) {
  begin();
  if (args.comm.size == 0) return;  // a launch to make it ready
  const DeviceComm& comm = args.comm;
  const int n = kRanks == 2 ? kRanks : comm.size;
  const int me = comm.rank;
  const auto collective = static_cast<Collective>(args.collective);
  const auto* send = reinterpret_cast<const char*>(args.send);
  auto* recv = reinterpret_cast<char*>(args.recv);
  const uint64_t unit = args.unit;
  const uint64_t packs = packs_of(unit);
  const bool part_each = traits(collective).send_per_rank;
  const bool rooted = traits(collective).has_root();
  const bool am_root = me == args.root;
  const uint32_t others = ((1U << n) - 1U) & ~(1U << me);
  const uint32_t root = others & 1U << args.root;
  // Whom I send data to, and from whom I get it.
  const uint32_t to = collective == Collective::broadcast ? (am_root ? others : 0)
                      : collective == Collective::reduce  ? root
                                                          : others;
  const uint32_t from = collective == Collective::broadcast ? root
                        : collective == Collective::reduce  ? (am_root ? others : 0)
                                                            : others;
  const uint32_t epoch = current_epoch(comm);
  const uint64_t first = blockIdx.x * blockDim.x + threadIdx.x;
  const uint64_t stride = gridDim.x * blockDim.x;

  // A call with a root would let the others run ahead of each other, and not notice another root: all exchange a token.
  const bool tokens = rooted && first == 0;
  if (tokens) {
    for (int p = 0; p < n; ++p)
      if (p != me) send_pack(slot(comm, p, me, epoch), token_pack(comm), token_of(args), flag_of(epoch));
  }
  for (uint64_t q = first; q < packs && to != 0; q += stride) {
    uint4 v{};
    if (!part_each) v = load_pack(send, unit, q);
#pragma unroll
    for (int d = 1; d < kRanks; ++d) {
      if (d >= n) continue;
      const int p = me + d < n ? me + d : me + d - n;
      if ((to >> p & 1U) == 0) continue;
      if (part_each) v = load_pack(send + static_cast<uint64_t>(p) * unit, unit, q);
      send_pack(slot(comm, p, me, epoch), q, v, flag_of(epoch));
    }
  }

  bool ok = true;
  uint4 v[kRanks];
  const bool receives = from != 0 || (am_root && send != recv);  // a broadcast's root copies
  for (uint64_t q = first; q < packs && receives; q += stride) {
    uint4 own{};
    if (collective != Collective::broadcast || am_root)
      own = load_pack(part_each ? send + static_cast<uint64_t>(me) * unit : send, unit, q);
    ok = receive<kRanks>(comm, v, from, q, epoch);
    if (!ok) break;
#pragma unroll
    for (int r = 0; r < kRanks; ++r)
      if (r == me) v[r] = own;
    if constexpr (kReduces) {
      store_pack(recv, unit, q, combine_any(v, n, static_cast<DType>(args.dtype), static_cast<Op>(args.op)));
    } else {
      const bool one = collective == Collective::broadcast;
#pragma unroll
      for (int r = 0; r < kRanks; ++r)
        if (r < n && (!one || r == args.root)) store_pack(one ? recv : recv + static_cast<uint64_t>(r) * unit, unit, q, v[r]);
    }
  }
  if (tokens && ok && receive<kRanks>(comm, v, others, token_pack(comm), epoch)) {
#pragma unroll
    for (int r = 0; r < kRanks; ++r)
      if ((others >> r & 1U) != 0) check_token(comm, r, v[r], token_of(args));
  }
  end_epoch(comm, epoch);
}
}  // namespace

// 256 threads: the block that is launched; it leaves each thread the registers for two cells of 8 ranks. For up to so many ranks.
#define SYMM_LL(ranks)                                                                                                    \
  extern "C" __global__ void __launch_bounds__(256, 1) symm_ll_reduce_##ranks(const __grid_constant__ CollectiveArgs a) { \
    run<ranks, true>(a);                                                                                                  \
  }                                                                                                                       \
  extern "C" __global__ void __launch_bounds__(256, 1) symm_ll_move_##ranks(const __grid_constant__ CollectiveArgs a) {   \
    run<ranks, false>(a);                                                                                                 \
  }
SYMM_LL(2)
SYMM_LL(4)
SYMM_LL(8)
SYMM_LL(16)
