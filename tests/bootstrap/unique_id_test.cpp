// Ranks that meet by an id, in a directory of this machine or at the process that made the id.
#include "core/bootstrap/unique_id.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/hash.hpp"
#include "core/base/little_endian.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/bootstrap.hpp"
#include "core/bootstrap/store.hpp"
#include "tests/support/core.hpp"

namespace {
using namespace symm;
using namespace support;

enum class Place { directory, tcp };

class UniqueIds : public testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    setenv("XDG_RUNTIME_DIR", top_.path().c_str(), 1);
    setenv("SYMM_SECRET_FILE", (top_ / "secret").c_str(), 1);
    setenv("SYMM_ID_ADDRESS", GetParam() == Place::tcp ? "127.0.0.1" : "machine", 1);
    if (GetParam() != Place::tcp) return;
    if (const std::string why = support::why_no_secret(); !why.empty()) GTEST_SKIP() << why;
  }

  ~UniqueIds() override {
    for (const char* name : {"XDG_RUNTIME_DIR", "SYMM_SECRET_FILE", "SYMM_ID_ADDRESS"}) {
      unsetenv(name);
    }
  }

  // Meets by the id, and exchanges a value with each rank.
  static std::string meet(const Bytes& id, int rank, int size, Deadline deadline = soon()) {
    const BootstrapResult met = bootstrap({"", nullptr, rank, size, "", id}, deadline);
    met.store->set(std::to_string(rank), bytes_of(std::to_string(rank)), soon());
    std::string seen;
    for (int peer = 0; peer < size; ++peer) {
      seen += text_of(met.store->get(std::to_string(peer), soon()));
    }
    return seen;
  }

  Failure refused(const Bytes& id, Status status, const std::vector<std::string>& words) const {
    return expect_failure(status, words, [&] { meet(id, 0, 2, Deadline::after_ms(kShortMs)); });
  }

  // The id with another byte, and a hash that fits.
  static Bytes forged(Bytes id, size_t at, std::byte value) {
    id[at] = value;
    Writer hash;
    hash.number(fnv1a(Bytes(id.begin(), id.end() - 8)));
    std::copy(hash.bytes_.begin(), hash.bytes_.end(), id.end() - 8);
    return id;
  }

  // The notes and directories of ids that are left.
  std::vector<std::string> left() const {
    std::vector<std::string> names;
    if (!std::filesystem::exists(top_ / "symm")) return names;
    for (const auto& entry : std::filesystem::directory_iterator(top_ / "symm")) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  static constexpr uint64_t kShortMs = 300;
  TemporaryDirectory top_;
};

INSTANTIATE_TEST_SUITE_P(Of, UniqueIds, testing::Values(Place::directory, Place::tcp));

TEST_P(UniqueIds, AnyRankMakesOneAndAllMeet) {
  for (int maker = 0; maker < 3; ++maker) {
    const Bytes id = make_unique_id();
    EXPECT_EQ(id.size(), kUniqueIdBytes);
    as_threads(3, [&](int rank) { EXPECT_EQ(meet(id, (rank + maker) % 3, 3), "012"); });
  }
  EXPECT_TRUE(left().empty());
}

TEST_P(UniqueIds, ManyGroupsMeetAtOnceEachByItsOwn) {
  std::vector<Bytes> ids;
  for (int i = 0; i < 8; ++i) {
    ids.push_back(make_unique_id());
  }
  EXPECT_NE(ids[0], ids[1]);
  as_threads(16, [&](int thread) {
    EXPECT_EQ(meet(ids[static_cast<size_t>(thread / 2)], thread % 2, 2), "01");
  });
}

TEST_P(UniqueIds, OneRankMeetsItself) { EXPECT_EQ(meet(make_unique_id(), 0, 1), "0"); }

TEST_P(UniqueIds, ServesForOneGroup) {
  const Bytes id = make_unique_id();
  as_threads(2, [&](int rank) { EXPECT_EQ(meet(id, rank, 2), "01"); });
  as_threads(2, [&](int rank) {
    expect_failure(Status::invalid_argument, {"config.id", "its group has been formed"},
        [&] { meet(id, rank, 2); });
  });
}

