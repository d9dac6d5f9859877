// All-reduce of 8 ranks in a hybrid cube mesh: two quads, each fully linked, and a link from every rank to one partner in the
// other quad. Data goes along links only. Each rank sends its operand to its four neighbours, and its partner's, when that has
// come, on to the rest of its quad. After two hops all have all eight operands, no link has carried more than two, and every rank
// combines them in the order of ranks, as everywhere. With flags beside the data (ll.cuh): no fence, any type, small messages.
//
// What is sent on goes into the slot of the rank that it is of, so the slots are those of LL, and in each call each has one
// writer: the rank itself or its partner. Why halves may be used again (epoch.cuh), though data comes by way of others:
//   1. To end call k a rank takes, and frees, the cells of all seven others. Each is written once in call k, so nothing of call k
//   is on
//      its way to this rank any more, from whomever.
//   2. All seven have sent what it took, at first or second hand, so each has started call k, and ended call k - 1.
//   3. What is written in call k + 2 into half k & 1 of a rank comes from one that has ended call k + 1, be it the source or the
//   one that
//      sends on. So by 2 the rank has ended call k, and by 1 that half is free: nobody will read it, free it or write it for call
//      k.
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/ll.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {
constexpr int kCubeRanks = 8;
constexpr uint32_t kEverybody = (1U << kCubeRanks) - 1U;

__device__ __forceinline__ int partner_of(const CollectiveArgs& args, int rank) {
  return static_cast<int>(args.partners >> 4 * rank & 7U);
}

// Whom trouble is blamed on: a neighbour whose own operand is missing. When all neighbours have come, the rank whose operand was
// not sent on, because it is likely that it never came to its partner either; but if it has left, its partner has what it sent,
// and has to send it on.
struct Culprit {
  const CollectiveArgs& args;
  uint32_t neighbours;
  __device__ __forceinline__ int operator()(uint32_t missing) const {
    if ((missing & neighbours) != 0) return lowest(missing & neighbours);
    const int source = lowest(missing);
    const int between = partner_of(args, source);
    const uint32_t departed = load_relaxed(&words_of(args.comm, args.comm.rank).departed);
    return ((departed >> source | departed >> between) & 1U) != 0 ? between : source;
  }
};

__device__ __forceinline__ void send_to(const DeviceComm& comm, uint32_t ranks, int source, uint64_t q, uint4 v, uint32_t epoch) {
#pragma unroll
  for (int d = 1; d < kCubeRanks; ++d) {
    const int p = comm.rank ^ d;
    if ((ranks >> p & 1U) != 0) send_pack(slot(comm, p, source, epoch), q, v, flag_of(epoch));
  }
}
}  // namespace

// 256 threads: the block that is launched; it leaves each thread the registers for two cells of 8 ranks.
extern "C" __global__ void __launch_bounds__(256, 1) symm_hybrid_cube_mesh(const __grid_constant__ CollectiveArgs args) {
  begin();
  if (args.comm.size == 0) return;  // a launch to make it ready
  const DeviceComm& comm = args.comm;
  const int me = comm.rank;
  const int partner = partner_of(args, me);
  const uint32_t quad = ((args.quad >> me & 1U) != 0 ? args.quad : ~args.quad & kEverybody) & ~(1U << me);  // but for me
  const uint32_t neighbours = quad | 1U << partner;
  const auto* send = reinterpret_cast<const char*>(args.send);
  auto* recv = reinterpret_cast<char*>(args.recv);
  const uint64_t unit = args.unit;
  const uint64_t packs = packs_of(unit);
  const uint32_t epoch = current_epoch(comm);
  const uint64_t first = blockIdx.x * blockDim.x + threadIdx.x;
  const uint64_t stride = gridDim.x * blockDim.x;

  for (uint64_t q = first; q < packs; q += stride) send_to(comm, neighbours, me, q, load_pack(send, unit, q), epoch);

  const Culprit culprit{args, neighbours};
  for (uint64_t q = first; q < packs; q += stride) {
    const uint4 own = load_pack(send, unit, q);
    uint4 v[kCubeRanks];
    if (!receive(comm, v, 1U << partner, q, epoch, culprit)) break;
    uint4 partners{};
#pragma unroll
    for (int r = 0; r < kCubeRanks; ++r)
      if (r == partner) partners = v[r];
    send_to(comm, quad, partner, q, partners, epoch);
    if (!receive(comm, v, kEverybody & ~(1U << me | 1U << partner), q, epoch, culprit)) break;
#pragma unroll
    for (int r = 0; r < kCubeRanks; ++r)
      if (r == me) v[r] = own;
    store_pack(recv, unit, q, combine_any(v, kCubeRanks, static_cast<DType>(args.dtype), static_cast<Op>(args.op)));
  }
  end_epoch(comm, epoch);
}
