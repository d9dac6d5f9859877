// Words in shared memory that the kernel marks when the process that holds them dies.
#include "core/socket/life.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/memfd.hpp"
#include "core/base/process.hpp"
#include "core/base/wait.hpp"
#include "core/socket/monitor.hpp"

namespace symm {
namespace {
constexpr uint32_t kNobody = UINT32_MAX;
constexpr uint64_t kThreadStartMs = 1'000;  // how long a thread may take to start
constexpr uint64_t kLookMs = 60'000;        // the words are looked at again, though nobody woke us

bool is_marked(const Word& word) noexcept {
  return (word.load(std::memory_order_acquire) & FUTEX_OWNER_DIED) != 0;
}

// Stores at once, for the kernel may go through the list at any moment.
void link(robust_list& from, robust_list& to) noexcept {
  std::atomic_ref(from.next).store(&to, std::memory_order_release);
}
}  // namespace

LifeWord map_life_word(const Fd& fd, uint64_t index) noexcept {
  struct stat status{};
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (index >= Life::kWords || seals < 0 || (seals & F_SEAL_SHRINK) == 0 ||
      fstat(fd.get(), &status) != 0 || status.st_size != static_cast<off_t>(Life::kBytes)) {
    return nullptr;
  }

  void* const start = mmap(nullptr, Life::kBytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (start == MAP_FAILED) return nullptr;

  try {
    const std::shared_ptr<void> mapping(start, [](void* mapped) { munmap(mapped, Life::kBytes); });
    return {mapping, &static_cast<const Life::Slot*>(start)[index].word};
  } catch (const std::bad_alloc&) {
    return nullptr;  // the shared pointer's deleter has unmapped it
  }
}

bool has_ended(const LifeWord& word) noexcept { return word && is_marked(*word); }

Life::Life()
    : fd_(make_memfd("symm-life")), bell_(make_fd(eventfd, 0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!fd_ || !bell_) throw system_error(errno, fd_ ? "eventfd" : "memfd_create");
  if (kBytes > file_size_limit()) throw system_error(EFBIG, "posix_fallocate");
  if (const int error = posix_fallocate(fd_.get(), 0, kBytes); error != 0) {
    throw system_error(error, "posix_fallocate");
  }

  void* const start = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (start == MAP_FAILED) throw system_error(errno, "mmap");
  slots_ = static_cast<Slot*>(start);

  // Linux before 5.1 does not know F_SEAL_FUTURE_WRITE.
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (fcntl(fd_.get(), F_ADD_SEALS, seals | F_SEAL_FUTURE_WRITE) != 0) {
    fcntl(fd_.get(), F_ADD_SEALS, seals);
  }

  list_.list.next = &list_.list;
  list_.futex_offset = reinterpret_cast<char*>(slots_) - reinterpret_cast<char*>(links_.data());

  try {
    Monitor::current().watch(bell_.get(), self_);
    process::start_thread("symm-life", [this] { run(); });
  } catch (...) {
    munmap(start, kBytes);
    throw;
  }
}

// Never returns: peers would take the end of this thread for the end of the process.
void Life::run() noexcept {
  const bool listed = syscall(SYS_set_robust_list, &list_, sizeof list_) == 0;
  holder_.store(listed ? static_cast<uint32_t>(syscall(SYS_gettid)) : kNobody);
  wake_all(holder_);

  std::array<WordSnapshot, kMaxSnapshots> seen;
  for (;;) {
    seen[0] = {&changes_, changes_.load()};
    size_t count = 1;
    bool any_ended = false;
    {
      const std::lock_guard lock(mutex_);
      for (WatchedWord& watched : watched_words_) {
        if (watched.ended) continue;
        const uint32_t value = watched.word->load(std::memory_order_acquire);
        watched.ended = is_marked(*watched.word);
        any_ended = any_ended || watched.ended;
        if (!watched.ended) seen[count++] = {watched.word.get(), value};
      }
    }

    const uint64_t one = 1;
    if (any_ended && ::write(bell_.get(), &one, sizeof one) == sizeof one) continue;

    // A word that is unmapped meanwhile was forgotten before, which changes `changes_`.
    if (!sleep_on_any({seen.data(), count}, nanoseconds_of(kLookMs))) {
      sleep_while(changes_, seen[0].value, nullptr, 0, Deadline::never());
    }
  }
}

void Life::ready(int fd) noexcept {
  uint64_t rung = 0;
  if (::read(fd, &rung, sizeof rung) != sizeof rung) return;
  for (;;) {
    std::unique_lock lock(mutex_);
    const auto found = std::find_if(watched_words_.begin(), watched_words_.end(),
        [](const WatchedWord& watched) { return watched.ended; });
    if (found == watched_words_.end()) return;
    const std::shared_ptr<Watched> watched = found->watched.lock();
    watched_words_.erase(found);

    lock.unlock();
    if (watched) watched->ready(-1);
  }
}

bool Life::hold(uint64_t& index) {
  SYMM_POINT("life.hold");
  await_change(holder_, Deadline::after_ms(kThreadStartMs), [this] { return holder_ != 0; });
  const uint32_t holder = holder_;
  if (holder == 0 || holder == kNobody) return false;

  const std::lock_guard lock(mutex_);
  index = 0;
  while (index < linked_ && slots_[index].word != 0) {
    ++index;
  }
  if (index == kWords) return false;

  // With FUTEX_WAITERS the kernel wakes the threads that sleep on the word. They cannot set that
  // bit themselves, for they map the word read-only.
  slots_[index].word = holder | FUTEX_WAITERS;
  if (index < linked_) return true;

  link(links_[index], list_.list);
  link(index == 0 ? list_.list : links_[index - 1], links_[index]);
  ++linked_;
  return true;
}

void Life::let_go(uint64_t index) noexcept { slots_[index].word = 0; }

uint64_t Life::watch(LifeWord word, std::weak_ptr<Watched> watched) {
  const std::lock_guard lock(mutex_);
  if (watched_words_.size() >= kMaxSnapshots - 1) return 0;
  watched_words_.push_back({++last_, std::move(word), std::move(watched)});
  tell_change(changes_);
  return last_;
}

void Life::forget(uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(
      watched_words_, [=](const WatchedWord& watched) { return watched.number == number; });
  tell_change(changes_);
}
}  // namespace symm
