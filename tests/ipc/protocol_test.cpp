#include "core/ipc/protocol.hpp"
#include "tests/support/test.hpp"

namespace symm::ipc { namespace {
Packet some_packet(PacketType type) {
  Packet packet;
  packet.type = type;
  packet.descriptors = type == PacketType::welcome ? 2 : type == PacketType::life ? 1 : 0;
  if (type == PacketType::request || type == PacketType::grant || type == PacketType::refusal) packet.lease = 5;
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

constexpr PacketType kAll[] = {PacketType::welcome, PacketType::request, PacketType::grant, PacketType::refusal,
    PacketType::retired, PacketType::nudge, PacketType::bye, PacketType::life};

TEST(IpcProtocol, RoundTripsAndRefusesAnyOtherLength) {
  for (const PacketType type : kAll) {
    std::vector<std::byte> bytes = encode(some_packet(type));
    Packet back;
    const char* fault = decode(bytes, back);
    ASSERT_EQ(fault, nullptr) << static_cast<int>(type) << ": " << fault;
    EXPECT_EQ(back.type, type);
    EXPECT_EQ(encode(back), bytes);
    for (size_t size = 0; size < bytes.size(); ++size) EXPECT_NE(decode({bytes.data(), size}, back), nullptr) << size;
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
  EXPECT_TRUE(refused(PacketType::request, [](Packet& p) { p.lease = 0; }));
  EXPECT_TRUE(refused(PacketType::nudge, [](Packet& p) { p.lease = 1; }));
  EXPECT_TRUE(refused(PacketType::grant, [](Packet& p) { p.extent.mapped = 99; }));
  EXPECT_TRUE(refused(PacketType::grant, [](Packet& p) { p.extent.bytes = 0; }));
  EXPECT_TRUE(refused(PacketType::refusal, [](Packet& p) { p.failure.status = Status::ok; }));
  EXPECT_FALSE(refused(PacketType::refusal, [](Packet& p) { p.failure.message = "a\nb"; })) << "is cleaned by whoever sends it";
}
}}  // namespace symm::ipc
