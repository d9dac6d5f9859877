// SPDX-License-Identifier: Apache-2.0
#include "kernels/collective_call.hpp"

#include "kernels/text.hpp"

namespace symm {

uint64_t CallSignature::packed() const noexcept {
  const auto bits = [](auto value) { return static_cast<uint64_t>(static_cast<uint32_t>(value)); };
  return bits(heaps) << 48 | bits(dtype) << 32 | (bits(root) & 0xFFFF) << 16 | bits(collective) << 12 | bits(op) << 8 |
         bits(algorithm);
}

CallSignature CallSignature::unpacked(uint64_t packed, uint64_t count) noexcept {
  CallSignature signature;
  signature.heaps = static_cast<uint16_t>(packed >> 48);
  signature.dtype = static_cast<DType>(packed >> 32 & 0xFFFF);
  signature.root = static_cast<int32_t>(packed >> 16 & 0xFFFF);
  signature.collective = static_cast<Collective>(packed >> 12 & 0xF);
  signature.op = static_cast<Op>(packed >> 8 & 0xF);
  signature.algorithm = static_cast<Algorithm>(packed & 0xFF);
  signature.count = count;
  return signature;
}

// The high half of the count is folded in by an odd multiplier: calls that differ in the other fields only, which is what a
// mistake looks like, always differ here.
uint32_t CallSignature::hash() const noexcept {
  uint64_t mixed = (packed() ^ (count * 0x9E3779B97F4A7C15U)) * 0xD6E8FEB86659FD93U;
  mixed ^= mixed >> 32;
  return static_cast<uint32_t>(mixed);
}

std::string CallSignature::text() const {
  std::string all = symm::text(name_of(collective), "(", name_of(dtype));
  if (traits(collective).has_op) all += symm::text(", ", name_of(op));
  if (!has_counts(collective)) all += symm::text(", count ", count);
  if (traits(collective).has_root()) all += symm::text(", root ", root);
  if (algorithm != Algorithm::automatic) all += symm::text(", algorithm ", name_of(algorithm));
  all += ")";
  if (heaps != 0) all += symm::text(" after heap calls with hash ", heaps);
  return all;
}

}  // namespace symm
