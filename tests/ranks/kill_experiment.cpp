#include "tests/ranks/kill_experiment.hpp"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/ranks/failure.hpp"
#include "tests/ranks/history.hpp"

namespace support {
namespace {
constexpr int64_t kTimeoutMs = 10'000;
// The timeout of creation in the phase in which a rank may die before it has joined.
constexpr uint64_t kMissingTimeoutMs = 1500;
constexpr uint64_t kHangTimeoutMs = 1000;  // the timeout of calls that one rank must miss
constexpr int kHangMs = 40'000;
constexpr int kCalls = 150;  // in a trial in which no rank fails
// The epoch of the survivors' group, whose stamps 64 ranks can sum as floats; the epoch of
// shrink() is one less.
constexpr int32_t kAgain = 63;
constexpr int kCallsOfAgain = 10;
constexpr size_t kTokens = 1500;
constexpr size_t kPieces = 4;
constexpr size_t kPieceWords = 512;

// The memory through which ranks and parent tell each other what happened.
struct Stage {
  Facts facts;
  Facts facts_again;
  std::atomic<int64_t> struck_ns;
  std::atomic<int64_t> failed_ns[kMost];
  Verdicts verdicts;
  std::atomic<int> status[kMost];
  std::atomic<int> done[kMost];
  std::atomic<int> leaked[kMost];
  History history[kMost];
  std::atomic<int> published;  // tokens
  Token tokens[kTokens];
};

struct Trial {
  Attack attack;
  uint64_t seed;
  int size;
  Phase phase;
  uint64_t struck;
  Stage& stage;

  bool is_struck(int rank) const { return (struck >> rank & 1) != 0; }

  bool kills() const { return attack == Attack::kill || attack == Attack::leases; }

  // The ranks that were attacked are gone, or may still write.
  bool goes_on_without() const { return attack == Attack::kill || attack == Attack::hang; }

  int survivors() const { return goes_on_without() ? size - std::popcount(struck) : size; }

  int rank_again(int rank) const {
    return goes_on_without() ? rank - std::popcount(struck & ((uint64_t{1} << rank) - 1)) : rank;
  }
};

void complain(int rank, const std::string& text) {
  say("rank " + std::to_string(rank) + ": " + text);
}

// A rank's calls of one group, written down.
struct Recorder {
  History& history;
  int32_t epoch;
  int64_t number = 0;

  uint64_t stamp() const { return stamp_of(epoch, number); }

