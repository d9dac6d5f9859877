// The conclusion of a rank from the votes of the others, and from their silence.
#include "core/mesh/commit_vote.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/store.hpp"
#include "core/mesh/mesh.hpp"
#include "core/mesh/peer_link.hpp"
#include "core/mesh/wire.hpp"
#include "core/mesh/wireup_records.hpp"
#include "core/socket/fdpass.hpp"
#include "tests/support/test.hpp"

namespace symm {
namespace {
constexpr uint64_t kGroup = 9;

struct BrokenStore final : Store {
  explicit BrokenStore(Failure failure) : failure_(std::move(failure)) {}

  void set(const std::string&, const Bytes&, Deadline) override {}

  Bytes get(const std::string&, Deadline) override { throw Error(failure_); }

  Failure failure_;
};

struct Link final : PeerLink {
  fdpass::Sent send(
      const Topic&, std::span<const std::byte>, std::span<const int>, Deadline) override {
    return fdpass::Sent::done;
  }

  void post(wire::Type type, uint64_t group, const Failure* failure) noexcept override {
    if (type == wire::Type::failure && group == kGroup) told = *failure;
  }

  Failure told;
};

// The votes of three ranks, of which rank 1 has voted; ranks 0, which is this one, and 2 have not.
// Tests look at the conclusion of rank 0 and at what it tells rank 1.
struct Votes {
  Votes() {
    events.look([this](PeerEvents::State& state) {
      for (const int peer : {1, 2}) {
        state.peers.join(peer, {100 + peer, {}, false, true});
        state.links[static_cast<size_t>(peer)] = links[peer] = std::make_shared<Link>();
      }
      state.votes[1] = Failure{};
    });
  }

  Failure conclude(Failure of_store) {
    BrokenStore store(std::move(of_store));
    return conclude(store, Deadline::after_ms(20'000));
  }

  Failure conclude(Store& store, Deadline deadline) {
    WireupRecords records(store, 0, 3, deadline);
    return commit_vote(events, records, 0, 3, kGroup, {}, deadline);
  }

  PeerEvents events{0, 3};
  std::shared_ptr<Link> links[3];
};

// Rank 2 died while it voted: rank 1 had its vote, went on, failed and left; this rank had not.
TEST(CommitVote, ADeathIsTheCauseAndNotTheRanksThatLeftForIt) {
  Votes votes;
  votes.events.on_gone(2, "died: its connection closed");
  // Rank 1 took down its lock when it left, so it looks as if it had died.
  const Failure worst = votes.conclude({Status::peer_failed, 1, 4711, "rank 1 died or gave up"});
  EXPECT_EQ(worst.status, Status::peer_failed);
  EXPECT_EQ(worst.rank, 2) << worst.message;
  EXPECT_EQ(worst.pid, 102);
}

// Rank 2 was stopped while it voted: rank 1 had its vote, and
// has waited in the group for this rank, which it blames.
TEST(CommitVote, ABlamedRankNamesTheRankThatHasNotVoted) {
  Votes votes;
  votes.events.on_post(
      1, wire::Type::failure, kGroup, {Status::timeout, 0, 100, "rank 0 did not come"});
  const auto start = std::chrono::steady_clock::now();
  const Failure worst = votes.conclude({Status::timeout, -1, 0, "nothing there"});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_EQ(worst.status, Status::timeout);
  EXPECT_EQ(worst.rank, 2) << worst.message;
  EXPECT_EQ(votes.links[1]->told.rank, 2) << votes.links[1]->told.message;
  EXPECT_EQ(votes.links[1]->told.when_ns, 1U) << "before what rank 1 said";
}

// Rank 2 was stopped after it had joined this rank, and before it joined rank 1. This rank hears
// from neither before its deadline, and a moment later rank 1 says whom it misses.
TEST(CommitVote, ASilentRankThatLivesNamesTheRankThatItMisses) {
  Votes votes;
  votes.events.look([](PeerEvents::State& state) { state.votes[1].reset(); });
  // This rank looks for a record of rank 2 when it has given up rank 1 already.
  struct : Store {
    void set(const std::string&, const Bytes&, Deadline) override {}

    Bytes get(const std::string& key, Deadline) override {
      if (key == "mesh/commit_vote/2") {
        events->on_post(
            1, wire::Type::commit_vote, 0, {Status::timeout, 2, 102, "rank 2 did not come"});
      }
      throw Error(Status::timeout, "nothing there");
    }

    PeerEvents* events = nullptr;
  } store;
  store.events = &votes.events;

  const Failure worst = votes.conclude(store, Deadline::after_ms(1));
  EXPECT_EQ(worst.status, Status::timeout);
  EXPECT_EQ(worst.rank, 2) << worst.message;
}

// Which of several silent ranks keeps the others from their votes cannot be known.
TEST(CommitVote, AllSilentRanksAreNamed) {
  Votes votes;
  votes.events.look([](PeerEvents::State& state) { state.votes[1].reset(); });
  BrokenStore store({Status::timeout, -1, 0, "nothing there"});
  const Failure worst = votes.conclude(store, Deadline::after_ms(1));
  EXPECT_EQ(worst.status, Status::timeout);
  EXPECT_EQ(worst.rank, 1);
  EXPECT_EQ(worst.message, "ranks 1, 2 did not finish connecting within 1 ms");
}
}  // namespace
}  // namespace symm
