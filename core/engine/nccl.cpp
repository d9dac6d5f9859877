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

constexpr uint64_t kLookMs = 20;  // between two looks at what is under way
// That the mesh takes at most to say why NCCL
// failed, and who left before his last message came.
constexpr uint64_t kReasonMs = 1'000;
constexpr uint64_t kPatienceMs = 5'000;                   // with NCCL, to let go of a communicator
constexpr uint64_t kEndMs = 2 * kReasonMs + kPatienceMs;  // that an engine's end takes at most

[[noreturn]] void unavailable(const std::string& what) {
  throw Error(Status::unavailable,
      what +
          "; groups of GPUs on several machines need NCCL 2.18 or newer: install libnccl2 (Debian, "
          "RPM) or nvidia-nccl-cu13 (pip), "
          "or name its libnccl.so.2 in SYMM_NCCL");
}

struct Library {
  SYMM_NCCL_CALLS(SYMM_LIBRARY_CALL)
  std::string name;

  Library() {
    std::string why;
    void* const found =
        find_library("libnccl.so.2", environment("SYMM_NCCL"), "nvidia/nccl/lib", why);
    if (found == nullptr) unavailable("no engine: " + why);
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

std::atomic<int> ending{0};  // communicators whose engine has gone

// A process that ends waits for those: the destructors of NCCL's CUDA runtime, met by a
// thread that is in ncclCommDestroy(), crash it. NCCL has them called since it has made
// a communicator, so this, which is made afterwards, is called first.
struct DestroyAtExit {
  const uint32_t forks = process::fork_generation();

  ~DestroyAtExit() {
    if (forks != process::fork_generation()) return;  // a child has none of the threads
    retry_until([] { return ending == 0; }, Deadline::after_ms(kEndMs));
  }
};
}  // namespace

// What a thread of its own keeps beyond the engine, until NCCL has let go of the communicator.
struct StreamEngine::State {
  explicit State(const Owner& owner)
      : nccl(only_library<Library>()),
        rank(owner.rank),
        size(owner.size),
        pids(owner.pids.begin(), owner.pids.end()),
        revocation(owner.revocation),
        fail(owner.fail) {}

  struct Flight {
    const char* what;
    uint64_t timeout_ms;
    std::vector<int32_t> whom;
    std::function<Progress()> progress;
    std::optional<Deadline> until, grace;  // since it began, and since a rank left
  };

  Failure failure_of(Result result, const char* call) const {
    const char* const more = nccl.ncclGetLastError(comm);
    const bool of_peer = result == kRemoteError || result == kSystemError;
    return {of_peer ? Status::peer_failed : Status::cuda, -1, 0,
        format("%s: %s: %s%s%s", nccl.name.c_str(), call, nccl.ncclGetErrorString(result),
            more != nullptr && *more != '\0' ? ": " : "", more != nullptr ? more : "")};
  }

  // The mesh, which hears of a death by itself, has
  // said by then why NCCL failed, or does not know.
  bool explained() const {
    return retry_until([&] { return revocation->revoked(); }, Deadline::after_ms(kReasonMs));
  }

  void tell(const Failure& failure) {
    const std::lock_guard lock(calling);  // the group must not go meanwhile
    if (fail) fail(failure);
    trouble = true;
  }

  void keep() noexcept;
  void look();
  void look_at(Flight& flight);
  bool finish() const;
  void give_back(bool in_order) noexcept;

