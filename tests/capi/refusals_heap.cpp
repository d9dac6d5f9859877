// SPDX-License-Identifier: Apache-2.0
#include "tests/capi/refusal.hpp"
#include "tests/support/options.hpp"

namespace symm_test {

namespace {

const WrongSize<symm_heap_options_t> kHeap;

support::Passed<symm_heap_options_t> made(uint64_t flags, int32_t node, uint64_t alignment) {
  return {{sizeof(symm_heap_options_t), flags, node, alignment, 0, nullptr, 0, nullptr}};
}

}  // namespace

#define SYMM_REFUSE_HEAP(parameter, how, status, bytes, options) \
  SYMM_REFUSE(symm_heap_create, parameter, how, status, w.group, bytes, options, w.out<symm_heap_t*>())

const std::vector<Refusal>& heap_refusals() {
  static const std::vector<Refusal> rows = {
      SYMM_REFUSE_HEAP(bytes, "0", INVALID_ARGUMENT, 0, nullptr),
      SYMM_REFUSE_HEAP(bytes, "SIZE_MAX", UNSUPPORTED, SIZE_MAX, nullptr),
      SYMM_REFUSE_HEAP(bytes, "more than there is", OUT_OF_MEMORY, size_t{1} << 39, nullptr),
      SYMM_REFUSE_HEAP(flags, "unknown bit", UNSUPPORTED, 4096, made(uint64_t{1} << 60, SYMM_NODE_NEAREST, 0)),
      SYMM_REFUSE_HEAP(numa_node, "a node without SYMM_ALLOC_HOST", INVALID_ARGUMENT, 4096, made(0, 0, 0)),
      SYMM_REFUSE_HEAP(alignment, "3", INVALID_ARGUMENT, 4096, made(0, SYMM_NODE_NEAREST, 3)),
      SYMM_REFUSE_HEAP(options, "short", INVALID_ARGUMENT, 4096, kHeap.small()),
      SYMM_REFUSE_HEAP(options, "newer", UNSUPPORTED, 4096, kHeap.newer()),
      SYMM_REFUSE(symm_heap_create, out, "NULL", INVALID_ARGUMENT, w.group, 4096, nullptr, nullptr),
      SYMM_REFUSE_INIT(heap),

      SYMM_REFUSE(symm_heap_alloc, size, "0", INVALID_ARGUMENT, w.heap, 0, 0, w.out<void*>(), w.out<size_t>()),
      SYMM_REFUSE(symm_heap_alloc, size, "1 too many", OUT_OF_MEMORY, w.heap, 1, 0, w.out<void*>(), w.out<size_t>()),
      SYMM_REFUSE(symm_heap_alloc, size, "SIZE_MAX", OUT_OF_MEMORY, w.heap, SIZE_MAX, 0, w.out<void*>(), w.out<size_t>()),
      SYMM_REFUSE(symm_heap_alloc, alignment, "24", INVALID_ARGUMENT, w.heap, 64, 24, w.out<void*>(), w.out<size_t>()),
      SYMM_REFUSE(symm_heap_alloc, alignment, "more than the block's", INVALID_ARGUMENT, w.heap, 64, 8192, w.out<void*>(),
                  w.out<size_t>()),
      SYMM_REFUSE(symm_heap_alloc, out_pointer, "NULL", INVALID_ARGUMENT, w.heap, 64, 0, nullptr, w.out<size_t>()),
      SYMM_REFUSE(symm_heap_free, pointer, "not of a heap", INVALID_ARGUMENT, w.heap, w.block),
      SYMM_REFUSE(symm_heap_free, pointer, "inside a piece", INVALID_ARGUMENT, w.heap, static_cast<char*>(w.piece) + 8),
      SYMM_REFUSE(symm_heap_find, address, "of no heap", NOT_FOUND, w.heap, w.block, w.out<void*>(), w.out<size_t>()),
      SYMM_REFUSE(symm_heap_find, address, "behind the piece", NOT_FOUND, w.heap, static_cast<char*>(w.piece) + w.kBytes - 8,
                  w.out<void*>(), w.out<size_t>()),
      SYMM_REFUSE(symm_heap_find, out_pointer, "NULL", INVALID_ARGUMENT, w.heap, w.piece, nullptr, w.out<size_t>()),
      SYMM_REFUSE(symm_heap_memory, out, "NULL", INVALID_ARGUMENT, w.heap, nullptr),
      SYMM_REFUSE(symm_heap_info, out, "NULL", INVALID_ARGUMENT, w.heap, nullptr),
      SYMM_REFUSE(symm_heap_info, out, "struct_size 0", INVALID_ARGUMENT, w.heap, w.out_struct<symm_heap_info_t>(0)),
  };
  return rows;
}

}  // namespace symm_test
