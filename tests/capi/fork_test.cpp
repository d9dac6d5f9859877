// A forked child holds handles that belong to its parent. It is refused, and its parent does not notice.
#include "tests/support/group.hpp"

namespace support {
namespace {
Group single_rank_group() { return create({"thread://fork", ""}, 0, 1); }

// Leaves the body of a child with what is not so, which the parent then shows.
#define CHECK_IN_CHILD(condition) \
  if (!(condition)) return #condition

const char* use_what_the_parent_made(symm_group_t* group, symm_buffer_t* buffer, symm_memory_t* memory) {
  float value = 1;
  int32_t size = 0;
  void* pointer = nullptr;
  symm_memory_t* again = nullptr;
  CHECK_IN_CHILD(symm_group_size(group, &size) == SYMM_ERR_INVALID_HANDLE);
  CHECK_IN_CHILD(symm_last_error()[0] != '\0');
  CHECK_IN_CHILD(symm_buffer_pointer(buffer, &pointer) == SYMM_ERR_INVALID_HANDLE);
  CHECK_IN_CHILD(symm_memory_pointer(memory, 0, &pointer) == SYMM_ERR_INVALID_HANDLE);
  CHECK_IN_CHILD(symm_barrier(group, nullptr, 0, 0, nullptr, nullptr) == SYMM_ERR_INVALID_HANDLE);
  CHECK_IN_CHILD(
      symm_allreduce(group, &value, &value, 1, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, nullptr) == SYMM_ERR_INVALID_HANDLE);
  CHECK_IN_CHILD(symm_rendezvous(group, buffer, nullptr, &again) == SYMM_ERR_INVALID_HANDLE);
  CHECK_IN_CHILD(symm_group_abort(group, "from the child") == SYMM_ERR_INVALID_HANDLE);
  symm_memory_release(memory);  // as a garbage collector would
  symm_buffer_release(buffer);
  symm_group_release(group);
  return "";
}

TEST(Fork, the_childs_calls_fail_and_the_parent_goes_on) {
  const Group group = single_rank_group();
  const Block block = allocate(group, 4096);
  Process child([&] { return use_what_the_parent_made(group.get(), block.buffer.get(), block.memory.get()); });
  EXPECT_EQ(child.result(), "");
  EXPECT_EQ(group.status().status, SYMM_OK) << group.status().message;
  expect_sum(group);
}

// Whatever another thread is doing at that moment.
TEST(Fork, the_child_can_make_a_group_of_its_own) {
  const Group group = single_rank_group();
  std::atomic<bool> over{false};
  std::thread busy([&] {
    while (!over) group.allocate(size_t{64} << 20);
  });
  for (int i = 0; i < 30; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(3000 + i * 37));
    Process child([] {
      const Group own = single_rank_group();
      own.allocate(4096);
      expect_sum(own);
      return testing::Test::HasFailure() ? "wrong" : "";
    });
    EXPECT_EQ(child.result(), "");
  }
  over = true;
  busy.join();
}
}  // namespace
TEST(Fork, a_child_has_no_listeners_of_the_log) {
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
