// Several processes form a group, share one symmetric heap, write into each other's
// memory, signal each other and all-reduce. Start it by: symm run -n 4 -- symm_demo
#include <unistd.h>

#include <bit>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

#include "symm/symm.h"
#include <symm/symm.hpp>

namespace {
constexpr size_t kHeap = size_t{4} << 20;  // bytes of heap

void expect(bool right, const char* what) {
  if (!right) throw std::runtime_error(std::string("wrong result: ") + what);
}

// Waits for all ranks, so that their output about one step comes before the next step. Printing
// itself is not ordered by a barrier: each rank has its own pipe, and the launcher keeps lines
// whole but not ranks in step.
void step(const symm::Group& group, const char* title) {
  std::fflush(stdout);
  group.barrier();
  if (group.rank() == 0) std::printf("\n== %s\n", title);
  std::fflush(stdout);
  group.barrier();
}

void write_to_neighbours(const symm::Group& group, const symm::Memory& memory) {
  constexpr size_t kDirect = 128;  // bytes behind the greeting
  const int rank = group.rank();
  const int right = (rank + 1) % group.size();
  const int left = (rank + group.size() - 1) % group.size();
  const auto hello = [](int to, int from) {
    return "hello " + std::to_string(to) + ", this is " + std::to_string(from) + " (pid ";
  };

  // With calls: copy a greeting into the right neighbour's block and signal that it is there.
  const std::string greeting = hello(right, rank) + std::to_string(getpid()) + ")";
  memory.put_signal(right, 0, symm::Span(greeting.c_str(), greeting.size() + 1));
  memory.wait_signal(left);
  const char* const found = memory.span<char>().data();
  std::printf("rank %d found in its block: \"%s\"\n", rank, found);
  expect(std::string(found).rfind(hello(rank, left), 0) == 0, "the left neighbour's greeting");

  // With a plain store: the left neighbour's block is mapped here like any memory.
  memory.span<volatile uint64_t>(left)[kDirect / 8] = 1000 + static_cast<uint64_t>(rank);
  memory.signal(left);
  memory.wait_signal(right);
  const uint64_t number = memory.span<volatile uint64_t>()[kDirect / 8];
  std::printf(
      "rank %d stored %d through a pointer into rank %d's block, and found %llu in its own\n", rank,
      1000 + rank, left, static_cast<unsigned long long>(number));
  expect(number == 1000 + static_cast<uint64_t>(right), "the right neighbour's store");
  group.barrier();
}

// All-reduces by one algorithm after another. The sum of these numbers depends on the order of
// additions, so each algorithm must give, bit for bit, what adding in the order of the ranks gives.
void add_up(const symm::Group& group, const symm::Memory& memory) {
  constexpr size_t kCount = 65537;
  const symm::Span<float> sum = memory.span<float>().subspan(0, kCount);
  const auto value = [](int rank, size_t i) {
    return 1.0F / static_cast<float>(i + 7 * static_cast<size_t>(rank) + 1);
  };

  for (const symm_algorithm_t algorithm :
      {SYMM_ALGORITHM_ONE_SHOT, SYMM_ALGORITHM_TWO_SHOT, SYMM_ALGORITHM_TWO_SHOT_STAGED}) {
    for (size_t i = 0; i < kCount; ++i) {
      sum[i] = value(group.rank(), i);
    }
    group.allreduce(sum, sum, SYMM_OP_SUM, {.algorithm = algorithm});
    for (size_t i = 0; i < kCount; ++i) {
      float expected = value(0, i);
      for (int rank = 1; rank < group.size(); ++rank) {
        expected += value(rank, i);
      }
      expect(std::bit_cast<uint32_t>(sum[i]) == std::bit_cast<uint32_t>(expected),
          "the sum differs from the serial one");
    }
  }

  std::printf(
      "rank %d: %zu sums begin with %.4f and end with %.6f; all sums equal the serial ones, bit "
      "for bit\n",
      group.rank(), kCount, static_cast<double>(sum[0]), static_cast<double>(sum[kCount - 1]));
}

void demo() {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = SYMM_BACKEND_HOST;
  config.create_timeout_ms = 20000;
  config.timeout_ms = 10000;
  config.name = "demo";
  const auto group = symm::Group::create(config);
  const int rank = group.rank();

  step(group, "The group");
  std::printf("rank %d of %d is process %d, found by %s\n", rank, group.size(),
      static_cast<int>(getpid()), group.info().bootstrap);

  step(group, "The symmetric heap");
  const auto memory = group.rendezvous(group.allocate(kHeap));
  std::printf("rank %d brought %zu MiB at %p and sees the blocks of all %d ranks\n", rank,
      kHeap >> 20, static_cast<void*>(memory.span().data()), group.size());

  step(group, "Writing into each other's memory, with signals");
  write_to_neighbours(group, memory);

  step(group, "All-reducing, by three algorithms in turn");
  add_up(group, memory);
  group.finalize();
}
}  // namespace

int main() {
  alarm(30);  // whatever happens, this ends
  try {
    demo();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
