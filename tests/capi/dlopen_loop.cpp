// A host program that is not linked with the library loads, uses and closes it a
// hundred times, and nothing of it piles up.
#include <dlfcn.h>

#include "tests/support/footprint.hpp"
#include <symm/symm.h>

namespace support {
namespace {
#define SYMM_LOOK_UP(name)                                                      \
  const auto name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name)); \
  ASSERT_NE(name, nullptr) << dlerror()

void load_use_and_close() {
  void* const library = dlopen(SYMM_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();

  SYMM_LOOK_UP(symm_group_create);
  SYMM_LOOK_UP(symm_allreduce);
  SYMM_LOOK_UP(symm_group_release);
  SYMM_LOOK_UP(symm_last_error);

  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = SYMM_BACKEND_HOST;
  config.bootstrap = "thread://dlopen";
  config.size = 1;
  symm_group_t* group = nullptr;
  ASSERT_EQ(symm_group_create(&config, &group), SYMM_OK) << symm_last_error();

  float value = 5;
  EXPECT_EQ(symm_allreduce(group, &value, &value, 1, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, nullptr),
      SYMM_OK)
      << symm_last_error();
  EXPECT_EQ(value, 5);

  symm_group_release(group);
  EXPECT_EQ(dlclose(library), 0) << dlerror();
}

TEST(Dlopen, AHundredTimesLeavesNothing) {
  Footprint before;
  for (int round = 0; round < 100 && !HasFailure(); ++round) {
    load_use_and_close();
    // The first uses allocate what stays in the process.
    if (round == 3) before = Footprint::settled();
  }
  EXPECT_EQ(Footprint::settled(), before);
}
}  // namespace
}  // namespace support
