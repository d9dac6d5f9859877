// The kernels inside the library: images for several
// architectures, which the driver chooses from.
#pragma once

#include <algorithm>
#include <set>

#include "core/cuda/device.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/cuda/images.hpp"

namespace symm::cuda {
// "": this build has kernels; otherwise why not.
std::string missing_kernels();

// The kernels of one device's context, loaded and ready. Nothing may be left for the
// first launch to do (code to load, local memory to make room for), because that waits
// for the device, on which a kernel may be waiting for this one.
class Kernels {
 public:
  explicit Kernels(const Device& device) : device_(device) {}
  // for launches with so much; the device's context must be current
  void load(const std::string& name, unsigned shared = 0);
  void make_ready();  // after the last load()
  // Kernels of at most `threads` may be launched before the one ahead of them on the
  // stream has ended (kernels/cuda/begin.cuh), where device and driver can do that.
  void launch_early(int threads);
  // does it run what was compiled for compute capability 9.0 or later?
  bool is_for_9() const;
  // can it copy so (kernels/cuda/bulk.cuh), in two blocks on each multiprocessor?
  bool has_room_for_bulk() const;
  // Throws Error(internal) for a kernel that was not loaded.
  CUfunction find(const std::string& name) const;

  struct Launch {
    unsigned blocks, threads;
    CUstream stream;
    unsigned cluster = 1;  // blocks that work together, where is_for_9()
    unsigned shared = 0;   // bytes of shared memory of each, beside what the kernel has anyway
  };
  template <class Args>
  void launch(CUfunction function, const Launch& launch, Args& args) const {
    void* parameters[] = {&args};
    run(function, launch, parameters);
  }
  // One that has a thread for each pack of so many bytes, and waits for nobody.
  template <class Args>
  void launch_over(size_t bytes, CUfunction function, CUstream stream, Args& args) const {
    constexpr size_t kThreads = 256;
    constexpr size_t kMost = 1024;
    launch(function,
        {static_cast<unsigned>(std::min((bytes / kPack + kThreads) / kThreads, kMost)), kThreads,
            stream},
        args);
  }

 private:
  void run(CUfunction function, const Launch& launch, void** parameters) const;

  const Device& device_;
  unsigned early_ = 0;
  std::map<std::string, CUfunction> functions_;
  std::set<CUfunction> unready_;
};
}  // namespace symm::cuda
