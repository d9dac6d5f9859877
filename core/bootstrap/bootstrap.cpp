// Reads a bootstrap string, or what the launcher has set, and makes the store, the rank and the
// size that a creation begins with.
#include "core/bootstrap/bootstrap.hpp"

#include <cstddef>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/hash.hpp"
#include "core/base/log.hpp"
#include "core/base/process.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/dir_store.hpp"
#include "core/bootstrap/directory_rendezvous.hpp"
#include "core/bootstrap/launch.hpp"
#include "core/bootstrap/pmix.hpp"
#include "core/bootstrap/store.hpp"
#include "core/bootstrap/tcp_store.hpp"
#include "core/bootstrap/unique_id.hpp"
#include "core/socket/directory.hpp"

namespace symm {
namespace {
constexpr std::string_view kEnv = "env://";
constexpr std::string_view kDir = "dir://";
constexpr std::string_view kTcp = "tcp://";
constexpr std::string_view kThread = "thread://";

void check_ranks(const BootstrapConfig& config) {
  if (config.size < 0) {
    throw Error(Status::invalid_argument, format("config.size: %d is negative", config.size));
  }
  if (config.size > 0 && (config.rank < 0 || config.rank >= config.size)) {
    throw Error(Status::invalid_argument,
        format("config.rank: %d is not in 0 .. %d", config.rank, config.size - 1));
  }

  if (config.callbacks != nullptr && config.size == 0) {
    throw Error(Status::invalid_argument, "config.size: must be set with config.store");
  }
  if (!config.id.empty() && config.size == 0) {
    throw Error(Status::invalid_argument, "config.size: must be set with config.id");
  }
}

// Takes rank and size from the configuration, else from the launcher.
void take_ranks(const BootstrapConfig& config, const Launch& launch, BootstrapResult& result) {
  result.rank = config.size > 0 ? config.rank : launch.rank;
  result.size = config.size > 0 ? config.size : launch.size;
  if (result.size > kMostRanks) {
    throw Error(Status::invalid_argument,
        format("%d ranks: at most %d are possible", result.size, kMostRanks));
  }
}

// The launch that the environment describes. A PMIx server is asked if nothing else tells how many
// ranks there are, or where ranks on several machines meet (`for_place`).
Launch launch_of_process(const BootstrapConfig& config, bool for_place, Deadline deadline) {
  Launch launch = parse_environment(current_environment());
  if (config.size == 0 && !launch.refusal.empty()) {
    throw Error(Status::unavailable, launch.refusal);
  }

  const bool whole_job =
      config.size == 0 || (config.size == launch.size && config.rank == launch.rank);
  const bool lacks_place =
      for_place && whole_job && launch.several && launch.place.empty() && launch.directory.empty();
  if (!launch.pmix || (launch.size != 0 && !lacks_place)) return launch;

  const PmixJob job = pmix_job(launch.rank, launch.port, deadline);
  launch.size = job.size;
  launch.several = job.size != job.local_size;
  if (launch.place.empty()) launch.place = job.place;
  return launch;
}

void read_required_ranks(
    const BootstrapConfig& config, BootstrapResult& result, Deadline deadline) {
  if (config.size > 0) return take_ranks(config, {}, result);

  const Launch launch = launch_of_process(config, false, deadline);
  if (launch.single()) {
    throw Error(Status::invalid_argument,
        config.url +
            " needs a rank and a size: give them in the configuration, or set SYMM_RANK and "
            "SYMM_SIZE, or start the program by a launcher");
  }

  take_ranks(config, launch, result);
}

// The store of a group of one rank, which no other rank can find.
std::unique_ptr<Store> open_alone() {
  return open_thread_store(format("alone-%016lx", process::random64()), 0, 1, Deadline::never());
}

std::unique_ptr<Store> open_directory(std::string path, bool remove, const std::string& name,
    std::string job, const BootstrapResult& result, Deadline deadline) {
  DirectoryRendezvousConfig rendezvous{
      std::move(path), name, std::move(job), result.description, result.rank, result.size, remove};
  return std::make_unique<DirStore>(std::move(rendezvous), deadline);
}

std::unique_ptr<Store> open_by_tcp(const std::string& place, const std::string& name,
    const std::string& job, const BootstrapResult& result, Deadline deadline) {
  return open_tcp_store(parse_tcp_place(place), mix(fnv1a(name), fnv1a(job)), result.rank,
      result.size, result.description, deadline);
}

// Asks for the job once and remembers it: MPI_Finalize() closes PMI_FD.
std::string remembered_pmi_job(int fd) {
  static auto* const job = new std::string;  // never destroyed: a thread may outlive main()
  if (const std::lock_guard lock(process::lock_against_fork()); !job->empty()) return *job;

  // Asked without the lock, under which no descriptor may be made.
  std::string asked = pmi_job(fd);
  const std::lock_guard lock(process::lock_against_fork());
  if (job->empty()) *job = std::move(asked);
  return *job;
}

std::string job_of(const Launch& launch) {
  return launch.job.empty() && launch.pmi_fd >= 0 ? remembered_pmi_job(launch.pmi_fd) : launch.job;
}

// The job of a group that meets in a directory where other jobs may meet, too; "" if it has none. A
// launcher that started another number of ranks did not start this group: if rank and size come
// from the configuration, each rank may have a launcher of its own.
std::string job_of_group(const Launch& launch, int size) {
  if (const std::string_view named = environment("SYMM_JOB"); !named.empty()) {
    return std::string(named);
  }
  if (launch.source == "SYMM_*" || launch.size != size) return "";
  try {
    return job_of(launch);
  } catch (const Error&) {
    return "";  // the process manager cannot be asked any more
  }
}

std::string job_of_group(int size) {
  try {
    return job_of_group(parse_environment(current_environment()), size);
  } catch (const Error&) {
    // The launcher's variables contradict each other, but rank and size do not come from them.
    return std::string(environment("SYMM_JOB"));
  }
}

std::unique_ptr<Store> open_named_directory(const BootstrapConfig& config, const Launch& launch,
    const BootstrapResult& result, Deadline deadline) {
  if (launch.directory[0] != '/') {
    throw Error(Status::invalid_argument,
        "SYMM_DIR is '" + launch.directory + "'; it must be an absolute path");
  }
  return open_directory(
      launch.directory, false, config.name, job_of_group(launch, result.size), result, deadline);
}

std::unique_ptr<Store> open_across_machines(const BootstrapConfig& config, const Launch& launch,
    const BootstrapResult& result, Deadline deadline) {
  if (launch.place.empty()) {
    throw Error(Status::unavailable, "env:// (" + launch.source +
                                         ") has ranks on several machines and does not say where "
                                         "rank 0 is: set SYMM_BOOTSTRAP to tcp://host:port "
                                         "or MASTER_ADDR and SYMM_PORT, the same for all ranks");
  }
  return open_by_tcp(launch.place, config.name, launch.job, result, deadline);
}

std::unique_ptr<Store> open_job_directory(const BootstrapConfig& config, const Launch& launch,
    const BootstrapResult& result, Deadline deadline) {
  const std::string job = job_of(launch);
  if (job.empty()) {
    throw Error(Status::unavailable,
        "env:// (" + launch.source +
            ") gives no place where the ranks can meet: set SYMM_JOB to a name, or SYMM_DIR "
            "to a directory, the same for all ranks");
  }

  const std::string parent = default_parent();
  open_private_directory(parent, true);
  sweep(parent, Sweep::with_jobs);

  constexpr size_t kLongestName = 200;
  const std::string directory = kJobPrefix + escape_key(job);
  if (directory.size() > kLongestName) {
    throw Error(Status::invalid_argument, "the name of the job is too long: " + job);
  }
  return open_directory(parent + "/" + directory, true, config.name, job, result, deadline);
}

void bootstrap_by_environment(
    const BootstrapConfig& config, BootstrapResult& result, Deadline deadline) {
  const Launch launch = launch_of_process(config, true, deadline);
  take_ranks(config, launch, result);
  result.description = "env:// (" + launch.source + ")";
  log::write(log::Level::info, "env://: rank %d of %d, by %s", result.rank, result.size,
      launch.source.c_str());

  if (result.size == 1) {
    result.store = open_alone();
  } else if (!launch.directory.empty()) {
    result.store = open_named_directory(config, launch, result, deadline);
  } else if (launch.several) {
    result.store = open_across_machines(config, launch, result, deadline);
  } else {
    result.store = open_job_directory(config, launch, result, deadline);
  }
}

void bootstrap_by_tcp(const BootstrapConfig& config, BootstrapResult& result, Deadline deadline) {
  const std::string place = config.url.substr(kTcp.size());
  parse_tcp_place(place, config.source);
  read_required_ranks(config, result, deadline);
  const std::string job(environment("SYMM_JOB"));
  result.store =
      result.size == 1 ? open_alone() : open_by_tcp(place, config.name, job, result, deadline);
}

void bootstrap_in_directory(
    const BootstrapConfig& config, BootstrapResult& result, Deadline deadline) {
  const std::string path = config.url.substr(kDir.size());
  if (path.empty() || path[0] != '/') {
    throw Error(Status::invalid_argument,
        format("%s: is '%s'; dir:// needs an absolute path, as in dir:///path", config.source,
            config.url.c_str()));
  }

  read_required_ranks(config, result, deadline);
  result.store = result.size == 1 ? open_alone()
                                  : open_directory(path, false, config.name,
                                        job_of_group(result.size), result, deadline);
}
}  // namespace

BootstrapResult bootstrap(const BootstrapConfig& config, Deadline deadline) {
  check_ranks(config);
  BootstrapResult result;
  result.description = config.url.empty() ? std::string(kEnv) : config.url;

  if (!config.id.empty()) {
    take_ranks(config, {}, result);
    result.description = name_of_id(config.id);
    result.store = open_by_id(config.id, result.rank, result.size, deadline);
  } else if (config.callbacks != nullptr) {
    take_ranks(config, {}, result);
    result.store = open_callback_store(*config.callbacks, config.name);
    result.description = "the user's store";
  } else if (config.url.empty() || config.url == kEnv) {
    bootstrap_by_environment(config, result, deadline);
  } else if (config.url.starts_with(kDir)) {
    bootstrap_in_directory(config, result, deadline);
  } else if (config.url.starts_with(kTcp)) {
    bootstrap_by_tcp(config, result, deadline);
  } else if (config.url.starts_with(kThread)) {
    read_required_ranks(config, result, deadline);
    const std::string place =
        config.url.substr(kThread.size()) + (config.name.empty() ? "" : "#" + config.name);
    result.store = open_thread_store(place, result.rank, result.size, deadline);
  } else {
    throw Error(Status::invalid_argument,
        format("%s: is '%s'; known are env://, tcp://host:port, dir:///path and thread://name",
            config.source, config.url.c_str()));
  }
  return result;
}
}  // namespace symm
