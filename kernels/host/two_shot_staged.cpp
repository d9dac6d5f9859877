// Two-shot for memory that others cannot reach, chunk by chunk through scratch: copy in what
// others reduce, reduce this rank's slice, copy out what others reduced. One step for each
// chunk is enough for all three, because a rank's announcement t says: chunk t is copied in,
// chunk t - 1 is reduced, chunk t - 2 is copied out.
//
//   in(0) announce | in(1) await reduce(0) announce | in(2) await reduce(1) out(0) announce | ...
//
// in(t + 1) overwrites in(t - 2), which its readers left before announcement t - 1,
// seen here before. reduce(t) overwrites the result t - 2, which its readers left
// before announcement t. So three slots in and two slots out.
#include <cstddef>

#include "kernels/host/arithmetic/reduce.hpp"
#include "kernels/host/execution.hpp"
#include "kernels/host/operands.hpp"
#include "kernels/host/publish.hpp"
#include "kernels/host/slices.hpp"
#include "kernels/host/steps.hpp"

namespace symm::host {
namespace {
class Staged {
 public:
  // `wanted`: this rank's recv gets the result.
  Staged(const Execution& x, bool wanted)
      : x_(x),
        wanted_(wanted),
        chunks_(planned_chunks(x, bytes_of(x))),
        chunk_bytes_(
            chunks_[0].size() == bytes_of(x) ? round_up(bytes_of(x), kLine) : x.plan.chunk_bytes),
        result_bytes_(slice(chunk_bytes_, 0, x.size).size()),
        sources_(x.size) {}

  void run() {
    Steps steps(x_);
    const size_t count = chunks_.count();
    copy_in(0);
    steps.announce();

    for (size_t t = 0; t < count; ++t) {
      if (t + 1 < count) copy_in(t + 1);
      steps.await_all();
      reduce_mine(t);
      if (t > 0) copy_out(t - 1);
      steps.announce();
    }

    if (!wanted_) return;
    steps.await_all();
    copy_out(count - 1);
  }

 private:
  Range slice_of(size_t t, int rank) const noexcept {
    return slice(chunks_[t].size(), rank, x_.size);
  }

  size_t in(size_t t) const noexcept { return slot_of(t, chunk_bytes_); }

  size_t result(size_t t) const noexcept { return kSlots * chunk_bytes_ + t % 2 * result_bytes_; }

  void copy_in(size_t t) const {
    const Range chunk = chunks_[t];
    const Range mine = slice_of(t, x_.rank);
    const std::byte* from = x_.send() + chunk.begin;
    std::byte* to = scratch_of(x_, x_.rank) + in(t);
    copy_to_peer(to, from, mine.begin, false);
    copy_to_peer(to + mine.end, from + mine.end, chunk.size() - mine.end, false);
  }

  void reduce_mine(size_t t) {
    const Range chunk = chunks_[t];
    const Range mine = slice_of(t, x_.rank);
    for (int peer = 0; peer < x_.size; ++peer) {
      sources_[peer] = scratch_of(x_, peer) + in(t);
    }

    sources_[x_.rank] = x_.send() + chunk.begin;
    std::byte* destinations[2] = {scratch_of(x_, x_.rank) + result(t), nullptr};
    if (wanted_) destinations[1] = x_.recv() + chunk.begin + mine.begin;
    Reduction reduction = reduction_of(x_, sources_.data(), mine.size());
    reduction.source_offset = mine.begin;
    reduction.destinations = destinations;
    reduction.destination_count = wanted_ ? 2 : 1;
    reduction.nontemporal = false;  // half of it is read again at once
    reduce(reduction);
  }

  void copy_out(size_t t) const {
    if (!wanted_) return;
    for (int peer = 0; peer < x_.size; ++peer) {
      if (peer == x_.rank) continue;
      const Range theirs = slice_of(t, peer);
      copy_planned(x_, x_.recv() + chunks_[t].begin + theirs.begin,
          scratch_of(x_, peer) + result(t), theirs.size());
    }
  }

  const Execution& x_;
  const bool wanted_;
  const Chunks chunks_;
  const size_t chunk_bytes_;   // bytes of a slot
  const size_t result_bytes_;  // bytes of a result slot, which holds the largest slice
  Sources sources_;
};
}  // namespace

void allreduce_two_shot_staged(const Execution& x) { Staged(x, true).run(); }

void reduce_two_shot_staged(const Execution& x) { Staged(x, x.rank == x.call.root).run(); }
}  // namespace symm::host
