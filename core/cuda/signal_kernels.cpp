// Launches kernels on a stream for barriers, and for writes, changes and waits of words. The
// words are in control blocks and pads.
#include "core/cuda/signal_kernels.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/cuda/device.hpp"
#include "core/cuda/device_group.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/kernels.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/compare.hpp"
#include "kernels/cuda/args.hpp"

namespace symm::cuda {
void launch_barrier(const DeviceGroup& group, std::span<const int32_t> ranks, int channel,
    uint64_t timeout_ms, void* stream, uint32_t operation) {
  const CUfunction kernel = group.kernel("symm_barrier", "symm_large_barrier");
  group.in_room([&]<int kRanks>() {
    BarrierArgsOf<kRanks> args{
        group.comm_of<kRanks>(timeout_ms, operation), {}, static_cast<uint32_t>(channel)};
    for (const int32_t rank : ranks) {
      args.ranks.add(rank);
    }
    if (ranks.empty()) args.ranks = RankSetOf<kRanks>::first(group.context.size);
    group.kernels.launch(kernel, {1, rank_threads(kRanks), stream_of(stream)}, args);
  });
}

void launch_check(
    const DeviceGroup& group, const CollectiveCall& call, uint64_t memory, uint64_t offset) {
  const CUfunction kernel = group.kernel("symm_check", "symm_large_check");
  group.in_room([&]<int kRanks>() {
    CheckArgsOf<kRanks> args{
        group.comm_of<kRanks>(call.timeout_ms, static_cast<uint32_t>(call.collective)),
        call.packed(), call.count, memory, offset};
    group.kernels.launch(kernel, {1, rank_threads(kRanks), stream_of(call.stream)}, args);
  });
}

void write_word(DeviceGroup& group, CUdeviceptr word, uint64_t value, WriteKind kind, void* stream,
    CUdeviceptr unless) {
  const ContextGuard current(*group.device);
  WriteArgs args{word, value, kind, unless};
  group.kernels.launch(group.kernels.find("symm_write_word"), {1, 32, stream_of(stream)}, args);
  group.order.record_use(stream_of(stream));
}

void change_word(DeviceGroup& group, CUdeviceptr word, const AtomicChange& change,
    CUdeviceptr fetched, void* stream) {
  const ContextGuard current(*group.device);
  launch_change(group.kernels, word, change, fetched, stream_of(stream));
  group.order.record_use(stream_of(stream));
}

void launch_change(const Kernels& kernels, CUdeviceptr word, const AtomicChange& change,
    CUdeviceptr fetched, CUstream stream) {
  AtomicArgs args{
      word, fetched, change.value, change.compare, change.op, static_cast<uint32_t>(change.bytes)};
  kernels.launch(kernels.find("symm_change_word"), {1, 32, stream}, args);
}

void wait_word(DeviceGroup& group, uint64_t timeout_ms, Operation operation, CUdeviceptr taken,
    const WordWait& wait, void* stream) {
  const ContextGuard current(*group.device);
  const CUfunction kernel = group.kernel("symm_wait_word", "symm_large_wait_word");
  group.in_room([&]<int kRanks>() {
    WaitWordArgsOf<kRanks> args{
        group.comm_of<kRanks>(timeout_ms, static_cast<uint32_t>(operation)), taken, wait};
    if (taken != 0) args.unless = group.abort_word_if_captured(stream);
    group.kernels.launch(kernel, {1, 32, stream_of(stream)}, args);
  });
  group.order.record_use(stream_of(stream));
}

void launch_tell_chunk(const DeviceGroup& group, const CollectiveCall& call, size_t index) {
  const ChunkWords& words = call.words;
  if (words.progress == nullptr) return;
  WriteArgs args{address_of(words.progress + index), words.value, WriteKind::store32,
      group.abort_word(), address_of(words.pointer)};
  group.kernels.launch(
      group.kernels.find("symm_write_word"), {1, 32, stream_of(call.stream)}, args);
}

void launch_await_chunk(const DeviceGroup& group, const CollectiveCall& call, size_t index) {
  const ChunkWords& words = call.words;
  if (words.ready == nullptr) return;
  const CUfunction kernel = group.kernel("symm_wait_word", "symm_large_wait_word");
  group.in_room([&]<int kRanks>() {
    WaitWordArgsOf<kRanks> args{
        group.comm_of<kRanks>(call.timeout_ms, static_cast<uint32_t>(Operation::wait_ready)), 0,
        {address_of(words.ready + index), words.value, -1, static_cast<uint32_t>(index),
            Compare::ge, sizeof(uint32_t)},
        address_of(words.pointer), 1};
    group.kernels.launch(kernel, {1, 32, stream_of(call.stream)}, args);
  });
}

void wait_words(DeviceGroup& group, uint64_t timeout_ms, std::span<const WordWait> waits, bool any,
    void* stream) {
  const ContextGuard current(*group.device);
  const CUfunction kernel = group.kernel("symm_wait_words", "symm_large_wait_words");
  group.in_room([&]<int kRanks>() {
    WaitWordsArgsOf<kRanks> args{};
    args.comm = group.comm_of<kRanks>(timeout_ms, static_cast<uint32_t>(Operation::wait_signal));
    args.count = static_cast<uint32_t>(waits.size());
    args.any = any ? 1 : 0;
    std::copy(waits.begin(), waits.end(), args.wait);
    group.kernels.launch(kernel, {1, 32, stream_of(stream)}, args);
  });
  group.order.record_use(stream_of(stream));
}
}  // namespace symm::cuda
