// The arithmetic on every instruction set that this processor has.
#include "tests/kernels/simds.hpp"
#include "tests/kernels/values.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace symm::host { namespace {
using testing::Values;

class Arithmetic : public SimdTest, public ::testing::WithParamInterface<Simd> {
  void SetUp() override { require(GetParam()); }
};

// The operands of some ranks.
struct Inputs {
  Inputs(DType type, Op operation, unsigned seed, size_t sources, size_t elements) : dtype(type), op(operation), count(elements) {
    Values values(dtype, op, seed);
    for (size_t s = 0; s < sources; ++s) data.push_back(values.make(count));
  }
  std::vector<const std::byte*> pointers() const {
    std::vector<const std::byte*> from;
    for (const auto& input : data) from.push_back(input.data());
    return from;
  }
  std::vector<std::byte> expected() const {
    return reference::combined(
        dtype, data, 0, count, dtype, [&](const auto& bits) { return reference::reduce(dtype, op, bits); });
  }

  DType dtype;
  Op op;
  size_t count;
  std::vector<std::vector<std::byte>> data;
};

// Sources at odd addresses, one to three destinations of which one may be a source.
void compare(DType dtype, Op op, size_t sources, size_t count, unsigned turn) {
  const size_t element = size_of(dtype);
  const size_t bytes = count * element;
  const Inputs inputs(dtype, op, turn, sources, count);
  const auto right = inputs.expected();

  const size_t offset = turn % 5 == 0 ? 8 : 0;
  std::vector<std::vector<std::byte>> memory;
  std::vector<const std::byte*> from;
  for (size_t s = 0; s < sources; ++s) {
    const size_t shift = turn % 2 == 0 ? 0 : s + turn % 7;
    memory.emplace_back(bytes + shift + offset);
    std::memcpy(memory.back().data() + shift + offset, inputs.data[s].data(), bytes);
    from.push_back(memory.back().data() + shift);
  }
  constexpr std::byte kGuard{0xEE};
  const size_t destinations = 1 + turn % 3;
  std::vector<std::vector<std::byte>> results(destinations, std::vector<std::byte>(bytes + 128, kGuard));
  std::vector<std::byte*> to;
  for (size_t d = 0; d < destinations; ++d) to.push_back(results[d].data() + 64 - (turn + d) % 9);
  if (turn % 4 == 0) to.back() = memory[turn % sources].data() + (from[turn % sources] - memory[turn % sources].data()) + offset;

  Reduction r = reduction(dtype, op, count, from, to.data());
  r.source_offset = offset;
  r.destination_count = static_cast<int>(destinations);
  r.nontemporal = turn % 3 == 0;
  reduce(r);
  for (size_t d = 0; d < destinations; ++d) {
    ASSERT_EQ(reference::difference(dtype, to[d], right.data(), count), "")
        << name_of(dtype) << ' ' << name_of(op) << " of " << sources << " x " << count;
    const size_t begin = 64 - (turn + d) % 9;
    if (to[d] != results[d].data() + begin) continue;
    for (size_t i = 0; i < results[d].size(); ++i)
      if (i < begin || i >= begin + bytes) { ASSERT_EQ(results[d][i], kGuard) << "wrote beside a destination"; }
  }
}

TEST_P(Arithmetic, EveryTypeOperationAndCount) {
  unsigned turn = 0;
  for (const DType dtype : reference::kDTypes)
    for (const Op op : reference::kOps)
      for (const size_t sources : {1U, 2U, 3U, 4U, 8U, 11U})
        for (const size_t count : {1U, 2U, 3U, 5U, 8U, 15U, 16U, 17U, 31U, 33U, 63U, 64U, 65U, 127U, 257U, 5003U}) {
          if (count > 1000 && sources > 3) continue;  // the reference takes its time
          compare(dtype, op, sources, count, turn++);
          if (HasFatalFailure()) return;
        }
}

