// A maker of versions, their holder, or a reader that goes from one to the other is killed at each
// point that it comes by. What the holder has is found and read when its maker is gone; if the
// holder or the reader dies, nothing is left, and others take its place.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/points/life.hpp"
#include "tools/hold/holder.hpp"

namespace support {
namespace {
constexpr size_t kHeldBytes = 1 << 16;
constexpr char kHeldName[] = "held";

// A version in a buffer of its own, all of whose bytes are its number.
struct HeldWeights {
  HeldWeights(const Group& group, uint64_t version) : buffer(group.allocate(kHeldBytes)) {
    std::fill_n(buffer.span().data(), kHeldBytes, static_cast<std::byte>(version));
    symm_ipc_piece_t piece = SYMM_IPC_PIECE_INIT;
    piece.pointer = buffer.span().data();
    piece.bytes = kHeldBytes;
    piece.name = "all";
    symm::ipc_publish(kHeldName, version, symm::ipc_export_bundle(symm::Span(&piece, 1)));
  }
  bool is_held() const { return symm::ipc_holders(buffer.span()).leases != 0; }
  Buffer buffer;
};

class HoldAtPoints : public testing::TestWithParam<const char*> {
 protected:
  HoldAtPoints() { setenv("SYMM_IPC_DIRECTORY", meeting.path().c_str(), 1); }
  ~HoldAtPoints() override { unsetenv("SYMM_IPC_DIRECTORY"); }

