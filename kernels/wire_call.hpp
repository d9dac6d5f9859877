// A call with a quantised wire, made of plain calls that carry codes, and of three steps between
// them: operands are encoded, operands of all ranks are combined and the sums encoded, and sums are
// decoded. Every rank that gets a sum decodes the codes that all others get, the rank that made
// them too, so the results are the same bits on all ranks.
//
// - Two shots: the codes of a slice of all operands go to one rank each (all-to-all), which
//   combines them; then the codes of the sums go to all ranks (all-gather), but not in a
//   reduce-scatter.
// - One shot: all codes go to all ranks, which combine the same codes.
//
// In a reduce the root alone decodes the sums. Sending them to no other rank would spare the
// network nothing that the root does not wait for.
//
// Groups are counted from the start of the operand, or of a block of a reduce-scatter, and neither
// slices nor parts of a call divide them. So the bits do not depend on the algorithm, on the number
// of parts, or on what carries the codes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/collective.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/text.hpp"
#include "kernels/types.hpp"
#include "kernels/wire.hpp"

namespace symm {
// Encodes `blocks` blocks of `from`, which begin every `stride` bytes, into blocks that follow each
// other in `to`. Block b has min(count, total - b * count) elements, none if that is negative.
struct WireEncoding {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  DType dtype{};
  WireFormat format;
  size_t count = 0;
  size_t blocks = 1;
  size_t stride = 0;
  size_t total = 0;
};

// Combines the first `count` elements of `sources` blocks for `of` elements each, which follow each
// other in `from`, in the order of the ranks or in tree order, and encodes the sums in `to`.
struct WireSum {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  WireFormat format;
  size_t of = 0;
  size_t count = 0;
  int sources = 0;
  bool averages = false;
  bool in_tree = false;
};

// Decodes blocks for `count` elements each, which follow each other in `from`: the first `total`
// elements of all of them.
struct WireDecoding {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  DType dtype{};
  WireFormat format;
  size_t count = 0;
  size_t total = 0;
};

class WireCall {
 public:
  // Codes of at most so many bytes, of all ranks together, take one shot.
  static constexpr size_t kOneShot = size_t{64} << 10;

  WireCall(const CollectiveCall& call, int rank, int size, std::byte* scratch, size_t scratch_bytes)
      : call_(call),
        format_(call.scaling.wire.format()),
        scratch_(scratch),
        rank_(static_cast<size_t>(rank)),
        ranks_(static_cast<size_t>(size)),
        scatters_(call.collective == Collective::reduce_scatter),
        gets_result_(call.collective != Collective::reduce || rank == call.root) {
    const bool is_small = call.count <= kOneShot && block_bytes(call.count) * ranks_ <= kOneShot;
    const bool in_one = call.algorithm == Algorithm::one_shot ||
                        (call.algorithm == Algorithm::automatic && is_small);
    one_shot_ = in_one && !scatters_;

    // Scratch is two areas of a block for each rank.
    const size_t room = scratch_bytes / (2 * ranks_);
    const size_t per_group = kLargeWireGroup + kLargeWireGroup / format_.group * sizeof(float);
    most_ = room < 2 * kPad ? 0 : (room - 2 * kPad) / per_group * kLargeWireGroup;
  }

  // Whether scratch holds a group of each rank. If not, the call cannot be made.
  bool fits() const noexcept { return most_ != 0; }

  Algorithm algorithm() const noexcept {
    return one_shot_ ? Algorithm::one_shot : Algorithm::two_shot;
  }

  // The first of the plain calls for what begins at element `at`. No other is larger than the first
  // for element 0.
  CollectiveCall plain_call(size_t at = 0) const {
    if (one_shot_) return carrier(Collective::allgather, block_of(at), sums(), codes());
    return carrier(Collective::alltoall, block_of(at), codes(), sums());
  }

  // The beginning of a plan's reason, for people.
  std::string why() const {
    const size_t at_once = most_ * (scatters_ || one_shot_ ? 1 : ranks_);
    return text("wire ", dtype_name(format_.dtype), " in groups of ", format_.group, ", ",
        call_.count > at_once ? text(at_once, " elements at a time, ") : "",
        one_shot_ ? "all codes go to all ranks"
                  : "the codes of a slice go to the rank that combines them",
        ": ");
  }

