// One memory of a group, handed out in pieces without communication: ranks that make the same
// calls in the same order get the same offsets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
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
  // [collective] The heap that a heap of another group becomes on `group`, with all its pieces;
  // moving.hpp. Null: a newcomer.
  static std::shared_ptr<Heap> move(
      const std::shared_ptr<Group>& group, const std::shared_ptr<Heap>& from, uint64_t timeout_ms);
  static constexpr uint64_t kMoveTag = 0x6576'6f6d'7061'6568;  // of its rendezvous

  // The pieces of a heap, in which a heap goes on that has moved to another group.
  struct Books {
    Books(size_t bytes, std::span<const uint32_t> saved)
        : pieces(saved.empty() ? Suballocator(bytes) : Suballocator(bytes, saved)) {}
    std::mutex mutex;
    Suballocator pieces;
    uint64_t calls = 0;
    uint64_t history = 0;
    std::weak_ptr<Memory> memory;  // that of the latest heap
  };
  Heap(std::shared_ptr<Books> books, const Options& options);  // for create() and move()
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
  void lie_in(std::shared_ptr<Memory> memory);

  const std::shared_ptr<Books> books_;
  std::shared_ptr<Memory> memory_;
  Options options_;
  std::byte* start_ = nullptr;
};
}  // namespace symm
