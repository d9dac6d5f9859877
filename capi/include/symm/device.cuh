/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symm in kernels of your own: where every rank's block lies, signals between ranks, and
 * barriers. CUDA C++17, for nvcc and NVRTC, with no library to link. Beside it multimem.cuh has
 * the instructions of NVLink multicast, and exchange.cuh has an all-reduce.
 *
 * A kernel gets a symm::device::Memory by value. It is a symm_memory_view_t:
 * symm::device::describe() fills it on the host, and in any other language
 * symm_memory_device_view() does. Its layout number says how the pads lie. A layout that this
 * header does not know is refused by describe(); in a kernel every wait then ends with
 * Trouble::layout, and nothing is signalled.
 *
 * Compiled by a host compiler, the same functions work on memory of the host, and are tested
 * so. There is then no ThisBlock, and a program brings its own idea of a block.
 *
 * Tags
 *   - [thread]: one thread alone calls; others may be elsewhere.
 *   - [block]: all threads of a block call, as for __syncthreads().
 *   - [grid]: all threads of all blocks call. All blocks must be resident at once, which a
 *     cooperative launch makes sure of.
 *
 * Waiting
 *   Nothing here waits without an end, and nothing traps. A wait leaves when what it waits for
 *   is there, when Memory::timeout_ns have passed, or when the word that Memory::stop points to
 *   is no longer 0. Its Outcome says which. Look at it: after a failed wait the data is not
 *   there. A failed wait does not revoke the group, which does not know of it: tell the host,
 *   which may call symm_group_abort().
 *
 * Dead ranks
 *   A kernel does not notice that a peer died. The host does, within milliseconds
 *   (symm_group_status()): let it set the stop word.
 *
 * Signals
 *   A channel has a word of 64 bits for each pair of ranks, and counts the signals taken from
 *   it. These are the signals of symm_signal(), symm_wait_signal() and their kin, so kernels
 *   and host calls may signal and take on one channel in any mixture, captured graphs included.
 *   - Any number of threads, on any streams, may take from one rank on one channel. No signal
 *     is taken twice, and who takes which is open.
 *   - Use a channel to count, or for values that are set and compared, not for both.
 *
 * Order
 *   Order is at system scope. What a thread, and those that it met at a __syncthreads() before,
 *   wrote anywhere before a signal is visible to the thread that awaits the signal, and to
 *   those that meet that thread at a __syncthreads() after. So a block stores, calls
 *   __syncthreads(), and one thread signals; signal_block() is all of that.
 *
 * Loads
 *   What another rank writes while the kernel runs must be read by plain or relaxed loads after
 *   the wait. Do not read it through __ldg() or a pointer that is both const and __restrict__,
 *   which may use a cache that no fence cleans.
 *
 * Lifetime
 *   Kernels that use a memory must have ended before its symm_memory_release(), and, if they
 *   store to peers, before the peers' release too.
 */
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

/* ---- what a kernel is given ------------------------------------------------------------- */

/**
 * Memory as this rank's kernels see it, to be passed by value: the fields of
 * symm_memory_view_t. All pointers are device addresses, valid while the memory lives.
 */
struct Memory {
  unsigned long long struct_size;
  /** kLayout, if this header knows how the pads lie. */
  unsigned layout;
  /** This rank. */
  int rank;
  /** Number of ranks. */
  int size;
  /** Number of signal channels. */
  int channels;
  /** Address of each rank's block. */
  void *const *blocks;
  /** Address of each rank's signal pad. */
  unsigned long long *const *pads;
  /** Signals that this rank has taken, [channel][source]. */
  unsigned long long *taken;
  /** Deadline of each wait in nanoseconds; ~0ull: none. */
  unsigned long long timeout_ns;
  /**
   * A word that ends all waits when it becomes other than 0 (pinned host memory, say); NULL:
   * none.
   */
  const unsigned *stop;
};
static_assert(sizeof(Memory) == 64, "passed between languages");

/**
 * Layout of pads and of `taken`: unsigned long long [channel][source]. As
 * SYMM_MEMORY_VIEW_LAYOUT.
 */
constexpr unsigned kLayout = 1;

