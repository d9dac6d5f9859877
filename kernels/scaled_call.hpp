// A scaled call, which has a factor or a result of another type than its operands, is
// made of plain calls on wide operands: f64 if the operands are f64, else f32. Operands
// are converted and multiplied before, results are multiplied and rounded after. So
// every algorithm can do it, and all give the same bits: those of convert, multiply,
// combine in the order of the call, divide (average), multiply, round once.
//
// If the wide operands fit into recv they are made there. Else they go through scratch,
// as much at a time as that holds, which is the same on all ranks. Operands that are wide
// already are combined from where they lie in an all-reduce. In a reduce-scatter their blocks lie
// apart; and in a reduce only the root would know that its results, in scratch, cannot be reached
// by other ranks, and would refuse alone what an algorithm needs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "kernels/collective.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/text.hpp"
#include "kernels/types.hpp"

namespace symm {
// Converts `blocks` blocks of `count` elements. In `to` the blocks lie one after the other; in
// `from` a block begins every `stride` bytes. One of the types is wide; both may be.
struct Conversion {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  DType from_dtype{};
  DType to_dtype{};
  size_t count = 0;
  size_t blocks = 1;
  size_t stride = 0;
  // Elements are multiplied by the call's factor while they are wide.
  bool scaled = false;
};

class ScaledCall {
 public:
  ScaledCall(
      const CollectiveCall& call, int rank, int size, std::byte* scratch, size_t scratch_bytes)
      : call_(call),
        scratch_(scratch),
        blocks_(traits(call.collective).send_per_rank ? static_cast<size_t>(size) : 1),
        rank_(static_cast<size_t>(rank)),
        gets_result_(!traits(call.collective).to_root || rank == call.root) {
    const Scaling& scaling = call.scaling;
    const bool changes = scaling.position == ScalePosition::before || call.dtype != wide();
    const bool narrows = scaling.result != wide();
    in_recv_ = changes && !narrows && call.collective == Collective::allreduce;
    in_scratch_ = (changes && !in_recv_) || narrows;
    makes_operands_ = changes || (narrows && call.collective != Collective::allreduce);
    most_ = in_scratch_ ? std::max<size_t>(1, scratch_bytes / size_of(wide()) / blocks_)
                        : std::max<size_t>(1, call.count);
  }

  // The plain call for what begins at element `at`. No other is larger than the first.
  CollectiveCall plain_call(size_t at = 0) const {
    CollectiveCall plain = call_;
    plain.dtype = wide();
    plain.count = std::min(most_, call_.count - at);
    if (in_recv_) plain.send = call_.recv;
    if (in_scratch_) {
      plain.send = makes_operands_ ? scratch_ : at_element(call_.send, at, wide());
      const size_t own_block = blocks_ > 1 ? rank_ * plain.unit() : 0;
      plain.recv = gets_result_ ? scratch_ + own_block : nullptr;
    }
    return plain;
  }

  // The beginning of a plan's reason, for people.
  std::string why() const {
    return text(
        dtype_name(wide()), in_scratch_ ? text(", ", most_, " elements at a time") : "", ": ");
  }

  // Calls convert(Conversion) and run(CollectiveCall) by turns. A call of count 0 is
  // run, too: ranks may have to agree on it.
  template <class Convert, class Run>
  void run(Convert convert, const Run& run) const {
    const Scaling& scaling = call_.scaling;
    const bool before = scaling.position == ScalePosition::before;
    const bool after = scaling.position == ScalePosition::after;
    auto* recv = static_cast<std::byte*>(call_.recv);

    size_t at = 0;
    do {
      const CollectiveCall plain = plain_call(at);
      const auto* wide_send = static_cast<const std::byte*>(plain.send);
      auto* wide_recv = static_cast<std::byte*>(plain.recv);
      if (makes_operands_) {
        convert(Conversion{at_element(call_.send, at, call_.dtype),
            const_cast<std::byte*>(wide_send), call_.dtype, wide(), plain.count, blocks_,
            call_.count * size_of(call_.dtype), before});
      }
      run(plain);
      if (gets_result_ && (in_scratch_ || after)) {
        convert(Conversion{wide_recv, recv + at * size_of(scaling.result), wide(), scaling.result,
            plain.count, 1, 0, after});
      }
      at += plain.count;
    } while (at < call_.count);
  }

 private:
  static const std::byte* at_element(const void* operand, size_t at, DType dtype) {
    return static_cast<const std::byte*>(operand) + at * size_of(dtype);
  }

  DType wide() const noexcept { return call_.dtype == DType::f64 ? DType::f64 : DType::f32; }

  const CollectiveCall& call_;
  std::byte* const scratch_;
  const size_t blocks_;
  const size_t rank_;
  const bool gets_result_;
  // The place where wide operands are made, if they are, and where results are before they are
  // rounded; neither: both are where the caller has them.
  bool in_recv_ = false;
  bool in_scratch_ = false;
  bool makes_operands_ = false;
  // Elements of a plain call, at most.
  size_t most_ = 0;
};
}  // namespace symm
