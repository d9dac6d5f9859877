// The history of the ranks of a chaos run. Each rank writes down its own calls, in memory that
// outlives it, and check_history() says afterwards whether all of them together can be right.
#pragma once

#include "tests/support/process.hpp"

namespace support {
struct Event {
  enum Kind : int32_t {
    call,
    import,   // the import of token `number`
    use,      // the use of the imported memory, until its release begins
    withdraw  // the withdrawal of token `number`
  };
  Kind kind = call;
  bool all_wait_for_all = false;  // no rank can be through before all have begun
  int32_t epoch = 0;              // counts the groups, one after the other
  int64_t number = 0;             // of the call in its epoch, without gaps; or of a token
  uint64_t arguments = 0;         // hash of the arguments that all ranks pass alike
  int64_t begun_ns = 0;
  int64_t ended_ns = 0;  // 0: the call never returned
  int32_t status = 0;
  int32_t blamed = -1;
  // The stamps of everything that was received lie from oldest to newest. If nothing was received,
  // newest is 0.
  uint64_t oldest = 0;
  uint64_t newest = 0;
};

// The number that every element sent in a call has. Sums of eight such numbers are exact in f32, in
// epochs 1 to 511.
inline uint64_t stamp_of(int32_t epoch, int64_t number) {
  return (static_cast<uint64_t>(epoch) << 12) + static_cast<uint64_t>(number) % 4096;
}

// The last events of a rank.
class History {
 public:
  // Fills in when; the reference is good until kRoom more have begun.
  Event& begin(Event event) {
    Event& place = last_[begun_ % kRoom];
    event.begun_ns = now_ns();
    place = event;
    ++begun_;  // a rank that is killed before this line has not begun
    return place;
  }
  static void end(Event& event, int32_t status, int32_t blamed = -1) {
    event.status = status;
    event.blamed = blamed;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    event.ended_ns = now_ns();
  }
  std::vector<Event> events() const {
    // The rank may have died while it wrote over the oldest event.
    const uint64_t end = begun_;
    const uint64_t kept = std::min(end, kRoom - 1);
    std::vector<Event> events;
    for (uint64_t i = end - kept; i < end; ++i) {
      events.push_back(last_[i % kRoom]);
    }
    return events;
  }

 private:
  static constexpr uint64_t kRoom = 2048;
  std::atomic<uint64_t> begun_;
  Event last_[kRoom] = {};
};

class HistoryChecker {
 public:
  explicit HistoryChecker(uint64_t struck) : struck_(struck) {}

  std::vector<std::string> problems(const std::vector<std::vector<Event>>& ranks) {
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      for (const Event& event : ranks[rank]) {
        sort({rank, event});
      }
    }

    for (const auto& [where, calls] : calls_) {
      compare(calls);
    }

    for (const auto& [number, token] : tokens_) {
      linearize(token);
    }

    return std::move(problems_);
  }

 private:
  struct RankEvent {
    size_t rank;
    Event event;
  };
  using List = std::vector<RankEvent>;

  static std::string name(size_t rank) { return "rank " + std::to_string(rank); }
  bool is_struck(size_t rank) const { return rank < kMost && (struck_ >> rank & 1) != 0; }
  void complain(const RankEvent& one, const std::string& text) {
    const std::string where = ", epoch " + std::to_string(one.event.epoch) + ", number " +
                              std::to_string(one.event.number) + ": ";
    problems_.push_back(name(one.rank) + where + text);
  }

  void sort(const RankEvent& one) {
    const auto& [rank, event] = one;
    if (event.kind == Event::call) {
      const auto where = std::pair(event.epoch, rank);
      if (failed_.count(where) != 0) {
        complain(one, "called, or succeeded, after a failure of its own");
      }
      last_[where] = event.number;
      calls_[{event.epoch, event.number}].push_back(one);
      if (event.ended_ns != 0 && event.status != 0) {
        failed_.insert(where);
        if (!is_struck(rank) && !is_struck(static_cast<size_t>(event.blamed))) {
          complain(one, "fails by status " + std::to_string(event.status) + " and blames rank " +
                            std::to_string(event.blamed));
        }
      }
    } else {
      tokens_[event.number].push_back(one);
    }

    const uint64_t stamp = stamp_of(event.epoch, event.number);
    if (event.ended_ns != 0 && event.status == 0 && event.newest != 0 &&
        (event.oldest != stamp || event.newest != stamp)) {
      complain(one, "received stamps " + std::to_string(event.oldest) + " to " +
                        std::to_string(event.newest));
    }
  }

  void compare(const List& calls) {
    for (const RankEvent& one : calls) {
      const Event& event = one.event;
      if (event.arguments != calls[0].event.arguments) {
        complain(one, "other arguments than the others");
      }
      if (event.ended_ns == 0 || event.status != 0 || !event.all_wait_for_all) continue;
      for (auto last = last_.lower_bound({event.epoch, 0});
          last != last_.end() && last->first.first == event.epoch; ++last) {
        if (last->second < event.number) {
          complain(one, "succeeded without " + name(last->first.second) + ", which never began it");
        }
      }
      for (const RankEvent& other : calls) {
        if (other.event.begun_ns > event.ended_ns) {
          complain(one, "was through before " + name(other.rank) + " had begun");
        }
      }
    }
  }

  // Tokens end at some moment of the withdrawal: after every import that succeeded
  // began, and before any that was refused ended.
  void linearize(const List& token) {
    const auto end = std::find_if(token.begin(), token.end(),
        [](const RankEvent& one) { return one.event.kind == Event::withdraw; });
    const bool withdrawn = end != token.end() && end->event.ended_ns != 0;
    int64_t earliest = withdrawn ? end->event.begun_ns : 0;
    int64_t latest = withdrawn ? end->event.ended_ns : INT64_MAX;

    for (const RankEvent& one : token) {
      const Event& event = one.event;
      const bool over = event.ended_ns != 0;
      const bool is_import = event.kind == Event::import && over;
      if (is_import && event.status == 0) earliest = std::max(earliest, event.begun_ns);
      if (is_import && event.status != 0) latest = std::min(latest, event.ended_ns);
      if (is_import && event.status != 0 && end == token.end()) {
        complain(one, "refused, though nobody withdrew it");
      }
      const bool held =
          event.kind == Event::use && !is_struck(one.rank) && withdrawn && end->event.status == 0;
      if (held && (!over || event.ended_ns > end->event.ended_ns)) {
        complain(one, "still held a lease after the withdrawal");
      }
    }

    if (withdrawn && earliest > latest) {
      complain(*end, "no moment of the withdrawal is after all imports and before all refusals");
    }
  }

  static constexpr size_t kMost = 64;
  const uint64_t struck_;
  std::map<std::pair<int32_t, int64_t>, List> calls_;
  std::map<std::pair<int32_t, size_t>, int64_t> last_;  // number of the last call of each rank
  std::set<std::pair<int32_t, size_t>> failed_;
  std::map<int64_t, List> tokens_;
  std::vector<std::string> problems_;
};

// Returns the contradictions in a history, in words. `struck` has a bit for each rank that was
// killed, stopped or made to fail; the others blame no other rank. A rank that takes part in an
// epoch has begun a call in it.
inline std::vector<std::string> check_history(
    const std::vector<std::vector<Event>>& ranks, uint64_t struck) {
  return HistoryChecker(struck).problems(ranks);
}
}  // namespace support
