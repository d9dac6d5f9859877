// Launches of the kernels in kernels/cuda/signal.cu: barriers, words that are written, changed and
// waited for, and the comparison of arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/cuda/device_group.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/kernels.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/compare.hpp"
#include "kernels/cuda/args.hpp"

namespace symm::cuda {
// An empty `ranks` means all ranks. `operation` is the number that a failure names.
void launch_barrier(const DeviceGroup& group, std::span<const int32_t> ranks, int channel,
    uint64_t timeout_ms, void* stream,
    uint32_t operation = static_cast<uint32_t>(Operation::barrier));

// Compares the arguments of all ranks, and where recv lies if `memory` is not 0.
void launch_check(
    const DeviceGroup& group, const CollectiveCall& call, uint64_t memory = 0, uint64_t offset = 0);

// `unless`: a word of 4 bytes, or 0. Nothing is written if it is not 0 when the kernel runs.
void write_word(DeviceGroup& group, CUdeviceptr word, uint64_t value, WriteKind kind, void* stream,
    CUdeviceptr unless = 0);

// `fetched`: where what the word was goes, or 0.
void change_word(DeviceGroup& group, CUdeviceptr word, const AtomicChange& change,
    CUdeviceptr fetched, void* stream);
// The launch alone, for a stream of symm's own, with the device current.
void launch_change(const Kernels& kernels, CUdeviceptr word, const AtomicChange& change,
    CUdeviceptr fetched, CUstream stream);

// `taken`: the word in which a signal that is taken is counted, or 0 if none is taken.
void wait_word(DeviceGroup& group, uint64_t timeout_ms, Operation operation, CUdeviceptr taken,
    const WordWait& wait, void* stream);

// Launches, in the turn of a call in chunks, the write of the word of a chunk that has come, or the
// wait for the word of one, `index` words from the first on. Nothing is written once the group has
// failed: then the chunk may not have come.
void launch_tell_chunk(const DeviceGroup& group, const CollectiveCall& call, size_t index);
void launch_await_chunk(const DeviceGroup& group, const CollectiveCall& call, size_t index);

// Waits for all of the words, or for one of them. At most kMaxWaits.
void wait_words(DeviceGroup& group, uint64_t timeout_ms, std::span<const WordWait> waits, bool any,
    void* stream);
}  // namespace symm::cuda
