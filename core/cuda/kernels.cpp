// Loads the image that fits the GPU, and finds kernels in it by name.
#include "core/cuda/kernels.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/per_process.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/cuda/images.hpp"

namespace symm::cuda {
namespace {
// Throws what the driver says, in words of its own where there is no code for the device.
void require_code(
    const Device& device, CUresult result, const char* call, const std::string& name) {
  if (result != CUDA_ERROR_NO_BINARY_FOR_GPU) {
    device.driver().require(result, call, name);
    return;
  }

  const int oldest = symm_images()->oldest_architecture;
  throw Error(Status::unavailable,
      format("device %d has compute capability %d.%d, and this build of symm has kernels for %d.%d "
             "and later; CUDA 12 makes them for 7.0, too (docs/gpu.md)",
          device.ordinal(), device.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
          device.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR), oldest / 10,
          oldest % 10));
}

// Libraries belong to the process, not to a context, and stay loaded: unloading would
// wait for every context that uses them.
struct Libraries {
  std::mutex mutex;
  // By index in symm_images(); null: not loaded yet.
  std::vector<CUlibrary> loaded;

  // The caller holds `mutex`.
  CUlibrary load(const Device& device, size_t index) {
    loaded.resize(symm_images()->all.size());
    CUlibrary& library = loaded[index];
    if (library == nullptr) {
      require_code(device,
          device.driver().cuLibraryLoadData(
              &library, symm_images()->all[index].data, nullptr, nullptr, 0, nullptr, nullptr, 0),
          "cuLibraryLoadData", symm_images()->all[index].name);
    }
    return library;
  }
};

CUkernel find_kernel(const Device& device, const std::string& name) {
  const Driver& driver = device.driver();
  Libraries& known = PerProcess<Libraries>::current();
  const std::lock_guard lock(known.mutex);

  // All eager images are loaded at once, so that no later call, while kernels of other
  // ranks wait or a stream is captured, has anything to load.
  for (size_t i = 0; i < symm_images()->all.size(); ++i) {
    if (symm_images()->all[i].eager) known.load(device, i);
  }

  for (const bool eager : {true, false}) {
    for (size_t i = 0; i < symm_images()->all.size(); ++i) {
      if (symm_images()->all[i].eager != eager) continue;
      CUkernel kernel = nullptr;
      const CUresult result =
          driver.cuLibraryGetKernel(&kernel, known.load(device, i), name.c_str());
      if (result == CUDA_SUCCESS) return kernel;
      if (result != CUDA_ERROR_NOT_FOUND) require_code(device, result, "cuLibraryGetKernel", name);
    }
  }
  throw Error(Status::internal, "this build of symm has no kernel " + name);
}
}  // namespace

std::string missing_kernels() { return symm_images()->all.empty() ? symm_images()->why_none : ""; }

void Kernels::load(const std::string& name, unsigned shared) {
  if (name.empty() || functions_.contains(name)) return;

  const Driver& driver = device_.driver();
  CUfunction function = nullptr;
  require_code(device_, driver.cuKernelGetFunction(&function, find_kernel(device_, name)),
      "cuKernelGetFunction", name);
  if (shared != 0) {
    driver.require(driver.cuFuncSetAttribute(function,
                       CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(shared)),
        "cuFuncSetAttribute", name);
  }
  functions_.emplace(name, function);
  unready_.insert(function);
}

void Kernels::make_ready() {
  const Driver& driver = device_.driver();

  // Arguments of zeros, with which every kernel does nothing.
  alignas(16) std::byte nothing[4096] = {};
  static_assert(sizeof(StageArgsOf<kMaxRanks>) <= sizeof nothing &&
                sizeof(WaitWordsArgsOf<kMaxRanks>) <= sizeof nothing &&
                sizeof(CopyPiecesArgsOf<kMaxRanks>) <= sizeof nothing);
  void* parameters[] = {nothing};

  // All kernels go as one graph: after a few launches on streams of symm's own, each
  // kernel in any graph of the process starts 0.17 us later, for ever (H200). The graph
  // is not captured, since other threads could not wait for the device meanwhile.
  CUgraph graph = nullptr;
  driver.require(driver.cuGraphCreate(&graph, 0), "cuGraphCreate");
  const std::unique_ptr<CUgraph_st, CUresult (*)(CUgraph)> graph_given_back(
      graph, driver.cuGraphDestroy);

  CUgraphNode last = nullptr;
  for (const CUfunction function : unready_) {
    const CUDA_KERNEL_NODE_PARAMS kernel{
        function, 1, 1, 1, 32, 1, 1, 0, parameters, nullptr, nullptr, nullptr};
    const CUgraphNode before = last;
    driver.require(
        driver.cuGraphAddKernelNode(&last, graph, &before, before == nullptr ? 0 : 1, &kernel),
        "cuGraphAddKernelNode");
  }

  CUgraphExec ready = nullptr;
  driver.require(
      driver.cuGraphInstantiateWithFlags(&ready, graph, 0), "cuGraphInstantiateWithFlags");
  const std::unique_ptr<CUgraphExec_st, CUresult (*)(CUgraphExec)> ready_given_back(
      ready, driver.cuGraphExecDestroy);

  driver.require(driver.cuGraphLaunch(ready, device_.stream()), "cuGraphLaunch");
  driver.require(driver.cuStreamSynchronize(device_.stream()), "cuStreamSynchronize");
  unready_.clear();
}

CUfunction Kernels::find(const std::string& name) const {
  const auto found = functions_.find(name);
  if (found == functions_.end()) {
    throw Error(Status::internal, "kernel " + name + " was not loaded");
  }
  return found->second;
}

void Kernels::launch_early(int threads) {
  int version = 0;
  device_.driver().require(device_.driver().cuDriverGetVersion(&version), "cuDriverGetVersion");
  // Graphs know such edges since 12.3.
  if (is_for_9() && version >= 12030) early_ = static_cast<unsigned>(threads);
}

// Both the device and the code that it runs count: code that was compiled for older
// devices neither waits for the kernel ahead nor knows clusters.
bool Kernels::is_for_9() const {
  return device_.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) >= 9 &&
         symm_images()->newest_architecture >= 90;
}

bool Kernels::has_room_for_bulk(uint32_t shared) const {
  // Shared memory that a block has in any case.
  constexpr int kOther = 16384;
  return is_for_9() &&
         device_.attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) >=
             2 * (static_cast<int>(shared) + kOther);
}

void Kernels::run(CUfunction function, const Launch& launch, void** parameters) const {
  CUlaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (launch.blocks * launch.threads <= early_) {
    CUlaunchAttribute& early = attributes[count++];
    early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    early.value.allowed = 1;
  }
  if (launch.cluster > 1) {
    CUlaunchAttribute& clusters = attributes[count++];
    clusters.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    for (unsigned& blocks : clusters.value.cluster) {
      blocks = 1;
    }
    clusters.value.cluster[0] = launch.cluster;
  }

  const CUlaunchConfig config{
      launch.blocks, 1, 1, launch.threads, 1, 1, launch.shared, launch.stream, attributes, count};
  device_.driver().require(
      device_.driver().cuLaunchKernelEx(&config, function, parameters, nullptr),
      "cuLaunchKernelEx");
}
}  // namespace symm::cuda
