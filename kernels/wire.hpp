// The quantised wire: how the operands of a sum travel as codes of 8 bits.
//
// Elements are taken in groups of consecutive elements, of which the last may be shorter. A group
// has one scale, an f32, and each of its elements x one code:
//   1. amax is the largest |x| of the group, and most() the largest number that a code can have.
//   2. scale = max(amax / most(), kLeastWireScale), and inverse = 1 / scale.
//   3. The code is x * inverse, rounded to nearest even.
//   4. A group with an infinity or a NaN has the scale NaN and the codes 0.
// An element is decoded as its code * scale. All of it is f32, each step rounded to nearest even;
// none of the steps has a subnormal result that counts, so flushing these to 0 changes no bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/types.hpp"

namespace symm {
inline constexpr float kLeastWireScale = 0x1p-100F;
inline constexpr uint32_t kSmallWireGroup = 32;
inline constexpr uint32_t kLargeWireGroup = 128;

// X(type of a code, the largest number that a code has)
#define SYMM_WIRE_TYPES(X) \
  X(f8e4m3, 448)           \
  X(f8e5m2, 57344)         \
  X(i8, 127)

// X(type of an operand)
#define SYMM_WIRE_OPERANDS(X) X(f32) X(f16) X(bf16)

struct WireFormat {
  DType dtype{};
  uint32_t group = 0;

  bool operator==(const WireFormat&) const = default;
};

SYMM_HOST_DEVICE constexpr float most_of_wire(DType dtype) noexcept {
#define SYMM_CASE(name, most) \
  case DType::name: return static_cast<float>(most);
  switch (dtype) {
    SYMM_WIRE_TYPES(SYMM_CASE)
    default: return 0;
  }
#undef SYMM_CASE
}

constexpr bool is_wire_type(DType dtype) noexcept { return most_of_wire(dtype) != 0; }

constexpr bool is_wire_operand(DType dtype) noexcept {
#define SYMM_CASE(name) case DType::name:
  switch (dtype) {
    SYMM_WIRE_OPERANDS(SYMM_CASE)
    return true;
    default: return false;
  }
#undef SYMM_CASE
}

// A block is what travels of `count` elements: their codes, and behind these, from a multiple of 16
// on, the scales. Blocks that follow each other are multiples of 16 bytes apart.
SYMM_HOST_DEVICE constexpr uint64_t wire_scales_at(uint64_t count) noexcept {
  return (count + 15) / 16 * 16;
}

SYMM_HOST_DEVICE constexpr uint64_t wire_groups(uint64_t count, uint32_t group) noexcept {
  return (count + group - 1) / group;
}

SYMM_HOST_DEVICE constexpr uint64_t wire_block_bytes(uint64_t count, uint32_t group) noexcept {
  const uint64_t scales = wire_groups(count, group) * sizeof(float);
  return wire_scales_at(count) + (scales + 15) / 16 * 16;
}

// What a call says of its wire. All zero: it has none. A plain call that carries the codes of
// another call says in the other fields what that one is.
struct Wire {
  uint16_t number : 3 = 0;  // of a format
  uint16_t carries : 1 = 0;
  uint16_t dtype : 2 = 0;  // the number of a type of operands
  uint16_t averages : 1 = 0;
  uint16_t collective : 2 = 0;
  uint16_t in_tree : 1 = 0;
  uint16_t unused : 6 = 0;

  Wire() = default;
  explicit constexpr Wire(const WireFormat& format) noexcept
      : number(static_cast<uint16_t>(number_of(format)) & 7U) {}

  explicit operator bool() const noexcept { return number != 0; }
  bool operator==(const Wire&) const = default;

  constexpr WireFormat format() const noexcept {
    if (number == 0) return {};
    return {kTypes[(number - 1U) / 2], number % 2 == 0 ? kLargeWireGroup : kSmallWireGroup};
  }
  DType operand_dtype() const noexcept { return kOperands[dtype]; }
  void set_operand(DType type) noexcept {
    for (uint16_t i = 0; i < 3; ++i) {
      if (kOperands[i] == type) dtype = i & 3U;
    }
  }

  // The bits of all fields.
  static constexpr int kBits = 10;
  uint64_t bits() const noexcept {
    return uint64_t{number} | uint64_t{carries} << 3 | uint64_t{dtype} << 4 |
           uint64_t{averages} << 6 | uint64_t{collective} << 7 | uint64_t{in_tree} << 9;
  }
  static Wire of_bits(uint64_t bits) noexcept {
    Wire wire;
    wire.number = bits & 7U;
    wire.carries = bits >> 3 & 1U;
    wire.dtype = bits >> 4 & 3U;
    wire.averages = bits >> 6 & 1U;
    wire.collective = bits >> 7 & 3U;
    wire.in_tree = bits >> 9 & 1U;
    return wire;
  }

 private:
#define SYMM_TYPE(name, most) DType::name,
  static constexpr DType kTypes[] = {SYMM_WIRE_TYPES(SYMM_TYPE) DType{}};
#undef SYMM_TYPE
#define SYMM_TYPE(name) DType::name,
  static constexpr DType kOperands[] = {SYMM_WIRE_OPERANDS(SYMM_TYPE) DType{}};
#undef SYMM_TYPE

  static constexpr uint32_t number_of(const WireFormat& format) noexcept {
    for (uint32_t i = 0; i < 3; ++i) {
      if (kTypes[i] == format.dtype) return 2 * i + (format.group == kLargeWireGroup ? 2 : 1);
    }
    return 0;
  }
};
}  // namespace symm
