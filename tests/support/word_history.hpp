// Histories of a word that ranks change and read at the same time, and a checker that says whether
// a history can be: whether there is an order of all calls, one after the other, in which each call
// lies between its begin and its end, the calls of a rank follow each other, and each call fetches
// what the calls before it have made of the word.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "symm/symm.h"
#include "tests/support/process.hpp"

namespace support {
// What symm.h says that becomes of a word.
template <class Word>
Word changed(symm_atomic_op_t op, Word word, Word value, Word compare) {
  switch (op) {
    case SYMM_ATOMIC_ADD: return word + value;
    case SYMM_ATOMIC_AND: return word & value;
    case SYMM_ATOMIC_OR: return word | value;
    case SYMM_ATOMIC_XOR: return word ^ value;
    case SYMM_ATOMIC_SWAP: return value;
    case SYMM_ATOMIC_COMPARE_SWAP: return word == compare ? value : word;
    default: return word;
  }
}

// A call, of which ranks tell each other byte by byte. A call that fetches nothing may take effect
// after it has returned.
struct WordEvent {
  int64_t begun_ns = 0;
  int64_t ended_ns = 0;
  uint64_t value = 0;
  uint64_t compare = 0;
  uint64_t before = 0;
  symm_atomic_op_t op = 0;
  int32_t fetches = 1;
};
using WordHistory = std::vector<std::vector<WordEvent>>;  // by rank

// Searches the orders depth first. What is still possible depends only on how many calls of each
// rank are done and on the word, so no such place is visited twice.
class WordHistoryChecker {
 public:
  explicit WordHistoryChecker(const WordHistory& ranks) : ranks_(ranks) {
    for (const std::vector<WordEvent>& calls : ranks) {
      std::vector<int64_t> earliest(calls.size() + 1, kNever);
      for (size_t i = calls.size(); i-- > 0;) {
        const int64_t ended = calls[i].fetches != 0 ? calls[i].ended_ns : kNever;
        earliest[i] = std::min(earliest[i + 1], ended);
      }
      earliest_end_.push_back(std::move(earliest));
    }
  }

  bool can_be(uint64_t first) {
    std::vector<Place> left{{std::vector<size_t>(ranks_.size()), first}};
    std::set<Place> seen(left.begin(), left.end());

    while (!left.empty()) {
      const Place place = std::move(left.back());
      left.pop_back();
      if (is_end(place)) return true;
      for (size_t rank = 0; rank < ranks_.size(); ++rank) {
        Place next = place;
        if (step(next, rank) && seen.insert(next).second) left.push_back(std::move(next));
      }
    }
    return false;
  }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  using Place = std::pair<std::vector<size_t>, uint64_t>;

  bool is_end(const Place& place) const {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (place.first[rank] < ranks_[rank].size()) return false;
    }
    return true;
  }

  // Makes the next call of a rank, if it can be the next of all.
  bool step(Place& place, size_t rank) const {
    auto& [done, word] = place;
    if (done[rank] == ranks_[rank].size()) return false;

    const WordEvent& call = ranks_[rank][done[rank]];
    for (size_t other = 0; other < ranks_.size(); ++other) {
      if (other != rank && earliest_end_[other][done[other]] < call.begun_ns) return false;
    }
    if (call.fetches != 0 && call.before != word) return false;
    word = changed(call.op, word, call.value, call.compare);
    ++done[rank];
    return true;
  }

  const WordHistory& ranks_;
  // By rank and calls that are done: the earliest end of one that is not.
  std::vector<std::vector<int64_t>> earliest_end_;
};

inline bool can_be(const WordHistory& history, uint64_t first) {
  return WordHistoryChecker(history).can_be(first);
}

// How many calls overlap one of another rank: without any, a history shows nothing.
inline size_t overlaps(const WordHistory& history) {
  size_t count = 0;
  for (size_t rank = 0; rank < history.size(); ++rank) {
    for (const WordEvent& call : history[rank]) {
      for (size_t other = 0; other < rank; ++other) {
        count += static_cast<size_t>(
            std::any_of(history[other].begin(), history[other].end(), [&](const WordEvent& theirs) {
              return theirs.begun_ns <= call.ended_ns && call.begun_ns <= theirs.ended_ns;
            }));
      }
    }
  }
  return count;
}

// Makes calls of all kinds with few values, so that comparisons hold now and then. `change` makes
// one, and says what it fetched. Some calls let other ranks run between their begin and their
// change: on few processors ranks would else make all their calls one after the other, and no two
// would overlap.
template <class Random, class Change>
std::vector<WordEvent> record_changes(Random& random, size_t calls, const Change& change) {
  std::vector<WordEvent> all;
  for (size_t i = 0; i < calls; ++i) {
    WordEvent call;
    call.op = static_cast<symm_atomic_op_t>(random() % (SYMM_ATOMIC_COMPARE_SWAP + 1));
    if (call.op != SYMM_ATOMIC_FETCH) call.value = random() % 8;
    if (call.op == SYMM_ATOMIC_COMPARE_SWAP) call.compare = random() % 8;
    call.fetches = call.op == SYMM_ATOMIC_FETCH || random() % 4 != 0 ? 1 : 0;

    call.begun_ns = now_ns();
    if (i % 16 == 8) sched_yield();
    call.before = change(call);
    call.ended_ns = now_ns();
    all.push_back(call);
  }
  return all;
}
}  // namespace support
