// Reads from the environment of each launcher which rank this process is, and refuses sources
// that disagree.
#include "core/bootstrap/launch.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/process.hpp"
#include "core/bootstrap/store.hpp"

namespace symm {
namespace {
// One source of the launch, with the names of the variables of rank and size.
struct Source {
  Launch launch;
  std::string rank_name;
  std::string size_name;
  int agents = 0;  // torchrun: how many processes started the ranks; 0: not known
};

class Parser {
 public:
  explicit Parser(const Environment& environment) : environment_(environment) {}

  std::string text(Variable name) const {
    const auto found = environment_.find(name.name());
    return found == environment_.end() ? std::string() : found->second;
  }

  bool has(Variable name) const { return !text(name).empty(); }

  Variable either(Variable name, Variable older) const { return has(name) ? name : older; }

  int64_t number(Variable name, int64_t lowest, int64_t highest) const {
    const std::string value = text(name);
    int64_t parsed = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    if (error != std::errc() || end != value.data() + value.size() || value.empty() ||
        parsed < lowest || parsed > highest) {
      throw Error(
          Status::invalid_argument, format("%s is '%s'; it must be a whole number from %ld to %ld",
                                        name.name(), value.c_str(), lowest, highest));
    }
    return parsed;
  }

  Source source(const char* title, Variable rank, Variable size) const {
    Source found;
    found.rank_name = rank.name();
    found.size_name = size.name();
    found.launch.source = title;
    found.launch.size = static_cast<int>(number(size, 1, kMax));
    found.launch.rank = static_cast<int>(number(rank, 0, kMax));

    if (found.launch.rank >= found.launch.size) {
      throw Error(Status::invalid_argument,
          format("%s is %d, but there are only %s = %d ranks", rank.name(), found.launch.rank,
              size.name(), found.launch.size));
    }
    return found;
  }

  // The number of ranks on this machine; -1 if the variable is not set.
  int local_size(Variable name) const {
    return has(name) ? static_cast<int>(number(name, 1, kMax)) : -1;
  }

