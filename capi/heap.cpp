// The C ABI of heaps. It converts handles and structs of symm.h; core/group/heap.hpp does the
// work.
#include "core/group/heap.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

#include "capi/guard.hpp"
#include "capi/handle.hpp"
#include "capi/objects.hpp"
#include "capi/options.hpp"
#include "capi/placement.hpp"
#include "capi/structs.hpp"
#include "core/base/error.hpp"
#include "symm/symm.h"

using namespace symm;
using namespace symm::capi;

SYMM_OPTIONS(symm_heap_options, options, failure, SYMM_HEAP_OPTIONS_INIT)

symm_status_t symm_heap_create(
    symm_group_t* group, size_t bytes, const symm_heap_options_t* options, symm_heap_t** out) {
  return produce(options, out, "out", [&] {
    const auto& owner = group_of(group);
    const symm_heap_options_t given = read_options(options);
    const Heap::Options asked{placement_of(given), bounded_name(given.name), given.timeout_ms};
    return make_handle<symm_heap_t>([&] { return Heap::create(owner, bytes, asked); });
  });
}

symm_status_t symm_heap_move(symm_heap_t* heap, symm_group_t* new_group,
    const symm_call_options_t* options, symm_heap_t** out) {
  return produce(options, out, "out", [&] {
    const auto& owner = group_of(new_group, "new_group");
    const std::shared_ptr<Heap> from = heap != nullptr ? heap_of(heap) : nullptr;
    const uint64_t timeout_ms = timeout_of(options);
    return make_handle<symm_heap_t>([&] { return Heap::move(owner, from, timeout_ms); });
  });
}

symm_status_t symm_heap_alloc(symm_heap_t* heap, size_t bytes, size_t alignment,
    const symm_call_options_t* options, void** out_pointer, size_t* out_offset) {
  return quick(options, [&] {
    require(out_pointer, "out_pointer");
    check_options(options);
    const Heap::Piece piece = heap_of(heap)->take(bytes, alignment);
    *out_pointer = piece.pointer;
    if (out_offset != nullptr) *out_offset = piece.offset;
  });
}

symm_status_t symm_heap_free(symm_heap_t* heap, void* pointer, const symm_call_options_t* options) {
  return quick(options, [&] {
    Heap& self = *heap_of(heap);
    check_options(options);
    if (pointer != nullptr) self.give(pointer);
  });
}

symm_status_t symm_heap_find(symm_heap_t* heap, const void* address,
    const symm_call_options_t* options, void** out_pointer, size_t* out_bytes) {
  return quick(options, [&] {
    require(out_pointer, "out_pointer");
    check_options(options);
    const Heap::Piece piece = heap_of(heap)->find(address);
    if (piece.pointer == nullptr) {
      throw Error(Status::not_found, "address: no piece in use contains it");
    }
    *out_pointer = piece.pointer;
    if (out_bytes != nullptr) *out_bytes = piece.bytes;
  });
}

symm_status_t symm_heap_memory(symm_heap_t* heap, symm_memory_t** out) {
  return produce(out, "out",
      [&] { return make_handle<symm_memory_t>([&] { return heap_of(heap)->memory(); }); });
}

symm_status_t symm_heap_group(symm_heap_t* heap, symm_group_t** out) {
  return produce(out, "out", [&] {
    return make_handle<symm_group_t>([&] { return heap_of(heap)->memory()->shared_group(); });
  });
}

symm_status_t symm_heap_info(symm_heap_t* heap, symm_heap_info_t* out) {
  return fill_struct(
      out, SYMM_FIRST_SIZE(symm_heap_info_t, name), [&] { return heap_of(heap)->info(); });
}

symm_status_t symm_heap_retain(symm_heap_t* heap) {
  return quick([&] { retain<Heap>(heap, "heap"); });
}

void symm_heap_release(symm_heap_t* heap) { release<Heap>(heap); }
