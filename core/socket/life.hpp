// The first sign of a process's death. When a process is killed, the kernel frees its memory, at
// 0.1 to 0.2 s a GiB, and only then closes its sockets. Before both it goes through the words that
// each thread of the process says it holds (robust futexes), marks them, and wakes the threads that
// sleep on them.
//
// So one thread of the library holds a word for each peer, in memory that the peer maps read-only,
// and sleeps on the words that peers hold for it. This thread ends with the process, or when the
// process becomes another program (exec). The end of other threads means nothing, a forked child
// holds no word, and a word that was let go is not marked. The thread replaces the robust list that
// the C library made for it: the C library needs that list for robust mutexes, and this thread
// locks none.
//
// Where the kernel cannot wait for several words (Linux before 5.16), the words are looked at every
// 50 ms. Where it has no robust futexes, and for peers beyond the 127th, only the sockets tell.
#pragma once

#include <linux/futex.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/base/fd.hpp"
#include "core/base/per_process.hpp"
#include "core/base/process.hpp"
#include "core/base/wait.hpp"
#include "core/socket/monitor.hpp"

namespace symm {
// A word that another process holds.
using LifeWord = std::shared_ptr<const Word>;
// Maps word `index` of the memory that is Life::fd() in the other process. Returns null if `fd` is
// something else.
LifeWord map_life_word(const Fd& fd, uint64_t index) noexcept;
bool has_ended(const LifeWord& word) noexcept;  // false for null

class Life final : public Watched {
 public:
  // The one of this process. Throws Error(system).
  static Life& current() { return PerProcess<Life>::current(); }

  // Holds a word for one peer until it is let go. False if no more words can be held.
  bool hold(uint64_t& index);
  void let_go(uint64_t index) noexcept;
  int fd() const noexcept { return fd_.get(); }

  // Has the monitor call ready(-1) once, when the holder of `word` has ended. Returns a number for
  // forget(); 0 if too many words are watched.
  uint64_t watch(LifeWord word, std::weak_ptr<Watched> watched);
  void forget(uint64_t number) noexcept;

 private:
  friend PerProcess<Life>;
  Life();
  static constexpr size_t kWords = 2048;  // the kernel goes through no more
  // The kernel finds the word of a list entry by its distance from the entry, which is the same for
  // all entries. So words lie as far apart as entries.
  struct Slot {
    Word word{0};
    uint32_t unused = 0;
  };
  static_assert(sizeof(Slot) == sizeof(robust_list));
  static constexpr size_t kBytes = kWords * sizeof(Slot);
  friend LifeWord map_life_word(const Fd& fd, uint64_t index) noexcept;

  struct WatchedWord {
    uint64_t number;
    LifeWord word;
    std::weak_ptr<Watched> watched;
    bool ended = false;  // the bell was rung for it
  };
  void run() noexcept;
  void ready(int fd) noexcept override;

  const std::shared_ptr<Watched> self_{this, [](Watched*) {}};
  PeerFd fd_;
  PeerFd bell_;  // an eventfd, by which the threads here wake the monitor
  std::mutex mutex_;
  Slot* slots_ = nullptr;
  robust_list_head list_{};
  std::array<robust_list, kWords> links_{};
  size_t linked_ = 0;
  Word holder_{0};  // the thread's number; kNobody if the kernel keeps no such list
  uint64_t last_ = 0;
  std::vector<WatchedWord> watched_words_;
  Word changes_{0};  // grows with every change of watched_words_
};

// Holds a word for one peer as long as this lives.
class HeldWord {
 public:
  HeldWord() = default;
  HeldWord(HeldWord&&) = delete;
  ~HeldWord() {
    if (held_ && generation_ == process::fork_generation()) Life::current().let_go(index_);
  }
  // Called once. Throws Error(system).
  bool hold() {
    held_ = Life::current().hold(index_);
    return held_;
  }
  uint64_t index() const noexcept { return index_; }

 private:
  const uint32_t generation_ = process::fork_generation();
  uint64_t index_ = 0;
  bool held_ = false;
};
}  // namespace symm
