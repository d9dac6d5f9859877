// Computes where a word lies in a signal pad.
#include "core/cuda/signal_pad.hpp"

#include <cstddef>
#include <cstdint>

#include "core/backend/backend.hpp"
#include "core/cuda/driver.hpp"
#include "kernels/cuda/args.hpp"

namespace symm::cuda {
namespace {
size_t word_bytes(int size, int channels) {
  return static_cast<size_t>(channels) * static_cast<size_t>(size) * sizeof(uint64_t);
}
}  // namespace

size_t pad_bytes(int size, int channels) {
  return 2 * word_bytes(size, channels) + 2 * static_cast<size_t>(size) * sizeof(void*);
}

CUdeviceptr signal_word(const MemoryView& memory, int owner, int channel, int source) {
  const size_t index =
      static_cast<size_t>(channel) * memory.pads.size() + static_cast<size_t>(source);
  return address_of(memory.pads[static_cast<size_t>(owner)]) + index * sizeof(uint64_t);
}

size_t taken_offset(const MemoryView& memory) {
  return word_bytes(static_cast<int>(memory.pads.size()), memory.channels);
}

size_t tables_offset(const MemoryView& memory) { return 2 * taken_offset(memory); }
}  // namespace symm::cuda
