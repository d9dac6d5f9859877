// Measures one peer. usage: program <case>..., each operation,memory,place,bytes,iterations:
//   operation  one of symm bench, nothing; ping: there and back by put and signal, message: by send
//              and receive, between ranks 0 and 1, 2 and 3, and so on at a time;
//              halo: two ranks that exchange, work for 5 us, and so on, without anything
//              else between the steps; faces: a ring of ranks that exchange the six faces
//              of a cube of f64, which are the bytes;
//              fetch: fetch-and-add of a word of 8 bytes in the memory of another rank
//   memory     private symmetric
//   place      out in (of all-reduce); own packed kept (of faces: by the peer's types, by loops,
//              by a request that is made once); own one (of fetch: every other rank adds to the
//              word of the one before it, which waits; all add to the word of rank 0)
//   bytes      of the larger operand
// BENCH_ARENA names an empty file that all ranks may map. With BENCH_PIN=1 rank r gets
// processor r, and every call has a common start; without it ranks may outnumber
// processors, and a common start would be a matter of luck: what goes there and back is then
// measured in batches of ten. Rank 0 prints one line of
// JSON per case, of the slowest rank's times in microseconds, and with it the round
// trip of a cache line between the processors of ranks 0 and 1 before and after.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <numeric>
#include <ratio>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/host/peer.hpp"
#include "symm/symm.h"
#include "tools/bench/pattern.hpp"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace {
using symm::tool::OperationTraits;
using symm::tool::Pattern;

[[noreturn]] void refuse(const std::string& what, const std::string& text) {
  throw std::runtime_error(what + ": " + text);
}

// ---- a clock, memory that the ranks' measuring loops share, a common start
//
// With a common start every rank waits for the same moment before each call, as SKaMPI
// and ReproMPI do; so a rank's time does not contain the lateness of another, and the
// slowest rank's time is that of the operation.

constexpr int kMostRanks = 64;
constexpr uint32_t kMostIterations = 100'000;

// A word with one writer. Neighbours are two lines
// apart, since processors fetch lines in pairs.
struct alignas(128) Line {
  std::atomic<uint64_t> word;
};

// Ranks meet in a file of zeros that all of them map.
struct Arena {
  Line ready[kMostRanks];
  Line ping;
  Line pong;
  // Rank 0 writes the moment at which a round starts, and then the number of that round.
  alignas(128) uint64_t start;
  std::atomic<uint64_t> started;
  alignas(128) uint64_t wrong[kMostRanks];
  uint64_t ticks[kMostRanks][kMostIterations];
};

peer::Place self;
Arena* arena;
bool together;  // with common starts
double ticks_per_us;

void await(const std::atomic<uint64_t>& word, uint64_t value) {
  while (word.load(std::memory_order_acquire) < value) {
#if defined(__x86_64__)
    _mm_pause();
#endif
  }
}

// The ticks of the clock. The clock is read after all instructions before the call.
uint64_t ticks_now() {
#if defined(__x86_64__)
  _mm_lfence();
  return __rdtsc();
#else
  return static_cast<uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
#endif
}

// Makes a barrier, and then waits for a moment that is the same for all ranks. Returns
// the time at which this rank leaves.
uint64_t start_together() {
  static uint64_t round = 0;
  ++round;
  if (self.rank == 0) {
    for (int r = 1; r < self.size; ++r) {
      await(arena->ready[r].word, round);
    }
    arena->start = ticks_now() + static_cast<uint64_t>(ticks_per_us / 2);
    arena->started.store(round, std::memory_order_release);
  } else {
    arena->ready[self.rank].word.store(round, std::memory_order_release);
    await(arena->started, round);
  }

  uint64_t now = ticks_now();
  while (now < arena->start) {
    now = ticks_now();
  }

  return now;
}

// Returns the ticks in which a line goes from rank 0 to rank 1 and another comes back, which tells
// how close their processors are. On a virtual machine this changes from one moment to the next.
// Both ranks call it; on other ranks it returns 0.
double round_trip() {
  constexpr int kBatches = 20;
  constexpr int kTrips = 100;
  if (!together || self.rank > 1) return 0;
  uint64_t trip = arena->pong.word;
  double best = 0;

  for (int batch = 0; batch < kBatches; ++batch) {
    const uint64_t begin = ticks_now();
    for (int i = 0; i < kTrips; ++i) {
      ++trip;
      if (self.rank == 1) await(arena->ping.word, trip);
      (self.rank == 0 ? arena->ping : arena->pong).word.store(trip, std::memory_order_release);
      if (self.rank == 0) await(arena->pong.word, trip);
    }
    const double ticks = static_cast<double>(ticks_now() - begin) / kTrips;
    if (batch == 0 || ticks < best) best = ticks;
  }

  return best;
}

