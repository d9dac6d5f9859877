// One collective call: what its caller asked for. The C ABI makes it, core/group/checks.cpp checks
// it, and from then on it is referred to and never changed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/collective.hpp"
#include "kernels/number.hpp"
#include "kernels/pieces.hpp"
#include "kernels/rmsnorm.hpp"
#include "kernels/types.hpp"
#include "kernels/wire.hpp"

namespace symm {
enum class Factor : int16_t {
  value,    // equal on all ranks
  pointer,  // read when the call runs; it may differ from rank to rank
  mixed,    // a number that tells the value from others: an unpacked signature has no more
  step  // there is no factor: the bits of the number tell of which symm_reduce_by() this is a step
};

// The factor by which a sum is scaled, and the type of the results. If all is zero there is no
// factor, and results have the type of the operands.
struct Scaling {
  DType dtype{};   // the type of the caller's operands
  DType result{};  // the type of the caller's results
  ScalePosition position{};
  Factor kind{};
  // No part of the scaling, and never there with one. It lies here so that a signature fits in a
  // line. Kept, and added to, in the plain calls of a call with a wire (wire_call.hpp).
  Wire wire{};
  // If it is `mixed`, these 10 or 12 bits. Without a scaling it has the bits of a number that tells
  // chunks from others (ChunkWords) or a step of a reduction from others (StepNumber), or 0: a
  // signature has no room for both. Like the wire it is kept in the plain calls of a call in chunks
  // (chunked_call.hpp).
  Number factor;

  explicit operator bool() const noexcept { return dtype != DType{}; }
  // The rest is zero if there is no scaling, as in most calls.
  bool operator==(const Scaling& o) const noexcept {
    return dtype == o.dtype && wire == o.wire && factor == o.factor &&
           (!*this || (result == o.result && position == o.position && kind == o.kind));
  }
};

// The words of a call in chunks: those that it writes, or those that it waits for. Of chunk c of
// block b the word has index b * chunks + c.
struct ChunkWords {
  // Chunks begin at multiples of so many bytes, and so at packs of every kind of element.
  static constexpr size_t kUnit = 16;

  size_t chunk_bytes = 0;  // 0: the call is not in chunks
  uint32_t* progress = nullptr;
  const uint32_t* ready = nullptr;
  uint32_t value = 0;
  const uint32_t* pointer = nullptr;  // if it is given, the value is read there when the call runs

  explicit operator bool() const noexcept { return chunk_bytes != 0; }
  size_t chunks_of(size_t block_bytes) const noexcept {
    return block_bytes == 0 ? 0 : (block_bytes - 1) / chunk_bytes + 1;
  }
  // A number, other than 0, by which ranks find out that they do not cut alike.
  uint64_t number(size_t count) const noexcept {
    const uint64_t mixed = (chunk_bytes * 0x9E3779B97F4A7C15U ^ count) * 0xD6E8FEB86659FD93U;
    return (mixed ^ mixed >> 32) | 1;
  }
};

// The number, other than 0, that the steps of symm_reduce_by() have: they move bytes, and so say
// nothing of the reduction that they are of. It is the collective, and a hash of kHashBits of the
// root, the count and the size of an element. The first kBits, which are the collective and
// kLowBits of the hash, travel in a packed signature, and the other bits beside its count, so ranks
// that compare both compare the whole number.
struct StepNumber {
  static constexpr int kBits = 12;
  static constexpr int kLowBits = 8;
  static constexpr int kHashBits = kLowBits + 32;

  static uint64_t of(
      Collective collective, int32_t root, size_t count, size_t element_bytes) noexcept;
  static Collective collective(uint64_t number) noexcept;
  static uint64_t hash(uint64_t number) noexcept {
    return number >> kBits << kLowBits | (number & ((1U << kLowBits) - 1));
  }
  static uint32_t beside_count(uint64_t number) noexcept {
    return static_cast<uint32_t>(number >> kBits);
  }
};

// The place of a call in a batch. All zero: it is in none, or alone there.
struct BatchPlace {
  static constexpr uint32_t kMostCalls = 1U << 20;
  static constexpr uint32_t kSome = kMostCalls + 1;  // an unpacked signature does not know better

  uint64_t calls : 21 = 0;  // of the batch
  uint64_t index : 20 = 0;
  // A number made of the calls that are made as one (core/host/batch.hpp), of which `index` is the
  // first; 0: the call is made by itself.
  uint64_t merged : 23 = 0;

  BatchPlace() = default;
  // `number` is cut to the bits that there are.
  BatchPlace(size_t of, size_t at, uint64_t number = 0) noexcept
      : calls(of & ((1U << 21) - 1)),
        index(at & ((1U << 20) - 1)),
        merged(number & ((1U << 23) - 1)) {}

  explicit operator bool() const noexcept { return calls != 0; }
  bool operator==(const BatchPlace&) const = default;
};
static_assert(sizeof(BatchPlace) == sizeof(uint64_t));

// The part of a call that must agree on all ranks. A field that a collective does not have (an
// operator, a root) is 0.
struct CallSignature {
  Collective collective{};
  DType dtype{};
  Op op = Op::sum;
  int32_t root = 0;  // in an all-reduce with RMSNorm: hidden, the length of a row
  Algorithm algorithm = Algorithm::automatic;
  // 15 bits made of what the group's heaps were asked before, if ranks check each other. The first
  // call of a batch has them for all.
  uint16_t heaps = 0;
  // The most multiprocessors that a kernel may use, and so the most blocks that it has. 0: there is
  // no limit. A limit of kMostBlockLimit stands for all that are larger.
  uint8_t block_limit = 0;
  static constexpr int32_t kMostBlockLimit = UINT8_MAX;
  // Never Order::of_group. `tree` only if that makes a difference (set_order()).
  Order order = Order::ranks;
  BatchPlace batch{};
  // The elements that symm.h calls count: per rank in all collectives but allreduce, broadcast and
  // reduce; 0 if each piece has a count of its own.
  size_t count = 0;
  Scaling scaling{};  // kept in the plain calls that a scaled call is made of (scaled_call.hpp)

