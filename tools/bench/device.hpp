// The GPU that symm bench measures on: memory, streams and times, by the driver alone.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace symm::tool {
// A CUDA device as programs use it, by the driver itself, which the group has loaded:
// the tool is linked with no CUDA library.
class Device {
 public:
  // Makes the context of the device current on the thread, where it stays.
  explicit Device(int32_t index) : driver_(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
    int handle = 0;
    void* context = nullptr;
    call("cuDeviceGet", &handle, int{index});
    call("cuDevicePrimaryCtxRetain", &context, handle);
    call("cuCtxSetCurrent", context);
    for (void*& event : events_) {
      call("cuEventCreate", &event, 0U);
    }
  }
  // CU_STREAM_PER_THREAD, the stream of the calling thread.
  static void* stream() { return reinterpret_cast<void*>(uintptr_t{2}); }

  template <class... Arguments>
  void call(const char* name, Arguments... arguments) const {
    const auto function = driver_ == nullptr
                              ? nullptr
                              : reinterpret_cast<int (*)(Arguments...)>(::dlsym(driver_, name));
    const int result = function == nullptr ? -1 : function(arguments...);
    if (result != 0) {
      throw std::runtime_error(std::string(name) + ": CUDA error " + std::to_string(result));
    }
  }
  // The work that `issue` puts on the stream, as a graph that can be launched.
  template <class Issue>
  void* capture(const Issue& issue) const {
    constexpr int of_this_thread = 1;  // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    void* graph = nullptr;
    void* ready = nullptr;
    call("cuStreamBeginCapture_v2", stream(), int{of_this_thread});
    issue();
    call("cuStreamEndCapture", stream(), &graph);
    call("cuGraphInstantiateWithFlags", &ready, graph, 0ULL);
    call("cuGraphDestroy", graph);
    return ready;
  }
  // The time of the work that `issue` puts on the stream; `done` waits for it.
  template <class Issue, class Done>
  double microseconds(const Issue& issue, const Done& done) const {
    float ms = 0;
    call("cuEventRecord", events_[0], stream());
    issue();
    call("cuEventRecord", events_[1], stream());
    done();
    call("cuEventElapsedTime", &ms, events_[0], events_[1]);
    return double{ms} * 1000;
  }

 private:
  void* const driver_;
  void* events_[2]{};  // as long as the process
};
}  // namespace symm::tool
