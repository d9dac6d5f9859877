#include "tests/engine/loop_link.hpp"

namespace {
using namespace support;

constexpr size_t kBytes = 4096;  // of a message at most
constexpr int kRanks = 3;

// Three processes with a rank of a group each.
struct Three {
  explicit Three(uint64_t seed) : net(seed) {
    for (int rank = 0; rank < kRanks; ++rank) {
      served.emplace_back(std::make_unique<Served>([&](Sink& sink) { return std::make_unique<LoopLink>(net, sink); }));
      ends.emplace_back(std::make_unique<End>(*served.back(), seed, rank, kRanks));
    }
    for (auto& end : ends) {
      for (int to = 0; to < kRanks; ++to) end->post->connect(to, served[static_cast<size_t>(to)]->courier->address());
    }
  }
  LoopNet net;
  std::vector<std::unique_ptr<Served>> served;
  std::vector<std::unique_ptr<End>> ends;
};

std::byte byte_of(uint64_t value, size_t at) { return static_cast<std::byte>(value * 31 + at); }

TEST(Courier, WhatOvertakesIsHeldBackAndAllArrivesWhole) {
  constexpr size_t kMessages = 24;  // to each rank, of which a third asks for an answer
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Three three(seed);
    as_threads(kRanks, [&](int rank) {
      End& end = *three.ends[static_cast<size_t>(rank)];
      for (size_t i = 0; i < kMessages; ++i) {
        for (int to = 0; to < kRanks; ++to) {
          const auto payload = std::make_shared<std::vector<std::byte>>((i * 997 + seed) % kBytes);
          for (size_t at = 0; at < payload->size(); ++at) (*payload)[at] = byte_of(i, at);
          const size_t place = (static_cast<size_t>(rank) * kMessages + i) * kBytes;
          const Head head{.kind = 1, .memory = i, .offset = place};
          if (i % 2 == 0) end.send(to, head, *payload);
          else end.post->dispatch(to, head, *payload, payload);
          if (i % 3 == 0)
            end.send(to, {.kind = 2,
                             .offset = place,
                             .value = (1U << 19) + (static_cast<size_t>(to) * kMessages + i) * kBytes / 2,
                             .call = kBytes / 2});
        }
      }
      EXPECT_TRUE(end.await(kRanks * kMessages * 5 / 3)) << seed;
    });
    for (auto& end : three.ends) {
      EXPECT_TRUE(end->losses.empty()) << end->losses[0];
      uint64_t next[kRanks] = {};
      for (const Head& head : end->heads) {
        EXPECT_EQ(head.sequence, next[head.source]++) << seed;
        for (size_t at = 0; head.kind == 1 && at < head.bytes; ++at)
          ASSERT_EQ(end->memory[head.offset + at], byte_of(head.memory, at));
      }
    }
  }
}

TEST(Courier, LeavesWhatComesToThoseWhoPollUntilTheySleep) {
  Three three(1);
  End& end = *three.ends[1];
  const auto count = [&] {
    const std::lock_guard lock(end.mutex);
    return end.heads.size();
  };
  end.post->polls(symm::Polling::begins);
  three.served[1]->courier->address();  // what it began before is over
  three.ends[0]->send(1, {.kind = 1});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(count(), 0U);
  end.post->polls(symm::Polling::ends);
  end.post->polls(symm::Polling::sleeps);
  EXPECT_TRUE(eventually([&] { return count() == 1; }));
}

TEST(Courier, ACutLetsWhatIsUnderWayEndIfItTakesNotLong) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {  // every other message is fetched
    Three three(seed);
    const auto payload = std::make_shared<std::vector<std::byte>>(kBytes);
    three.net.stalled = true;
    three.ends[1]->post->dispatch(0, {.kind = 1}, *payload, payload);
    std::thread soon([&] { three.net.stalled = usleep(5'000) != 0; });
    three.ends[1]->post->cut(0);
    soon.join();
    ASSERT_TRUE(three.ends[0]->await(1)) << seed;
  }
}

TEST(Courier, NothingIsTouchedAfterACutAndNobodyHangsWhenLinesBreak) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Three three(seed);
    as_threads(kRanks, [&](int rank) {
      End& end = *three.ends[static_cast<size_t>(rank)];
      const std::vector<std::byte> payload(kBytes, std::byte{7});
      try {
        for (size_t i = 0; i < 40; ++i) {
          if (rank == 0 && i == seed) end.post->cut(1);
          if (rank == 0 && i == seed) std::fill_n(end.memory.begin() + kBytes, kBytes, std::byte{1});
          if (rank == 2 && i == 2 * seed) dynamic_cast<LoopLink*>(three.net.links[2])->break_with(1);
          for (int to = 0; to < kRanks; ++to) end.send(to, {.kind = 1, .offset = static_cast<uint64_t>(rank) * kBytes}, payload);
        }
      } catch (const symm::Error& error) { EXPECT_EQ(error.status(), symm::Status::peer_failed) << error.what(); }
    });
    EXPECT_EQ(
        std::count(three.ends[0]->memory.begin() + kBytes, three.ends[0]->memory.begin() + 2 * kBytes, std::byte{1}), kBytes);
    EXPECT_TRUE(three.ends[0]->losses.empty());
    EXPECT_TRUE(three.ends[2]->await(0, 1));
  }
}
}  // namespace
