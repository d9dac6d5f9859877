// One check's result. Probing (tools/host) and judging are apart, so that every verdict
// can be tested on any machine.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/host/host.hpp"

namespace symm::tool {
enum class Verdict : uint8_t { ok, note, warning, failure };

struct Finding {
  std::string check;  // "open files"
  Verdict verdict = Verdict::ok;
  std::string detail;  // what was found
  std::string remedy;  // what to do about it; "" if ok
};

// Kernel.
Finding judge_memfd(const Feature& memfd);
Finding judge_pidfd(const Feature& pidfd, const Feature& peer_pidfd);
Finding judge_futex_waitv(const Feature& futex_waitv);
Finding judge_huge_pages(const std::string& shmem_setting);

// Limits.
Finding judge_shared_memory_mount(const std::optional<Space>& mount);
Finding judge_memory_control_group(const std::optional<Space>& group);
Finding judge_open_files(const rlimit& limit);
Finding judge_locked_memory(const rlimit& limit, bool cuda);
Finding judge_processors(int usable, const std::optional<double>& quota);

// Directories and namespaces.
//
// The directory in which libsymm makes its directories if the launcher names none.
std::string library_parent();
Finding check_proc(const std::string& mount);
Finding check_job_directory(const std::string& parent);    // where symm run makes its own
Finding check_runtime_directory(const std::string& path);  // which need not exist yet
Finding judge_socket_path(const std::string& directory, bool proc_mounted);
Finding check_leftovers(const std::string& run_parent, const std::string& library_parent);
// "pid", "net" ..., that one first: of those that are not the machine's first
std::vector<std::string> own_namespaces();
Finding judge_namespaces(const std::vector<std::string>& own, bool peer_pidfd);

// Memory by tokens: what look_at_shares() tells.
Finding judge_shares(const nlohmann::json& shares);

// Devices, and everything together.
Finding judge_cuda_driver(
    const CudaDriver& driver, bool library_can, const std::string& library_reason);
Finding judge_ucx(const Ucx& ucx);
Finding judge_nccl(const Nccl& nccl);
Finding self_test();

std::vector<Finding> examine();

bool any_failure(const std::vector<Finding>& findings);
nlohmann::json doctor_json(const std::vector<Finding>& findings);
std::string doctor_text(const std::vector<Finding>& findings, bool colour);
}  // namespace symm::tool
