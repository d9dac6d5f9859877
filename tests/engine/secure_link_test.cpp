// Symm's own connections as a link: who is kept out, and who gets in all the same.
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/peer_fd.hpp"
#include "core/bootstrap/store.hpp"
#include "core/engine/link.hpp"
#include "core/socket/secure.hpp"
#include "core/socket/tcp.hpp"
#include "tests/engine/engine_support.hpp"

namespace {
using namespace support;
using symm::Status;

class SecureLink : public testing::Test {
 protected:
  void SetUp() override {
    use_secret("secret");
    try {
      symm::read_secret();
    } catch (const symm::Error& error) {
      // Without libsodium, say. What else fails here is a failure.
      if (error.status() != symm::Status::unavailable) throw;
      GTEST_SKIP() << error.what();
    }
  }
  void use_secret(const std::string& name) const {
    setenv("SYMM_SECRET_FILE", (secrets_.path() + "/" + name).c_str(), 1);
  }
  // The port in an address: behind the key of the message engine and the id of the process.
  static uint16_t port_of(const symm::Bytes& address) {
    constexpr size_t kAt = sizeof(Key) + 16;
    return static_cast<uint16_t>(
        std::to_integer<unsigned>(address[kAt]) | std::to_integer<unsigned>(address[kAt + 1]) << 8);
  }
  // A connection of a stranger, who has sent this.
  static symm::PeerFd stranger(uint16_t port, const std::string& says) {
    symm::PeerFd socket = symm::dial_tcp("127.0.0.1", port);
    EXPECT_TRUE(eventually([&] {
      return says.empty() || send(socket.get(), says.data(), says.size(), MSG_NOSIGNAL) > 0;
    }));
    return socket;
  }

 private:
  const TemporaryDirectory secrets_;
};

TEST_F(SecureLink, StrangersEndAndReadNothing) {
  Served served[] = {Served(open_secure_here), Served(open_secure_here)};
  End one(served[0], 7, 0, 2);
  End two(served[1], 7, 1, 2);
  const uint16_t port = port_of(served[1].messages->address());

  std::vector<symm::PeerFd> strangers;
  std::string long_one(1U << 16, '\xFF');
  std::string greeting = "symm";
  greeting.resize(200, '\x01');
  for (const std::string& says : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(8, '\0'),
           std::string("\xCA\xFE\xBA\xBE\xCA\xFE\xBA\xBE\x10\x00\x00\x00", 12), long_one, greeting,
           std::string("x")}) {
    strangers.push_back(stranger(port, says));
  }

  one.endpoint->connect(1, served[1].messages->address());
  one.send(1, {.kind = 1}, one.memory);
  ASSERT_TRUE(two.await(1));
  EXPECT_TRUE(one.losses.empty() && two.losses.empty());

  // Who is not a rank is told nothing, and hung up on once it has said as much as a greeting has.
  char answer = 0;
  EXPECT_TRUE(eventually([&] {
    const ssize_t got = recv(strangers[3].get(), &answer, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }));
}

TEST_F(SecureLink, AThousandSilentConnectionsKeepNobodyOut) {
  leave_descriptors(2'500);
  Served served[] = {Served(open_secure_here), Served(open_secure_here)};
  End one(served[0], 7, 0, 2);
  End two(served[1], 7, 1, 2);
  std::vector<symm::PeerFd> silent;
  while (silent.size() < 1'000) {
    silent.push_back(stranger(port_of(served[1].messages->address()), ""));
  }

  one.endpoint->connect(1, served[1].messages->address());
  one.send(1, {.kind = 1}, one.memory);
  EXPECT_TRUE(two.await(1));
  EXPECT_TRUE(one.losses.empty() && two.losses.empty());
}

TEST_F(SecureLink, AProcessWithAnotherSecretIsRefused) {
  Served theirs(open_secure_here);
  use_secret("another");
  Served own(open_secure_here);
  End one(own, 7, 0, 2);
  End two(theirs, 7, 1, 2);

  one.endpoint->connect(1, theirs.messages->address());
  EXPECT_TRUE(one.await(0, 1));
  EXPECT_TRUE(two.heads.empty());
  expect_failure(Status::peer_failed, {"secure 1 lost rank 1"}, [&] { one.send(1, {.kind = 1}); });
}

TEST_F(SecureLink, IsChosenByAVariable) {
  const auto name_with = [](const char* asked) {
    return Process([&]() -> std::string {
      setenv("SYMM_ENGINE", asked, 1);
      try {
        open_engine({"127.0.0.1"});
        return engine_name();
      } catch (const symm::Error& error) {
        return error.what();
      }
    }).result();
  };
  EXPECT_EQ(name_with("secure"), "secure 1");
  EXPECT_EQ(name_with("tcp"), "SYMM_ENGINE: 'tcp' is neither 'ucx' nor 'secure'");
}
}  // namespace
