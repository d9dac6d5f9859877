#include "tests/ranks/kill_experiment.hpp"

#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <random>
#include <sstream>
#include <thread>

#include "tests/ranks/failure.hpp"

namespace support {
namespace {

constexpr uint64_t kTimeoutMs = 10'000;
constexpr uint64_t kMissingTimeoutMs = 1500;  // in the phase in which a rank may die before it has come
constexpr int kHangMs = 40'000;

// What ranks and parent tell each other.
struct Stage {
  Facts facts;
  std::atomic<int64_t> failed_ns[kMost];
  std::atomic<int> status[kMost];
  std::atomic<int> done[kMost];
  std::atomic<int> leaked[kMost];
  char problem[kMost][512];  // first of each rank
};

struct Trial {
  uint64_t seed;
  int size;
  Phase phase;
  int victim;
  Stage& stage;
};

void complain(const Trial& trial, int rank, const std::string& text) {
  char* own = trial.stage.problem[rank];
  if (own[0] == '\0') std::snprintf(own, sizeof trial.stage.problem[0], "rank %d: %s", rank, text.c_str());
}

void random_collective(Member& m, std::mt19937_64& random) {
  const size_t per_rank = m.send.size() / static_cast<size_t>(m.size);
  const auto most = static_cast<double>(per_rank);
  const auto count = static_cast<size_t>(std::pow(most, std::uniform_real_distribution<>(0, 1)(random)));
  const bool symmetric = random() % 2 == 0;
  const int root = static_cast<int>(random() % static_cast<uint64_t>(m.size));
  const size_t room = Member::kBlock / sizeof(float) / 2 / static_cast<size_t>(m.size);
  const size_t n = symmetric ? std::min(count, room) : count;
  const auto what = static_cast<symm_collective_values>(random() % 6);
  collective(m, what, SYMM_ALGORITHM_AUTO, n, symmetric, root);
  const float* recv = symmetric ? m.symmetric_recv() : m.recv.data();
  if (what == SYMM_COLLECTIVE_ALLREDUCE && (recv[0] != static_cast<float>(m.size) || recv[n - 1] != recv[0]))
    throw std::runtime_error("wrong sum");
}

const Operation& operation_named(const std::string& name) {
  for (const Operation& operation : operations()) {
    if (operation.name == name) return operation;
  }
  throw std::runtime_error("no operation " + name);
}

void next_call(Phase phase, Member& m, std::mt19937_64& random) {
  switch (phase) {
    case Phase::create: break;
    case Phase::rendezvous: return operation_named("rendezvous").call(m);
    case Phase::split: return operation_named("split").call(m);
    case Phase::barrier: return operation_named("barrier").call(m);
    case Phase::signals: return operation_named("wait_signal").call(m);
    case Phase::collectives: return random_collective(m, random);
    case Phase::everything:
      return random() % 2 == 0 ? random_collective(m, random) : operations()[random() % operations().size()].call(m);
  }
  throw std::runtime_error("no call of this phase");
}

void ready(const Trial& trial) {
  ++trial.stage.facts.ready;
  while (trial.stage.facts.ready != trial.size) std::this_thread::yield();
}

// Form groups again and again until it fails.
Outcome create_until_failure(const Trial& trial, Config config, int rank) {
  config.create_timeout_ms = kMissingTimeoutMs;
  ready(trial);
  Outcome end;
  while (end.status == SYMM_OK) end = outcome_of([&] { create(config, rank, trial.size).barrier(); });
  return end;
}

Outcome call_until_failure(const Trial& trial, const Config& config, int rank) {
  std::mt19937_64 random(trial.seed);  // the same calls on all ranks
  Member member(config, rank, trial.size, trial.stage.facts);
  ready(trial);
  Outcome end;
  while (end.status == SYMM_OK) end = outcome_of([&] { next_call(trial.phase, member, random); });
  trial.stage.failed_ns[rank] = now_ns();
  if (!eventually([&] { return member.group.status().status != SYMM_OK; })) complain(trial, rank, "the group was not revoked");
  const symm_group_status_t now = member.group.status();
  if (now.status != SYMM_ERR_PEER_FAILED || now.failed_rank != trial.victim ||
      now.failed_pid != trial.stage.facts.pids[trial.victim]) {
    complain(trial, rank, "symm_group_status() says: " + std::string(now.message));
  }
  return end;
}

void expect_documented_end(const Trial& trial, int rank, const Outcome& end) {
  const bool missed = trial.phase == Phase::create && end.status == SYMM_ERR_TIMEOUT;
  if (end.status != SYMM_ERR_PEER_FAILED && !missed) {
    complain(trial, rank, std::string(symm_status_string(end.status)) + " instead of PEER_FAILED: " + end.message);
  }
  if (!names_rank(end.message, trial.victim)) {
    complain(trial, rank, "does not name rank " + std::to_string(trial.victim) + ": " + end.message);
  }
}

void compare_footprint(const Trial& trial, int rank, const Footprint& before, const char* when) {
  if (eventually([&] { return Footprint::now() == before; }, 10'000)) return;
  std::ostringstream text;
  text << when << ": " << Footprint::now() << " instead of " << before;
  trial.stage.leaked[rank] = 1;
  complain(trial, rank, text.str());
}

void live(const Trial& trial, const Config& config, int rank) {
  trial.stage.facts.pids[rank] = getpid();
  expect_working(config, rank, trial.size, 1);  // what the first use brings into a process is no leak
  const Footprint before = Footprint::settled();
  const Outcome end =
      trial.phase == Phase::create ? create_until_failure(trial, config, rank) : call_until_failure(trial, config, rank);
  if (trial.stage.failed_ns[rank] == 0) trial.stage.failed_ns[rank] = now_ns();
  trial.stage.status[rank] = end.status;
  expect_documented_end(trial, rank, end);
  compare_footprint(trial, rank, before, "after the failure");
  Config again = config;
  again.name = "survivors";
  expect_working(again, rank < trial.victim ? rank : rank - 1, trial.size - 1);
  compare_footprint(trial, rank, before, "after the new group");
}

}  // namespace

const char* name_of(Phase phase) {
  switch (phase) {
    case Phase::create: return "create";
    case Phase::rendezvous: return "rendezvous";
    case Phase::split: return "split";
    case Phase::barrier: return "barrier";
    case Phase::signals: return "signals";
    case Phase::collectives: return "collectives";
    case Phase::everything: return "everything";
  }
  return "?";
}

KillReport kill_one(uint64_t seed, int size) {
  std::mt19937_64 random(seed);
  const Phase phase = kPhases[random() % std::size(kPhases)];
  const int victim = static_cast<int>(random() % static_cast<uint64_t>(size));
  const auto delay = std::chrono::microseconds(random() % 10'000);
  const Shared<Stage> stage;
  const Trial trial{random(), size, phase, victim, *stage};
  KillReport report;
  report.size = size;
  report.phase = phase;
  report.victim = victim;

  const Bootstrap meeting;
  Config config = meeting.processes();
  config.timeout_ms = config.create_timeout_ms = kTimeoutMs;
  Processes processes(size, [&](int rank) {
    try {
      live(trial, config, rank);
    } catch (const std::exception& error) { complain(trial, rank, std::string("exception: ") + error.what()); }
    stage->done[rank] = 1;
  });
  if (!eventually([&] { return stage->facts.ready == size; })) report.problems.emplace_back("the ranks did not get to work");
  std::this_thread::sleep_for(delay);
  const int64_t killed_ns = now_ns();
  processes[victim].kill(SIGKILL);
  processes[victim].reap(kHangMs);
  for (int rank = 0; rank < size; ++rank) {
    if (rank == victim) continue;
    if (!processes[rank].reap(kHangMs)) {
      ++report.hangs;
      report.problems.push_back("rank " + std::to_string(rank) + " hangs");
    } else if (stage->done[rank] == 0) {
      report.problems.push_back("rank " + std::to_string(rank) + " ended early: " + processes[rank].said());
    }
    if (stage->problem[rank][0] != '\0') report.problems.emplace_back(stage->problem[rank]);
    report.leaks += stage->leaked[rank];
    if (stage->status[rank] == SYMM_ERR_TIMEOUT) ++report.missed;
    if (stage->status[rank] == SYMM_ERR_PEER_FAILED)
      report.latencies_ms.push_back(static_cast<double>(stage->failed_ns[rank] - killed_ns) / 1e6);
  }
  if (!std::filesystem::is_empty(meeting.path())) {
    // Killed while it was the last to leave a creation. The next creation there removes what it left; of two ranks none has come
    // since.
    Processes next(2, [&](int rank) { expect_working(config, rank, 2, 1); });
    for (int rank = 0; rank < 2; ++rank) next[rank].reap(kHangMs);
  }
  if (!std::filesystem::is_empty(meeting.path())) {
    ++report.leaks;
    report.problems.push_back("left behind: " + std::filesystem::directory_iterator(meeting.path())->path().string());
  }
  return report;
}

}  // namespace support
