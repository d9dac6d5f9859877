// The exporter's book, which tokens are void after which
// withdrawals, and an importer that does not keep to the rules.
#include <fcntl.h>
#include <stdlib.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/segment.hpp"
#include "core/backends.hpp"
#include "core/base/peer_fd.hpp"
#include "core/base/wait.hpp"
#include "core/ipc/export.hpp"
#include "core/ipc/exporter.hpp"
#include "core/ipc/exporter_connection.hpp"
#include "core/ipc/lease.hpp"
#include "core/ipc/lease_ring.hpp"
#include "core/ipc/protocol.hpp"
#include "core/ipc/token.hpp"
#include "core/ipc/validity_board.hpp"
#include "core/socket/connection.hpp"
#include "core/socket/fdpass.hpp"
#include "core/socket/socket.hpp"
#include "symm/symm.h"
#include "tests/support/core.hpp"

namespace symm::ipc {
namespace {
constexpr uint64_t kBytes = 64;

// Asks about tokens of places, drawn at random, and expects the answers that `before` gives: the
// number of the last withdrawal of each byte.
void expect_agreement(
    const Withdrawn& withdrawn, const uint64_t (&before)[kBytes], std::mt19937& random) {
  for (int look = 0; look < 50; ++look) {
    const uint64_t at = random() % kBytes;
    const uint64_t size = 1 + random() % (kBytes - at);
    const uint64_t token = random() % 22;
    bool is_void = false;
    for (uint64_t i = 0; i < size; ++i) {
      is_void = is_void || token < before[at + i];
    }
    ASSERT_EQ(withdrawn.covers({1, at, size}, token), is_void)
        << at << "+" << size << " of number " << token;
  }
}

TEST(Withdrawn, AgreesWithAMapOfBytes) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Withdrawn withdrawn;
    uint64_t before[kBytes] = {};
    for (uint64_t number = 1; number < 20; ++number) {
      const uint64_t offset = random() % kBytes;
      const uint64_t bytes = 1 + random() % (kBytes - offset);
      withdrawn.add(offset, bytes, number);
      for (uint64_t i = 0; i < bytes; ++i) {
        before[offset + i] = number;
      }
      ASSERT_NO_FATAL_FAILURE(expect_agreement(withdrawn, before, random));
    }
    EXPECT_LE(withdrawn.size(), kBytes);
  }
}

struct Book {
  std::unique_ptr<ValidityBoard> board = std::make_unique<ValidityBoard>();
  Exports exports{*board};
  std::vector<std::shared_ptr<Block>> garbage;
  std::vector<Retired> retired;

  Export& add(size_t bytes) {
    return exports.add(
        host::Segment::create(bytes, "symm-test"), ipc_provider(BackendKind::host), 0);
  }
};

TEST(Exports, ASlotThatIsUsedAgainTrustsNoOldToken) {
  Book book;
  Export& first = book.add(4096);
  const uint32_t slot = first.slot;
  const uint64_t old = book.exports.number(first, {});
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
  for (int i = 0; i < 5; ++i) {
    book.exports.number(block, {.hold_ms = 1});
  }
  retry_until([] { return false; }, Deadline::after_ms(3));
  book.exports.number(block, {.hold_ms = 60'000});
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

TEST(Importer, AClaimWithoutATokenIsRefused) {
  const support::TemporaryDirectory directory;
  setenv("SYMM_IPC_DIRECTORY", directory.path().c_str(), 1);
  static auto& exporter = *new Exporter;  // the monitor's thread never lets go of it
  const Exporter::Source source{
      host::Segment::create(4096, "test"), &ipc_provider(BackendKind::host), 0, 0};
  const Token token = exporter.make_token(source, 64, {}, nullptr);

  const PeerFd socket = dial(token.directory, hexadecimal(token.exporter));
  std::array<std::byte, kMaxPacket> buffer;
  fdpass::Received welcome;
  ASSERT_TRUE(retry_until(
      [&] {
        welcome = fdpass::receive(socket.get(), buffer);
        return welcome.what == fdpass::Received::What::packet;
      },
      support::soon()));

  LeaseRingWriter ring(host::Segment::import(std::move(welcome.fds.at(0)), sizeof(LeaseRing)));
  ring.write({.kind = LeaseRing::Kind::claim,
      .lease = 1,
      .block = token.block,
      .number = token.number,
      .bytes = 64});
  fdpass::send(socket.get(), encode({.type = PacketType::nudge}), {});
  EXPECT_TRUE(retry_until(
      [&] { return fdpass::receive(socket.get(), buffer).what == fdpass::Received::What::closed; },
      support::soon()));

  symm_ipc_stats_t stats{};
  exporter.fill(stats);
  EXPECT_EQ(stats.leases, 0U);
  EXPECT_EQ(stats.rejected_connections, 1U);
  exporter.leave();
}

// While it may live, others that import from it wait for what its streams have yet to write.
TEST(ExporterConnection, LetsStreamsPassOnlyOnceTheExporterIsDead) {
  const auto board = host::Segment::create(sizeof(ValidityBoard), "test");
  PeerProcess exporter;
  exporter.pidfd = PeerFd(Fd(open("/dev/null", O_RDONLY | O_CLOEXEC)));
  ExporterConnection connection(
      {}, {}, std::move(exporter), host::Segment::create(sizeof(LeaseRing), "test"), board);
  Receiver& heard = connection;
  heard.on_end(Receiver::End::closed, "");
  EXPECT_FALSE(is_passed({0, 1}, ValidityBoard::in(*board).words));
  heard.on_death("");
  EXPECT_TRUE(is_passed({0, 1}, ValidityBoard::in(*board).words));
}
}  // namespace
}  // namespace symm::ipc
