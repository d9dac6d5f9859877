/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off: a list */
/*
 * symm in kernels of your own: where every rank's block lies, signals between ranks, barriers. CUDA C++17, for nvcc and NVRTC; no
 * library to link. multimem.cuh beside it has the instructions of NVLink multicast.
 *
 * A kernel gets a symm::device::Memory by value. It is a symm_memory_view_t: symm::device::describe() fills it on the host, and
 * in any other language symm_memory_device_view() does. Its layout number says how the pads lie; one that this header does not
 * know is refused by describe(), and in a kernel every wait then ends with Trouble::layout and nothing is signalled.
 *
 * Conventions
 *   Who calls   [thread] one thread alone; others may be elsewhere. [block] all threads of a block, like __syncthreads(). [grid]
 *               all threads of all blocks, which must all be resident at once (a cooperative launch makes sure of that).
 *   Waiting     Nothing here waits without an end and nothing traps. A wait leaves when what it waits for is there, when
 *               Memory::timeout_ns have passed, or when the word that Memory::stop points to is no longer 0; its Outcome says
 *               which. Look at it: after a failed wait the data is not there. The group is not revoked by it and does not know of
 *               it; tell the host, which may call symm_group_abort().
 *   Dead ranks  A kernel does not notice that a peer died. The host does, within milliseconds (symm_group_status()): let it set
 *               the stop word.
 *   Signals     A channel has a word of 64 bits for each pair of ranks, and counts the signals taken from it. They are those of
 *               symm_signal(), symm_wait_signal() and their kin, so kernels and host calls may signal and take on one channel in
 *               any mixture, captured graphs included. Any number of threads, on any streams, may take from one rank on one
 *               channel: no signal is taken twice, and who takes which is open. Use a channel to count, or for values that are
 *               set and compared, not for both.
 *   Order       At system scope: what a thread, and those that it met at a __syncthreads() before, wrote anywhere before a signal
 *               is visible to whoever awaits the signal, and to those who meet it at a __syncthreads() after. So a block stores,
 *               __syncthreads(), one thread signals; or signal_block(), which is all that.
 *   Loads       What another rank writes while the kernel runs must be read by plain or relaxed loads after the wait: not through
 *               __ldg() or a pointer that is both const and __restrict__, which may use a cache that no fence cleans.
 *   Lifetime    Kernels that use a memory must have ended before its symm_memory_release(), and before the peers' too if they
 *               store there.
 *
 * Compiled by a host compiler, the same functions work on memory of the host: so they are tested. There is then no ThisBlock, and
 * a program brings its own idea of a block.
 */
/* clang-format on */
#ifndef SYMM_DEVICE_CUH
#define SYMM_DEVICE_CUH

#ifndef __CUDACC_RTC__
#include <cstddef>

#include <symm/symm.h>
#endif

#ifdef __CUDACC__
#define SYMM_DEVICE __device__ __forceinline__
#define SYMM_HOST_DEVICE __host__ __device__ __forceinline__
#else
#include <sched.h>
#include <time.h>
#define SYMM_DEVICE inline
#define SYMM_HOST_DEVICE inline
#endif

