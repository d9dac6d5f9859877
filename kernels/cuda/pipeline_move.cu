// The pipeline of collectives that only move: all-gather, broadcast. Any type, any number of ranks.
#include "kernels/cuda/pipeline.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {
// The root of a broadcast sends each byte once, straight into the owner's recv if that is memory of the group, which needs no
// slot, and the owners pass it on.
__device__ __forceinline__ void scatter_to_recvs(const WorkGroup& s, uint32_t base, const Operands& to) {
  const auto arrived = [&](ControlWords::FromPeers& words) -> uint32_t& { return words.arrived[s.index][s.me]; };
  const auto* send = reinterpret_cast<const char*>(s.args.send);
  const uint32_t staged = s.staged(to);
  // Each announcement takes a fence. Long messages have fewer, because their owners have enough to do meanwhile.
  const uint64_t batch = staged != 0 || s.tiles < 16 ? 1 : s.tiles < 32 ? 2 : 4;
  for (uint32_t j = 0; j < s.tiles; ++j) {
    const uint32_t now = base + j;
    if (staged != 0 && !s.await(s.mine.from_peers.done[s.index], now + 1 - kSlots, staged)) break;
    const int first = s.first_of(j);
    for (int i = 0; i < s.n - 1; ++i) {
      const int p = s.another(i, first);
      const WorkGroup::Range part = s.slice(j, p);
      push_part(send + part.at, to.recv[p] != nullptr ? to.recv[p] + part.at : s.stage(p, 0, now, s.me), part.bytes);
    }
    if ((j + 1) % batch == 0 || j + 1 == s.tiles) s.announce(arrived, now + 1);
  }
}

// All that a broadcast's root does in this role is to copy.
__device__ __forceinline__ void keep_tile(const WorkGroup& s, uint32_t j) {
  const CollectiveArgs& args = s.args;
  if (args.send == args.recv) return;
  const uint64_t bytes = static_cast<uint64_t>(s.n - 1) * args.tile;
  const uint64_t at = (s.index + uint64_t{j} * static_cast<uint64_t>(args.work_groups)) * bytes;
  push_part(reinterpret_cast<const char*>(args.send) + at, reinterpret_cast<char*>(args.recv) + at,
      static_cast<uint32_t>(args.unit - at < bytes ? args.unit - at : bytes));
}

// Of an all-gather my own part goes to everybody, as all of a direct broadcast's does; of another broadcast what the root has
// pushed, into recv if it could.
__device__ __forceinline__ void pass_tile(const WorkGroup& s, const Operands& to, uint32_t j, uint32_t now) {
  const CollectiveArgs& args = s.args;
  const WorkGroup::Range part = s.slice(j, s.me);
  const uint64_t place = s.place(part, s.me);
  auto* recv = reinterpret_cast<char*>(args.recv);
  if (part.bytes == 0) return;
  const bool broadcast = s.collective == Collective::broadcast && args.direct == 0;
  const bool there = broadcast && args.copies_out == 0;
  const bool keeps = !there && (s.collective != Collective::broadcast || s.me != args.root || args.send != args.recv);
  const char* from = there       ? recv + part.at
                     : broadcast ? s.stage(s.me, 0, now, args.root)
                                 : reinterpret_cast<const char*>(args.send) + part.at;
  if (there && s.n == 2) return;  // nobody to pass it on to
  const int first = s.first_of(j);
  push(from, part.bytes, threadIdx.x, blockDim.x, s.n, [&](int d) -> char* {
    if (d == 0) return keeps ? recv + place : nullptr;
    const int p = s.another(d - 1, first);
    return !s.collects(p) ? nullptr : to.recv[p] != nullptr ? to.recv[p] + place : s.stage(p, 1, now, s.me);
  });
}

// What goes to everybody from one place, to recvs that are all memory of the group.
__device__ __noinline__ bool send_at_once(
    const CollectiveArgs& args, const Operands& to, uint32_t index, uint32_t role, uint32_t call) {
  const WorkGroup s(args, args.comm.size, index);
  const bool broadcast = s.collective == Collective::broadcast;
  bool can = !broadcast || args.direct != 0;
  for (int p = 0; p < s.n; ++p) can = can && to.recv[p] != nullptr;
  if (!is_at_once(s, can, true, role, call)) return false;
  const uint64_t place = broadcast ? 0 : static_cast<uint64_t>(s.me) * args.unit;
  const auto* from = reinterpret_cast<const char*>(args.send);
  char* own = reinterpret_cast<char*>(args.recv) + place;
  const int first = s.first_of(role);
  if (!broadcast || s.me == args.root) {
    push(from, args.unit, blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x, s.n, [&](int d) {
      return d != 0 ? to.recv[s.another(d - 1, first)] + place : own != from ? own : nullptr;
    });
  }
  finish_at_once(s, role, call);
  return true;
}

__device__ __forceinline__ void run(const CollectiveArgs& args) {
  begin();
  if (args.comm.size == 0) return;  // a launch to make it ready
  const WorkGroup s(args, args.comm.size, blockIdx.x / kRoles);
  const bool scatters = s.collective == Collective::broadcast && args.direct == 0;
  symm::cuda::run(
      s, blockIdx.x % kRoles,
      [&](const Operands& to, uint32_t role, uint32_t call) { return send_at_once(args, to, s.index, role, call); },
      [&](const Operands& to, uint32_t base) {
        if (s.scatters()) scatter_to_recvs(s, base, to);
        else
          s.announce([&](ControlWords::FromPeers& words) -> uint32_t& { return words.arrived[s.index][s.me]; }, base + s.tiles);
      },
      [&](const Operands& to) {
        own(s, to, true, !scatters, [&](uint32_t j, uint32_t now) {
          if (scatters && s.me == args.root) keep_tile(s, j);
          else pass_tile(s, to, j, now);
        });
      });
}
}  // namespace

// As in pipeline.cu.
extern "C" __global__ void __launch_bounds__(1024, 1) symm_pipeline_move(const __grid_constant__ CollectiveArgs a) { run(a); }
