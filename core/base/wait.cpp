#include "core/base/wait.hpp"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <tuple>
#include <utility>

#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/page.hpp"

namespace symm {
namespace {
constexpr uint64_t kMillisecond = 1'000'000;
// upper bound of one sleep; every wake-up is also looked for by the waiter
constexpr uint64_t kSlice = 50 * kMillisecond;
constexpr uint64_t kBlindSlice = kMillisecond;  // where the kernel cannot tell us of both words

timespec to_timespec(uint64_t ns) noexcept {
  return {static_cast<time_t>(ns / 1'000'000'000U), static_cast<long>(ns % 1'000'000'000U)};
}

void nap(uint64_t ns) noexcept {
  const timespec t = to_timespec(ns);
  clock_nanosleep(CLOCK_MONOTONIC, 0, &t, nullptr);
}

std::atomic<bool> futex_waitv_missing{false};

// Sleep on several words at once. False if this kernel
// (before 5.16, or a seccomp filter) does not offer it.
bool sleep_on(std::span<const Seen> seen, uint64_t ns) noexcept {
#if defined(SYS_futex_waitv) && defined(FUTEX_32)
  if (futex_waitv_missing.load(std::memory_order_relaxed)) return false;
  std::array<futex_waitv, kMostSeen> waits;
  for (size_t i = 0; i < seen.size(); ++i) {
    waits[i] = {};
    waits[i].val = seen[i].value;
    waits[i].uaddr = reinterpret_cast<uintptr_t>(seen[i].word);
    waits[i].flags = FUTEX_32;
  }
  const timespec until = to_timespec(now_ns() + ns);
  if (syscall(SYS_futex_waitv, waits.data(), seen.size(), 0, &until, CLOCK_MONOTONIC) < 0 &&
      (errno == ENOSYS || errno == EPERM)) {
    futex_waitv_missing = true;
    return false;
  }
  return true;
#else
  (void)seen, (void)ns;
  return false;
#endif
}

// What the control group (version 2) lets this process
// use at a time, in processors; 0 if it does not say.
int processor_quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0;
  double period = 0;
  if (!(file >> quota >> period) || quota <= 0 || period <= 0) return 0;
  return std::max(static_cast<int>(quota / period), 1);
}
}  // namespace

Deadline Deadline::after_ms(uint64_t milliseconds) noexcept {
  if (milliseconds == kNow) return Deadline(0);
  const uint64_t now = now_ns();
  if (milliseconds >= (kInfinite - now) / kMillisecond) return never();
  return Deadline(now + milliseconds * kMillisecond);
}

bool Deadline::expired() const noexcept { return ns_ != kInfinite && now_ns() >= ns_; }

uint64_t Deadline::remaining_ns() const noexcept {
  if (ns_ == kInfinite) return kInfinite;
  const uint64_t now = now_ns();
  return now >= ns_ ? 0 : ns_ - now;
}

int Deadline::remaining_ms() const noexcept {
  if (ns_ == kInfinite) return -1;
  return static_cast<int>(
      std::min<uint64_t>((remaining_ns() + kMillisecond - 1) / kMillisecond, 1U << 30));
}

struct Revocation::Listeners {
  // held while an event is told, so that whoever stops listening is not called any more
  std::mutex mutex;
  std::map<uint64_t, std::function<void()>> functions;
  uint64_t next = 0;
};

Revocation::Revocation(int size, std::shared_ptr<const Page> page)
    : page_(std::move(page)),
      listeners_(std::make_shared<Listeners>()),
      departed_(static_cast<size_t>(size)) {}

void Revocation::announce() noexcept {
  events_.fetch_add(1, std::memory_order_seq_cst);
  wake_all(events_);
  const std::lock_guard lock(listeners_->mutex);
  for (const auto& [id, function] : listeners_->functions) {
    function();
  }
}

std::shared_ptr<void> Revocation::listen(std::function<void()> event) {
  std::unique_lock lock(listeners_->mutex);
  const uint64_t id = listeners_->next++;
  event();
  listeners_->functions.emplace(id, std::move(event));
  lock.unlock();  // what is made here is destroyed where memory lacks, and takes it
  return {nullptr, [listeners = listeners_, id](void*) {
            const std::lock_guard held(listeners->mutex);
            listeners->functions.erase(id);
          }};
}

Revocation::Effect Revocation::revoke(Failure failure, int peer, bool seen) {
  Effect effect;
  if (failure.when_ns == 0) failure.when_ns = now_ns();
  {
    const std::lock_guard lock(mutex_);
    const bool first = failure_.status == Status::ok;
    if (seen && !first && told_by_ == peer) told_ = false;
    if (!first && failure.status == failure_.status && failure.rank == failure_.rank) {
      failure_.when_ns = std::min(failure_.when_ns, failure.when_ns);
    } else {
      effect.counts = first || std::tie(failure.when_ns, failure.rank) <
                                   std::tie(failure_.when_ns, failure_.rank);
      if (effect.counts) {
        failure_ = std::move(failure);
        if (page_) {
          Page::set((*page_)->failure, static_cast<uint64_t>(failure_.status) << 32 |
                                           static_cast<uint32_t>(failure_.rank + 1));
        }
        told_by_ = seen ? -1 : peer;
        told_ = !seen;
      }
      effect.tell = !first && !told_;
      told_ = told_ || effect.tell;
    }
    revoked_.store(true, std::memory_order_release);
  }
  if (effect.counts) announce();
  return effect;
}

