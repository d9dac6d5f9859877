// The windows of a communicator, as symmetric memory of its CUDA group: what lies in them goes from
// rank to rank without a copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <mutex>

#include "bindings/nccl/host_group.hpp"
#include <symm/symm.h>

namespace symm::nccl {
class Windows {
 public:
  // All ranks have registered a window, each with memory of its own.
  void note(const void* window, const void* memory, size_t bytes);
  // The program may free the memory. This rank's own.
  void forget(const void* window) noexcept;

  // Whether meet() has something to do.
  bool has_new() const noexcept { return fresh_ != 0; }

  // Makes symmetric memory of those that were noted, where the memory of every rank can be shared;
  // the others stay private memory. A collective call of the ranks that agreed, which waits for the
  // others to make it.
  void meet(symm_group_t* group, HostGroup& ranks);

  void release() noexcept;

 private:
  struct Window {
    const void* name;
    const void* memory;
    size_t bytes;
    bool is_fresh = true;
    bool is_over = false;
    symm_memory_t* met = nullptr;
  };

  symm_memory_t* meet_one(const Window& window, symm_group_t* group, HostGroup& ranks);

  std::mutex mutex_;
  std::atomic<size_t> fresh_{0};
  // In the order of registration, which is that of all ranks.
  std::list<Window> all_;
};
}  // namespace symm::nccl
