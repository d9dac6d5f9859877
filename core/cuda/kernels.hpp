// The kernels inside the library: images for several architectures, from which the driver chooses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/cuda/images.hpp"

namespace symm::cuda {
// Why this build has no kernels; "" if it has.
std::string missing_kernels();

// The kernels of one device's context, loaded and ready. Nothing may be left for the first launch
// to do (code to load, local memory to make room for), because that waits for the device, on which
// a kernel may be waiting for this one.
class Kernels {
 public:
  explicit Kernels(const Device& device) : device_(device) {}

  // Loads a kernel whose blocks are launched with so much shared memory beside their own. The
  // device's context must be current.
  void load(const std::string& name, unsigned shared = 0);
  // Called after the last load().
  void make_ready();

  // Kernels of at most `threads` threads may be launched before the one ahead of them on the stream
  // has ended (kernels/cuda/begin.cuh), where device and driver can do that.
  void launch_early(int threads);

  // Whether the device runs code that was compiled for compute capability 9.0 or later.
  bool is_for_9() const;
  // Whether two blocks with `shared` bytes of shared memory, which copy in bulk
  // (kernels/cuda/bulk.cuh), have room on each multiprocessor.
  bool has_room_for_bulk(uint32_t shared) const;

  // Throws Error(internal) for a kernel that was not loaded.
  CUfunction find(const std::string& name) const;

  struct Launch {
    unsigned blocks;
    unsigned threads;
    CUstream stream;
    // Blocks that work together, where is_for_9().
    unsigned cluster = 1;
    // Bytes of shared memory of a block, beside those that the kernel has anyway.
    unsigned shared = 0;
  };

  template <class Args>
  void launch(CUfunction function, const Launch& launch, Args& args) const {
    void* parameters[] = {&args};
    run(function, launch, parameters);
  }

  // Launches a kernel that has a thread for each pack of the `bytes` bytes, and waits for no
  // rank. With a `block_limit` other than 0 it has no more blocks than that
  // (CallSignature::block_limit).
  template <class Args>
  void launch_over(
      size_t bytes, CUfunction function, CUstream stream, size_t block_limit, Args& args) const {
    constexpr size_t kThreads = 256;
    constexpr size_t kMost = 1024;
    const size_t most = block_limit != 0 ? block_limit : kMost;
    launch(function,
        {static_cast<unsigned>(std::min((bytes / kPack + kThreads) / kThreads, most)), kThreads,
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
