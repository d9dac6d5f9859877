// Sums with a quantised wire on GPUs: the bits of the reference, in every collective that has a
// wire, eagerly and in graphs, in either order, and in parts where scratch does not hold all codes.
#include <array>
#include <cmath>
#include <cstring>

#include "tests/gpu/world.hpp"
#include "tests/support/options.hpp"
#include "tests/support/wire_reference.hpp"

namespace {
constexpr std::array kOperands = {SYMM_DTYPE_F32, SYMM_DTYPE_F16, SYMM_DTYPE_BF16};
constexpr std::array kWires = {SYMM_DTYPE_F8E4M3, SYMM_DTYPE_F8E5M2, SYMM_DTYPE_I8};

uint64_t bits_of(symm_dtype_t dtype, float x) {
  return dtype == SYMM_DTYPE_F32 ? symm::reference::to_bits(x) : symm::reference::encode(dtype, x);
}

std::vector<float> numbers_of(symm_dtype_t dtype, int rank, size_t count) {
  std::vector<float> all(count);
  for (size_t i = 0; i < count; ++i) {
    const auto random =
        static_cast<uint32_t>((i + 7919 * static_cast<size_t>(rank)) * 2'654'435'761U);
    const float x =
        std::ldexp(static_cast<float>(random >> 12) - 0x1p19F, static_cast<int>(random % 9) - 24);
    all[i] = dtype == SYMM_DTYPE_F32
                 ? x
                 : symm::reference::decode(dtype, symm::reference::encode(dtype, x));
  }
  return all;
}

std::vector<char> in_memory(symm_dtype_t dtype, const std::vector<float>& numbers) {
  const size_t element = symm::reference::size_of(dtype);
  std::vector<char> bytes(numbers.size() * element);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const uint64_t bits = bits_of(dtype, numbers[i]);
    std::memcpy(&bytes[i * element], &bits, element);
  }
  return bytes;
}

// Sums of blocks of `count` elements: block `block` of the operands of all ranks.
std::vector<char> right_sums(const support::WireCase& c,
    const std::vector<std::vector<float>>& operands, size_t count, size_t block) {
  std::vector<std::vector<float>> parts;
  for (const std::vector<float>& operand : operands) {
    const auto from = operand.begin() + static_cast<std::ptrdiff_t>(block * count);
    parts.emplace_back(from, from + static_cast<std::ptrdiff_t>(count));
  }
  return in_memory(c.dtype, support::sums_by_wire(c, parts));
}

void compare(gpu::Rank& rank, std::barrier<>& together, const support::WireCase& c, size_t count) {
  const auto n = static_cast<size_t>(rank.size);
  std::vector<std::vector<float>> operands;
  for (int r = 0; r < rank.size; ++r) {
    operands.push_back(numbers_of(c.dtype, r, count * n));
  }
  char* const send = rank.block;
  char* const recv = rank.ordinary;
  const auto me = static_cast<size_t>(rank.rank);
  rank.upload(send, in_memory(c.dtype, operands[me]));
  const auto options = [&](symm_algorithm_t algorithm) {
    return support::wired(
        c.wire, c.group, algorithm, c.in_tree ? SYMM_ORDER_TREE : SYMM_ORDER_RANKS);
  };
  const size_t bytes = count * symm::reference::size_of(c.dtype);
  const std::string what = "dtype " + std::to_string(c.dtype) + ", wire " + std::to_string(c.wire) +
                           " by " + std::to_string(c.group) + ", count " + std::to_string(count);

  const std::vector<char> whole = right_sums(c, operands, count, 0);
  for (const symm_algorithm_t algorithm :
      {SYMM_ALGORITHM_AUTO, SYMM_ALGORITHM_ONE_SHOT, SYMM_ALGORITHM_TWO_SHOT}) {
    rank.settle(together);
    gpu::symm(symm_allreduce(
                  rank.group, send, recv, count, c.dtype, c.op, options(algorithm), rank.stream),
        "allreduce");
    rank.settle(together);
    gpu::expect(rank.download<char>(recv, bytes) == whole, gpu::who(rank, "allreduce, " + what));
  }

  symm_status_t status = SYMM_OK;
  const gpu::Graph graph(rank, [&] {
    status = symm_reduce_scatter(
        rank.group, send, recv, count, c.dtype, c.op, options(SYMM_ALGORITHM_AUTO), rank.stream);
  });
  gpu::symm(status, "reduce_scatter in a graph");
  const std::vector<char> mine = right_sums(c, operands, count, me);
  for (int replay = 0; replay < 2; ++replay) {
    rank.settle(together);
    graph.replay();
    rank.settle(together);
    gpu::expect(
        rank.download<char>(recv, bytes) == mine, gpu::who(rank, "reduce_scatter, " + what));
  }
}

TEST(Wire, HasTheBitsOfTheReference) {
  const int size = gpu::machine().ranks;
  if (const std::string why = gpu::too_many_ranks_a_device(); !why.empty()) GTEST_SKIP() << why;
  gpu::run_ranks(size, [&](gpu::Rank& rank, std::barrier<>& together) {
    for (const symm_dtype_t dtype : kOperands) {
      for (const symm_dtype_t wire : kWires) {
        for (const int32_t group : {32, 128}) {
          const symm_op_t op = group == 32 ? SYMM_OP_SUM : SYMM_OP_AVG;
          compare(rank, together, {dtype, wire, group, op, size > 3 && group == 32}, 1'001);
          compare(rank, together, {dtype, wire, group, op, false}, 20'000);
        }
      }
    }
    // More than scratch holds at a time in a reduce-scatter.
    if (size == 4) {
      compare(rank, together, {SYMM_DTYPE_BF16, SYMM_DTYPE_I8, 128, SYMM_OP_SUM, false}, 1'100'003);
    }
  });
}
}  // namespace
