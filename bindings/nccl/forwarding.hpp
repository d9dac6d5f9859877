// The table of slots through which exported names lead to the real NCCL. forwarders.S, which
// generate.py makes, has the jumps.
#pragma once

#include <cstddef>

#include "bindings/nccl/abi.hpp"

namespace symm::nccl {
#define SYMM_NCCL_FUNCTION(name, since, returns, by_hand) name,
enum class Function : unsigned {
#include "functions.inc"
};
#undef SYMM_NCCL_FUNCTION

// The function of the real NCCL. If that has none, the one that says so.
void* real_function(Function function) noexcept;

// real<Result, Comm>(Function::ncclCommDestroy)(comm)
template <class Returned, class... Parameters>
auto real(Function function) noexcept {
  return reinterpret_cast<Returned (*)(Parameters...)>(real_function(function));
}

// Whether the real NCCL has the function.
bool has_real(Function function) noexcept;
}  // namespace symm::nccl