  // From now on this process is killed at the point of the test.
  void arm() const {
    plan.action = Action::kill;
    plan.facts = &*facts;
    plan.point = point_.c_str();
  }
  static Group alone() {
    symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
    config.size = 1;
    config.backend = SYMM_BACKEND_HOST;
    config.bootstrap = "thread://held";
    return Group::create(config);
  }
  // Publishes version 1 and, if it is the victim, version 2 when the first is held.
  Process maker(bool is_victim) const {
    return Process([this, is_victim] {
      const Group group = alone();
      const HeldWeights first(group, 1);
      EXPECT_TRUE(eventually([&] { return first.is_held(); }));
      ++facts->heard;
      if (!is_victim) sleep_for_ever();
      arm();
      const HeldWeights second(group, 2);
      EXPECT_TRUE(eventually([&] { return second.is_held(); }));
      symm::ipc_withdraw_version(kHeldName, 2, {10'000});
      sleep_for_ever();
    });
  }
  Process holder(bool is_victim) const {
    return Process([this, is_victim] {
      if (is_victim) arm();
      symm::tool::Holder holder(kHeldName, 1, [this](const std::string& said) {
        if (said.starts_with("holds")) ++facts->through;
      });
      for (;;) {
        holder.look();
        usleep(1000);
      }
    });
  }
  // A process that reads a version: it is one of those that there were, and whole.
  static void expect_readable(uint64_t at_most) {
    Process([at_most] {
      symm_ipc_lookup_options_t looking = SYMM_IPC_LOOKUP_OPTIONS_INIT;
      looking.timeout_ms = kTimeoutMs;
      Outcome read;
      EXPECT_TRUE(eventually([&] {
        read = outcome_of([&] {
          const symm::PublishedVersion found =
              symm::ipc_lookup(kHeldName, SYMM_COMPARE_GE, 0, looking);
          EXPECT_LE(found.version, at_most);
          const symm::Import bundle(found.token);
          const symm_ipc_piece_t piece = bundle.bundle_piece("all");
          const auto* const bytes = static_cast<const std::byte*>(piece.pointer);
          EXPECT_TRUE(std::all_of(bytes, bytes + piece.bytes,
              [&](std::byte byte) { return byte == static_cast<std::byte>(found.version); }));
        });
        return read.status == SYMM_OK;
      })) << read.message;
    }).expect_success("a reader");
  }
  void expect_killed(Process& victim) const {
    EXPECT_TRUE(WIFSIGNALED(victim.wait())) << victim.said();
    EXPECT_NE(facts->fired_ms, 0) << "it did not come by " << point_;
  }
  static void end(Process& process) {
    process.kill(SIGKILL);
    EXPECT_TRUE(process.reap(20'000));
  }
  // The next exporter removes what the dead have left.
  void expect_nothing_left() const {
    EXPECT_TRUE(eventually([&] {
      Process([] {
        const Group group = alone();
        const HeldWeights last(group, 9);
      }).wait();
      return std::filesystem::is_empty(meeting.path());
    }));
  }

  const Bootstrap meeting;
  const Shared<Facts> facts;
  const std::string point_ = std::string("point:") + GetParam();
};

using SleeperAtPoints = HoldAtPoints;
using MakerAtPoints = HoldAtPoints;
using HolderTakesAtPoints = HoldAtPoints;
using HolderGivesAtPoints = HoldAtPoints;

TEST_P(MakerAtPoints, WhatIsHeldIsReadWhenItIsKilled) {
  Process holding = holder(false);
  Process making = maker(true);
  expect_killed(making);
  expect_readable(2);
  end(holding);
  expect_nothing_left();
}
INSTANTIATE_TEST_SUITE_P(Hold, MakerAtPoints,
    testing::Values(
        "ipc.export", "ipc.bundle", "ipc.publish", "ipc.published", "ipc.serve", "ipc.withdraw"));

// The maker goes on, and another holder does what the first did not come to.
TEST_P(HolderTakesAtPoints, AnotherTakesItsPlace) {
  Process making = maker(false);
  Process first = holder(true);
  expect_killed(first);
  Process second = holder(false);
  // The maker may have granted the first one a lease.
  EXPECT_TRUE(eventually([&] { return facts->through != 0; }));
  end(making);
  expect_readable(1);
  end(second);
  expect_nothing_left();
}
INSTANTIATE_TEST_SUITE_P(Hold, HolderTakesAtPoints,
    testing::Values("ipc.dial", "ipc.welcome", "ipc.requested", "ipc.table", "ipc.mapped"));

// Its own death, while it gives again what lost its maker, leaves nothing.
TEST_P(HolderGivesAtPoints, NothingIsLeft) {
  Process making = maker(false);
  Process holding = holder(true);
  EXPECT_TRUE(eventually([&] { return facts->heard != 0; }));
  end(making);
  expect_killed(holding);
  expect_nothing_left();
}
INSTANTIATE_TEST_SUITE_P(Hold, HolderGivesAtPoints,
    testing::Values("ipc.export", "ipc.bundle", "ipc.publish", "ipc.published"));

// The maker has no lease to wait for when the reader is gone, and the versions stay what they were.
TEST_P(SleeperAtPoints, ItsLeasesAreOver) {
  Process making([this] {
    const Group group = alone();
    const HeldWeights first(group, 1);
    const HeldWeights second(group, 2);
    ++facts->heard;
    EXPECT_TRUE(eventually([&] { return facts->through == 1; }));
    for (const uint64_t version : {uint64_t{1}, uint64_t{2}}) {
      symm::ipc_withdraw_version(kHeldName, version, {10'000});
    }
    sleep_for_ever();
  });
  EXPECT_TRUE(eventually([&] { return facts->heard == 1; }));

  Process reading([this] {
    const symm::Token tokens[] = {symm::ipc_lookup(kHeldName, SYMM_COMPARE_EQ, 1).token,
        symm::ipc_lookup(kHeldName, SYMM_COMPARE_EQ, 2).token};
    const symm::Import bundle(tokens[0]);
    const auto* const at = static_cast<const std::byte*>(bundle.bundle_piece("all").pointer);
    arm();
    for (size_t i = 1;; ++i) {
      bundle.suspend();
      bundle.resume(tokens[i % 2]);
      EXPECT_EQ(*at, static_cast<std::byte>(1 + i % 2));
    }
  });
  expect_killed(reading);
  expect_readable(2);
  facts->through = 1;
  EXPECT_TRUE(eventually([] {
    symm_ipc_lookup_options_t looking = SYMM_IPC_LOOKUP_OPTIONS_INIT;
    looking.timeout_ms = SYMM_TIMEOUT_NOW;
    return outcome_of([&] { symm::ipc_lookup(kHeldName, SYMM_COMPARE_GE, 0, looking); }).status ==
           SYMM_ERR_TIMEOUT;
  }));
  end(making);
  expect_nothing_left();
}
INSTANTIATE_TEST_SUITE_P(Hold, SleeperAtPoints,
    testing::Values("ipc.suspend", "ipc.requested", "segment.remap", "ipc.mapped"));
}  // namespace
}  // namespace support
