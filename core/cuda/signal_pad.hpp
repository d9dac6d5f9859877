// The layout of a signal pad, the words that belong to one block of a memory.
//
// 1. Words in which signals arrive, [channel][source].
// 2. Words in which the owner of the pad counts the signals that it has taken, in the same order.
// 3. The addresses of all ranks' blocks, then of all ranks' pads, for kernels of the user.
//
// The owner alone touches the second and the third part.
#pragma once

#include <cstddef>

#include "core/backend/backend.hpp"
#include "core/cuda/driver.hpp"

namespace symm::cuda {
size_t pad_bytes(int size, int channels);

// The word of rank `owner` in which the signals of `source` on `channel` arrive.
CUdeviceptr signal_word(const MemoryView& memory, int owner, int channel, int source);

// Bytes from the word in which signals arrive to the word in which those taken are counted.
size_t taken_offset(const MemoryView& memory);

// Bytes from the start of a pad to its table of addresses.
size_t tables_offset(const MemoryView& memory);
}  // namespace symm::cuda
