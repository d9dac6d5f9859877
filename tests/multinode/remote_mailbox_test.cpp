// The mailboxes at two ends, and messages between them that are held, or that no sender sends.
#include "core/multinode/remote_mailbox.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/deadline.hpp"
#include "core/base/wait.hpp"
#include "core/engine/link.hpp"
#include "core/engine/message_engine.hpp"
#include "core/host/mailbox.hpp"
#include "core/multinode/messages.hpp"

namespace symm::multinode {
namespace {
using engine::Head;
using host::MailboxShape;
using host::MessageSlot;
using host::SlotKind;
using Bytes = std::vector<std::byte>;

constexpr int kPeer = 1;
constexpr uint16_t kChannel = 2;

// An endpoint that holds what is sent until the test takes it.
class Wire final : public engine::Endpoint {
 public:
  struct Sent {
    Head head;
    Bytes payload;
    std::shared_ptr<const void> keep;
  };
  std::deque<Sent> sent;
  std::vector<int> cuts;

  void connect(int, std::span<const std::byte>) override { FAIL() << "connects"; }
  void send(int, Head, std::span<const std::byte>, LazyDeadline&) override { FAIL() << "waits"; }
  void answer(
      int, Head, std::span<const std::byte>, std::shared_ptr<const void>) noexcept override {
    ADD_FAILURE() << "answers";
  }
  void dispatch(int rank, Head head, std::span<const std::byte> payload,
      std::shared_ptr<const void> keep) noexcept override {
    EXPECT_EQ(rank, kPeer);
    head.bytes = payload.size();
    sent.push_back({head, Bytes(payload.begin(), payload.end()), std::move(keep)});
  }
  bool progress() noexcept override { return false; }
  void polls(Polling) noexcept override {}
  void cut(int rank) noexcept override { cuts.push_back(rank); }

  Sent take() {
    Sent first = std::move(sent.front());
    sent.pop_front();
    return first;
  }
};

// One end, whose peer is rank 1 there as well.
struct End {
  MailboxShape shape = MailboxShape::of(2, 4);
  Wire wire;
  Waiter sleepers{0};
  std::atomic<uint32_t> settles_later{0};
  RemoteMailbox mailbox{wire, kPeer, shape, sleepers, settles_later};

  // A part tells its mailbox when the wire lets go of it.
  ~End() { wire.sent.clear(); }

  // Takes a message in as the message engine does; false if it has no place.
  bool receive(const Head& head, std::span<const std::byte> payload = {}) {
    if (!payload.empty()) {
      std::byte* const at = mailbox.place(head);
      if (at == nullptr) return false;
      std::copy(payload.begin(), payload.end(), at);
    }
    mailbox.arrived(head);
    return true;
  }
  bool receive(const Wire::Sent& message) { return receive(message.head, message.payload); }
  // A part of a message that no sender sends, perhaps.
  bool receive_part(size_t offset, size_t bytes, uint16_t channel = kChannel) {
    const Bytes payload(bytes, std::byte{7});
    return receive(
        {.kind = kSlotPart, .channel = channel, .offset = offset, .bytes = bytes}, payload);
  }
};

Bytes bytes_of(size_t count) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>(i * 7 + 1);
  }
  return bytes;
}

// Writes slot `number` of an end's mailbox, and sends it.
void tell(End& end, uint32_t number, SlotKind kind, const Bytes& message, size_t offset = 0) {
  MessageSlot& slot = end.mailbox.to().slot(number);
  slot.kind = kind;
  slot.channel = kChannel;
  slot.bytes = message.size();
  std::byte* const at = kind == SlotKind::data ? end.mailbox.to().data(offset) : slot.contents;
  if (kind == SlotKind::data) slot.put(uint64_t{offset});
  if (kind != SlotKind::announced) std::copy(message.begin(), message.end(), at);
  end.mailbox.tell_slot(number);
}

