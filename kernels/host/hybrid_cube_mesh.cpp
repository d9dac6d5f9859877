// All-reduce of eight ranks, each of which reads from four others only, and waits for those:
// the rest of its quad, which is {0, 1, 2, 3} or {4, 5, 6, 7}, and its partner, rank ^ 4. So
// data takes the paths that the links of a hybrid cube mesh have.
//
// Each rank owns one of four slices: rank q of the low quad and its partner q + 4 both own
// slice q. Rank q combines its slice of ranks 0 to 3 and does not round; its partner goes on
// from there with ranks 4 to 7 and rounds. So ranks are combined in the order of all other
// algorithms, with their bits. The result comes back over the same link, and each quad collects
// its four slices. Chunk t takes five steps, and five chunks are under way at a time:
//
//   step   low quad             high quad
//   t      copy in              copy in
//   t + 1  combine its slice
//   t + 2                       finish its slice
//   t + 3  fetch the result
//   t + 4  collect              collect
//
// Invariant: no rank overwrites what another rank still reads.
//   1. Between step s and step s + 1 a rank announces its step, and waits for the announcements of
//      its four neighbours. So in step s + 1 it sees what its neighbours wrote up to step s, and
//      they have finished reading what they read up to step s.
//   2. What is written in step s is read last in step s + 2: an operand by the high quad, a sum by
//      the partner in step s + 1, the high quad's result in steps s + 1 and s + 2, the low quad's
//      in step s + 1.
//   3. With three slots of each kind, the slot of step s is written again in step s + 3. By 1 all
//      its readers, which are neighbours, have finished by then.
// tests/models/cube_mesh.pml tries every order of steps.
#include <cstddef>

#include "kernels/host/arithmetic/reduce.hpp"
#include "kernels/host/execution.hpp"
#include "kernels/host/operands.hpp"
#include "kernels/host/publish.hpp"
#include "kernels/host/slices.hpp"
#include "kernels/host/steps.hpp"
#include "kernels/types.hpp"

namespace symm::host {
namespace {
// The number of steps from the first step of a chunk to its last.
constexpr size_t kDepth = 4;

class HybridCubeMesh {
 public:
  explicit HybridCubeMesh(const Execution& x)
      : x_(x),
        chunks_(bytes_of(x), x.plan.chunk_bytes),
        slice_bytes_(slice(x.plan.chunk_bytes, 0, kQuadRanks).size()),
        partial_bytes_(slice_bytes_ / size_of(x.call.dtype) * size_of_partial(x.call.dtype)),
        mine_(x.rank % kQuadRanks),
        quad_(x.rank - mine_),
        partner_(x.rank ^ kQuadRanks) {}

  void run() {
    Steps steps(x_);
    const size_t count = chunks_.count();
    const bool is_low = quad_ == 0;

    for (size_t s = 0; s < count + kDepth; ++s) {
      if (s > 0) await_neighbours(steps);

      const auto is_due = [&](size_t age) { return s >= age && s - age < count; };
      if (is_due(0)) copy_in(s);
      if (is_low && is_due(1)) combine(s - 1);
      if (!is_low && is_due(2)) finish(s - 2);
      if (is_low && is_due(3)) fetch(s - 3);
      if (is_due(4)) collect(s - 4);

      if (s + 1 < count + kDepth) steps.announce();
    }
  }

 private:
  void await_neighbours(Steps& steps) const {
    for (int peer = quad_; peer < quad_ + kQuadRanks; ++peer) {
      steps.await(peer);
    }
    steps.await(partner_);
  }

  // The offsets of the operand, the results and the partial sum of chunk t in the
  // scratch of each rank.
  size_t operand(size_t t) const noexcept { return slot_of(t, x_.plan.chunk_bytes); }
  size_t result(size_t t) const noexcept {
    return kSlots * x_.plan.chunk_bytes + slot_of(t, slice_bytes_);
  }
  size_t partial(size_t t) const noexcept {
    return kSlots * (x_.plan.chunk_bytes + slice_bytes_) + slot_of(t, partial_bytes_);
  }

  Range slice_of(size_t t, int owner) const noexcept {
    return slice(chunks_[t].size(), owner, kQuadRanks);
  }

  // This rank's slice of the operands of its quad, which are in scratch.
  Reduction of_quad(size_t t, const std::byte* (&sources)[kQuadRanks]) const {
    for (int i = 0; i < kQuadRanks; ++i) {
      sources[i] = scratch_of(x_, quad_ + i) + operand(t);
    }

    const Range part = slice_of(t, mine_);
    Reduction reduction = reduction_of(x_, sources, part.size());
    reduction.source_count = kQuadRanks;
    reduction.source_offset = part.begin;
    reduction.nontemporal = false;
    return reduction;
  }

  void copy_in(size_t t) const {
    const Range chunk = chunks_[t];
    copy(scratch_of(x_, x_.rank) + operand(t), x_.send() + chunk.begin, chunk.size(), false);
  }

  void combine(size_t t) const {
    const std::byte* sources[kQuadRanks];
    Reduction reduction = of_quad(t, sources);
    reduction.partial_out = scratch_of(x_, x_.rank) + partial(t);
    reduce(reduction);
  }

  void finish(size_t t) const {
    const std::byte* sources[kQuadRanks];
    Reduction reduction = of_quad(t, sources);
    reduction.partial_in = scratch_of(x_, partner_) + partial(t);
    std::byte* const to = scratch_of(x_, x_.rank) + result(t);
    reduction.destinations = &to;
    reduction.destination_count = 1;
    reduce(reduction);
  }

  void fetch(size_t t) const {
    copy(scratch_of(x_, x_.rank) + result(t), scratch_of(x_, partner_) + result(t),
        slice_of(t, mine_).size(), false);
  }

  void collect(size_t t) const {
    for (int owner = 0; owner < kQuadRanks; ++owner) {
      const Range part = slice_of(t, owner);
      copy_planned(x_, x_.recv() + chunks_[t].begin + part.begin,
          scratch_of(x_, quad_ + owner) + result(t), part.size());
    }
  }

  const Execution& x_;
  const Chunks chunks_;
  const size_t slice_bytes_;
  const size_t partial_bytes_;
  // The number of this rank's slice, the first rank of its quad, and its partner.
  const int mine_;
  const int quad_;
  const int partner_;
};
}  // namespace

void allreduce_hybrid_cube_mesh(const Execution& x) { HybridCubeMesh(x).run(); }
}  // namespace symm::host
