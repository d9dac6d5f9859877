// The messages between exporter and importer, and the tokens that programs pass on.
#include "core/ipc/protocol.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/backend/provider.hpp"
#include "core/base/error.hpp"
#include "core/ipc/token.hpp"
#include "core/ipc/token_pad.hpp"
#include "tests/support/test.hpp"

namespace symm::ipc {
namespace {
Packet some_packet(PacketType type) {
  Packet packet;
  packet.type = type;
  if (type == PacketType::welcome) packet.descriptors = 2;
  if (type == PacketType::life || type == PacketType::part) packet.descriptors = 1;
  if (type == PacketType::request || type == PacketType::grant || type == PacketType::refusal ||
      type == PacketType::part) {
    packet.lease = 5;
  }

  packet.wants_memory = true;
  packet.token.backend = 1;
  packet.token.block = 1;
  packet.token.bytes = 10;
  packet.token.directory = "/d";
  packet.block = 3;
  packet.extent = {100, 4096, 0, 1, {std::byte{7}}};
  packet.failure = {Status::invalid_handle, -1, 7, "no"};

  return packet;
}

constexpr PacketType kAll[] = {PacketType::welcome, PacketType::request, PacketType::grant,
    PacketType::refusal, PacketType::retired, PacketType::nudge, PacketType::bye, PacketType::life,
    PacketType::part, PacketType::withdrawn};

TEST(IpcProtocol, RoundTripsAndRefusesAnyOtherLength) {
  for (const PacketType type : kAll) {
    std::vector<std::byte> bytes = encode(some_packet(type));
    Packet back;
    const char* fault = decode(bytes, back);
    ASSERT_EQ(fault, nullptr) << static_cast<int>(type) << ": " << fault;
    EXPECT_EQ(back.type, type);
    EXPECT_EQ(encode(back), bytes);
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_NE(decode({bytes.data(), size}, back), nullptr) << size;
    }
    bytes.push_back(std::byte{0});
    EXPECT_NE(decode(bytes, back), nullptr);
  }
}

TEST(IpcProtocol, ImpossibleContentsAreRefused) {
  const auto refused = [](PacketType type, void (*change)(Packet&)) {
    Packet packet = some_packet(type);
    change(packet);
    Packet back;
    return decode(encode(packet), back) != nullptr;
  };

  EXPECT_TRUE(refused(PacketType::welcome, [](Packet& p) { p.descriptors = 1; }));
  EXPECT_TRUE(refused(PacketType::grant, [](Packet& p) { p.descriptors = 2; }));
  EXPECT_TRUE(refused(PacketType::grant, [](Packet& p) { p.descriptors = 3; }));
  static constexpr PadShape kPad{2, 100, 10};
  EXPECT_FALSE(refused(PacketType::grant, [](Packet& p) {
    p.pad = kPad;
    p.descriptors = 2;
  }));
  EXPECT_TRUE(refused(PacketType::grant, [](Packet& p) { p.pad = kPad; })) << "its descriptor";
  EXPECT_TRUE(refused(PacketType::grant, [](Packet& p) {
    p.pad = {2, 100, 0};
    p.descriptors = 2;
  }));
  EXPECT_TRUE(refused(PacketType::grant, [](Packet& p) {
    p.pad = {kMostPadChannels + 1, 100, 10};
    p.descriptors = 2;
  }));
  EXPECT_TRUE(refused(PacketType::grant, [](Packet& p) { p.writer = kMostPadWriters; }));
  EXPECT_TRUE(refused(PacketType::request, [](Packet& p) { p.lease = 0; }));
  EXPECT_TRUE(refused(PacketType::request, [](Packet& p) { p.from = 1; })) << "of no bundle";
  EXPECT_TRUE(refused(PacketType::part, [](Packet& p) { p.descriptors = 0; }));
  EXPECT_TRUE(refused(PacketType::part, [](Packet& p) { p.descriptors = 5; }));
  EXPECT_TRUE(refused(PacketType::part, [](Packet& p) { p.lease = 0; }));
  EXPECT_TRUE(refused(PacketType::nudge, [](Packet& p) { p.lease = 1; }));
  EXPECT_TRUE(refused(PacketType::grant, [](Packet& p) { p.extent.mapped = 99; }));
  EXPECT_TRUE(refused(PacketType::grant, [](Packet& p) { p.extent.bytes = 0; }));
  EXPECT_TRUE(refused(PacketType::refusal, [](Packet& p) { p.failure.status = Status::ok; }));
  EXPECT_FALSE(refused(PacketType::refusal, [](Packet& p) { p.failure.message = "a\nb"; }))
      << "is cleaned by whoever sends it";
}

Token some_token() {
  Token token;
  token.backend = 2;
  token.machine = machine_id();
  token.gpu = random_id();
  token.exporter = random_id();
  token.secret = random_id();
  token.block = 7;
  token.number = 1ULL << 40;
  token.offset = 4096;
  token.bytes = 123;
  token.pid = 4711;
  token.position = {3, 99};
  token.slot = 12;
  token.directory = "/tmp/symm-0/g-1-2";

  return token;
}

TEST(IpcToken, RoundTrip) {
  const Token token = some_token();
  const std::vector<std::byte> bytes = encode(token);
  Token back;
  const TokenFault fault = decode(bytes, back);
  ASSERT_EQ(fault.status, Status::ok) << fault.why;
  EXPECT_EQ(encode(back), bytes);
  EXPECT_EQ(back.directory, token.directory);
  EXPECT_EQ(back.secret, token.secret);
  EXPECT_EQ(back.position.word, 3U);
  EXPECT_EQ(back.position.value, 99U);
}

TEST(IpcToken, EveryBitCounts) {
  const std::vector<std::byte> bytes = encode(some_token());
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::vector<std::byte> damaged = bytes;
    damaged[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    Token token;
    EXPECT_NE(decode(damaged, token).status, Status::ok) << "bit " << bit;
  }
}

TEST(IpcToken, OfAnotherNumberTellsItsVersion) {
  std::vector<std::byte> bytes = encode(some_token());
  bytes[4] ^= std::byte{0x40};
  bytes[9] = std::byte{3};
  Token token;
  const TokenFault fault = decode(bytes, token);
  EXPECT_EQ(fault.status, Status::unsupported);
  EXPECT_EQ(fault.stamp.number, layouts::token.number ^ 0x40U);
  EXPECT_EQ(fault.stamp.library >> 8 & 0xFFU, 3U);
}

TEST(IpcPacket, OfAnotherNumberTellsItsVersion) {
  std::vector<std::byte> bytes = encode(Packet{.type = PacketType::bye});
  bytes[4] ^= std::byte{0x40};
  bytes[9] = std::byte{3};
  Packet packet;
  EXPECT_EQ(decode(bytes, packet), kOtherNumber);
  EXPECT_EQ(packet.stamp.number, layouts::leases.number ^ 0x40U);
  EXPECT_EQ(packet.stamp.library >> 8 & 0xFFU, 3U);
}

TEST(IpcToken, EveryLengthButItsOwnIsRefused) {
  std::vector<std::byte> bytes = encode(some_token());
  Token token;
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(decode({bytes.data(), size}, token).status, Status::invalid_argument) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_EQ(decode(bytes, token).status, Status::invalid_argument);
}

TEST(IpcToken, ImpossibleContentsAreRefusedThoughTheChecksumIsRight) {
  const auto refused = [](void (*change)(Token&)) {
    Token token = some_token();
    change(token);
    Token back;
    return decode(encode(token), back).status == Status::invalid_argument;
  };

  EXPECT_TRUE(refused([](Token& t) { t.backend = 3; }));
  EXPECT_TRUE(refused([](Token& t) { t.backend = 0; }));
  EXPECT_TRUE(refused([](Token& t) { t.bytes = 0; }));
  EXPECT_FALSE(refused([](Token& t) { t.bytes = t.block = 0; })) << "of nothing";
  EXPECT_TRUE(refused([](Token& t) { t.offset = UINT64_MAX - 5; }));
  EXPECT_TRUE(refused([](Token& t) { t.slot = kSlots; }));
  EXPECT_TRUE(refused([](Token& t) { t.number = UINT64_MAX; }));
  EXPECT_TRUE(refused([](Token& t) { t.position.word = kStreamWords; }));
  EXPECT_TRUE(refused([](Token& t) { t.position.value = kPassed; }));
  EXPECT_TRUE(refused([](Token& t) { t.pid = -1; }));
  EXPECT_TRUE(refused([](Token& t) { t.directory = "tmp"; }));
  EXPECT_TRUE(refused([](Token& t) { t.directory = ""; }));
  EXPECT_TRUE(refused([](Token& t) { t.directory = "/tmp\n/forged line"; }));
  EXPECT_FALSE(refused([](Token& t) {
    t.slot = kNoSlot;
    t.position = {};
  }));
}

TEST(IpcToken, TheLongestFitsAndALongerIsAnError) {
  Token token = some_token();
  token.directory = "/" + std::string(kMaxDirectory - 1, 'd');
  Token back;
  EXPECT_EQ(encode(token).size(), kMaxToken);
  EXPECT_EQ(decode(encode(token), back).status, Status::ok);
  token.directory += 'd';
  EXPECT_THROW(encode(token), Error);
}

TEST(IpcToken, SecretsAreComparedWhole) {
  const Id a = random_id();
  EXPECT_TRUE(same_secret(a, a));
  for (size_t i = 0; i < a.size(); ++i) {
    Id b = a;
    b[i] ^= std::byte{0x80};
    EXPECT_FALSE(same_secret(a, b)) << i;
  }
}
}  // namespace
}  // namespace symm::ipc
