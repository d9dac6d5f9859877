// The tests of failures: a table of every call that can wait for another rank, and expectations
// that must hold when such a call fails.
#pragma once

#include <regex>
#include <span>

#include "tests/support/group.hpp"
#include "tools/bench/pattern.hpp"

namespace support {
inline constexpr int kMost = 64;
inline constexpr int kRanks = 3;  // in most tests
// Without the barrier and the scans, of which rank 0 waits for nobody.
inline constexpr std::span kCollectives(symm::tool::kOperations, 6);

// Elements per rank: several chunks through the library's memory, and less.
inline constexpr size_t kStaged = 100'000;
inline constexpr size_t kZeroCopy = 4096;
inline constexpr size_t kShort = 512;

// Memory through which the ranks of a test talk to each other and to their parent without the
// library.
struct Facts {
  std::atomic<int64_t> pids[kMost];
  std::atomic<int> ready;   // ranks that are where the test wants them
  std::atomic<int> failed;  // ranks that have got their error
  std::atomic<int> go;
  // The counts of all_there().
  std::atomic<int> arrived;
  std::atomic<int> turn;
  std::atomic<int64_t> moment_ns;
};

// Waits until `ranks` ranks have come. Without this wait, a rank that dies next may die while
// others are still in the call before, which may then fail as well.
inline void all_there(Facts& facts, int ranks) {
  const int turn = facts.turn;
  if (++facts.arrived == ranks) {
    facts.arrived = 0;
    ++facts.turn;
    return;
  }
  while (facts.turn == turn) {
    std::this_thread::yield();
  }
}

// Kills this process some time after the function has returned, from another thread, so that death
// finds this thread anywhere.
inline void die_soon(std::chrono::microseconds delay) {
  std::thread([delay] {
    std::this_thread::sleep_for(delay);
    raise(SIGKILL);
  }).detach();
}

// Expects that the last call of this thread failed with `expected`, and that its message names
// `culprit`.
inline void expect_named(symm_status_t got, symm_status_t expected, int culprit, int64_t pid) {
  const std::string message = symm_last_error();
  expect_failed(got, expected, {"rank " + std::to_string(culprit), "pid " + std::to_string(pid)});
  EXPECT_EQ(last_failure().rank, culprit) << message;
  EXPECT_EQ(last_failure().pid, pid) << message;
}

// Expects that the group blames `culprit` as well, and that later calls fail alike.
inline void expect_blame(
    const Group& group, symm_status_t got, symm_status_t expected, int culprit, int64_t pid) {
  expect_named(got, expected, culprit, pid);
  // A call on a part of the group, or on what was to become
  // one, may fail before the group itself has heard.
  EXPECT_TRUE(eventually([&] { return group.status().status != SYMM_OK; }))
      << "the group was not revoked";
  const symm_failure_t status = group.status();
  EXPECT_EQ(status.status, expected) << status.message;
  EXPECT_EQ(status.rank, culprit) << status.message;
  EXPECT_EQ(status.pid, pid) << status.message;
  EXPECT_STRNE(status.message, "");

  // A revoked group stays revoked.
  EXPECT_EQ(symm_barrier(group.get(), nullptr, 0, 0, nullptr, nullptr), expected);
}

// A rank with everything that a call may need. All have theirs when the constructor returns.
struct Member {
  Member(const Config& config, int own_rank, int ranks, Facts& of_all)
      : rank(own_rank), size(ranks), facts(of_all) {
    facts.pids[rank] = getpid();
    group = create(config, rank, size);
    block = allocate(group, kBlock);
    send.assign(kStaged * static_cast<size_t>(size), 1.0F);
    recv.assign(send.size(), 0.0F);
    std::fill_n(symmetric_send(), kBlock / sizeof(float) / 2, 1.0F);
    group.barrier();
    all_there(facts, ranks);
  }
  // Calls support::expect_blame() for the member's own group.
  void expect_blame(symm_status_t got, symm_status_t expected, int culprit) const {
    support::expect_blame(group, got, expected, culprit, facts.pids[culprit]);
  }

