// Copying past the cache.
#include "kernels/host/arithmetic/highway.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/arithmetic/stream.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <cstring>
#include "kernels/host/arithmetic/table.hpp"

HWY_BEFORE_NAMESPACE();
namespace symm::host::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// `to` is aligned to 64 bytes and `bytes` a multiple of 64. The caller fences.
void stream(std::byte* to, const std::byte* from, size_t bytes) {
#if HWY_TARGET == HWY_SCALAR
  std::memcpy(to, from, bytes);
#else
  const hn::ScalableTag<uint8_t> d;
  const size_t lanes = hn::Lanes(d);
  const auto* in = reinterpret_cast<const uint8_t*>(from);
  auto* out = reinterpret_cast<uint8_t*>(to);
  for (size_t at = 0; at < bytes; at += lanes) hn::Stream(hn::LoadU(d, in + at), d, out + at);
#endif
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace symm::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/host/arithmetic/targets.hpp"
SYMM_TABLE(StreamTable, stream_table, stream)
#endif
