// Calls in chunks: a thread that looks at the words finds, behind each word that has come, every
// byte of its chunk, in the order that symm.h promises; and a reduction takes no chunk before its
// word has come, and gives the bits of the call in one piece.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "symm/symm.h"
#include "tests/ranks/failure.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/sanitizers.hpp"

namespace support {
namespace {
uint32_t look(const uint32_t& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }
void say(uint32_t& word, uint32_t value) { __atomic_store_n(&word, value, __ATOMIC_RELEASE); }

bool has_come(const uint32_t& word, uint32_t value) {
  return static_cast<int32_t>(look(word) - value) >= 0;
}

std::byte byte_of(int rank, uint32_t value, size_t i) {
  const uint64_t mixed = (i * 0x9E3779B97F4A7C15U + value * 0xD6E8FEB86659FD93U) >> 31;
  return static_cast<std::byte>(mixed + static_cast<uint64_t>(rank) * 37);
}

// Pauses of no time, of some microseconds, or of milliseconds.
class Pauses {
 public:
  explicit Pauses(uint64_t seed) : random_(seed) {}
  void pause() {
    const uint64_t drawn = random_();
    if (drawn % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(drawn / 4 % 2000));
    if (drawn % 4 == 1) std::this_thread::yield();
  }

 private:
  std::mt19937_64 random_;
};

// The bytes of a chunk, those of a block, and the memory of the operands.
struct Shape {
  size_t chunk;
  size_t block;
  bool is_symmetric;
  bool in_place;