  int rank;
  int size;
  Facts& facts;
  Group group;
  // Symmetric memory of kBlock bytes: the send operand is in the first half, the receive operand in
  // the second.
  Block block;
  std::vector<float> send;
  std::vector<float> recv;

  float* symmetric_send() const { return block.at<float>(rank); }
  float* symmetric_recv() const { return block.at<float>(rank) + kBlock / sizeof(float) / 2; }
  static constexpr size_t kBlock = size_t{1} << 20;
};

// The ranks that die, and the rank that stops. The latter goes on when all others have got their
// error, for which they have kShortTimeoutMs.
struct Fates {
  std::vector<int> die = {};
  std::optional<int> stops = {};
};
inline constexpr uint64_t kShortTimeoutMs = 1000;
// Runs `body` for ranks 0 .. size - 1 in a process each. All that live must end well and leave
// nothing in the directory of the bootstrap.
using RankBody = std::function<void(int rank, const Config& config, Facts& facts)>;
using MemberBody = std::function<void(Member& member)>;
inline void as_ranks(int size, const RankBody& body, const Fates& fates = {}) {
  const Bootstrap meeting;
  Config config = meeting.processes();
  const Shared<Facts> facts;
  if (fates.stops) {
    config.timeout_ms = kShortTimeoutMs;
    // Ranks that start beside those of other tests once did not meet within 5 s.
    config.create_timeout_ms = 10 * kShortTimeoutMs;
  }

  Processes processes(size, [&](int rank) { body(rank, config, *facts); });
  if (fates.stops) {
    EXPECT_TRUE(eventually([&] { return facts->failed == size - 1; }));
    processes[*fates.stops].kill(SIGCONT);
  }

  processes.expect_success(fates.die);
  expect_empty(meeting.path());
}
inline void as_members(int size, const MemberBody& body, const Fates& fates = {}) {
  const auto as_member = [&](int rank, const Config& config, Facts& facts) {
    Member member(config, rank, size, facts);
    body(member);
  };
  as_ranks(size, as_member, fates);
}

// Calls collective `what` on the member's symmetric or private operands. `count` is that of the C
// call.
inline void collective(Member& m, symm_collective_t what, symm_algorithm_t algorithm, size_t count,
    bool symmetric, int root = 0) {
  const auto call = call_of(what, symmetric ? m.symmetric_send() : m.send.data(),
      symmetric ? m.symmetric_recv() : m.recv.data(), count, SYMM_DTYPE_F32, SYMM_OP_SUM, root);
  check(run(m.group.get(), call, forced(algorithm)));
}

inline void signal_everybody(Member& m) {
  for (int peer = 0; peer < m.size; ++peer) {
    m.block.memory.signal(peer, 3);
  }
  for (int peer = 0; peer < m.size; ++peer) {
    m.block.memory.wait_signal(peer, 3);
  }
}

inline void barriers_of_first_and_last(Member& m) {
  const int32_t ranks[] = {0, m.size - 1};
  if (m.rank == 0 || m.rank == m.size - 1) m.group.barrier(ranks, 1);
  m.group.barrier({}, 2);
}

// Blocks of all lengths, through scratch.
inline void alltoallv(Member& m) {
  std::vector<size_t> counts;
  for (int r = 0; r < m.size; ++r) {
    counts.push_back(kStaged / 4 * static_cast<size_t>(m.rank + r) / static_cast<size_t>(m.size));
  }
  const symm::Span<float> recv(m.recv);
  m.group.alltoallv(m.send, {counts}, recv, {counts});
}

// Calls reduce_scatterv() on symmetric operands, which are reduced where they lie.
inline void reduce_scatterv(Member& m) {
  std::vector<size_t> counts;
  for (int r = 0; r < m.size; ++r) {
    counts.push_back(kZeroCopy / 2 * static_cast<size_t>(r % 3));
  }
  const size_t mine = counts[static_cast<size_t>(m.rank)];
  const symm::Span<const float> send(m.symmetric_send(), kZeroCopy * static_cast<size_t>(m.size));
  m.group.reduce_scatterv(send, {counts}, symm::Span<float>(m.symmetric_recv(), mine), SYMM_OP_SUM);
}

// The root is the last rank.
inline void broadcast_bytes(Member& m) {
  const symm::Span<const float> send(m.send.data(), kStaged);
  m.group.broadcast_bytes(send, m.recv, m.size - 1);
}

// Blocks of all lengths go to a root, and from there to all ranks, through scratch.
inline void gatherv_and_scatterv(Member& m) {
  std::vector<size_t> counts;
  for (int r = 0; r < m.size; ++r) {
    counts.push_back(kStaged / 2 * static_cast<size_t>(r % 3));
  }
  const size_t mine = counts[static_cast<size_t>(m.rank)];
  const symm::Span<float> recv(m.recv);
  m.group.gatherv(symm::Span<const float>(m.send.data(), mine), recv, {counts}, m.size - 1);
  m.group.scatterv(m.send, {counts}, symm::Span<float>(m.recv.data(), mine), m.size - 1);
}

// Calls reduce_scatter_rows() on private operands, whose rows are put together in scratch.
inline void reduce_scatter_rows(Member& m) {
  constexpr size_t kRows = 8;
  constexpr size_t kCount = kStaged / 16;
  const size_t stride = kCount * static_cast<size_t>(m.size);
  m.group.reduce_scatter_rows(symm::Span<const float>(m.send.data(), kRows * stride),
      symm::Span<float>(m.recv.data(), kRows * kCount), kRows, stride, SYMM_OP_SUM);
}

// Passes so many bytes round the ring.
inline void round_the_ring(Member& m, const void* from, void* to, size_t bytes) {
  const symm::Span source(static_cast<const std::byte*>(from), bytes);
  const symm::Span destination(static_cast<std::byte*>(to), bytes);
  const symm_message_t sides[] = {symm::receiving((m.rank + m.size - 1) % m.size, destination, 1),
      symm::sending((m.rank + 1) % m.size, source, 1)};
  m.group.messages(sides);
}

// One kind of call, which throws if it fails. In a round every rank makes the call once, and no
// rank waits for a later round.
struct Operation {
  std::string name;
  std::function<void(Member&)> call;
};
inline std::vector<Operation> make_operations() {
  std::vector<Operation> all{
      {"barrier", [](Member& m) { m.group.barrier({}, 1); }},
      {"barrier_of_first_and_last", barriers_of_first_and_last},
      {"wait_signal", signal_everybody},
      {"rendezvous", [](Member& m) { m.group.rendezvous(m.group.allocate(8192), 7); }},
      {"split", [](Member& m) { m.group.split(5); }},
      {"alltoallv_staged", alltoallv},
      {"reduce_scatterv_two_shot", reduce_scatterv},
      {"reduce_scatter_rows_staged", reduce_scatter_rows},
      {"gatherv_and_scatterv_staged", gatherv_and_scatterv},
      {"broadcast_bytes_staged", broadcast_bytes},
      {"messages_left",
          [](Member& m) { round_the_ring(m, m.send.data(), m.recv.data(), sizeof(float)); }},
      {"messages_in_pieces",
          [](Member& m) {
            round_the_ring(m, m.send.data(), m.recv.data(), kStaged * sizeof(float));
          }},
      {"messages_pulled",
          [](Member& m) {
            round_the_ring(m, m.symmetric_send(), m.symmetric_recv(), kZeroCopy * sizeof(float));
          }},
      {"messages_placed",
          [](Member& m) {
            round_the_ring(m, m.send.data(), m.symmetric_recv(), kZeroCopy * sizeof(float));
          }},
  };

  for (const auto& [name, what, reduces, rooted, divided] : kCollectives) {
    const auto add = [&, what = what, prefix = std::string(name)](const char* way,
                         symm_algorithm_t algorithm, size_t count, bool symmetric) {
      all.push_back(
          {prefix + way, [=](Member& m) { collective(m, what, algorithm, count, symmetric); }});
    };
    // LL carries fewer bytes the more ranks there are, so the plan chooses where there are many.
    all.push_back({std::string(name) + "_ll", [what = what](Member& m) {
                     collective(
                         m, what, m.size > 8 ? SYMM_ALGORITHM_AUTO : SYMM_ALGORITHM_LL, 1, false);
                   }});
    add("_one_shot", SYMM_ALGORITHM_ONE_SHOT, kShort, false);
    add("_two_shot", SYMM_ALGORITHM_TWO_SHOT, kZeroCopy, true);
    add("_staged", SYMM_ALGORITHM_TWO_SHOT_STAGED, kStaged, false);
  }

  return all;
}
inline const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = make_operations();
  return all;
}
inline std::ostream& operator<<(std::ostream& out, const Operation& operation) {
  return out << operation.name;
}
inline std::string operation_name(const testing::TestParamInfo<Operation>& info) {
  return info.param.name;
}

