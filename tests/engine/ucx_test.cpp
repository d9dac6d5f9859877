// Over the UCX of this machine, if it has one, on loopback.
#include "tests/engine/engine_support.hpp"

namespace {
using namespace support;

struct Ucx : testing::Test {
  void SetUp() override {
    try {
      for (auto& end : ends) end.emplace(open_ucx);
    } catch (const symm::Error& error) { GTEST_SKIP() << error.what(); }
  }
  std::array<std::optional<Served>, 2> ends;
};

TEST_F(Ucx, MessagesAndAnswersOfAllSizesArriveWholeAndInOrder) {
  constexpr size_t kMost = 5U << 20;
  End one(*ends[0], 7, 0, 2, 2 * kMost), two(*ends[1], 7, 1, 2, kMost);
  one.post->connect(1, ends[1]->courier->address());
  size_t rounds = 0;
  for (const size_t bytes : {size_t{1}, size_t{100}, size_t{4096}, size_t{70'000}, size_t{1} << 20, kMost}) {
    std::vector<std::byte> payload(bytes);
    for (size_t i = 0; i < bytes; ++i) payload[i] = static_cast<std::byte>(i * 131 + i / 4096 + bytes);
    one.send(1, {.kind = 1}, payload);
    one.send(1, {.kind = 2, .value = kMost, .call = bytes});
    ASSERT_TRUE(two.await(2 * ++rounds)) << bytes;
    if (rounds == 1) two.post->connect(0, ends[0]->courier->address());  // the first answer waits for that
    ASSERT_TRUE(one.await(rounds)) << bytes;
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), one.memory.begin() + kMost)) << bytes;
  }
  for (size_t i = 0; i < two.heads.size(); ++i) EXPECT_EQ(two.heads[i].sequence, i);
  EXPECT_TRUE(one.losses.empty() && two.losses.empty());
}
}  // namespace
