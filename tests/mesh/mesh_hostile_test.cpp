// Strangers on the socket of a rank: other users, noise, floods, wrong nonces. They are
// counted and cannot change the outcome.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/peer_fd.hpp"
#include "core/bootstrap/store.hpp"
#include "core/mesh/hello_listener.hpp"
#include "core/mesh/mesh.hpp"
#include "core/mesh/wire.hpp"
#include "core/socket/fdpass.hpp"
#include "core/socket/socket.hpp"
#include "tests/mesh/mesh_support.hpp"

namespace {
using namespace symm;
using namespace support;

// The record that rank 0 publishes of itself; waits for it.
wire::Packet published(Store& store, const std::string& key) {
  const Bytes record = store.get("mesh/" + key + "/0", soon());
  wire::Packet packet;
  EXPECT_EQ(wire::decode(record, packet), nullptr);
  return packet;
}

using MeshHostile = MeshTest;

std::vector<PeerFd> disturb(Store& store) {
  const std::string name = published(store, "address").address.name;
  std::vector<PeerFd> open;
  for (int i = 0; i < 200; ++i) {
    PeerFd fd = dial(store.directory(), name);
    if (!fd) {
      --i;
      std::this_thread::yield();
      continue;
    }
    std::vector<std::byte> packet;
    if (i % 4 == 1) {
      packet.assign(static_cast<size_t>(1 + i), std::byte{static_cast<unsigned char>(i * 37)});
    }
    if (i % 4 == 2) packet.assign(60'000, std::byte{1});
    if (i % 4 == 3) {
      wire::Hello hello;
      hello.nonce =
          // Every second nonce is wrong; the others are right, but their cookie is wrong.
          published(store, "identity").identity.nonce + (i % 8 == 3 ? 1U : 0U);
      hello.rank = 1;
      hello.size = 2;
      packet = wire::encode({.type = wire::Type::hello, .source = 1}, hello);
    }
    const int gift[] = {0, 0, 0, 0};
    if (!packet.empty()) {
      fdpass::send(fd.get(), packet, i % 2 == 1 ? std::span(gift) : std::span<const int>());
    }
    open.push_back(std::move(fd));
  }

  return open;
}

TEST_F(MeshHostile, NoiseDuringConnectIsCountedAndHarmless) {
  Process rank0([&] {
    const size_t before = open_descriptors();
    const auto mesh = connect(directory.path(), 0, 2);
    greet(*mesh, 1);
    // A mesh of two has six descriptors: socket, pidfd, epoll with its question, and its life with
    // the bell.
    constexpr size_t kDescriptors = 6;
    return open_descriptors() <= before + kDescriptors
               ? format("%lu", mesh->rejected_connections())
               : format("leak of %zu", open_descriptors() - before - kDescriptors);
  });

  // Rank 1 introduces itself, so that rank 0 opens its socket, and connects after the strangers.
  Process rank1([&] {
    std::vector<PeerFd> strangers;
    const auto files = open_store(directory.path(), 1, 2);
    WatchedStore store(*files, [&](const std::string& key, const Bytes&) {
      if (key == "mesh/address/0" && strangers.empty()) strangers = disturb(*files);
    });
    const auto mesh = Mesh::connect(store, 1, 2, "test", soon());
    greet(*mesh, 1);
    return std::string("ok");
  });

  EXPECT_EQ(rank1.result(), "ok");
  const std::string rejected = rank0.result();

  // The 50 strangers that stay silent are closed at the end, uncounted.
  EXPECT_GE(std::atoi(rejected.c_str()), 150) << rejected;
}

TEST_F(MeshHostile, ALookEndsWhileOthersStillCome) {
  HelloListener listener(directory.path(), "r0");
  std::vector<PeerFd> crowd;
  for (int i = 0; i < 100; ++i) {
    fdpass::send(crowd.emplace_back(dial(directory.path(), "r0")).get(), bytes_of("?"), {});
  }
  for (const uint64_t refused : {64, 100}) {
    listener.admit(soon(), [](const wire::Hello&, PeerFd&) { return false; });
    EXPECT_EQ(listener.refused(), refused);
  }
}

TEST_F(MeshHostile, ADirectoryOpenToOthersIsRefused) {
  ASSERT_EQ(chmod(directory.path().c_str(), 0755), 0);
  expect_failure(Status::unavailable, {directory.path(), "open to others"},
      [&] { Listener(directory.path(), "s"); });
}

TEST_F(MeshHostile, AnotherUserIsRefusedUnread) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  Listener listener(directory.path(), "s");
  ASSERT_EQ(chmod(directory.path().c_str(), 0777), 0);  // as if the directory did not protect us
  ASSERT_EQ(chmod((directory / "s").c_str(), 0777), 0);
  Process stranger([&] {
    if (setuid(65534) != 0) return "no other user";
    const Fd fd(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (directory / "s").copy(address.sun_path, sizeof address.sun_path - 1);
    return ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0
               ? "connected"
               : "refused";
  });

  ASSERT_EQ(stranger.result(), "connected");
  uint64_t refused = 0;
  EXPECT_FALSE(listener.accept(refused));
  EXPECT_EQ(refused, 1U);
  EXPECT_EQ(chmod(directory.path().c_str(), 0700), 0);
}
}  // namespace