Failure Revocation::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Revocation::throw_if_revoked() const {
  if (revoked()) throw Error(failure());
}

void Revocation::depart(int rank) {
  departed_[static_cast<size_t>(rank)].store(true, std::memory_order_release);
  announce();
}

bool Revocation::departed(int rank) const noexcept {
  return departed_[static_cast<size_t>(rank)].load(std::memory_order_acquire);
}

Processors usable_processors() {
  Processors processors;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  const bool known = sched_getaffinity(0, sizeof mask, &mask) == 0;
  const size_t count =
      known ? CPU_SETSIZE : std::clamp<size_t>(std::thread::hardware_concurrency(), 1, CPU_SETSIZE);
  for (size_t i = 0; i < count; ++i) {
    processors[i] = !known || CPU_ISSET(i, &mask);
  }
  return processors;
}

SpinPolicy SpinPolicy::for_ranks(int ranks, const Processors& processors, bool far) {
  const char* text = environment("SYMM_SPIN");
  char* end = nullptr;
  const unsigned long value = std::strtoul(text, &end, 10);
  if (end != text && *end == '\0' && value <= UINT32_MAX) return {static_cast<uint32_t>(value), 0};
  // With a processor each, a wake-up through the kernel (tens of
  // microseconds) is worth spinning through. With more ranks than processors
  // the rank we wait for may need ours: a few looks, in case the word is
  // already on its way, then the processor goes to whoever wants it, which
  // takes a fifth of a sleep and a wake-up. Not for long: the others may be
  // programs that have better things to do than to take turns with us.
  auto usable = static_cast<int>(processors.count());
  if (const int quota = processor_quota(); quota != 0) usable = std::min(usable, quota);
  // A look at other machines costs a call of the kernel, a thousand of them far more
  // than a wake-up. Measured with 1 and 2 ranks.
  if (far) return {ranks == 1 ? 1'000U : 300U, 0};
  return ranks <= usable ? SpinPolicy{20'000, 0} : SpinPolicy{50, 200};
}

bool register_for_asymmetric_fences() noexcept {
#if defined(__SANITIZE_THREAD__)
  return false;  // it cannot see what the kernel orders
#else
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
#endif
}

namespace {
// Others want this thread's processor, and took it while the thread waited: more
// spinning would use up the turns in which it could answer, and who yields waits for
// all of theirs. Who sleeps is woken before them.
class Contention {
 public:
  bool lasts() const noexcept { return until_ != 0 && now_ns() < until_; }

  void begin() noexcept { until_ = now_ns() + 50 * kMillisecond; }

  // Whether the processor was taken away since the last
  // look, of which the `first` in a wait only counts.
  bool look(bool first) noexcept {
    rusage used{};
    getrusage(RUSAGE_THREAD, &used);
    const bool taken = std::exchange(taken_, used.ru_nivcsw) != used.ru_nivcsw && !first;
    if (taken) begin();
    return taken;
  }

 private:
  long taken_ = 0;
  uint64_t until_ = 0;
};

thread_local Contention contention;

bool is_there_soon(const Predicate& there, const Revocation& revocation, SpinPolicy spin,
    const LazyDeadline& deadline) {
  if (deadline.timeout_ms() == Deadline::kNow) return false;
  constexpr uint32_t kInARow = 64;
  for (uint32_t looks = 0; looks < spin.spins;) {
    if (there.look(std::min(kInARow, spin.spins - looks))) return true;
    looks += kInARow;
    // A revoked group must be left soon even by a rank that would spin for long.
    if (revocation.revoked()) break;
    if (looks == kInARow && contention.lasts()) break;
    if (looks % 1024 == 0 && contention.look(looks == 1024)) break;
  }
  for (uint32_t i = 0; i < spin.yields && !revocation.revoked() && !contention.lasts(); ++i) {
    if (there()) return true;
    const uint64_t before = now_ns();
    sched_yield();
    if (now_ns() - before > kMillisecond) contention.begin();
  }
  return false;
}

// Until there(), which changes only after one of `words` has, if the writers are `told`
// of a waiter; in vain if unreachable().
template <class There, class InVain>
[[gnu::noinline]] WaitEnd sleep_until(const There& there, const InVain& unreachable,
    std::span<const Word* const> words, Waiter& waiter, const Revocation& revocation,
    LazyDeadline& deadline, Fencing fencing, bool told, int peer, const char* what) {
  // A byte counts this rank's sleeping threads. Should there ever be 255 of them, the
  // next goes uncounted and looks every millisecond.
  uint8_t sleeping = waiter.load(std::memory_order_relaxed);
  bool registered = false;
  while (!registered && sleeping < UINT8_MAX) {
    registered = waiter.compare_exchange_weak(
        sleeping, static_cast<uint8_t>(sleeping + 1), std::memory_order_seq_cst);
  }
  // Should the kernel not do it now after all, the
  // writer may miss us: we look every millisecond.
  const bool seen_by_writers = fencing == Fencing::symmetric ||
                               syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;
  const bool wakes = registered && seen_by_writers && told && words.size() < kMostSeen;
  words = words.first(std::min(words.size(), kMostSeen - 1));
  std::array<Seen, kMostSeen> watched;
  WaitEnd end = WaitEnd::reached;
  const uint64_t began = now_ns();
  const Page::Sleep shown(revocation.page().get(), peer, what, began);
  for (;;) {
    watched[words.size()] = {
        &revocation.events(), revocation.events().load(std::memory_order_seq_cst)};
    for (size_t i = 0; i < words.size(); ++i) {
      watched[i] = {words[i], words[i]->load(std::memory_order_seq_cst)};
    }
    const bool revoked = revocation.revoked();
    const bool gone = unreachable();
    // Events first, what is awaited last: a peer's last
    // store happened before its departure was announced.
    if (there()) break;
    if (revoked || gone) {
      end = revoked ? WaitEnd::revoked : WaitEnd::peer_departed;
      break;
    }
    const uint64_t left = deadline.get().remaining_ns();
    if (left == 0) {
      end = WaitEnd::timed_out;
      break;
    }
    const uint64_t slice = std::min(left, wakes ? kSlice : kBlindSlice);
    if (!sleep_on({watched.data(), words.size() + 1}, slice)) {
      const timespec t = to_timespec(std::min(slice, kBlindSlice));
      syscall(SYS_futex, watched[0].word, FUTEX_WAIT, watched[0].value, &t, nullptr, 0);
    }
  }
  if (registered) waiter.fetch_sub(1, std::memory_order_relaxed);
  revocation.count_sleep(now_ns() - began);
  return end;
}
}  // namespace

WaitEnd wait_word(const Word& word, uint32_t target, Waiter& waiter, int peer,
    const Revocation& revocation, SpinPolicy spin, LazyDeadline& deadline, Fencing fencing,
    const char* what) {
  const auto there = [&word, target] { return reached(word, target); };
  if (is_there_soon(there, revocation, spin, deadline)) return WaitEnd::reached;
  const Word* const words[] = {&word};
  return sleep_until(
      there, [&] { return revocation.departed(peer); }, words, waiter, revocation, deadline,
      fencing, true, peer, what);
}

WaitEnd wait_condition(const Condition& condition, Waiter& waiter, const Revocation& revocation,
    SpinPolicy spin, LazyDeadline& deadline) {
  if (is_there_soon(condition.holds, revocation, spin, deadline)) return WaitEnd::reached;
  return sleep_until(condition.holds, condition.unreachable, condition.bells, waiter, revocation,
      deadline, Fencing::symmetric, condition.all_ring, condition.peer, condition.what);
}

void ring(Word& bell, const Waiter& waiter) noexcept {
  if (waiter.load(std::memory_order_seq_cst) == 0) return;
  bell.fetch_add(1, std::memory_order_seq_cst);
  wake_all(bell);
}

void sleep_while(const Word& word, uint32_t seen, const Word* other, uint32_t other_seen,
    Deadline deadline) noexcept {
  const uint64_t left = std::min(deadline.remaining_ns(), kSlice);
  if (left == 0 || word.load() != seen || (other != nullptr && other->load() != other_seen)) return;
  const Seen both[] = {{&word, seen}, {other, other_seen}};
  if (other != nullptr && sleep_on(both, left)) return;
  const timespec t = to_timespec(other != nullptr ? std::min(left, kBlindSlice) : left);
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &t, nullptr, 0);
}

bool sleep_on_any(std::span<const Seen> seen, uint64_t milliseconds) noexcept {
  return sleep_on(seen, nanoseconds_of(milliseconds));
}

void wake_all(const Word& word) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool poll_until(std::span<pollfd> fds, Deadline deadline) {
  for (;;) {
    const int ready = poll(fds.data(), static_cast<nfds_t>(fds.size()), deadline.remaining_ms());
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR && errno != EAGAIN && errno != ENOMEM) {
      throw system_error(errno, "poll");
    }
    if (ready < 0 && errno == ENOMEM) nap(std::min(deadline.remaining_ns(), kMillisecond));
    if (deadline.expired()) return false;
  }
}

bool retry_until(const std::function<bool()>& ready, Deadline deadline) {
  for (uint64_t pause_ns = kMillisecond / 10;;
      pause_ns = std::min(pause_ns * 3 / 2, 5 * kMillisecond)) {
    if (ready()) return true;
    const uint64_t left = deadline.remaining_ns();
    if (left == 0) return false;
    nap(std::min(left, pause_ns));
  }
}
}  // namespace symm