TEST(RemoteMailbox, HasTheSlotsThatItsLikeHad) {
  End a;
  End b;
  const Bytes inside = bytes_of(MessageSlot::kInside);
  const Bytes data = bytes_of(1000);
  const Bytes announced = bytes_of(100'000);
  tell(a, 1, SlotKind::inside, inside);
  tell(a, 2, SlotKind::data, data, 128);
  tell(a, 3, SlotKind::inside, {});
  tell(a, 4, SlotKind::announced, announced);
  // What is announced has not been left, and its sender waits.
  EXPECT_EQ(a.settles_later, 3U);

  const host::Mailbox there = b.mailbox.from();
  for (uint32_t number = 1; number <= 4; ++number) {
    EXPECT_NE(there.slot(number).number, number);
    ASSERT_TRUE(b.receive(a.wire.take()));
    EXPECT_EQ(there.slot(number).number, number);
    EXPECT_EQ(there.slot(number).channel, kChannel);
  }
  EXPECT_EQ(there.slot(1).kind, SlotKind::inside);
  EXPECT_EQ(there.slot(1).bytes, inside.size());
  EXPECT_TRUE(std::equal(inside.begin(), inside.end(), there.slot(1).contents));
  EXPECT_EQ(there.slot(2).kind, SlotKind::data);
  EXPECT_EQ(there.slot(2).bytes, data.size());
  EXPECT_EQ(there.slot(2).get<uint64_t>(), 128U);
  EXPECT_TRUE(std::equal(data.begin(), data.end(), there.data(128)));
  EXPECT_EQ(there.slot(3).bytes, 0U);
  EXPECT_EQ(there.slot(4).kind, SlotKind::announced);
  EXPECT_EQ(there.slot(4).bytes, announced.size());
}

TEST(RemoteMailbox, HasTheWordsThatItsLikeHad) {
  End a;
  End b;
  Bytes room(10);
  a.mailbox.to().head().read = 5;
  a.mailbox.tell_read();
  a.mailbox.to().channel(kChannel).taken = 6;
  a.mailbox.tell_taken(kChannel);
  a.mailbox.to().channel(kChannel).wanted = 7;
  a.mailbox.want(kChannel, room.data(), room.size());
  while (!a.wire.sent.empty()) {
    EXPECT_TRUE(b.receive(a.wire.take()));
  }
  EXPECT_EQ(b.mailbox.from().head().read, 5U);
  EXPECT_EQ(b.mailbox.from().channel(kChannel).taken, 6U);
  EXPECT_EQ(b.mailbox.from().channel(kChannel).wanted, 7U);
  EXPECT_EQ(b.mailbox.from().channel(0).taken, 0U);
}

// Parts may come in any order: what has come is a number of bytes.
TEST(RemoteMailbox, BringsALongMessageInPartsToItsPlace) {
  End a;
  End b;
  const Bytes message = bytes_of(kMessage - 5);
  Bytes room(message.size());
  b.mailbox.want(kChannel, room.data(), room.size());
  size_t sent = 0;
  while (sent < message.size()) {
    sent += a.mailbox.send_part(kChannel, sent, std::span(message).subspan(sent));
  }
  ASSERT_GE(a.wire.sent.size(), 3U);

  std::swap(a.wire.sent[0], a.wire.sent[2]);
  size_t came = 0;
  while (!a.wire.sent.empty()) {
    EXPECT_EQ(b.mailbox.came(kChannel), came);
    came += a.wire.sent.front().payload.size();
    ASSERT_TRUE(b.receive(a.wire.take()));
  }
  EXPECT_EQ(b.mailbox.came(kChannel), message.size());
  EXPECT_EQ(room, message);
}

TEST(RemoteMailbox, KeepsAFewPartsUnderWayAndTellsWhenThereIsRoom) {
  End a;
  const Bytes message = bytes_of(20 * kMessage);
  size_t sent = 0;
  const auto send_next = [&] {
    const size_t bytes = a.mailbox.send_part(kChannel, sent, std::span(message).subspan(sent));
    sent += bytes;
    return bytes;
  };
  EXPECT_TRUE(a.mailbox.has_sent_parts(kChannel));
  while (send_next() != 0) {
  }
  const size_t most = a.wire.sent.size();
  EXPECT_GE(most, 2U);
  EXPECT_LT(most, 20U);
  EXPECT_FALSE(a.mailbox.has_sent_parts(kChannel));
  EXPECT_TRUE(a.mailbox.has_sent_parts(0)) << "another channel";

  // A thread that sleeps is woken when the engine lets go of a part.
  const uint32_t bell = a.mailbox.from().head().bell;
  a.sleepers = 1;
  a.wire.take();
  EXPECT_NE(a.mailbox.from().head().bell, bell);
  EXPECT_EQ(a.mailbox.send_part(0, 0, std::span(message).first(9)), 9U);
  EXPECT_FALSE(a.mailbox.has_sent_parts(0));
  EXPECT_EQ(send_next(), 0U) << "a part of another channel took its place";
  a.wire.sent.clear();
  EXPECT_TRUE(a.mailbox.has_sent_parts(kChannel));
  EXPECT_NE(send_next(), 0U);
}

// ---- messages of a peer that breaks the protocol have no place, and so the engine loses the peer

TEST(RemoteMailbox, TakesNoPartThatWasNotAskedFor) {
  End a;
  EXPECT_FALSE(a.receive_part(0, 8)) << "nothing is wanted";

  Bytes room(100);
  a.mailbox.want(kChannel, room.data(), 60);
  EXPECT_FALSE(a.receive_part(0, 8, kChannel + 1)) << "on another channel";
  EXPECT_FALSE(a.receive_part(0, 8, 4)) << "on a channel that there is not";
  EXPECT_FALSE(a.receive_part(60, 1)) << "behind the end";
  EXPECT_FALSE(a.receive_part(0, 61)) << "too long";
  EXPECT_FALSE(a.receive_part(SIZE_MAX, 2)) << "before the start";

  EXPECT_TRUE(a.receive_part(0, 40));
  EXPECT_FALSE(a.receive_part(0, 40)) << "more than the message has, in all";
  EXPECT_TRUE(a.receive_part(40, 20));
  EXPECT_EQ(a.mailbox.came(kChannel), 60U);
  EXPECT_FALSE(a.receive_part(0, 1)) << "all has come";
  EXPECT_TRUE(std::all_of(
      room.begin() + 60, room.end(), [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST(RemoteMailbox, TakesNoSlotThatHasNoPlace) {
  End a;
  const auto refused = [&](SlotKind kind, size_t offset, size_t bytes) {
    const Head head{.kind = kSlot,
        .channel = kChannel,
        .offset = offset,
        .bytes = bytes,
        .value = UINT64_MAX,
        .call = static_cast<uint64_t>(kind)};
    return !a.receive(head, Bytes(bytes));
  };
  EXPECT_FALSE(refused(SlotKind::inside, 0, MessageSlot::kInside));
  EXPECT_TRUE(refused(SlotKind::inside, 0, MessageSlot::kInside + 1));
  EXPECT_FALSE(refused(SlotKind::data, a.shape.data - 8, 8));
  EXPECT_TRUE(refused(SlotKind::data, a.shape.data - 8, 9));
  EXPECT_TRUE(refused(SlotKind::data, SIZE_MAX - 2, 8));
  for (const int kind : {0, 3, 4, 5, 99}) {
    EXPECT_TRUE(refused(static_cast<SlotKind>(kind), 0, 8)) << kind;
  }
  // Words of no channel, and of none that there is.
  EXPECT_TRUE(a.receive({.kind = kSlotWord, .channel = 4, .offset = 1, .value = 9}));
  EXPECT_TRUE(a.receive({.kind = kSlotWord, .channel = kChannel, .offset = 3, .value = 9}));
  EXPECT_EQ(a.mailbox.from().channel(kChannel).taken, 0U);
  EXPECT_EQ(a.mailbox.from().channel(kChannel).wanted, 0U);
}

TEST(RemoteMailbox, CutsThePeerOff) {
  End a;
  a.mailbox.cut();
  EXPECT_EQ(a.wire.cuts, std::vector<int>{kPeer});
}
}  // namespace
}  // namespace symm::multinode
