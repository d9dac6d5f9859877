// For eight ranks of which each has links to four others only: its quad ({0..3} or {4..7}) and its partner (rank ^ 4). Data is
// read from, and steps are awaited of, those alone.
//
// Rank q of the low quad combines slice q of ranks 0..3, unrounded; its partner q + 4 goes on from there with ranks 4..7, in this
// order, and rounds: the bits are those of every other algorithm. The result comes back over the same link, and each quad
// collects its four slices. A chunk takes five steps, and five chunks are under way at a time:
//
//   step s, low quad:   copy in s, combine s - 1,            fetch the result of s - 3, collect s - 4
//   step s, high quad:  copy in s,            finish s - 2,                             collect s - 4
//
// A step reads only what was written in earlier steps, and between two steps a rank hears from all who read from it. What is
// written in step s is read last in step s + 2, so it may be overwritten in step s + 3: three slots of each kind.
#include "kernels/host/publish.hpp"

namespace symm::host {
namespace {
constexpr int kQuad = 4;
constexpr size_t kDepth = 4;  // steps from a chunk's first to its last

class HybridCubeMesh {
 public:
  explicit HybridCubeMesh(const Execution& x)
      : x_(x), chunks_(bytes_of(x), x.plan.chunk_bytes), slice_bytes_(slice(x.plan.chunk_bytes, 0, kQuad).size()),
        partial_bytes_(slice_bytes_ / size_of(x.call.dtype) * size_of_partial(x.call.dtype)), position_(x.rank % kQuad),
        quad_(x.rank - position_), partner_(x.rank ^ kQuad), low_(x.rank < kQuad) {}

  void run() {
    Steps steps(x_);
    const size_t count = chunks_.count();
    for (size_t s = 0; s < count + kDepth; ++s) {
      if (s > 0) await_neighbours(steps);
      const auto is_due = [&](size_t age) { return s >= age && s - age < count; };
      if (is_due(0)) copy_in(s);
      if (low_ && is_due(1)) combine(s - 1);
      if (!low_ && is_due(2)) finish(s - 2);
      if (low_ && is_due(3)) fetch(s - 3);
      if (is_due(4)) collect(s - 4);
      if (s + 1 < count + kDepth) steps.announce();
    }
  }
 private:
  void await_neighbours(Steps& steps) const {
    for (int peer = quad_; peer < quad_ + kQuad; ++peer) steps.await(peer);
    steps.await(partner_);
  }

  size_t in(size_t t) const noexcept { return slot_of(t, x_.plan.chunk_bytes); }
  size_t result(size_t t) const noexcept { return kSlots * x_.plan.chunk_bytes + slot_of(t, slice_bytes_); }
  size_t partial(size_t t) const noexcept { return kSlots * (x_.plan.chunk_bytes + slice_bytes_) + slot_of(t, partial_bytes_); }
  Range slice_of(size_t t, int position) const noexcept { return slice(chunks_[t].size(), position, kQuad); }
  std::byte* mine() const noexcept { return scratch_of(x_, x_.rank); }

  // My quad's part of the sum for slice position_, of which the sources are already in scratch.
  Reduction quad_reduction(size_t t, const std::byte* (&sources)[kQuad]) const {
    for (int i = 0; i < kQuad; ++i) sources[i] = scratch_of(x_, quad_ + i) + in(t);
    const Range part = slice_of(t, position_);
    Reduction reduction = reduction_of(x_, sources, part.size());
    reduction.source_count = kQuad;
    reduction.source_offset = part.begin;
    reduction.nontemporal = false;
    return reduction;
  }

  void copy_in(size_t t) const { copy(mine() + in(t), x_.send() + chunks_[t].begin, chunks_[t].size(), false); }

  void combine(size_t t) const {
    const std::byte* sources[kQuad];
    Reduction reduction = quad_reduction(t, sources);
    reduction.partial_out = mine() + partial(t);
    reduce(reduction);
  }

  void finish(size_t t) const {
    const std::byte* sources[kQuad];
    Reduction reduction = quad_reduction(t, sources);
    reduction.partial_in = scratch_of(x_, partner_) + partial(t);
    std::byte* const to = mine() + result(t);
    reduction.destinations = &to;
    reduction.destination_count = 1;
    reduce(reduction);
  }

  void fetch(size_t t) const {
    copy(mine() + result(t), scratch_of(x_, partner_) + result(t), slice_of(t, position_).size(), false);
  }

  void collect(size_t t) const {
    for (int i = 0; i < kQuad; ++i) {
      const Range part = slice_of(t, i);
      copy_planned(x_, x_.recv() + chunks_[t].begin + part.begin, scratch_of(x_, quad_ + i) + result(t), part.size());
    }
  }

  const Execution& x_;
  const Chunks chunks_;
  const size_t slice_bytes_;
  const size_t partial_bytes_;
  const int position_;
  const int quad_;
  const int partner_;
  const bool low_;
};
}  // namespace

void allreduce_hybrid_cube_mesh(const Execution& x) { HybridCubeMesh(x).run(); }
}  // namespace symm::host
