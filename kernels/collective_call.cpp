// The signature of a call as numbers and as text, by which ranks find out that their calls
// differ.
#include "kernels/collective_call.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <string>

#include "kernels/collective.hpp"
#include "kernels/number.hpp"
#include "kernels/pieces.hpp"
#include "kernels/text.hpp"
#include "kernels/tree_order.hpp"
#include "kernels/types.hpp"
#include "kernels/wire.hpp"

namespace symm {
namespace {
// 12 bits that tell factors apart; 0 for 0.
uint64_t mixed(Number factor) { return factor.bits() * 0xD6E8FEB86659FD93U >> 52; }

// The types of results that are narrower than their operands, which then are f32. Their number
// takes two of the bits of the factor.
#define SYMM_NAMED(name) DType::name,
constexpr DType kNarrow[] = {SYMM_SMALL_FLOATS(SYMM_NAMED)};
#undef SYMM_NAMED
constexpr int kBitsOfNarrow = 10;

uint64_t bits_of_factor(const Scaling& scaling) {
  constexpr uint64_t kMask = (1U << StepNumber::kBits) - 1;
  if (scaling.kind == Factor::step) return scaling.factor.bits() & kMask;
  const uint64_t factor = mixed(scaling.factor);
  if (scaling.dtype != DType::f32 || scaling.result == DType::f32) return factor;
  const auto* const narrow = std::find(std::begin(kNarrow), std::end(kNarrow), scaling.result);
  return static_cast<uint64_t>(narrow - std::begin(kNarrow)) << kBitsOfNarrow |
         factor >> (12 - kBitsOfNarrow);
}

// Five bits of a data type: two for its width, 8 to 64 bits, and three for its kind, which is the
// upper byte of its value. Kinds are even, except that of unsigned integers. Types of two parts
// have 64 or 128 bits: complex ones share their number with bf16, which has 16 bits, and pairs have
// one bit for whether their values are floats and one for their width.
constexpr uint64_t kUnsigned = 7;
constexpr uint64_t kComplex = 2;
constexpr uint64_t kPair = 4;
constexpr uint32_t kKindOfComplex = 0x05;
constexpr uint32_t kKindOfPair = 0x80;

constexpr uint64_t bits_of(DType dtype) {
  const auto value = static_cast<uint32_t>(dtype);
  const uint32_t kind = value >> 8;
  const auto width = static_cast<uint64_t>(std::countr_zero(value & 0xFF)) - 3;
  if (is_complex(dtype)) return kComplex << 2 | (width - 1);
  if (is_pair(dtype)) return kPair << 2 | (kind & 2) | (width - 3);
  return (kind == 1 ? kUnsigned : kind >> 1) << 2 | (width & 3);
}

constexpr DType dtype_of(uint64_t bits) {
  const uint64_t kind = bits >> 2;
  if (kind == kPair) {
    return static_cast<DType>((kKindOfPair | (bits & 2)) << 8 | uint64_t{64} << (bits & 1));
  }
  if (kind == kComplex && (bits & 2) != 0) {
    return static_cast<DType>(kKindOfComplex << 8 | uint64_t{64} << (bits & 1));
  }
  return static_cast<DType>((kind == kUnsigned ? 1 : kind << 1) << 8 | uint64_t{8} << (bits & 3));
}

#define SYMM_IS_KEPT(name, c_name, value) \
  static_assert(bits_of(DType::name) < 32 && dtype_of(bits_of(DType::name)) == DType::name);
SYMM_DTYPES(SYMM_IS_KEPT)
#undef SYMM_IS_KEPT

// Three bits of an operator. The last three values are bitwise operators, which are of integers
// only. With floats and complex numbers the same values are sum, average and product in tree order,
// which is of these only. Pairs have a minimum and a maximum, whose values they take, and no other.
constexpr uint64_t kTree = 5;

constexpr uint64_t bits_of(Op op, Order order) {
  const auto value = static_cast<uint64_t>(op);
  if (is_located(op)) return static_cast<uint64_t>(op == Op::minloc ? Op::min : Op::max);
  if (order != Order::tree) return value;
  return kTree + (op == Op::prod ? 2 : value);
}

constexpr Op op_of(uint64_t bits, DType dtype, bool in_tree) {
  const Op op = static_cast<Op>(bits);
  if (is_pair(dtype) && op == Op::min) return Op::minloc;
  if (is_pair(dtype) && op == Op::max) return Op::maxloc;
  if (!in_tree) return op;
  return bits == kTree + 2 ? Op::prod : static_cast<Op>(bits - kTree);
}

static_assert(op_of(bits_of(Op::sum, Order::tree), DType::f32, true) == Op::sum);
static_assert(op_of(bits_of(Op::avg, Order::tree), DType::f32, true) == Op::avg);
static_assert(op_of(bits_of(Op::prod, Order::tree), DType::f32, true) == Op::prod);
#define SYMM_FITS(name, c_name, value)                                                           \
  static_assert(                                                                                 \
      bits_of(Op::name, {}) < 8 && is_bitwise(Op::name) == (bits_of(Op::name, {}) >= kTree) &&   \
      op_of(bits_of(Op::name, {}), is_located(Op::name) ? DType::i32_i32 : DType::i32, false) == \
          Op::name);
SYMM_OPS(SYMM_FITS)
#undef SYMM_FITS

// Four bits of an algorithm. An order that the algorithm chooses counts only where the algorithm
// is not given.
constexpr uint64_t kAnyOrder = 15;
#define SYMM_FITS(name, c_name, value) static_assert((value) < kAnyOrder);
SYMM_ALGORITHMS(SYMM_FITS)
#undef SYMM_FITS

// Four bits of a collective. There are more collectives, of which none has a factor: the bits of a
// factor then have a value that no factor has.
constexpr uint32_t kCollectiveBits = 4;
constexpr uint64_t kMoreCollectives = 3;
static_assert(static_cast<uint64_t>(ScalePosition::after) < kMoreCollectives);
static_assert([] {
  for (size_t row = 0; row < kCollectives; ++row) {
    if (row >> kCollectiveBits > 1) return false;
    if (row >> kCollectiveBits == 1 && kCollectiveTable.rows[row].has_scaling) return false;
  }
  return true;
}());

// A factor that is read from a pointer but has no position stands for a wire, which no call has
// beside a factor: the bits of the factor are those of the wire.
constexpr uint64_t kHasWire = 4;
static_assert(Wire::kBits <= 12);

// So does a factor of no position that changes the type, from a pointer: those are the bits of the
// number of chunks.
constexpr uint64_t kInChunks = 7;
constexpr uint64_t kIsMixed = 1U << 12;  // so that the number is not 0

// And so does one from a pointer, of no position, that changes the type in another way: those are
// the bits of the number of a step. No step is one of the collectives that there are more.
constexpr uint64_t kIsStep = 15;
static_assert(static_cast<uint32_t>(Collective::exscan) + 1 <
              1U << (StepNumber::kBits - StepNumber::kLowBits));
static_assert(static_cast<uint32_t>(Collective::allgather) >> kCollectiveBits == 0 &&
              static_cast<uint32_t>(Collective::alltoall) >> kCollectiveBits == 0 &&
              static_cast<uint32_t>(Collective::gather) >> kCollectiveBits == 0);

// The collective that a call in chunks is of, if this is one of its plain calls.
Collective whole_of(Collective collective) {
  if (collective == Collective::alltoallv) return Collective::allgather;
  return collective == Collective::reduce_scatterv ? Collective::reduce_scatter : collective;
}

constexpr Collective kCarried[] = {
    Collective::allreduce, Collective::reduce_scatter, Collective::reduce};
static_assert(kCarried[carried_number(Collective::allreduce)] == Collective::allreduce);
static_assert(kCarried[carried_number(Collective::reduce_scatter)] == Collective::reduce_scatter);
static_assert(kCarried[carried_number(Collective::reduce)] == Collective::reduce);

std::string text_of_wire(const Wire& wire) {
  const WireFormat format = wire.format();
  std::string all = symm::text("wire ", dtype_name(format.dtype), " in groups of ", format.group);
  if (wire.carries == 0) return all;
  all += symm::text(" of ", collective_name(kCarried[std::min<int>(wire.collective, 2)]), " of ",
      dtype_name(wire.operand_dtype()), ", ", op_name(wire.averages != 0 ? Op::avg : Op::sum));
  if (wire.in_tree != 0) all += ", in tree order";
  return all;
}

bool is_free(const CallSignature& call) {
  return call.order == Order::any && call.algorithm == Algorithm::automatic;
}

// The 16 bits that tell what came before a call. Without the bit of a batch they are the heaps.
// In a batch 13 bits are an index, or the last one that fits, or for calls[0] a mixed number.
constexpr uint32_t kBatchBit = 1U << 15;
constexpr uint32_t kMergedBit = 1U << 14;
constexpr uint32_t kIndexBit = 1U << 13;
constexpr uint32_t kMostIndex = kIndexBit - 1;

uint32_t bits_before(const CallSignature& call) {
  const BatchPlace& batch = call.batch;
  if (!batch) return call.heaps;
  const uint32_t merged = kBatchBit | (batch.merged != 0 ? kMergedBit : 0);
  const auto index = static_cast<uint32_t>(batch.index);
  if (index != 0) return merged | kIndexBit | std::min(index, kMostIndex);
  const uint64_t mixed = (uint64_t{batch.calls} << 16 ^ call.heaps) * 0xD6E8FEB86659FD93U >> 51;
  return merged | static_cast<uint32_t>(mixed);
}

// The number that calls[0] has keeps the place of the heaps.
void take_bits_before(CallSignature& call, uint32_t bits, uint64_t count) {
  call.count = count;
  call.heaps = static_cast<uint16_t>(bits);
  if ((bits & kBatchBit) == 0) return;

  call.heaps = static_cast<uint16_t>((bits & kIndexBit) != 0 ? 0 : bits & kMostIndex);
  const bool is_merged = (bits & kMergedBit) != 0;
  const uint32_t index = (bits & kIndexBit) != 0 ? bits & kMostIndex : 0;
  call.batch = {BatchPlace::kSome, index, is_merged ? count >> 32 : 0};
  if (is_merged) call.count = static_cast<uint32_t>(count);
}

// The bits of a step's number that lie beside its count.
void take_rest_of_step(CallSignature& call, uint64_t count) {
  const uint64_t low = call.scaling.factor.bits();
  call.scaling.factor = Number::of_bits(count >> 32 << StepNumber::kBits | low);
  call.count = static_cast<uint32_t>(count);
}

std::string text_of_place(const CallSignature& call) {
  const BatchPlace& batch = call.batch;
  std::string all = symm::text(" as calls[", uint64_t{batch.index}, "] of a batch");
  if (batch.calls != BatchPlace::kSome) {
    all += symm::text(" of ", uint64_t{batch.calls});
  } else if (batch.index == 0) {
    all += symm::text(" with hash ", call.heaps);
  }
  if (batch.merged != 0) all += symm::text(", with other calls of hash ", uint64_t{batch.merged});
  return all;
}
}  // namespace

uint64_t StepNumber::of(
    Collective collective, int32_t root, size_t count, size_t element_bytes) noexcept {
  // The root is added, so that roots alone that differ are always told apart, and counts alone, or
  // sizes alone, in all but one of 2^kHashBits cases.
  const uint64_t lengths =
      (uint64_t{count} * 0x9E3779B97F4A7C15U ^ element_bytes) * 0xD6E8FEB86659FD93U;
  const uint64_t upper = lengths >> (64 - kHashBits);
  const uint64_t hash = (upper + static_cast<uint32_t>(root)) & ((uint64_t{1} << kHashBits) - 1);
  const uint64_t which = static_cast<uint64_t>(collective) + 1;
  return (hash >> kLowBits) << kBits | which << kLowBits | (hash & ((1U << kLowBits) - 1));
}

Collective StepNumber::collective(uint64_t number) noexcept {
  const uint64_t which = (number & ((1U << kBits) - 1)) >> kLowBits;
  return static_cast<Collective>(which - 1);
}

void CallSignature::set_order(Order wanted, int ranks) noexcept {
  order = Order::ranks;
  const CollectiveTraits what = traits(collective);
  if (wanted == Order::ranks || !what.has_op || what.of_prefix) return;
  const bool differs = depends_on_order(dtype, op) && ranks > kRanksInOrder;
  if (wanted == Order::any || differs) order = wanted;
}

uint64_t CallSignature::packed() const noexcept {
  const auto bits = [](auto value) { return static_cast<uint64_t>(static_cast<uint32_t>(value)); };
  const uint64_t which = bits(collective);
  uint64_t scaled = which >> kCollectiveBits != 0
                        ? kMoreCollectives
                        : bits(scaling.position) | uint64_t{scaling.kind == Factor::pointer} << 2 |
                              uint64_t{scaling.result != scaling.dtype} << 3;
  const Wire& wire = scaling.wire;
  if (wire) scaled = kHasWire;
  if (is_chunked()) scaled = kInChunks;
  if (is_step()) scaled = kIsStep;
  const uint64_t factor = wire ? wire.bits() : bits_of_factor(scaling);
  const uint64_t type = bits_of(scaling ? scaling.dtype : dtype);
  return bits(bits_before(*this)) << 48 | scaled << 44 | bits(block_limit) << 36 |
         (type & 0xF) << 32 | ((bits(root) & 0xFFFF) ^ (factor & 0xFF) << 8) << 16 |
         (which & 0xF) << 12 | (type >> 4) << 11 | bits_of(op, order) << 8 | (factor >> 8) << 4 |
         (is_free(*this) ? kAnyOrder : bits(algorithm));
}

CallSignature CallSignature::unpacked(uint64_t packed, uint64_t count) noexcept {
  CallSignature signature;
  signature.block_limit = static_cast<uint8_t>(packed >> 36);
  signature.dtype = dtype_of((packed >> 32 & 0xF) | (packed >> 11 & 1) << 4);
  const uint64_t scaled = packed >> 44 & 0xF;
  const bool is_more = scaled == kMoreCollectives;
  const bool has_wire = scaled == kHasWire;
  const bool has_number = scaled == kInChunks || scaled == kIsStep;
  if (has_number) {
    const uint64_t number = (packed >> 24 & 0xFF) | (packed >> 4 & 0xF) << 8;
    const bool is_step = scaled == kIsStep;
    signature.scaling.kind = is_step ? Factor::step : Factor::mixed;
    signature.scaling.factor = Number::of_bits(is_step ? number : number | kIsMixed);
  } else if (has_wire) {
    signature.scaling.wire = Wire::of_bits((packed >> 24 & 0xFF) | (packed >> 4 & 0xF) << 8);
  } else if (scaled != 0 && !is_more) {
    const bool changes_type = (scaled >> 3 & 1) != 0;
    uint64_t factor = (packed >> 24 & 0xFF) | (packed >> 4 & 0xF) << 8;
    DType result = signature.dtype;
    if (changes_type && signature.dtype == DType::f32) {
      result = kNarrow[factor >> kBitsOfNarrow];
      factor &= (1U << kBitsOfNarrow) - 1;
    } else if (changes_type) {
      result = DType::f32;
    }
    signature.scaling = {signature.dtype, result, static_cast<ScalePosition>(scaled & 3),
        (scaled >> 2 & 1) != 0 ? Factor::pointer : Factor::mixed, {}, Number::of_bits(factor)};
  }

  signature.root = static_cast<int32_t>(
      packed >> 16 & (signature.scaling || has_wire || has_number ? 0xFF : 0xFFFF));
  signature.collective = static_cast<Collective>(
      (packed >> 12 & 0xF) | static_cast<uint64_t>(is_more) << kCollectiveBits);
  const uint64_t op_bits = packed >> 8 & 7;
  const bool in_tree = op_bits >= kTree && !is_integer(signature.dtype);
  signature.op = op_of(op_bits, signature.dtype, in_tree);
  if (in_tree) signature.order = Order::tree;
  const bool is_free = (packed & 0xF) == kAnyOrder;
  if (is_free) signature.order = Order::any;
  signature.algorithm = is_free ? Algorithm::automatic : static_cast<Algorithm>(packed & 0xF);
  take_bits_before(signature, static_cast<uint32_t>(packed >> 48), count);
  if (signature.is_step()) take_rest_of_step(signature, count);
  return signature;
}

// The high half of the count is folded in by an odd multiplier. So calls that differ in the other
// fields only, which is what a mistake looks like, always have different hashes.
uint32_t CallSignature::hash() const noexcept {
  const uint64_t length = uint64_t{batch.merged} << 32 ^ count ^ uint64_t{batch.calls} << 40;
  uint64_t all =
      (packed() ^ scaling.factor.bits() ^ (length * 0x9E3779B97F4A7C15U)) * 0xD6E8FEB86659FD93U;
  all ^= all >> 32;
  return static_cast<uint32_t>(all);
}

std::string CallSignature::text() const {
  // An all-reduce with RMSNorm, or a plain one that it is made of, has the length of its rows here.
  const bool has_norm = !traits(collective).has_root() && root != 0 && !scaling.wire;

  const Collective whole = is_chunked() ? whole_of(collective) : collective;
  std::string all = symm::text(collective_name(has_norm ? Collective::allreduce_rmsnorm : whole),
      "(", dtype_name(scaling ? scaling.dtype : dtype));
  if (traits(collective).has_op && !has_norm) all += symm::text(", ", op_name(op));

  if (scaling.position != ScalePosition::none) {
    char factor[40] = "a pointer";
    if (scaling.kind == Factor::value) {
      std::snprintf(factor, sizeof factor, "%.17g", scaling.factor.f64());
    } else if (scaling.kind == Factor::mixed) {
      std::snprintf(factor, sizeof factor, "factor #%lu", scaling.factor.bits());
    }
    all += symm::text(", scaled ", scale_position_name(scaling.position), " by ", factor);
  }
  if (scaling.result != scaling.dtype) all += symm::text(", result ", dtype_name(scaling.result));

  const bool counted = has_counts(collective);
  if (!counted || count != 0) all += symm::text(counted ? ", send_capacity " : ", count ", count);
  if (has_norm) all += symm::text(", hidden ", root);
  if (traits(collective).has_root()) all += symm::text(", root ", root);
  if (scaling.wire) all += symm::text(", ", text_of_wire(scaling.wire));
  if (is_chunked()) {
    const bool is_mixed = scaling.kind == Factor::mixed;
    all += symm::text(", in chunks with hash ",
        is_mixed ? scaling.factor.bits() - kIsMixed : mixed(scaling.factor));
  }
  if (is_step()) {
    const uint64_t number = scaling.factor.bits();
    all += symm::text(", of reduce_by(", collective_name(StepNumber::collective(number)),
        ") with hash ", StepNumber::hash(number));
  }
  if (order == Order::tree) all += ", in tree order";
  if (is_free(*this)) all += ", in any order";
  if (algorithm != Algorithm::automatic) {
    all += symm::text(", algorithm ", algorithm_name(algorithm));
  }
  if (block_limit != 0) {
    all += symm::text(", max_blocks ", static_cast<int>(block_limit),
        block_limit == kMostBlockLimit ? " or more" : "");
  }
  all += ")";
  if (batch) all += text_of_place(*this);
  if (heaps != 0 && batch.calls != BatchPlace::kSome) {
    all += symm::text(" after heap calls with hash ", heaps);
  }
  return all;
}

size_t CollectiveCall::bytes_of_pieces() const noexcept {
  switch (collective) {
    case Collective::allgatherv:
    case Collective::gatherv: return pieces->send_bytes;
    case Collective::reduce_scatterv:
    case Collective::scatterv: return pieces->recv_bytes;
    case Collective::broadcast_bytes: return pieces->found.bytes;
    case Collective::alltoallv: break;
    default: return unit();
  }

  size_t all = 0;
  for (const Piece& piece : pieces->send) {
    all += piece.bytes;
  }
  return all;
}
}  // namespace symm
