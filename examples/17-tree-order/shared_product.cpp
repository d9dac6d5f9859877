// A product of matrices that has the same bits however many ranks share it.
//   symm run -n 4 -- symm_shared_product
//
// C = A B, of which each rank has a part of the columns of A and the same rows of B, as in a
// tensor-parallel layer. A rank multiplies its part block by block and adds the blocks as a
// balanced binary tree, in f32. The all-reduce in tree order then is the upper part of one tree of
// all blocks. On 1, 2, 4, 8, 16 or 32 ranks the last line is the same one.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <symm/symm.h>
#include <symm/symm.hpp>

namespace {
constexpr size_t kRows = 16;
constexpr size_t kColumns = 96;
constexpr size_t kInner = 1024;
constexpr size_t kBlocks = 32;  // of the inner dimension
constexpr size_t kBlock = kInner / kBlocks;

using Sums = std::vector<float>;  // kRows x kColumns

// Element `i` of matrix `which`, from -0.5 to 0.5.
float element(uint32_t which, size_t i) {
  uint32_t random = static_cast<uint32_t>(i) * 747'796'405U + which;
  random = (random ^ random >> 15) * 2'246'822'519U;
  return static_cast<float>(random >> 8) * 0x1p-24F - 0.5F;
}

Sums product_of_block(size_t block) {
  Sums sums(kRows * kColumns);
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t k = block * kBlock; k < (block + 1) * kBlock; ++k) {
      const float left = element(1, row * kInner + k);
      for (size_t column = 0; column < kColumns; ++column) {
        sums[row * kColumns + column] += left * element(2, k * kColumns + column);
      }
    }
  }
  return sums;
}

// The tree of `count` blocks from `first` on.
Sums product(size_t first, size_t count) {
  if (count == 1) return product_of_block(first);
  Sums sums = product(first, count / 2);
  const Sums right = product(first + count / 2, count / 2);
  for (size_t i = 0; i < sums.size(); ++i) {
    sums[i] += right[i];
  }
  return sums;
}

// A number that is made of all bits of the result.
uint64_t digest(const Sums& sums) {
  uint64_t all = 14'695'981'039'346'656'037U;
  for (const float sum : sums) {
    uint32_t bits = 0;
    std::memcpy(&bits, &sum, sizeof bits);
    all = (all ^ bits) * 1'099'511'628'211U;
  }
  return all;
}
}  // namespace

int main() {
  try {
    symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
    config.flags = SYMM_GROUP_TREE_ORDER;
    const symm::Group group = symm::Group::create(config);
    const auto ranks = static_cast<size_t>(group.size());
    if (kBlocks % ranks != 0) {
      std::fprintf(stderr, "%zu blocks are not shared evenly by %zu ranks\n", kBlocks, ranks);
      return EXIT_FAILURE;
    }

    const size_t share = kBlocks / ranks;
    const Sums mine = product(static_cast<size_t>(group.rank()) * share, share);
    Sums sums(mine.size());
    group.allreduce(symm::Span<const float>(mine.data(), mine.size()),
        symm::Span<float>(sums.data(), sums.size()), SYMM_OP_SUM);

    if (group.rank() == 0) {
      std::printf("%zu ranks: C[0] is %.9g\n", ranks, static_cast<double>(sums[0]));
      std::printf("all bits of C: %016lx\n", static_cast<unsigned long>(digest(sums)));
    }
    return EXIT_SUCCESS;
  } catch (const symm::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
