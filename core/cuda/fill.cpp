// Memory is set by the driver's own calls, which graphs record as nodes.
#include "core/cuda/fill.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/cuda/driver.hpp"
#include "kernels/compare.hpp"
#include "kernels/neutral.hpp"

namespace symm::cuda {
namespace {
// The driver sets words of 4 bytes at most. Each word of a longer value is a column of them, one in
// every value.
void issue_columns(const Driver& driver, CUdeviceptr to, std::span<const uint32_t> words,
    size_t count, CUstream stream) {
  for (size_t at = 0; at < words.size(); ++at) {
    driver.require(driver.cuMemsetD2D32Async(
                       to + at * sizeof(uint32_t), words.size_bytes(), words[at], 1, count, stream),
        "cuMemsetD2D32Async");
  }
}

void issue_fill64(const Driver& driver, CUdeviceptr to, const Copies& copies, CUstream stream) {
  const auto low = static_cast<uint32_t>(copies.value);
  const auto high = static_cast<uint32_t>(copies.value >> 32);
  if (low == high) {
    driver.require(driver.cuMemsetD32Async(to, low, 2 * copies.count, stream), "cuMemsetD32Async");
    return;
  }
  const uint32_t words[] = {low, high};
  issue_columns(driver, to, words, copies.count, stream);
}
}  // namespace

void issue_fill(const Driver& driver, CUdeviceptr to, const NeutralWords& value, size_t count,
    CUstream stream) {
  const uint32_t words[] = {static_cast<uint32_t>(value.low),
      static_cast<uint32_t>(value.low >> 32), static_cast<uint32_t>(value.high),
      static_cast<uint32_t>(value.high >> 32)};
  issue_columns(driver, to, words, count, stream);
}

void issue_fill(const Driver& driver, CUdeviceptr to, const Copies& copies, CUstream stream) {
  switch (copies.bytes) {
    case 1:
      driver.require(
          driver.cuMemsetD8Async(to, static_cast<uint8_t>(copies.value), copies.count, stream),
          "cuMemsetD8Async");
      return;
    case 2:
      driver.require(
          driver.cuMemsetD16Async(to, static_cast<uint16_t>(copies.value), copies.count, stream),
          "cuMemsetD16Async");
      return;
    case 4:
      driver.require(
          driver.cuMemsetD32Async(to, static_cast<uint32_t>(copies.value), copies.count, stream),
          "cuMemsetD32Async");
      return;
    default: return issue_fill64(driver, to, copies, stream);
  }
}
}  // namespace symm::cuda
