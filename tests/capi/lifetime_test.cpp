// What the caller holds a handle or a reference of stays usable.
#include "tests/support/group.hpp"

namespace {
struct Handles {
  symm_group_t* group = nullptr;
  symm_buffer_t* buffer = nullptr;
  symm_memory_t* memory = nullptr;

  Handles() {
    support::Group made = support::create({"thread://lifetime", ""}, 0, 1);
    support::Block block = support::allocate(made, 4096);
    group = made.detach(), buffer = block.buffer.detach(), memory = block.memory.detach();
  }
  void release(int which) {
    if (which == 0) symm_group_release(group);
    if (which == 1) symm_buffer_release(buffer);
    if (which == 2) symm_memory_release(memory);
  }
  void use(int which) {
    int32_t size = 0;
    size_t bytes = 0;
    void* pointer = nullptr;
    if (which == 0) {
      EXPECT_EQ(symm_group_size(group, &size), SYMM_OK) << symm_last_error();
    } else if (which == 1) {
      EXPECT_EQ(symm_buffer_size(buffer, &bytes), SYMM_OK) << symm_last_error();
      ASSERT_EQ(symm_buffer_pointer(buffer, &pointer), SYMM_OK) << symm_last_error();
      std::memset(pointer, 7, bytes);
    } else {
      ASSERT_EQ(symm_memory_pointer(memory, 0, &pointer), SYMM_OK) << symm_last_error();
      std::memset(pointer, 7, 4096);
      EXPECT_EQ(symm_fill32(memory, 0, 0, 7, 4, nullptr), SYMM_OK) << symm_last_error();
    }
  }
};

TEST(Lifetime, a_reference_keeps_the_handle) {
  Handles handles;
  ASSERT_EQ(symm_group_retain(handles.group), SYMM_OK);
  ASSERT_EQ(symm_buffer_retain(handles.buffer), SYMM_OK);
  ASSERT_EQ(symm_memory_retain(handles.memory), SYMM_OK);
  for (int which = 0; which < 3; ++which) handles.release(which);
  for (int which = 0; which < 3; ++which) handles.use(which);
  for (int which = 0; which < 3; ++which) handles.release(which);
  int32_t size = 0;
  EXPECT_EQ(symm_group_size(handles.group, &size), SYMM_ERR_INVALID_HANDLE);
}

TEST(Lifetime, find_gives_a_reference_of_its_own) {
  Handles handles;
  void* pointer = nullptr;
  ASSERT_EQ(symm_memory_pointer(handles.memory, 0, &pointer), SYMM_OK);
  symm_memory_t* found = nullptr;
  int32_t rank = -1;
  size_t offset = 0;
  ASSERT_EQ(symm_memory_find(handles.group, static_cast<char*>(pointer) + 4095, &found, &rank, &offset), SYMM_OK);
  EXPECT_EQ(rank, 0);
  EXPECT_EQ(offset, 4095u);
  handles.release(2);
  EXPECT_EQ(symm_memory_pointer(found, 0, &pointer), SYMM_OK) << symm_last_error();
  symm_memory_release(found);
  handles.release(1);
  EXPECT_EQ(symm_memory_find(handles.group, pointer, &found, &rank, &offset), SYMM_ERR_NOT_FOUND);
  handles.release(0);
}
}  // namespace
