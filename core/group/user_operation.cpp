#include "core/group/user_operation.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/group/collective.hpp"
#include "core/group/group.hpp"
#include "core/group/requests.hpp"
#include "kernels/collective.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/number.hpp"
#include "kernels/pieces.hpp"
#include "kernels/types.hpp"

namespace symm {
namespace {
constexpr char kReduceBy[] = "reduce_by";
// The operands of all ranks that are combined at a time, unless one element of each has more.
constexpr size_t kScratch = size_t{4} << 20;
// Bytes of an operand up to which one all-gather takes less time than two collectives.
constexpr size_t kFewBytes = 4096;
constexpr std::align_val_t kAlignment{64};

struct AlignedDelete {
  void operator()(std::byte* bytes) const noexcept { ::operator delete(bytes, kAlignment); }
};
using Scratch = std::unique_ptr<std::byte, AlignedDelete>;

Scratch scratch_of(size_t bytes) {
  return Scratch(static_cast<std::byte*>(::operator new(bytes, kAlignment)));
}

[[noreturn]] void refuse(const char* argument, const std::string& why) {
  throw Error(Status::invalid_argument, format("%s: %s", argument, why.c_str()));
}

bool is_possible(Collective collective) {
  return collective == Collective::allreduce || collective == Collective::reduce ||
         collective == Collective::reduce_scatter || traits(collective).of_prefix;
}

// Whether two operands have a byte in common. An empty one has none.
bool overlap(const std::byte* a, size_t a_bytes, const std::byte* b, size_t b_bytes) {
  const std::less<> before;
  return a_bytes != 0 && b_bytes != 0 && before(a, b + b_bytes) && before(b, a + a_bytes);
}

void check_operands(const Group& group, const UserReduction& r) {
  size_t unit = 0;
  size_t all = 0;
  if (__builtin_mul_overflow(r.count, r.element_bytes, &unit) ||
      __builtin_mul_overflow(unit, static_cast<size_t>(group.size()), &all) || all > PTRDIFF_MAX) {
    refuse("count",
        format("%zu elements of %zu bytes are more than memory has", r.count, r.element_bytes));
  }

  const bool receives = r.collective != Collective::reduce || r.root == group.rank();
  const OperandBytes bytes = operand_bytes(r.collective, unit, group.size());
  if (unit != 0 && r.send == nullptr) refuse("send", "is NULL");
  if (unit != 0 && receives && r.recv == nullptr) refuse("recv", "is NULL");
  if (!receives) return;

  // The block of send that lies where recv may lie in place.
  const auto* const send = static_cast<const std::byte*>(r.send);
  const auto* const recv = static_cast<const std::byte*>(r.recv);
  const size_t own =
      traits(r.collective).send_per_rank ? static_cast<size_t>(group.rank()) * unit : 0;
  if (overlap(send, bytes.send, recv, bytes.recv) && recv != send + own) {
    refuse("recv", format("overlaps send without being the in-place form of %s",
                       collective_name(r.collective)));
  }
}

void check(const Group& group, const UserReduction& r) {
  if (!is_valid(r.collective)) {
    throw Error(
        Status::unsupported, format("collective: %d is not known", static_cast<int>(r.collective)));
  }
  if (!is_possible(r.collective)) {
    refuse("collective", format("%s has no operation of the caller's; allreduce, reduce, "
                                "reduce_scatter, scan and exscan have",
                             collective_name(r.collective)));
  }
  if (group.backend().kind() != BackendKind::host) {
    throw Error(Status::unsupported,
        "combine: a function of the host's cannot combine memory of GPUs; it is of groups of the "
        "host back end");
  }
  if (r.combine == nullptr) refuse("combine", "is NULL");
  if (r.element_bytes == 0 || r.element_bytes > UserReduction::kMostElement) {
    refuse("element_bytes", format("%zu; there are elements of 1 to %zu bytes", r.element_bytes,
                                UserReduction::kMostElement));
  }
  if (r.collective == Collective::reduce) {
    group.require_rank("root", r.root);
  } else if (r.root != 0) {
    refuse("root", format("%d, but %s has none", r.root, collective_name(r.collective)));
  }
  check_operands(group, r);
}

class Reducer {
 public:
  Reducer(Group& group, const UserReduction& reduction, uint64_t timeout_ms)
      : group_(group),
        r_(reduction),
        timeout_ms_(timeout_ms),
        ranks_(static_cast<size_t>(group.size())),
        send_(static_cast<const std::byte*>(reduction.send)),
        recv_(static_cast<std::byte*>(reduction.recv)),
        most_(std::max<size_t>(
            1, std::min(reduction.count, kScratch / ranks_ / reduction.element_bytes))),
        operands_(scratch_of(most_ * ranks_ * reduction.element_bytes)) {}

