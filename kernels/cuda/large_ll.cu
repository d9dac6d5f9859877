// LL (ll.cuh) for large groups. As in ll.cu each rank sends every other one the part of its
// operand that concerns it, with flags beside the data. But registers do not hold the packs of all
// ranks, so some are received at a time, and operands to combine wait in memory of the thread.
#define SYMM_LARGE_GROUPS
#include "kernels/collective.hpp"
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/ll.cuh"
#include "kernels/cuda/neutral.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {
// Ranks whose packs are polled together.
constexpr int kAtOnce = 8;

// The ranks to which a call sends data, and those from which it gets data: all others, those
// that a root concerns, or in a scan those behind this rank and those before it.
template <Work kWork>
struct Direction {
  int me;
  int root;
  bool is_broadcast;
  bool is_reduce;

  __device__ bool sends_to(int r) const {
    if (r == me) return false;
    if (kWork == Work::scans) return r > me;
    if (is_broadcast) return me == root;
    return !is_reduce || r == root;
  }
  __device__ bool hears_from(int r) const {
    if (r == me) return false;
    if (kWork == Work::scans) return r < me;
    if (is_broadcast) return r == root;
    return !is_reduce || me == root;
  }
  __device__ bool sends() const { return is_broadcast ? me == root : !is_reduce || me != root; }
  __device__ bool hears() const { return is_broadcast ? me != root : !is_reduce || me == root; }
};

// Exchanges tokens with all ranks, by the lanes of a warp: in a call with a root the others could
// run ahead of each other, and would not notice another root.
__device__ __forceinline__ void exchange_tokens(const CollectiveArgs& args, int lane,
    uint64_t my_slot, uint64_t mine, uint32_t flag, uint32_t epoch) {
  const DeviceComm& comm = args.comm;
  const uint32_t q = token_pack(comm);
  for (int p = lane; p < comm.size; p += kWarp) {
    if (p != comm.rank) send_pack(comm.control[p] + my_slot, q, token_of(args), flag);
  }

  for (int p = lane; p < comm.size; p += kWarp) {
    if (p == comm.rank) continue;
    uint4 theirs[1];
    const uint64_t slot = mine + static_cast<uint64_t>(p) * comm.ll_slot;
    if (!receive<1>(comm, theirs, 1, slot, q, epoch, p) ||
        !check_token(comm, p, theirs[0], token_of(args))) {
      return;
    }
  }
}

// Long, since a kernel is not divided: that can change what stays in registers.
template <Work kWork>
__device__ __forceinline__ void run(const CollectiveArgs& args) {
  begin();
  if (args.comm.size == 0) return;  // a launch to make it ready
  const DeviceComm& comm = args.comm;
  const int n = comm.size;
  const int me = comm.rank;
  const auto collective = static_cast<Collective>(args.collective);
  const auto* send = reinterpret_cast<const char*>(args.send);
  auto* recv = reinterpret_cast<char*>(args.recv);
  const auto unit = static_cast<uint32_t>(args.unit);
  const uint32_t packs = packs_of(unit);

  // From the part of one rank in send to that of the next, and in recv.
  const bool has_tokens = kWork == Work::scans || traits(collective).has_root();
  const uint64_t part = traits(collective).send_per_rank ? unit : 0;
  const uint64_t block = has_tokens ? 0 : unit;
  const Direction<kWork> way{
      me, args.root, collective == Collective::broadcast, collective == Collective::reduce};
  // This rank's own operand belongs to the result; the root of a broadcast copies it.
  bool has_own = way.is_broadcast ? me == args.root && send != recv : way.hears();
  if constexpr (kWork == Work::scans) has_own = collective == Collective::scan;

  // Every block has a warp for tokens where there is a root or a scan, and the first block uses it.
  const uint32_t workers = blockDim.x - (has_tokens ? kWarp : 0);
  const uint32_t first_pack = blockIdx.x * workers + threadIdx.x;
  const uint32_t stride = gridDim.x * workers;
  const bool works = threadIdx.x < workers;

  const uint32_t epoch = current_epoch(comm);
  const uint32_t flag = flag_of(epoch);
  const uint64_t slots = slots_of(comm, epoch);
  const uint64_t my_slot = slots + static_cast<uint64_t>(me) * comm.ll_slot;

  for (uint32_t q = first_pack; works && q < packs && way.sends(); q += stride) {
    uint4 v = load_pack(send, unit, q);
    // Ranks begin with different peers, so that not all of them store to one at a time.
    for (int d = 1; d < n; ++d) {
      const int r = me + d < n ? me + d : me + d - n;
      if (!way.sends_to(r)) continue;
      if (part != 0) v = load_pack(send + static_cast<uint64_t>(r) * part, unit, q);
      send_pack(comm.control[r] + my_slot, q, v, flag);
    }
  }

  const uint64_t mine = comm.control[me] + slots;
  bool ok = true;
  for (uint32_t q = first_pack; works && q < packs && (way.hears() || has_own); q += stride) {
    uint4 operands[kWork != Work::moves ? kRoom : 1];
    const uint4 own =
        has_own ? load_pack(send + static_cast<uint64_t>(me) * part, unit, q) : uint4{};

    for (int first = 0; ok && first < n; first += kAtOnce) {
      uint32_t sources = 0;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i < n && way.hears_from(first + i)) sources |= 1U << i;
      }
      uint4 v[kAtOnce];
      ok = receive<kAtOnce>(
          comm, v, sources, mine + static_cast<uint64_t>(first) * comm.ll_slot, q, epoch, first);
      if (!ok) break;

#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if ((sources >> i & 1U) == 0) continue;
        if constexpr (kWork != Work::moves) {
          operands[first + i] = v[i];
        } else {
          store_pack(recv + static_cast<uint64_t>(first + i) * block, unit, q, v[i]);
        }
      }
    }
    if (!ok) break;

    if constexpr (kWork == Work::reduces) {
      operands[me] = own;
      store_pack(recv, unit, q, combine_any<kRoom>(operands, n, args));
    } else if constexpr (kWork == Work::scans) {
      operands[me] = own;
      const int ranks = ranks_scanned(collective, me);
      store_pack(recv, unit, q, combine_first<kRoom>(operands, ranks, args));
    } else if (has_own) {
      store_pack(recv + static_cast<uint64_t>(me) * block, unit, q, own);
    }
  }

  if (!works && blockIdx.x == 0) {
    exchange_tokens(args, static_cast<int>(threadIdx.x - workers), my_slot, mine, flag, epoch);
  }

  // All tokens are there before the first thread says that all ranks have come.
  if (has_tokens) __syncthreads();
  end_epoch(comm, epoch);
}
}  // namespace

// The largest block that is launched has 256 threads, a warp for tokens included.
extern "C" __global__ void __launch_bounds__(256, 1)
    symm_large_ll_reduce(const __grid_constant__ CollectiveArgs a) {
  run<Work::reduces>(a);
}
extern "C" __global__ void __launch_bounds__(256, 1)
    symm_large_ll_scan(const __grid_constant__ CollectiveArgs a) {
  run<Work::scans>(a);
}
extern "C" __global__ void __launch_bounds__(256, 1)
    symm_large_ll_move(const __grid_constant__ CollectiveArgs a) {
  run<Work::moves>(a);
}
