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

// The structs of the first release are the smallest that there are.
TEST(StructSize, OutputsShorterThanInTheFirstReleaseAreRefused) {
  const symm::Group group = support::create({"thread://struct-size"}, 0, 1);

  symm_group_info_t info;
  std::memset(&info, 0xA5, sizeof info);
  info.struct_size = offsetof(symm_group_info_t, engine);
  support::expect_failed(symm_group_info(group.get(), &info), SYMM_ERR_INVALID_ARGUMENT,
      {"out: struct_size", "at least"});

  info.struct_size = sizeof info;
  EXPECT_EQ(symm_group_info(group.get(), &info), SYMM_OK) << symm_last_error();
  EXPECT_EQ(info.multicast, 0);
  EXPECT_NE(info.multicast_reason[0], '\0');
}
}  // namespace
