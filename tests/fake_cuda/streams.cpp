// Streams, events, and work in the order of a stream other than kernels.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/cuda/driver.hpp"
#include "tests/fake_cuda/state.hpp"

namespace fake_cuda {
namespace {
void* const kEveryStream = reinterpret_cast<void*>(intptr_t{-1});

// The mutex is held.
unsigned long long identity_of(void* stream) {
  static std::atomic<unsigned long long> threads{1'000'000};
  thread_local const unsigned long long own = ++threads;
  if (stream == nullptr || stream == CU_STREAM_LEGACY) return 1;
  if (reinterpret_cast<uintptr_t>(stream) == 2) return own;
  const auto found = state().identities.find(stream);
  return found != state().identities.end() ? found->second
                                           : reinterpret_cast<uintptr_t>(stream) * 1'000'003;
}

// Does the work of all streams, each in its order, as far as it goes. A piece of work
// that returns false is asked again later. The mutex is held.
void progress() {
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& [stream, queue] : state().queues) {
      for (; !queue.empty() && queue.front()(); moved = true) {
        queue.pop_front();
      }
    }
  }
  std::erase_if(state().queues, [](const auto& one) { return one.second.empty(); });
}

State::Capture* capture_of(void* stream) {
  const auto found = state().captures.find(identity_of(stream));
  return found == state().captures.end() ? nullptr : &found->second;
}

// The capture under way in which the event was recorded last.
State::Capture* capture_with(void* event) {
  const auto found = state().recorded.find(event);
  for (auto& [stream, capture] : state().captures) {
    if (found != state().recorded.end() && capture.number == found->second.capture &&
        !capture.invalid) {
      return &capture;
    }
  }
  return nullptr;
}

CUresult invalidate(State::Capture& capture, const char* by) {
  capture.invalid = true;
  violation(std::string("a capture was invalidated by ") + by);
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult invalidate_all(const char* by) {
  CUresult result = CUDA_SUCCESS;
  for (auto& [stream, capture] : state().captures) {
    result = invalidate(capture, by);
  }
  return result;
}

CUresult new_graph(auto** made) {
  const std::lock_guard lock(state().mutex);
  *made = reinterpret_cast<std::remove_pointer_t<decltype(made)>>(fresh());
  state().graphs.insert(*made);
  return CUDA_SUCCESS;
}

CUresult forget_graph(void* graph) {
  const std::lock_guard lock(state().mutex);
  return state().graphs.erase(graph) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Records that the event comes after the work that these streams still have. The mutex is held.
void record(void* event, void* stream) {
  progress();
  auto left = std::make_shared<int>(0);
  for (auto& [id, queue] : state().queues) {
    if (stream != kEveryStream && id != identity_of(stream)) continue;
    ++*left;
    queue.push_back([left] {
      --*left;
      return true;
    });
  }
  state().recorded[event] = {left, stream, 0};
}
}  // namespace

CUresult run(void* stream, std::function<bool()> work) {
  const std::lock_guard lock(state().mutex);
  progress();
  const unsigned long long id = identity_of(stream);
  if (!state().queues.contains(id) && work()) return CUDA_SUCCESS;
  state().queues[id].push_back(std::move(work));
  return CUDA_SUCCESS;
}

void wait_while_held() {
  while (state().held) {
    usleep(100);
  }
}

void wait_while_copying() {
  while (state().copying) {
    usleep(100);
  }
}

void enqueue(void* stream, std::function<bool()> work) { run(stream, std::move(work)); }

bool idle(void* stream) {
  const std::lock_guard lock(state().mutex);
  progress();
  return !state().queues.contains(identity_of(stream));
}

void begin_capture(void* stream, bool blocking) {
  const std::lock_guard lock(state().mutex);
  state().captures[identity_of(stream)] = {++state().next, blocking};
}

void end_capture(void* stream) {
  const std::lock_guard lock(state().mutex);
  const State::Capture* const ended = capture_of(stream);
  if (ended == nullptr) return;
  std::erase_if(state().captures,
      [number = ended->number](const auto& one) { return one.second.number == number; });
}

std::vector<std::pair<void*, void*>> waits() {
  const std::lock_guard lock(state().mutex);
  return std::exchange(state().waits, {});
}

API cuStreamBeginCapture_v2(CUstream stream, int) {
  MAY_FAIL();
  begin_capture(stream, true);
  return CUDA_SUCCESS;
}

// Graphs remember nothing, and their launches do nothing.
API cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  MAY_FAIL();
  end_capture(stream);
  return new_graph(graph);
}

