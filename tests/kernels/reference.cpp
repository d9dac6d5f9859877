#include "tests/kernels/reference.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <ios>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/collective.hpp"
#include "kernels/types.hpp"
#include "tools/bench/reference.hpp"

namespace symm::reference {
bool is_nan(DType dtype, uint64_t bits) {
  switch (dtype) {
    case DType::f32: return std::isnan(from_bits<float>(bits));
    case DType::f64: return std::isnan(from_bits<double>(bits));
    default: return is_float(dtype) && std::isnan(decode(dtype, bits));
  }
}

bool same(DType dtype, Bits a, Bits b) {
  if (a == b) return true;
  if (has_two_parts(dtype)) {
    const DType first = symm::part_of(dtype);
    const DType second = is_complex(dtype) ? first : DType::i64;
    return same(first, first_of(dtype, a), first_of(dtype, b)) &&
           same(second, second_of(dtype, a), second_of(dtype, b));
  }
  const auto is_nan_here = [&](Bits bits) { return is_nan(dtype, static_cast<uint64_t>(bits)); };
  return is_nan_here(a) && is_nan_here(b);
}

namespace {
std::string in_hex(Bits bits) {
  const auto high = static_cast<uint64_t>(bits >> 64);
  std::ostringstream out;
  out << std::hex;
  if (high != 0) out << high << '_';
  out << static_cast<uint64_t>(bits);
  return out.str();
}
}  // namespace

std::string difference(DType dtype, const std::byte* got, const std::byte* expected, size_t count) {
  if (count == 0 || std::memcmp(got, expected, count * size_of(dtype)) == 0) return "";
  for (size_t i = 0; i < count; ++i) {
    const Bits a = load_bits(dtype, got + i * size_of(dtype));
    const Bits b = load_bits(dtype, expected + i * size_of(dtype));
    if (same(dtype, a, b)) continue;
    std::ostringstream out;
    out << "element " << i << " of " << count << ": 0x" << in_hex(a) << ", expected 0x"
        << in_hex(b);
    return out.str();
  }
  return "";
}

Bytes combined(DType dtype, const std::vector<Bytes>& send, size_t at, size_t count, DType result,
    const std::function<Bits(const std::vector<Bits>& bits)>& combine) {
  Bytes all(count * size_of(result));
  std::vector<Bits> column(send.size());
  for (size_t i = 0; i < count; ++i) {
    for (size_t rank = 0; rank < send.size(); ++rank) {
      column[rank] = load_bits(dtype, send[rank].data() + at + i * size_of(dtype));
    }
    store_bits(result, combine(column), &all[i * size_of(result)]);
  }
  return all;
}

Bytes result_of(Collective collective, const std::vector<Bytes>& send, size_t unit, int rank,
    int root, const std::function<Bytes(size_t at)>& reduced) {
  const CollectiveTraits kind = traits(collective);
  const size_t at = kind.send_per_rank ? static_cast<size_t>(rank) * unit : 0;
  if (kind.to_root && rank != root) return {};
  if (kind.has_op) return reduced(at);
  if (kind.from_root) {
    const Bytes& all = send[static_cast<size_t>(root)];
    if (!kind.send_per_rank) return all;
    const auto first = all.begin() + static_cast<ptrdiff_t>(at);
    return Bytes(first, first + static_cast<ptrdiff_t>(unit));
  }
  Bytes all;
  for (const Bytes& one : send) {
    const auto first = one.begin() + static_cast<ptrdiff_t>(at);
    all.insert(all.end(), first, first + static_cast<ptrdiff_t>(unit));
  }
  return all;
}
}  // namespace symm::reference
