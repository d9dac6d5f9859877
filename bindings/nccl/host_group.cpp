#include "bindings/nccl/host_group.hpp"

#include <dlfcn.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/meeting.hpp"
#include "bindings/nccl/settings.hpp"
#include <symm/symm.h>

namespace symm::nccl {
namespace {
// A rank without the drop-in never comes. The others wait for it on threads of their own.
constexpr uint64_t kMeetingMs = 5'000;
// A rank that ends in good order may leave while the others still complete what it took part in.
constexpr std::chrono::seconds kPatience{5};

// libsymm, which is loaded with the first communicator: a program that is started with the
// drop-in and has none loads nothing more.
struct Symm {
  decltype(&symm_group_create) group_create = nullptr;
  decltype(&symm_group_release) group_release = nullptr;
  decltype(&symm_group_status) group_status = nullptr;
  decltype(&symm_group_failed_ranks) group_failed_ranks = nullptr;
  decltype(&symm_group_peer_info) group_peer_info = nullptr;
  decltype(&symm_last_error) last_error = nullptr;
  bool usable = false;

  template <class Call>
  static bool find(void* library, const char* name, Call& call) {
    call = reinterpret_cast<Call>(dlsym(library, name));
    return call != nullptr;
  }

  Symm() {
    void* const library = dlopen("libsymm.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* const why = dlerror();
      log("no communicator is watched: %s", why != nullptr ? why : "libsymm.so.0 cannot be loaded");
      return;
    }
    usable = find(library, "symm_group_create", group_create) &&
             find(library, "symm_group_release", group_release) &&
             find(library, "symm_group_status", group_status) &&
             find(library, "symm_group_failed_ranks", group_failed_ranks) &&
             find(library, "symm_group_peer_info", group_peer_info) &&
             find(library, "symm_last_error", last_error);
    if (!usable) log("no communicator is watched: libsymm.so.0 lacks a call");
  }
};

const Symm& library() {
  static const auto* const loaded = new Symm;
  return *loaded;
}

// A directory of this user, the same for all ranks.
std::string meeting_place() {
  const char* const runtime = variable("XDG_RUNTIME_DIR");
  const std::string own = "/symm-nccl-" + std::to_string(geteuid());
  struct stat status{};
  const bool usable = runtime != nullptr && stat(runtime, &status) == 0 &&
                      status.st_uid == geteuid() && access(runtime, W_OK) == 0;
  return "dir://" + (usable ? std::string(runtime) : std::string("/tmp")) + own;
}

// Whether the program keeps a quarter of its descriptors. A group has two for each rank, and a
// program that makes many communicators must not run out of them for the sake of names.
bool leaves_descriptors(int size) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return true;
  std::error_code failed;
  const std::filesystem::directory_iterator open("/proc/self/fd", failed);
  if (failed) return false;
  const auto now = static_cast<uint64_t>(std::distance(open, {}));
  return now + 2 * static_cast<uint64_t>(size) <= limit.rlim_cur / 4 * 3;
}

// Least scratch: the group makes no collective calls.
uint64_t least_scratch(int size) { return 16'384 + uint64_t{1'024} * static_cast<uint64_t>(size); }

Result result_of(symm_status_t status, uint32_t version) {
  switch (status) {
    case SYMM_OK: return kSuccess;
    case SYMM_ERR_PEER_FAILED:
    case SYMM_ERR_ABORTED: return kRemoteError;
    case SYMM_ERR_TIMEOUT: return version >= kTimeoutSince ? kTimeout : kRemoteError;
    case SYMM_ERR_MISMATCH: return kInvalidUsage;
    case SYMM_ERR_CUDA: return kCudaError;
    default: return kSystemError;
  }
}

// A thread that takes none of the program's signals.
template <class Body>
void start_thread(Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread(body).detach();
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}
}  // namespace

std::shared_ptr<HostGroup> HostGroup::meet(const Meeting& meeting, int rank, int size) {
  if (size < 2 || !library().usable) return nullptr;
  const auto group = std::make_shared<HostGroup>();
  start_thread([=] { group->form(meeting, rank, size); });
  return group;
}

void HostGroup::form(const Meeting& meeting, int rank, int size) noexcept {
  try {
    const std::string name = "nccl-" + text_of(meeting);
    const std::string place = meeting_place();
    if (!leaves_descriptors(size)) {
      log("rank %d of %d is not watched: this process has few descriptors left", rank, size);
      return;
    }
    symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
    config.rank = rank;
    config.size = size;
    config.backend = SYMM_BACKEND_HOST;
    config.bootstrap = place.c_str();
    config.create_timeout_ms = kMeetingMs;
    config.timeout_ms = SYMM_TIMEOUT_INFINITE;
    config.name = name.c_str();
    config.scratch_bytes = least_scratch(size);
    config.channels = 1;

    symm_group_t* formed = nullptr;
    if (library().group_create(&config, &formed) != SYMM_OK) {
      log("rank %d of %d is not watched: %s", rank, size, library().last_error());
      return;
    }

    const std::lock_guard lock(mutex_);
    if (left_) return library().group_release(formed);
    group_ = formed;
    log("rank %d of %d is watched", rank, size);
  } catch (...) {
    log("rank %d of %d is not watched: no memory", rank, size);
  }
}

void HostGroup::leave() noexcept {
  symm_group_t* group = nullptr;
  {
    const std::lock_guard lock(mutex_);
    left_ = true;
    group = group_;
    group_ = nullptr;
  }
  if (group != nullptr) library().group_release(group);
}

std::optional<GroupFailure> HostGroup::failure(uint32_t version) {
  const std::lock_guard lock(mutex_);
  if (group_ == nullptr) return std::nullopt;

  symm_failure_t status{};
  status.struct_size = sizeof status;
  if (library().group_status(group_, &status) != SYMM_OK) return std::nullopt;
  if (status.status != SYMM_OK) {
    return GroupFailure{result_of(status.status, version), status.message};
  }
  return departure();
}

std::optional<GroupFailure> HostGroup::departure() {
  int32_t rank = -1;
  size_t count = 0;
  if (library().group_failed_ranks(group_, &rank, 1, &count) != SYMM_OK || count == 0) {
    return std::nullopt;
  }

  const auto now = std::chrono::steady_clock::now();
  if (!departed_) departed_ = now;
  if (now - *departed_ < kPatience) return std::nullopt;

  symm_group_peer_info_t peer{};
  peer.struct_size = sizeof peer;
  const bool known = library().group_peer_info(group_, rank, &peer) == SYMM_OK && peer.pid != 0;
  const std::string pid = known ? " (pid " + std::to_string(peer.pid) + ")" : std::string();
  return GroupFailure{
      kRemoteError, "rank " + std::to_string(rank) + pid + " has left the communicator"};
}
}  // namespace symm::nccl
