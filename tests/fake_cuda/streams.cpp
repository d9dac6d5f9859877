// SPDX-License-Identifier: Apache-2.0
//
// Streams, events, and what is done in the order of a stream but by a kernel.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tests/fake_cuda/state.hpp"

namespace fake_cuda {
namespace {

// What a stream is to do, in order; a piece of work that returns false is asked again. The mutex is held.
bool progress(void* stream) {
  const auto found = state().queues.find(stream);
  if (found == state().queues.end()) return true;
  while (!found->second.empty() && found->second.front()()) found->second.pop_front();
  if (!found->second.empty()) return false;
  state().queues.erase(found);
  return true;
}

}  // namespace

CUresult run(void* stream, std::function<bool()> work) {
  const std::lock_guard lock(state().mutex);
  if (progress(stream) && work()) return CUDA_SUCCESS;
  state().queues[stream].push_back(std::move(work));
  return CUDA_SUCCESS;
}

void enqueue(void* stream, std::function<bool()> work) { run(stream, std::move(work)); }
bool idle(void* stream) {
  const std::lock_guard lock(state().mutex);
  return progress(stream);
}

API cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  MAY_FAIL();
  return run(stream, [=] { return std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes), true; });
}
API cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  MAY_FAIL();
  if (value == 0) return CUDA_SUCCESS;  // fresh pages are zero, and touching them all would cost memory
  return run(stream, [=] { return std::fill_n(reinterpret_cast<unsigned*>(to), count, value), true; });
}
API cuStreamWriteValue64(CUstream stream, CUdeviceptr address, uint64_t value, unsigned) {
  MAY_FAIL();
  return run(stream, [=] { return reinterpret_cast<std::atomic<uint64_t>*>(address)->store(value), true; });
}
API cuStreamWaitValue64(CUstream stream, CUdeviceptr address, uint64_t value, unsigned) {
  MAY_FAIL();
  return run(stream,
             [=] { return static_cast<int64_t>(reinterpret_cast<std::atomic<uint64_t>*>(address)->load() - value) >= 0; });
}
API cuStreamGetId(CUstream stream, unsigned long long* id) {
  MAY_FAIL();
  return *id = reinterpret_cast<uintptr_t>(stream), CUDA_SUCCESS;  // handles of streams are never used again here
}

API cuStreamCreate(CUstream* stream, unsigned) {
  MAY_FAIL();
  const std::lock_guard lock(state().mutex);
  void* made = fresh();
  state().streams.insert(made);
  return *stream = static_cast<CUstream>(made), CUDA_SUCCESS;
}
API cuStreamDestroy(CUstream stream) {
  const std::lock_guard lock(state().mutex);
  return state().streams.erase(stream) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
API cuStreamSynchronize(CUstream stream) {
  MAY_FAIL();
  for (int i = 0; i < 20'000; ++i) {
    if (idle(stream)) return CUDA_SUCCESS;
    usleep(1000);
  }
  return CUDA_ERROR_NOT_READY;
}
API cuStreamQuery(CUstream stream) { return idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; }
API cuStreamWaitEvent(CUstream, CUevent, unsigned) {
  MAY_FAIL();
  return CUDA_SUCCESS;
}
API cuStreamGetCaptureInfo(CUstream, int* status, unsigned long long* id) {
  MAY_FAIL();
  return *status = 0, *id = 0, CUDA_SUCCESS;
}
API cuThreadExchangeStreamCaptureMode(int*) { return CUDA_SUCCESS; }
API cuEventCreate(CUevent* event, unsigned) {
  MAY_FAIL();
  const std::lock_guard lock(state().mutex);
  void* made = fresh();
  state().events.insert(made);
  return *event = static_cast<CUevent>(made), CUDA_SUCCESS;
}
API cuEventRecord(CUevent event, CUstream stream) {
  MAY_FAIL();
  {
    const std::lock_guard lock(state().mutex);
    if (progress(stream)) {
      state().unfinished.erase(event);
      return CUDA_SUCCESS;
    }
    state().unfinished[event] = stream;
  }
  return run(stream, [event] { return state().unfinished.erase(event), true; });
}
API cuEventQuery(CUevent event) {
  const std::lock_guard lock(state().mutex);
  const auto found = state().unfinished.find(event);
  if (found == state().unfinished.end()) return CUDA_SUCCESS;
  progress(found->second);
  return state().unfinished.contains(event) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
API cuEventDestroy(CUevent event) {
  const std::lock_guard lock(state().mutex);
  return state().events.erase(event) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace fake_cuda