 private:
  static constexpr int64_t kMax = 1 << 20;
  const Environment& environment_;
};

std::optional<Source> from_symm(const Parser& parser) {
  if (!parser.has("SYMM_RANK") && !parser.has("SYMM_SIZE")) return std::nullopt;

  for (const Variable name : {Variable("SYMM_RANK"), Variable("SYMM_SIZE")}) {
    if (!parser.has(name)) {
      throw Error(Status::invalid_argument,
          format("%s is missing: SYMM_RANK and SYMM_SIZE go together", name.name()));
    }
  }

  Source found = parser.source("SYMM_*", "SYMM_RANK", "SYMM_SIZE");
  found.launch.job = "symm-" + parser.text("SYMM_JOB");
  return found;
}

std::optional<Source> from_open_mpi(const Parser& parser) {
  if (!parser.has("OMPI_COMM_WORLD_RANK") || !parser.has("OMPI_COMM_WORLD_SIZE")) {
    return std::nullopt;
  }

  Source found = parser.source("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  found.launch.local_size = parser.local_size("OMPI_COMM_WORLD_LOCAL_SIZE");
  const std::string job = parser.has("PMIX_NAMESPACE") ? parser.text("PMIX_NAMESPACE")
                                                       : parser.text("OMPI_MCA_ess_base_jobid");
  if (!job.empty()) found.launch.job = "openmpi-" + job;
  return found;
}

std::optional<Source> from_pmi(const Parser& parser) {
  if (!parser.has("PMI_RANK") || !parser.has("PMI_SIZE")) return std::nullopt;
  Source found = parser.source("PMI", "PMI_RANK", "PMI_SIZE");
  found.launch.local_size = parser.local_size("MPI_LOCALNRANKS");
  if (parser.has("PMI_FD")) {
    found.launch.pmi_fd = static_cast<int>(parser.number("PMI_FD", 0, 1 << 30));
  }
  return found;
}

std::optional<Source> from_torchrun(const Parser& parser) {
  if (!parser.has("RANK") || !parser.has("WORLD_SIZE")) {
    return std::nullopt;  // what one of them says by itself is for refusal_of()
  }

  Source found = parser.source("torchrun", "RANK", "WORLD_SIZE");
  found.launch.local_size = parser.local_size("LOCAL_WORLD_SIZE");
  if (parser.has("TORCHELASTIC_RUN_ID") && parser.has("GROUP_WORLD_SIZE")) {
    found.agents = static_cast<int>(parser.number("GROUP_WORLD_SIZE", 1, found.launch.size));
  }

  // A restart is a new job: workers of the former attempt may still be running.
  found.launch.job = "torchrun";
  for (const Variable name : {Variable("TORCHELASTIC_RUN_ID"), Variable("MASTER_ADDR"),
           Variable("MASTER_PORT"), Variable("TORCHELASTIC_RESTART_COUNT")}) {
    found.launch.job += "-" + parser.text(name);
  }
  return found;
}

std::optional<Source> from_slurm(const Parser& parser) {
  const Variable step = parser.either("SLURM_STEP_ID", "SLURM_STEPID");
  const Variable tasks = parser.either("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS");
  if (!parser.has(step) || !parser.has("SLURM_PROCID") || !parser.has(tasks)) return std::nullopt;

  // The highest numbers stand for the batch script, the interactive step and other steps that have
  // no tasks.
  constexpr int64_t kFirstSpecialStep = 0xfffffff0;
  if (parser.number(step, 0, UINT32_MAX) >= kFirstSpecialStep) return std::nullopt;

  Source found = parser.source("Slurm", "SLURM_PROCID", tasks);
  found.launch.job = "slurm-" + parser.text("SLURM_JOB_ID") + "." + parser.text(step);
  const Variable nodes = parser.either("SLURM_STEP_NUM_NODES", "SLURM_NNODES");
  if (parser.has(nodes)) {
    // 0 stands for some of the ranks: the variables do not say how many.
    found.launch.local_size = parser.number(nodes, 1, 1 << 20) == 1 ? found.launch.size : 0;
  }
  return found;
}

// The first host of a list such as "node[003-005,7]-ib,gpu1": a pair of brackets stands for the
// digits that come first in it.
std::string first_host(Variable name, const std::string& list) {
  std::string host;
  bool valid = true;
  size_t at = 0;
  for (; valid && at < list.size() && list[at] != ','; ++at) {
    const bool ranges = list[at] == '[';
    const size_t end = ranges ? list.find_first_of("-,]", at + 1) : at + 1;
    const size_t close = ranges ? list.find(']', at) : at;
    const std::string part = list.substr(at + ranges, end - at - ranges);

    valid = close != std::string::npos && !part.empty() &&
            std::all_of(part.begin(), part.end(), [&](unsigned char letter) {
              return std::isdigit(letter) != 0 ||
                     (!ranges && (std::isalpha(letter) != 0 || letter == '-' || letter == '.' ||
                                     letter == '_'));
            });
    host += part;
    at = close;
  }
  if (valid && !host.empty()) return host;
  throw Error(Status::invalid_argument,
      format("%s is '%s'; it must be a list of hosts, as node[003-005,7],gpu1", name.name(),
          list.c_str()));
}

// Finds out whether there are several machines, and where rank 0 is. The variables that tell the
// place may be set for ranks of one machine, too; then they do not count.
void look_for_several_machines(const Parser& parser, Launch& launch, bool by_slurm) {
  launch.several = launch.size == 0 || (launch.local_size >= 0 && launch.local_size != launch.size);
  if (!launch.several) return;

  const bool chosen = parser.has("SYMM_PORT");
  int64_t port = chosen ? parser.number("SYMM_PORT", 1, UINT16_MAX) : 0;
  launch.port = static_cast<uint16_t>(port);

  if (parser.has("MASTER_ADDR") && (chosen || parser.has("MASTER_PORT"))) {
    if (!chosen) port = parser.number("MASTER_PORT", 0, UINT16_MAX - 1) + 1;
    launch.place = parser.text("MASTER_ADDR") + ":" + std::to_string(port);
  } else if (by_slurm && parser.has("SLURM_STEP_NODELIST")) {
    const Variable step = parser.either("SLURM_STEP_ID", "SLURM_STEPID");
    if (!chosen) {
      port = 20'000 +
             (parser.number("SLURM_JOB_ID", 0, UINT32_MAX) + parser.number(step, 0, UINT32_MAX)) %
                 10'000;
    }
    launch.place = first_host("SLURM_STEP_NODELIST", parser.text("SLURM_STEP_NODELIST")) + ":" +
                   std::to_string(port);
  }
}

// A launcher whose ranks would be taken for single processes, because symm reads no size of it.
struct UnreadLauncher {
  const char* title;
  Variable rank;
  std::optional<Variable> size;
};

constexpr UnreadLauncher kUnread[] = {
    {"MVAPICH2", "MV2_COMM_WORLD_RANK", Variable("MV2_COMM_WORLD_SIZE")},
    {"MVAPICH", "MPIRUN_RANK", Variable("MPIRUN_NPROCS")},
    {"Flux", "FLUX_TASK_RANK", Variable("FLUX_JOB_SIZE")},
    {"jsrun", "JSM_NAMESPACE_RANK", Variable("JSM_NAMESPACE_SIZE")},
    {"horovodrun", "HOROVOD_RANK", Variable("HOROVOD_SIZE")},
    {"Platform MPI", "MPI_RANKID", Variable("MPI_NRANKS")},
    {"IBM poe", "MP_CHILD", Variable("MP_PROCS")},
    {"aprun", "ALPS_APP_PE", std::nullopt},
    {"Cray PALS", "PALS_RANKID", std::nullopt},
    // A launcher that is known and does not say how many ranks there are.
    {"Open MPI", "OMPI_COMM_WORLD_RANK", Variable("OMPI_COMM_WORLD_SIZE")},
    {"PMI", "PMI_RANK", Variable("PMI_SIZE")},
    {"PMI", "PMI_ID", std::nullopt},
    {"PMIx without PMIX_NAMESPACE", "PMIX_RANK", std::nullopt},
};

// Why this process, for which no source was found, is one of several ranks all the same: half of a
// source says so. "" if there is no such half. RANK by itself is none, because programs use the
// name for what they like; nor is what Slurm sets in a batch script, which is no task of a step but
// has the number of tasks, and 0 for its own.
std::string half_of_a_source(const Parser& parser) {
  const auto half = [&](Variable there, Variable missing) {
    return format(
        "%s is '%s', and %s is missing: this process may be one of several ranks, and nothing says "
        "which; set both, or SYMM_RANK and SYMM_SIZE, or unset %s for a group of one",
        there.name(), parser.text(there).c_str(), missing.name(), there.name());
  };

  const bool has_size = parser.has("WORLD_SIZE") && parser.text("WORLD_SIZE") != "1";
  if (has_size && !parser.has("RANK")) return half("WORLD_SIZE", "RANK");
  const bool is_rank_of_torch = parser.has("RANK") && parser.has("MASTER_ADDR");
  if (is_rank_of_torch && !parser.has("WORLD_SIZE")) return half("RANK", "WORLD_SIZE");

  const Variable step = parser.either("SLURM_STEP_ID", "SLURM_STEPID");
  const Variable tasks = parser.either("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS");
  const bool is_task = parser.has("SLURM_PROCID") && parser.text("SLURM_PROCID") != "0";
  if (is_task && !parser.has(step)) return half("SLURM_PROCID", "SLURM_STEP_ID");
  if (is_task && !parser.has(tasks)) return half("SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
  return "";
}

// Why this process, whose sources tell of no other rank, is not a single process; "" if it is one.
// A source with one rank (`has_source`) may be the job around a launcher that is not read, but only
// a size says so: some launchers also set what is read.
std::string refusal_of(const Parser& parser, bool has_source) {
  for (const UnreadLauncher& launcher : kUnread) {
    const std::string size = launcher.size ? parser.text(*launcher.size) : "";
    const bool single = size == "1" || (has_source && size.empty());
    if (!parser.has(launcher.rank) || single) continue;

    return format(
        "%s is '%s': this process is a rank of a launcher (%s) of which symm does not "
        "read how many ranks there are; start the ranks by symm run, or set SYMM_RANK, "
        "SYMM_SIZE and SYMM_JOB (or SYMM_BOOTSTRAP), or unset %s for a group of one",
        launcher.rank.name(), parser.text(launcher.rank).c_str(), launcher.title,
        launcher.rank.name());
  }
  return has_source ? "" : half_of_a_source(parser);
}

// Removes the launchers that started torchrun's agents. Returns whether there were any. GROUP_RANK
// need not be the rank of the agent: the agents' rendezvous gives it.
bool leave_out_launchers_of_agents(std::vector<Source>& sources) {
  const auto torchrun = std::find_if(sources.begin(), sources.end(),
      [](const Source& source) { return source.launch.source == "torchrun"; });
  if (torchrun == sources.end() || torchrun->agents == 0) return false;

  const int agents = torchrun->agents;
  return std::erase_if(sources, [agents](const Source& source) {
    const bool other = source.launch.source != "torchrun" && source.launch.source != "SYMM_*";
    return other && source.launch.size == agents;
  }) > 0;
}

void compare(const Source& used, const Source& other) {
  const bool same_rank = used.launch.rank == other.launch.rank;
  if (same_rank && used.launch.size == other.launch.size) return;
  const std::string& name = same_rank ? used.size_name : used.rank_name;
  const std::string& other_name = same_rank ? other.size_name : other.rank_name;
  throw Error(
      Status::mismatch, format("%s and %s disagree: %s is %d, but %s is %d; unset the variables of "
                               "the one that did not start this process",
                            used.launch.source.c_str(), other.launch.source.c_str(), name.c_str(),
                            same_rank ? used.launch.size : used.launch.rank, other_name.c_str(),
                            same_rank ? other.launch.size : other.launch.rank));
}
}  // namespace

Environment current_environment() {
  Environment all;
  for (const EnvironmentRow& row : kEnvironment) {
    if (row.fallback != nullptr) all.emplace(row.name, environment(Variable(row)));
  }
  return all;
}

Launch parse_environment(const Environment& environment) {
  const Parser parser(environment);
  std::vector<Source> sources;
  for (const auto parse : {from_symm, from_open_mpi, from_pmi, from_torchrun, from_slurm}) {
    if (auto found = parse(parser)) sources.push_back(std::move(*found));
  }

  const bool in_agent = leave_out_launchers_of_agents(sources);

  // A source with one rank is the job around the launcher if another source has more.
  bool any_has_more = false;
  for (const Source& source : sources) {
    any_has_more = any_has_more || source.launch.size > 1;
  }
  if (any_has_more) {
    std::erase_if(sources, [](const Source& source) {
      return source.launch.size == 1 && source.launch.source != "SYMM_*";
    });
  }

  Launch launch;
  launch.source = "single process";
  // The PMIx server around torchrun's agents knows the agents only.
  const bool pmix = !in_agent && parser.has("PMIX_NAMESPACE") && parser.has("PMIX_RANK");
  if (!sources.empty()) {
    for (const Source& other : sources) {
      compare(sources.front(), other);
    }
    launch = sources.front().launch;
  } else if (pmix) {
    launch.source = "PMIx";
    launch.rank = static_cast<int>(parser.number("PMIX_RANK", 0, kMostRanks - 1));
    launch.size = 0;
    launch.job = "pmix-" + parser.text("PMIX_NAMESPACE");
  }
  if (launch.size == 1 && launch.source != "SYMM_*") {
    launch.refusal = refusal_of(parser, !sources.empty());
  }
  launch.directory = parser.text("SYMM_DIR");
  launch.pmix = pmix;

  // The source that is used may be PMI-1 of srun, whose other variables also say what step this is,
  // and where its tasks are.
  for (const Source& other : sources) {
    if (launch.job.empty()) launch.job = other.launch.job;
    if (launch.local_size < 0) launch.local_size = other.launch.local_size;
  }

  look_for_several_machines(
      parser, launch, !sources.empty() && sources.back().launch.source == "Slurm");
  if (parser.has("SYMM_JOB") && !launch.single()) launch.job = "symm-" + parser.text("SYMM_JOB");
  return launch;
}

std::string pmi_job(int fd) {
  ucred manager{};
  socklen_t size = sizeof manager;
  const int error = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &manager, &size) == 0 ? 0 : errno;

  if (error != 0 || manager.pid <= 0) {
    const std::string why = error != 0 ? system_error(error, "getsockopt").what()
                                       : "its process cannot be seen from here";
    throw Error(
        Status::unavailable, format("PMI_FD is %d, which does not lead to a process manager on "
                                    "this machine (%s; MPI_Finalize() closes it): make the "
                                    "first group earlier, or set SYMM_JOB to a name or SYMM_DIR to "
                                    "a directory, the same for all ranks",
                                 fd, why.c_str()));
  }
  return format("pmi-%d-%lu", manager.pid, process::start_time_of(manager.pid));
}
}  // namespace symm
