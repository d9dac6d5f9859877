// Operands that have come to this rank, by whatever carries them between machines, combined in rank order.
#include "kernels/cuda/arithmetic.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {
template <class Arithmetic> __device__ __forceinline__ void run(const CollectiveArgs& args) {
  const uint64_t stride = gridDim.x * blockDim.x;
  for (uint64_t q = blockIdx.x * blockDim.x + threadIdx.x; q < packs_of(args.unit); q += stride) {
    const auto load = [&](int rank) { return load_pack(reinterpret_cast<const char*>(args.send_block[rank]), args.unit, q); };
    store_pack(reinterpret_cast<char*>(args.recv), args.unit, q, Arithmetic::run_loaded(load, args.comm.size, args));
  }
}
}  // namespace

// The operand of rank r is at send_block[r].
extern "C" __global__ void __launch_bounds__(256) symm_combine(const __grid_constant__ CollectiveArgs args) {
  begin();
  if (args.comm.size == 0) return;  // a launch to make it ready
  const auto dtype = static_cast<DType>(args.dtype);
  const bool hot = static_cast<Op>(args.op) == Op::sum || static_cast<Op>(args.op) == Op::avg;
  if (hot && dtype == DType::bf16) return run<Hot<Bf16>>(args);
  if (hot && dtype == DType::f16) return run<Hot<F16>>(args);
  if (hot && dtype == DType::f32) return run<Hot<Whole<float>>>(args);
  run<Any>(args);
}
