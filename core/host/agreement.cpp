// SPDX-License-Identifier: Apache-2.0
#include "core/host/agreement.hpp"

namespace symm::host {

DetailLine detail_of(const CollectiveCall& call) {
  DetailLine d{};
  d.collective = static_cast<int32_t>(call.collective);
  d.dtype = static_cast<int32_t>(call.dtype);
  d.op = takes_op(call.collective) ? static_cast<int32_t>(call.op) : 0;
  d.root = takes_root(call.collective) ? call.root : 0;
  d.algorithm = static_cast<int32_t>(call.algorithm);
  d.count = call.count;
  return d;
}

// Every field has bits of its own but the count, whose high half is folded in by an odd multiplier: calls that differ in the
// small fields only, which is what a mistake looks like, always differ here.
uint32_t signature_of(const DetailLine& d) {
  const uint64_t small = (static_cast<uint64_t>(static_cast<uint32_t>(d.dtype)) << 32) |
                         (static_cast<uint64_t>(static_cast<uint32_t>(d.root) & 0xFFFFU) << 16) |
                         (static_cast<uint64_t>(static_cast<uint32_t>(d.collective)) << 12) |
                         (static_cast<uint64_t>(static_cast<uint32_t>(d.op)) << 8) |
                         static_cast<uint64_t>(static_cast<uint32_t>(d.algorithm));
  uint64_t mixed = (small ^ (d.count * 0x9E3779B97F4A7C15U)) * 0xD6E8FEB86659FD93U;
  mixed ^= mixed >> 32;
  return static_cast<uint32_t>(mixed);
}

std::string describe(const DetailLine& d) {
  const auto collective = static_cast<Collective>(d.collective);
  std::string text = format("%s(%s", name_of(collective), name_of(static_cast<DType>(d.dtype)));
  if (takes_op(collective)) text += format(", %s", name_of(static_cast<Op>(d.op)));
  text += format(", count %llu", static_cast<unsigned long long>(d.count));
  if (takes_root(collective)) text += format(", root %d", d.root);
  if (d.algorithm != 0) text += format(", algorithm %s", name_of(static_cast<Algorithm>(d.algorithm)));
  return text + ")";
}

}  // namespace symm::host