  void run() {
    // Ranks find out that they differ even where there is nothing to do.
    if (r_.count == 0) return move(Collective::allgather, nullptr, nullptr, 0);

    for (size_t at = 0; at < r_.count; at += most_) {
      const size_t count = std::min(most_, r_.count - at);
      if (r_.collective == Collective::reduce_scatter) {
        scatter(at, count);
      } else if (traits(r_.collective).of_prefix) {
        gather_and_combine(at, count);
      } else {
        reduce(at, count);
      }
    }
  }

 private:
  size_t bytes(size_t elements) const { return elements * r_.element_bytes; }

  void move(Collective collective, const std::byte* from, std::byte* to, size_t elements) {
    const bool to_root = traits(collective).to_root;
    CollectiveCall call(collective, from, to, bytes(elements), static_cast<int32_t>(DType::u8),
        nullptr, 0, to_root ? r_.root : 0);
    Pieces pieces;
    if (traits(collective).in_pieces) call.pieces = &pieces;
    call.heaps = group_.heap_history();
    // Ranks whose steps are alike may be in unlike reductions.
    call.scaling.kind = Factor::step;
    call.scaling.factor =
        Number::of_bits(StepNumber::of(r_.collective, r_.root, r_.count, r_.element_bytes));
    call.timeout_ms = timeout_ms_;
    run_collective(group_, call);
  }

  // Combines the first `operands` operands of `count` elements each, which lie one behind the other
  // in scratch, into the first.
  void combine(size_t operands, size_t count) {
    std::byte* const into = operands_.get();
    for (size_t rank = 1; rank < operands; ++rank) {
      const int32_t result = r_.combine(r_.user, into, into + rank * bytes(count), count);
      if (result == 0) continue;
      group_.fail({Status::aborted, group_.rank(), group_.identity(group_.rank()).pid,
          format("rank %d aborted the group: %s: combine has returned %d", group_.rank(), kReduceBy,
              result)});
      group_.require_usable();
    }
  }

  void reduce(size_t at, size_t count) {
    const bool is_short = ranks_ == 1 || bytes(count) <= kFewBytes;
    const size_t slice = is_short ? 0 : count / ranks_;
    if (slice != 0) {
      move(Collective::alltoall, send_ + bytes(at), operands_.get(), slice);
      combine(ranks_, slice);
      const bool to_all = r_.collective == Collective::allreduce;
      std::byte* const to = recv_ == nullptr ? nullptr : recv_ + bytes(at);
      move(to_all ? Collective::allgather : Collective::gather, operands_.get(), to, slice);
    }
    const size_t whole = slice * ranks_;
    if (whole != count) gather_and_combine(at + whole, count - whole);
  }

  // Brings the operands of all ranks to each, which combines those that its result is made of.
  void gather_and_combine(size_t at, size_t count) {
    move(Collective::allgather, send_ + bytes(at), operands_.get(), count);
    if (r_.collective == Collective::reduce && r_.root != group_.rank()) return;
    const int combined = ranks_combined(r_.collective, group_.rank(), group_.size());
    if (combined == 0) return;
    combine(static_cast<size_t>(combined), count);
    std::memcpy(recv_ + bytes(at), operands_.get(), bytes(count));
  }

  void scatter(size_t at, size_t count) {
    const std::byte* from = send_;
    if (count != r_.count) {
      if (parts_ == nullptr) parts_ = scratch_of(bytes(most_) * ranks_);
      for (size_t rank = 0; rank < ranks_; ++rank) {
        std::memcpy(
            parts_.get() + rank * bytes(count), send_ + bytes(rank * r_.count + at), bytes(count));
      }
      from = parts_.get();
    }
    move(Collective::alltoall, from, operands_.get(), count);
    combine(ranks_, count);
    std::memcpy(recv_ + bytes(at), operands_.get(), bytes(count));
  }

  Group& group_;
  const UserReduction& r_;
  const uint64_t timeout_ms_;
  const size_t ranks_;
  const std::byte* const send_;
  std::byte* const recv_;
  // Elements of a rank that are combined at a time.
  const size_t most_;
  Scratch operands_;
  // Where the parts of a long reduce-scatter lie one behind the other.
  Scratch parts_;
};
}  // namespace

void reduce_by(Group& group, const UserReduction& reduction, uint64_t timeout_ms) {
  group.with_refusals_told(kReduceBy, [&] {
    group.require_usable();
    check(group, reduction);
  });
  group.settle_requests(RequestOrder::collective, kReduceBy, timeout_ms);
  Reducer(group, reduction, timeout_ms).run();
}
}  // namespace symm
