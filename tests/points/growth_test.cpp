// Every point on the way of a group that grows, once in each of its parts: the leader, another
// member and a newcomer fail at the point, are killed or are delayed. All members that live get one
// group or one failure, after which they grow the group whole, and nothing is left behind.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "symm/symm.h"
#include "tests/points/life.hpp"

namespace support {
namespace {
constexpr int kMembers = 3;  // the last one is dead before the others grow
constexpr int kProcesses = kMembers + 3;
constexpr int kRoles[] = {0, 1, kMembers};  // the leader, a member, the first newcomer

constexpr const char* kPoints =
    "grow.tell grow.hear grow.gathered grow.offer grow.formed agreement.tell join.waits "
    "newcomer.asked newcomer.answered join.offered store.set store.linked store.get "
    "wireup.introduce wireup.listen wireup.dial wireup.admit wireup.join wireup.voted mesh.send "
    "group.attached exchange.prepare exchange.voted exchange.commit";

struct Scene {
  std::atomic<size_t> ticket_size;
  std::byte ticket[SYMM_TICKET_MAX_BYTES];
  std::atomic<int> dead;
  std::atomic<int> over;  // members that have a whole group
  struct Got {
    symm_status_t status;
    uint64_t id;
    char message[512];
  } got[kMembers];
};

void arm(int who, int victim, const std::string& point) {
  if (who == victim) plan.point = point.c_str();
}

void live_as_newcomer(int who, int victim, const std::string& point, Scene& scene) {
  EXPECT_TRUE(eventually([&] { return scene.ticket_size != 0; }));
  arm(who, victim, point);
  for (;;) {
    symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
    config.create_timeout_ms = 2 * kTimeoutMs;
    const Outcome outcome = outcome_of([&] {
      const Group group = Group::join({scene.ticket, scene.ticket_size}, config);
      outcome_of([&] { group.barrier(); });
    });
    if (outcome.status == SYMM_OK) return;
    EXPECT_NE(outcome.message.find("point:"), std::string::npos) << outcome.message;
    if (outcome.message.find("point:") == std::string::npos) return;
  }
}

void live_as_member(int who, int victim, const std::string& point, const std::string& bootstrap,
    Facts& facts, Scene& scene) {
  const Group group =
      create({.bootstrap = bootstrap, .create_timeout_ms = kTimeoutMs}, who, kMembers);
  if (who == 0) {
    const symm::Ticket ticket = group.invite();
    std::copy(ticket.begin(), ticket.end(), scene.ticket);
    scene.ticket_size = ticket.size();
  }
  group.barrier();
  if (who == kMembers - 1) raise(SIGKILL);
  EXPECT_TRUE(eventually([&] { return !group.failed_ranks().empty(); }));
  arm(who, victim, point);
  plan.facts = &facts;

  Scene::Got& mine = scene.got[who];
  Group whole;
  for (int call = 0; call < 4 && !whole; ++call) {
    const Outcome outcome = outcome_of([&] { whole = group.grow(); });
    if (call == 0) {
      mine.status = outcome.status;
      mine.id = whole ? whole.info().id : 0;
      std::strncpy(mine.message, outcome.message.c_str(), sizeof mine.message - 1);
    }
    EXPECT_NE(outcome.status, SYMM_ERR_TIMEOUT) << outcome.message;
  }
  EXPECT_TRUE(whole) << mine.message;
  if (!whole) return;
  EXPECT_EQ(whole.rank(), who);
  EXPECT_EQ(whole.size(), kMembers);
  outcome_of([&] { whole.barrier(); });  // a rank may have died when all had agreed
}

void walk_growth(const std::string& point, int victim, Action action) {
  const char* const how[] = {"fails", "is killed", "is stopped", "is delayed"};
  SCOPED_TRACE("process " + std::to_string(victim) + " " + how[static_cast<int>(action)]);
  const TemporaryDirectory runtime;
  const Bootstrap meeting;
  const Shared<Facts> facts;
  const Shared<Scene> scene;
  const std::string full = "point:" + point;
  Processes all(kProcesses, [&](int who) {
    setenv("XDG_RUNTIME_DIR", runtime.path().c_str(), 1);
    plan.action = action;
    plan.victim = victim;
    plan.facts = &*facts;
    if (who >= kMembers) return live_as_newcomer(who, victim, full, *scene);
    live_as_member(who, victim, full, meeting.processes().bootstrap, *facts, *scene);
  });

  int first = -1;
  for (int who = 0; who < kMembers - 1; ++who) {
    const bool dies = action == Action::kill && who == victim;
    if (dies) {
      all[who].wait();
      if (facts->fired_ms != 0) continue;
    } else {
      all[who].expect_success(std::to_string(who));
    }
    if (first < 0) first = who;
    const auto& one = scene->got[who];
    const auto& other = scene->got[first];
    EXPECT_EQ(one.status, other.status) << one.message << " | " << other.message;
    EXPECT_EQ(one.id, other.id);
    EXPECT_TRUE(one.status == SYMM_OK || facts->fired_ms != 0) << one.message;
    EXPECT_TRUE(one.status == SYMM_OK || action != Action::delay) << one.message;
    EXPECT_TRUE(one.status == SYMM_OK || one.status == SYMM_ERR_PEER_FAILED ||
                (one.status == SYMM_ERR_SYSTEM && action == Action::fail))
        << one.message;
  }

  all[kMembers - 1].wait();
  for (int who = kMembers; who < kProcesses; ++who) {
    all[who].kill(SIGKILL);  // those that nobody has taken wait still
    all[who].wait();
  }
  Process([&] {
    setenv("XDG_RUNTIME_DIR", runtime.path().c_str(), 1);
    alone().grow();  // who grows a group removes what newcomers left that were killed
  }).expect_success("sweep");
  expect_empty(runtime.path() + "/symm");
}

class GrowthPoints : public testing::TestWithParam<std::string> {};

TEST_P(GrowthPoints, LeaveAllThatLiveWithTheSame) {
  for (const int victim : kRoles) {
    for (const Action action : {Action::fail, Action::kill, Action::delay}) {
      walk_growth(GetParam(), victim, action);
    }
  }
}

std::vector<std::string> points_of_growth() {
  std::istringstream all(kPoints);
  return {std::istream_iterator<std::string>(all), {}};
}

INSTANTIATE_TEST_SUITE_P(
    All, GrowthPoints, testing::ValuesIn(points_of_growth()), [](const auto& of) {
      std::string name = of.param;
      std::replace(name.begin(), name.end(), '.', '_');
      return name;
    });
}  // namespace
}  // namespace support