void pin() {
  for (const char* const variable : {"SYMM_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    const char* const rank = std::getenv(variable);
    if (rank == nullptr) continue;
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(static_cast<size_t>(std::atoi(rank)), &mask);
    if (sched_setaffinity(0, sizeof mask, &mask) != 0) refuse("cannot pin rank", rank);
    return;
  }
  refuse("BENCH_PIN", "the launcher tells no rank");
}

void map_arena() {
  const char* const path = std::getenv("BENCH_ARENA");
  if (self.size > kMostRanks) refuse("ranks", "too many");
  if (path == nullptr) refuse("BENCH_ARENA", "is not set");
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0 || ftruncate(fd, sizeof *arena) != 0) refuse("BENCH_ARENA", path);
  void* const mapped = mmap(nullptr, sizeof *arena, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) refuse("BENCH_ARENA cannot be mapped", path);
  arena = static_cast<Arena*>(mapped);
  close(fd);
}

void calibrate() {
  using Us = std::chrono::duration<double, std::micro>;
  const uint64_t ticks = ticks_now();
  const auto begin = std::chrono::steady_clock::now();
  Us us{};
  while (us.count() < 50'000) {
    us = std::chrono::steady_clock::now() - begin;
  }
  ticks_per_us = static_cast<double>(ticks_now() - ticks) / us.count();
}

// ---- a case

constexpr OperationTraits kPing{"ping", symm::tool::kBarrier, false, false, false};
constexpr OperationTraits kMessage{"message", symm::tool::kBarrier, false, false, false};
constexpr OperationTraits kNothing{"nothing", symm::tool::kBarrier, false, false, false};
constexpr OperationTraits kHalo{"halo", symm::tool::kBarrier, false, false, false};
constexpr OperationTraits kFaces{"faces", symm::tool::kBarrier, false, false, false};
constexpr OperationTraits kFetch{"fetch", symm::tool::kBarrier, false, false, false};
constexpr const OperationTraits* kOwnOperations[] = {
    &kPing, &kMessage, &kNothing, &kHalo, &kFaces, &kFetch};

struct Case {
  symm::tool::Operands operands{};
  bool symmetric = false;
  std::string place;
  uint32_t iterations = 0;

  bool is(const OperationTraits& traits) const { return operands.traits == &traits; }
  bool is_round_trip() const { return is(kPing) || is(kMessage); }
};

Case parse(const std::string& text) {
  char operation[32];
  char memory[32];
  char place[32];
  size_t bytes = 0;
  Case one;
  if (std::sscanf(text.c_str(), "%31[^,],%31[^,],%31[^,],%zu,%u", operation, memory, place, &bytes,
          &one.iterations) != 5) {
    refuse("not a case", text);
  }

  if (one.iterations == 0 || one.iterations > kMostIterations) refuse("iterations", text);
  one.symmetric = std::string(memory) == "symmetric";
  one.place = place;
  symm::tool::Operands& operands = one.operands;
  operands.traits = symm::tool::find_operation(operation);
  for (const OperationTraits* const own : kOwnOperations) {
    if (operation == std::string(own->name)) operands.traits = own;
  }
  if (operands.traits == nullptr) refuse("not an operation", text);

  if ((one.is_round_trip() || one.is(kFetch)) && self.size % 2 != 0) {
    refuse(operation, "needs ranks in pairs");
  }
  if (one.is(kHalo) && self.size != 2) refuse("halo", "needs 2 ranks");
  operands.rank = self.rank;
  operands.ranks = self.size;
  operands.dtype = SYMM_DTYPE_F32;
  operands.op = SYMM_OP_SUM;
  operands.count =
      bytes / (sizeof(float) * static_cast<size_t>(operands.traits->divided ? self.size : 1));
  operands.in_place = one.place == "in" || operands.traits->rooted;  // MPI broadcasts in place only

  return one;
}

