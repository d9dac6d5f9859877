// An importer that does not keep to the rules.
#include "core/backends.hpp"
#include "core/ipc/exporter.hpp"
#include "core/ipc/exporter_connection.hpp"
#include "tests/support/core.hpp"

namespace symm::ipc { namespace {
TEST(Importer, WhoClaimsWithoutATokenIsTurnedOut) {
  const support::TemporaryDirectory directory;
  setenv("SYMM_IPC_DIRECTORY", directory.path().c_str(), 1);
  static auto& exporter = *new Exporter;  // the monitor's thread never lets go of it
  const Exporter::Source source{host::Segment::create(4096, "test"), &ipc_provider(BackendKind::host), 0, 0};
  const Token token = exporter.make_token(source, 64, {}, nullptr);
  const PeerFd socket = dial(token.directory, hexadecimal(token.exporter));
  std::array<std::byte, kMaxPacket> buffer;
  fdpass::Received welcome;
  ASSERT_TRUE(retry_until(
      [&] { return (welcome = fdpass::receive(socket.get(), buffer)).what == fdpass::Received::What::packet; }, support::soon()));
  LeaseRingWriter ring(host::Segment::import(std::move(welcome.fds.at(0)), sizeof(LeaseRing)));
  ring.write({.kind = LeaseRing::Kind::claim, .lease = 1, .block = token.block, .number = token.number, .bytes = 64});
  fdpass::send(socket.get(), encode({.type = PacketType::nudge}), {});
  EXPECT_TRUE(
      retry_until([&] { return fdpass::receive(socket.get(), buffer).what == fdpass::Received::What::closed; }, support::soon()));
  symm_ipc_stats_t stats{};
  exporter.fill(stats);
  EXPECT_EQ(stats.leased, 0U);
  EXPECT_EQ(stats.rejected_connections, 1U);
  exporter.leave();
}

// While it may live, others that import from it wait for what its streams have yet to write.
TEST(ExporterConnection, LetsStreamsPassOnlyOnceTheExporterIsDead) {
  const auto board = host::Segment::create(sizeof(ValidityBoard), "test");
  PeerProcess exporter;
  exporter.pidfd = PeerFd(Fd(open("/dev/null", O_RDONLY | O_CLOEXEC)));
  ExporterConnection connection({}, {}, std::move(exporter), host::Segment::create(sizeof(LeaseRing), "test"), board);
  Receiver& heard = connection;
  heard.on_end(Receiver::End::closed, "");
  EXPECT_FALSE(is_passed({0, 1}, ValidityBoard::in(*board).words));
  heard.on_death("");
  EXPECT_TRUE(is_passed({0, 1}, ValidityBoard::in(*board).words));
}
}}  // namespace symm::ipc
