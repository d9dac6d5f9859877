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
// thread was doing at fork(). An entry is the descriptor + 1; 0 is free.
constexpr size_t kBlockSize = 1024;
constexpr size_t kMaxBlocks = 1024;
using Slots = std::array<std::atomic<int>, kBlockSize>;
std::array<std::atomic<Slots*>, kMaxBlocks> table;

bool enter_in(Slots& block, int fd, uint32_t base, uint32_t& slot) {
  for (uint32_t i = 0; i < kBlockSize; ++i) {
    int free = 0;
    if (block[i].load(std::memory_order_relaxed) == 0 &&
        block[i].compare_exchange_strong(free, fd + 1)) {
      slot = base + i;
      return true;
    }
  }
  return false;
}

uint32_t enter(int fd) {
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
  return (*table[slot / kBlockSize].load())[slot % kBlockSize];
}
}  // namespace

PeerFd::PeerFd(Fd fd) {
  if (!fd) return;
  slot_ = enter(fd.get());
  generation_ = process::fork_generation();
  fd_ = fd.release();
}

PeerFd::PeerFd(PeerFd&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), slot_(other.slot_), generation_(other.generation_) {}

PeerFd& PeerFd::operator=(PeerFd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
    slot_ = other.slot_;
    generation_ = other.generation_;
  }
  return *this;
}

void PeerFd::reset() noexcept {
  const int fd = std::exchange(fd_, -1);
  if (fd < 0 || generation_ != process::fork_generation()) return;

  // The entry goes first: if the number became free while it is in the table, a child forked at
  // that moment would close a descriptor that another thread had just got.
  entry(slot_).store(0);
  ::close(fd);
}

void PeerFd::close_all_in_child() noexcept {
  for (auto& slot : table) {
    Slots* block = slot.load();
    if (block == nullptr) return;
    for (auto& number : *block) {
      const int fd = number.exchange(0) - 1;
      if (fd >= 0) ::close(fd);
    }
  }
}
}  // namespace symm
