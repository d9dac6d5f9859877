#include "tools/run/environment.hpp"
#include <sys/random.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <system_error>

namespace symm::tool {
namespace {
constexpr std::array<std::string_view, 18> foreign_names = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK",
    "PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_PORT", "PMI_ID", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "SLURM_PROCID", "SLURM_NTASKS",
    "SLURM_NPROCS", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS", "SYMM_RUN_TERMINAL"};
constexpr std::array<std::string_view, 9> foreign_prefixes = {"OMPI_COMM_WORLD_", "PMIX_", "SYMM_RANK", "SYMM_SIZE",
    "SYMM_LOCAL_", "SYMM_JOB", "SYMM_BOOTSTRAP", "TORCHELASTIC_", "SLURM_STEP_TASKS_PER_NODE"};

bool foreign(std::string_view entry) {
  const std::string_view name = entry.substr(0, entry.find('='));
  return std::find(foreign_names.begin(), foreign_names.end(), name) != foreign_names.end() ||
         std::any_of(foreign_prefixes.begin(), foreign_prefixes.end(),
             [&](std::string_view prefix) { return name.substr(0, prefix.size()) == prefix; });
}
}  // namespace

std::string random_job_id() {
  uint64_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value))
    throw std::system_error(errno, std::generic_category(), "getrandom");
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::vector<std::string> rank_environment(const Job& job, int rank) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (!foreign(*entry) && (job.place.empty() || !std::string_view(*entry).starts_with("SYMM_SECRET_FILE=")))
      out.emplace_back(*entry);
  out.push_back("SYMM_RANK=" + std::to_string(job.first + rank));
  out.push_back("SYMM_SIZE=" + std::to_string(job.size > 0 ? job.size : job.ranks));
  out.push_back("SYMM_LOCAL_RANK=" + std::to_string(rank));
  out.push_back("SYMM_LOCAL_SIZE=" + std::to_string(job.ranks));
  out.push_back("SYMM_JOB=" + job.id);
  out.push_back(job.place.empty() ? "SYMM_BOOTSTRAP=dir://" + job.directory : "SYMM_BOOTSTRAP=tcp://" + job.place);
  if (!job.place.empty()) out.push_back("SYMM_SECRET_FILE=" + job.directory + "/secret");
  if (job.terminal) out.emplace_back("SYMM_RUN_TERMINAL=1");
  return out;
}
}  // namespace symm::tool
