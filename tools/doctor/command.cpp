// symm doctor: runs the probes of tools/host and the self-tests, and prints what was found.
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/commands.hpp"
#include "tools/doctor/finding.hpp"
#include "tools/host/host.hpp"
#include "tools/run/job.hpp"
#include "tools/run/processes.hpp"
#include "tools/text.hpp"
#include "tools/top/shares.hpp"
#include <symm/symm.h>

namespace symm::tool {
// The ranks do what every program does: they form a group, share memory, signal, and
// all-reduce. `symm bench` checks every result.
Finding self_test(const char* check, const char* backend, int ranks, Verdict otherwise) {
  progress(check);
  ::setenv("SYMM_CREATE_TIMEOUT_MS", "20000", 1);
  ::setenv("SYMM_TIMEOUT_MS", "10000", 1);
  const std::string self = own_executable();

  for (const char* what : {"p2p", "allreduce"}) {
    const Captured result =
        capture({self, "run", "-n", std::to_string(ranks), "--timeout", "35", "--grace", "1", "--",
                    self, "bench", what, "--backend", backend, "-e", "256K", "-n", "2"},
            std::chrono::seconds(40));
    if (result.status == 0) continue;
    const std::string first_line = result.err.substr(0, result.err.find('\n'));
    return {check, otherwise,
        first_line.empty() ? "ended with status " + std::to_string(result.status) : first_line,
        std::string("Mend what is reported above first. SYMM_LOG=debug symm run -n ") +
            std::to_string(ranks) + " -- symm bench " + what + " --backend " + backend +
            " shows more."};
  }

  return {check, Verdict::ok,
      std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks") +
          " formed a group, shared memory, signalled and all-reduced",
      ""};
}

std::vector<Finding> examine() {
  progress("looking at this machine");
  const Feature peer = peer_pidfd();
  const CudaDriver driver = find_cuda_driver();
  int32_t devices = 0;
  const bool library_can = symm_device_count(SYMM_BACKEND_CUDA, &devices) == SYMM_OK;
  const std::string library_reason = library_can ? "" : symm_last_error();
  const std::string parent = library_parent();
  std::map<pid_t, std::string> unreadable;  // which symm top names
  std::vector<Finding> findings{
      judge_memfd(memfd_with_seals()),
      judge_memory_control_group(memory_control_group()),
      judge_shared_memory_mount(shared_memory_mount()),
      judge_open_files(limit_of(RLIMIT_NOFILE)),
      judge_locked_memory(limit_of(RLIMIT_MEMLOCK), driver.usable),
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
      judge_nccl(find_nccl()),
      judge_shares(look_at_shares(unreadable)),
      self_test("self test", "host", 2, Verdict::failure),
  };

  for (const Finding& finding : {check_proc("/proc"), check_job_directory(runtime_parent())}) {
    if (finding.verdict != Verdict::ok) findings.insert(findings.begin(), finding);
  }

  constexpr int32_t most = 8;  // GPUs of a group
  if (library_can && devices > 0) {
    findings.push_back(
        self_test("test of GPUs", "cuda", std::min(devices, most), Verdict::warning));
  }

  progress("");
  return findings;
}

void add_doctor(CLI::App& app, Action& action) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* doctor = app.add_subcommand("doctor",
      "Check what usually breaks, and say what to do about it (status 1 if something fails)");
  doctor->add_flag("--json", *as_json, "Write JSON");

  doctor->callback([&action, as_json] {
    action = [as_json] {
      const std::vector<Finding> findings = examine();
      const std::string text = *as_json ? doctor_json(findings).dump(2, ' ', false,
                                              nlohmann::json::error_handler_t::replace) +
                                              "\n"
                                        : doctor_text(findings, wants_colour(STDOUT_FILENO));
      std::fputs(text.c_str(), stdout);
      return std::fflush(stdout) != 0 || any_failure(findings) ? 1 : 0;
    };
  });
}
}  // namespace symm::tool