  Outcome record(
      bool all_wait_for_all, uint64_t arguments, const std::function<void(Event&)>& call) {
    Event& mine = history.begin({Event::call, all_wait_for_all, epoch, number++, arguments});
    const Outcome outcome = outcome_of([&] { call(mine); });
    History::end(mine, outcome.status, outcome.rank);
    return outcome;
  }
};

// The stamps of what was received, each as often as `summed`.
template <class T>
void look_at(Event& event, const T* received, size_t count, int summed = 1) {
  const auto [least, most] = std::minmax_element(received, received + count);
  event.oldest = static_cast<uint64_t>(*least) / static_cast<uint64_t>(summed);
  event.newest = (static_cast<uint64_t>(*most) + static_cast<uint64_t>(summed) - 1) /
                 static_cast<uint64_t>(summed);
}

Outcome random_collective(Recorder& recorder, Member& m, std::mt19937_64& random) {
  const size_t per_rank = m.send.size() / static_cast<size_t>(m.size);
  const auto most = static_cast<double>(per_rank);
  const auto count =
      static_cast<size_t>(std::pow(most, std::uniform_real_distribution<>(0, 1)(random)));
  const bool symmetric = random() % 2 == 0;
  const int root = static_cast<int>(random() % static_cast<uint64_t>(m.size));
  const size_t room = Member::kBlock / sizeof(float) / 2 / static_cast<size_t>(m.size);
  const size_t n = symmetric ? std::min(count, room) : count;
  const auto& [name, what, reduces, rooted, divided] = kCollectives[random() % kCollectives.size()];
  const bool sends_all = divided && what != SYMM_COLLECTIVE_ALLGATHER;
  const bool receives_all = divided && what != SYMM_COLLECTIVE_REDUCE_SCATTER;
  const auto times = [&](bool all) { return n * static_cast<size_t>(all ? m.size : 1); };
  std::fill_n(symmetric ? m.symmetric_send() : m.send.data(), times(sends_all),
      static_cast<float>(recorder.stamp()));
  const uint64_t arguments =
      (n * 8 + static_cast<size_t>(what)) * 16 + static_cast<size_t>(root * 2 + symmetric);

  return recorder.record(!rooted, arguments, [&](Event& mine) {
    collective(m, what, SYMM_ALGORITHM_AUTO, n, symmetric, root);
    if (what != SYMM_COLLECTIVE_REDUCE || root == m.rank) {
      look_at(mine, symmetric ? m.symmetric_recv() : m.recv.data(), times(receives_all),
          reduces ? m.size : 1);
    }
  });
}

// Passes a short message and a long one on from rank to rank, so that each of them only sends or
// only receives at a time. Not among operations(): a receive that waits in vain revokes nothing.
void from_one_to_the_next(Member& m) {
  const int next = (m.rank + 1) % m.size;
  const int last = (m.rank + m.size - 1) % m.size;
  for (const size_t count : {size_t{1}, kStaged}) {
    const symm::Span source(static_cast<const float*>(m.send.data()), count);
    const symm::Span destination(m.recv.data(), count);
    if (m.rank == 0) m.group.send(next, source, 2);
    m.group.recv(last, destination, 2);
    if (m.rank != 0) m.group.send(next, source, 2);
  }
}

// One of the operations of a phase.
const Operation& draw(Phase phase, std::mt19937_64& random) {
  static const Operation one_by_one{"messages_one_by_one", from_one_to_the_next};
  std::vector<const Operation*> those;
  if (phase == Phase::messages) those.push_back(&one_by_one);
  for (const Operation& one : operations()) {
    const bool is_of_messages = one.name.starts_with("messages_");
    const bool is_of_phase =
        phase == Phase::messages ? is_of_messages : one.name == phase_name(phase);
    if (is_of_phase || phase == Phase::everything) those.push_back(&one);
  }

  return *those[random() % those.size()];
}

Outcome next_call(Phase phase, Recorder& recorder, Member& m, std::mt19937_64& random) {
  const bool any = phase == Phase::everything;
  if (phase == Phase::collectives || (any && random() % 2 == 0)) {
    return random_collective(recorder, m, random);
  }

  const Operation& drawn = draw(phase, random);
  const bool all = drawn.name == "barrier" || drawn.name == "rendezvous" || drawn.name == "split";

  return recorder.record(all, std::hash<std::string>()(drawn.name), [&](Event&) { drawn.call(m); });
}

void ready(const Trial& trial) {
  ++trial.stage.facts.ready;
  while (trial.stage.facts.ready != trial.size) {
    std::this_thread::yield();
  }
}

// Form groups again and again until it fails.
Outcome create_until_failure(const Trial& trial, Config config, int rank) {
  config.create_timeout_ms = kMissingTimeoutMs;
  ready(trial);
  Outcome end;
  for (Recorder recorder{trial.stage.history[rank], 1}; end.status == SYMM_OK;
      ++recorder.epoch, recorder.number = 0) {
    Group group;
    end = recorder.record(true, 1, [&](Event&) { group = create(config, rank, trial.size); });
    if (end.status == SYMM_OK) end = recorder.record(true, 2, [&](Event&) { group.barrier(); });
  }
  return end;
}

void give_verdict(const Trial& trial, int rank, const Group& group) {
  std::vector<int> hear;
  for (int peer = 0; peer < trial.size; ++peer) {
    if (!trial.is_struck(peer) || !trial.goes_on_without()) hear.push_back(peer);
  }
  const symm_failure_t now = agreed_status(group, rank, hear, trial.stage.verdicts);
  if (now.rank < 0 || !trial.is_struck(now.rank) || now.pid != trial.stage.facts.pids[now.rank]) {
    complain(rank, "symm_group_status() says: " + std::string(now.message));
  }
}

// The survivors do what the documents tell them to do.
void shrink(const Trial& trial, int rank, const Member& member) {
  Recorder recorder{trial.stage.history[rank], kAgain - 1};
  Group rest;
  const Outcome made = recorder.record(true, 3, [&](Event&) { rest = member.group.shrink(); });
  if (made.status != SYMM_OK) return complain(rank, "shrink: " + made.message);
  if (rest.size() != trial.survivors()) {
    complain(rank, "shrink leaves " + std::to_string(rest.size()) + " ranks");
  }

  recorder.record(true, 4, [&, one = static_cast<float>(recorder.stamp())](Event& mine) {
    float sum = 0;
    check(allreduce(rest, &one, &sum, 1));
    look_at(mine, &sum, 1, rest.size());
  });
}

Outcome call_until_failure(const Trial& trial, const Config& config, int rank) {
  std::mt19937_64 random(trial.seed);  // all ranks make equal calls
  Recorder recorder{trial.stage.history[rank], 1};
  std::optional<Member> member;
  Outcome end = recorder.record(
      true, 1, [&](Event&) { member.emplace(config, rank, trial.size, trial.stage.facts); });
  if (end.status != SYMM_OK) throw std::runtime_error(end.message);
  ready(trial);
  std::thread aborter;

  if (trial.attack == Attack::abort && trial.is_struck(rank)) {
    aborter = std::thread([&, delay = std::chrono::microseconds(random() % 10'000)] {
      std::this_thread::sleep_for(delay);
      trial.stage.struck_ns = now_ns();
      member->group.abort("a test");
    });
  } else {
    random.discard(1);
  }

  for (int i = 0; end.status == SYMM_OK && (trial.attack != Attack::stop || i < kCalls); ++i) {
    end = next_call(trial.phase, recorder, *member, random);
  }

  trial.stage.failed_ns[rank] = now_ns();
  if (aborter.joinable()) aborter.join();
  ++trial.stage.facts.failed;
  if (end.status == SYMM_OK || (trial.is_struck(rank) && trial.goes_on_without())) return end;
  give_verdict(trial, rank, member->group);
  if (trial.attack == Attack::kill && trial.seed % 2 == 0) shrink(trial, rank, *member);

  return end;
}

void expect_documented_end(const Trial& trial, int rank, const Outcome& end) {
  if (trial.attack == Attack::stop && end.status == SYMM_OK) return;
  const bool missed = trial.phase == Phase::create && end.status == SYMM_ERR_TIMEOUT;
  symm_status_t expected = SYMM_ERR_PEER_FAILED;
  if (trial.attack == Attack::abort) expected = SYMM_ERR_ABORTED;
  if (trial.attack == Attack::hang) expected = SYMM_ERR_TIMEOUT;
  bool named = false;

  for (int victim = 0; victim < trial.size; ++victim) {
    named |= trial.is_struck(victim) && names_rank(end.message, victim);
  }

  if ((end.status != expected && !missed) || !named) {
    complain(rank,
        std::string(symm_status_string(end.status)) + " is not what was to come: " + end.message);
  }

  // A rank that was told of the failure did not wait for a deadline.
  if (trial.stage.struck_ns != 0 &&
      trial.stage.failed_ns[rank] - trial.stage.struck_ns > kTimeoutMs * 500'000) {
    complain(rank, "heard of it late: " + end.message);
  }
}

void compare_footprint(const Trial& trial, int rank, const Footprint& before, const char* when) {
  if (eventually([&] { return Footprint::now() == before; }, 10'000)) return;
  std::ostringstream text;
  text << when << ": " << Footprint::now() << " instead of " << before;
  trial.stage.leaked[rank] = 1;
  complain(rank, text.str());
}

// The ranks that can go on do so in a group of their own, in which nothing of the former group may
// appear.
void live_again(const Trial& trial, Config config, int rank) {
  config.name = "again";
  std::mt19937_64 random(trial.seed + 1);
  Recorder recorder{trial.stage.history[rank], kAgain};
  std::optional<Member> member;
  Outcome end = recorder.record(true, 5, [&](Event&) {
    member.emplace(config, trial.rank_again(rank), trial.survivors(), trial.stage.facts_again);
  });

  for (int i = 0; i < kCallsOfAgain && end.status == SYMM_OK; ++i) {
    end = random_collective(recorder, *member, random);
  }

  if (end.status == SYMM_OK) member->group.finalize(0);
  if (end.status != SYMM_OK) complain(rank, "the group made afterwards failed: " + end.message);
}

void live(const Trial& trial, const Config& config, int rank) {
  // What the first use allocates for the whole process is not a leak.
  expect_working(config, rank, trial.size, 1);

  trial.stage.facts.pids[rank] = getpid();
  const Footprint before = Footprint::settled();

  const Outcome end = trial.phase == Phase::create ? create_until_failure(trial, config, rank)
                                                   : call_until_failure(trial, config, rank);
  if (trial.stage.failed_ns[rank] == 0) trial.stage.failed_ns[rank] = now_ns();
  trial.stage.status[rank] = end.status;

  const bool returns = trial.is_struck(rank) && trial.goes_on_without();
  if (!returns) expect_documented_end(trial, rank, end);
  compare_footprint(trial, rank, before, "after the attack");

  if (returns) return;
  live_again(trial, config, rank);
  compare_footprint(trial, rank, before, "after the group made afterwards");
}

// A rank that writes a piece anew has withdrawn its token, and waited for all importers.
void own(const Trial& trial) {
  ready(trial);
  std::mt19937_64 random(trial.seed);
  const Group group = create({"thread://leases", ""}, 0, 1);
  const Buffer buffer = group.allocate(kPieces * kPieceWords * sizeof(uint32_t));
  const symm::Span<uint32_t> words = buffer.span<uint32_t>();

  for (int64_t number = 0; number < static_cast<int64_t>(kTokens); ++number) {
    Stage& stage = trial.stage;
    const symm::Span<uint32_t> piece(
        words.data() + static_cast<size_t>(number) % kPieces * kPieceWords, kPieceWords);
    if (number >= static_cast<int64_t>(kPieces)) {
      Event& mine = stage.history[0].begin(
          {Event::withdraw, false, 0, number - static_cast<int64_t>(kPieces)});
      History::end(mine, symm_ipc_withdraw(piece.data(), piece.size_bytes(), within(kTimeoutMs)));
      if (mine.status != SYMM_OK) return complain(0, symm_last_error());
    }
    std::fill(piece.begin(), piece.end(), static_cast<uint32_t>(stamp_of(0, number)));
    stage.tokens[number] = make_token(piece.data(), piece.size_bytes());
    stage.published = static_cast<int>(number) + 1;
    if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
  }

  const auto is_over = [&] {
    return trial.stage.facts.failed >= trial.size - 2 && symm::ipc_stats().leases == 0;
  };

  if (!eventually(is_over)) complain(0, "leases are left");
}

void borrow(const Trial& trial, int rank) {
  ready(trial);
  std::mt19937_64 random(trial.seed + static_cast<uint64_t>(rank));
  Stage& stage = trial.stage;

  while (stage.published < static_cast<int>(kTokens)) {
    const int last = stage.published;
    if (last == 0) continue;
    const int64_t number = std::max(0, last - 1 - static_cast<int>(random() % (2 * kPieces)));
    symm::Import import;
    Event& imported = stage.history[rank].begin({Event::import, false, 0, number});
    const Outcome got = outcome_of([&] {
      import = symm::Import(stage.tokens[number]);
      look_at(imported, import.span<uint32_t>().data(), kPieceWords);
    });
    History::end(imported, got.status);
    if (got.status != SYMM_OK && got.status != SYMM_ERR_INVALID_HANDLE) complain(rank, got.message);
    if (got.status != SYMM_OK) continue;
    Event& use = stage.history[rank].begin({Event::use, false, 0, number});
    if (random() % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
    look_at(use, import.span<uint32_t>().data(), kPieceWords);
    History::end(use, SYMM_OK);
  }

  ++stage.facts.failed;
}

// The attacks that come from outside, once all ranks are at work.
void strike(const Trial& trial, Processes& processes, std::mt19937_64& random) {
  const auto pause = [&](uint64_t most_us) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % most_us));
  };

  const auto all = [&](int signal) {
    for (int rank = 0; rank < trial.size; ++rank) {
      if (trial.is_struck(rank)) processes[rank].kill(signal);
    }
  };

  Stage& stage = trial.stage;
  pause(10'000);
  if (trial.goes_on_without() || trial.attack == Attack::leases) {
    stage.struck_ns = now_ns();
    all(trial.attack == Attack::hang ? SIGSTOP : SIGKILL);
    if (trial.attack != Attack::hang) return;
    eventually([&] { return stage.facts.failed >= trial.survivors(); });
    pause(20'000);
    all(SIGCONT);
  } else if (trial.attack == Attack::stop) {
    for (int i = 0; i < 500 && stage.facts.failed == 0; ++i) {
      const Process& one =
          processes[static_cast<int>(random() % static_cast<uint64_t>(trial.size))];
      one.kill(SIGSTOP);
      pause(random() % 5 == 0 ? 150'000 : 3000);
      one.kill(SIGCONT);
      pause(4000);
    }
  }
}

// The life of a rank in its process.
void take_part(
    const Trial& trial, const Config& config, const Bootstrap& meeting, bool apart, int rank) {
  try {
    if (apart && rank != 0 && unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWNS) != 0) {
      throw std::runtime_error("unshare");
    }
    setenv("SYMM_IPC_DIRECTORY", meeting.path().c_str(), 1);
    if (trial.attack != Attack::leases) {
      live(trial, config, rank);
    } else if (rank == 0) {
      own(trial);
    } else {
      borrow(trial, rank);
    }
  } catch (const std::exception& error) {
    complain(rank, std::string("exception: ") + error.what());
  }

  trial.stage.done[rank] = 1;
}

// Adds to the report how a rank ended, and how soon it was told of the attack.
void report_end(const Trial& trial, Process& process, int rank, AttackReport& report) {
  const Stage& stage = trial.stage;
  const bool killed = trial.kills() && trial.is_struck(rank);
  if (!process.reap(kHangMs)) {
    ++report.counts["hangs"];
    report.problems.push_back("rank " + std::to_string(rank) + " hangs");
  } else if (stage.done[rank] == 0 && !killed) {
    ++report.counts["crashes"];
    report.problems.push_back("rank " + std::to_string(rank) + " ended early: " + process.said());
  }

  if (killed) return;
  if (const std::string said = process.said(); !said.empty()) report.problems.push_back(said);
  report.counts["leaks"] += stage.leaked[rank];
  const bool told = stage.struck_ns != 0 && stage.status[rank] != SYMM_OK && !trial.is_struck(rank);
  const bool missed = trial.phase == Phase::create && stage.status[rank] == SYMM_ERR_TIMEOUT;
  if (told && missed) ++report.counts["missed"];
  if (told && !missed) {
    report.latencies_ms.push_back(
        static_cast<double>(stage.failed_ns[rank] - stage.struck_ns) / 1e6);
  }
}

// Adds to the report what the ranks have left behind. A rank that was killed while it was the last
// to leave a creation, or that owned what it shared, leaves something: the next ranks that come
// remove that. Where the group was of two ranks, none has come since.
void report_left(const Bootstrap& meeting, const Config& config, AttackReport& report) {
  if (!std::filesystem::is_empty(meeting.path())) {
    Processes next(2, [&](int rank) { expect_working(config, rank, 2, 1); });
    for (int rank = 0; rank < 2; ++rank) {
      next[rank].reap(kHangMs);
    }
  }

  if (!std::filesystem::is_empty(meeting.path())) {
    ++report.counts["leaks"];
    report.problems.push_back(
        "left behind: " + std::filesystem::directory_iterator(meeting.path())->path().string());
  }
}
}  // namespace

const char* phase_name(Phase phase) {
  return std::array<const char*, kPhases>{"create", "rendezvous", "split", "barrier", "wait_signal",
      "collectives", "messages", "everything"}[static_cast<size_t>(phase)];
}

AttackReport attack_one(
    Attack attack, uint64_t seed, int size, bool apart, std::optional<Phase> given) {
  std::mt19937_64 random(seed);
  const auto drawn = static_cast<Phase>(random() % kPhases);
  Phase phase = given.value_or(drawn);
  if (attack != Attack::kill && phase == Phase::create) phase = Phase::everything;

  // Hangs are tried in collectives and barriers only: a wait for a signal that times out revokes
  // nothing, and while some ranks are in the next exchange already, they name each other.
  if (attack == Attack::hang && phase != Phase::barrier) phase = Phase::collectives;
  const auto ranks = static_cast<uint64_t>(size);
  const auto any_but = [&](uint64_t spared) {
    return uint64_t{1} << (spared + random() % (ranks - spared));
  };

  // Rank 0 owns what the others lease, so it lives.
  const uint64_t spared = attack == Attack::leases ? 1 : 0;
  uint64_t struck = attack == Attack::stop ? 0 : any_but(spared);
  while (attack == Attack::kill && std::popcount(struck) < size - 1 && random() % 2 == 0) {
    struck |= any_but(0);
  }

  const Shared<Stage> stage;
  const Trial trial{attack, random(), size, phase, struck, *stage};
  AttackReport report{phase, "", {}, {}, {}};

  for (const char* count : {"kills", "missed", "hangs", "crashes", "wrong", "leaks", "problems"}) {
    report.counts[count] = 0;
  }

  if (trial.kills()) report.counts["kills"] = std::popcount(struck);
  report.what = std::string(kAttacks[static_cast<size_t>(attack)].first) + " ranks " +
                std::to_string(struck) + " of " + std::to_string(size) + " during " +
                phase_name(phase) + ", seed " + std::to_string(seed);
  const Bootstrap meeting;
  Config config = meeting.processes();
  config.create_timeout_ms = kTimeoutMs;
  config.timeout_ms = attack == Attack::hang ? kHangTimeoutMs : kTimeoutMs;
  Processes processes(size, [&](int rank) { take_part(trial, config, meeting, apart, rank); });
  if (!eventually([&] { return stage->facts.ready == size; }, kHangMs)) {
    report.problems.emplace_back("the ranks did not get to work");
  }

  strike(trial, processes, random);
  std::vector<std::vector<Event>> histories;
  for (int rank = 0; rank < size; ++rank) {
    report_end(trial, processes[rank], rank, report);
    histories.push_back(stage->history[rank].events());
  }

  for (const std::string& problem : check_history(histories, struck)) {
    ++report.counts["wrong"];
    report.problems.push_back(problem);
  }

  report_left(meeting, config, report);
  report.counts["problems"] = static_cast<int>(report.problems.size());
  return report;
}
}  // namespace support
