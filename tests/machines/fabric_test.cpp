// GPUs of two hosts in one NVLink domain, on the fake driver:
// fabric handles travel on the encrypted connections between
// the hosts, and nothing is issued while a host is silent.
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/group/collective.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "kernels/types.hpp"
#include "tests/cuda/group.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"
#include "tests/machines/two_machines.hpp"
#include "tests/support/core.hpp"

namespace symm {
namespace {
using Clock = std::chrono::steady_clock;

class MachinesFabric : public support::TwoMachines {
 protected:
  // Calls `entered` when this process is on the host of `rank`.
  std::shared_ptr<Group> group_of(int rank, const std::function<void()>& entered = [] {}) const {
    enter(rank);
    entered();
    enter_domain(rank);
    // These hosts have one kernel, and one boot id with it.
    setenv("SYMM_MACHINE", ("m" + std::to_string(rank / 2)).c_str(), 1);
    GroupConfig config;
    config.backend = BackendKind::cuda;
    config.create_timeout_ms = 20'000;
    config.timeout_ms = 20'000;
    return Group::create(config);
  }
};

// What goes over the network of a host, for as long as this object lives.
class Wiretap {
 public:
  Wiretap()
      : socket_(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL))) {
    const int most = 32 << 20;
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUFFORCE, &most, sizeof most);
  }
  ~Wiretap() { close(socket_); }

  // All frames so far, one behind the other.
  std::string heard() const {
    std::string all;
    char frame[1 << 16];
    for (ssize_t bytes = 0; bytes >= 0; bytes = recv(socket_, frame, sizeof frame, 0)) {
      all.append(frame, static_cast<size_t>(bytes));
    }
    return all;
  }

 private:
  const int socket_;
};

void send_in_the_clear(const std::string& text, const char* to) {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(9);
  inet_pton(AF_INET, to, &address.sin_addr);
  sendto(socket, text.data(), text.size(), 0, reinterpret_cast<const sockaddr*>(&address),
      sizeof address);
  close(socket);
}

TEST_F(MachinesFabric, HandlesTravelOnTheConnectionsBetweenHosts) {
  support::Processes ranks(4, [&](int rank) {
    return support::outcome_of([&] {
      std::optional<Wiretap> network;
      const auto group = group_of(rank, [&] { network.emplace(); });
      EXPECT_EQ(group->machines().count, 1);
      EXPECT_TRUE(group->machines().spans_hosts(rank));
      const auto buffer = Buffer::allocate(*group, 1 << 20);
      const auto memory = Memory::rendezvous(group, buffer, 1);
      *reinterpret_cast<int*>(memory->pointer(rank)) = 100 + rank;
      Memory::rendezvous(group, Buffer::allocate(*group, 64), 2);
      for (int peer = 0; peer < 4; ++peer) {
        EXPECT_EQ(*reinterpret_cast<int*>(memory->pointer(peer)), 100 + peer);
      }
      // No handle was on the network in the clear; one that is sent so is found.
      const FabricHandle handle = buffer->block()->share().extent.fabric;
      const std::string secret(reinterpret_cast<const char*>(handle.data()), 16);
      EXPECT_NE(handle, FabricHandle{});
      const std::string said = network->heard();
      EXPECT_GT(said.size(), 10'000U);
      EXPECT_EQ(said.find(secret), std::string::npos);
      send_in_the_clear(secret, rank < 2 ? "10.77.0.11" : "10.77.0.10");
      EXPECT_TRUE(
          support::eventually([&] { return network->heard().find(secret) != std::string::npos; }));
      Memory::rendezvous(group, Buffer::allocate(*group, 64), 3);
      return std::string(::testing::Test::HasFailure() ? "an expectation failed" : "");
    });
  });
  for (support::Process& rank : ranks) {
    EXPECT_EQ(rank.result(), "");
  }
}

// A cable is pulled. The heartbeats of 125 ms stay away, and after
// four of them a call waits, until the host is taken for dead after
// a second. What its GPU may still write to is not given out again.
TEST_F(MachinesFabric, NothingIsIssuedWhileAHostIsSilent) {
  support::Processes ranks(4, [&](int rank) {
    return support::outcome_of([&] {
      const auto group = group_of(rank);
      const auto buffer = Buffer::allocate(*group, 1 << 20);
      const auto memory = Memory::rendezvous(group, buffer, 1);
      std::byte* const block = memory->pointer(rank);
      support::tell();

      // Some time after the cable was pulled calls stop to be issued; then the group fails.
      auto last = Clock::now();
      const Failure failure = support::failure_of([&] {
        for (const auto begin = last; Clock::now() - begin < std::chrono::seconds(10);) {
          run_collective(*group, call_of(Collective::allreduce, block, 100, DType::bf16));
          last = Clock::now();
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
      });
      const auto held = Clock::now() - last;
      EXPECT_EQ(failure.status, Status::peer_failed) << failure.message;
      EXPECT_NE(failure.message.find("cut off"), std::string::npos) << failure.message;
      EXPECT_GT(held, std::chrono::milliseconds(200));

      const auto rest = group->shrink({.call_timeout_ms = 5'000});
      EXPECT_EQ(rest->size(), 2);
      const Failure reused = support::failure_of([&] { Memory::rendezvous(rest, buffer, 2); });
      EXPECT_EQ(reused.status, Status::unavailable) << reused.message;
      EXPECT_NE(reused.message.find("may still write"), std::string::npos) << reused.message;
      return std::string(::testing::Test::HasFailure() ? "an expectation failed" : "");
    });
  });
  for (support::Process& rank : ranks) {
    rank.told();
  }
  EXPECT_EQ(run(MACHINES " link @ 10.77.0.11 down"), "");
  for (support::Process& rank : ranks) {
    EXPECT_EQ(rank.result(), "");
  }
}
}  // namespace
}  // namespace symm