TEST_P(UniqueIds, RanksThatDoNotComeAreNamed) {
  const Bytes id = make_unique_id();
  expect_failure(
      Status::timeout, {"rank 1", "id:"}, [&] { meet(id, 0, 2, Deadline::after_ms(kShortMs)); });
}

TEST_P(UniqueIds, RanksWithDifferentOnesWaitUntilTheirDeadlines) {
  const Bytes ids[] = {make_unique_id(), make_unique_id()};
  as_threads(2, [&](int rank) {
    const Bytes& id = ids[rank];
    const Failure failure = failure_of([&] { meet(id, rank, 2, Deadline::after_ms(kShortMs)); });
    EXPECT_EQ(failure.status, Status::timeout);
    EXPECT_NE(failure.message.find(name_of_id(id)), std::string::npos) << failure.message;
  });
}

TEST_P(UniqueIds, DisagreementsAreNamed) {
  const Bytes id = make_unique_id();
  as_threads(2, [&](int rank) {
    expect_failure(Status::mismatch, {"3", "2", "id:"},
        [&] { meet(id, rank, rank == 0 ? 2 : 3, Deadline::after_ms(5'000)); });
  });
}

TEST_P(UniqueIds, WhatIsNoIdIsRefused) {
  const Bytes id = make_unique_id();
  refused(bytes_of("hello"), Status::invalid_argument, {"config.id", "5 bytes", "128"});
  refused(Bytes(kUniqueIdBytes), Status::invalid_argument, {"config.id", "no id"});
  refused(Bytes(id.begin(), id.end() - 1), Status::invalid_argument, {"127 bytes"});

  for (size_t at = 0; at < id.size(); ++at) {
    Bytes changed = id;
    changed[at] ^= std::byte{0x20};
    const Failure failure = failure_of([&] { meet(changed, 0, 2, Deadline::after_ms(kShortMs)); });
    EXPECT_EQ(failure.status, at == 7 ? Status::unsupported : Status::invalid_argument)
        << at << ": " << failure.message;
  }
}

// What was made by a symm that writes other numbers must be no crash.
TEST_P(UniqueIds, NoForgedByteIsMoreThanAnError) {
  const Bytes id = make_unique_id();
  for (size_t at = 7; at < 64; ++at) {
    for (const int value : {0, 1, 127, 255}) {
      const Failure failure = failure_of([&] {
        meet(forged(id, at, static_cast<std::byte>(value)), 0, 2, Deadline::after_ms(20));
      });
      EXPECT_NE(failure.status, Status::ok) << at;
      EXPECT_NE(failure.status, Status::internal) << at << ": " << failure.message;
    }
  }
}

TEST_P(UniqueIds, NeedsRankAndSize) {
  const Bytes id = make_unique_id();
  expect_failure(Status::invalid_argument, {"config.size", "config.id"},
      [&] { bootstrap({"", nullptr, 0, 0, "", id}, soon()); });
}

class IdsOfThisMachine : public UniqueIds {};
INSTANTIATE_TEST_SUITE_P(Of, IdsOfThisMachine, testing::Values(Place::directory));

// The bytes from here on are the hash of the boot id and the number of the user.
constexpr size_t kFirst = 13;  // behind magic, number, library and scope
constexpr size_t kMachine = kFirst + 3 * 8;
constexpr size_t kUser = kMachine + 8;

TEST_P(IdsOfThisMachine, TheirMakerMayEnd) {
  Bytes id;
  {
    Process maker([] { return text_of(make_unique_id()); });
    id = bytes_of(maker.result());
  }
  as_processes(2, [&](int rank) { EXPECT_EQ(meet(id, rank, 2), "01"); });
  EXPECT_TRUE(left().empty());
}

TEST_P(IdsOfThisMachine, ThoseOfAnotherMachineSayWhyItIsNot) {
  const Bytes id = make_unique_id();
  refused(forged(id, kMachine, ~id[kMachine]), Status::unavailable,
      {"config.id", "another machine", "SYMM_ID_ADDRESS=machine"});
}

TEST_P(IdsOfThisMachine, ThoseOfAnotherUserAreRefused) {
  const Bytes id = make_unique_id();
  refused(forged(id, kUser, ~id[kUser]), Status::unavailable, {"config.id", "user"});
}

TEST_P(IdsOfThisMachine, ThoseThatExpiredOrNobodyMadeAreRefused) {
  const Bytes id = make_unique_id();
  refused(forged(id, kFirst, ~id[kFirst]), Status::invalid_argument,
      {"config.id", "not known", "XDG_RUNTIME"});
  for (const std::string& name : left()) {
    std::filesystem::remove(std::filesystem::path(top_.path()) / "symm" / name);
  }
  refused(id, Status::invalid_argument, {"not known"});
}

TEST_P(IdsOfThisMachine, AreKeptByTheSweepsOfOthers) {
  const Bytes id = make_unique_id();
  for (int i = 0; i < 3; ++i) {
    make_unique_id();  // sweeps
  }
  as_threads(2, [&](int rank) { EXPECT_EQ(meet(id, rank, 2), "01"); });
  EXPECT_EQ(left().size(), 3);
}

class IdsAcrossMachines : public UniqueIds {};
INSTANTIATE_TEST_SUITE_P(Of, IdsAcrossMachines, testing::Values(Place::tcp));

TEST_P(IdsAcrossMachines, AProcessThatIsNoRankMayMakeThem) {
  const Shared<std::array<std::byte, kUniqueIdBytes>> made;
  Process maker([&] {
    const Bytes id = make_unique_id();
    std::copy(id.begin(), id.end(), made->begin());
    tell();
    sleep_for_ever();
  });
  maker.told();
  const Bytes id(made->begin(), made->end());
  as_processes(2, [&](int rank) { EXPECT_EQ(meet(id, rank, 2), "01"); });
}

TEST_P(IdsAcrossMachines, AMakerThatHasEndedIsNamedAtOnce) {
  Process maker([] { return text_of(make_unique_id()); });
  const Bytes id = bytes_of(maker.result());
  as_threads(2, [&](int rank) {
    expect_failure(Status::peer_failed, {"the process that made id:", "has ended"},
        [&] { meet(id, rank, 2); });
  });
}

TEST_P(IdsAcrossMachines, AMakerThatDiesWhileRanksWaitIsNamed) {
  std::optional<Process> maker;
  const Shared<std::array<std::byte, kUniqueIdBytes>> made;
  maker.emplace([&] {
    const Bytes id = make_unique_id();
    std::copy(id.begin(), id.end(), made->begin());
    tell();
    sleep_for_ever();
  });
  maker->told();
  const Bytes id(made->begin(), made->end());

  Process waits([&] {
    tell();
    const Failure failure = failure_of([&] { meet(id, 1, 2); });
    return std::string(status_text(failure.status)) + ": " + failure.message;
  });
  waits.told();
  usleep(200'000);
  maker.reset();
  const std::string said = waits.result();
  EXPECT_NE(said.find(status_text(Status::peer_failed)), std::string::npos) << said;
  EXPECT_NE(said.find("the process that made id:"), std::string::npos) << said;
}

TEST_P(IdsAcrossMachines, TheAddressIsTheOneAskedFor) {
  setenv("SYMM_ID_ADDRESS", "localhost", 1);
  const Bytes id = make_unique_id();
  EXPECT_NE(text_of(id).find("localhost"), std::string::npos);
  as_threads(2, [&](int rank) { EXPECT_EQ(meet(id, rank, 2), "01"); });

  for (const std::string& wrong :
      {std::string("host:0"), std::string("host:x"), std::string(100, 'h'), std::string(":7")}) {
    setenv("SYMM_ID_ADDRESS", wrong.c_str(), 1);
    expect_failure(Status::invalid_argument, {"SYMM_ID_ADDRESS", wrong}, [] { make_unique_id(); });
  }
}

TEST_P(IdsAcrossMachines, WithoutASecretTheyAreForThisMachine) {
  setenv("SYMM_SECRET_FILE", (top_ / "secret").c_str(), 1);
  std::filesystem::permissions(top_ / "secret", std::filesystem::perms{0644});
  const Bytes id = make_unique_id();
  as_threads(2, [&](int rank) { EXPECT_EQ(meet(id, rank, 2), "01"); });
  refused(forged(id, kMachine, ~id[kMachine]), Status::unavailable, {"secret"});
}
}  // namespace