#ifndef __CUDACC_RTC__
static_assert(sizeof(Memory) == sizeof(symm_memory_view_t) &&
                  kLayout == SYMM_MEMORY_VIEW_LAYOUT &&
                  offsetof(Memory, layout) == offsetof(symm_memory_view_t, layout) &&
                  offsetof(Memory, channels) == offsetof(symm_memory_view_t, channels) &&
                  offsetof(Memory, blocks) == offsetof(symm_memory_view_t, blocks) &&
                  offsetof(Memory, taken) == offsetof(symm_memory_view_t, taken) &&
                  offsetof(Memory, stop) == offsetof(symm_memory_view_t, stop),
              "symm.h beside this header is of another version");

/**
 * Fill a Memory. Host function.
 * [local]
 *
 * @param memory      memory to describe.
 * @param timeout_ms  deadline of each wait in a kernel, in milliseconds; 0: the group's,
 *                    SYMM_TIMEOUT_INFINITE: none.
 * @param stop        device address of the word that ends all waits, or NULL.
 * @param[out] out    written only on success.
 * @return  what symm_memory_device_view() returns; UNSUPPORTED, without a message, if the
 *          library has another layout.
 */
inline symm_status_t describe(symm_memory_t *memory, uint64_t timeout_ms, const unsigned *stop,
                              Memory *out) {
  symm_memory_view_t view = {};
  view.struct_size = sizeof view;
  const symm_call_options_t options = {sizeof options, timeout_ms, nullptr, nullptr};
  const symm_status_t status = symm_memory_device_view(memory, stop, &options, &view);
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

/** What signal_value() does to a word: the values of symm_signal_op_t. */
enum class SignalOp : int { add = 0, set = 1 };

/**
 * What change_value() makes of a word and `value`: the values of symm_atomic_op_t.
 */
enum class AtomicOp : int {
  fetch = 0,
  add = 1,
  bit_and = 2,
  bit_or = 3,
  bit_xor = 4,
  swap = 5,
  compare_swap = 6
};

/**
 * How a word, on the left, compares with a value, on the right: the values of symm_compare_t.
 */
enum class Compare : int { eq = 0, ne = 1, lt = 2, le = 3, gt = 4, ge = 5 };

/** True if `word` compares with `value` as `compare` says. [thread] */
SYMM_HOST_DEVICE bool holds(unsigned long long word, Compare compare,
                            unsigned long long value) {
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
  /** The wait did not fail. */
  none = 0,
  /** Memory::timeout_ns have passed. */
  timeout = 1,
  /** The host set Memory::stop. */
  stopped = 2,
  /** Memory comes from a library whose layout this header does not know. */
  layout = 3
};

/**
 * How a wait ended; true if what was waited for is there. It is one word, so that a kernel can
 * store it for the host.
 */
struct Outcome {
  /** 0, or awaited rank << 8 | Trouble. */
  int code;

  /** Whether what was waited for is there. */
  SYMM_HOST_DEVICE explicit operator bool() const { return code == 0; }
  /** Why the wait failed. */
  SYMM_HOST_DEVICE Trouble trouble() const { return static_cast<Trouble>(code & 0xFF); }
  /** The rank that did not come, if the wait failed; any one of several. */
  SYMM_HOST_DEVICE int peer() const { return code >> 8; }
};

/* ---- memory: words that ranks share ----------------------------------------------------- */

#ifdef __CUDACC__
/** Load a word, at system scope, without order. [thread] */
SYMM_DEVICE unsigned load_relaxed(const unsigned *from) {
  unsigned value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

/** Load a word of 64 bits, at system scope, without order. [thread] */
SYMM_DEVICE unsigned long long load_relaxed(const unsigned long long *from) {
  unsigned long long value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}

/** Store a word, at system scope, without order. [thread] */
SYMM_DEVICE void store_relaxed(unsigned *to, unsigned value) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

/** Add to a word, at system scope, after everything before (release). [thread] */
SYMM_DEVICE void add_release(unsigned long long *to, unsigned long long value) {
  asm volatile("red.release.sys.global.add.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}

/** Store a word, at system scope, after everything before (release). [thread] */
SYMM_DEVICE void store_release(unsigned long long *to, unsigned long long value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}

#define SYMM_DEVICE_ATOMIC(operation, letter)                        \
  asm volatile("atom.acq_rel.sys.global." operation " %0, [%1], %2;" \
               : "=" letter(before)                                  \
               : "l"(word), letter(value)                            \
               : "memory")
#define SYMM_DEVICE_CHANGE(Word, bits, letter)                                      \
  SYMM_DEVICE Word change_word(Word *word, AtomicOp op, Word value, Word compare) { \
    Word before = 0;                                                                \
    switch (op) {                                                                   \
      /* A load would release nothing. The value of a fetch is 0. */                \
      case AtomicOp::fetch:                                                         \
      case AtomicOp::add: SYMM_DEVICE_ATOMIC("add.u" bits, letter); break;          \
      case AtomicOp::bit_and: SYMM_DEVICE_ATOMIC("and.b" bits, letter); break;      \
      case AtomicOp::bit_or: SYMM_DEVICE_ATOMIC("or.b" bits, letter); break;        \
      case AtomicOp::bit_xor: SYMM_DEVICE_ATOMIC("xor.b" bits, letter); break;      \
      case AtomicOp::swap: SYMM_DEVICE_ATOMIC("exch.b" bits, letter); break;        \
      case AtomicOp::compare_swap:                                                  \
        asm volatile("atom.acq_rel.sys.global.cas.b" bits " %0, [%1], %2, %3;"      \
                     : "=" letter(before)                                           \
                     : "l"(word), letter(compare), letter(value)                    \
                     : "memory");                                                   \
        break;                                                                      \
    }                                                                               \
    return before;                                                                  \
  }
/**
 * Change a word in one step, at system scope, after everything before (release) and before
 * everything after (acquire), and return what it was. `value` of a fetch is 0. [thread]
 */
SYMM_DEVICE_CHANGE(unsigned, "32", "r")
/** Change a word of 64 bits as the function for 32 bits does. [thread] */
SYMM_DEVICE_CHANGE(unsigned long long, "64", "l")
#undef SYMM_DEVICE_CHANGE
#undef SYMM_DEVICE_ATOMIC

/**
 * Add 1 to a word of this device and return what it was, without order, at device scope.
 * [thread]
 */
SYMM_DEVICE unsigned add_on_device(unsigned *to) {
  unsigned before;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(to)
               : "memory");
  return before;
}

/**
 * Add to a word of this device and return what it was, without order, at device scope. [thread]
 */
SYMM_DEVICE unsigned long long add_on_device(unsigned long long *to, unsigned long long value) {
  unsigned long long before;
  asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;"
               : "=l"(before)
               : "l"(to), "l"(value)
               : "memory");
  return before;
}

/** Make a word of this device `wanted` if it is `expected`, and return what it was. [thread] */
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

/**
 * Order what this thread, and those it met at a __syncthreads(), did before against what it
 * does after, for all devices and the host.
 * [thread]
 *
 * It is release before a relaxed store, and acquire after a relaxed load.
 */
SYMM_DEVICE void fence_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

/** Order memory as fence_system() does, for this device only. [thread] */
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

template <class Word>
Word change_word(Word *word, AtomicOp op, Word value, Word compare) {
  switch (op) {
    case AtomicOp::fetch: break;
    case AtomicOp::add: return __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST);
    case AtomicOp::bit_and: return __atomic_fetch_and(word, value, __ATOMIC_SEQ_CST);
    case AtomicOp::bit_or: return __atomic_fetch_or(word, value, __ATOMIC_SEQ_CST);
    case AtomicOp::bit_xor: return __atomic_fetch_xor(word, value, __ATOMIC_SEQ_CST);
    case AtomicOp::swap: return __atomic_exchange_n(word, value, __ATOMIC_SEQ_CST);
    case AtomicOp::compare_swap:
      __atomic_compare_exchange_n(word, &compare, value, false, __ATOMIC_SEQ_CST,
                                  __ATOMIC_SEQ_CST);
      return compare;
  }
  return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

inline unsigned add_on_device(unsigned *to) {
  return __atomic_fetch_add(to, 1U, __ATOMIC_ACQ_REL);
}

inline unsigned long long add_on_device(unsigned long long *to, unsigned long long value) {
  return __atomic_fetch_add(to, value, __ATOMIC_ACQ_REL);
}

inline unsigned long long exchange_on_device(unsigned long long *word,
                                             unsigned long long expected,
                                             unsigned long long wanted) {
  __atomic_compare_exchange_n(word, &expected, wanted, false, __ATOMIC_ACQ_REL,
                              __ATOMIC_ACQUIRE);
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

// There are more threads that stand for ranks than processors.
inline void let_others_run() { sched_yield(); }
#endif

/**
 * Address in rank `rank`'s block, `offset` bytes from its start.
 * [thread]
 *
 * Load from it and store to it like any other memory.
 */
template <class T>
SYMM_DEVICE T *pointer(const Memory &memory, int rank, unsigned long long offset = 0) {
  return reinterpret_cast<T *>(static_cast<char *>(memory.blocks[rank]) + offset);
}

/* ---- waiting ---------------------------------------------------------------------------- */

/**
 * How long a thread has waited. One Patience may serve several waits, which then share one
 * deadline.
 */
struct Patience {
  /** Time of the first look at the clock, in nanoseconds; 0: there was none. */
  unsigned long long since = 0;
  /** Turns of the polling loop. */
  unsigned looks = 0;
};

/**
 * Ask in each turn of a polling loop of your own whether to leave it, which is so if the answer
 * is not `none`.
 * [thread]
 *
 * Looks at the stop word and the clock every 1024 turns.
 */
SYMM_DEVICE Trouble look_around(const Memory &memory, Patience &patience) {
  if ((++patience.looks & 15U) == 0) let_others_run();
  if ((patience.looks & 1023U) != 0) return Trouble::none;
  if (memory.stop != nullptr && load_relaxed(memory.stop) != 0) return Trouble::stopped;
  if (memory.timeout_ns == ~0ULL) return Trouble::none;
  const unsigned long long now = nanoseconds();
  if (patience.since == 0) patience.since = now;
  return now - patience.since < memory.timeout_ns ? Trouble::none : Trouble::timeout;
}

/**
 * Wait until is_there() says so.
 * [thread]
 *
 * The wait brings no order: call fence_system() after it.
 *
 * @param memory    where deadline and stop word are.
 * @param peer      rank that is waited for, which the Outcome names.
 * @param patience  a new one, or that of an earlier wait that shares the deadline.
 * @param is_there  asked again and again; true ends the wait.
 */
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

/* ---- signals ---------------------------------------------------------------------------- */

/** Word of the signals from `source` to `owner`, which only `source` writes. [thread] */
SYMM_DEVICE unsigned long long *signal_word(const Memory &memory, int owner, int channel,
                                            int source) {
  return memory.pads[owner] + channel * memory.size + source;
}

/**
 * Count of the signals from `source` that this rank has taken, or that a wait is about to take.
 * [thread]
 */
SYMM_DEVICE unsigned long long *taken_word(const Memory &memory, int channel, int source) {
  return memory.taken + channel * memory.size + source;
}

/**
 * Do what symm_signal_value() does, from a kernel: add to the word that `rank` has of this
 * rank, or set it.
 * [thread]
 *
 * This comes after everything that this thread, and those it met at a __syncthreads(), wrote.
 * Never waits.
 */
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

/**
 * Do what symm_atomic32() and symm_atomic64() do, from a kernel: change the word at `offset` bytes
 * in `rank`'s block in one step, and return what it was.
 * [thread]
 *
 * Word is unsigned or unsigned long long. This comes after everything that this thread, and those
 * it met at a __syncthreads(), wrote, and what was written before the word that is returned is
 * visible after it. Never waits. It is one step where symm_atomic32() is not UNSUPPORTED for that
 * rank, which a program can ask by one call of it, with SYMM_ATOMIC_FETCH: over PCIe it is none.
 *
 * @param memory   where the blocks are.
 * @param rank     whose block has the word.
 * @param offset   bytes from the start of the block, a multiple of the size of the word.
 * @param op       what to do.
 * @param value    right operand; 0 for AtomicOp::fetch.
 * @param compare  what the word is compared with by AtomicOp::compare_swap.
 */
template <class Word>
SYMM_DEVICE Word change_value(const Memory &memory, int rank, unsigned long long offset,
                              AtomicOp op, Word value, Word compare = 0) {
  if (memory.layout != kLayout) return 0;
  return change_word(pointer<Word>(memory, rank, offset), op, value, compare);
}

/** Do what symm_signal() does, from a kernel: send one signal to `rank`. [thread] */
SYMM_DEVICE void signal(const Memory &memory, int rank, int channel) {
  signal_value(memory, rank, channel, SignalOp::add, 1);
}

/**
 * Do what symm_wait_signal_value() does, from a kernel: wait until the word from `rank`
 * compares with `value` as `compare` says. Takes nothing.
 * [thread]
 */
SYMM_DEVICE Outcome wait_signal_value(const Memory &memory, int rank, int channel,
                                      Compare compare, unsigned long long value) {
  Patience patience;
  const unsigned long long *const word = signal_word(memory, memory.rank, channel, rank);
  const Outcome outcome =
      await(memory, rank, patience, [&] { return holds(load_relaxed(word), compare, value); });
  fence_system();
  return outcome;
}

/**
 * One of the signals that wait_signals() waits for, as the arguments of wait_signal_value().
 */
struct SignalWait {
  /** Source of the signal. */
  int rank;
  int channel;
  Compare compare;
  unsigned long long value;
};

/**
 * Do what symm_wait_signals() does, from a kernel: wait for several signals. Takes nothing.
 * [thread]
 *
 * @param memory  memory whose signals are meant.
 * @param waits   `count` of them.
 * @param count   1 or more.
 * @param any     false: wait until each word has been as awaited, at whatever moment; true:
 *                until one of them is.
 * @param index   with `any` receives the first that was as awaited; may be null.
 */
SYMM_DEVICE Outcome wait_signals(const Memory &memory, const SignalWait *waits, int count,
                                 bool any, int *index = nullptr) {
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

/**
 * Wait until `ahead` signals from `rank` are there beyond those taken, and take none.
 * [thread]
 *
 * Any number of threads and blocks may wait for the same signal. Nobody may take it before the
 * last of them has seen it: take it after the kernel (symm_wait_signal()), or by its last block
 * (take_signals()).
 */
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

/**
 * Do what symm_wait_signal() does, from a kernel: wait for one signal from `rank` and take it.
 * If the wait fails, nothing was taken.
 * [thread]
 */
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

/**
 * Do what symm_test_signal_value() does, from a kernel: read the word from `rank`.
 * [thread]
 *
 * What was written before the word is visible. Never waits.
 */
SYMM_DEVICE unsigned long long test_signal_value(const Memory &memory, int rank, int channel) {
  const unsigned long long word =
      memory.layout == kLayout ? load_relaxed(signal_word(memory, memory.rank, channel, rank))
                               : 0;
  fence_system();
  return word;
}

/**
 * Do what symm_test_signal() does, from a kernel: count the signals from `rank` that are there
 * and not taken.
 * [thread]
 *
 * What was written before them is visible. Never waits.
 */
SYMM_DEVICE unsigned long long test_signal(const Memory &memory, int rank, int channel) {
  if (memory.layout != kLayout) return 0;
  const unsigned long long taken = load_relaxed(taken_word(memory, channel, rank));
  const unsigned long long word = test_signal_value(memory, rank, channel);
  // A wait takes its signal in advance, so the count may be ahead of the word.
  return static_cast<long long>(word - taken) > 0 ? word - taken : 0;
}

/* ---- barriers --------------------------------------------------------------------------- */

/** All ranks, for the parameter `ranks` of barriers, of which bit r means rank r. */
constexpr unsigned kEverybody = ~0U;

/**
 * State of a grid's barrier, in memory of this device, zero at first. Have one for each kernel
 * that may run at a time. It serves any number of barriers, also of grids of other sizes; after
 * a failed barrier set it to zero first.
 */
struct Grid {
  /** Blocks that have come in this round. */
  unsigned arrived;
  /** Number of this round. */
  unsigned round;
  /** Code of the first Outcome that failed. */
  unsigned code;
  unsigned reserved;
};

// The barriers are templates of a Block, which has:
// - thread(), the number of this thread among threads();
// - blocks(), the number of blocks in the grid;
// - sync(), which is __syncthreads();
// - any(), which is true for all threads if it is for one;
// - agree(), which gives all threads the same failed Outcome if one of them has a failed one.
struct OneThread {
  SYMM_DEVICE unsigned thread() const { return 0; }
  SYMM_DEVICE unsigned threads() const { return 1; }
  SYMM_DEVICE void sync() const {}
  SYMM_DEVICE Outcome agree(Outcome mine) const { return mine; }
};

// The signals of a barrier are those of signal() on its channel: each rank sends one to every
// other rank, and claims one from every other rank.
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

// The last block of the grid to arrive goes to the barrier of the ranks. The others wait for
// that block.
template <class Block>
SYMM_DEVICE Outcome barrier_of_grid(const Memory &memory, int channel, Grid *grid,
                                    unsigned ranks, const Block &block) {
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
    outcome = await(memory, memory.rank, patience,
                    [&] { return load_relaxed(&grid->round) != round; });
    if (!outcome) store_relaxed(&grid->code, static_cast<unsigned>(outcome.code));
    fence_system();
    outcome.code = static_cast<int>(load_relaxed(&grid->code));
  }
  return block.agree(outcome);
}

/**
 * Wait until one thread of every rank is here.
 * [thread]
 *
 * What the threads wrote before is visible after. Several barriers at a time on a channel all
 * count, but which meets which is open. All ranks must meet by calls of the same kind. After a
 * failure the ranks are out of step on this channel: do not use it again.
 */
SYMM_DEVICE Outcome barrier_thread(const Memory &memory, int channel,
                                   unsigned ranks = kEverybody) {
  return barrier_of(memory, channel, ranks, OneThread());
}

#ifdef __CUDACC__
// The block of the calling thread.
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

/**
 * Wait until one block of every rank is here.
 * [block]
 *
 * What all threads of these blocks wrote before is visible to all of them after. For several
 * blocks at once, give each a channel of its own (block i of every rank meets on channel first
 * + i). The Outcome is the same for all threads of the block. Otherwise as barrier_thread().
 */
SYMM_DEVICE Outcome barrier_block(const Memory &memory, int channel,
                                  unsigned ranks = kEverybody) {
  return barrier_of(memory, channel, ranks, ThisBlock());
}

/**
 * Wait until all blocks of all ranks' grids are here, which may differ in size.
 * [grid]
 *
 * What all their threads wrote before is visible to all of them after. If the barrier fails for
 * one block, others may have been told so or not; all leave. Otherwise as barrier_thread().
 */
SYMM_DEVICE Outcome barrier_grid(const Memory &memory, int channel, Grid *grid,
                                 unsigned ranks = kEverybody) {
  return barrier_of_grid(memory, channel, grid, ranks, ThisBlock());
}

/** Send one signal to `rank`, after everything that the threads of this block wrote. [block] */
SYMM_DEVICE void signal_block(const Memory &memory, int rank, int channel) {
  __syncthreads();
  if (ThisBlock().thread() == 0) signal(memory, rank, channel);
}

/** Do what await_signal() does, for all threads of this block. [block] */
SYMM_DEVICE Outcome await_signal_block(const Memory &memory, int rank, int channel,
                                       unsigned long long ahead = 1) {
  Outcome outcome = {0};
  if (ThisBlock().thread() == 0) outcome = await_signal(memory, rank, channel, ahead);
  return ThisBlock().agree(outcome);
}

/**
 * Do what wait_signal() does, for all threads of this block, which together take one signal.
 * [block]
 */
SYMM_DEVICE Outcome wait_signal_block(const Memory &memory, int rank, int channel) {
  Outcome outcome = {0};
  if (ThisBlock().thread() == 0) outcome = wait_signal(memory, rank, channel);
  return ThisBlock().agree(outcome);
}
#endif

}  // namespace symm::device

#endif /* SYMM_DEVICE_CUH */