  // Calls steps.encode(WireEncoding), .sum(WireSum) and .decode(WireDecoding), and
  // run(CollectiveCall). Calls of count 0 are run, too: ranks may have to agree on them.
  template <class Steps, class Run>
  void run(const Steps& steps, const Run& run) const {
    size_t at = 0;
    do {
      const size_t block = block_of(at);
      const size_t part =
          std::min(call_.count - at, one_shot_ || scatters_ ? block : block * ranks_);
      if (one_shot_) {
        in_one_shot(steps, run, at, part);
      } else {
        in_two_shots(steps, run, at, block, part);
      }
      at += part;
    } while (at < call_.count);
  }

 private:
  static constexpr size_t kPad = 16;

  template <class Steps, class Run>
  void in_one_shot(const Steps& steps, const Run& run, size_t at, size_t part) const {
    steps.encode({send_at(at), sums(), call_.dtype, format_, part, 1, 0, part});
    run(carrier(Collective::allgather, part, sums(), codes()));
    if (!gets_result_) return;
    steps.sum(sum_of(codes(), sums(), part, part));
    steps.decode({sums(), recv_at(at), call_.dtype, format_, part, part});
  }

  template <class Steps, class Run>
  void in_two_shots(
      const Steps& steps, const Run& run, size_t at, size_t block, size_t part) const {
    const size_t element = size_of(call_.dtype);
    const size_t stride = (scatters_ ? call_.count : block) * element;
    steps.encode({send_at(at), codes(), call_.dtype, format_, block, ranks_, stride,
        scatters_ ? ranks_ * block : part});
    run(carrier(Collective::alltoall, block, codes(), sums()));

    // What was sent may be overwritten: the codes of the sums lie where they would come from this
    // rank.
    std::byte* const own = codes() + (scatters_ ? 0 : rank_ * block_bytes(block));
    const size_t before = std::min(part, scatters_ ? 0 : rank_ * block);
    const size_t mine = std::min(block, part - before);
    steps.sum(sum_of(sums(), own, block, mine));
    if (!scatters_) run(carrier(Collective::allgather, block, own, codes()));
    if (gets_result_) {
      steps.decode({codes(), recv_at(at), call_.dtype, format_, block, part});
    }
  }

  WireSum sum_of(const std::byte* from, std::byte* to, size_t of, size_t count) const {
    return {from, to, format_, of, count, static_cast<int>(ranks_), call_.op == Op::avg,
        call_.order == Order::tree};
  }

  CollectiveCall carrier(
      Collective which, size_t block, const std::byte* send, std::byte* recv) const {
    CollectiveCall plain = call_;
    plain.collective = which;
    plain.algorithm = Algorithm::automatic;
    plain.dtype = DType::u8;
    plain.op = Op::sum;
    plain.order = Order::ranks;
    plain.count = block_bytes(block);
    plain.send = send;
    plain.recv = recv;
    plain.scaling.wire.carries = 1;
    plain.scaling.wire.set_operand(call_.dtype);
    plain.scaling.wire.averages = call_.op == Op::avg ? 1 : 0;
    plain.scaling.wire.collective = carried_number(call_.collective) & 3U;
    plain.scaling.wire.in_tree = call_.order == Order::tree ? 1 : 0;
    return plain;
  }

  // The elements of a block of the part that begins at element `at`.
  size_t block_of(size_t at) const noexcept {
    const size_t left = call_.count - at;
    if (one_shot_ || scatters_) return std::min(most_, left);
    const size_t each = left / ranks_ + (left % ranks_ != 0 ? 1 : 0);
    return std::min(most_, (each + format_.group - 1) / format_.group * format_.group);
  }

  size_t block_bytes(size_t count) const noexcept { return wire_block_bytes(count, format_.group); }

  const std::byte* send_at(size_t at) const noexcept {
    return static_cast<const std::byte*>(call_.send) + at * size_of(call_.dtype);
  }
  std::byte* recv_at(size_t at) const noexcept {
    return static_cast<std::byte*>(call_.recv) + at * size_of(call_.dtype);
  }
  std::byte* codes() const noexcept { return scratch_; }
  std::byte* sums() const noexcept { return scratch_ + ranks_ * block_bytes(most_); }

  const CollectiveCall& call_;
  const WireFormat format_;
  std::byte* const scratch_;
  const size_t rank_;
  const size_t ranks_;
  const bool scatters_;
  const bool gets_result_;
  bool one_shot_ = false;
  // Elements of a block, at most: a multiple of every group.
  size_t most_ = 0;
};
}  // namespace symm
