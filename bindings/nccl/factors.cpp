#include "bindings/nccl/factors.hpp"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>

#include "bindings/nccl/call.hpp"
#include "bindings/nccl/choice.hpp"
#include "bindings/nccl/driver.hpp"

namespace symm::nccl {
namespace {
constexpr int kPlaces = 256;

struct Format {
  int exponent_bits;
  int fraction_bits;
  // The largest exponent is that of infinities and NaN; else only its largest fraction is NaN.
  bool has_infinity;
};

Format format_of(int type) {
  switch (type) {
    case kFloat16: return {5, 10, true};
    case kBfloat16: return {8, 7, true};
    case kFloat8e4m3: return {4, 3, false};
    default: return {5, 2, true};
  }
}

// `type` is one that symm has factors of.
size_t bytes_of_factor(int type) { return bytes_of(*dtype_of(type)); }
}  // namespace

float value_of(const void* scalar, int type) noexcept {
  uint32_t bits = 0;
  std::memcpy(&bits, scalar, bytes_of_factor(type));
  if (type == kFloat32) return std::bit_cast<float>(bits);

  const Format format = format_of(type);
  const uint32_t fraction = bits & ((1U << format.fraction_bits) - 1);
  const uint32_t most = (1U << format.exponent_bits) - 1;
  const uint32_t exponent = bits >> format.fraction_bits & most;
  const bool is_negative = (bits >> (format.fraction_bits + format.exponent_bits) & 1) != 0;
  const bool is_top = exponent == most;
  const uint32_t top_fraction = (1U << format.fraction_bits) - 1;

  float magnitude = 0;
  if (is_top && format.has_infinity && fraction == 0) {
    magnitude = std::numeric_limits<float>::infinity();
  } else if (is_top && (format.has_infinity || fraction == top_fraction)) {
    magnitude = std::numeric_limits<float>::quiet_NaN();
  } else {
    const int bias = static_cast<int>(most >> 1);
    const uint32_t whole = exponent == 0 ? fraction : fraction | 1U << format.fraction_bits;
    const int scale = (exponent == 0 ? 1 : static_cast<int>(exponent)) - bias;
    magnitude = std::ldexp(static_cast<float>(whole), scale - format.fraction_bits);
  }
  return is_negative ? -magnitude : magnitude;
}

Factors& Factors::of(int device) {
  static auto* const mutex = new std::mutex;
  static auto* const all = new std::map<int, Factors>;
  const std::lock_guard lock(*mutex);
  return (*all)[device];
}

bool Factors::make(const Driver& driver, Mapped& made) {
  if (left_ == 0) {
    void* host = nullptr;
    if (!driver.make_host_memory(kPlaces * sizeof(Place), host, next_.device)) return false;
    next_.host = static_cast<Place*>(host);
    left_ = kPlaces;
  }

  --left_;
  made = next_;
  ++next_.host;
  next_.device = static_cast<const char*>(next_.device) + sizeof(Place);

  *made.host = {};
  return true;
}

// Called by the driver, in the order of a stream.
void Factors::convert(void* place) noexcept {
  auto* const one = static_cast<Place*>(place);
  one->factor = value_of(&one->scalar, one->type);
}

const void* Factors::find(
    const Driver& driver, const Scalar& scalar, void* stream, uint64_t capture) {
  if (scalar.where != nullptr && scalar.type == kFloat32) return scalar.where;
  const std::lock_guard lock(mutex_);
  if (scalar.where == nullptr) {
    Mapped& known = values_[std::bit_cast<uint32_t>(scalar.value)];
    if (known.host == nullptr) {
      if (!make(driver, known)) return nullptr;
      known.host->factor = scalar.value;
    }
    return known.device;
  }

  // A graph has a place of its own, and may be replayed until the process ends.
  Mapped own{};
  unsigned long long number = 0;
  if (capture == 0 && !driver.number_of(stream, number)) return nullptr;
  Mapped& place = capture == 0 ? streams_[number] : own;
  // Work that is under way may still convert by another type.
  if (place.host == nullptr || place.host->type != scalar.type) {
    if (!make(driver, place)) return nullptr;
    place.host->type = scalar.type;
  }
  const bool is_copied =
      driver.copy(&place.host->scalar, scalar.where, bytes_of_factor(scalar.type), stream);
  return is_copied && driver.call(stream, &convert, place.host) ? place.device : nullptr;
}
}  // namespace symm::nccl
