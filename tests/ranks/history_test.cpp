// Histories that cannot be, each made of a right one by one
// change: the checker must refuse it, and for that reason.
#include "tests/ranks/history.hpp"

#include <cstdint>
#include <functional>
#include <vector>

#include "symm/symm.h"
#include "tests/support/group.hpp"

namespace support {
namespace {
using Ranks = std::vector<std::vector<Event>>;
constexpr uint32_t kStruck = 1U << 2;

Event event(Event::Kind kind, int32_t epoch, int64_t number, int64_t begun, int64_t ended,
    symm_status_t status = SYMM_OK, int32_t blamed = -1) {
  const uint64_t stamp =
      kind == Event::call && status == SYMM_OK && ended != 0 ? stamp_of(epoch, number) : 0;
  return {kind, true, epoch, number, 7, begun, ended, status, blamed, stamp, stamp};
}

// A right history of ranks 0 to 2: rank 2 dies in call 2, the others form a group, and rank 0 has
// tokens 0 and 1, which the others import.
Ranks right() {
  Ranks ranks(3);
  for (int32_t rank = 0; rank < 3; ++rank) {
    for (int64_t call = 0; call < 2; ++call) {
      ranks[rank].push_back(event(Event::call, 1, call, 10 * call + rank, 10 * call + 5));
    }
  }

  for (int32_t rank = 0; rank < 2; ++rank) {
    ranks[rank].push_back(event(Event::call, 1, 2, 20, 25, SYMM_ERR_PEER_FAILED, 2));
    ranks[rank].push_back(event(Event::call, 2, 0, 40, 45));
  }

  ranks[2].push_back(event(Event::call, 1, 2, 20, 0));
  ranks[0].push_back(event(Event::withdraw, 0, 0, 60, 70));
  ranks[1].push_back(event(Event::import, 0, 0, 50, 55));
  ranks[1].push_back(event(Event::use, 0, 0, 55, 65));
  ranks[1].push_back(event(Event::import, 0, 0, 61, 72, SYMM_ERR_INVALID_HANDLE));
  ranks[2].push_back(event(Event::import, 0, 0, 50, 55));
  ranks[2].push_back(event(Event::use, 0, 0, 55, 0));
  ranks[1].push_back(event(Event::import, 0, 1, 62, 63));

  return ranks;
}

struct Planted {
  const char* name;
  const char* complaint;
  std::function<void(Ranks&)> change;
};

TEST(History, TheRightOneIsAccepted) {
  EXPECT_EQ(check_history(right(), kStruck), std::vector<std::string>());
}

TEST(History, EveryWrongOneIsRefused) {
  const Planted planted[] = {
      {"everybody blames the innocent", "blames rank 1", [](Ranks& r) { r[0][2].blamed = 1; }},
      {"nobody is blamed", "blames rank -1", [](Ranks& r) { r[0][2].blamed = -1; }},
      {"success without the dead one", "never began",
          [](Ranks& r) {
            r[2].erase(r[2].begin() + 2);
            r[0][2] = event(Event::call, 1, 2, 20, 25);
          }},
      {"success in a call that another never reached", "never began",
          [](Ranks& r) {
            r[0][2].status = SYMM_OK;
            r[0][2].blamed = -1;
            r[0].insert(r[0].begin() + 3, event(Event::call, 1, 3, 26, 27));
          }},
      {"through before another had begun", "was through before",
          [](Ranks& r) { r[1][0].begun_ns = 6; }},
      {"success after a failure", "after a failure",
          [](Ranks& r) { r[1].insert(r[1].begin() + 3, event(Event::call, 1, 3, 26, 27)); }},
      {"other arguments", "other arguments", [](Ranks& r) { r[1][1].arguments = 8; }},
      {"a byte of an older epoch", "received stamps",
          [](Ranks& r) { r[1][3].oldest = stamp_of(1, 0); }},
      {"a byte of a newer call", "received stamps",
          [](Ranks& r) { r[1][0].newest = stamp_of(1, 1); }},
      {"an import after the withdrawal", "no moment", [](Ranks& r) { r[1][4].begun_ns = 71; }},
      {"an import after another was refused", "no moment",
          [](Ranks& r) {
            r[1][4].begun_ns = 66;
            r[1][6].ended_ns = 64;
          }},
      {"refused before the withdrawal", "no moment", [](Ranks& r) { r[1][6].ended_ns = 59; }},
      {"refused without a withdrawal", "nobody withdrew",
          [](Ranks& r) { r[1][7].status = SYMM_ERR_INVALID_HANDLE; }},
      {"withdrawn while it is held", "still held", [](Ranks& r) { r[1][5].ended_ns = 71; }},
      {"withdrawn while it is held for ever", "still held", [](Ranks& r) { r[1][5].ended_ns = 0; }},
      {"a lease of which the memory was written anew", "received stamps",
          [](Ranks& r) { r[1][5].newest = stamp_of(0, 4); }},
  };

  for (const Planted& one : planted) {
    Ranks ranks = right();
    one.change(ranks);
    std::string all;
    for (const std::string& problem : check_history(ranks, kStruck)) {
      all += problem + "; ";
    }
    EXPECT_NE(all.find(one.complaint), std::string::npos) << one.name << ": " << all;
  }
}
}  // namespace
}  // namespace support
