// Segments on a NUMA node that is named. Where the machine or a sandbox does not allow to bind memory, that must be what is said.
#include <linux/mempolicy.h>
#include "core/backend/segment.hpp"
#include "tests/support/core.hpp"

namespace symm::host { namespace {
int node_of(const std::byte* page) {
  int node = -1;
  const unsigned long flags = MPOL_F_NODE | MPOL_F_ADDR;
  return syscall(SYS_get_mempolicy, &node, nullptr, 0UL, page, flags) == 0 ? node : -1;
}

Failure failure_on(int node, size_t bytes) {
  return support::failure_of([&] { Segment::create(bytes, "symm-test", {true, node}); });
}

TEST(Numa, AllPagesLieOnTheNode) {
  constexpr size_t kBytes = size_t{3} << 20;
  if (const Failure failure = failure_on(0, kBytes); failure.status == Status::unavailable) {
    EXPECT_NE(failure.message.find("mbind"), std::string::npos) << failure.message;
    GTEST_SKIP() << failure.message;
  }
  const auto segment = Segment::create(kBytes, "symm-test", {true, 0});
  for (size_t at = 0; at < kBytes; at += 4096) {
    ASSERT_EQ(node_of(segment->data() + at), 0) << at;
    ASSERT_EQ(segment->data()[at], std::byte{0});
  }
}

TEST(Numa, NoSuchNode) {
  for (const int node : {1000, 1023, 1024, 65534}) {
    const Failure failure = failure_on(node, 4096);
    if (failure.status == Status::unavailable) GTEST_SKIP() << failure.message;
    EXPECT_EQ(failure.status, Status::invalid_argument) << node << ": " << failure.message;
    EXPECT_EQ(failure.message.rfind("options.numa_node: ", 0), 0U) << failure.message;
    EXPECT_NE(failure.message.find(std::to_string(node)), std::string::npos) << failure.message;
  }
}

// Bound memory cannot come from elsewhere, so the kernel would kill somebody.
TEST(Numa, MoreThanTheNodeHasIsRefusedUpFront) {
  const Failure failure = failure_on(0, size_t{1} << 50);
  EXPECT_EQ(failure.status, Status::out_of_memory) << failure.message;
}
}}  // namespace symm::host
