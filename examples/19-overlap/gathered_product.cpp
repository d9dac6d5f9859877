// A product that begins while its operand is still on its way.
//   symm run -n 4 -- symm_gathered_product
//
// C = A B, of which each rank has some rows of A and some columns of B, as a tensor-parallel layer
// has them behind a sequence-parallel one. Rows of A are gathered in chunks. Another thread waits
// for the word of each chunk and multiplies its rows at once: this rank's own first, then those of
// the ranks after it. In each round the words count on, so nothing is set back.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <symm/symm.h>
#include <symm/symm.hpp>

namespace {
constexpr size_t kRows = 256;  // of each rank
constexpr size_t kInner = 512;
constexpr size_t kColumns = 32;  // of each rank
constexpr size_t kRowsOfChunk = 16;
constexpr size_t kChunks = kRows / kRowsOfChunk;  // of each rank
constexpr uint32_t kRounds = 3;

// Small whole numbers, so that sums are exact.
float left(size_t row, size_t k, uint32_t round) {
  return static_cast<float>((row * 7 + k * 3 + round) % 8);
}
float right(size_t k, size_t column) { return static_cast<float>((k + column * 5) % 4); }

// The call of the other thread stores the word with release order.
void await(const uint32_t& word, uint32_t value) {
  while (static_cast<int32_t>(__atomic_load_n(&word, __ATOMIC_ACQUIRE) - value) < 0) {
    std::this_thread::yield();
  }
}

void multiply_rows(const std::vector<float>& a, const std::vector<float>& b, std::vector<float>& c,
    size_t first, size_t rows) {
  for (size_t row = first; row < first + rows; ++row) {
    for (size_t column = 0; column < kColumns; ++column) {
      float sum = 0;
      for (size_t k = 0; k < kInner; ++k) {
        sum += a[row * kInner + k] * b[k * kColumns + column];
      }
      c[row * kColumns + column] = sum;
    }
  }
}

// Looks at one element of each row.
bool is_right(const std::vector<float>& c, size_t rows, size_t first_column, uint32_t round) {
  for (size_t row = 0; row < rows; ++row) {
    const size_t column = row % kColumns;
    float sum = 0;
    for (size_t k = 0; k < kInner; ++k) {
      sum += left(row, k, round) * right(k, first_column + column);
    }
    if (c[row * kColumns + column] != sum) return false;
  }
  return true;
}
}  // namespace

int main() {
  try {
    const symm::Group group = symm::Group::create();
    const auto ranks = static_cast<size_t>(group.size());
    const auto me = static_cast<size_t>(group.rank());
    std::vector<float> mine(kRows * kInner);
    std::vector<float> a(ranks * mine.size());
    std::vector<float> b(kInner * kColumns);
    std::vector<float> c(ranks * kRows * kColumns);
    std::vector<uint32_t> words(ranks * kChunks, 0);
    for (size_t i = 0; i < b.size(); ++i) {
      b[i] = right(i / kColumns, me * kColumns + i % kColumns);
    }

    bool all_right = true;
    size_t early = 0;
    for (uint32_t round = 1; round <= kRounds; ++round) {
      for (size_t i = 0; i < mine.size(); ++i) {
        mine[i] = left(me * kRows + i / kInner, i % kInner, round);
      }

      std::atomic<bool> has_returned{false};
      std::thread consumer([&] {
        for (size_t step = 0; step < ranks; ++step) {
          const size_t rank = (me + step) % ranks;
          for (size_t chunk = 0; chunk < kChunks; ++chunk) {
            await(words[rank * kChunks + chunk], round);
            multiply_rows(a, b, c, rank * kRows + chunk * kRowsOfChunk, kRowsOfChunk);
            early += has_returned ? 0 : 1;
          }
        }
      });

      symm::Options options;
      options.chunk_bytes = kRowsOfChunk * kInner * sizeof(float);
      options.progress = words.data();
      options.word_value = round;
      try {
        group.allgather(symm::Span<const float>(mine.data(), mine.size()),
            symm::Span<float>(a.data(), a.size()), options);
      } catch (const symm::Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        std::_Exit(EXIT_FAILURE);  // the other thread waits for a word that will not come
      }
      has_returned = true;
      consumer.join();
      all_right = all_right && is_right(c, ranks * kRows, me * kColumns, round);
    }

    std::printf("rank %zu: the product is %s, %zu of %zu chunks were multiplied on the way\n", me,
        all_right ? "right" : "wrong", early, kRounds * ranks * kChunks);
    return all_right ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const symm::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
