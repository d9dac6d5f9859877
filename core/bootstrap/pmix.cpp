// Speaks to a PMIx server by libpmix, loaded at run time, which is finalised only as the
// process exits.
#include "core/bootstrap/pmix.hpp"

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/base/closed_streams.hpp"
#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/library.hpp"
#include "core/base/per_process.hpp"
#include "core/base/process.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/pmix_api.hpp"
#include "core/socket/tcp.hpp"

namespace symm {
namespace {
using namespace pmix;
constexpr const char* kPlace = "symm.place";

[[noreturn]] void unavailable(const std::string& what) {
  throw Error(Status::unavailable,
      what +
          "; it would say where rank 0 is: install libpmix2 (Debian) or pmix (RPM), or name its "
          "libpmix.so.2 in SYMM_PMIX, or set MASTER_ADDR and SYMM_PORT");
}

struct Library {
  SYMM_PMIX_CALLS(SYMM_LIBRARY_CALL)

  Library() {
    std::string why;
    void* const found = find_library("libpmix.so.2", environment("SYMM_PMIX"), nullptr, why);
    if (found == nullptr) unavailable("no PMIx: " + why);

    const auto version = reinterpret_cast<const char* (*)()>(dlsym(found, "PMIx_Get_version"));
    if (version == nullptr) unavailable("libpmix.so.2 has no PMIx_Get_version");
    const std::string where = version();
    const size_t digit = where.find_first_of("0123456789");
    if (digit == std::string::npos || std::atoi(where.c_str() + digit) < 3) {
      unavailable("libpmix.so.2 is older than version 3: " + where);
    }

    SYMM_PMIX_CALLS(SYMM_LIBRARY_FIND)
  }

  void require(Code code, const char* call) const {
    if (code != 0) unavailable(format("PMIx: %s: %s", call, PMIx_Error_string(code)));
  }

  std::unique_ptr<Value, void (*)(void*)> get(
      const Process& process, const char* key, uint16_t type) const {
    Value* value = nullptr;
    require(PMIx_Get(&process, key, nullptr, 0, &value), key);
    std::unique_ptr<Value, void (*)(void*)> held(value, std::free);
    if (value->type != type) unavailable(format("PMIx: %s has another type", key));
    return held;
  }
};

struct FinalizeAtExit {
  Code (*finalize)(const Info*, size_t);
  uint32_t generation = process::fork_generation();

  ~FinalizeAtExit() {
    if (generation == process::fork_generation()) finalize(nullptr, 0);
  }
};

// Rank 0 publishes where it listens; all ranks take part in a fence, and read that.
std::string exchange_place(const Library& library, Process self, int rank, uint16_t port) {
  Process all = self;
  all.rank = kAllRanks;
  if (rank == 0) {
    const std::string place =
        outside_address() + ":" + std::to_string(port != 0 ? port : hold_free_port());
    Value value{.type = kText, .text = place.c_str()};
    library.require(library.PMIx_Put(kToAll, kPlace, &value), "PMIx_Put");
    library.require(library.PMIx_Commit(), "PMIx_Commit");
  }

  Info collect;
  std::strcpy(collect.key, "pmix.collect");
  collect.value = {.type = kBool, .flag = true};
  library.require(library.PMIx_Fence(&all, 1, &collect, 1), "PMIx_Fence");

  // The text is PMIx's, and is never freed.
  self.rank = 0;
  return library.get(self, kPlace, kText)->text;
}

PmixJob session(int rank, uint16_t port) {
  // PMIx sets some variables for an MPI library; such a library sets them itself.
  const process::SignalsKept signals;
  const VariablesKept variables("PMIX_");
  const std::shared_ptr<const ClosedStreams> streams = hold_closed_streams();
  const Library& library = *new Library;  // never unloaded
  const bool by_another = library.PMIx_Initialized() != 0;
  Process self;
  library.require(library.PMIx_Init(&self, nullptr, 0), "PMIx_Init");

  // PMIx counts its users. If an MPI library uses it too, this use ends now, else at exit.
  std::unique_ptr<FinalizeAtExit> now;
  if (by_another) {
    now.reset(new FinalizeAtExit{library.PMIx_Finalize});
  } else {
    static const FinalizeAtExit at_exit{library.PMIx_Finalize};
  }

  Process all = self;
  all.rank = kAllRanks;
  PmixJob job;
  job.size = static_cast<int>(library.get(all, "pmix.job.size", kNumber)->number);
  job.local_size = static_cast<int>(library.get(all, "pmix.local.size", kNumber)->number);
  if (static_cast<int64_t>(self.rank) != rank) {
    throw Error(Status::mismatch,
        format("this process is rank %d, but rank %u for PMIx: set MASTER_ADDR and SYMM_PORT", rank,
            self.rank));
  }

  if (job.local_size != job.size) job.place = exchange_place(library, self, rank, port);
  return job;
}

// The session runs on a thread of its own, since no call of PMIx has a deadline.
struct PmixSession {
  bool started = false;
  uint32_t generation = process::fork_generation();
  Word ended{0};
  PmixJob job;
  std::optional<Failure> failure;
};
}  // namespace

PmixJob pmix_job(int rank, uint16_t port, Deadline deadline) {
  static PmixSession& pmix_session =
      *new PmixSession;  // never destroyed: its thread may outlive main()
  if (const std::lock_guard lock(process::lock_against_fork()); !pmix_session.started) {
    process::start_thread("symm-pmix", [rank, port] {
      try {
        pmix_session.job = session(rank, port);
      } catch (...) {
        pmix_session.failure = current_failure();
      }
      tell_change(pmix_session.ended);
    });
    pmix_session.started = true;
  }

  if (pmix_session.ended.load() == 0 && pmix_session.generation != process::fork_generation()) {
    throw Error(Status::unavailable,
        "PMIx was asked before this process was forked, and does not answer in the child");
  }
  if (!await_change(pmix_session.ended, deadline, [] { return pmix_session.ended.load() != 0; })) {
    throw Error(Status::timeout,
        "PMIx did not say where rank 0 is before the deadline: have all ranks of the job come?");
  }
  if (pmix_session.failure) throw Error(*pmix_session.failure);
  return pmix_session.job;
}
}  // namespace symm
