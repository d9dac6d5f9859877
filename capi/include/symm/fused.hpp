// SPDX-License-Identifier: Apache-2.0
//
// The calls of fused.h for C++17 and later, as symm.hpp has those of symm.h. They may still change:
// fused.h says how its version tells so, and how a program checks.
#ifndef SYMM_FUSED_HPP
#define SYMM_FUSED_HPP

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include <symm/fused.h>
#include <symm/symm.hpp>

namespace symm {
inline namespace v0 {

// ---- fused calls -------------------------------------------------------------------------

// Add all ranks' send, rows of `hidden` elements, and a residual, and normalise, as `norm` says.
// Its operands are as long as fused.h says. symm_allreduce_rmsnorm().
template <class Send>
void allreduce_rmsnorm(const Group &group, const Send &send, size_t hidden,
                       const symm_rmsnorm_call_t &norm, const Options &options = {}) {
  using Element = std::remove_cv_t<std::remove_pointer_t<decltype(std::data(send))>>;
  const Span<const Element> data(send);
  const size_t tokens = hidden == 0 ? 0 : data.size() / hidden;
  detail::require_elements("symm_allreduce_rmsnorm", "send", data.size(), tokens * hidden);
  const auto c = detail::in_c(options);
  check(symm_allreduce_rmsnorm(group.get(), data.data(), tokens, hidden, Dtype<Element>::value,
                               &norm, &c, options.stream),
        "symm_allreduce_rmsnorm");
}

}  // namespace v0
}  // namespace symm

#endif  // SYMM_FUSED_HPP
