#include "core/mesh/wire.hpp"

#include <cstddef>
#include <vector>

#include "core/base/error.hpp"
#include "tests/support/test.hpp"

namespace {
using namespace symm;
using namespace symm::wire;

Header header_of(Type type) { return {.type = type, .source = 3}; }

std::vector<Buffer> samples() {
  const std::vector<std::byte> body(17, std::byte{9});
  Header user = header_of(Type::first_user);
  user.nfds = 4;
  user.group = 0x0123456789ABCDEF;
  Identity identity;
  identity.size = 8;
  identity.pid = 4711;
  identity.host = "node7";
  identity.address = std::string(253, 'n');  // the longest name of DNS

  return {encode(header_of(Type::hello), Hello{1, 2, 3, 3, 8}), encode(header_of(Type::leave)),
      encode(header_of(Type::bye)),
      encode(header_of(Type::failure), Failure{Status::aborted, 2, 99, "enough"}),
      encode(header_of(Type::commit_vote), Failure{}), encode(header_of(Type::identity), identity),
      encode(header_of(Type::address), Address{"r1-0a", "/run/x"}), encode(user, body)};
}

TEST(Wire, RoundTrip) {
  Packet packet;
  const auto all = samples();

  ASSERT_EQ(decode(all[0], packet), nullptr);
  EXPECT_EQ(packet.hello.cookie, 3U);
  EXPECT_EQ(packet.hello.rank, 3U);

  ASSERT_EQ(decode(all[3], packet), nullptr);
  EXPECT_EQ(packet.failure.status, Status::aborted);
  EXPECT_EQ(packet.failure.pid, 99);
  EXPECT_EQ(packet.failure.message, "enough");

  ASSERT_EQ(decode(all[5], packet), nullptr);
  EXPECT_EQ(packet.identity.pid, 4711);
  EXPECT_EQ(packet.identity.host + " " + packet.identity.address, "node7 " + std::string(253, 'n'));

  ASSERT_EQ(decode(all[6], packet), nullptr);
  EXPECT_EQ(packet.address.name, "r1-0a");
  EXPECT_EQ(packet.address.directory, "/run/x");

  ASSERT_EQ(decode(all[7], packet), nullptr);
  EXPECT_EQ(packet.header.group, 0x0123456789ABCDEFU);
  EXPECT_EQ(packet.header.nfds, 4);
  EXPECT_EQ(packet.body.size(), 17U);
}

TEST(Wire, ALifeComesWithItsDescriptor) {
  Header life = header_of(Type::life);
  EXPECT_THROW(encode(life), Error);
  life.nfds = 1;
  Packet packet;
  EXPECT_EQ(decode(encode(life), packet), nullptr);
}

TEST(Wire, LittleEndianOnEveryMachine) {
  const Buffer packet = samples()[7];
  EXPECT_EQ(packet[0], std::byte{'S'});
  EXPECT_EQ(packet[12], std::byte{17});
  EXPECT_EQ(packet[20], std::byte{0xEF});
}

TEST(Wire, EveryOtherLengthIsRefused) {
  for (const Buffer& good : samples()) {
    Packet packet;
    for (size_t size = 0; size < good.size(); ++size) {
      EXPECT_NE(decode({good.data(), size}, packet), nullptr);
    }
    Buffer longer = good;
    longer.push_back({});
    EXPECT_NE(decode(longer, packet), nullptr);
  }
}

TEST(Wire, FixedFieldsMustBeRight) {
  for (const Buffer& good : samples()) {
    Packet packet;
    // The bytes of magic, number, type, length and nfds.
    for (const size_t at : {0U, 1U, 2U, 3U, 4U, 5U, 11U, 12U, 13U, 14U, 15U, 17U}) {
      Buffer bad = good;
      bad[at] ^= std::byte{0x80};
      EXPECT_NE(decode(bad, packet), nullptr) << at;
    }
  }
}

TEST(Wire, APacketOfAnotherNumberTellsItsVersion) {
  for (Buffer bytes : samples()) {
    bytes[4] ^= std::byte{0x80};
    bytes[6] = std::byte{1};
    bytes[7] = std::byte{3};
    Packet packet;
    EXPECT_EQ(decode(bytes, packet), kOtherNumber);
    EXPECT_EQ(packet.stamp.number, layouts::messages.number ^ 0x80U);
    EXPECT_EQ(packet.stamp.library & 0xFFFFU, 0x0301U);
  }
}

TEST(Wire, NamesCannotLeaveTheDirectory) {
  for (const char* name : {"../x", "/x", "a/b", ".", "A"}) {
    EXPECT_THROW(encode(header_of(Type::address), Address{name, ""}), Error) << name;
  }
  EXPECT_THROW(encode(header_of(Type::address), Address{"a", "relative"}), Error);
}
}  // namespace
