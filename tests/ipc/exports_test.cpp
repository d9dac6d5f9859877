// The exporter's book, and which tokens are void after which withdrawals.
#include "core/backends.hpp"
#include "core/ipc/export.hpp"
#include "tests/support/core.hpp"

namespace symm::ipc { namespace {
TEST(Withdrawn, AgreesWithAMapOfBytes) {
  constexpr uint64_t kBytes = 64;
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Withdrawn withdrawn;
    uint64_t before[kBytes] = {};
    for (uint64_t number = 1; number < 20; ++number) {
      const uint64_t offset = random() % kBytes;
      const uint64_t bytes = 1 + random() % (kBytes - offset);
      withdrawn.add(offset, bytes, number);
      for (uint64_t i = 0; i < bytes; ++i) before[offset + i] = number;
      for (int look = 0; look < 50; ++look) {
        const uint64_t at = random() % kBytes;
        const uint64_t size = 1 + random() % (kBytes - at);
        const uint64_t token = random() % 22;
        bool is_void = false;
        for (uint64_t i = 0; i < size; ++i) is_void = is_void || token < before[at + i];
        ASSERT_EQ(withdrawn.covers({1, at, size}, token), is_void) << at << "+" << size << " of number " << token;
      }
    }
    EXPECT_LE(withdrawn.size(), kBytes);
  }
}

struct Book {
  std::unique_ptr<ValidityBoard> board = std::make_unique<ValidityBoard>();
  Exports exports{*board};
  std::vector<std::shared_ptr<Block>> garbage;
  std::vector<uint64_t> retired;
  Export& add(size_t bytes) { return exports.add(host::Segment::create(bytes, "symm-test"), ipc_provider(BackendKind::host), 0); }
};

TEST(Exports, ASlotThatIsUsedAgainTrustsNoOldToken) {
  Book book;
  Export& first = book.add(4096);
  const uint32_t slot = first.slot;
  const uint64_t old = book.exports.number(first, 0, 0);
  EXPECT_GE(old, book.board->valid_from[slot][5].load());
  book.exports.release(first);
  EXPECT_EQ(book.board->valid_from[slot][5].load(), kVoid);
  EXPECT_EQ(book.exports.settle(book.garbage, book.retired).blocks, 1U);
  Export& second = book.add(4096);
  ASSERT_EQ(second.slot, slot);
  EXPECT_LT(old, book.board->valid_from[slot][5].load());
}

TEST(Exports, MoreBlocksThanSlots) {
  Book book;
  for (uint32_t i = 0; i < kSlots + 2; ++i) {
    const Export& block = book.add(64);
    EXPECT_EQ(block.slot, i < kSlots ? i : kNoSlot);
  }
}

// A block that lives for long is exported again and again.
TEST(Exports, HoldsThatHaveRunOutAreForgotten) {
  Book book;
  Export& block = book.add(4096);
  for (int i = 0; i < 5; ++i) book.exports.number(block, 1, 0);
  retry_until([] { return false; }, Deadline::after_ms(3));
  book.exports.number(block, 60'000, 0);
  EXPECT_EQ(block.holds.size(), 1U);
}

TEST(Exports, EndingMoreThanThereIsDoesNotUnderflow) {
  Book book;
  Export& block = book.add(4096);
  Leases leases;
  leases.grant(book.exports, 1, {block.id, 0, 64}, 0);
  EXPECT_EQ(leases.release(book.exports, 1, {}, {}), Leases::End::now);
  EXPECT_EQ(leases.release(book.exports, 1, {}, {}), Leases::End::unknown);
  EXPECT_EQ(leases.release(book.exports, 2, {}, {}), Leases::End::unknown);
  EXPECT_EQ(block.leases, 0U);
  book.exports.ended({block.id, 0, 64});
  EXPECT_EQ(block.leases, 0U);
}

TEST(Holder, OneThatIsGoneWithoutProofPutsItsBlocksInQuarantine) {
  Book book;
  Export& held = book.add(4096);
  Export& other = book.add(4096);
  Leases leases;
  leases.grant(book.exports, 1, {held.id, 0, 64}, 0);
  EXPECT_EQ(leases.write_off(book.exports, false), 1U);
  EXPECT_TRUE(held.quarantined);
  EXPECT_FALSE(other.quarantined);
  EXPECT_EQ(held.leases, 0U);
}
}}  // namespace symm::ipc
