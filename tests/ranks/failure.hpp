// For the tests of failures: every call that can wait for another rank, as a table, and what must be true when such a call fails.
#pragma once

#include <span>
#include "tests/support/group.hpp"
#include "tools/bench/pattern.hpp"

namespace support {
inline constexpr int kMost = 64;
inline constexpr std::span kCollectives(symm::tool::kOperations, 6);  // all but the barrier

// What the ranks of a test tell each other and their parent, outside the library.
struct Facts {
  std::atomic<int64_t> pids[kMost];
  std::atomic<int> ready;   // ranks that are where the test wants them
  std::atomic<int> failed;  // ranks that have got their error
  std::atomic<int> go;
  std::atomic<int> arrived, turn;  // of all_there()
  std::atomic<int64_t> moment_ns;
};

// Wait until as many ranks are here. Without it a rank that dies next could still be met by those in the last call before, which
// may fail then as well.
void all_there(Facts& facts, int ranks);

// End this process so, some time after the call returns: a deadly call of another thread finds this one anywhere.
void die_soon(std::chrono::microseconds delay);

// A rank with everything that a call may need. All have theirs when the constructor returns.
struct Member {
  Member(const Config& config, int own_rank, int ranks, Facts& of_all);
  // As below, of the member's own group.
  void expect_blame(symm_status_t got, symm_status_t expected, int culprit) const;

  int rank;
  int size;
  Facts& facts;
  Group group;
  Block block;  // symmetric, of kBlock bytes: send operand in the first half, receive operand in the second
  std::vector<float> send, recv;

  float* symmetric_send() const { return block.at<float>(rank); }
  float* symmetric_recv() const { return block.at<float>(rank) + kBlock / sizeof(float) / 2; }
  static constexpr size_t kBlock = size_t{1} << 20;
};

// What ranks do to themselves. Who stops goes on when all others have got their error, for which they have kShortTimeoutMs.
struct Fates {
  std::vector<int> die = {};
  std::optional<int> stops = {};
};
inline constexpr uint64_t kShortTimeoutMs = 1000;
// `body` of ranks 0 .. size - 1 in processes of their own, of which all that live must end well and leave nothing where they met.
using RankBody = std::function<void(int rank, const Config& config, Facts& facts)>;
using MemberBody = std::function<void(Member& member)>;
void as_ranks(int size, const RankBody& body, const Fates& fates = {});
void as_members(int size, const MemberBody& body, const Fates& fates = {});

// One kind of call, which throws if it fails. In a round every rank calls it once, and no rank waits for a later round.
struct Operation {
  std::string name;
  std::function<void(Member&)> call;
};
const std::vector<Operation>& operations();
std::ostream& operator<<(std::ostream& out, const Operation& operation);
std::string name_of(const testing::TestParamInfo<Operation>& info);

// Of the member's operands, symmetric or private ones; `count` as in the C call.
void collective(Member& m, symm_collective_t what, symm_algorithm_values algorithm, size_t count, bool symmetric, int root = 0);

// Call until it fails, and return how.
symm_status_t until_failure(const std::function<void()>& call);
symm_status_t until_failure(Member& member, const Operation& operation);

// The last call of this thread failed with `expected`, and its message names `culprit`.
void expect_named(symm_status_t got, symm_status_t expected, int culprit, int64_t pid);
// And the group says so too.
void expect_blame(const Group& group, symm_status_t got, symm_status_t expected, int culprit, int64_t pid);

// What each rank says of the failure of its group; 0: nothing yet.
using Verdicts = std::array<std::atomic<int>, kMost>;
// Once the news has gone round all `ranks` that hear it say the same, which is returned.
symm_group_status_t agreed_status(const Group& group, int rank, const std::vector<int>& ranks, Verdicts& verdicts);

// "rank 3", "ranks 1, 3"
bool names_rank(const std::string& message, int rank);

// Form a group and all-reduce on it, checking the sum. What survivors do after a failure.
void expect_working(const Config& config, int rank, int size, int rounds = 3);
// What was made has been given back, by this process.
void expect_footprint(const Footprint& before);
}  // namespace support