API cuGraphCreate(CUgraph* graph, unsigned) {
  MAY_FAIL();
  return new_graph(graph);
}

API cuGraphAddKernelNode(
    CUgraphNode* node, CUgraph, const CUgraphNode*, size_t, const CUDA_KERNEL_NODE_PARAMS* kernel) {
  ENTER();
  *node = reinterpret_cast<CUgraphNode>(fresh());
  return state().kernels.contains(kernel->func) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API cuGraphInstantiateWithFlags(CUgraphExec* ready, CUgraph, unsigned long long) {
  MAY_FAIL();
  return new_graph(ready);
}

API cuMemAlloc_v2(CUdeviceptr* at, size_t bytes) {
  *at = reinterpret_cast<CUdeviceptr>(std::calloc(1, bytes));
  return CUDA_SUCCESS;
}

API cuMemFree_v2(void* at) {
  std::free(at);
  return CUDA_SUCCESS;
}

API cuGraphLaunch(CUgraphExec, CUstream) { return fails(__func__).value_or(CUDA_SUCCESS); }

API cuGraphDestroy(CUgraph graph) { return forget_graph(graph); }

API cuGraphExecDestroy(CUgraphExec ready) { return forget_graph(ready); }

API cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  wait_while_copying();
  MAY_FAIL();
  wait_while_held();
  return run(stream, [=] {
    auto* const target = reinterpret_cast<unsigned*>(to);
    auto* const source = reinterpret_cast<unsigned*>(from);
    if (bytes > 8 || (to | from | bytes) % 4 != 0) {
      std::memmove(target, source, bytes);
      return true;
    }

    // Others may poll small copies, so their words are copied whole.
    for (size_t i = 0; i < bytes / 4; ++i) {
      std::atomic_ref(target[i]).store(std::atomic_ref(source[i]).load());
    }
    return true;
  });
}

API cuLaunchHostFunc(CUstream stream, void (*body)(void*), void* argument) {
  MAY_FAIL();
  return run(stream, [=] {
    body(argument);
    return true;
  });
}

namespace {
template <class Value>
CUresult set(CUdeviceptr to, Value value, size_t count, CUstream stream) {
  return run(stream, [=] {
    std::fill_n(reinterpret_cast<Value*>(to), count, value);
    return true;
  });
}
}  // namespace

API cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  wait_while_copying();
  MAY_FAIL();
  return set(to, value, count, stream);
}

API cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  wait_while_copying();
  MAY_FAIL();
  return set(to, value, count, stream);
}

API cuMemsetD2D32Async(
    CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height, CUstream stream) {
  wait_while_copying();
  MAY_FAIL();
  return run(stream, [=] {
    for (size_t row = 0; row < height; ++row) {
      std::fill_n(reinterpret_cast<unsigned*>(to + row * pitch), width, value);
    }
    return true;
  });
}

API cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  wait_while_copying();
  MAY_FAIL();
  // What is cleared at this size is fresh. Its pages are zero already, and touching all of them
  // would cost memory.
  constexpr size_t kFresh = (size_t{1} << 20) / sizeof(unsigned);
  if (value == 0 && count >= kFresh) return CUDA_SUCCESS;
  return set(to, value, count, stream);
}

API cuStreamWriteValue64(CUstream stream, CUdeviceptr address, uint64_t value, unsigned) {
  MAY_FAIL();
  return run(stream, [=] {
    reinterpret_cast<std::atomic<uint64_t>*>(address)->store(value);
    return true;
  });
}

API cuStreamWaitValue64(CUstream stream, CUdeviceptr address, uint64_t value, unsigned) {
  MAY_FAIL();
  return run(stream, [=] {
    return static_cast<int64_t>(
               reinterpret_cast<std::atomic<uint64_t>*>(address)->load() - value) >= 0;
  });
}

API cuStreamGetId(CUstream stream, unsigned long long* id) {
  ENTER();
  if (State::Capture* capture = capture_of(stream)) return invalidate(*capture, "cuStreamGetId");
  *id = identity_of(stream);
  return CUDA_SUCCESS;
}

API cuStreamCreate(CUstream* stream, unsigned) {
  wait_while_copying();
  ENTER();
  void* made = fresh();
  if (state().reuses_streams && !state().destroyed.empty()) {
    made = state().destroyed.back();
    state().destroyed.pop_back();
  }
  state().identities[made] = ++state().next;
  state().streams.insert(made);
  *stream = static_cast<CUstream>(made);
  return CUDA_SUCCESS;
}

