// A memory of a group on the fake driver, for tests of what is done with blocks on streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "kernels/compare.hpp"

namespace symm {
inline void* stream_of_number(uintptr_t number) {
  return reinterpret_cast<void*>(number << 20);  // NOLINT(performance-no-int-to-ptr)
}

// A rank's block in a memory of its group, and a stream of the rank.
struct StreamBlock {
  std::shared_ptr<Group> group;
  std::shared_ptr<Buffer> buffer = Buffer::allocate(*group, 8192);
  std::shared_ptr<Memory> memory = Memory::rendezvous(group, buffer, 0);
  // The ranks are threads of one process, in which a stream is one stream, whoever uses it.
  void* stream = stream_of_number(70 + static_cast<uintptr_t>(group->rank()));

  int other() const { return 1 - group->rank(); }
  void synchronize() const { group->synchronize(stream, 20'000); }
  // The driver carries out no barriers, but signals.
  void meet() const {
    for (int rank = 0; rank < group->size(); ++rank) {
      memory->send_signal(rank, 1, SignalOp::add, 1, stream);
    }
    for (int rank = 0; rank < group->size(); ++rank) {
      memory->wait_signal(rank, 1, 20'000, stream);
    }
    synchronize();
  }
  std::vector<std::byte> bytes_of(int rank) const {
    const std::byte* const first = memory->pointer(rank);
    return {first, first + buffer->bytes()};
  }
  uint64_t signals_from(int rank) const { return memory->look_at_signal(rank, 0).value; }
  template <class Value>
  const Value* at(size_t offset) const {
    return reinterpret_cast<const Value*>(buffer->data() + offset);
  }
};
}  // namespace symm
