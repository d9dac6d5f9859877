// Kernels and their launches.
#include <algorithm>
#include <span>
#include "kernels/cuda/args.hpp"
#include "tests/fake_cuda/state.hpp"

namespace fake_cuda {
namespace {
// The kernels of signals and words are carried out, so that others can wait for them; all other launches are only written down.
template <class Word> std::atomic<Word>& word_at(uint64_t address) { return *reinterpret_cast<std::atomic<Word>*>(address); }

CUresult write_word(const WriteArgs& args, CUstream stream) {
  if (args.word == 0) return CUDA_SUCCESS;  // to make it ready
  return run(stream, [=] {
    if (args.kind == WriteKind::add) return word_at<uint64_t>(args.word) += args.value, true;
    if (args.kind == WriteKind::store32) return word_at<uint32_t>(args.word) = static_cast<uint32_t>(args.value), true;
    return word_at<uint64_t>(args.word) = args.value, true;
  });
}

bool is_there(const WordWait& wait, uint64_t value) {
  const uint64_t seen = wait.bytes == 4 ? word_at<uint32_t>(wait.word).load() : word_at<uint64_t>(wait.word).load();
  return symm::holds(seen, wait.compare, value);
}

CUresult wait_word(const WaitWordArgs& args, CUstream stream) {
  if (args.wait.word == 0) return CUDA_SUCCESS;
  if (args.taken == 0) return run(stream, [wait = args.wait] { return is_there(wait, wait.value); });
  return run(stream, [args, claimed = uint64_t{0}]() mutable {
    if (claimed == 0) claimed = ++word_at<uint64_t>(args.taken);
    return is_there(args.wait, claimed);
  });
}

CUresult wait_words(const WaitWordsArgs& args, CUstream stream) {
  return run(stream, [args] {
    const auto holds_now = [](const WordWait& wait) { return is_there(wait, wait.value); };
    const std::span waits(args.wait, args.count);
    return args.any != 0 ? std::any_of(waits.begin(), waits.end(), holds_now)
                         : std::all_of(waits.begin(), waits.end(), holds_now);
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

void carry_out(const std::string& kernel, std::function<std::function<bool()>(const void* arguments)> make) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.carried_out[kernel] = std::move(make);
}

API cuLibraryLoadData(CUlibrary* library, const void* image, int*, void**, unsigned, int*, void**, unsigned) {
  MAY_FAIL();
  return *library = reinterpret_cast<CUlibrary>(const_cast<void*>(image)), CUDA_SUCCESS;
}
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
    if (name.starts_with("symm_pipeline_")) launch.memory = static_cast<const CollectiveArgs*>(parameters[0])->recv_memory;
    if (name == "symm_check") launch.detail = static_cast<const CheckArgs*>(parameters[0])->detail;
    if (name.starts_with("symm_pieces_")) {
      const CollectiveArgs& args = static_cast<const PiecesArgs*>(parameters[0])->call;
      launch.memory = args.recv_memory;
      std::copy_n(args.comm.stages, std::size(launch.stages), launch.stages);
    }
    state().launches.push_back(launch);
  }
  const auto arguments = [&]<class Args>() -> const Args& { return *static_cast<const Args*>(parameters[0]); };
  if (name == "symm_write_word") return write_word(arguments.operator()<WriteArgs>(), config->hStream);
  if (name == "symm_wait_word") return wait_word(arguments.operator()<WaitWordArgs>(), config->hStream);
  if (name == "symm_wait_words") return wait_words(arguments.operator()<WaitWordsArgs>(), config->hStream);
  const auto made = state().carried_out.find(name);
  return made == state().carried_out.end() ? CUDA_SUCCESS : run(config->hStream, made->second(parameters[0]));
}
}  // namespace fake_cuda