namespace symm::device {

/* ---- what a kernel is given ------------------------------------------------------------------------ */

/** A memory as this rank's kernels see it, to be passed by value: the fields of symm_memory_view_t. All pointers are device
 * addresses, valid while the memory lives. */
struct Memory {
  unsigned long long struct_size;
  unsigned layout; /**< kLayout */
  int rank;
  int size;     /**< ranks */
  int channels; /**< signal channels */
  void *const *blocks;
  unsigned long long *const *pads;
  unsigned long long *taken;     /**< of this rank: signals taken, [channel][source] */
  unsigned long long timeout_ns; /**< of each wait; ~0ull: none */
  const unsigned *
      stop; /**< a word that ends all waits when it becomes other than 0 (pinned host memory, say); NULL: none */
};
static_assert(sizeof(Memory) == 64, "passed between languages");

/** How pads lie: unsigned long long pad[channel][source], and `taken` likewise. SYMM_MEMORY_VIEW_LAYOUT. */
constexpr unsigned kLayout = 1;

#ifndef __CUDACC_RTC__
static_assert(sizeof(Memory) == sizeof(symm_memory_view_t) && kLayout == SYMM_MEMORY_VIEW_LAYOUT &&
                  offsetof(Memory, layout) == offsetof(symm_memory_view_t, layout) &&
                  offsetof(Memory, channels) == offsetof(symm_memory_view_t, channels) &&
                  offsetof(Memory, blocks) == offsetof(symm_memory_view_t, blocks) &&
                  offsetof(Memory, taken) == offsetof(symm_memory_view_t, taken) &&
                  offsetof(Memory, stop) == offsetof(symm_memory_view_t, stop),
              "symm.h beside this header is of another version");

/** Fill a Memory. Host function. [local]
 *  @param timeout_ms  of each wait in a kernel; SYMM_TIMEOUT_INFINITE: none.
 *  @param stop        device address of the word that ends all waits, or NULL.
 *  @param[out] out    written only on success.
 *  @return what symm_memory_device_view() returns; UNSUPPORTED, without a message, if the library has another layout. */
inline symm_status_t describe(symm_memory_t *memory, uint64_t timeout_ms, const unsigned *stop,
                              Memory *out) {
  symm_memory_view_t view = {};
  view.struct_size = sizeof view;
  const symm_status_t status = symm_memory_device_view(memory, timeout_ms, stop, &view);
  if (status != SYMM_OK) return status;
  if (view.layout != kLayout) return SYMM_ERR_UNSUPPORTED;
  *out = {view.struct_size,
          view.layout,
          view.rank,
          view.size,
          view.channels,
          view.blocks,
          reinterpret_cast<unsigned long long *const *>(view.pads),
          reinterpret_cast<unsigned long long *>(view.taken),
          view.timeout_ns,
          view.stop};
  return SYMM_OK;
}
#endif

/** What symm_signal_value() does to a word, and how words are compared: the values of symm.h. */
enum class SignalOp : int { add = 0, set = 1 };
enum class Compare : int { eq = 0, ne = 1, lt = 2, le = 3, gt = 4, ge = 5 };

SYMM_HOST_DEVICE bool holds(unsigned long long word, Compare compare, unsigned long long value) {
  switch (compare) {
    case Compare::eq: return word == value;
    case Compare::ne: return word != value;
    case Compare::lt: return word < value;
    case Compare::le: return word <= value;
    case Compare::gt: return word > value;
    case Compare::ge: return word >= value;
  }
  return false;
}

/** Why a wait failed. */
enum class Trouble : int {
  none = 0,
  timeout = 1, /**< Memory::timeout_ns have passed */
  stopped = 2, /**< the host set Memory::stop */
  layout = 3   /**< Memory is of a library that this header does not know */
};

/** How a wait ended; true if what was waited for is there. One word, so that a kernel can store it for the host. */
struct Outcome {
  int code; /**< 0, or awaited rank << 8 | Trouble */

