// Operands of symm bench that can be computed anywhere, and the check of results against them.
#include "tools/bench/pattern.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "symm/symm.h"
#include "tools/bench/reference.hpp"

namespace symm::tool {
namespace {
uint64_t mix(uint64_t value) {  // the finaliser of SplitMix64
  value += 0x9E3779B97F4A7C15U;
  value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9U;
  value = (value ^ value >> 27) * 0x94D049BB133111EBU;
  return value ^ value >> 31;
}

// Products stay near one; everything else is spread over [-2, 2). Never zero, so that
// no sign of a zero is in question. With `any_order` nothing is ever rounded, whichever
// elements are combined first: numbers of 18 bits, and factors that are powers of 2.
double real(uint64_t random, symm_op_t op, bool any_order) {
  if (any_order) {
    const double sign = (random & 1U) != 0 ? -1 : 1;
    if (op == SYMM_OP_PROD) return std::ldexp(sign, static_cast<int>(random % 3) - 1);
    return sign * (static_cast<double>(random >> 47) + 1) * 0x1p-16;
  }
  const double unit = (static_cast<double>(random >> 11) + 0.5) * 0x1p-53;
  const double sign = (random & 1U) != 0 ? -1 : 1;
  return op == SYMM_OP_PROD ? sign * (0.75 + unit / 2) : sign * (2 * unit + 0x1p-6);
}

// An average is of the sum, and sums wrap: keep them from it, since the average of a
// wrapped sum is nothing to check for. Seven bits of eight are 1 where all ranks' bits are
// combined by "and", or 0 by "or", so that neither result is the same everywhere.
uint64_t integer(uint64_t random, symm_dtype_t dtype, symm_op_t op, int ranks) {
  const uint64_t few = random & mix(random) & mix(mix(random));
  if (op == SYMM_OP_BAND) return ~few;
  if (op == SYMM_OP_BOR) return few;
  if (op != SYMM_OP_AVG) return random;
  const bool is_signed = dtype == SYMM_DTYPE_I8 || dtype == SYMM_DTYPE_I16 ||
                         dtype == SYMM_DTYPE_I32 || dtype == SYMM_DTYPE_I64;
  const uint64_t largest = (~uint64_t{0} >> (64 - 8 * size_of(dtype))) >> (is_signed ? 1 : 0);
  const uint64_t bound = std::max<uint64_t>(1, largest / static_cast<uint64_t>(ranks));
  const uint64_t value = (random >> 1) % bound;
  return is_signed && (random & 1U) != 0 ? ~value + 1 : value;
}

reference::Bits element(
    symm_dtype_t dtype, symm_op_t op, int ranks, bool any_order, uint64_t random) {
  const symm_dtype_t part = reference::part_of(dtype);
  if (reference::is_complex(dtype)) {
    const auto first = element(part, op, ranks, any_order, random);
    return first | element(part, op, ranks, any_order, mix(random)) << (4 * size_of(dtype));
  }
  // Few values, so that indices decide often.
  if (reference::is_pair(dtype)) {
    const auto value = static_cast<int64_t>(random % 16) - 8;
    const auto index = static_cast<int64_t>(random >> 32 & 0xFFFF);
    return reference::encode_integer(part, value) |
           reference::encode_integer(reference::index_of(dtype), index) << (4 * size_of(dtype));
  }

  switch (dtype) {
    case SYMM_DTYPE_F64: return reference::to_bits(real(random, op, any_order));
    case SYMM_DTYPE_F32: return reference::to_bits(static_cast<float>(real(random, op, any_order)));
    case SYMM_DTYPE_F16:
    case SYMM_DTYPE_BF16:
    case SYMM_DTYPE_F8E4M3:
    case SYMM_DTYPE_F8E5M2:
      return reference::encode(dtype, static_cast<float>(real(random, op, any_order)));
    case SYMM_DTYPE_BOOL: return random & 1U;
    default: return integer(random, dtype, op, ranks);
  }
}

}  // namespace

const std::vector<Named<symm_dtype_t>>& dtypes() {
  static const std::vector<Named<symm_dtype_t>> list{
      {"i8", SYMM_DTYPE_I8},
      {"u8", SYMM_DTYPE_U8},
      {"i16", SYMM_DTYPE_I16},
      {"u16", SYMM_DTYPE_U16},
      {"bool", SYMM_DTYPE_BOOL},
      {"i32", SYMM_DTYPE_I32},
      {"u32", SYMM_DTYPE_U32},
      {"i64", SYMM_DTYPE_I64},
      {"u64", SYMM_DTYPE_U64},
      {"f16", SYMM_DTYPE_F16},
      {"bf16", SYMM_DTYPE_BF16},
      {"f32", SYMM_DTYPE_F32},
      {"f64", SYMM_DTYPE_F64},
      {"f8e4m3", SYMM_DTYPE_F8E4M3},
      {"f8e5m2", SYMM_DTYPE_F8E5M2},
      {"c64", SYMM_DTYPE_C64},
      {"c128", SYMM_DTYPE_C128},
      {"i32_i32", SYMM_DTYPE_I32_I32},
      {"i64_i64", SYMM_DTYPE_I64_I64},
      {"f32_i32", SYMM_DTYPE_F32_I32},
      {"f64_i64", SYMM_DTYPE_F64_I64},
  };

  return list;
}

const std::vector<Named<symm_op_t>>& ops() {
  static const std::vector<Named<symm_op_t>> list{{"sum", SYMM_OP_SUM}, {"avg", SYMM_OP_AVG},
      {"min", SYMM_OP_MIN}, {"max", SYMM_OP_MAX}, {"prod", SYMM_OP_PROD}, {"band", SYMM_OP_BAND},
      {"bor", SYMM_OP_BOR}, {"bxor", SYMM_OP_BXOR}, {"minloc", SYMM_OP_MINLOC},
      {"maxloc", SYMM_OP_MAXLOC}};
  return list;
}

const std::vector<Named<symm_algorithm_t>>& algorithms() {
  static const std::vector<Named<symm_algorithm_t>> list{{"auto", SYMM_ALGORITHM_AUTO},
      {"ll", SYMM_ALGORITHM_LL}, {"one-shot", SYMM_ALGORITHM_ONE_SHOT},
      {"two-shot", SYMM_ALGORITHM_TWO_SHOT}, {"two-shot-staged", SYMM_ALGORITHM_TWO_SHOT_STAGED},
      {"hybrid-cube-mesh", SYMM_ALGORITHM_HYBRID_CUBE_MESH},
      {"multimem-one-shot", SYMM_ALGORITHM_MULTIMEM_ONE_SHOT},
      {"multimem-two-shot", SYMM_ALGORITHM_MULTIMEM_TWO_SHOT}, {"marked", SYMM_ALGORITHM_MARKED},
      {"chain", SYMM_ALGORITHM_CHAIN}, {"bruck", SYMM_ALGORITHM_BRUCK},
      {"hierarchical", SYMM_ALGORITHM_HIERARCHICAL}, {"copy-engine", SYMM_ALGORITHM_COPY_ENGINE}};
  return list;
}

const std::vector<Named<symm_order_t>>& orders() {
  static const std::vector<Named<symm_order_t>> list{{"group", SYMM_ORDER_GROUP},
      {"ranks", SYMM_ORDER_RANKS}, {"tree", SYMM_ORDER_TREE}, {"any", SYMM_ORDER_ANY}};
  return list;
}

Pattern::Pattern(symm_dtype_t dtype, symm_op_t op, int ranks, symm_order_t order)
    : dtype_(dtype), op_(op), element_(size_of(dtype)) {
  for (int rank = 0; rank < ranks; ++rank) {
    Bytes table(period * element_);
    for (size_t i = 0; i < period; ++i) {
      const reference::Bits bits = element(
          dtype, op, ranks, order == SYMM_ORDER_ANY, mix(mix(static_cast<uint64_t>(rank)) + i));
      reference::store_bits(dtype, bits, &table[i * element_]);
    }
    tables_.push_back(std::move(table));
  }

  reduced_ = reduced_over(tables_.size(), order);
}

Pattern::Bytes Pattern::reduced_over(size_t ranks, symm_order_t order) const {
  Bytes table(period * element_);
  std::vector<reference::Bits> operands(ranks);
  for (size_t i = 0; i < period; ++i) {
    for (size_t rank = 0; rank < ranks; ++rank) {
      operands[rank] = reference::load_bits(dtype_, &tables_[rank][i * element_]);
    }
    reference::store_bits(
        dtype_, reference::reduce(dtype_, op_, operands, order), &table[i * element_]);
  }
  return table;
}

size_t Pattern::count_wrong_prefix(
    const std::byte* seen, int ranks, size_t first, size_t count, size_t every) const {
  const Bytes table = reduced_over(static_cast<size_t>(ranks), SYMM_ORDER_RANKS);
  return count_wrong_in(table, seen, first, count, every);
}

void Pattern::write_from(const Bytes& table, std::byte* out, size_t first, size_t count) const {
  for (size_t at = first % period; count > 0; at = 0) {
    const size_t run = std::min(count, period - at);
    std::memcpy(out, &table[at * element_], run * element_);
    out += run * element_;
    count -= run;
  }
}

size_t Pattern::count_wrong_in(
    const Bytes& table, const std::byte* seen, size_t first, size_t count, size_t every) const {
  size_t wrong = 0;
  if (every > 1) {
    for (size_t i = 0; i < count; i += every) {
      if (std::memcmp(seen + i * element_, &table[(first + i) % period * element_], element_) !=
          0) {
        ++wrong;
      }
    }
    return wrong;
  }

  for (size_t at = first % period; count > 0; at = 0) {
    const size_t run = std::min(count, period - at);
    if (std::memcmp(seen, &table[at * element_], run * element_) != 0) {
      for (size_t i = 0; i < run; ++i) {
        if (std::memcmp(seen + i * element_, &table[(at + i) * element_], element_) != 0) ++wrong;
      }
    }
    seen += run * element_;
    count -= run;
  }

  return wrong;
}

const OperationTraits* find_operation(const std::string& name) {
  const auto letters = [](std::string text) {
    std::erase(text, '_');
    return text;
  };
  for (const OperationTraits& traits : kOperations) {
    if (letters(name) == letters(traits.name)) return &traits;
  }
  return nullptr;
}

std::byte* Operands::send() const {
  const bool own_slice = in_place && traits->collective == SYMM_COLLECTIVE_ALLGATHER;
  return first + (own_slice ? static_cast<size_t>(rank) * count * element() : 0);
}

std::byte* Operands::recv() const {
  if (!in_place) return second;
  const bool own_slice = traits->collective == SYMM_COLLECTIVE_REDUCE_SCATTER;
  return first + (own_slice ? static_cast<size_t>(rank) * count * element() : 0);
}

void Operands::write_inputs(const Pattern& pattern, size_t shift) const {
  const size_t all = count * static_cast<size_t>(ranks);

  switch (traits->collective) {
    case SYMM_COLLECTIVE_ALLREDUCE:
    case SYMM_COLLECTIVE_REDUCE:
    case SYMM_COLLECTIVE_SCAN:
    case SYMM_COLLECTIVE_EXSCAN:
    case SYMM_COLLECTIVE_ALLGATHER: return pattern.write(send(), rank, shift, count);
    case SYMM_COLLECTIVE_REDUCE_SCATTER:
    case SYMM_COLLECTIVE_ALLTOALL: return pattern.write(send(), rank, shift, all);
    case SYMM_COLLECTIVE_BROADCAST:
      if (rank == root) pattern.write(send(), rank, shift, count);
      return;
    case kBarrier: return;
  }
}

symm_collective_call_t Operands::record() const {
  symm_collective_call_t call = SYMM_COLLECTIVE_CALL_INIT;
  call.collective = traits->collective;
  call.send = send();
  call.recv = recv();
  call.count = count;
  call.dtype = dtype;
  call.op = op;
  call.root = root;
  return call;
}

size_t Operands::count_wrong(const Pattern& pattern, size_t shift, size_t every) const {
  const size_t own = static_cast<size_t>(rank) * count;
  size_t wrong = 0;
  switch (traits->collective) {
    case SYMM_COLLECTIVE_ALLREDUCE: return pattern.count_wrong_reduced(recv(), shift, count, every);
    case SYMM_COLLECTIVE_REDUCE:
      return rank == root ? pattern.count_wrong_reduced(recv(), shift, count, every) : 0;
    case SYMM_COLLECTIVE_REDUCE_SCATTER:
      return pattern.count_wrong_reduced(recv(), shift + own, count, every);
    case SYMM_COLLECTIVE_SCAN:
      return pattern.count_wrong_prefix(recv(), rank + 1, shift, count, every);
    case SYMM_COLLECTIVE_EXSCAN:
      return pattern.count_wrong_prefix(recv(), rank, shift, count, every);
    case SYMM_COLLECTIVE_BROADCAST: return pattern.count_wrong(recv(), root, shift, count, every);
    case SYMM_COLLECTIVE_ALLGATHER:
    case SYMM_COLLECTIVE_ALLTOALL:
      for (int from = 0; from < ranks; ++from) {
        const std::byte* part = recv() + static_cast<size_t>(from) * count * element();
        wrong += pattern.count_wrong(part, from,
            shift + (traits->collective == SYMM_COLLECTIVE_ALLTOALL ? own : 0), count, every);
      }
      return wrong;
    case kBarrier: break;
  }

  return 0;
}
}  // namespace symm::tool
