// A forked child holds handles that belong to its
// parent. It is refused, and its parent does not notice.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/support/group.hpp"

namespace support {
namespace {
Group single_rank_group() { return create({"thread://fork", ""}, 0, 1); }

TEST(Fork, TheChildsCallsFailAndTheParentGoesOn) {
  const Group group = single_rank_group();
  const Block block = allocate(group, 4096);
  Process child([&] {
    int32_t size = 0;
    float value = 1;
    void* pointer = nullptr;
    symm_memory_t* again = nullptr;
    EXPECT_EQ(symm_group_size(group.get(), &size), SYMM_ERR_INVALID_HANDLE);
    EXPECT_STRNE(symm_last_error(), "");
    EXPECT_EQ(symm_buffer_pointer(block.buffer.get(), &pointer), SYMM_ERR_INVALID_HANDLE);
    EXPECT_EQ(symm_memory_pointer(block.memory.get(), 0, &pointer), SYMM_ERR_INVALID_HANDLE);
    EXPECT_EQ(symm_barrier(group.get(), nullptr, 0, 0, nullptr, nullptr), SYMM_ERR_INVALID_HANDLE);
    EXPECT_EQ(allreduce(group, &value, &value, 1), SYMM_ERR_INVALID_HANDLE);
    EXPECT_EQ(
        symm_rendezvous(group.get(), block.buffer.get(), nullptr, &again), SYMM_ERR_INVALID_HANDLE);
    EXPECT_EQ(symm_group_abort(group.get(), "from the child"), SYMM_ERR_INVALID_HANDLE);
    symm_memory_release(block.memory.get());  // as a garbage collector would
    symm_buffer_release(block.buffer.get());
    symm_group_release(group.get());
    return "";
  });

  EXPECT_EQ(child.result(), "");
  EXPECT_EQ(group.status().status, SYMM_OK) << group.status().message;
  expect_sum(group);
}

// Whatever another thread is doing at that moment.
TEST(Fork, TheChildCanMakeAGroupOfItsOwn) {
  const Group group = single_rank_group();
  std::atomic<bool> over{false};
  std::thread busy([&] {
    while (!over) {
      group.allocate(size_t{64} << 20);
    }
  });

  for (int i = 0; i < 30; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(3000 + i * 37));
    Process child([] {
      const Group own = single_rank_group();
      own.allocate(4096);
      expect_sum(own);
      return "";
    });
    EXPECT_EQ(child.result(), "");
  }

  over = true;
  busy.join();
}
}  // namespace

TEST(LogOfTheEnvironment, AnUnknownLevelIsSaidOnceAndCountsAsInfo) {
  const TemporaryDirectory there;
  Process child([&]() -> std::string {
    const int file = open((there / "log").c_str(), O_WRONLY | O_CREAT, 0600);
    dup2(file, STDERR_FILENO);
    setenv("SYMM_LOG", "lo\nud", 1);
    setenv("SYMM_TEST_ABORT", "1", 1);
    run_again({"--gtest_filter=FirstFailure.IsOneLine"});
  });

  EXPECT_EQ(child.wait(), 0);
  std::ifstream file(there / "log");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string told = "symm: SYMM_LOG: 'lo ud' is none of error, warning, info and debug";
  EXPECT_EQ(text.find(told), 0U) << text;
  EXPECT_EQ(text.rfind(told), 0U) << text;
  EXPECT_NE(text.find("rank 0 of 1"), std::string::npos) << text;  // a message of level info
}

TEST(Fork, AChildHasNoListenersOfTheLog) {
  static std::atomic<int> heard;
  const auto listen = [](void*, symm_log_level_t, const char*) { ++heard; };
  const symm::LogListener listener(+listen, nullptr, SYMM_LOG_DEBUG);
  support::create({"thread://log-parent", ""}, 0, 1);
  EXPECT_GT(heard.exchange(0), 0);
  support::Process child([] {
    support::create({"thread://log-child", ""}, 0, 1);
    return std::to_string(heard);
  });
  EXPECT_EQ(child.result(), "0");
}
}  // namespace support