  size_t chunks() const { return block == 0 ? 0 : (block - 1) / chunk + 1; }
};

constexpr Shape kShapes[] = {{16, 16, false, false}, {16, 250, true, false}, {64, 64, true, true},
    {4096, 10'000, false, true}, {4096, 10'001, true, true}, {1 << 16, 300'000, false, false},
    {1 << 16, 300'000, true, false}, {1 << 20, 100, false, false}, {16, 0, true, false}};

// Waits for the words of one call in their order, and compares what is behind each. `words` and
// `recv` are those of rank `rank`.
void consume(const std::vector<uint32_t>& words, const std::byte* recv, int rank, int ranks,
    const Shape& shape, uint32_t value) {
  const size_t chunks = shape.chunks();
  Pauses pauses(value * 31 + static_cast<uint64_t>(rank));
  for (int step = 0; step < ranks; ++step) {
    const auto peer = static_cast<size_t>((rank + step) % ranks);
    for (size_t c = 0; c < chunks; ++c) {
      const uint32_t& word = words[peer * chunks + c];
      while (!has_come(word, value)) {
        if (testing::Test::HasFailure()) return;
        std::this_thread::yield();
      }
      pauses.pause();
      for (size_t i = c * shape.chunk; i < std::min((c + 1) * shape.chunk, shape.block); ++i) {
        ASSERT_EQ(recv[peer * shape.block + i], byte_of(static_cast<int>(peer), value, i))
            << "byte " << i << " of rank " << peer << " on rank " << rank << ", call " << value;
      }
    }
  }
}

// A word that has come says that all before it have: a thread that looks at the last one first
// never finds an earlier one missing.
void watch_order(
    const std::vector<uint32_t>& words, int rank, int ranks, size_t chunks, uint32_t value) {
  bool is_done = chunks == 0;
  while (!is_done && !testing::Test::HasFailure()) {
    bool later_came = false;
    is_done = true;
    for (int step = ranks - 1; step >= 0; --step) {
      for (size_t c = chunks; c-- > 0;) {
        const bool came =
            has_come(words[static_cast<size_t>((rank + step) % ranks) * chunks + c], value);
        ASSERT_TRUE(came || !later_came) << "chunk " << c << " of step " << step;
        later_came = came;
        is_done = is_done && came;
      }
    }
    std::this_thread::yield();
  }
}

void gather(const Group& group, const Shape& shape, uint32_t first_value) {
  const int rank = group.rank();
  const int ranks = group.size();
  const auto mine = static_cast<size_t>(rank);
  const size_t all = shape.block * static_cast<size_t>(ranks);
  const Block memory = allocate(group, std::max<size_t>(16, all + shape.block));
  std::vector<std::byte> own(all + shape.block);
  std::byte* const recv = shape.is_symmetric ? memory.at<std::byte>(rank) : own.data();
  std::byte* const send = shape.in_place ? recv + mine * shape.block : recv + all;
  std::vector<uint32_t> words(static_cast<size_t>(ranks) * shape.chunks(), first_value - 1);

  Pauses pauses(first_value + mine);
  for (uint32_t round = 0; round < 4; ++round) {
    const uint32_t value = first_value + round;
    std::memset(recv, 0x5A, all);
    for (size_t i = 0; i < shape.block; ++i) {
      send[i] = byte_of(rank, value, i);
    }
    std::thread consumer([&] { consume(words, recv, rank, ranks, shape, value); });
    std::thread watcher([&] { watch_order(words, rank, ranks, shape.chunks(), value); });
    pauses.pause();
    auto options = in_chunks(shape.chunk, value);
    options.value.progress = words.data();
    const symm_status_t status =
        symm_allgather(group.get(), send, recv, shape.block, SYMM_DTYPE_U8, options, nullptr);
    EXPECT_EQ(status, SYMM_OK) << symm_last_error();
    consumer.join();
    watcher.join();
    EXPECT_TRUE(std::all_of(
        words.begin(), words.end(), [&](const uint32_t& word) { return word == value; }));
  }
}

TEST(Chunks, AreThereWhenTheirWordsAre) {
  for (const int ranks : {1, 2, 3, 5}) {
    as_threads(ranks, [](int, const Group& group) {
      // Values wrap.
      uint32_t value = UINT32_MAX - 9;
      for (const Shape& shape : kShapes) {
        gather(group, shape, value);
        value += 4;
      }
    });
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Chunks, AreThereWhenTheirWordsAreInProcesses) {
  as_processes(3, [](int, const Group& group) {
    gather(group, kShapes[3], 1);
    gather(group, kShapes[6], 5);
  });
}

TEST(Chunks, GoBetweenMachines) {
  SYMM_NOT_UNDER_TSAN("it cannot start threads in the child of a process with threads");
  for (const char* layout : {"AB", "AABB"}) {
    expect_on_machines(layout, [](int, const Group& group) {
      gather(group, kShapes[5], 1);
      gather(group, kShapes[4], 5);
    });
    if (testing::Test::HasFailure()) return;
  }
}

// This rank's own chunks do not wait for anybody.
TEST(Chunks, OfTheOwnPartComeBeforeOtherRanksDo) {
  as_threads(2, [](int rank, const Group& group) {
    static std::atomic<bool> own_has_come{false};
    own_has_come = false;
    group.barrier();
    std::vector<uint32_t> words(4, 0);
    const std::vector<float> send(8, static_cast<float>(rank));
    std::vector<float> recv(16);
    auto options = in_chunks(16, 1);
    options.value.progress = words.data();
    std::thread watcher([&] {
      while (rank == 0 && (!has_come(words[0], 1) || !has_come(words[1], 1))) {
        std::this_thread::yield();
      }
      if (rank == 0) own_has_come = true;
    });
    while (rank == 1 && !own_has_come) {
      std::this_thread::yield();
    }
    check(
        symm_allgather(group.get(), send.data(), recv.data(), 8, SYMM_DTYPE_F32, options, nullptr));
    watcher.join();
    EXPECT_EQ(recv[15], 1);
  });
}

// A rank without words takes part, and the value can be read when the call runs.
TEST(Chunks, NeedNoWordsOnEveryRank) {
  as_threads(3, [](int rank, const Group& group) {
    const std::vector<int32_t> send(100, rank);
    std::vector<int32_t> recv(300);
    std::vector<uint32_t> words(3 * 7, 0);
    const uint32_t value = 41;
    auto options = in_chunks(64, 0);
    if (rank == 1) options.value.progress = words.data();
    options.value.word_pointer = &value;
    check(symm_allgather(
        group.get(), send.data(), recv.data(), 100, SYMM_DTYPE_I32, options, nullptr));
    EXPECT_EQ(recv[299], 2);
    EXPECT_EQ(words, std::vector<uint32_t>(21, rank == 1 ? 41 : 0));
  });
}

// ---- reductions

std::vector<float> numbers(size_t count, int rank, uint32_t value) {
  std::vector<float> all(count);
  for (size_t i = 0; i < count; ++i) {
    all[i] = static_cast<float>(static_cast<int>(byte_of(rank, value, i)) - 128) * 1.0009765F;
  }
  return all;
}

// A thread writes the chunks of send, one after the other, with pauses. Before that they are such
// that a sum which takes one of them too early shows it.
void reduce(const Group& group, bool scatters, const Shape& shape, uint32_t first_value) {
  const int rank = group.rank();
  const auto ranks = static_cast<size_t>(group.size());
  const size_t count = shape.block / sizeof(float);
  const size_t blocks = scatters ? ranks : 1;
  const size_t chunk = shape.chunk / sizeof(float);
  const size_t chunks = count == 0 ? 0 : (count - 1) / chunk + 1;
  const Block memory = allocate(group, (blocks + 1) * shape.block + 16);
  std::vector<float> own((blocks + 1) * count + 1);
  float* const send = shape.is_symmetric ? memory.at<float>(rank) : own.data();
  const size_t own_block = scatters ? static_cast<size_t>(rank) * count : 0;
  float* const recv = shape.in_place ? send + own_block : send + blocks * count;
  std::vector<uint32_t> words(blocks * chunks, first_value - 1);
  const auto run = scatters ? symm_reduce_scatter : symm_allreduce;

  for (uint32_t value = first_value; value < first_value + 3; ++value) {
    const std::vector<float> operand = numbers(blocks * count, rank, value);
    std::vector<float> right(count + 1);
    check(run(group.get(), operand.data(), right.data(), count, SYMM_DTYPE_F32, SYMM_OP_AVG,
        nullptr, nullptr));
    std::fill_n(send, (blocks + 1) * count, 1e30F);

    std::thread producer([&] {
      Pauses pauses(value * 7 + static_cast<uint64_t>(rank));
      for (size_t c = 0; c < chunks; ++c) {
        for (size_t block = 0; block < blocks; ++block) {
          pauses.pause();
          const size_t begin = block * count + c * chunk;
          const size_t end = block * count + std::min(count, (c + 1) * chunk);
          std::copy(&operand[0] + begin, &operand[0] + end, send + begin);
          say(words[block * chunks + c], value);
        }
      }
    });
    auto options = in_chunks(shape.chunk, value);
    options.value.ready = words.data();
    const symm_status_t status =
        run(group.get(), send, recv, count, SYMM_DTYPE_F32, SYMM_OP_AVG, options, nullptr);
    producer.join();
    ASSERT_EQ(status, SYMM_OK) << symm_last_error();
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(std::memcmp(&recv[i], &right[i], sizeof(float)), 0)
          << (scatters ? "reduce_scatter" : "allreduce") << ", call " << value << ", element " << i
          << " of " << count << " is " << recv[i] << ", not " << right[i] << ", rank " << rank
          << " of " << ranks;
    }
  }
}

TEST(Chunks, AreTakenWhenTheyAreReady) {
  for (const int ranks : {1, 2, 3, 5}) {
    as_threads(ranks, [](int, const Group& group) {
      for (const bool scatters : {false, true}) {
        for (const Shape& shape : kShapes) {
          reduce(group, scatters, shape, 1);
        }
      }
    });
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Chunks, AreTakenWhenTheyAreReadyBetweenMachines) {
  SYMM_NOT_UNDER_TSAN("it cannot start threads in the child of a process with threads");
  for (const char* layout : {"AB", "AABB"}) {
    expect_on_machines(layout, [](int, const Group& group) {
      reduce(group, false, kShapes[5], 1);
      reduce(group, true, kShapes[4], 1);
    });
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Chunks, HaveTheBitsOfOnePieceByEveryAlgorithm) {
  as_threads(8, [](int rank, const Group& group) {
    const std::vector<float> send = numbers(5'000, rank, 1);
    std::vector<float> right(send.size());
    check(allreduce(group, send.data(), right.data(), send.size()));
    for (const symm_algorithm_t algorithm : {SYMM_ALGORITHM_ONE_SHOT,
             SYMM_ALGORITHM_TWO_SHOT_STAGED, SYMM_ALGORITHM_HYBRID_CUBE_MESH}) {
      std::vector<float> recv(send.size());
      auto options = in_chunks(4096, 0);
      options.value.algorithm = algorithm;
      check(symm_allreduce(group.get(), send.data(), recv.data(), send.size(), SYMM_DTYPE_F32,
          SYMM_OP_SUM, options, nullptr));
      EXPECT_EQ(std::memcmp(recv.data(), right.data(), send.size() * sizeof(float)), 0);
    }
  });
}

// ---- failures

TEST(Chunks, ThatAreNeverReadyEndAtTheDeadlineOfTheCall) {
  as_threads(3, [](int rank, const Group& group) {
    const std::vector<float> send(64, 1);
    std::vector<float> recv(send.size());
    std::vector<uint32_t> words(4, 7);
    if (rank == 1) words[2] = 6;
    auto options = in_chunks(64, 7);
    options.value.ready = words.data();
    if (rank == 1) options.value.timeout_ms = 200;
    const int64_t began = now_ns();
    const symm_status_t status = symm_allreduce(group.get(), send.data(), recv.data(), send.size(),
        SYMM_DTYPE_F32, SYMM_OP_SUM, options, nullptr);
    expect_failed(status, SYMM_ERR_TIMEOUT, {"options.ready[2] of rank 1 was 6", "reached 7"});
    EXPECT_EQ(last_failure().rank, 1);
    EXPECT_GE(now_ns() - began, int64_t{150} * 1'000'000);
    EXPECT_LT(now_ns() - began, int64_t{10'000} * 1'000'000) << "not the deadline of rank 1";
    EXPECT_EQ(recv[0], 3) << "a chunk that was ready was not made";
  });
}

TEST(Chunks, ThatAreAwaitedEndWhenARankDies) {
  const auto body = [](Member& member) {
    std::vector<uint32_t> words(4, 0);
    const std::vector<float> send(64, 1);
    std::vector<float> recv(send.size());
    if (member.rank == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      raise(SIGKILL);
    }
    auto options = in_chunks(64, 1);
    options.value.ready = words.data();
    const int64_t began = now_ns();
    member.expect_blame(symm_allreduce(member.group.get(), send.data(), recv.data(), send.size(),
                            SYMM_DTYPE_F32, SYMM_OP_SUM, options, nullptr),
        SYMM_ERR_PEER_FAILED, 2);
    EXPECT_LT(now_ns() - began, int64_t{10'000} * 1'000'000) << "half the deadline went by";
  };
  as_members(kRanks, body, {.die = {2}});
}

// ---- other ways to call

TEST(Chunks, AreInThePlanInABatchAndInARequest) {
  as_threads(2, [](int rank, const Group& group) {
    std::vector<float> send(1000, static_cast<float>(rank + 1));
    std::vector<float> recv(1000);
    std::vector<float> parts(2000);
    std::vector<uint32_t> progress(2 * 4, 0);
    std::vector<uint32_t> ready(4, 1);
    const auto sum =
        call_of(SYMM_COLLECTIVE_ALLREDUCE, send.data(), recv.data(), 1000, SYMM_DTYPE_F32);
    auto when_ready = in_chunks(1024, 1);
    when_ready.value.ready = ready.data();
    symm_plan_info_t plan{};
    check(plan_of(group.get(), sum, when_ready, plan));
    EXPECT_NE(std::string(plan.reason).find("4 chunks of 1024 bytes"), std::string::npos)
        << plan.reason;

    auto telling = in_chunks(1024, 9);
    telling.value.progress = progress.data();
    std::vector<symm_collective_call_t> calls{sum.value,
        call_of(SYMM_COLLECTIVE_ALLGATHER, send.data(), parts.data(), 1000, SYMM_DTYPE_F32).value};
    calls[0].options = when_ready;
    calls[1].options = telling;
    check(symm_batch(group.get(), calls.data(), calls.size(), nullptr, nullptr));
    EXPECT_EQ(recv, std::vector<float>(1000, 3));
    EXPECT_EQ(parts[1999], 2);
    EXPECT_EQ(progress, std::vector<uint32_t>(8, 9));

    calls[1].recv = progress.data();
    calls[1].count = 4;
    expect_failed(symm_batch(group.get(), calls.data(), calls.size(), nullptr, nullptr),
        SYMM_ERR_INVALID_ARGUMENT, {"overlaps"});

    // A request waits for its chunks while the caller does something else.
    say(ready[3], 0);
    symm_request_t* request = nullptr;
    when_ready.value.request = &request;
    check(symm_allreduce(group.get(), send.data(), recv.data(), 1000, SYMM_DTYPE_F32, SYMM_OP_MAX,
        when_ready, nullptr));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    say(ready[3], 1);
    check(symm_request_wait(request, nullptr));
    symm_request_release(request);
    EXPECT_EQ(recv, std::vector<float>(1000, 2));
  });
}
}  // namespace
}  // namespace support
