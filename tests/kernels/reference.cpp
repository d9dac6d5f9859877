#include "tests/kernels/reference.hpp"
#include <sstream>

namespace symm::reference {
bool is_nan(DType dtype, uint64_t bits) {
  switch (dtype) {
    case DType::f32: return std::isnan(from_bits<float>(bits));
    case DType::f64: return std::isnan(from_bits<double>(bits));
    default: return is_float(dtype) && std::isnan(decode(dtype, bits));
  }
}

bool same(DType dtype, uint64_t a, uint64_t b) { return a == b || (is_nan(dtype, a) && is_nan(dtype, b)); }

bool same(DType dtype, const std::byte* a, const std::byte* b, size_t count) {
  if (count == 0 || std::memcmp(a, b, count * size_of(dtype)) == 0) return true;
  for (size_t i = 0; i < count; ++i)
    if (!same(dtype, load_bits(dtype, a + i * size_of(dtype)), load_bits(dtype, b + i * size_of(dtype)))) return false;
  return true;
}

std::string difference(DType dtype, const std::byte* got, const std::byte* expected, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const uint64_t a = load_bits(dtype, got + i * size_of(dtype));
    const uint64_t b = load_bits(dtype, expected + i * size_of(dtype));
    if (same(dtype, a, b)) continue;
    std::ostringstream out;
    out << "element " << i << " of " << count << ": 0x" << std::hex << a << ", expected 0x" << b;
    return out.str();
  }
  return "no difference";
}
}  // namespace symm::reference
