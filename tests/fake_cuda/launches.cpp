// SPDX-License-Identifier: Apache-2.0
//
// Kernels and their launches.
#include <algorithm>

#include "kernels/cuda/args.hpp"
#include "tests/fake_cuda/state.hpp"

namespace fake_cuda {
namespace {

// The kernels of host signals are carried out, so that others can wait for them; all other launches are only written down.
CUresult run_signal(bool put, const SignalArgs& args, CUstream stream) {
  if (args.word == 0) return CUDA_SUCCESS;  // to make it ready
  auto* word = reinterpret_cast<std::atomic<uint32_t>*>(args.word);
  auto* taken = reinterpret_cast<std::atomic<uint32_t>*>(args.taken);
  return run(stream, [=] {
    if (put) return ++*word, true;
    if (static_cast<int32_t>(word->load() - taken->load() - 1) < 0) return false;
    return ++*taken, true;
  });
}

bool is_early(const CUlaunchConfig& config) {
  return std::any_of(config.attrs, config.attrs + config.numAttrs, [](const CUlaunchAttribute& one) {
    return one.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION && one.value.allowed != 0;
  });
}

}  // namespace

std::vector<Launch> launches() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return std::exchange(s.launches, {});
}

API cuLibraryLoadData(CUlibrary* library, const void* image, int*, void**, unsigned, int*, void**, unsigned) {
  MAY_FAIL();
  return *library = reinterpret_cast<CUlibrary>(const_cast<void*>(image)), CUDA_SUCCESS;
}
API cuLibraryUnload(CUlibrary) { return CUDA_SUCCESS; }
API cuLibraryGetKernel(CUkernel* kernel, CUlibrary, const char* name) {
  MAY_FAIL();
  const std::lock_guard lock(state().mutex);
  void*& known = state().kernel_of[name];
  if (known == nullptr) known = fresh();
  state().kernels[known] = name;
  return *kernel = static_cast<CUkernel>(known), CUDA_SUCCESS;
}
API cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  MAY_FAIL();
  return *function = reinterpret_cast<CUfunction>(kernel), CUDA_SUCCESS;
}
API cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void**) {
  MAY_FAIL();
  std::string name;
  {
    const std::lock_guard lock(state().mutex);
    const auto found = state().kernels.find(function);
    if (found == state().kernels.end()) return CUDA_ERROR_INVALID_VALUE;
    name = found->second;
    Launch launch{name, config->gridDimX, config->blockDimX, config->hStream, is_early(*config)};
    if (name == "symm_hybrid_cube_mesh") {
      const auto& args = *static_cast<const CollectiveArgs*>(parameters[0]);
      launch.quad = args.quad;
      launch.partners = args.partners;
    }
    if (name == "symm_check") launch.detail = static_cast<const CheckArgs*>(parameters[0])->detail;
    state().launches.push_back(launch);
  }
  if (name != "symm_put_signal" && name != "symm_wait_signal") return CUDA_SUCCESS;
  return run_signal(name == "symm_put_signal", *static_cast<const SignalArgs*>(parameters[0]), config->hStream);
}

}  // namespace fake_cuda
