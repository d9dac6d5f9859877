// What the ranks of a chaos run did, and whether it can have been right: each writes down its own calls, in memory that outlives
// it, and check_history() looks at all of them afterwards.
#pragma once

#include "tests/support/test.hpp"

namespace support {
struct Event {
  enum Kind : int32_t {
    call,
    import,   // of the token of that number
    use,      // of what was imported, until its release begins
    withdraw  // of that token
  };
  Kind kind = call;
  bool all_wait_for_all = false;       // nobody can be through before everybody has begun
  int32_t epoch = 0;                   // of several groups
  int64_t number = 0;                  // of the call in its epoch, without gaps
  uint64_t arguments = 0;              // hash of what all ranks pass alike
  int64_t begun_ns = 0, ended_ns = 0;  // ended 0: it never returned
  int32_t status = 0, blamed = -1;
  uint64_t oldest = 0, newest = 0;  // of the stamps that all of what was received bears; newest 0: nothing was
};

// What all that is sent in a call consists of; sums of eight are exact in f32, in epochs 1 to 511.
inline uint64_t stamp_of(int32_t epoch, int64_t number) {
  return (static_cast<uint64_t>(epoch) << 12) + static_cast<uint64_t>(number) % 4096;
}

// The last events of a rank.
class History {
 public:
  Event& begin(Event event);  // fills in when; the reference is good until kRoom more have begun
  static void end(Event& event, int32_t status, int32_t blamed = -1);
  std::vector<Event> events() const;
 private:
  static constexpr uint64_t kRoom = 2048;
  std::atomic<uint64_t> begun_;
  Event last_[kRoom] = {};
};

// Everything that cannot be, in words. `struck`: a bit for each rank that was killed, stopped or made to fail; the others blame
// nobody else. Who takes part in an epoch has begun a call in it.
std::vector<std::string> check_history(const std::vector<std::vector<Event>>& ranks, uint64_t struck);
}  // namespace support
