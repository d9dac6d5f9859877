// SPDX-License-Identifier: Apache-2.0
//
// The kernels of the questions. Each leaves at a deadline of its own, so none can outlive its question.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace experiments {

inline constexpr int kWatched = 32;                    // words that are counted up and watched,
inline constexpr int kWatchedStride = 32;              // so many words apart
inline constexpr uint64_t kLimit = 10'000'000'000ULL;  // nanoseconds

enum class Ended : unsigned {
  not_yet,
  told,
  deadline
};

// Loads all kernels for the current device: loading one later may wait for another that runs.
void load_kernels();

// Counts each watched word up, as fast as it goes, until the deadline.
void count_up(unsigned* words, cudaStream_t stream);

// Samples the watched words without pause. Times are the device's clock, in nanoseconds.
struct Marks {  // the host says what it has seen
  unsigned eof, pidfd, stop;
};
struct Seen {
  unsigned begun;  // some word was counted up
  Ended ended;
  uint64_t eof_at, pidfd_at;     // when the marks were seen here
  unsigned value[kWatched];      // in the end
  uint64_t old_until[kWatched];  // the last change came after this,
  uint64_t new_from[kWatched];   // and before this
};
void watch(const unsigned* words, const Marks* marks, Seen* seen, cudaStream_t stream);

// Reads `count` words again and again, and counts those that are not `expected`.
struct Reading {
  unsigned stop, rounds, wrong;
  Ended ended;
};
void read_on(const unsigned* words, size_t count, unsigned expected, Reading* reading, cudaStream_t stream);

// Polls a word of its own in device memory and, every `period` looks, `word`; leaves when that is not 0.
struct Leaving {
  unsigned running;
  Ended ended;
};
void leave_on(const unsigned* word, const unsigned* polled, unsigned period, Leaving* leaving, cudaStream_t stream);

// One of two sides: waits for the other's number in `mine` and stores it to `theirs`. Every `period` looks it polls `abort`, if
// `period` is not 0. The first side says how many nanoseconds all rounds took.
struct PingPong {
  unsigned *mine, *theirs;
  const unsigned* abort;
  unsigned period, rounds, first;
};
struct Played {
  uint64_t nanoseconds;
  Ended ended;
};
void play(const PingPong& side, Played* played, cudaStream_t stream);

// One of two sides at a barrier, as a kernel of the library's does it.
enum class Count {
  stored,   // both counters are loaded and stored, so one at a time
  claimed,  // a number is claimed atomically, then the other side told by an addition (the library's way)
  told      // the other side is told first
};
struct Meeting {
  unsigned *mine, *theirs;  // arrivals of the other side here, and of this side there
  unsigned *sent, *taken;   // this side's own counters
  unsigned* late;           // not 0: the other side did not come
};
void meet(Count count, const Meeting& side, cudaStream_t stream);

}  // namespace experiments
