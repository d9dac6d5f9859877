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
    heap = std::make_shared<Heap>(bytes, options);
    return buffer;
  };
  // The function is passed by reference, and makes the heap's tables too: if memory for either
  // ran out later, this rank would be the only one to fail.
  auto memory = Memory::rendezvous(group, std::ref(allocate), kTag, options.timeout_ms);
  heap->start_ = memory->pointer(group->rank());
  heap->history_ = memory->view().id;
  heap->memory_ = std::move(memory);
  return heap;
}

Heap::Heap(size_t bytes, const Options& options) : options_(options), pieces_(bytes) {}

void Heap::called(uint64_t what, uint64_t how) {
  ++calls_;
  const uint64_t before = history_;
  history_ = mix(mix(history_, what), how);
  memory_->group().heap_called(history_ - before);
}

Heap::Piece Heap::take(size_t bytes, size_t alignment) {
  memory_->group().require_usable();
  if (bytes == 0) throw Error(Status::invalid_argument, "bytes: must be at least 1 byte");
  if (alignment == 0) alignment = Suballocator::kUnit;
  const size_t most = std::max(kPage, options_.placement.alignment);
  if (!std::has_single_bit(alignment) || alignment > most) {
    throw Error(Status::invalid_argument,
        format("alignment: %zu is not a power of two up to %zu, that of the heap's block",
            alignment, most));
  }

  const std::lock_guard lock(mutex_);
  const size_t offset = pieces_.take(bytes, alignment);
  if (offset == Suballocator::kNone) {
    throw Error(Status::out_of_memory,
        format("heap%s%s: %zu bytes asked for, aligned to %zu; %zu of %zu are free, the largest "
               "free piece has %zu",
            name().empty() ? "" : " ", name().c_str(), bytes, alignment,
            pieces_.bytes() - pieces_.used(), pieces_.bytes(), pieces_.largest_free()));
  }
  called(bytes, alignment);
  return {start_ + offset, offset, bytes};
}

size_t Heap::offset_of(const void* address) const noexcept {
  const size_t offset = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(start_);
  return offset < pieces_.bytes() ? offset : Suballocator::kNone;
}

void Heap::give(const void* pointer) {
  const size_t offset = offset_of(pointer);
  if (offset == Suballocator::kNone) {
    throw Error(Status::invalid_argument,
        format("pointer: %p is not in this rank's block of the heap, %zu bytes at %p", pointer,
            pieces_.bytes(), static_cast<const void*>(start_)));
  }

  const std::lock_guard lock(mutex_);
  const Suballocator::Piece piece = pieces_.at(offset);
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
  pieces_.give(piece);
  called(0, offset);
}

Heap::Piece Heap::find(const void* address) const {
  const size_t offset = offset_of(address);
  if (offset == Suballocator::kNone) return {};
  const std::lock_guard lock(mutex_);
  const Suballocator::Piece piece = pieces_.at(offset);
  // The rest of the last unit, behind the bytes that were asked for, does not belong
  // to the piece.
  if (!piece.used || offset >= piece.offset + piece.bytes) return {};
  return {start_ + piece.offset, piece.offset, piece.bytes};
}

symm_heap_info_t Heap::info() const {
  symm_heap_info_t info{};
  write_text(info.name, name());

  const std::lock_guard lock(mutex_);
  info.bytes = pieces_.bytes();
  info.used_bytes = pieces_.used();
  info.peak_bytes = pieces_.peak();
  info.free_bytes = info.bytes - info.used_bytes;
  info.largest_free_bytes = pieces_.largest_free();
  info.pieces = pieces_.pieces();
  info.free_pieces = pieces_.free_pieces();
  info.calls = calls_;
  info.fragmentation_permille =
      info.free_bytes == 0 ? 0
                           : (info.free_bytes - info.largest_free_bytes) * 1000 / info.free_bytes;
  return info;
}
}  // namespace symm
