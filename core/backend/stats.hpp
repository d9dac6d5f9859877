// What was called on a group. Read by any thread, each number for itself.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace symm {
class Counter {
 public:
  // Where one thread at a time counts: a fifth of what a locked addition costs, which a small collective would notice.
  void add(uint64_t count) noexcept { value_.store(value() + count, std::memory_order_relaxed); }
  void add_shared(uint64_t count) noexcept { value_.fetch_add(count, std::memory_order_relaxed); }
  uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }
 private:
  std::atomic<uint64_t> value_{0};
};

struct GroupStats {
  static constexpr size_t kKinds = 32;  // of collectives and of algorithms, as in symm_group_stats_t
  struct PerCollective {
    Counter calls, bytes;
  };
  std::array<PerCollective, kKinds> collectives;         // counted under the transport's lock
  std::array<Counter, kKinds> algorithms;                // likewise
  std::vector<Counter> barriers;                         // by channel
  Counter signals_sent, signals_taken, waits, failures;  // from any thread

  void add_collective(size_t collective, uint64_t bytes, size_t algorithm) noexcept {
    collectives[collective].calls.add(1);
    collectives[collective].bytes.add(bytes);
    algorithms[algorithm].add(1);
  }
  // `call`, of which it is counted whether it failed.
  template <class Call> void counted(const Call& call) {
    try {
      call();
    } catch (...) {
      failures.add_shared(1);
      throw;
    }
  }
};
}  // namespace symm
