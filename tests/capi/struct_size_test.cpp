// Structs of older and newer headers, where they are
// not arguments: for those see Call.LongerStructs.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/support/group.hpp"

namespace {
// A struct of a newer header: ours and then a field that we do not know.
template <class T>
struct Newer {
  T known;
  uint64_t appended;
};

TEST(StructSize, NewerStoreIsAcceptedWhileItsTailIsZero) {
  Newer<symm_store_t> longer{
      {sizeof longer, nullptr,
          [](void*, const char*, const void*, size_t, uint64_t) { return SYMM_OK + 0; },
          [](void*, const char*, void*, size_t, size_t*, uint64_t) {
            return SYMM_ERR_TIMEOUT + 0;
          }},
      0};
  support::create({.store = &longer.known}, 0, 1);
  longer.appended = 1;
  support::expect_failure(
      SYMM_ERR_UNSUPPORTED, {}, [&] { support::create({.store = &longer.known}, 0, 1); });
}

// Callers of before there was multicast know shorter structs.
TEST(StructSize, OutputsOfAnOlderHeader) {
  const symm::Group group = support::create({"thread://struct-size"}, 0, 1);

  symm_group_info_t info;
  std::memset(&info, 0xA5, sizeof info);
  const symm_group_info_t poison = info;

  info.struct_size = offsetof(symm_group_info_t, multicast);
  EXPECT_EQ(symm_group_info(group.get(), &info), SYMM_OK) << symm_last_error();
  EXPECT_EQ(info.size, 1);
  EXPECT_EQ(info.multicast, poison.multicast);

  info.struct_size = sizeof info;
  EXPECT_EQ(symm_group_info(group.get(), &info), SYMM_OK) << symm_last_error();
  EXPECT_EQ(info.multicast, 0);
  EXPECT_NE(info.multicast_reason[0], '\0');
}

TEST(StructSize, InitFunctionsAgreeWithTheMacros) {
  Newer<symm_group_config_t> config;
  std::memset(&config, 0xA5, sizeof config);
  ASSERT_EQ(symm_group_config_init(&config.known, sizeof config), SYMM_OK);
  EXPECT_EQ(config.known.struct_size, sizeof config);
  EXPECT_EQ(config.appended, 0u) << "zero is the default of what we do not know";

  // Static, so that what lies between fields is zero.
#define SYMM_EXPECT_SAME(kind, macro)                                \
  [] {                                                               \
    static const symm_##kind##_t kMacro = SYMM_##macro##_INIT;       \
    symm_##kind##_t made;                                            \
    std::memset(&made, 0xA5, sizeof made);                           \
    EXPECT_EQ(symm_##kind##_init(&made, sizeof made), SYMM_OK);      \
    EXPECT_EQ(std::memcmp(&made, &kMacro, sizeof made), 0) << #kind; \
  }()
  SYMM_EACH_INIT(SYMM_EXPECT_SAME);
}
}  // namespace
