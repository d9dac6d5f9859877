// Two ranks do what every program does: form a group, share memory, signal, all-reduce.
#include <filesystem>
#include <stdexcept>
#include <symm/symm.hpp>
#include "tools/doctor/capture.hpp"
#include "tools/doctor/finding.hpp"

namespace symm::tool {
namespace {
constexpr size_t elements = size_t{1} << 16;
constexpr uint64_t deadline_ms = 10'000;

void require(bool right, const char* what) {
  if (!right) throw std::runtime_error(std::string(what) + " gave a wrong result");
}

void exchange_words(const Group& group, const Memory& memory) {
  const int32_t next = (group.rank() + 1) % group.size();
  const int32_t previous = (group.rank() + group.size() - 1) % group.size();
  const uint32_t word = 1000 + static_cast<uint32_t>(group.rank());
  memory.put_signal(next, 0, Span(&word, 1));
  memory.wait_signal(previous, 0, deadline_ms);
  require(memory.span<uint32_t>()[0] == 1000 + static_cast<uint32_t>(previous), "symm_put_signal");
}

void sum(const Group& group, const Memory& memory) {
  const auto values = memory.span<float>();
  for (size_t i = 0; i < elements; ++i) values[i] = static_cast<float>(i % 1000) + static_cast<float>(group.rank());
  group.allreduce(values, values, SYMM_OP_SUM);
  const auto n = static_cast<float>(group.size());
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
  const Group group = Group::create(config);
  const Memory memory = group.rendezvous(group.allocate(elements * sizeof(float)));
  exchange_words(group, memory);
  group.barrier();
  sum(group, memory);
  group.finalize();
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
