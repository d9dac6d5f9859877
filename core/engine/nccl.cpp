// Loads NCCL and makes its calls. A thread of the engine watches those that are under way. No
// group and no CUDA call is known here.
#include "core/engine/nccl.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/call_tag.hpp"
#include "core/base/closed_streams.hpp"
#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/library.hpp"
#include "core/base/log.hpp"
#include "core/base/process.hpp"
#include "core/base/reserve.hpp"
#include "core/base/timed_mutex.hpp"
#include "core/base/wait.hpp"
#include "core/engine/nccl_api.hpp"

namespace symm::engine {
namespace {
using namespace nccl;

// The time between two checks of the calls that are under way.
constexpr uint64_t kCheckMs = 20;
// The time that the mesh needs, at most, to say why NCCL failed; and that the last
// message of a rank may take that has left.
constexpr uint64_t kReasonMs = 1'000;
// The time that NCCL has to let go of a communicator.
constexpr uint64_t kPatienceMs = 5'000;
// The time that the end of an engine takes at most.
constexpr uint64_t kEndMs = 2 * kReasonMs + kPatienceMs;

[[noreturn]] void unavailable(const std::string& what) {
  throw Error(Status::unavailable,
      what +
          "; groups of GPUs on several machines need NCCL 2.18 or newer: install libnccl2 (Debian, "
          "RPM) or nvidia-nccl-cu13 (pip), "
          "or name its libnccl.so.2 in SYMM_NCCL");
}

// Programs may have libsymm_nccl.so in the place of NCCL, under the SONAME of NCCL. The engine's
// calls would come back to symm through it, so it is asked for the library behind it.
void* behind_drop_in(void* library, std::string& reason) {
  if (library == nullptr) return nullptr;
  using Marker = void* (*)();
  const auto marker = reinterpret_cast<Marker>(dlsym(library, "symm_nccl_marker"));
  if (marker == nullptr) return library;
  void* const behind = marker();
  if (behind == nullptr) reason = "libnccl.so.2 is symm's drop-in, and no NCCL is behind it";
  return behind;
}

struct Library {
  SYMM_NCCL_CALLS(SYMM_LIBRARY_CALL)
  std::string name;

  Library() {
    std::string reason;
    const std::string named = environment("SYMM_NCCL");
    if (named == "none") unavailable("no engine: SYMM_NCCL=none");
    void* const found =
        behind_drop_in(find_library("libnccl.so.2", named, "nvidia/nccl/lib", reason), reason);
    if (found == nullptr) unavailable("no engine: " + reason);

    Dl_info place{};
    int version = 0;
    ncclGetVersion = reinterpret_cast<decltype(ncclGetVersion)>(dlsym(found, "ncclGetVersion"));
    if (ncclGetVersion == nullptr || dladdr(reinterpret_cast<void*>(ncclGetVersion), &place) == 0 ||
        ncclGetVersion(&version) != kSuccess) {
      unavailable("libnccl.so.2 does not tell its version");
    }

    name = format("nccl %d.%d.%d", version / 10'000, version / 100 % 100, version % 100);
    const std::string where = name + " (" + place.dli_fname + ")";
    if (version < kLeast || version >= 30'000) unavailable(where + " is none that symm can use");
    SYMM_NCCL_CALLS(SYMM_LIBRARY_FIND)
    log::write(log::Level::info, "engine: %s", where.c_str());
  }
};

// The communicators whose engine has gone, and which NCCL has not let go of yet.
std::atomic<int> ending{0};

// A process that ends waits for such communicators: if the destructors of NCCL's CUDA
// runtime run while a thread is in ncclCommDestroy(), the process crashes. NCCL
// registers these destructors when it makes a communicator; this object is made
// afterwards, so its destructor runs first.
struct DestroyAtExit {
  const uint32_t forks = process::fork_generation();

  ~DestroyAtExit() {
    // A child of fork() has none of the threads.
    if (forks != process::fork_generation()) return;
    retry_until([] { return ending == 0; }, Deadline::after_ms(kEndMs));
  }
};
}  // namespace

// The state that the engine shares with its thread, which keeps it until NCCL has let go of the
// communicator, also when the engine has gone.
struct StreamEngine::State {
  explicit State(const Owner& owner)
      : streams(hold_closed_streams()),
        nccl(only_library<Library>()),
        rank(owner.rank),
        size(owner.size),
        pids(owner.pids.begin(), owner.pids.end()),
        revocation(owner.revocation),
        fail(owner.fail) {}

