// Every point of the library (core/base/error.hpp), once in a whole life of three
// ranks, on the host and on the fake driver: a rank fails at the point, is killed,
// stopped or delayed. No rank crashes or hangs, all ranks learn one cause at once and
// go on, and nothing is left behind.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "symm/symm.h"
#include "tests/points/life.hpp"

namespace support {
namespace {
// Whose call fails when the victim's fails at a point.
enum class Affected {
  all,    // the calls of all ranks, for one reason
  left,   // the calls of all ranks but the last, which is through already, for one reason
  own,    // the victim's call, which can be made again
  peer,   // the call of the rank before the victim, which imports from it and can call again
  none,   // no call: the library does without what failed
  lost,   // the calls that would fail if the victim, or in its eyes the other ranks, had died
  never,  // no call: nothing can fail at this point
  absent  // no call: this back end does not reach the point
};

struct Row {
  Affected on_host;
  Affected on_cuda;
  int victim;
  const char* points;
};

constexpr Row kTable[] = {
    {Affected::all, Affected::all, 1,
        "store.set store.linked store.get wireup.introduce wireup.listen wireup.dial wireup.admit "
        "wireup.join wireup.voted "
        "monitor.watch mesh.send group.attached exchange.prepare exchange.voted exchange.commit "
        "rendezvous.commit part.form segment.create segment.seal segment.import"},
    {Affected::left, Affected::left, 1, "agreement.tell"},
    {Affected::all, Affected::all, 0, "directory.seal"},
    {Affected::lost, Affected::lost, 1, "directory.sealed socket.read ipc.serve"},
    {Affected::none, Affected::none, 1, "life.hold"},
    {Affected::own, Affected::own, 1,
        "ipc.export ipc.dial ipc.welcome ipc.requested ipc.claimed ipc.withdraw ipc.bundle "
        "ipc.table ipc.mapped ipc.publish ipc.published"},
    {Affected::peer, Affected::peer, 1, "ipc.admit"},
    {Affected::never, Affected::never, 1, "split.voted shrink.agreed"},
    {Affected::never, Affected::absent, 1, "call.enter call.entered"},
    {Affected::absent, Affected::all, 1, "cuda.control cuda.map cuda.ready"},
};

int met(const char* name) {
  const char* planned = plan.point.load();
  if (planned == nullptr || std::strcmp(name, planned) != 0 ||
      !plan.point.compare_exchange_strong(planned, nullptr)) {
    return 0;
  }
  plan.facts->fired_ms = now_ms();
  if (plan.action == Action::fail) return EIO;
  if (plan.action == Action::delay) usleep(50'000);
  if (plan.action != Action::delay) raise(plan.action == Action::kill ? SIGKILL : SIGSTOP);
  return 0;
}

void walk(const Row& row, const std::string& point, Action action, bool on_cuda) {
  const Affected affected = on_cuda ? row.on_cuda : row.on_host;
  const bool fails = action == Action::fail;
  if (affected == Affected::absent || (affected == Affected::never && fails)) return;
  const char* const how[] = {"fails", "is killed", "is stopped", "is delayed"};
  SCOPED_TRACE((on_cuda ? "cuda, rank " : "host, rank ") + std::to_string(row.victim) + " " +
               how[static_cast<int>(action)]);
  const Bootstrap meeting;
  const Shared<Facts> facts;
  Processes ranks(kSize, [&](int rank) {
    setenv("SYMM_IPC_DIRECTORY", meeting.path().c_str(), 1);
    plan.action = action;
    plan.victim = row.victim;
    plan.facts = &*facts;
    if (rank == row.victim) plan.point = point.c_str();
    Life(rank, on_cuda, meeting.processes().bootstrap).live();
  });

  if (action == Action::stop) {
    EXPECT_TRUE(eventually([&] { return facts->fired_ms != 0; }, 10'000));
    usleep(100'000);
    ranks[row.victim].kill(SIGCONT);
  }

  std::vector<int> dead{kSize - 1};
  if (action == Action::kill) dead.push_back(row.victim);
  for (const int rank : dead) {
    EXPECT_TRUE(WIFSIGNALED(ranks[rank].wait())) << rank << ": " << ranks[rank].said();
  }

  facts->buried = 1;
  ranks.expect_success(dead);
  expect_empty(meeting.path());
  EXPECT_NE(facts->fired_ms, 0) << "nobody came by";

  for (int rank = 0; rank < kSize; ++rank) {
    const auto& learnt = facts->learnt[rank];
    SCOPED_TRACE(std::to_string(rank) + " says: " + learnt.message);
    const bool is_affected = learnt.ms != 0;
    // Nobody learns it by waiting for a deadline, however busy the machine is.
    EXPECT_TRUE(!is_affected || learnt.ms - facts->fired_ms < static_cast<int64_t>(kTimeoutMs / 2));
    if (fails && affected != Affected::lost) {
      EXPECT_EQ(is_affected, affected == Affected::all ||
                                 (affected == Affected::left && rank + 1 < kSize) ||
                                 (affected == Affected::own && rank == row.victim) ||
                                 (affected == Affected::peer && rank + 1 == row.victim));
      EXPECT_TRUE(!is_affected || std::strstr(learnt.message, point.c_str()) != nullptr);
      EXPECT_TRUE(!is_affected || learnt.blamed == row.victim || affected != Affected::all)
          << learnt.blamed;
    } else if (action == Action::kill && is_affected) {
      EXPECT_EQ(learnt.status, SYMM_ERR_PEER_FAILED);
      EXPECT_TRUE(learnt.blamed == row.victim || learnt.blamed == -1) << learnt.blamed;
    }
    EXPECT_TRUE(action < Action::stop || !is_affected);
  }
}

class Points : public testing::TestWithParam<std::string> {};

TEST_P(Points, LeadToWhatTheTableSays) {
  setenv("SYMM_CUDA_TUNE", "chunk=65536,one_shot=4096,ll=1024,tile=1024,work_groups=2", 1);
  for (const Row& row : kTable) {
    if ((' ' + std::string(row.points) + ' ').find(' ' + GetParam() + ' ') == std::string::npos) {
      continue;
    }
    for (const bool on_cuda : {false, true}) {
      for (const Action action :
          {Action::fail, Action::kill, on_cuda ? Action::delay : Action::stop}) {
        walk(row, "point:" + GetParam(), action, on_cuda);
      }
    }
  }
}

std::vector<std::string> all_points() {
  std::stringstream all;
  for (const Row& row : kTable) {
    all << row.points << ' ';
  }
  return {std::istream_iterator<std::string>(all), {}};
}

INSTANTIATE_TEST_SUITE_P(All, Points, testing::ValuesIn(all_points()), [](const auto& of) {
  std::string name = of.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});
}  // namespace
}  // namespace support

extern "C" int symm_at_point(const char* name);

int symm_at_point(const char* name) { return support::met(name); }
