// The table of combining kernels by type and operator. Highway compiles this file once for each
// instruction set.
#include <cstddef>
#include <cstdint>

#include "kernels/host/arithmetic/highway.hpp"
#include "kernels/host/arithmetic/simd.hpp"
#include "kernels/host/arithmetic/table.hpp"
#include "kernels/types.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/arithmetic/reduce_kernels.cpp"
#include <hwy/foreach_target.h>

#include "kernels/host/arithmetic/kernel-inl.hpp"

HWY_BEFORE_NAMESPACE();

namespace symm::host::HWY_NAMESPACE {
template <class Format>
Kernel find_saturating(Op op) {
  return op == Op::prod ? &Reducer<Format, SaturatingProduct>::run : find_operation<Format>(op);
}

Kernel find_kernel(DType dtype, Op op, bool saturates) {
  if (is_bitwise(op)) return find_bitwise(op);
  if (saturates) return find_saturating<NativeElement<float>>(op);
  switch (dtype) {
    case DType::i8: return find_operation<NativeElement<int8_t>>(op);
    case DType::u8: return find_operation<NativeElement<uint8_t>>(op);
    case DType::i16: return find_operation<NativeElement<int16_t>>(op);
    case DType::u16: return find_operation<NativeElement<uint16_t>>(op);
    case DType::i32: return find_operation<NativeElement<int32_t>>(op);
    case DType::u32: return find_operation<NativeElement<uint32_t>>(op);
    case DType::i64: return find_operation<NativeElement<int64_t>>(op);
    case DType::u64: return find_operation<NativeElement<uint64_t>>(op);
    case DType::boolean:
      return op == Op::min || op == Op::prod ? &Reducer<Bool, Min>::run : &Reducer<Bool, Max>::run;
    case DType::f32: return find_operation<NativeElement<float>>(op);
    case DType::f64: return find_operation<NativeElement<double>>(op);
    case DType::f16: return find_operation<F16>(op);
    case DType::bf16: return find_operation<Bf16>(op);
    case DType::f8e4m3: return find_saturating<F8e4m3>(op);
    case DType::f8e5m2: return find_saturating<F8e5m2>(op);
    default: return nullptr;
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace symm::host::HWY_NAMESPACE

HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace symm::host {
const KernelTable& kernel_table() noexcept {
  static constexpr KernelTable table = [] {
    KernelTable made{};
#if HWY_TARGETS & HWY_SCALAR
    made[static_cast<size_t>(Simd::scalar)] = N_SCALAR::find_kernel;
#endif
#if HWY_TARGETS & HWY_SSE4
    made[static_cast<size_t>(Simd::sse4)] = N_SSE4::find_kernel;
#endif
#if HWY_TARGETS & HWY_AVX2
    made[static_cast<size_t>(Simd::avx2)] = N_AVX2::find_kernel;
#endif
#if HWY_TARGETS & HWY_AVX3
    made[static_cast<size_t>(Simd::avx512)] = N_AVX3::find_kernel;
#endif
#if HWY_TARGETS & HWY_NEON
    made[static_cast<size_t>(Simd::neon)] = N_NEON::find_kernel;
#endif
    return made;
  }();

  return table;
}
}  // namespace symm::host
#endif
