// The pipeline of collectives that only move: all-gather, broadcast. Any type, any number of ranks.
#include "kernels/cuda/pipeline.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {
// What goes to everybody from one place, to recvs that are all memory of the group.
__device__ __forceinline__ bool send_at_once(const WorkGroup& s, const Operands& at) {
  const CollectiveArgs& args = s.args;
  const bool is_broadcast = s.collective == Collective::broadcast;
  bool can = !is_broadcast || args.direct != 0;
  for (int p = 0; p < s.n; ++p) can = can && (at.recv[p] != nullptr || !s.collects(p));
  if (!can || (is_broadcast && s.me != args.root)) return can;
  const auto* from = reinterpret_cast<const char*>(args.send);
  const uint64_t place = s.in_recv(s.me);
  char* own = reinterpret_cast<char*>(args.recv) + place;
  const int first = s.first_of(0);
  push(from, args.unit, blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x, s.n, [&](int d) {
    return d != 0 ? at.recv[s.another(d - 1, first)] + place : own != from ? own : nullptr;
  });
  return true;
}

// The root of a broadcast that others pass on sends each byte once, straight into the owner's recv if that is memory of the
// group.
__device__ __forceinline__ void send_to_owners(const WorkGroup& s, const Operands& at, uint32_t i) {
  const CollectiveArgs& args = s.args;
  const auto* send = reinterpret_cast<const char*>(args.send);
  auto* recv = reinterpret_cast<char*>(args.recv);
  const int first = s.first_of(i);
  for (int d = 0; d < s.n - 1; ++d) {
    const int p = s.another(d, first);
    const WorkGroup::Piece its = s.piece(p, i);
    char* const to = at.recv[p] != nullptr ? at.recv[p] + its.at : s.slot_of_piece(p, 0, i, s.me);
    push(send + its.at, its.bytes, threadIdx.x, blockDim.x, 2, [&](int to_self) {
      return to_self == 0 ? to : send != recv ? recv + its.at : nullptr;
    });
  }
}

__device__ __forceinline__ void run(const CollectiveArgs& args) {
  begin();
  if (args.comm.size == 0) return;  // a launch to make it ready
  const WorkGroup s(args, args.comm.size);
  const bool is_passed_on = args.spares_root != 0;
  symm::cuda::run(
      s, [&](const Operands& at) { return send_at_once(s, at); },
      [&](const Operands& at, uint32_t i) {
        if (is_passed_on && s.me == args.root) send_to_owners(s, at, i);
      },
      [&](const Operands& at, uint32_t i) {
        const WorkGroup::Piece its = s.piece(s.me, i);
        const char* from = !is_passed_on          ? reinterpret_cast<const char*>(args.send) + its.at
                           : args.copies_out != 0 ? s.slot_of_piece(s.me, 0, i, args.root)
                                                  : reinterpret_cast<const char*>(args.recv) + its.at;
        push(from, its.bytes, threadIdx.x, blockDim.x, s.n, [&](int d) { return at.to[d] != from ? at.to[d] : nullptr; });
      });
}
}  // namespace

// As in pipeline.cu.
extern "C" __global__ void __launch_bounds__(1024, 1) symm_pipeline_move(const __grid_constant__ CollectiveArgs a) { run(a); }
