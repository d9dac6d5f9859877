// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/detail.hpp"

namespace symm::cuda {
namespace {

bool has_op(Collective collective) noexcept {
  return collective == Collective::allreduce || collective == Collective::reduce_scatter || collective == Collective::reduce;
}
bool has_root(Collective collective) noexcept { return collective == Collective::broadcast || collective == Collective::reduce; }

}  // namespace

Detail detail_of(const CollectiveCall& call) noexcept {
  uint64_t what = static_cast<uint64_t>(call.dtype) & 0xFFFF;
  what |= (static_cast<uint64_t>(call.collective) & 0xFF) << 16;
  what |= (has_op(call.collective) ? static_cast<uint64_t>(call.op) & 0xFF : 0) << 24;
  what |= (static_cast<uint64_t>(call.algorithm) & 0xFF) << 32;
  what |= (has_root(call.collective) ? static_cast<uint64_t>(call.root) & 0xFFFF : 0) << 40;
  return {what, call.count};
}

std::string describe(const Detail& detail) {
  const auto collective = static_cast<Collective>(detail.what >> 16 & 0xFF);
  const auto algorithm = static_cast<Algorithm>(detail.what >> 32 & 0xFF);
  std::string text = format("%s(%s", name_of(collective), name_of(static_cast<DType>(detail.what & 0xFFFF)));
  if (has_op(collective)) text += format(", %s", name_of(static_cast<Op>(detail.what >> 24 & 0xFF)));
  text += format(", count %llu", static_cast<unsigned long long>(detail.count));
  if (has_root(collective)) text += format(", root %d", static_cast<int>(detail.what >> 40 & 0xFFFF));
  if (algorithm != Algorithm::automatic) text += format(", algorithm %s", name_of(algorithm));
  return text + ")";
}

}  // namespace symm::cuda
