// Behaviour that UCX may show, but that the real one does not show on demand, by tests/fake_ucx.
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/engine/link.hpp"
#include "core/engine/message_engine.hpp"
#include "tests/engine/engine_support.hpp"

namespace {
using namespace support;
using symm::Status;

// Runs `body` in a process of its own with a fake UCX that follows `script`.
void with_fake(
    const std::string& library, const std::string& script, const std::function<void()>& body) {
  TemporaryDirectory directory;
  std::ofstream(directory.path() + "/script") << script;
  Process([&] {
    setenv("SYMM_UCX", library.c_str(), 1);
    setenv("FAKE_UCX", (directory.path() + "/script").c_str(), 1);
    body();
  }).expect_success(script);
}

// Two ranks of a group in one process.
struct Two {
  Served served{open_ucx_here};
  End one{served, 7, 0, 2};
  End two{served, 7, 1, 2};

  Two() {
    one.endpoint->connect(1, served.messages->address());
    two.endpoint->connect(0, served.messages->address());
  }
};

TEST(FakeUcx, OneThatCannotBeUsedIsNamedWithWhatToInstall) {
  const struct {
    std::string library;
    std::string script;
    std::vector<std::string> words;
  } cases[] = {{"/nowhere/libucp.so.0", "", {"/nowhere/libucp.so.0", "libucx0", "SYMM_UCX"}},
      {FAKE_UCX, "old", {"ucx 1.12.9 (" FAKE_UCX ")", "1.13"}},
      {FAKE_UCX_WITHOUT_ARM, "", {"ucx 1.13.9", FAKE_UCX_WITHOUT_ARM, "has no ucp_worker_arm"}},
      {FAKE_UCX, "refuses", {"SYMM_UCX_TLS"}}};

  for (const auto& one : cases) {
    with_fake(one.library, one.script, [&] {
      expect_failure(Status::unavailable, one.words, [] { open_engine({"127.0.0.1"}); });
    });
  }
}

TEST(FakeUcx, WhatTheUserAsksOfItIsNotChanged) {
  for (const char* asked : {"", "64k"}) {
    with_fake(FAKE_UCX, "", [&] {
      setenv("UCX_RNDV_THRESH", asked, 1);
      setenv("UCX_TCP_RX_SEG_SIZE", asked, 1);
      setenv("UCX_TCP_TX_SEG_SIZE", asked, 1);
      setenv("UCX_ZCOPY_THRESH", asked, 1);
      const Two both;
      EXPECT_EQ(getenv("FAKE_RNDV_THRESH") == nullptr, *asked != '\0');
      EXPECT_STREQ(getenv("FAKE_TCP_RX_SEG_SIZE"), *asked != '\0' ? asked : "256k");
      // On a machine with RDMA devices, UCX's own choices stay.
      const bool is_chosen = *asked == '\0' && rdma_devices().empty();
      EXPECT_STREQ(getenv("FAKE_TCP_TX_SEG_SIZE"), is_chosen ? "64k" : nullptr);
      EXPECT_STREQ(getenv("FAKE_ZCOPY_THRESH"), is_chosen ? "inf" : nullptr);
    });
  }
}

// UCX's port is open where the group's machines are connected, and nowhere else, unless the user
// has said by which devices UCX shall go.
TEST(FakeUcx, ListensWhereTheMachinesAreConnectedUnlessTheUserChose) {
  const struct {
    std::vector<std::string> interfaces;
    const char* variable;
    const char* file;
    const char* given;
  } cases[] = {{{"eth0"}, "", nullptr, "eth0"}, {{"eth0", "ib0"}, "", "all", "eth0,ib0"},
      {{"lo"}, "", nullptr, "lo"}, {{}, "", nullptr, nullptr}, {{"eth0"}, "all", nullptr, nullptr},
      {{"eth0"}, "mlx5_0:1", nullptr, nullptr}, {{"eth0"}, "", "eth1,eth2", nullptr}};

  for (const auto& one : cases) {
    with_fake(FAKE_UCX, "", [&] {
      setenv("UCX_NET_DEVICES", one.variable, 1);
      if (one.file != nullptr) setenv("FAKE_FILE", one.file, 1);
      const Served served([&](Sink& sink) { return open_ucx(sink, one.interfaces); });
      EXPECT_STREQ(getenv("FAKE_NET_DEVICES"), one.given);
    });
  }
}

TEST(FakeUcx, RdmaDevicesAreUsedBesidesTheInterfaces) {
  const TemporaryDirectory devices;
  for (const char* port : {"mlx5_0/ports/1", "mlx5_1/ports/1", "mlx5_1/ports/2"}) {
    std::filesystem::create_directories(devices.path() + "/" + port);
  }

  const std::vector<std::string> rdma = rdma_devices(devices.path());
  std::istringstream list(ucx_devices({"eth0", "ib0"}, rdma));
  std::multiset<std::string> found;
  for (std::string device; std::getline(list, device, ',');) {
    found.insert(device);
  }
  EXPECT_EQ(found, (std::multiset<std::string>{"eth0", "ib0", "mlx5_0:1", "mlx5_1:1", "mlx5_1:2"}));
  EXPECT_EQ(ucx_devices({}, rdma), "");
  EXPECT_EQ(ucx_devices({"eth0"}, rdma_devices(devices.path() + "/none")), "eth0");
}

TEST(FakeUcx, APeerThatIsUnreachableIsReportedWithTheRemedy) {
  with_fake(FAKE_UCX, "far", [] {
    expect_failure(Status::unavailable,
        {"ucx 1.13.9: ucp_ep_create: Destination is unreachable", "UCX_NET_DEVICES"},
        [] { const Two both; });
  });
}

TEST(FakeUcx, ALineThatBreaksIsToldOnceHoweverOftenAndLate) {
  for (const char* script : {"breaks", "breaks twice", "breaks twice late"}) {
    with_fake(FAKE_UCX, script, [] {
      Two both;
      both.one.send(1, {.kind = 1});
      EXPECT_TRUE(both.one.await(0, 1));
      EXPECT_TRUE(both.two.await(0, 1));
      expect_failure(Status::peer_failed, {"ucx 1.13.9 lost rank 1: Connection reset"},
          [&] { both.one.send(1, {.kind = 1}); });
      both.one.endpoint->cut(1);
      EXPECT_EQ(both.one.losses.size(), 1U);
      EXPECT_FALSE(both.served.messages->address().empty());
    });
  }
}

TEST(FakeUcx, AnEngineThatDoesNotEndWhatIsUnderWayIsGivenUp) {
  with_fake(FAKE_UCX, "silent", [] {
    Two both;
    expect_failure(Status::timeout, {"rank 1"}, [&] { both.one.send(1, {.kind = 1}, {}, 100); });
    EXPECT_TRUE(both.two.await(0, 1));
    expect_failure(
        Status::unavailable, {"ucx 1.13.9 was given up"}, [&] { both.served.messages->address(); });
  });
}
}  // namespace
