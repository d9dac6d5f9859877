// Counts of the calls made on a group. Any thread may read them; each number is read by itself.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <new>
#include <string>
#include <vector>

#include "core/base/call_tag.hpp"
#include "core/base/page.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/types.hpp"
#include <symm/page.h>

namespace symm {
class Counter {
 public:
  // For counters that one thread at a time writes: costs a fifth of a locked addition, a difference
  // that shows in a small collective.
  void add(uint64_t count) noexcept { set(value() + count); }
  void add_shared(uint64_t count) noexcept { value_.fetch_add(count, std::memory_order_relaxed); }
  void set(uint64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
  // For words that a reader must see in the order in which they were written.
  void publish(uint64_t value) noexcept { value_.store(value, std::memory_order_release); }
  uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

struct GroupStats {
  // The number of collectives, and of algorithms, as in symm_group_stats_t.
  static constexpr size_t kKinds = SYMM_PAGE_KINDS;
  struct PerCollective {
    Counter calls;
    Counter bytes;
  };
  // Points to symm_page_counts_t in the rank's page.
  struct Shown {
    Counter call;  // counted under the transport's lock, as are the next four
    Counter tag_changes;
    Counter tag[kTagBytes / sizeof(uint64_t)];
    PerCollective collectives[kKinds];
    Counter algorithms[kKinds];
    Counter signals_sent;  // this and the next three are counted by any thread
    Counter signals_taken;
    Counter waits;
    Counter failures;
  };
  static_assert(sizeof(Shown) == sizeof(symm_page_counts_t));

  explicit GroupStats(symm_page_t& page) : shown(*new (&page.counts) Shown) {}
  explicit GroupStats(Shown& of_another) noexcept : shown(of_another) {}
  Shown& shown;
  std::vector<Counter> barriers;  // by channel

  static uint64_t call_shown(Collective collective, uint64_t bytes, Algorithm algorithm) noexcept {
    return bytes << 16 | (static_cast<uint64_t>(algorithm) + 1) << 8 |
           (static_cast<uint64_t>(collective) + 1);
  }
  void begin(uint64_t call) noexcept {
    show_tag(CallTag::current());
    shown.call.set(call);
    if (Trace::on()) Trace::note(call >> 16, static_cast<int>(call >> 8 & 0xFF) - 1);
  }
  // `goes_on`: the call may still be running on a stream.
  void add_collective(
      const CollectiveCall& call, Algorithm algorithm, bool goes_on = false) noexcept {
    PerCollective& totals = shown.collectives[static_cast<size_t>(call.collective)];
    totals.calls.add(1);
    totals.bytes.add(call.bytes());
    shown.algorithms[static_cast<size_t>(algorithm)].add(1);
    if (!goes_on) shown.call.set(0);
    if (Trace::on()) Trace::note(call.bytes(), static_cast<int>(algorithm));
  }
  // Writes the tag of a call, or that it has none, unless that is what the page says.
  void show_tag(const char* tag) noexcept {
    if (tag == nullptr && shown.tag[0].value() == 0) return;

    std::array<uint64_t, kTagBytes / sizeof(uint64_t)> words{};
    if (tag != nullptr) std::memcpy(words.data(), tag, std::strlen(tag));
    shown.tag_changes.publish(shown.tag_changes.value() + 1);
    for (size_t i = 0; i < words.size(); ++i) {
      shown.tag[i].publish(words[i]);
    }
    shown.tag_changes.publish(shown.tag_changes.value() + 1);
  }
  // The tag of the call that is shown, or "".
  std::string tag() const {
    char text[kTagBytes + 1] = {};
    for (size_t i = 0; i < std::size(shown.tag); ++i) {
      const uint64_t word = shown.tag[i].value();
      std::memcpy(text + i * sizeof word, &word, sizeof word);
    }
    return text;
  }
  // Makes `call`, and counts it if it fails.
  template <class Call>
  void counted(const Call& call) {
    try {
      call();
    } catch (...) {
      shown.failures.add_shared(1);
      throw;
    }
  }
};
}  // namespace symm
