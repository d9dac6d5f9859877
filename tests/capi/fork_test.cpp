// SPDX-License-Identifier: Apache-2.0
//
// A forked child holds handles that belong to its parent. It is refused, and its parent does not notice.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "symm/symm.h"

namespace {

symm_group_t* single_rank_group() {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = SYMM_BACKEND_HOST;
  config.bootstrap = "thread://fork";
  config.size = 1;
  symm_group_t* group = nullptr;
  EXPECT_EQ(symm_group_create(&config, &group), SYMM_OK) << symm_last_error();
  return group;
}

// Runs `check` in a child, which tells by its exit status the line of the first expectation that failed.
template <class Check>
int exit_status_of_child(Check check) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(check());
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Leaves with the number of its line (modulo 256), which the parent then shows.
#define CHECK_IN_CHILD(condition) \
  if (!(condition)) return __LINE__ % 256 != 0 ? __LINE__ % 256 : 255

int use_what_the_parent_made(symm_group_t* group, symm_buffer_t* buffer, symm_memory_t* memory) {
  float value = 1;
  int32_t size = 0;
  void* pointer = nullptr;
  symm_memory_t* again = nullptr;
  CHECK_IN_CHILD(symm_group_size(group, &size) == SYMM_ERR_INVALID_HANDLE);
  CHECK_IN_CHILD(symm_last_error()[0] != '\0');
  CHECK_IN_CHILD(symm_buffer_pointer(buffer, &pointer) == SYMM_ERR_INVALID_HANDLE);
  CHECK_IN_CHILD(symm_memory_pointer(memory, 0, &pointer) == SYMM_ERR_INVALID_HANDLE);
  CHECK_IN_CHILD(symm_barrier(group, nullptr, 0, 0, 0, nullptr) == SYMM_ERR_INVALID_HANDLE);
  CHECK_IN_CHILD(symm_allreduce(group, &value, &value, 1, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, nullptr) ==
                 SYMM_ERR_INVALID_HANDLE);
  CHECK_IN_CHILD(symm_rendezvous(group, buffer, 0, &again) == SYMM_ERR_INVALID_HANDLE);
  CHECK_IN_CHILD(symm_group_abort(group, "from the child") == SYMM_ERR_INVALID_HANDLE);
  symm_memory_release(memory);  // as a garbage collector would
  symm_buffer_release(buffer);
  symm_group_release(group);
  return 0;
}

int make_a_group() {
  symm_group_t* mine = single_rank_group();
  CHECK_IN_CHILD(mine != nullptr);
  float value = 3;
  CHECK_IN_CHILD(symm_allreduce(mine, &value, &value, 1, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, nullptr) == SYMM_OK);
  CHECK_IN_CHILD(value == 3);
  symm_group_release(mine);
  return 0;
}

TEST(Fork, the_childs_calls_fail_and_the_parent_goes_on) {
  symm_group_t* group = single_rank_group();
  symm_buffer_t* buffer = nullptr;
  symm_memory_t* memory = nullptr;
  ASSERT_EQ(symm_alloc(group, 4096, 0, &buffer), SYMM_OK);
  ASSERT_EQ(symm_rendezvous(group, buffer, 0, &memory), SYMM_OK);

  EXPECT_EQ(exit_status_of_child([&] { return use_what_the_parent_made(group, buffer, memory); }), 0)
      << "is the line that failed";

  symm_group_status_t status{sizeof status, 0, 0, 0, {}};
  ASSERT_EQ(symm_group_status(group, &status), SYMM_OK);
  EXPECT_EQ(status.status, SYMM_OK) << status.message;
  float value = 3;
  EXPECT_EQ(symm_allreduce(group, &value, &value, 1, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, nullptr), SYMM_OK)
      << symm_last_error();
  symm_memory_release(memory);
  symm_buffer_release(buffer);
  symm_group_release(group);
}

TEST(Fork, the_child_can_make_a_group_of_its_own) {
  symm_group_t* group = single_rank_group();
  EXPECT_EQ(exit_status_of_child(make_a_group), 0) << "is the line that failed";
  int32_t size = 0;
  EXPECT_EQ(symm_group_size(group, &size), SYMM_OK);
  symm_group_release(group);
}

}  // namespace
