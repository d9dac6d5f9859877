// The all-reduce kernels of FlashInfer (which are TensorRT-LLM's) and of vLLM, out of
// the headers of FlashInfer's wheel, for ctypes. bench/gpu/peer_kernels builds this.
// Every function returns 0 or a CUDA error.
#define FLASHINFER_LOGGING_H_  // FlashInfer's own header would need a library for logging.
#define FLASHINFER_LOG_DEBUG(...)
#define FLASHINFER_LOG_INFO(...)
#define FLASHINFER_LOG_WARN(...)
#include <flashinfer/comm/trtllm_allreduce_fusion.cuh>
#include <flashinfer/comm/vllm_custom_all_reduce.cuh>

// The kernels of FlashInfer that are measured, by the names in kernel_library.py.
struct Fused {
  int ranks;
  int rank;
  int count;
  int hidden;
  void** workspace;
  void* in;
  void* out;
  int one_shot;
  // The residual and RMSNorm's operands, or null. With them `out` is normalised, and
  // the residual's memory receives the sum.
  void* residual;
  void* weight;
};

namespace {
namespace fused = flashinfer::trtllm_allreduce_fusion;

template <class T, int kRanks, fused::AllReduceFusionPattern kPattern>
cudaError_t launch(const Fused& what, cudaStream_t stream) {
  fused::AllReduceFusionParams<T> params{};
  params.nranks = what.ranks;
  params.rank = what.rank;
  params.size = what.count;
  params.hidden_dim = what.hidden;
  params.workspace = what.workspace;
  params.allreduce_in = what.in;
  params.allreduce_out = what.residual == nullptr ? what.out : nullptr;
  params.residual_in = what.residual;
  params.residual_out = what.residual;
  params.rms_gamma = what.weight;
  params.rms_eps = 1e-5f;
  params.norm_out = what.out;
  params.use_oneshot = what.one_shot != 0;
  params.trigger_completion_at_end = false;
  params.stream = stream;
  params.pattern = kPattern;

  return fused::allreduce_fusion_kernel_launcher<kPattern, T, kRanks, false>(params, true);
}

template <class T, int kRanks>
cudaError_t launch(const Fused& what, cudaStream_t stream) {
  using enum fused::AllReduceFusionPattern;
  return what.residual == nullptr ? launch<T, kRanks, kAllReduce>(what, stream)
                                  : launch<T, kRanks, kARResidualRMSNorm>(what, stream);
}

template <class T>
int launch_for(const Fused& what, cudaStream_t stream) {
  if (what.ranks == 2) return launch<T, 2>(what, stream);
  if (what.ranks == 4) return launch<T, 4>(what, stream);
  return what.ranks == 8 ? launch<T, 8>(what, stream) : cudaErrorInvalidValue;
}

// Chooses as CustomAllreduce::allreduce() does, which accepts only operands that it has opened
// itself.
template <class T, int kRanks>
int reduce(vllm::RankData* operands, const vllm::RankSignals& signals, int rank, T* out, int count,
    cudaStream_t stream) {
  constexpr int kThreads = 512;
  const int packs = count / vllm::packed_t<T>::P::size;
  const int blocks = std::min(vllm::kMaxBlocks, (packs + kThreads - 1) / kThreads);
  const size_t bytes = size_t(count) * sizeof(T);
  const bool at_once = kRanks == 2 || bytes < (kRanks <= 4 ? 512u : 256u) * 1024;

  if (at_once) {
    vllm::cross_device_reduce_1stage<T, kRanks><<<blocks, kThreads, 0, stream>>>(
        operands, signals, signals.signals[rank], out, rank, packs);
  } else {
    vllm::cross_device_reduce_2stage<T, kRanks><<<blocks, kThreads, 0, stream>>>(
        operands, signals, signals.signals[rank], out, rank, packs);
  }

  return cudaGetLastError();
}

template <class T>
int reduce_for(int ranks, vllm::RankData* operands, const vllm::RankSignals& signals, int rank,
    void* out, int count, cudaStream_t stream) {
  if (ranks == 2) return reduce<T, 2>(operands, signals, rank, static_cast<T*>(out), count, stream);
  if (ranks == 4) return reduce<T, 4>(operands, signals, rank, static_cast<T*>(out), count, stream);
  return ranks == 8 ? reduce<T, 8>(operands, signals, rank, static_cast<T*>(out), count, stream)
                    : cudaErrorInvalidValue;
}
}  // namespace

extern "C" {

int peer_flashinfer(const Fused* what, int is_f32, cudaStream_t stream) {
  try {
    return is_f32 ? launch_for<float>(*what, stream) : launch_for<nv_bfloat16>(*what, stream);
  } catch (const std::exception&) {
    return cudaErrorInvalidConfiguration;
  }
}

size_t peer_vllm_signal_bytes() { return sizeof(vllm::Signal); }

// `operands`: pointers of all ranks, in device memory; `signals`: of all ranks, each
// with room for the message behind it.
int peer_vllm(int ranks, int rank, void* operands, void* const* signals, void* out, int count,
    int is_f32, cudaStream_t stream) {
  vllm::RankSignals all{};
  for (int i = 0; i < ranks; ++i) {
    all.signals[i] = static_cast<vllm::Signal*>(signals[i]);
  }
  auto* data = static_cast<vllm::RankData*>(operands);
  return is_f32 ? reduce_for<float>(ranks, data, all, rank, out, count, stream)
                : reduce_for<nv_bfloat16>(ranks, data, all, rank, out, count, stream);
}
}
