// The command symm hold: what is published outlives its maker, until the maker withdraws it or a
// newer version comes, and nothing outlives the holder but what readers have mapped.
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "symm/symm.hpp"
#include "tests/capi/ipc/weights.hpp"
#include "tests/tools/captured.hpp"
#include "tests/tools/holding.hpp"

namespace support {
namespace {
using nlohmann::json;
using symm::tool::capture;
using symm::tool::Captured;

class Hold : public testing::Test {
 protected:
  // A process that publishes versions, and goes on when the holder has the newest.
  template <class Body>
  Process maker(const std::vector<int>& versions, const Body& body) {
    return Process([this, versions, body] {
      std::vector<std::unique_ptr<Weights>> weights;
      for (const int version : versions) {
        weights.push_back(std::make_unique<Weights>(version));
        symm::ipc_publish(name_, static_cast<uint64_t>(version), weights.back()->token());
      }
      expect_eventually("it is held", [&] {
        return symm::ipc_holders(symm::Span(weights.back()->second.data, 1)).leases != 0;
      });
      ++facts->step;
      body(weights);
    });
  }
  Process killed_maker(const std::vector<int>& versions) {
    return maker(versions, [](auto&) { sleep_for_ever(); });
  }
  Process holder(const std::vector<std::string>& more = {}) const {
    return Process([this, more] {
      std::vector<std::string> words{name_};
      words.insert(words.end(), more.begin(), more.end());
      become_holder(words);
    });
  }
  // A process that finds a version, and keeps it until `facts->done`.
  Process reader(symm_compare_t compare, uint64_t number) {
    return Process([this, compare, number] {
      const symm::PublishedVersion found = symm::ipc_lookup(name_, compare, number);
      const Import bundle = import_for_reading(found.token);
      EXPECT_EQ(version_of(bundle), static_cast<int>(found.version));
      ++facts->step;
      wait_for(facts->done, 1);
      EXPECT_EQ(version_of(bundle), static_cast<int>(found.version));
    });
  }
  void expect_no_version(symm_compare_t compare, uint64_t number) const {
    Process([&] {
      expect_eventually("no such version is published", [&] {
        return outcome_of([&] { symm::ipc_lookup(name_, compare, number, only_look()); }).status ==
               SYMM_ERR_TIMEOUT;
      });
    }).expect_success("who looks");
  }
  // Waits until symm top shows this of the version.
  testing::AssertionResult top_shows(int version, const std::function<bool(const json&)>& so) {
    std::string out;
    const bool shown = eventually([&] {
      out = capture({SYMM_TOOL, "top", "--json"}).out;
      const json versions = json::parse(out)["shares"]["versions"];
      return std::any_of(versions.begin(), versions.end(), [&](const json& one) {
        return one["name"] == name_ && one["version"] == version && so(one);
      });
    });
    return (shown ? testing::AssertionSuccess() : testing::AssertionFailure()) << out;
  }
  static bool is_held_by(const json& version, pid_t pid) {
    return std::any_of(version["holders"].begin(), version["holders"].end(),
        [pid](const json& holder) { return holder["pid"] == pid; });
  }
  void end(Process& process) const {
    process.kill(SIGKILL);
    EXPECT_TRUE(process.reap(20'000));
  }

  const Directory directory;
  Shared<Facts> facts;
  const std::string name_ = "hold-test-" + std::to_string(getpid());
};

TEST_F(Hold, GivesAVersionAgainWhenItsMakerIsKilled) {
  Process making = killed_maker({1});
  Process holding = holder();
  wait_for(facts->step, 1);
  Process early = reader(SYMM_COMPARE_EQ, 1);
  wait_for(facts->step, 2);
  EXPECT_TRUE(top_shows(1, [&](const json& version) {
    return version["pid"] == making.pid() && is_held_by(version, holding.pid()) &&
           is_held_by(version, early.pid()) && version["bytes"] == 2 * kInts * 4;
  }));
  const std::string table = capture({SYMM_TOOL, "top"}).out;
  EXPECT_NE(table.find(name_ + " 1"), std::string::npos) << table;
  const std::string doctor = capture({SYMM_TOOL, "doctor"}).out;
  EXPECT_NE(doctor.find(name_ + " 1: 8 KiB by pid"), std::string::npos) << doctor;

  end(making);
  Process late = reader(SYMM_COMPARE_GE, 0);
  wait_for(facts->step, 3);
  EXPECT_TRUE(top_shows(1, [&](const json& version) {
    return version["pid"] == holding.pid() && is_held_by(version, late.pid());
  }));

  end(holding);
  expect_no_version(SYMM_COMPARE_GE, 0);
  facts->done = 1;
  early.expect_success("the reader from before");
  late.expect_success("the reader from the holder");
}

// A program that ends by an exception releases its buffers on its way.
TEST_F(Hold, GivesAVersionAgainWhoseMakerReleasedItAndEnded) {
  Process making = maker({3}, [this](auto& weights) {
    weights.clear();
    ++facts->step;
    usleep(100'000);  // the holder looks meanwhile
  });
  Process holding = holder();
  wait_for(facts->step, 2);
  making.expect_success("the maker");
  Process late = reader(SYMM_COMPARE_GE, 0);
  wait_for(facts->step, 3);
  facts->done = 1;
  late.expect_success("the reader");
  holding.kill(SIGTERM);
  holding.expect_success("a holder that is told to end");
}

TEST_F(Hold, LetsGoWhatItsMakerWithdraws) {
  Process holding = holder();
  maker({1}, [this](auto& weights) {
    symm::ipc_withdraw_version(name_, 1, {20'000});
    for (size_t i = 0; i < kInts; ++i) {
      weights[0]->first.template at<int>()[i] = 2;
      weights[0]->second.template at<int>()[i] = 2;
    }
    symm::ipc_publish(name_, 2, weights[0]->token());
    expect_eventually("the next is held",
        [&] { return symm::ipc_holders(symm::Span(weights[0]->second.data, 1)).leases != 0; });
    // One that was released first, too.
    weights.clear();
    usleep(50'000);
    symm::ipc_withdraw_version(name_, 2, {20'000});
  }).expect_success("the maker");
  expect_no_version(SYMM_COMPARE_GE, 0);
  end(holding);
}

TEST_F(Hold, HoldsOnlySoManyVersions) {
  Process holding = holder({"--keep", "2"});
  Process first = killed_maker({1, 2, 3});
  wait_for(facts->step, 1);
  EXPECT_TRUE(
      top_shows(2, [&](const json& version) { return is_held_by(version, holding.pid()); }));
  end(first);
  expect_no_version(SYMM_COMPARE_LT, 2);
  Process old = reader(SYMM_COMPARE_EQ, 2);
  wait_for(facts->step, 2);

  Process second = killed_maker({4});
  wait_for(facts->step, 3);
  expect_no_version(SYMM_COMPARE_LT, 3);
  EXPECT_TRUE(top_shows(3, [&](const json& version) { return version["pid"] == holding.pid(); }));
  facts->done = 1;
  old.expect_success("the reader of the version that is not held any more");
  end(second);
  end(holding);
}

TEST_F(Hold, HoldsTheNewestOfThoseThatComeAtOnce) {
  Process holding = holder({"--keep", "2"});
  Process first = killed_maker({1});
  wait_for(facts->step, 1);
  holding.kill(SIGSTOP);
  Process second = killed_maker({2, 3});
  Process([&] { symm::ipc_lookup(name_, SYMM_COMPARE_EQ, 3); }).expect_success("who waits for it");
  holding.kill(SIGCONT);
  wait_for(facts->step, 2);

  for (const int version : {2, 3}) {
    EXPECT_TRUE(
        top_shows(version, [&](const json& one) { return is_held_by(one, holding.pid()); }));
  }
  for (Process* process : {&first, &second, &holding}) {
    end(*process);
  }
}

TEST_F(Hold, WithImpossibleArgumentsIsRefused) {
  EXPECT_EQ(capture({SYMM_TOOL, "hold"}).status, 2);
  EXPECT_EQ(capture({SYMM_TOOL, "hold", "model", "--keep", "0"}).status, 2);
}
}  // namespace
}  // namespace support