  struct WatchedCall {
    const char* name;
    std::string tag;  // "": it has none
    uint64_t timeout_ms;
    std::vector<int32_t> ranks;
    std::function<Progress()> progress;
    // Counted since the call began, and since one of its ranks left.
    std::optional<Deadline> until;
    std::optional<Deadline> grace;
  };

  Failure failure_of(Result result, const char* call) const {
    const char* const more = nccl.ncclGetLastError(comm);
    const bool of_peer = result == kRemoteError || result == kSystemError;
    return {of_peer ? Status::peer_failed : Status::cuda, -1, 0,
        format("%s: %s: %s%s%s", nccl.name.c_str(), call, nccl.ncclGetErrorString(result),
            more != nullptr && *more != '\0' ? ": " : "", more != nullptr ? more : "")};
  }

  // Whether the mesh has revoked the group: it learns of deaths by itself. If it has
  // not done so in this time, it does not know why NCCL failed.
  bool explained_by_mesh() const {
    return retry_until([&] { return revocation->revoked(); }, Deadline::after_ms(kReasonMs));
  }

  void fail_group(const Failure& failure) {
    // The group must not go meanwhile.
    const std::lock_guard lock(calling);
    if (fail) fail(failure);
    trouble = true;
  }

  void run() noexcept;
  void check();
  Result async_error();
  void check_watched_calls();
  void check_running(WatchedCall& call);
  bool finish() const;
  void let_go(bool finished) noexcept;

