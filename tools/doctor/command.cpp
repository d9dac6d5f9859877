#include <symm/symm.h>
#include <unistd.h>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <symm/symm.hpp>
#include "tools/commands.hpp"
#include "tools/doctor/finding.hpp"
#include "tools/run/job.hpp"
#include "tools/run/processes.hpp"
#include "tools/text.hpp"

namespace symm::tool {
namespace {
// Two ranks do what every program does: form a group, share memory, signal, all-reduce.
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

std::vector<Finding> examine() {
  const Feature peer = peer_pidfd();
  const CudaDriver driver = find_cuda_driver();
  int32_t devices = 0;
  const bool library_can = symm_device_count(SYMM_BACKEND_CUDA, &devices) == SYMM_OK;
  const std::string library_reason = library_can ? "" : symm_last_error();
  const std::string parent = library_parent();
  return {
      judge_memfd(memfd_with_seals()),
      judge_memory_control_group(memory_control_group()),
      judge_shared_memory_mount(shared_memory_mount()),
      judge_open_files(open_files()),
      judge_locked_memory(locked_memory(), driver.usable),
      judge_processors(usable_processors(), processor_quota()),
      judge_huge_pages(shmem_huge_pages()),
      check_runtime_directory(parent),
      judge_socket_path(parent, ::access("/proc/self/fd", X_OK) == 0),
      check_leftovers(runtime_parent(), parent),
      judge_pidfd(pidfd(), peer),
      judge_futex_waitv(futex_waitv()),
      judge_namespaces(own_namespaces(), peer.available),
      judge_cuda_driver(driver, library_can, library_reason),
      judge_ucx(find_ucx()),
      self_test(),
  };
}

void add_doctor(CLI::App& app, Action& action) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* doctor =
      app.add_subcommand("doctor", "Check what usually breaks, and say what to do about it (status 1 if something fails)");
  doctor->add_flag("--json", *as_json, "Write JSON");
  doctor->callback([&action, as_json] {
    action = [as_json] {
      const std::vector<Finding> findings = examine();
      const std::string text =
          *as_json ? doctor_json(findings).dump(2) + "\n" : doctor_text(findings, wants_colour(STDOUT_FILENO));
      std::fputs(text.c_str(), stdout);
      return std::fflush(stdout) != 0 || any_failure(findings) ? 1 : 0;
    };
  });
  CLI::App* self_test_rank = app.add_subcommand("self-test", "One rank of the doctor's self test")->group("");
  self_test_rank->callback([&action] { action = run_self_test_rank; });
}
}  // namespace symm::tool
