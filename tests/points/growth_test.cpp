// Every point on the way of a group that grows, admits spares or takes them, and of memory that
// moves, once in each of its parts: the leader, another member and a newcomer fail at the point,
// are killed or are delayed. All members that live get one group, or one memory, or one failure,
// after which they get there by another call, and nothing is left behind.
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
#include <thread>
#include <utility>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/points/life.hpp"

namespace support {
namespace {
constexpr int kMembers = 3;  // the last one is dead before the others grow
constexpr int kProcesses = kMembers + 3;
constexpr int kRoles[] = {0, 1, kMembers};  // the leader, a member, the first newcomer

// What happens at the points. Members have one dead among them when they grow.
enum class Walk { grow, keep_spares, take_spares, move };

constexpr const char* kGrowing =
    "grow.tell grow.hear grow.gathered grow.offer grow.formed agreement.tell join.waits "
    "newcomer.asked newcomer.answered join.offered store.set store.linked store.get "
    "wireup.introduce wireup.listen wireup.dial wireup.admit wireup.join wireup.voted mesh.send "
    "group.attached exchange.prepare exchange.voted exchange.commit";
constexpr const char* kKeepingSpares =
    "grow.tell grow.hear grow.gathered grow.offer agreement.tell newcomer.asked newcomer.answered "
    "join.spare store.set store.get wireup.introduce wireup.join wireup.voted mesh.send";
constexpr const char* kTakingSpares =
    "grow.tell grow.hear grow.formed agreement.tell spares.ask spares.offer spare.asked "
    "spare.called mesh.send group.attached exchange.prepare exchange.voted exchange.commit";
constexpr const char* kMoving =
    "move.agree move.done agreement.tell mesh.send exchange.prepare exchange.voted "
    "exchange.commit";

struct Scene {
  std::atomic<size_t> ticket_size;
  std::byte ticket[SYMM_TICKET_MAX_BYTES];
  std::atomic<int> dead;
  std::atomic<int> has_spares;
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

// Moves memory to `whole`, and if that fails, to the group that becomes of it. Returns how the
// first call ended.
Outcome move_until_there(Group& whole, symm::Memory& memory) {
  Outcome first;
  bool is_there = false;
  for (int call = 0; call < 4 && !is_there; ++call) {
    symm::Memory moved;
    const Outcome outcome = outcome_of([&] { moved = whole.move_memory(memory); });
    if (call == 0) first = outcome;
    EXPECT_NE(outcome.status, SYMM_ERR_TIMEOUT) << outcome.message;
    is_there = outcome.status == SYMM_OK;
    if (is_there) memory = std::move(moved);
    if (is_there || whole.status().status == SYMM_OK) continue;
    const Outcome grown = outcome_of([&] { whole = whole.grow(); });
    EXPECT_NE(grown.status, SYMM_ERR_TIMEOUT) << grown.message;
  }
  EXPECT_TRUE(is_there) << first.message;
  return first;
}

void live_as_newcomer(int who, int victim, const std::string& point, Walk way, Scene& scene) {
  EXPECT_TRUE(eventually([&] { return scene.ticket_size != 0; }));
  const bool waits = way == Walk::take_spares || way == Walk::move;
  if (!waits) arm(who, victim, point);
  std::thread armed([&] {
    if (way != Walk::take_spares) return;
    while (scene.has_spares == 0) {
      std::this_thread::yield();
    }
    arm(who, victim, point);
  });
  armed.detach();
  for (;;) {
    symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
    config.create_timeout_ms = 2 * kTimeoutMs;
    const Outcome outcome = outcome_of([&] {
      Group group = Group::join({scene.ticket, scene.ticket_size}, config);
      if (way == Walk::move) {
        arm(who, victim, point);
        symm::Memory memory;
        move_until_there(group, memory);
      }
      outcome_of([&] { group.barrier(); });
    });
    if (outcome.status == SYMM_OK) return;
    EXPECT_NE(outcome.message.find("point:"), std::string::npos) << outcome.message;
    if (outcome.message.find("point:") == std::string::npos) return;
  }
}

// Has two spares, and tells how the first call for them ended.
Outcome admit_spares(const Group& group) {
  Outcome first;
  Outcome last;
  for (int call = 0; call < 4; ++call) {
    last = outcome_of([&] { group.keep_spares(2); });
    if (call == 0) first = last;
    EXPECT_NE(last.status, SYMM_ERR_TIMEOUT) << last.message;
    if (last.status == SYMM_OK) break;
  }
  EXPECT_EQ(last.status, SYMM_OK) << last.message;
  return first;
}

void live_as_member(int who, int victim, const std::string& point, Walk way,
    const std::string& bootstrap, Facts& facts, Scene& scene) {
  const Group group =
      create({.bootstrap = bootstrap, .create_timeout_ms = kTimeoutMs}, who, kMembers);
  if (who == 0) {
    const symm::Ticket ticket = group.invite();
    std::copy(ticket.begin(), ticket.end(), scene.ticket);
    scene.ticket_size = ticket.size();
  }
  symm::Memory memory;
  if (way == Walk::move) memory = group.rendezvous(group.allocate(4096));
  group.barrier();
  if (way == Walk::take_spares) admit_spares(group);
  if (way == Walk::take_spares) group.barrier();
  if (who == kMembers - 1) raise(SIGKILL);
  EXPECT_TRUE(eventually([&] { return !group.failed_ranks().empty(); }));
  scene.has_spares = 1;
  if (way != Walk::move) arm(who, victim, point);
  plan.facts = &facts;

  Scene::Got& mine = scene.got[who];
  const auto note = [&](const Outcome& outcome, uint64_t id) {
    mine.status = outcome.status;
    mine.id = id;
    std::strncpy(mine.message, outcome.message.c_str(), sizeof mine.message - 1);
  };
  if (way == Walk::keep_spares) note(admit_spares(group), 0);
  Group whole;
  for (int call = 0; call < 4 && !whole; ++call) {
    const Outcome outcome = outcome_of([&] { whole = group.grow(); });
    const bool is_it = way == Walk::grow || way == Walk::take_spares;
    if (is_it && call == 0) note(outcome, whole ? whole.info().id : 0);
    EXPECT_NE(outcome.status, SYMM_ERR_TIMEOUT) << outcome.message;
  }
  EXPECT_TRUE(whole) << mine.message;
  if (!whole) return;
  EXPECT_EQ(whole.rank(), who);
  EXPECT_EQ(whole.size(), kMembers);
  if (way == Walk::move) {
    arm(who, victim, point);
    note(move_until_there(whole, memory), 0);
  }
  outcome_of([&] { whole.barrier(); });  // a rank may have died when all had agreed
}

void walk_growth(const std::string& point, Walk way, int victim, Action action) {
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
    if (who >= kMembers) return live_as_newcomer(who, victim, full, way, *scene);
    live_as_member(who, victim, full, way, meeting.processes().bootstrap, *facts, *scene);
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

void walk_all(const std::string& point, Walk way) {
  for (const int victim : kRoles) {
    for (const Action action : {Action::fail, Action::kill, Action::delay}) {
      walk_growth(point, way, victim, action);
    }
  }
}

class GrowthPoints : public testing::TestWithParam<std::string> {};
class KeepingSparesPoints : public testing::TestWithParam<std::string> {};
class TakingSparesPoints : public testing::TestWithParam<std::string> {};
class MovePoints : public testing::TestWithParam<std::string> {};

TEST_P(GrowthPoints, LeaveAllThatLiveWithTheSame) { walk_all(GetParam(), Walk::grow); }
TEST_P(KeepingSparesPoints, LeaveAllThatLiveWithTheSame) {
  walk_all(GetParam(), Walk::keep_spares);
}
TEST_P(TakingSparesPoints, LeaveAllThatLiveWithTheSame) { walk_all(GetParam(), Walk::take_spares); }
TEST_P(MovePoints, LeaveAllThatLiveWithTheSame) { walk_all(GetParam(), Walk::move); }

std::vector<std::string> each_of(const char* points) {
  std::istringstream all(points);
  return {std::istream_iterator<std::string>(all), {}};
}

std::string name_of(const testing::TestParamInfo<std::string>& of) {
  std::string name = of.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, GrowthPoints, testing::ValuesIn(each_of(kGrowing)), name_of);
INSTANTIATE_TEST_SUITE_P(
    All, KeepingSparesPoints, testing::ValuesIn(each_of(kKeepingSpares)), name_of);
INSTANTIATE_TEST_SUITE_P(
    All, TakingSparesPoints, testing::ValuesIn(each_of(kTakingSpares)), name_of);
INSTANTIATE_TEST_SUITE_P(All, MovePoints, testing::ValuesIn(each_of(kMoving)), name_of);
}  // namespace
}  // namespace support
