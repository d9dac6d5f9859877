// Ranks that connect while silent strangers do.
#include "core/socket/secure_connection.hpp"

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/base/peer_fd.hpp"
#include "core/socket/fdpass.hpp"
#include "core/socket/secure_listener.hpp"
#include "core/socket/tcp.hpp"
#include "tests/support/core.hpp"

namespace {
using namespace symm;
using namespace support;

struct Heard final : SecureConnection::Receiver {
  const char* on_frame(std::span<const std::byte> frame) override {
    text += text_of({frame.begin(), frame.end()});
    ++count;
    return nullptr;
  }

  void on_end(bool, const std::string&) override {}

  std::string text;
  std::atomic<size_t> count = 0;
};

using SecureListeners = WithSecret;

// A client that has greeted stays. A client that was turned away before it could greet connects
// again.
TEST_F(SecureListeners, TurnAwaySilentClientsAndNoRankForGood) {
  leave_descriptors(2'200);
  const auto heard = std::make_shared<Heard>();
  const auto admit = [&](const auto&, std::span<const std::byte> first) {
    heard->on_frame(first);
    return heard;
  };

  const auto listener = std::make_shared<SecureListener>("127.0.0.1", 0, secret_, 0, admit);
  listener->start();
  const auto dial = [&] { return dial_tcp("127.0.0.1", listener->port()); };
  const auto greeted = std::make_shared<SecureConnection>(dial(), true, secret_, 0);
  greeted->start(heard);
  ASSERT_TRUE(eventually([&] { return greeted->known(); }));
  const auto late = std::make_shared<SecureConnection>(dial(), true, secret_, 0);
  std::vector<PeerFd> silent;
  while (silent.size() < 300) {
    silent.push_back(dial());
  }

  ASSERT_TRUE(eventually([&] { return listener->refused() == 302 - 256; }));
  late->start(heard);
  for (const auto& connection : {greeted, late}) {
    EXPECT_EQ(connection->send(bytes_of("hello"), soon()), fdpass::Sent::done);
  }

  EXPECT_TRUE(eventually([&] { return heard->count == 2; }));
  EXPECT_EQ(heard->text, "hellohello");
}
}  // namespace
