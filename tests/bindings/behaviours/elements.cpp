// Verbs that write elements by a formula and expect them.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/bindings/behaviours/runner.hpp"
#include "tools/bench/reference.hpp"

namespace behaviours {
namespace reference = symm::reference;

namespace {
// The operation over f(r, i) of all ranks r, in exact integers. Of a pair, whose index follows from
// its value, the extreme one has the extreme value.
int64_t reduced(const Line& line, int32_t op, int64_t i) {
  if (op == SYMM_OP_MINLOC) op = SYMM_OP_MIN;
  if (op == SYMM_OP_MAXLOC) op = SYMM_OP_MAX;
  std::vector<reference::Bits> of_ranks;
  for (int r = 0; r < kRanks; ++r) {
    of_ranks.push_back(static_cast<uint64_t>(line.formula(r, i)));
  }
  return static_cast<int64_t>(reference::reduce(SYMM_DTYPE_I64, op, of_ranks));
}
}  // namespace

void write_elements(Runner& runner, const Line& line, const std::string& where) {
  const auto dtype = line.constant("dtype");
  const int64_t count = line.integer("count");
  std::byte* const begin = runner.address(line, where);
  std::byte* to = begin;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t value = line.formula(runner.rank, i);
    reference::store_bits(dtype, reference::encode_integer(dtype, value), to);
    to += reference::size_of(dtype);
  }
  if (!runner.is_far(line)) return;

  // The elements are in a copy of the far block: they are put where they belong.
  const auto [name, offset] = line.address("at");
  const auto bytes = static_cast<size_t>(to - begin);
  symm::check(
      symm_put(runner.memory(name).get(), rank(line), offset, begin, bytes, nullptr, nullptr),
      "symm_put");
}

void expect_elements(Runner& runner, const Line& line, const std::string& where) {
  // The block of a dead machine is gone.
  if (runner.is_far(line) && runner.group(line).status().status != SYMM_OK) return line.use_all();

  const auto dtype = constant("DTYPE", line.text("result", line.text("dtype")));
  const std::byte* at = runner.address(line, where);
  const int64_t count = line.integer("count");
  const int64_t shift = line.integer("shift", 0);
  const int64_t times = line.integer("times", 1);
  const int64_t from = line.integer("from", runner.rank);
  std::optional<int32_t> op;
  if (line.has("op")) op = line.constant("op");

  for (int64_t i = 0; i < count; ++i) {
    const int64_t one = op ? reduced(line, *op, i + shift) : line.formula(from, i + shift);
    const int64_t value = one * times;
    const reference::Bits expected = reference::encode_integer(dtype, value);
    const reference::Bits seen = reference::load_bits(dtype, at);
    if (seen != expected) {
      const auto text = [](reference::Bits bits) {
        const auto high = static_cast<uint64_t>(bits >> 64);
        return (high != 0 ? std::to_string(high) + ":" : "") +
               std::to_string(static_cast<uint64_t>(bits));
      };
      throw std::runtime_error("element " + std::to_string(i) + " has the bits " + text(seen) +
                               ", not " + text(expected) + ", which is " + std::to_string(value));
    }
    at += reference::size_of(dtype);
  }
}

const Verbs& verbs_of_elements() {
  static const Verbs verbs = {
      {"expect", [](Runner& runner, const Line& line) { expect_elements(runner, line, "at"); }},
      {"write", [](Runner& runner, const Line& line) { write_elements(runner, line, "at"); }},
  };
  return verbs;
}
}  // namespace behaviours
