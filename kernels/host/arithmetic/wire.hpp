// The steps of a call with a quantised wire (kernels/wire_call.hpp) on the host. The bits do not
// depend on the instruction set or on the caller's floating-point environment.
#pragma once

#include "kernels/host/arithmetic/simd.hpp"
#include "kernels/wire_call.hpp"

namespace symm::host {
struct WireSteps {
  static void encode(const WireEncoding& encoding) noexcept;
  static void sum(const WireSum& sum) noexcept;
  static void decode(const WireDecoding& decoding) noexcept;
};

// The steps as they were compiled for an instruction set.
struct WireKernels {
  void (*encode)(const WireEncoding& encoding) = nullptr;
  void (*sum)(const WireSum& sum) = nullptr;
  void (*decode)(const WireDecoding& decoding) = nullptr;
};
const WireKernels& wire_kernels(Simd simd) noexcept;
}  // namespace symm::host