// One rank begins, others go on, the last rounds: as between machines.
TEST_P(Arithmetic, ChainOfPartialResults) {
  for (const DType dtype : reference::kDTypes)
    for (const Op op : reference::kOps)
      for (const size_t count : {1U, 9U, 64U, 77U}) {
        const Inputs inputs(dtype, op, static_cast<unsigned>(count), 7, count);
        const auto from = inputs.pointers();
        std::vector<std::byte> first(count * size_of_partial(dtype)), second(first.size()), result(count * size_of(dtype));
        std::byte* to = result.data();
        Reduction r = reduction(dtype, op, count, from, nullptr);
        r.source_count = 3;
        r.partial_out = first.data();
        reduce(r);
        r.sources = from.data() + 3;
        r.source_count = 2;
        r.partial_in = first.data();
        r.partial_out = second.data();
        reduce(r);
        r.sources = from.data() + 5;
        r.partial_in = second.data();
        r.partial_out = nullptr;
        r.destinations = &to;
        r.destination_count = 1;
        reduce(r);
        ASSERT_EQ(reference::difference(dtype, to, inputs.expected().data(), count), "") << name_of(dtype) << ' ' << name_of(op);
      }
}

// A number of ranks that the type itself cannot hold.
TEST_P(Arithmetic, AverageOverManyRanks) {
  for (const DType dtype : reference::kDTypes) {
    const size_t count = 21;
    const Inputs inputs(dtype, Op::avg, 5, 300, count);
    const auto from = inputs.pointers();
    std::vector<std::byte> result(count * size_of(dtype));
    std::byte* to = result.data();
    reduce(reduction(dtype, Op::avg, count, from, &to));
    EXPECT_EQ(reference::difference(dtype, to, inputs.expected().data(), count), "") << name_of(dtype);
  }
}

#if defined(__x86_64__)
TEST_P(Arithmetic, CallersFloatingPointEnvironmentDoesNotMatter) {
  const unsigned before = _mm_getcsr();
  const float tiny = 1e-40F, odd = 1.0F, little = 1e-10F;
  const float a[] = {tiny, odd}, b[] = {tiny, little};
  float with[2] = {}, without[2] = {};
  const std::vector<const std::byte*> from{reinterpret_cast<const std::byte*>(a), reinterpret_cast<const std::byte*>(b)};
  std::byte* to = reinterpret_cast<std::byte*>(without);
  const Reduction r = reduction(DType::f32, Op::sum, 2, from, &to);
  reduce(r);
  _mm_setcsr((before & ~0x6000U) | 0x8040U | 0x4000U);  // flush, denormals are zero, round up
  const unsigned strange = _mm_getcsr();
  to = reinterpret_cast<std::byte*>(with);
  reduce(r);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(after, strange);
  EXPECT_EQ(std::memcmp(with, without, sizeof with), 0);
  EXPECT_NE(without[0], 0.0F);
}
#endif

TEST_P(Arithmetic, CopiesAnySizeAndAlignment) {
  std::vector<std::byte> from(9000), to(9200);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 131 + i / 256);
  for (const bool nontemporal : {false, true})
    for (const size_t bytes : {0U, 1U, 63U, 64U, 65U, 1023U, 1024U, 1025U, 4096U, 8191U})
      for (const size_t shift : {0U, 1U, 31U, 64U}) {
        std::fill(to.begin(), to.end(), std::byte{0});
        copy(to.data() + shift, from.data() + shift / 2, bytes, nontemporal);
        ASSERT_EQ(std::memcmp(to.data() + shift, from.data() + shift / 2, bytes), 0) << bytes << " bytes, shift " << shift;
        for (size_t i = 0; i < to.size(); ++i)
          if (i < shift || i >= shift + bytes) { ASSERT_EQ(to[i], std::byte{0}) << bytes << " bytes, shift " << shift; }
      }
}

INSTANTIATE_TEST_SUITE_P(Simd, Arithmetic, ::testing::ValuesIn(kSimds), [](const auto& test) { return name_of(test.param); });

TEST(Simd, TheBestIsUsedAndTheScalarAlwaysThere) {
  EXPECT_TRUE(is_supported(Simd::scalar));
  EXPECT_TRUE(is_supported(current_simd()));
#if defined(__x86_64__)
  EXPECT_FALSE(use_simd(Simd::neon));
  if (is_supported(Simd::avx2)) { EXPECT_GE(current_simd(), Simd::avx2); }
#endif
}
}}  // namespace symm::host
