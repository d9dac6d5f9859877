// One memory of a group, handed out in pieces without communication: ranks that make the same
// calls in the same order get the same offsets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "core/backend/backend.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "core/group/suballocator.hpp"
#include <symm/symm.h>

namespace symm {
class Heap {
 public:
  struct Options {
    Placement placement;  // its alignment 0: kPage
    std::string name;
    uint64_t timeout_ms = 0;
  };
  static constexpr size_t kPage = 4096;
  // The tag of the rendezvous of a heap, which no user meets by accident.
  static constexpr uint64_t kTag = 0x7061'6568;
  // [collective] Makes one allocation and one rendezvous. If it fails on one rank, it fails on all.
  static std::shared_ptr<Heap> create(
      const std::shared_ptr<Group>& group, size_t bytes, Options options);
  Heap(size_t bytes, const Options& options);  // for create()
  Heap(Heap&&) = delete;

  struct Piece {
    std::byte* pointer = nullptr;
    size_t offset = 0;
    size_t bytes = 0;
  };
  Piece take(size_t bytes, size_t alignment);  // alignment 0: Suballocator::kUnit
  void give(const void* pointer);
  // The piece that contains an address; its pointer is null if there is none.
  Piece find(const void* address) const;

  symm_heap_info_t info() const;
  const std::shared_ptr<Memory>& memory() const noexcept { return memory_; }
  const std::string& name() const noexcept { return options_.name; }

 private:
  // The offset of an address; Suballocator::kNone if it is not in this rank's block.
  size_t offset_of(const void* address) const noexcept;
  // Adds a call to the history. The mutex is held.
  void called(uint64_t what, uint64_t how);

  std::shared_ptr<Memory> memory_;
  Options options_;
  std::byte* start_ = nullptr;
  mutable std::mutex mutex_;
  Suballocator pieces_;
  uint64_t calls_ = 0;
  uint64_t history_ = 0;
};
}  // namespace symm
