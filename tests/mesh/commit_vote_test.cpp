// What a rank concludes from the votes of the others, and from their silence.
#include "core/mesh/commit_vote.hpp"
#include "tests/support/test.hpp"

namespace symm {
namespace {
// As that of a directory, when rank 1 has taken down its lock.
class StoreThatRankOneLeft final : public Store {
 public:
  void set(const std::string&, const Bytes&, Deadline) override {}
  Bytes get(const std::string&, Deadline) override { throw Error({Status::peer_failed, 1, 4711, "rank 1 died or gave up"}); }
  std::string describe() const override { return "a store"; }
};

struct Silent final : PeerLink {
  fdpass::Sent send(const Topic&, std::span<const std::byte>, std::span<const int>, Deadline) override {
    return fdpass::Sent::done;
  }
  void post(wire::Type, uint64_t, const Failure*) noexcept override {}
};

// Rank 2 died while it voted: rank 1 had its vote, went on, failed and left; this rank had not.
TEST(CommitVote, ADeathIsTheCauseAndNotThoseThatLeftForIt) {
  PeerEvents events(0, 3);
  events.look([](PeerEvents::Known& known) {
    for (const int peer : {1, 2}) {
      known.peers.join(peer, {100 + peer, {}, false, true});
      known.links[static_cast<size_t>(peer)] = std::make_shared<Silent>();
    }
    known.votes[1] = Failure{};
  });
  events.on_gone(2, "died: its connection closed");
  StoreThatRankOneLeft store;
  WireupRecords records(store, 0, 3, Deadline::after_ms(20'000));
  const Failure worst = commit_vote(events, records, 0, 3, {}, Deadline::after_ms(20'000));
  EXPECT_EQ(worst.status, Status::peer_failed);
  EXPECT_EQ(worst.rank, 2) << worst.message;
  EXPECT_EQ(worst.pid, 102);
}
}  // namespace
}  // namespace symm
