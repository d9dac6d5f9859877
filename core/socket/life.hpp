// The first sign of a process's death. When a process is killed, the kernel frees its
// memory, at 0.1 to 0.2 s a GiB, and only then closes its sockets. Before both it goes
// through the words that each of its threads says it holds (robust futexes), marks
// them, and wakes whoever sleeps on them.
//
// So one thread of the library holds a word for each peer, in memory that the peer maps
// read-only, and sleeps on the words that peers hold for it. It ends with the process,
// or when that becomes another program: the end of other threads means nothing, a
// forked child holds no word, and a word that is let go is marked by nobody. Its robust
// list is this thread's own: the C library uses the one that it made for its mutexes,
// of which this thread locks none that is robust.
//
// Where the kernel cannot wait for several words (before 5.16)
// they are looked at every 50 ms. The sockets tell alone where
// it has no robust futexes, and of more than 127 peers.
#pragma once

#include <linux/futex.h>

#include "core/base/wait.hpp"
#include "core/socket/monitor.hpp"

namespace symm {
// Of another process.
using LifeWord = std::shared_ptr<const Word>;
// Word `index` of what Life::fd() is there. Null if it is something else.
LifeWord map_life_word(const Fd& fd, uint64_t index) noexcept;
bool has_ended(const LifeWord& word) noexcept;  // false for null

class Life final : public Watched {
 public:
  // of this process. Throws Error(system)
  static Life& current() { return PerProcess<Life>::current(); }

  // A word held for one peer until it is let go. False if no more can be held.
  bool hold(uint64_t& index);
  void let_go(uint64_t index) noexcept;
  int fd() const noexcept { return fd_.get(); }

  // Have the monitor call ready(-1) when the holder of `word` has ended, once. Returns
  // a number for forget(); 0: there are too many.
  uint64_t watch(LifeWord word, std::weak_ptr<Watched> watched);
  void forget(uint64_t number) noexcept;

 private:
  friend PerProcess<Life>;
  Life();
  static constexpr size_t kWords = 2048;  // the kernel goes through no more
  // the kernel finds an entry's word by their distance, so both lie equally far apart
  struct Slot {
    Word word{0};
    uint32_t unused = 0;
  };
  static_assert(sizeof(Slot) == sizeof(robust_list));
  static constexpr size_t kBytes = kWords * sizeof(Slot);
  friend LifeWord map_life_word(const Fd& fd, uint64_t index) noexcept;

  struct Entry {
    uint64_t number;
    LifeWord word;
    std::weak_ptr<Watched> watched;
    bool told = false;
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
  std::vector<Entry> entries_;
  Word changes_{0};  // of them
};

// A word held for one peer as long as this is there.
class HeldWord {
 public:
  HeldWord() = default;
  HeldWord(HeldWord&&) = delete;
  ~HeldWord() {
    if (held_ && generation_ == process::fork_generation()) Life::current().let_go(index_);
  }
  bool hold() { return held_ = Life::current().hold(index_); }  // once. Throws Error(system)
  uint64_t index() const noexcept { return index_; }

 private:
  const uint32_t generation_ = process::fork_generation();
  uint64_t index_ = 0;
  bool held_ = false;
};
}  // namespace symm
