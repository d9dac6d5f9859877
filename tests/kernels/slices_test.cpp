#include "kernels/host/slices.hpp"
#include "tests/support/test.hpp"

namespace symm::host { namespace {
TEST(Slices, CoverEverythingOnceAndCutAtLines) {
  for (const int parts : {1, 2, 3, 4, 7, 8, 64, 1000})
    for (const size_t bytes : {0U, 1U, 63U, 64U, 65U, 511U, 512U, 513U, 4096U, 100003U}) {
      size_t end = 0, largest = 0, smallest = bytes + 1;
      for (int i = 0; i < parts; ++i) {
        const Range part = slice(bytes, i, parts);
        EXPECT_EQ(part.begin, end);
        EXPECT_LE(part.begin, part.end);
        if (part.end != bytes) { EXPECT_EQ(part.end % kLine, 0U); }
        end = part.end;
        largest = std::max(largest, part.size());
        smallest = std::min(smallest, part.size());
      }
      EXPECT_EQ(end, bytes);
      EXPECT_LT(largest - smallest, 2 * kLine) << "a line, and what the last one lacks";
      EXPECT_EQ(slice(bytes, 0, parts).size(), largest) << "scratch for results is as large as the first";
    }
}
}}  // namespace symm::host
