// All-reduce of 8 ranks along the links of a hybrid cube mesh (core/backend/topology.hpp): two
// quads, in which every two ranks have a link, and one link from each rank to its partner in the
// other quad. Flags lie beside the data (ll.cuh), so any type goes, without a fence.
//
// A rank sends its operand to its four neighbours, which are the rest of its quad and its partner.
// When its partner's operand has come, it relays that to the rest of its quad. After these two hops
// every rank has all operands, and combines them in the order of the call as every other algorithm
// does. A link carries two operands each way within a quad, and one across.
//
// Every operand goes into the slot of the rank that it is of, whoever sends it. So the slots are
// those of the LL kernels, which may be launched before and after this one. In a call each cell has
// one writer: the source itself if it is a neighbour of the receiver, else the source's partner,
// which then is in the receiver's quad.
//
// Why a half may be used again (epoch.cuh), though operands come by way of other ranks. Let a rank
// R have ended call k, which used half h.
//   1. R has taken and freed the cells of all seven others, each written once in call k. So nothing
//      of call k is on its way to R any more, from whatever rank.
//   2. A rank W that stores into half h of R after that, as a source or as a relay, is in call
//      k + 2, and has ended call k + 1.
//   3. To end call k + 1, W has taken R's operand of call k + 1, at first or second hand. So R had
//      started call k + 1 before, and ended call k.
//   4. By 1 and 3, nobody reads, frees or writes half h of R for call k when W stores there.
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/ll.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {
constexpr uint32_t kEverybody = (1U << kCubeMeshRanks) - 1U;

__device__ __forceinline__ int partner_of(const CollectiveArgs& args, int rank) {
  return static_cast<int>(args.partners >> (4 * rank) & 7U);
}

// The rank that a wait for operands blames. A neighbour whose own operand is missing did not come.
// Where all neighbours came, an operand was not relayed, most likely because its source did not
// come to its partner either, so the source is blamed; but once either of them has left, the
// partner is: a source sends before it leaves, and then its partner still has to relay.
struct Blamed {
  const CollectiveArgs& args;
  uint32_t neighbours;

  __device__ __forceinline__ int operator()(uint32_t missing) const {
    if ((missing & neighbours) != 0) return lowest(missing & neighbours);
    const int source = lowest(missing);
    const int relay = partner_of(args, source);
    const uint32_t departed = load_relaxed(&told_to(args.comm).departed.word[0]);
    return ((departed >> source | departed >> relay) & 1U) != 0 ? relay : source;
  }
};

// Sends pack q of the operand of rank `source` to `ranks`.
__device__ __forceinline__ void send_to(
    const DeviceComm& comm, uint32_t ranks, int source, uint32_t q, uint4 v, uint32_t epoch) {
  const uint64_t slot = slots_of(comm, epoch) + static_cast<uint64_t>(source) * comm.ll_slot;
  const uint32_t flag = flag_of(epoch);
#pragma unroll
  for (int r = 0; r < kCubeMeshRanks; ++r) {
    if ((ranks >> r & 1U) != 0) send_pack(comm.control[r] + slot, q, v, flag);
  }
}
}  // namespace

// A block that is launched has at most 256 threads, so each thread has the registers for two cells
// of 8 ranks.
extern "C" __global__ void __launch_bounds__(256, 1)
    symm_hybrid_cube_mesh(const __grid_constant__ CollectiveArgs args) {
  begin();
  if (args.comm.size == 0) return;  // a launch to make it ready
  const DeviceComm& comm = args.comm;
  const int me = comm.rank;
  const int partner = partner_of(args, me);
  const bool is_in_first = (args.quad >> me & 1U) != 0;
  const uint32_t quad = (is_in_first ? args.quad : ~args.quad & kEverybody) & ~(1U << me);
  const uint32_t neighbours = quad | 1U << partner;

  const auto* send = reinterpret_cast<const char*>(args.send);
  auto* recv = reinterpret_cast<char*>(args.recv);
  const auto unit = static_cast<uint32_t>(args.unit);
  const uint32_t packs = packs_of(unit);
  const uint32_t first = blockIdx.x * blockDim.x + threadIdx.x;
  const uint32_t stride = gridDim.x * blockDim.x;
  const uint32_t epoch = current_epoch(comm);

  for (uint32_t q = first; q < packs; q += stride) {
    send_to(comm, neighbours, me, q, load_pack(send, unit, q), epoch);
  }

  // A rank relays its pack q before it waits for what others relay of theirs. So by induction over
  // q every wait below ends, if all ranks come.
  const Blamed blamed{args, neighbours};
  const uint64_t mine = comm.control[me] + slots_of(comm, epoch);
  for (uint32_t q = first; q < packs; q += stride) {
    const uint4 own = load_pack(send, unit, q);
    uint4 relayed[1];
    const uint64_t of_partner = mine + static_cast<uint64_t>(partner) * comm.ll_slot;
    const auto blame_partner = [partner](uint32_t) { return partner; };
    if (!receive_blaming(comm, relayed, 1, of_partner, q, epoch, blame_partner)) break;
    send_to(comm, quad, partner, q, relayed[0], epoch);

    uint4 v[kCubeMeshRanks];
    const uint32_t rest = kEverybody & ~(1U << me | 1U << partner);
    if (!receive_blaming(comm, v, rest, mine, q, epoch, blamed)) break;
#pragma unroll
    for (int r = 0; r < kCubeMeshRanks; ++r) {
      if (r == me) v[r] = own;
      if (r == partner) v[r] = relayed[0];
    }
    store_pack(recv, unit, q, combine_any<kCubeMeshRanks>(v, kCubeMeshRanks, args));
  }
  end_epoch(comm, epoch);
}
