// LL: each rank sends every other one the part of its operand that concerns it, with flags beside
// the data (ll.cuh); receivers combine or copy. For small messages, and for types that leave no
// bit pattern free.
#include "kernels/collective.hpp"
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/ll.cuh"
#include "kernels/cuda/neutral.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {
// Long, since a kernel is not divided: that can change what stays in registers.
template <int kRanks, Work kWork>
__device__ __forceinline__ void run(const CollectiveArgs& args) {
  begin();
  if (args.comm.size == 0) return;  // a launch to make it ready
  const DeviceComm& comm = args.comm;
  const int n = kRanks == 2 ? kRanks : comm.size;
  const int me = comm.rank;
  const auto collective = static_cast<Collective>(args.collective);
  const auto* send = reinterpret_cast<const char*>(args.send);
  auto* recv = reinterpret_cast<char*>(args.recv);
  const auto unit = static_cast<uint32_t>(args.unit);
  const uint32_t packs = packs_of(unit);

  // From the part of one rank in send to that of the next.
  const uint32_t part = traits(collective).send_per_rank ? unit : 0;
  // Ranks that do not all wait for each other have tokens.
  const bool has_tokens = kWork == Work::scans || traits(collective).has_root();
  const bool am_root = me == args.root;
  const uint32_t others = ((1U << n) - 1U) & ~(1U << me);
  const uint32_t root = others & 1U << args.root;
  // The ranks to which this one sends data, and those from which it gets data.
  const bool is_broadcast = collective == Collective::broadcast;
  const bool has_direction = is_broadcast || collective == Collective::reduce;
  const uint32_t of_root = am_root ? others : 0;
  const uint32_t directed_to = is_broadcast ? of_root : root;
  const uint32_t directed_from = is_broadcast ? root : of_root;
  uint32_t to = has_direction ? directed_to : others;
  uint32_t from = has_direction ? directed_from : others;
  // This rank's own operand belongs to the result; the root of a broadcast copies it.
  bool has_own = collective == Collective::broadcast ? am_root && send != recv : from != 0;
  if constexpr (kWork == Work::scans) {
    from = (1U << me) - 1U;
    to = others & ~from;
    has_own = collective == Collective::scan;
  }

  // In a call with a root the others could run ahead of each other, and would not notice another
  // root; in a scan the first ranks could. So all ranks exchange a token: every block has a warp
  // for that, and the first block uses it.
  const uint32_t workers = blockDim.x - (has_tokens ? kWarp : 0);
  const uint32_t first = blockIdx.x * workers + threadIdx.x;
  const uint32_t stride = gridDim.x * workers;
  const bool works = threadIdx.x < workers;

  // Nearly always all packs are whole and aligned. Then no question is asked for each pack, and
  // the first packs for all ranks are loaded together with the epoch.
  const bool whole = ((args.send | args.recv | unit) & (kPack - 1)) == 0;
  const auto pack_of = [&](int r, uint32_t q) {
    return reinterpret_cast<const uint4*>(send + static_cast<uint64_t>(r) * part) + q;
  };
  constexpr int kAtOnce = kRanks < 4 ? kRanks : 4;
  uint4 v[kRanks];
  const auto load = [&](int first_rank, uint32_t q) {
#pragma unroll
    for (int r = 0; r < kRanks; ++r) {
      if (r / kAtOnce == first_rank / kAtOnce && (to >> r & 1U) != 0) v[r] = *pack_of(r, q);
    }
  };

  uint32_t q = first;
  const bool sends = works && q < packs && to != 0;
  const uint32_t epoch = current_epoch(comm);
  if (whole && sends) load(0, q);
  const uint32_t flag = flag_of(epoch);
  const uint64_t slots = slots_of(comm, epoch);
  const uint64_t my_slot = slots + static_cast<uint64_t>(me) * comm.ll_slot;

  if (whole && sends) {
    while (true) {
#pragma unroll
      for (int r = 0; r < kRanks; ++r) {
        if (r != 0 && r % kAtOnce == 0) load(r, q);
        if ((to >> r & 1U) != 0) send_pack(comm.control[r] + my_slot, q, v[r], flag);
      }
      q += stride;
      if (q >= packs) break;
      load(0, q);
    }
  } else if (sends) {
    for (; q < packs; q += stride) {
#pragma unroll 1
      for (int r = 0; r < n; ++r) {
        if ((to >> r & 1U) != 0) {
          send_pack(comm.control[r] + my_slot, q,
              load_pack(send + static_cast<uint64_t>(r) * part, unit, q), flag);
        }
      }
    }
  }

  const uint64_t mine = comm.control[me] + slots;
  for (q = first; works && q < packs && (kWork == Work::scans || from != 0 || has_own);
      q += stride) {
    const uint4 own =
        has_own ? load_pack(send + static_cast<uint64_t>(me) * part, unit, q) : uint4{};
    if (!receive<kRanks>(comm, v, from, mine, q, epoch)) break;
#pragma unroll
    for (int r = 0; r < kRanks; ++r) {
      if (r == me) v[r] = own;
    }

    if constexpr (kWork == Work::reduces) {
      store_pack(recv, unit, q, combine_any<kRanks>(v, n, args));
    } else if constexpr (kWork == Work::scans) {
      store_pack(recv, unit, q, combine_first<kRanks>(v, ranks_scanned(collective, me), args));
    } else {
      const uint32_t got = from | (has_own ? 1U << me : 0);
      const uint32_t block = has_tokens ? 0 : unit;
      if (whole) {
#pragma unroll
        for (int r = 0; r < kRanks; ++r) {
          if ((got >> r & 1U) != 0) {
            *(reinterpret_cast<uint4*>(recv + static_cast<uint64_t>(r) * block) + q) = v[r];
          }
        }
      } else {
#pragma unroll
        for (int r = 0; r < kRanks; ++r) {
          if ((got >> r & 1U) != 0) {
            store_pack(recv + static_cast<uint64_t>(r) * block, unit, q, v[r]);
          }
        }
      }
    }
  }

  const auto p = static_cast<int>(threadIdx.x - workers);
  if (!works && blockIdx.x == 0 && p < n && p != me) {
    const uint32_t q_token = token_pack(comm);
    send_pack(comm.control[p] + my_slot, q_token, token_of(args), flag);
    uint4 theirs[1];
    if (receive<1>(
            comm, theirs, 1, mine + static_cast<uint64_t>(p) * comm.ll_slot, q_token, epoch, p)) {
      check_token(comm, p, theirs[0], token_of(args));
    }
  }

  // All tokens are there before the first thread says that all ranks have come.
  if (has_tokens) __syncthreads();
  end_epoch(comm, epoch);
}
}  // namespace

// For up to `ranks` ranks. The largest block that is launched has 256 threads, a warp for tokens
// included; so each thread has the registers for two cells of 8 ranks.
#define SYMM_LL(ranks)                                                   \
  extern "C" __global__ void __launch_bounds__(256, 1)                   \
      symm_ll_reduce_##ranks(const __grid_constant__ CollectiveArgs a) { \
    run<ranks, Work::reduces>(a);                                        \
  }                                                                      \
  extern "C" __global__ void __launch_bounds__(256, 1)                   \
      symm_ll_scan_##ranks(const __grid_constant__ CollectiveArgs a) {   \
    run<ranks, Work::scans>(a);                                          \
  }                                                                      \
  extern "C" __global__ void __launch_bounds__(256, 1)                   \
      symm_ll_move_##ranks(const __grid_constant__ CollectiveArgs a) {   \
    run<ranks, Work::moves>(a);                                          \
  }
SYMM_LL(2)
SYMM_LL(4)
SYMM_LL(8)
SYMM_LL(16)