  SYMM_HOST_DEVICE explicit operator bool() const { return code == 0; }
  SYMM_HOST_DEVICE Trouble trouble() const { return static_cast<Trouble>(code & 0xFF); }
  /** The rank that did not come, if the wait failed. Of several, any one. */
  SYMM_HOST_DEVICE int peer() const { return code >> 8; }
};

/* ---- memory: words that ranks share ---------------------------------------------------------------- */

#ifdef __CUDACC__
/** Load and store a word, at system scope, without order. [thread] */
SYMM_DEVICE unsigned load_relaxed(const unsigned *from) {
  unsigned value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
SYMM_DEVICE unsigned long long load_relaxed(const unsigned long long *from) {
  unsigned long long value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
SYMM_DEVICE void store_relaxed(unsigned *to, unsigned value) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
/** Add to a word, or store it, at system scope, after everything before (release). [thread] */
SYMM_DEVICE void add_release(unsigned long long *to, unsigned long long value) {
  asm volatile("red.release.sys.global.add.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}
SYMM_DEVICE void store_release(unsigned long long *to, unsigned long long value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}
/** Add to a word of this device and return what it was, without order, at device scope. [thread] */
SYMM_DEVICE unsigned add_on_device(unsigned *to) {
  unsigned before;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(to) : "memory");
  return before;
}
SYMM_DEVICE unsigned long long add_on_device(unsigned long long *to, unsigned long long value) {
  unsigned long long before;
  asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;"
               : "=l"(before)
               : "l"(to), "l"(value)
               : "memory");
  return before;
}
/** Make a word of this device `wanted` if it is `expected`; what it was. [thread] */
SYMM_DEVICE unsigned long long exchange_on_device(unsigned long long *word,
                                                  unsigned long long expected,
                                                  unsigned long long wanted) {
  unsigned long long before;
  asm volatile("atom.relaxed.gpu.global.cas.b64 %0, [%1], %2, %3;"
               : "=l"(before)
               : "l"(word), "l"(expected), "l"(wanted)
               : "memory");
  return before;
}
/** Order what this thread, and those it met at a __syncthreads(), did before against what it does after: for all devices and the
 * host, and for this device only. Release before a relaxed store, acquire after a relaxed load. [thread] */
SYMM_DEVICE void fence_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
SYMM_DEVICE void fence_device() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
/** A clock that all blocks of a device share. [thread] */
SYMM_DEVICE unsigned long long nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
}
SYMM_DEVICE void let_others_run() {}
#else
// On the host each access brings the order that a fence brings on a device.
template <class Word>
Word load_relaxed(const Word *from) {
  return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}
inline void store_relaxed(unsigned *to, unsigned value) {
  __atomic_store_n(to, value, __ATOMIC_RELEASE);
}
inline void add_release(unsigned long long *to, unsigned long long value) {
  __atomic_fetch_add(to, value, __ATOMIC_RELEASE);
}
inline void store_release(unsigned long long *to, unsigned long long value) {
  __atomic_store_n(to, value, __ATOMIC_RELEASE);
}
inline unsigned add_on_device(unsigned *to) { return __atomic_fetch_add(to, 1U, __ATOMIC_ACQ_REL); }
inline unsigned long long add_on_device(unsigned long long *to, unsigned long long value) {
  return __atomic_fetch_add(to, value, __ATOMIC_ACQ_REL);
}
inline unsigned long long exchange_on_device(unsigned long long *word, unsigned long long expected,
                                             unsigned long long wanted) {
  __atomic_compare_exchange_n(word, &expected, wanted, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  return expected;
}
inline void fence_system() {}
inline void fence_device() {}
inline unsigned long long nanoseconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<unsigned long long>(now.tv_sec) * 1000000000ULL +
         static_cast<unsigned long long>(now.tv_nsec);
}
// threads that stand for ranks are more than processors
inline void let_others_run() { sched_yield(); }
#endif

/** Rank `rank`'s block, `offset` bytes from its start. Load from it and store to it like any other memory. [thread] */
template <class T>
SYMM_DEVICE T *pointer(const Memory &memory, int rank, unsigned long long offset = 0) {
  return reinterpret_cast<T *>(static_cast<char *>(memory.blocks[rank]) + offset);
}

/* ---- waiting --------------------------------------------------------------------------------------- */

/** Of a thread that waits: since when. One may serve several waits, which then have one deadline together. */
struct Patience {
  unsigned long long since = 0;
  unsigned looks = 0;
};

/** To be asked in each turn of a polling loop of your own: leave it if the answer is not `none`. Looks at the stop word and the
 * clock every 1024 turns. [thread] */
SYMM_DEVICE Trouble look_around(const Memory &memory, Patience &patience) {
  if ((++patience.looks & 15U) == 0) let_others_run();
  if ((patience.looks & 1023U) != 0) return Trouble::none;
  if (memory.stop != nullptr && load_relaxed(memory.stop) != 0) return Trouble::stopped;
  if (memory.timeout_ns == ~0ULL) return Trouble::none;
  const unsigned long long now = nanoseconds();
  if (patience.since == 0) patience.since = now;
  return now - patience.since < memory.timeout_ns ? Trouble::none : Trouble::timeout;
}

/** Wait until is_there() says so. Without order: fence_system() after it. [thread]
 *  @param peer  for whom it waits, for the Outcome. */
template <class IsThere>
SYMM_DEVICE Outcome await(const Memory &memory, int peer, Patience &patience,
                          const IsThere &is_there) {
  if (memory.layout != kLayout) return {peer << 8 | static_cast<int>(Trouble::layout)};
  while (!is_there()) {
    const Trouble trouble = look_around(memory, patience);
    if (trouble != Trouble::none) return {peer << 8 | static_cast<int>(trouble)};
  }
  return {0};
}

/* ---- signals --------------------------------------------------------------------------------------- */

/** The word of signals from `source` to `owner`: only `source` writes it. [thread] */
SYMM_DEVICE unsigned long long *signal_word(const Memory &memory, int owner, int channel,
                                            int source) {
  return memory.pads[owner] + channel * memory.size + source;
}
/** Where this rank counts the signals from `source` that it has taken, or that a wait is about to. [thread] */
SYMM_DEVICE unsigned long long *taken_word(const Memory &memory, int channel, int source) {
  return memory.taken + channel * memory.size + source;
}

/** symm_signal_value() from a kernel: add to the word that `rank` sees of this rank, or set it, after everything that this
 * thread, and those it met at a __syncthreads(), wrote. Never waits. [thread] */
SYMM_DEVICE void signal_value(const Memory &memory, int rank, int channel, SignalOp op,
                              unsigned long long value) {
  if (memory.layout != kLayout) return;
  unsigned long long *const word = signal_word(memory, rank, channel, memory.rank);
  if (op == SignalOp::add) {
    add_release(word, value);
  } else {
    store_release(word, value);
  }
}
/** symm_signal() from a kernel: one signal to `rank`. [thread] */
SYMM_DEVICE void signal(const Memory &memory, int rank, int channel) {
  signal_value(memory, rank, channel, SignalOp::add, 1);
}

/** symm_wait_signal_value() from a kernel: wait until the word from `rank` compares so, and take nothing. [thread] */
SYMM_DEVICE Outcome wait_signal_value(const Memory &memory, int rank, int channel, Compare compare,
                                      unsigned long long value) {
  Patience patience;
  const unsigned long long *const word = signal_word(memory, memory.rank, channel, rank);
  const Outcome outcome =
      await(memory, rank, patience, [&] { return holds(load_relaxed(word), compare, value); });
  fence_system();
  return outcome;
}

/** One of the signals that wait_signals() waits for, as the arguments of wait_signal_value(). */
struct SignalWait {
  int rank;
  int channel;
  Compare compare;
  unsigned long long value;
};

/** symm_wait_signals() from a kernel: wait until each of `count` signals, 1 or more, has been as awaited, at whatever moment, or
 * with `any` until one of them is. Takes nothing. [thread]
 *  @param index  with `any` receives the first that was as awaited; may be null. */
SYMM_DEVICE Outcome wait_signals(const Memory &memory, const SignalWait *waits, int count, bool any,
                                 int *index = nullptr) {
  Patience patience;
  Outcome outcome = {0};
  int at = 0;
  const auto is_there = [&] {
    const SignalWait &wait = waits[at];
    return holds(load_relaxed(signal_word(memory, memory.rank, wait.channel, wait.rank)),
                 wait.compare, wait.value);
  };
  const auto one_is_there = [&] {
    for (at = 0; at < count; ++at) {
      if (is_there()) return true;
    }
    return false;
  };
  if (any) {
    outcome = await(memory, waits[0].rank, patience, one_is_there);
  } else {
    for (; at < count && outcome; ++at) {
      outcome = await(memory, waits[at].rank, patience, is_there);
    }
  }
  fence_system();
  if (any && outcome && index != nullptr) *index = at;
  return outcome;
}

/** Wait until `ahead` signals from `rank` are there beyond those taken, and take none: any number of threads and blocks may wait
 * for the same signal. Nobody may take it before the last of them has seen it; take it after the kernel (symm_wait_signal()), or
 * by its last block (take_signals()). [thread] */
SYMM_DEVICE Outcome await_signal(const Memory &memory, int rank, int channel,
                                 unsigned long long ahead = 1) {
  if (memory.layout != kLayout) return {rank << 8 | static_cast<int>(Trouble::layout)};
  return wait_signal_value(memory, rank, channel, Compare::ge,
                           load_relaxed(taken_word(memory, channel, rank)) + ahead);
}

/** Count `count` signals from `rank` as taken, without waiting. [thread] */
SYMM_DEVICE void take_signals(const Memory &memory, int rank, int channel,
                              unsigned long long count = 1) {
  if (memory.layout == kLayout) add_on_device(taken_word(memory, channel, rank), count);
}

/** symm_wait_signal() from a kernel: wait for one signal from `rank` and take it. If it fails, nothing was taken. [thread] */
SYMM_DEVICE Outcome wait_signal(const Memory &memory, int rank, int channel) {
  Patience patience;
  const unsigned long long *const word = signal_word(memory, memory.rank, channel, rank);
  unsigned long long *const taken = taken_word(memory, channel, rank);
  const Outcome outcome = await(memory, rank, patience, [&] {
    const unsigned long long before = load_relaxed(taken);
    return static_cast<long long>(load_relaxed(word) - before) > 0 &&
           exchange_on_device(taken, before, before + 1) == before;
  });
  fence_system();
  return outcome;
}

/** symm_test_signal_value() and symm_test_signal() from a kernel: the word from `rank`, and how many signals of it are not taken.
 * What was written before them is visible. Never waits. [thread] */
SYMM_DEVICE unsigned long long test_signal_value(const Memory &memory, int rank, int channel) {
  const unsigned long long word =
      memory.layout == kLayout ? load_relaxed(signal_word(memory, memory.rank, channel, rank)) : 0;
  fence_system();
  return word;
}
SYMM_DEVICE unsigned long long test_signal(const Memory &memory, int rank, int channel) {
  if (memory.layout != kLayout) return 0;
  const unsigned long long taken = load_relaxed(taken_word(memory, channel, rank));
  const unsigned long long word = test_signal_value(memory, rank, channel);
  // those who wait have taken what is to come
  return static_cast<long long>(word - taken) > 0 ? word - taken : 0;
}

/* ---- barriers -------------------------------------------------------------------------------------- */

/** All ranks, for the `ranks` of barriers; otherwise bit r means rank r. */
constexpr unsigned kEverybody = ~0U;

/** The state of a grid's barrier: in memory of this device, zero at first, one for each kernel that may run at a time. Used again
 * and again, also by grids of other sizes, but after a failed barrier only when it was set to zero again. */
struct Grid {
  unsigned arrived; /**< blocks, in this round */
  unsigned round;
  unsigned code; /**< of the first Outcome that failed */
  unsigned reserved;
};

// A block is: thread() of threads(), blocks() of them in the grid,
// sync(), and two ways to agree: any(), and agree(), which gives all of
// its threads the same failed Outcome if one of them has a failed one.
struct OneThread {
  SYMM_DEVICE unsigned thread() const { return 0; }
  SYMM_DEVICE unsigned threads() const { return 1; }
  SYMM_DEVICE void sync() const {}
  SYMM_DEVICE Outcome agree(Outcome mine) const { return mine; }
};

// The signals of a barrier are those of signal() on its channel: each rank sends one to
// every other and claims one from every other.
template <class Block>
SYMM_DEVICE Outcome barrier_of(const Memory &memory, int channel, unsigned ranks,
                               const Block &block) {
  block.sync();
  const int first = static_cast<int>(block.thread());
  const int step = static_cast<int>(block.threads());
  const auto takes_part = [&](int peer) {
    return peer != memory.rank && (ranks >> peer & 1U) != 0;
  };
  for (int peer = first; peer < memory.size; peer += step) {
    if (takes_part(peer)) signal(memory, peer, channel);
  }
  Patience patience;
  Outcome mine = {0};
  for (int peer = first; peer < memory.size; peer += step) {
    if (!takes_part(peer)) continue;
    const unsigned long long *const word = signal_word(memory, memory.rank, channel, peer);
    const unsigned long long target =
        memory.layout == kLayout ? add_on_device(taken_word(memory, channel, peer), 1) + 1 : 0;
    const Outcome outcome =
        await(memory, peer, patience, [&] { return load_relaxed(word) >= target; });
    if (mine) mine = outcome;
  }
  fence_system();
  return block.agree(mine);
}

// The last block of the grid to arrive goes to the
// barrier of the ranks; the others wait for it.
template <class Block>
SYMM_DEVICE Outcome barrier_of_grid(const Memory &memory, int channel, Grid *grid, unsigned ranks,
                                    const Block &block) {
  block.sync();
  const bool leader = block.thread() == 0;
  unsigned round = 0;
  unsigned before = 0;
  if (leader) {
    round = load_relaxed(&grid->round);
    fence_system();
    before = add_on_device(&grid->arrived);
    fence_system();
  }
  Outcome outcome = {0};
  if (block.any(leader && before + 1 == block.blocks())) {
    outcome = barrier_of(memory, channel, ranks, block);
    if (leader) {
      if (!outcome) store_relaxed(&grid->code, static_cast<unsigned>(outcome.code));
      outcome.code = static_cast<int>(load_relaxed(&grid->code));
      store_relaxed(&grid->arrived, 0);
      fence_system();
      store_relaxed(&grid->round, round + 1);
    }
  } else if (leader) {
    Patience patience;
    outcome =
        await(memory, memory.rank, patience, [&] { return load_relaxed(&grid->round) != round; });
    if (!outcome) store_relaxed(&grid->code, static_cast<unsigned>(outcome.code));
    fence_system();
    outcome.code = static_cast<int>(load_relaxed(&grid->code));
  }
  return block.agree(outcome);
}

/** Wait until one thread of every rank is here; what they wrote before is visible after. [thread] Of several at a time on a
 * channel each counts, but which meets which is open. All ranks must meet by calls of the same kind. After a failure the ranks
 * are out of step on this channel: do not use it again. */
SYMM_DEVICE Outcome barrier_thread(const Memory &memory, int channel, unsigned ranks = kEverybody) {
  return barrier_of(memory, channel, ranks, OneThread());
}

#ifdef __CUDACC__
// The block that a kernel is in.
struct ThisBlock {
  SYMM_DEVICE unsigned thread() const {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  }
  SYMM_DEVICE unsigned threads() const { return blockDim.x * blockDim.y * blockDim.z; }
  SYMM_DEVICE unsigned blocks() const { return gridDim.x * gridDim.y * gridDim.z; }
  SYMM_DEVICE void sync() const { __syncthreads(); }
  SYMM_DEVICE bool any(bool mine) const { return __syncthreads_or(mine ? 1 : 0) != 0; }
  SYMM_DEVICE Outcome agree(Outcome mine) const {
    if (!any(!mine)) return {0};
    __shared__ int code;
    if (!mine) code = mine.code;
    __syncthreads();
    const Outcome agreed = {code};
    __syncthreads();
    return agreed;
  }
};

/** The same for blocks: this block meets one of every rank, and what all their threads wrote before is visible to all of them
 * after. [block] For several blocks at once, give each a channel of its own (block i of every rank meets on channel first + i).
 * The Outcome is the same for all threads of the block. */
SYMM_DEVICE Outcome barrier_block(const Memory &memory, int channel, unsigned ranks = kEverybody) {
  return barrier_of(memory, channel, ranks, ThisBlock());
}

/** The same for grids: all blocks of all ranks' grids, which may differ in size. [grid] If it fails for one block, others may
 * have been told so or not; all leave. */
SYMM_DEVICE Outcome barrier_grid(const Memory &memory, int channel, Grid *grid,
                                 unsigned ranks = kEverybody) {
  return barrier_of_grid(memory, channel, grid, ranks, ThisBlock());
}

/** signal() after everything that the threads of this block wrote. [block] */
SYMM_DEVICE void signal_block(const Memory &memory, int rank, int channel) {
  __syncthreads();
  if (ThisBlock().thread() == 0) signal(memory, rank, channel);
}
/** await_signal() for all threads of this block. [block] */
SYMM_DEVICE Outcome await_signal_block(const Memory &memory, int rank, int channel,
                                       unsigned long long ahead = 1) {
  Outcome outcome = {0};
  if (ThisBlock().thread() == 0) outcome = await_signal(memory, rank, channel, ahead);
  return ThisBlock().agree(outcome);
}
/** wait_signal() for all threads of this block, which together take one signal. [block] */
SYMM_DEVICE Outcome wait_signal_block(const Memory &memory, int rank, int channel) {
  Outcome outcome = {0};
  if (ThisBlock().thread() == 0) outcome = wait_signal(memory, rank, channel);
  return ThisBlock().agree(outcome);
}
#endif

}  // namespace symm::device

#endif /* SYMM_DEVICE_CUH */
