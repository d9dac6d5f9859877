#include "kernels/host/arithmetic/highway.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/arithmetic/reduce_small_float.cpp"
#include <hwy/foreach_target.h>
#include "kernels/host/arithmetic/kernel-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace symm::host::HWY_NAMESPACE {
Kernel find_small_float(DType dtype, Op op) {
  switch (dtype) {
    case DType::f16: return find_operation<F16>(op);
    case DType::bf16: return find_operation<Bf16>(op);
    case DType::f8e4m3: return find_operation<F8e4m3>(op);
    case DType::f8e5m2: return find_operation<F8e5m2>(op);
    default: return nullptr;
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace symm::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/host/arithmetic/targets.hpp"
SYMM_TABLE(KernelTable, small_float_table, find_small_float)
#endif