// Repeats a call until it fails, and returns the status.
inline symm_status_t until_failure(const std::function<void()>& call) {
  for (;;) {
    if (const Outcome outcome = outcome_of(call); outcome.status != SYMM_OK) return outcome.status;
  }
}
inline symm_status_t until_failure(Member& member, const Operation& operation) {
  return until_failure([&] { operation.call(member); });
}

// What each rank's group reports of its failure, as a number; 0: it has not failed yet.
using Verdicts = std::array<std::atomic<int>, kMost>;
// Waits until all `ranks` report one failure, and returns it.
inline symm_failure_t agreed_status(
    const Group& group, int rank, const std::vector<int>& ranks, Verdicts& verdicts) {
  symm_failure_t now{};
  const auto of = [&](int of_rank) -> std::atomic<int>& {
    return verdicts[static_cast<size_t>(of_rank)];
  };

  const auto all_say_it = [&] {
    now = group.status();
    of(rank) = now.status == SYMM_OK ? 0 : 100 * -now.status + now.rank + 1;
    return of(rank) != 0 &&
           std::all_of(ranks.begin(), ranks.end(), [&](int peer) { return of(peer) == of(rank); });
  };
  if (!eventually(all_say_it, 10'000)) {
    throw std::runtime_error("no verdict of all: " + std::string(now.message));
  }

  return now;
}

// "rank 3", "ranks 1, 3"
inline bool names_rank(const std::string& message, int rank) {
  return std::regex_search(
      message, std::regex("\\branks? (\\d+, )*" + std::to_string(rank) + "\\b"));
}

// Makes a group and checks the sums of all-reduces on it, as survivors do after a failure.
inline void expect_working(const Config& config, int rank, int size, int rounds = 3) {
  const Group group = create(config, rank, size);
  const Block block = allocate(group, 1 << 16);
  float* const send = block.at<float>(rank);
  std::vector<float> recv(4096);

  for (int round = 0; round < rounds; ++round) {
    std::iota(send, send + recv.size(), static_cast<float>(rank + round));
    check(allreduce(group, send, recv.data(), recv.size()));
    for (int i = 0; i < 4096; ++i) {
      ASSERT_EQ(recv[static_cast<size_t>(i)],
          static_cast<float>(size * (i + round) + size * (size - 1) / 2))
          << i << " in round " << round << " on rank " << rank;
    }
  }

  group.finalize(0);
}
// Expects that this process has given back everything that it took since `before`.
inline void expect_footprint(const Footprint& before) {
  EXPECT_TRUE(eventually([&] { return Footprint::now() == before; }))
      << "before: " << before << "; after: " << Footprint::now();
}
}  // namespace support