  const std::shared_ptr<const ClosedStreams> streams;
  const Library& nccl;
  const int rank;
  const int size;
  const std::vector<int64_t> pids;
  const std::shared_ptr<Revocation> revocation;
  // Guards `fail`, which goes with the engine, and `counted`.
  std::mutex calling;
  std::function<void(const Failure&)> fail;
  // Whether this communicator is counted in `ending`.
  bool counted = false;
  std::atomic<bool> ready = false;
  std::atomic<bool> closing = false;
  std::atomic<bool> trouble = false;
  // Held by a thread that is in a call of the communicator.
  TimedMutex busy;
  Comm comm = nullptr;
  Word woken{0};
  // Whether the thread was started, and whether it has ended.
  std::atomic<bool> started = false;
  std::atomic<bool> ended = false;
  // Guards `watched`.
  std::mutex mutex;
  std::list<WatchedCall> watched;
};

// ---- the engine's thread

void StreamEngine::State::run() noexcept {
  log::deliver_elsewhere();
  const auto is_needed = [&] {
    const std::lock_guard lock(mutex);
    return !closing || !watched.empty();
  };
  while (is_needed() && !revocation->revoked() && !trouble) {
    const uint32_t seen = woken.load();
    const uint32_t events = revocation->events().load();
    try {
      check();
    } catch (const std::bad_alloc&) {
      // The next check may have memory.
    }
    if (!closing || !trouble) {
      sleep_while(woken, seen, &revocation->events(), events, Deadline::after_ms(kCheckMs));
    }
  }

  // A call that another thread is in sees the end, too, and lets go of the
  // communicator. A call that is stuck in NCCL is cut off.
  const bool alone = busy.take(Deadline::after_ms(kReasonMs));
  if (comm != nullptr) let_go(finish());
  if (alone) busy.give();

  const std::lock_guard lock(calling);
  ended = true;
  if (counted) --ending;
}

void StreamEngine::State::check() {
  if (!ready) return;
  const Result error = async_error();
  if (error == kSuccess || error == kInProgress) return check_watched_calls();
  if (!explained_by_mesh()) fail_group(failure_of(error, "ncclCommGetAsyncError"));
}

// Two threads that ask at a time would both complete what is in progress, the second when it is
// already gone. So this thread asks only if no other thread is in a call of the communicator.
nccl::Result StreamEngine::State::async_error() {
  if (!busy.try_take()) return kSuccess;
  Result error = kSuccess;
  const Result asked = nccl.ncclCommGetAsyncError(comm, &error);
  busy.give();
  return asked != kSuccess ? asked : error;
}

void StreamEngine::State::check_watched_calls() {
  std::list<WatchedCall> under_way;
  // Destroyed last, when the lock is free again.
  std::list<WatchedCall> over;
  {
    const std::lock_guard lock(mutex);
    under_way.swap(watched);
  }

  for (auto at = under_way.begin(); at != under_way.end() && !trouble;) {
    const Progress progress = at->progress();
    const auto next = std::next(at);
    if (progress == Progress::runs) check_running(*at);
    if (progress == Progress::over) over.splice(over.end(), under_way, at);
    at = next;
  }
  const std::lock_guard lock(mutex);
  watched.splice(watched.begin(), under_way);
}

void StreamEngine::State::check_running(WatchedCall& call) {
  const auto has_expired = [](std::optional<Deadline>& deadline, uint64_t milliseconds) {
    if (!deadline) deadline = Deadline::after_ms(milliseconds);
    return deadline->expired();
  };

  const CallTag tagged(call.tag.c_str());
  for (const int32_t member : call.ranks) {
    if (!revocation->departed(member) || !has_expired(call.grace, kReasonMs)) continue;
    const int64_t pid = pids[static_cast<size_t>(member)];
    fail_group({Status::peer_failed, member, pid,
        with_tag(
            format("%s: rank %d (pid %ld) has left the group", call.name, member, pid), rank)});
    return;
  }
  if (!has_expired(call.until, call.timeout_ms)) return;
  fail_group({Status::timeout, -1, 0,
      with_tag(format("%s: over %s, not all ranks came within %lu ms", call.name, nccl.name.c_str(),
                   call.timeout_ms),
          rank)});
}

// Waits until all that this rank sent has gone, so that no rank lacks the last of it.
// False if the communicator has to be aborted.
bool StreamEngine::State::finish() const {
  if (trouble || !ready || revocation->revoked()) return false;
  Result result = nccl.ncclCommFinalize(comm);
  const auto is_settled = [&] {
    if (result == kInProgress && nccl.ncclCommGetAsyncError(comm, &result) != kSuccess) {
      result = kSystemError;
    }
    return result != kInProgress || revocation->revoked();
  };
  retry_until(is_settled, Deadline::after_ms(kPatienceMs));
  return result == kSuccess;
}

// Another thread makes the call, because a call of NCCL may never return.
void StreamEngine::State::let_go(bool finished) noexcept {
  const char* const name = finished ? "ncclCommDestroy" : "ncclCommAbort";
  bool over = false;
  try {
    const auto done = std::make_shared<std::atomic<bool>>(false);
    const auto call = finished ? nccl.ncclCommDestroy : nccl.ncclCommAbort;
    process::start_thread("symm-nccl-end", [call, comm = comm, done] {
      call(comm);
      *done = true;
    });
    over = retry_until([&] { return done->load(); }, Deadline::after_ms(kPatienceMs));
  } catch (const std::exception&) {
    // Without memory or a thread for the call, the communicator is left to NCCL as well.
  }

  if (!over) {
    log::write(log::Level::warning,
        "%s: %s has not returned within %lu ms: its communicator is left to it", nccl.name.c_str(),
        name, kPatienceMs);
  }
}

// ---- calls

StreamEngine::StreamEngine(const Owner& owner) : state_(std::make_shared<State>(owner)) {}

StreamEngine::~StreamEngine() {
  State& s = *state_;
  {
    const std::lock_guard lock(s.calling);
    s.fail = nullptr;
    s.counted = s.started && !s.ended;
    if (s.counted) ++ending;
  }
  s.closing = true;
  tell_change(s.woken);
}

const std::string& StreamEngine::name() const noexcept { return state_->nccl.name; }

StreamEngine::Id StreamEngine::draw_id() const {
  nccl::Id drawn{};
  require(state_->nccl.ncclGetUniqueId(&drawn), "ncclGetUniqueId");

  Id id;
  static_assert(sizeof id == sizeof drawn);
  std::memcpy(id.data(), &drawn, sizeof drawn);
  return id;
}

void StreamEngine::connect(const Id& id, Deadline deadline) {
  State& s = *state_;
  const uint64_t left = deadline.remaining_ns();
  const uint64_t timeout_ms = left == Deadline::kInfinite ? left : left / 1'000'000;
  const TimedLock busy(s.busy, timeout_ms, "ncclCommInitRankConfig");
  process::start_thread("symm-nccl", [state = state_] { state->run(); });
  s.started = true;

  try {
    nccl::Id unique;
    std::memcpy(&unique, id.data(), sizeof unique);
    Config config;
    settle(s.nccl.ncclCommInitRankConfig(&s.comm, s.size, unique, s.rank, &config),
        "ncclCommInitRankConfig", timeout_ms);
  } catch (...) {
    s.trouble = true;
    throw;
  }

  s.ready = true;
  static const DestroyAtExit at_exit;
}

void StreamEngine::require(int result, const char* call) const {
  if (result != kSuccess && result != kInProgress) throw Error(state_->failure_of(result, call));
}

void StreamEngine::settle(int result, const char* call, uint64_t timeout_ms) {
  State& s = *state_;
  const auto is_settled = [&] {
    if (result == kInProgress && s.nccl.ncclCommGetAsyncError(s.comm, &result) != kSuccess) {
      result = kSystemError;
    }
    return result != kInProgress;
  };
  const auto never = [] { return false; };

  Waiter waiter{0};
  LazyDeadline deadline(timeout_ms);
  const WaitEnd end = wait_condition({is_settled, never, {}, false}, waiter, *s.revocation,
      {.spins = 100, .yields = 1'000}, deadline);
  s.revocation->throw_if_revoked();
  if (end == WaitEnd::timed_out) {
    throw Error(Status::timeout, with_tag(format("%s: %s: not all ranks came within %lu ms",
                                              s.nccl.name.c_str(), call, timeout_ms),
                                     s.rank));
  }
  require(result, call);
}

void StreamEngine::together(uint64_t timeout_ms, const std::function<void()>& body) {
  State& s = *state_;
  const TimedLock busy(s.busy, timeout_ms, "NCCL");
  s.revocation->throw_if_revoked();

  try {
    require(s.nccl.ncclGroupStart(), "ncclGroupStart");
    try {
      body();
    } catch (...) {
      s.nccl.ncclGroupEnd();
      throw;
    }
    settle(s.nccl.ncclGroupEnd(), "ncclGroupEnd", timeout_ms);
  } catch (const Error& error) {
    // This rank has not made the calls that the other ranks wait for, so the group fails.
    if (!s.explained_by_mesh()) s.fail_group(error.failure());
    s.revocation->throw_if_revoked();
    throw;
  }
}

void StreamEngine::send(const void* from, size_t bytes, int peer, void* stream) {
  require(state_->nccl.ncclSend(from, bytes, kBytes, peer, state_->comm, stream), "ncclSend");
}

void StreamEngine::recv(void* to, size_t bytes, int peer, void* stream) {
  require(state_->nccl.ncclRecv(to, bytes, kBytes, peer, state_->comm, stream), "ncclRecv");
}

void StreamEngine::allgather(const void* from, void* to, size_t bytes, void* stream) {
  require(
      state_->nccl.ncclAllGather(from, to, bytes, kBytes, state_->comm, stream), "ncclAllGather");
}

void StreamEngine::broadcast(const void* from, void* to, size_t bytes, int root, void* stream) {
  require(state_->nccl.ncclBroadcast(from, to, bytes, kBytes, root, state_->comm, stream),
      "ncclBroadcast");
}

void StreamEngine::allreduce(
    const void* from, void* to, size_t count, int type, int op, void* stream) {
  require(
      state_->nccl.ncclAllReduce(from, to, count, type, op, state_->comm, stream), "ncclAllReduce");
}

void StreamEngine::reduce_scatter(
    const void* from, void* to, size_t count, int type, int op, void* stream) {
  require(state_->nccl.ncclReduceScatter(from, to, count, type, op, state_->comm, stream),
      "ncclReduceScatter");
}

void StreamEngine::watch(const char* call, uint64_t timeout_ms, std::vector<int32_t> ranks,
    std::function<Progress()> progress) {
  const char* const tag = CallTag::current();
  const std::lock_guard lock(state_->mutex);
  state_->watched.push_back(
      {call, tag != nullptr ? tag : "", timeout_ms, std::move(ranks), std::move(progress), {}, {}});
}

void StreamEngine::await_end() const noexcept {
  State& s = *state_;
  if (s.started) retry_until([&] { return s.ended.load(); }, Deadline::after_ms(kEndMs));
}
}  // namespace symm::engine