API cuStreamDestroy(CUstream stream) {
  const std::lock_guard lock(state().mutex);
  if (state().streams.erase(stream) != 1) return CUDA_ERROR_INVALID_VALUE;
  state().identities.erase(stream);
  state().destroyed.push_back(stream);
  return CUDA_SUCCESS;
}

API cuStreamSynchronize(CUstream stream) {
  MAY_FAIL();
  for (int i = 0; i < 20'000; ++i) {
    if (idle(stream)) return CUDA_SUCCESS;
    usleep(1000);
  }
  return CUDA_ERROR_NOT_READY;
}

API cuStreamQuery(CUstream stream) {
  wait_while_copying();
  {
    const std::lock_guard lock(state().mutex);
    if (State::Capture* capture = capture_of(stream)) return invalidate(*capture, "cuStreamQuery");
  }
  return idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

API cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  wait_while_copying();
  MAY_FAIL();
  std::shared_ptr<int> left;
  {
    const std::lock_guard lock(state().mutex);
    const auto found = state().recorded.find(event);
    if (found == state().recorded.end()) return CUDA_SUCCESS;

    progress();
    left = found->second.left;
    State::Capture* const capture = capture_of(stream);
    const unsigned long long other = found->second.capture;

    if (capture != nullptr && capture->number != other) {
      return invalidate(*capture, "an event from outside of it");
    }

    if (*left != 0 || other != 0) state().waits.emplace_back(stream, found->second.stream);
    // The stream joins the capture of the event.
    if (other != 0) {
      state().captures[identity_of(stream)].number = other;
      return CUDA_SUCCESS;
    }
  }

  return run(stream, [left] { return *left == 0; });
}

API cuStreamGetCaptureInfo(CUstream stream, int* status, unsigned long long* id) {
  ENTER();
  *status = 0;
  *id = 0;
  if (const State::Capture* capture = capture_of(stream)) {
    *status = capture->invalid ? 2 : 1;
    *id = capture->number;
    return CUDA_SUCCESS;
  }

  const bool blocked =
      identity_of(stream) == 1 && std::any_of(state().captures.begin(), state().captures.end(),
                                      [](const auto& one) { return one.second.blocking; });
  return blocked ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

API cuThreadExchangeStreamCaptureMode(int*) { return CUDA_SUCCESS; }

API cuEventCreate(CUevent* event, unsigned) {
  ENTER();
  void* made = fresh();
  state().events.insert(made);
  *event = static_cast<CUevent>(made);
  return CUDA_SUCCESS;
}

API cuEventRecord(CUevent event, CUstream stream) {
  wait_while_copying();
  ENTER();
  if (const State::Capture* capture = capture_of(stream)) {
    state().recorded[event] = {std::make_shared<int>(0), stream, capture->number};
    return CUDA_SUCCESS;
  }
  record(event, stream);
  return CUDA_SUCCESS;
}

API cuCtxRecordEvent(CUcontext, CUevent event) {
  ENTER();
  if (const CUresult result = invalidate_all("cuCtxRecordEvent")) return result;
  record(event, kEveryStream);
  return CUDA_SUCCESS;
}

API cuCtxSynchronize() {
  MAY_FAIL();
  for (int i = 0; i < 20'000; ++i) {
    {
      const std::lock_guard lock(state().mutex);
      if (const CUresult result = invalidate_all("cuCtxSynchronize")) return result;
      progress();
      if (state().queues.empty()) return CUDA_SUCCESS;
    }
    usleep(1000);
  }
  return CUDA_ERROR_NOT_READY;
}

API cuEventQuery(CUevent event) {
  wait_while_copying();
  const std::lock_guard lock(state().mutex);
  progress();
  const auto found = state().recorded.find(event);
  if (State::Capture* capture = capture_with(event)) return invalidate(*capture, "cuEventQuery");
  return found != state().recorded.end() && *found->second.left != 0 ? CUDA_ERROR_NOT_READY
                                                                     : CUDA_SUCCESS;
}

API cuEventElapsedTime(float* ms, CUevent begin, CUevent end) {
  const std::lock_guard lock(state().mutex);
  if (begin != end) {
    *ms = 1;
    return CUDA_SUCCESS;
  }
  return capture_with(end) != nullptr ? CUDA_ERROR_CAPTURED_EVENT : CUDA_ERROR_INVALID_VALUE;
}

API cuEventDestroy(CUevent event) {
  const std::lock_guard lock(state().mutex);
  state().recorded.erase(event);
  return state().events.erase(event) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
}  // namespace fake_cuda