  bool operator==(const CallSignature&) const = default;
  // Sets the order of a call of `ranks` ranks whose other fields are set.
  void set_order(Order wanted, int ranks) noexcept;
  // All fields but the count, of a known type. A factor has 12 mixed bits, 8 in the place of the
  // root's upper byte; 10 if results are narrower than operands. A wire has the place of a factor.
  // Groups of more than 256 ranks are the host's, which compares hashes. In a batch the index of
  // the call stands where others have the heaps; calls[0] has 13 bits there that are made of the
  // heaps and of the number of calls.
  uint64_t packed() const noexcept;
  // The count, and in its upper half the number of the calls that were merged, or the bits of a
  // step's number that packed() has no room for. A step is in no batch, and moves less than 2^32
  // elements.
  uint64_t packed_count() const noexcept {
    const uint64_t above =
        is_step() ? StepNumber::beside_count(scaling.factor.bits()) : uint64_t{batch.merged};
    return above << 32 ^ count;
  }
  static CallSignature unpacked(uint64_t packed, uint64_t count) noexcept;
  uint32_t hash() const noexcept;
  std::string text() const;  // "allreduce(f32, sum, count 8)"; "?" for values that are not known

  size_t unit() const noexcept { return count * size_of(dtype); }  // bytes of `count` elements
  // Whether the call is in chunks, or is one of the plain calls of such a call.
  bool is_chunked() const noexcept { return !scaling && scaling.factor.bits() != 0 && !is_step(); }
  // Whether the call is a step of symm_reduce_by().
  bool is_step() const noexcept { return scaling.kind == Factor::step; }
  // Whether operands are to travel as codes. Calls that carry these have none of their own.
  bool has_wire() const noexcept { return scaling.wire && scaling.wire.carries == 0; }
};

// The number in a Wire of a collective that can have a wire.
constexpr uint32_t carried_number(Collective collective) noexcept {
  if (collective == Collective::reduce_scatter) return 1;
  return collective == Collective::reduce ? 2 : 0;
}

struct CollectiveCall : CallSignature {
  CollectiveCall() = default;
  // Takes the values as the caller has them: the data type and the operator may be unknown here.
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
  const void* scale_pointer = nullptr;  // points to an f32
  uint64_t timeout_ms = 0;              // resolved before the call is checked: never 0
  void* stream = nullptr;
  Pieces* pieces = nullptr;       // null unless the collective is in pieces
  const RmsNorm* norm = nullptr;  // null unless RMSNorm follows; a call that is planned needs none
  ChunkWords words{};             // not there in the plain calls of a call in chunks

  // Whether the call is made by one algorithm, and not of plain calls and what is done between
  // them.
  bool is_plain() const noexcept { return !scaling && norm == nullptr && !has_wire() && !words; }
  // The bytes that symm_group_stats_t counts.
  size_t bytes() const noexcept { return pieces == nullptr ? unit() : bytes_of_pieces(); }

 private:
  size_t bytes_of_pieces() const noexcept;
};

// An all-reduce with RMSNorm that is made of two calls by turns: an all-reduce of as many rows as
// scratch holds, a number that is equal on all ranks, and RMSNorm on them. The rows of a rank that
// is alone are their own sums, and are normalised where they lie.
class RowsOfNorm {
 public:
  RowsOfNorm(const CollectiveCall& call, int size, std::byte* scratch, size_t scratch_bytes)
      : call_(call),
        is_alone_(size == 1),
        scratch_(scratch),
        hidden_(static_cast<size_t>(call.root)),
        most_(std::max<size_t>(1, scratch_bytes / (hidden_ * size_of(call.dtype)))) {}

  // The all-reduce of rows from `first` on. It keeps `root` and `norm`, by which ranks tell it from
  // a plain one. No later call is larger than the first.
  CollectiveCall plain_call(size_t first = 0) const {
    CollectiveCall plain = call_;
    plain.collective = Collective::allreduce;
    plain.count = std::min(call_.count - first * hidden_, most_ * hidden_);
    plain.send = static_cast<const std::byte*>(call_.send) + first * hidden_ * size_of(call_.dtype);
    plain.recv = scratch_;
    return plain;
  }

  // Calls reduce(CollectiveCall) and normalise(RmsNorm, sums, rows) by turns. An all-reduce of
  // nothing is made too: ranks may have to agree on it.
  template <class Reduce, class Normalise>
  void run(const Reduce& reduce, Normalise normalise) const {
    if (is_alone_) {
      // The call moves nothing, and finds out whether the group has failed.
      CollectiveCall nothing = plain_call();
      nothing.count = 0;
      reduce(nothing);
      const size_t rows = call_.count / hidden_;
      if (rows != 0) normalise(*call_.norm, static_cast<const std::byte*>(call_.send), rows);
      return;
    }

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
  const bool is_alone_;
  std::byte* const scratch_;
  const size_t hidden_;
  const size_t most_;
};
}  // namespace symm
