// The table of descriptors that a forked child closes. That is done in a handler of fork(),
// where little is allowed: no lock is taken, and no memory allocated.
#include "core/base/peer_fd.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/process.hpp"

namespace symm {
namespace {
// The table grows by blocks that are never freed, so that the child can walk it whatever another
// thread was doing at fork().
constexpr size_t kBlockSize = 1024;
constexpr size_t kMaxBlocks = 1024;
constexpr int kFree = 0;
constexpr int kTaken = -1;  // by a thread that writes `file`

struct Slot {
  std::atomic<int> entry{kFree};  // the descriptor + 1
  OpenFile file;
};

using Slots = std::array<Slot, kBlockSize>;
std::array<std::atomic<Slots*>, kMaxBlocks> table;

bool enter_in(Slots& block, const Fd& fd, uint32_t base, uint32_t& slot) {
  for (uint32_t i = 0; i < kBlockSize; ++i) {
    int free = kFree;
    if (block[i].entry.load(std::memory_order_relaxed) == kFree &&
        block[i].entry.compare_exchange_strong(free, kTaken)) {
      block[i].file = fd.file();
      block[i].entry.store(fd.get() + 1);
      slot = base + i;
      return true;
    }
  }
  return false;
}

uint32_t enter(const Fd& fd) {
  for (uint32_t b = 0; b < kMaxBlocks; ++b) {
    Slots* block = table[b].load();
    if (block == nullptr) {
      auto* fresh = new Slots{};
      if (table[b].compare_exchange_strong(block, fresh)) {
        block = fresh;
      } else {
        delete fresh;
      }
    }

    uint32_t slot = 0;
    if (enter_in(*block, fd, b * static_cast<uint32_t>(kBlockSize), slot)) return slot;
  }
  throw Error(Status::out_of_memory, "more than a million connections");
}

std::atomic<int>& entry(uint32_t slot) {
  return (*table[slot / kBlockSize].load())[slot % kBlockSize].entry;
}
}  // namespace

PeerFd::PeerFd(Fd fd) {
  if (!fd) return;
  slot_ = enter(fd);
  generation_ = process::fork_generation();
  fd_ = std::move(fd);
}

PeerFd& PeerFd::operator=(PeerFd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::move(other.fd_);
    slot_ = other.slot_;
    generation_ = other.generation_;
  }
  return *this;
}

void PeerFd::reset() noexcept {
  if (!fd_) return;
  if (generation_ != process::fork_generation()) {
    fd_.release();  // NOLINT(bugprone-unused-return-value): the child has closed it
    return;
  }

  // The entry goes first: if the number became free while it is in the table, a child forked at
  // that moment would close a descriptor that another thread had just got.
  entry(slot_).store(kFree);
  fd_.reset();
}

void PeerFd::close_all_in_child() noexcept {
  for (auto& entry : table) {
    Slots* block = entry.load();
    if (block == nullptr) return;
    for (Slot& slot : *block) {
      const int fd = slot.entry.exchange(kFree) - 1;
      const Fd closed(fd, slot.file);
    }
  }
}
}  // namespace symm
