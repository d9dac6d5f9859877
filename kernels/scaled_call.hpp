// A call with a factor, or with a result wider than its operands, is made of plain
// calls on wide operands: of f64 on f64, else of f32. Operands are converted and
// multiplied before, results multiplied and rounded after, so every algorithm can do it
// and all give the same bits, those of: convert, multiply, combine in rank order,
// divide (average), multiply, round once.
//
// Where the wide operands fit into recv they are made there. Elsewhere they go through
// scratch, as much at a time as that holds, which is the same on all ranks.
#pragma once

#include <algorithm>

#include "kernels/collective_call.hpp"

namespace symm {
// `blocks` times `count` elements, one after the other in
// `to`; in `from` a block begins every `stride` bytes.
struct Conversion {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  DType from_dtype{}, to_dtype{};  // one of them is wide, and may be both
  size_t count = 0;
  size_t blocks = 1, stride = 0;
  bool scaled = false;  // by the call's factor, while wide
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
    const bool widens = scaling.position == ScalePosition::before || call.dtype != wide();
    in_recv_ = widens && scaling.result == wide() && call.collective == Collective::allreduce;
    in_scratch_ = widens && !in_recv_;
    most_ = in_scratch_ ? std::max<size_t>(1, scratch_bytes / size_of(wide()) / blocks_)
                        : std::max<size_t>(1, call.count);
  }

  // The plain call for what begins at element `at`. The first is as large as any.
  CollectiveCall plain_call(size_t at = 0) const {
    CollectiveCall plain = call_;
    plain.dtype = wide();
    plain.count = std::min(most_, call_.count - at);
    if (in_recv_) plain.send = call_.recv;
    if (in_scratch_) {
      plain.send = scratch_;
      plain.recv = gets_result_ ? scratch_ + (blocks_ > 1 ? rank_ * plain.unit() : 0) : nullptr;
    }
    return plain;
  }

  std::string why() const {  // for people: how a plan's reason begins
    return text(name_of(wide()), in_scratch_ ? text(", ", most_, " elements at a time") : "", ": ");
  }

  // convert(Conversion) and run(CollectiveCall) by turns. A
  // call of nothing is run too: ranks may have to agree on it.
  template <class Convert, class Run>
  void run(Convert convert, const Run& run) const {
    const Scaling& scaling = call_.scaling;
    const bool before = scaling.position == ScalePosition::before;
    const bool after = scaling.position == ScalePosition::after;
    const auto* send = static_cast<const std::byte*>(call_.send);
    auto* recv = static_cast<std::byte*>(call_.recv);
    size_t at = 0;
    do {
      const CollectiveCall plain = plain_call(at);
      const auto* wide_send = static_cast<const std::byte*>(plain.send);
      auto* wide_recv = static_cast<std::byte*>(plain.recv);
      if (in_recv_ || in_scratch_) {
        const size_t element = size_of(call_.dtype);
        convert(Conversion{send + at * element, const_cast<std::byte*>(wide_send), call_.dtype,
            wide(), plain.count, blocks_, call_.count * element, before});
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
  DType wide() const noexcept { return call_.dtype == DType::f64 ? DType::f64 : DType::f32; }

  const CollectiveCall& call_;
  std::byte* const scratch_;
  const size_t blocks_;
  const size_t rank_;
  const bool gets_result_;
  bool in_recv_ = false;     // the wide operands are made there
  bool in_scratch_ = false;  // or there
  size_t most_ = 0;          // elements of a plain call
};
}  // namespace symm
