// A heap: a memory and a suballocator whose calls all ranks repeat. A hash of the calls
// shows when ranks have diverged.
#include "core/group/heap.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/hash.hpp"
#include "core/base/text.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "core/group/suballocator.hpp"
#include "symm/symm.h"

namespace symm {
std::shared_ptr<Heap> Heap::create(
    const std::shared_ptr<Group>& group, size_t bytes, Options options) {
  if (bytes == 0) throw Error(Status::invalid_argument, "bytes: must be at least 1");
  if (bytes > Suballocator::kMostBytes) {
    throw Error(Status::unsupported,
        format("bytes: %zu is more than a heap can have, %zu", bytes, Suballocator::kMostBytes));
  }
  bytes = (bytes + Suballocator::kUnit - 1) / Suballocator::kUnit * Suballocator::kUnit;
  if (options.placement.alignment == 0) options.placement.alignment = kPage;

  std::shared_ptr<Heap> heap;
  const auto allocate = [&] {
    auto buffer = Buffer::allocate(*group, bytes, options.placement, options.name);
    heap = std::make_shared<Heap>(
        std::make_shared<Books>(bytes, std::span<const uint32_t>()), options);
    return buffer;
  };
  // The function is passed by reference, and makes the heap's tables too: if memory for either
  // ran out later, this rank would be the only one to fail.
  auto memory = Memory::rendezvous(group, std::ref(allocate), kTag, options.timeout_ms);
  heap->books_->history = memory->view().id;
  heap->lie_in(std::move(memory));
  return heap;
}

Heap::Heap(std::shared_ptr<Books> books, const Options& options)
    : books_(std::move(books)), options_(options) {}

void Heap::lie_in(std::shared_ptr<Memory> memory) {
  memory_ = std::move(memory);
  start_ = memory_->pointer(memory_->group().rank());
  const std::lock_guard lock(books_->mutex);
  books_->memory = memory_;
}

void Heap::called(uint64_t what, uint64_t how) {
  ++books_->calls;
  const uint64_t before = books_->history;
  books_->history = mix(mix(before, what), how);
  if (const auto latest = books_->memory.lock()) {
    latest->group().heap_called(books_->history - before);
  }
}

Heap::Piece Heap::take(size_t bytes, size_t alignment) {
  memory_->group().require_usable();
  memory_->require_not_moved();
  if (bytes == 0) throw Error(Status::invalid_argument, "bytes: must be at least 1 byte");
  if (alignment == 0) alignment = Suballocator::kUnit;
  const size_t most = std::max(kPage, options_.placement.alignment);
  if (!std::has_single_bit(alignment) || alignment > most) {
    throw Error(Status::invalid_argument,
        format("alignment: %zu is not a power of two up to %zu, that of the heap's block",
            alignment, most));
  }

  const std::lock_guard lock(books_->mutex);
  const size_t offset = books_->pieces.take(bytes, alignment);
  if (offset == Suballocator::kNone) {
    throw Error(Status::out_of_memory,
        format("heap%s%s: %zu bytes asked for, aligned to %zu; %zu of %zu are free, the largest "
               "free piece has %zu",
            name().empty() ? "" : " ", name().c_str(), bytes, alignment,
            books_->pieces.bytes() - books_->pieces.used(), books_->pieces.bytes(),
            books_->pieces.largest_free()));
  }
  called(bytes, alignment);
  return {start_ + offset, offset, bytes};
}

size_t Heap::offset_of(const void* address) const noexcept {
  const size_t offset = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(start_);
  return offset < books_->pieces.bytes() ? offset : Suballocator::kNone;
}

void Heap::give(const void* pointer) {
  const size_t offset = offset_of(pointer);
  if (offset == Suballocator::kNone) {
    throw Error(Status::invalid_argument,
        format("pointer: %p is not in this rank's block of the heap, %zu bytes at %p", pointer,
            books_->pieces.bytes(), static_cast<const void*>(start_)));
  }

  const std::lock_guard lock(books_->mutex);
  const Suballocator::Piece piece = books_->pieces.at(offset);
  if (!piece.used) {
    throw Error(Status::invalid_argument,
        format("pointer: %p, which is at offset %zu, was freed already or never given out", pointer,
            offset));
  }
  if (piece.offset != offset) {
    throw Error(Status::invalid_argument,
        format("pointer: %p lies %zu bytes inside a piece, which starts at offset %zu", pointer,
            offset - piece.offset, piece.offset));
  }
  books_->pieces.give(piece);
  called(0, offset);
}

Heap::Piece Heap::find(const void* address) const {
  const size_t offset = offset_of(address);
  if (offset == Suballocator::kNone) return {};
  const std::lock_guard lock(books_->mutex);
  const Suballocator::Piece piece = books_->pieces.at(offset);
  // The rest of the last unit, behind the bytes that were asked for, does not belong
  // to the piece.
  if (!piece.used || offset >= piece.offset + piece.bytes) return {};
  return {start_ + piece.offset, piece.offset, piece.bytes};
}

symm_heap_info_t Heap::info() const {
  symm_heap_info_t info{};
  write_text(info.name, name());

  const std::lock_guard lock(books_->mutex);
  info.bytes = books_->pieces.bytes();
  info.used_bytes = books_->pieces.used();
  info.peak_bytes = books_->pieces.peak();
  info.free_bytes = info.bytes - info.used_bytes;
  info.largest_free_bytes = books_->pieces.largest_free();
  info.pieces = books_->pieces.pieces();
  info.free_pieces = books_->pieces.free_pieces();
  info.calls = books_->calls;
  info.fragmentation_permille =
      info.free_bytes == 0 ? 0
                           : (info.free_bytes - info.largest_free_bytes) * 1000 / info.free_bytes;
  return info;
}
}  // namespace symm
