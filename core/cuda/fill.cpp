// Memory is set by the driver's own calls, which graphs record as nodes.
#include "core/cuda/fill.hpp"

#include <cstddef>
#include <cstdint>

#include "core/cuda/driver.hpp"
#include "kernels/compare.hpp"

namespace symm::cuda {
namespace {
// The driver sets words of 4 bytes at most. Where the halves of a value of 8 bytes differ, each of
// them is a column of words, one in every 8 bytes.
void issue_fill64(const Driver& driver, CUdeviceptr to, const Copies& copies, CUstream stream) {
  const auto low = static_cast<uint32_t>(copies.value);
  const auto high = static_cast<uint32_t>(copies.value >> 32);
  if (low == high) {
    driver.require(driver.cuMemsetD32Async(to, low, 2 * copies.count, stream), "cuMemsetD32Async");
    return;
  }

  const auto issue_column = [&](CUdeviceptr at, uint32_t value) {
    driver.require(
        driver.cuMemsetD2D32Async(at, sizeof copies.value, value, 1, copies.count, stream),
        "cuMemsetD2D32Async");
  };
  issue_column(to, low);
  issue_column(to + sizeof low, high);
}
}  // namespace

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
