// Runs the steps of a quantised wire by the kernels that this processor runs best.
#include "kernels/host/arithmetic/wire.hpp"

#include "kernels/host/arithmetic/float_environment.hpp"
#include "kernels/host/arithmetic/simd.hpp"
#include "kernels/wire_call.hpp"

namespace symm::host {
void WireSteps::encode(const WireEncoding& encoding) noexcept {
  const FloatEnvironment plain(true);
  wire_kernels(current_simd()).encode(encoding);
}

void WireSteps::sum(const WireSum& sum) noexcept {
  const FloatEnvironment plain(true);
  wire_kernels(current_simd()).sum(sum);
}

void WireSteps::decode(const WireDecoding& decoding) noexcept {
  const FloatEnvironment plain(true);
  wire_kernels(current_simd()).decode(decoding);
}
}  // namespace symm::host
