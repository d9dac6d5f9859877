// SPDX-License-Identifier: Apache-2.0
//
// Two ranks do what every program does: form a group, share memory, signal, all-reduce.
#include "tools/doctor/self_test.hpp"

#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "tools/doctor/capture.hpp"
#include "tools/doctor/finding.hpp"
#include "tools/library.hpp"

namespace symm::tool {
namespace {

constexpr size_t elements = size_t{1} << 16;
constexpr uint64_t deadline_ms = 10'000;

void require(bool right, const char* what) {
  if (!right) throw std::runtime_error(std::string(what) + " gave a wrong result");
}

void exchange_words(const Heap& heap, int32_t rank, int32_t size) {
  const int32_t next = (rank + 1) % size;
  const int32_t previous = (rank + size - 1) % size;
  const uint32_t word = 1000 + static_cast<uint32_t>(rank);
  check(symm_put_with_signal(heap.memory.get(), next, 0, &word, sizeof word, 0, nullptr), "symm_put_with_signal");
  check(symm_wait_signal(heap.memory.get(), previous, 0, deadline_ms, nullptr), "symm_wait_signal");
  uint32_t seen = 0;
  std::memcpy(&seen, heap.block, sizeof seen);
  require(seen == 1000 + static_cast<uint32_t>(previous), "symm_put_with_signal");
}

void sum(symm_group_t* group, const Heap& heap, int32_t rank, int32_t size) {
  auto* values = static_cast<float*>(heap.block);
  for (size_t i = 0; i < elements; ++i) values[i] = static_cast<float>(i % 1000) + static_cast<float>(rank);
  check(symm_allreduce(group, values, values, elements, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, nullptr), "symm_allreduce");
  const auto n = static_cast<float>(size);
  for (size_t i = 0; i < elements; ++i)
    require(values[i] == n * static_cast<float>(i % 1000) + n * (n - 1) / 2, "symm_allreduce");
}

}  // namespace

int run_self_test_rank() {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = SYMM_BACKEND_HOST;
  config.create_timeout_ms = deadline_ms;
  config.timeout_ms = deadline_ms;
  config.name = "doctor";
  const Group group = create_group(config);
  int32_t rank = 0;
  int32_t size = 0;
  check(symm_group_rank(group.get(), &rank), "symm_group_rank");
  check(symm_group_size(group.get(), &size), "symm_group_size");
  const Heap heap = make_heap(group.get(), elements * sizeof(float));
  exchange_words(heap, rank, size);
  check(symm_barrier(group.get(), nullptr, 0, 0, 0, nullptr), "symm_barrier");
  sum(group.get(), heap, rank, size);
  check(symm_group_finalize(group.get(), 0), "symm_group_finalize");
  return 0;
}

Finding self_test() {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const Captured result =
      capture({self, "run", "-n", "2", "--timeout", "25", "--grace", "1", "--", self, "self-test"}, std::chrono::seconds(40));
  if (result.status == 0)
    return {"self test", Verdict::ok, "two ranks formed a group, shared memory, signalled and all-reduced", ""};
  const std::string first_line = result.err.substr(0, result.err.find('\n'));
  return {"self test", Verdict::failure, first_line.empty() ? "ended with status " + std::to_string(result.status) : first_line,
          "Mend what is reported above first. SYMM_LOG=debug symm run -n 2 -- symm self-test shows more."};
}

}  // namespace symm::tool