// Memory of zeros. It is symmetric if that is wanted and the peer has such memory, else private.
class Block {
 public:
  Block(size_t bytes, bool symmetric) {
    const size_t size = (bytes + 4096) / 4096 * 4096;
    if (symmetric) at_ = peer::allocate_symmetric(size);
    is_symmetric_ = at_ != nullptr;
    if (!is_symmetric_) at_ = std::aligned_alloc(4096, size);
    if (at_ == nullptr) refuse("memory", "not enough");
    std::memset(at_, 0, size);
  }

  ~Block() { is_symmetric_ ? peer::release_symmetric(at_) : std::free(at_); }

  Block(Block&&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(at_); }

  bool is_symmetric() const { return is_symmetric_; }

 private:
  void* at_ = nullptr;
  bool is_symmetric_ = false;
};

void run(const Case& one, const symm_collective_call_t& call) {
  const symm::tool::Operands& operands = one.operands;
  if (one.is(kNothing)) return;
  if (call.collective != symm::tool::kBarrier) return peer::collective(call);
  if (!one.is_round_trip()) return peer::barrier();

  const auto pass = one.is(kPing) ? peer::put : peer::send;
  const auto take = one.is(kPing) ? peer::take : peer::receive;
  const int other = self.rank ^ 1;
  if (self.rank < other) pass(operands.first, operands.second, operands.bytes(), other);
  take(operands.second, operands.bytes(), other);
  if (self.rank > other) pass(operands.first, operands.second, operands.bytes(), other);
}

// Makes the calls of a case, each by itself. Returns the number of wrong elements. What goes there
// and back begins at one time on both ranks: the rank that answers compares what it got while the
// other one waits for the next start.
uint64_t run_calls(const Case& one, const Pattern& pattern, uint32_t warm_up, uint64_t* times) {
  constexpr size_t kCheckAllBytes = 1 << 20;
  constexpr size_t kStride = 1021;
  const symm::tool::Operands& operands = one.operands;
  const symm_collective_call_t call = operands.record();
  const bool batched = one.is_round_trip() && !together;
  const uint32_t batch = batched ? 10 : 1;
  uint64_t wrong = 0;

  for (uint32_t i = 0; i < warm_up + one.iterations; ++i) {
    // Each iteration uses another offset. There are few, so that page tables do not matter.
    const size_t shift = i % 3 * 37;
    const size_t every = operands.bytes() <= kCheckAllBytes || i == 0 ? 1 : kStride;
    if (one.is_round_trip()) {
      pattern.write(operands.first, self.rank, shift, operands.count);
    } else {
      operands.write_inputs(pattern, shift);
    }
    if (batched) peer::barrier();
    const uint64_t begin = together ? start_together() : ticks_now();
    for (uint32_t repeat = 0; repeat < batch; ++repeat) {
      run(one, call);
    }
    const uint64_t end = ticks_now();
    times[i < warm_up ? 0 : i - warm_up] = (end - begin) / batch;
    wrong += one.is_round_trip()
                 ? pattern.count_wrong(operands.second, self.rank ^ 1, shift, operands.count, every)
                 : operands.count_wrong(pattern, shift, every);
  }

  return wrong;
}

// Makes the steps of a halo, each of which ends with 5 us of work. A rank is at most one step
// ahead of the other, so that two inboxes are enough. Returns the number of wrong elements.
uint64_t run_halo(const Case& one, const Pattern& pattern, uint32_t warm_up, uint64_t* times) {
  constexpr double kWorkUs = 5;
  const symm::tool::Operands& operands = one.operands;
  const auto work = static_cast<uint64_t>(kWorkUs * ticks_per_us);
  uint64_t wrong = 0;
  uint64_t begin = ticks_now();

  for (uint32_t i = 0; i < warm_up + one.iterations; ++i) {
    const size_t shift = i % 3 * 37;
    const size_t inbox = i % 2 * operands.bytes();
    pattern.write(operands.first, self.rank, shift, operands.count);
    peer::exchange(operands.first, operands.second, inbox, operands.bytes(), 1 - self.rank);
    wrong += pattern.count_wrong(operands.second + inbox, 1 - self.rank, shift, operands.count, 1);

    const uint64_t until = ticks_now() + work;
    uint64_t end = ticks_now();
    while (end < until) {
      end = ticks_now();
    }
    times[i < warm_up ? 0 : i - warm_up] = end - begin;
    begin = end;
  }

  return wrong;
}

// ---- faces of a cube

// A value of a cube of a rank, which each batch of exchanges has anew.
double value_of(int rank, uint32_t batch, size_t at) {
  return static_cast<double>(at) + rank * 1e8 + batch % 7 * 1e10;
}

