#include "kernels/host/arithmetic/highway.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/arithmetic/reduce_float.cpp"
#include <hwy/foreach_target.h>
#include "kernels/host/arithmetic/kernel-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace symm::host::HWY_NAMESPACE {
Kernel find_float(DType dtype, Op op) {
  switch (dtype) {
    case DType::f32: return find_operation<Whole<float>>(op);
    case DType::f64: return find_operation<Whole<double>>(op);
    default: return nullptr;
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace symm::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/host/arithmetic/targets.hpp"
SYMM_TABLE(KernelTable, float_table, find_float)
#endif
