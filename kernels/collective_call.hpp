// One collective call: what its caller asked for, made once and referred to ever after.
#pragma once

#include <algorithm>

#include "kernels/collective.hpp"
#include "kernels/pieces.hpp"
#include "kernels/rmsnorm.hpp"

namespace symm {
enum class Factor : int32_t {
  value,    // the same on all ranks
  pointer,  // read when the call runs, and may differ from rank to rank
  mixed     // a number that tells the value from others: all that an unpacked signature has
};

// By which factor a sum is scaled, and of which type it
// leaves. All zeros: by none, and of its operands' type.
struct Scaling {
  DType dtype{};   // of the caller's operands, ...
  DType result{};  // ... and of its results
  ScalePosition position{};
  Factor kind{};
  double factor = 0;

  explicit operator bool() const noexcept { return dtype != DType{}; }
  // Where there is none, which is so in most calls, the rest is zero.
  bool operator==(const Scaling& o) const noexcept {
    return dtype == o.dtype && (!*this || (result == o.result && position == o.position &&
                                              kind == o.kind && factor == o.factor));
  }
};

// What must agree on all ranks. What a collective does not have (an operator, a root) is 0.
struct CallSignature {
  Collective collective{};
  DType dtype{};
  Op op = Op::sum;
  int32_t root = 0;  // of an all-reduce with RMSNorm, hidden
  Algorithm algorithm = Algorithm::automatic;
  uint16_t heaps = 0;  // what the group's heaps were asked before, where ranks check each other
  // as in symm.h: per rank for all but allreduce,
  // broadcast and reduce; 0 where each piece has its own
  size_t count = 0;
  Scaling scaling{};  // also in the plain calls of which a scaled one is made (scaled_call.hpp)

  bool operator==(const CallSignature&) const = default;
  // All but the count; of a factor 12 bits, mixed, which of more than 256 ranks (the
  // host's, where it is hashed) the root shares.
  uint64_t packed() const noexcept;
  static CallSignature unpacked(uint64_t packed, uint64_t count) noexcept;
  uint32_t hash() const noexcept;
  std::string text() const;  // "allreduce(f32, sum, count 8)"; "?" for values that are not known

  size_t unit() const noexcept { return count * size_of(dtype); }  // bytes of `count` elements
};

struct CollectiveCall : CallSignature {
  CollectiveCall() = default;
  // As the caller has it: the data type and the operator may be values that are not known here.
  // Each field is set once. Of a struct of this size gcc would clear all first, by an instruction
  // that takes as long as the checks of a call.
  CollectiveCall(Collective which, const void* from, void* to, size_t elements, int32_t type,
      void* on, int32_t by = 0, int32_t at_root = 0) noexcept
      : CallSignature{.collective = which,
            .dtype = static_cast<DType>(type),
            .op = static_cast<Op>(by),
            .root = at_root,
            .count = elements},
        send(from),
        recv(to),
        stream(on) {}

  const void* send = nullptr;
  void* recv = nullptr;
  const void* scale_pointer = nullptr;  // an f32
  uint64_t timeout_ms = 0;              // already resolved: never 0
  void* stream = nullptr;
  Pieces* pieces = nullptr;       // of a collective in pieces
  const RmsNorm* norm = nullptr;  // of an all-reduce with RMSNorm; its plan needs none

  // As symm_group_stats_t counts them.
  size_t bytes() const noexcept { return pieces == nullptr ? unit() : bytes_of_pieces(); }

 private:
  size_t bytes_of_pieces() const noexcept;
};

// An all-reduce with RMSNorm that is made of two: as many rows at a time as scratch
// holds, which is the same on all ranks.
class RowsOfNorm {
 public:
  RowsOfNorm(const CollectiveCall& call, std::byte* scratch, size_t scratch_bytes)
      : call_(call),
        scratch_(scratch),
        hidden_(static_cast<size_t>(call.root)),
        most_(std::max<size_t>(1, scratch_bytes / (hidden_ * size_of(call.dtype)))) {}

  // The all-reduce of rows from `first` on, which keeps root and `norm`, to be told
  // from others. The first is as large as any.
  CollectiveCall plain_call(size_t first = 0) const {
    CollectiveCall plain = call_;
    plain.collective = Collective::allreduce;
    plain.count = std::min(call_.count - first * hidden_, most_ * hidden_);
    plain.send = static_cast<const std::byte*>(call_.send) + first * hidden_ * size_of(call_.dtype);
    plain.recv = scratch_;
    return plain;
  }

  // reduce(CollectiveCall) and normalise(RmsNorm, sums, rows) by turns. A call of
  // nothing is made too: ranks may have to agree on it.
  template <class Reduce, class Normalise>
  void run(const Reduce& reduce, Normalise normalise) const {
    size_t first = 0;
    do {
      const CollectiveCall plain = plain_call(first);
      reduce(plain);
      if (plain.count != 0) {
        normalise(call_.norm->from_row(first, call_.dtype), scratch_, plain.count / hidden_);
      }
      first += most_;
    } while (first * hidden_ < call_.count);
  }

 private:
  const CollectiveCall& call_;
  std::byte* const scratch_;
  const size_t hidden_;
  const size_t most_;
};
}  // namespace symm