// Calls body(z, y, x) for the elements of the three layers at `at` of a cube.
template <class Body>
void each_of_layers(const peer::Cube& cube, size_t at, const Body& body) {
  for (size_t a = 1; a <= cube.edge; ++a) {
    for (size_t b = 1; b <= cube.edge; ++b) {
      body(at, a, b);
      body(a, at, b);
      body(a, b, at);
    }
  }
}

// The elements of both borders of a cube that are not those of the neighbours' faces.
uint64_t wrong_borders(const double* values, const peer::Cube& cube, uint32_t batch) {
  const int before = (self.rank + self.size - 1) % self.size;
  const int behind = (self.rank + 1) % self.size;
  uint64_t wrong = 0;
  const auto look = [&](int from, size_t border, size_t inner) {
    const auto there = [&](size_t at) { return at == border ? inner : at; };
    each_of_layers(cube, border, [&](size_t z, size_t y, size_t x) {
      const size_t at = cube.at(there(z), there(y), there(x));
      if (values[cube.at(z, y, x)] != value_of(from, batch, at)) ++wrong;
    });
  };
  look(before, 0, cube.edge);
  look(behind, cube.edge + 1, 1);
  return wrong;
}

peer::Form form_of(const std::string& place) {
  if (place == "packed") return peer::Form::packed;
  return place == "kept" ? peer::Form::kept : peer::Form::own;
}

// Makes exchanges in batches, of which each is one time, so that ranks that share processors keep
// step within a batch only by what they exchange. Returns the number of wrong elements.
uint64_t run_faces(const Case& one, std::byte* memory, uint32_t warm_up, uint64_t* times) {
  constexpr uint32_t kBatch = 10;
  constexpr size_t kBytesOfElement = 6 * sizeof(double);
  const auto edge = static_cast<size_t>(
      std::lround(std::sqrt(static_cast<double>(one.operands.bytes()) / kBytesOfElement)));
  const peer::Cube cube{edge};
  auto* const cubes = reinterpret_cast<double*>(memory);
  uint64_t wrong = 0;

  peer::prepare_faces(cubes, cube, form_of(one.place));
  for (uint32_t i = 0; i < warm_up + one.iterations; ++i) {
    for (size_t at = 0; at < 2 * cube.elements(); ++at) {
      cubes[at] = value_of(self.rank, i, at % cube.elements());
    }
    peer::barrier();

    const uint64_t begin = ticks_now();
    for (uint32_t exchange = 0; exchange < kBatch; ++exchange) {
      peer::exchange_faces(static_cast<int>(exchange % 2));
    }
    times[i < warm_up ? 0 : i - warm_up] = (ticks_now() - begin) / kBatch;
    wrong += wrong_borders(cubes, cube, i) + wrong_borders(cubes + cube.elements(), cube, i);
    peer::barrier();
  }

  peer::finish_faces();
  return wrong;
}

size_t bytes_of_cubes(size_t bytes_of_faces) {
  const double edge = std::sqrt(static_cast<double>(bytes_of_faces) / (6 * sizeof(double)));
  const peer::Cube cube{static_cast<size_t>(std::lround(edge))};
  return 2 * cube.elements() * sizeof(double);
}

// ---- words

// Makes additions in batches, of which each is one time. Returns how many of them are not there, or
// were fetched in another order than they were made.
uint64_t run_fetch(const Case& one, uint32_t warm_up, uint64_t* times) {
  constexpr uint32_t kBatch = 100;
  const bool all = one.place == "one";
  const int target = all ? 0 : self.rank & ~1;
  const bool adds = all || self.rank != target;
  uint64_t last = 0;
  uint64_t wrong = 0;

  peer::prepare_words();
  for (uint32_t i = 0; i < warm_up + one.iterations; ++i) {
    peer::barrier();
    if (!adds) continue;
    const uint64_t begin = together && all ? start_together() : ticks_now();
    for (uint32_t call = 0; call < kBatch; ++call) {
      const uint64_t before = peer::fetch_add(target, 1);
      wrong += i + call > 0 && before <= last ? 1 : 0;
      last = before;
    }
    times[i < warm_up ? 0 : i - warm_up] = (ticks_now() - begin) / kBatch;
  }
  peer::barrier();

  const uint64_t made = uint64_t{warm_up + one.iterations} * kBatch;
  const uint64_t expected = all ? made * static_cast<uint64_t>(self.size) : made;
  const uint64_t sum = peer::fetch_add(target, 0);
  peer::finish_words();
  return wrong + (sum > expected ? sum - expected : expected - sum);
}

