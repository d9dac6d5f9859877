// The instruction sets that a processor of this architecture may have. A test of one that this very processor lacks is skipped.
#pragma once

#include "kernels/host/arithmetic/reduce.hpp"
#include "kernels/host/arithmetic/simd.hpp"
#include "tests/support/test.hpp"

namespace symm::host {
#if defined(__aarch64__)
inline constexpr Simd kSimds[] = {Simd::scalar, Simd::neon};
#else
inline constexpr Simd kSimds[] = {Simd::scalar, Simd::sse4, Simd::avx2, Simd::avx512};
#endif

// A test that works with one of them, and leaves what it found.
class SimdTest : public ::testing::Test {
 protected:
  ~SimdTest() override { use_simd(before_); }
  static void require(Simd simd) {
    if (!use_simd(simd)) GTEST_SKIP() << "this processor has no " << name_of(simd);
  }
 private:
  const Simd before_ = current_simd();
};

// Of as many ranks as there are sources, to one destination if any.
inline Reduction reduction(DType dtype, Op op, size_t count, const std::vector<const std::byte*>& from, std::byte** to) {
  Reduction r{.dtype = dtype, .op = op, .count = count, .sources = from.data(), .source_count = static_cast<int>(from.size())};
  r.ranks = from.empty() ? 1 : r.source_count;
  r.destinations = to;
  r.destination_count = to == nullptr ? 0 : 1;
  return r;
}
}  // namespace symm::host