  const Library& nccl;
  const int rank, size;
  const std::vector<int64_t> pids;
  const std::shared_ptr<Revocation> revocation;
  std::mutex calling;
  std::function<void(const Failure&)> fail;
  std::atomic<bool> ready = false, closing = false, trouble = false;
  TimedMutex busy;  // with the communicator
  Comm comm = nullptr;
  Word woken{0};
  std::atomic<bool> kept = false, ended = false;
  bool counted = false;  // among those who are ending; guarded by calling
  std::mutex mutex;
  std::list<Flight> flights;
};

void StreamEngine::State::look_at(Flight& flight) {
  const auto begin = [](std::optional<Deadline>& deadline, uint64_t milliseconds) {
    if (!deadline) deadline = Deadline::after_ms(milliseconds);
    return deadline->expired();
  };
  for (const int32_t gone : flight.whom) {
    if (!revocation->departed(gone) || !begin(flight.grace, kReasonMs)) continue;
    const int64_t pid = pids[static_cast<size_t>(gone)];
    return tell({Status::peer_failed, gone, pid,
        format("%s: rank %d (pid %ld) has left the group", flight.what, gone, pid)});
  }
  if (!begin(flight.until, flight.timeout_ms)) return;
  tell({Status::timeout, -1, 0,
      format("%s: over %s, not all ranks came within %lu ms", flight.what, nccl.name.c_str(),
          flight.timeout_ms)});
}

void StreamEngine::State::look() {
  if (!ready) return;
  Result error = kSuccess;
  // Two that ask at a time would both complete what is in progress, one of them when it
  // is gone; who has the communicator asks.
  if (busy.try_take()) {
    if (const Result asked = nccl.ncclCommGetAsyncError(comm, &error); asked != kSuccess) {
      error = asked;
    }
    busy.give();
  }
  if (error != kSuccess && error != kInProgress) {
    if (!explained()) tell(failure_of(error, "ncclCommGetAsyncError"));
    return;
  }
  std::list<Flight> under_way;
  std::list<Flight> over;  // which go without the lock
  {
    const std::lock_guard lock(mutex);
    under_way.swap(flights);
  }
  for (auto at = under_way.begin(); at != under_way.end() && !trouble;) {
    const Progress progress = at->progress();
    const auto next = std::next(at);
    if (progress == Progress::runs) look_at(*at);
    if (progress == Progress::over) over.splice(over.end(), under_way, at);
    at = next;
  }
  const std::lock_guard lock(mutex);
  flights.splice(flights.begin(), under_way);
}

void StreamEngine::State::keep() noexcept {
  log::deliver_elsewhere();
  const auto is_under_way = [&] {
    const std::lock_guard lock(mutex);
    return !closing || !flights.empty();
  };
  while (is_under_way() && !revocation->revoked() && !trouble) {
    const uint32_t seen = woken.load();
    const uint32_t events = revocation->events().load();
    try {
      look();
    } catch (const std::bad_alloc&) {
    }  // at the next look
    if (!closing || !trouble) {
      sleep_while(woken, seen, &revocation->events(), events, Deadline::after_ms(kLookMs));
    }
  }
  // A call that is being made sees that it is over, too; one that is stuck in NCCL is cut off.
  const bool alone = busy.take(Deadline::after_ms(kReasonMs));
  if (comm != nullptr) give_back(finish());
  if (alone) busy.give();
  const std::lock_guard lock(calling);
  ended = true;
  if (counted) --ending;
}

// Whether all that was sent from here has gone, so
// that no rank misses what this one has ended with.
bool StreamEngine::State::finish() const {
  if (trouble || !ready || revocation->revoked()) return false;
  Result now = nccl.ncclCommFinalize(comm);
  retry_until(
      [&] {
        if (now == kInProgress && nccl.ncclCommGetAsyncError(comm, &now) != kSuccess) {
          now = kSystemError;
        }
        return now != kInProgress || revocation->revoked();
      },
      Deadline::after_ms(kPatienceMs));
  return now == kSuccess;
}

// By another thread, since a call of NCCL may not return.
void StreamEngine::State::give_back(bool in_order) noexcept {
  const char* const what = in_order ? "ncclCommDestroy" : "ncclCommAbort";
  bool over = false;
  try {
    const auto done = std::make_shared<std::atomic<bool>>(false);
    process::start_thread("symm-nccl-end",
        [call = in_order ? nccl.ncclCommDestroy : nccl.ncclCommAbort, comm = comm, done] {
          call(comm);
          *done = true;
        });
    over = retry_until([&] { return done->load(); }, Deadline::after_ms(kPatienceMs));
  } catch (const std::exception&) {
  }  // no thread, no memory: the same
  if (!over) {
    log::write(log::Level::warning,
        "%s: %s has not returned within %lu ms: its communicator is left to it", nccl.name.c_str(),
        what, kPatienceMs);
  }
}

StreamEngine::StreamEngine(const Owner& owner) : state_(std::make_shared<State>(owner)) {}

StreamEngine::~StreamEngine() {
  State& s = *state_;
  {
    const std::lock_guard lock(s.calling);
    s.fail = nullptr;
    s.counted = s.kept && !s.ended;
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
  process::start_thread("symm-nccl", [own = state_] { own->keep(); });
  s.kept = true;
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
  Waiter waiter{0};
  LazyDeadline deadline(timeout_ms);
  const auto is_settled = [&] {
    if (result == kInProgress && s.nccl.ncclCommGetAsyncError(s.comm, &result) != kSuccess) {
      result = kSystemError;
    }
    return result != kInProgress;
  };
  const auto never = [] { return false; };
  const WaitEnd end = wait_condition({is_settled, never, {}, false}, waiter, *s.revocation,
      {.spins = 100, .yields = 1'000}, deadline);
  s.revocation->throw_if_revoked();
  if (end == WaitEnd::timed_out) {
    throw Error(Status::timeout,
        format("%s: %s: not all ranks came within %lu ms", s.nccl.name.c_str(), call, timeout_ms));
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
    if (!s.explained()) s.tell(error.failure());  // this rank is out of step
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

void StreamEngine::watch(const char* what, uint64_t timeout_ms, std::vector<int32_t> whom,
    std::function<Progress()> progress) {
  const std::lock_guard lock(state_->mutex);
  state_->flights.push_back({what, timeout_ms, std::move(whom), std::move(progress), {}, {}});
}

void StreamEngine::await_end() const noexcept {
  State& s = *state_;
  if (s.kept) retry_until([&] { return s.ended.load(); }, Deadline::after_ms(kEndMs));
}
}  // namespace symm::engine