void report(const Case& one, double before, double after) {
  const uint32_t n = one.iterations;
  std::vector<uint64_t> slowest(n);
  uint64_t wrong = 0;

  for (int r = 0; r < self.size; ++r) {
    wrong += arena->wrong[r];
    // A rank that answers a ping waits for it first, so that only the sender's time is the round
    // trip.
    for (uint32_t i = 0; i < n && (r % 2 == 0 || !one.is_round_trip()); ++i) {
      slowest[i] = std::max(slowest[i], arena->ticks[r][i]);
    }
  }

  std::sort(slowest.begin(), slowest.end());

  // The clock of some processors goes in steps of 10 ns, so that the median is smoothed: it is the
  // mean of the middle fifth.
  const uint32_t from = n * 2 / 5;
  const uint32_t to = n * 3 / 5 + 1;
  const double middle =
      std::accumulate(slowest.begin() + from, slowest.begin() + to, 0.0) / (to - from);
  const double mean = std::accumulate(slowest.begin(), slowest.end(), 0.0) / n;
  const auto us = [](auto ticks) { return static_cast<double>(ticks) / ticks_per_us; };
  std::printf(
      "{\"operation\": \"%s\", \"memory\": \"%s\", \"place\": \"%s\", \"bytes\": %zu, \"ranks\": "
      "%d, \"iterations\": %u, "
      "\"min\": %.4f, \"p50\": %.4f, \"mean\": %.4f, \"p99\": %.4f, \"max\": %.4f, "
      "\"wrong\": %lu, "
      "\"round_trips\": [%.4f, %.4f]}\n",
      one.operands.traits->name, one.symmetric ? "symmetric" : "private", one.place.c_str(),
      one.operands.bytes(), self.size, n, us(slowest[0]), us(middle), us(mean),
      us(slowest[size_t{n} * 99 / 100]), us(slowest[n - 1]), wrong, us(before), us(after));
  std::fflush(stdout);
}

void measure(Case& one, const Pattern& pattern) {
  symm::tool::Operands& operands = one.operands;

  // The target of a put must be symmetric memory where the peer has such; the source need not be.
  const Block first(operands.bytes(), one.symmetric);
  const bool is_put = one.is(kPing) || one.is(kHalo) || one.is(kFaces);
  const size_t inboxes = operands.bytes() * (one.is(kHalo) ? 2 : 1);
  const Block second(
      one.is(kFaces) ? bytes_of_cubes(operands.bytes()) : inboxes, one.symmetric || is_put);
  if (one.symmetric && !first.is_symmetric()) refuse("symmetric", "the peer has no such memory");
  operands.first = first.data();
  operands.second = second.data();
  const uint32_t warm_up = one.iterations / 10 + 2;
  uint64_t* const times = arena->ticks[self.rank];
  std::fill_n(times, one.iterations, 0);
  const double before = round_trip();
  if (one.is(kHalo)) peer::barrier();  // nobody puts before all have written their zeros
  uint64_t& wrong = arena->wrong[self.rank];
  if (one.is(kFetch)) {
    wrong = run_fetch(one, warm_up, times);
  } else if (one.is(kFaces)) {
    wrong = run_faces(one, second.data(), warm_up, times);
  } else if (one.is(kHalo)) {
    wrong = run_halo(one, pattern, warm_up, times);
  } else {
    wrong = run_calls(one, pattern, warm_up, times);
  }
  peer::barrier();
  const double after = round_trip();
  if (self.rank == 0) report(one, before, after);
  peer::barrier();
}
}  // namespace

int main(int argc, char** argv) {
  try {
    const char* const pinned = std::getenv("BENCH_PIN");
    together = pinned != nullptr && std::string(pinned) == "1";
    if (together) pin();

    self = peer::start(&argc, &argv);
    map_arena();
    calibrate();

    const Pattern pattern(SYMM_DTYPE_F32, SYMM_OP_SUM, self.size, SYMM_ORDER_ANY);
    for (int i = 1; i < argc; ++i) {
      Case one = parse(argv[i]);
      measure(one, pattern);
    }

    peer::finish();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", self.rank, error.what());
    return 1;
  }
}
