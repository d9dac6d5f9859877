/* SPDX-License-Identifier: Apache-2.0
 *
 * symm in kernels of your own: where every rank's block lies, signals between ranks, barriers. CUDA C++17, for nvcc and NVRTC; no
 * library to link. multimem.cuh beside it has the instructions of NVLink multicast.
 *
 * A kernel gets a symm::device::Memory by value; symm::device::describe() fills it on the host, or any other language does: it is
 * plain data.
 *
 * Conventions
 *   Who calls   [thread] one thread alone; others may be elsewhere. [block] all threads of a block, like __syncthreads(). [grid]
 * all threads of all blocks, which must all be resident at once (a cooperative launch makes sure of that). Waiting     Nothing
 * here waits without an end and nothing traps. A wait leaves when what it waits for is there, when Memory::timeout_ns have
 * passed, or when the word that Memory::stop points to is no longer 0; its Outcome says which. Look at it: after a failed wait
 * the data is not there. The group is not revoked by it and does not know of it; tell the host, which may call
 *               symm_group_abort().
 *   Dead ranks  A kernel does not notice that a peer died. The host does, within milliseconds (symm_group_status()): let it set
 * the stop word. Signals     A channel counts, for each pair of ranks, signals put and signals taken. These are the counters of
 * symm_put_signal() and symm_wait_signal(), so kernels and host calls may put and take on one channel in any mixture, captured
 * graphs included. Two that take from one rank on one channel must be ordered: by the stream, or by a barrier within a kernel.
 *   Order       At system scope: what a thread, and those that it met at a __syncthreads() before, wrote anywhere before a put is
 * visible to whoever awaits the signal, and to those who meet it at a __syncthreads() after. So a block stores, __syncthreads(),
 * one thread puts; or put_signal_block(), which is all that. Loads       What another rank writes while the kernel runs must be
 * read by plain or relaxed loads after the wait: not through
 *               __ldg() or a pointer that is both const and __restrict__, which may use a cache that no fence cleans.
 *   Lifetime    Kernels that use a memory must have ended before its symm_memory_release(), and before the peers' too if they
 * store there.
 *
 * Compiled by a host compiler, the same functions work on memory of the host: so they are tested. There is then no ThisBlock, and
 * a program brings its own idea of a block.
 */
#ifndef SYMM_DEVICE_CUH
#define SYMM_DEVICE_CUH

#ifndef __CUDACC_RTC__
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

/** A memory as this rank's kernels see it: 48 bytes, to be passed by value. All pointers are device addresses, valid while the
 * memory lives. */
struct Memory {
  int rank;
  int size;                      /**< ranks */
  void *const *blocks;           /**< symm_memory_pointer_table() */
  unsigned *const *pads;         /**< symm_memory_signal_pad_table() */
  unsigned *taken;               /**< this rank's own pad + symm_memory_info_t::signal_pad_bytes: counts of signals taken */
  unsigned long long timeout_ns; /**< of each wait; ~0ull: none */
  const unsigned *stop; /**< a word that ends all waits when it becomes other than 0 (pinned host memory, say); NULL: none */
};
static_assert(sizeof(Memory) == 48, "passed between languages");

#ifndef __CUDACC_RTC__
/** Fill a Memory. Host function. [local]
 *  @param group       of which `memory` is.
 *  @param timeout_ms  of each wait in a kernel; SYMM_TIMEOUT_INFINITE: none.
 *  @param stop        device address of the word that ends all waits, or NULL.
 *  @param[out] out    written only on success.
 *  @return UNSUPPORTED if the group is on the host back end, which has no kernels (the one error without a message); else what
 *          symm_group_info(), symm_memory_info() and the calls for the tables return. */
inline symm_status_t describe(symm_group_t *group, symm_memory_t *memory, uint64_t timeout_ms, const unsigned *stop,
                              Memory *out) {
  symm_group_info_t of_group = {};
  of_group.struct_size = sizeof of_group;
  symm_memory_info_t of_memory = {};
  of_memory.struct_size = sizeof of_memory;
  void *const *blocks = nullptr;
  void *const *pads = nullptr;
  void *pad = nullptr;
  symm_status_t status = symm_group_info(group, &of_group);
  if (status == SYMM_OK && of_group.backend != SYMM_BACKEND_CUDA) status = SYMM_ERR_UNSUPPORTED;
  if (status == SYMM_OK) status = symm_memory_info(memory, &of_memory);
  if (status == SYMM_OK) status = symm_memory_pointer_table(memory, &blocks);
  if (status == SYMM_OK) status = symm_memory_signal_pad_table(memory, &pads);
  if (status == SYMM_OK) status = symm_memory_signal_pad(memory, of_memory.rank, &pad);
  if (status != SYMM_OK) return status;
  const unsigned long long most = ~0ULL;
  out->rank = of_memory.rank;
  out->size = of_memory.size;
  out->blocks = blocks;
  out->pads = reinterpret_cast<unsigned *const *>(pads);
  out->taken = reinterpret_cast<unsigned *>(static_cast<char *>(pad) + of_memory.signal_pad_bytes);
  out->timeout_ns = timeout_ms > most / 1000000 ? most : timeout_ms * 1000000;
  out->stop = stop;
  return SYMM_OK;
}
#endif

/** Why a wait failed. */
enum class Trouble : int {
  none = 0,
  timeout = 1, /**< Memory::timeout_ns have passed */
  stopped = 2  /**< *Memory::stop was set */
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
SYMM_DEVICE void store_relaxed(unsigned *to, unsigned value) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
/** Add one to a word, at system scope, after everything before (release). [thread] */
SYMM_DEVICE void add_release(unsigned *to) { asm volatile("red.release.sys.global.add.u32 [%0], 1;" ::"l"(to) : "memory"); }
/** Add one to a word of this device and return what it was, without order, at device scope. [thread] */
SYMM_DEVICE unsigned add_on_device(unsigned *to) {
  unsigned before;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(to) : "memory");
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
inline unsigned load_relaxed(const unsigned *from) { return __atomic_load_n(from, __ATOMIC_ACQUIRE); }
inline void store_relaxed(unsigned *to, unsigned value) { __atomic_store_n(to, value, __ATOMIC_RELEASE); }
inline void add_release(unsigned *to) { __atomic_fetch_add(to, 1U, __ATOMIC_RELEASE); }
inline unsigned add_on_device(unsigned *to) { return __atomic_fetch_add(to, 1U, __ATOMIC_ACQ_REL); }
inline void fence_system() {}
inline void fence_device() {}
inline unsigned long long nanoseconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<unsigned long long>(now.tv_sec) * 1000000000ULL + static_cast<unsigned long long>(now.tv_nsec);
}
inline void let_others_run() { sched_yield(); }  // threads that stand for ranks are more than processors
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

/** Wait until a counter has come to `target`, as a signed difference, so that it may wrap. Without order: fence_system() after
 * it. [thread]
 *  @param peer  who counts, for the Outcome. */
SYMM_DEVICE Outcome await_count(const Memory &memory, const unsigned *word, unsigned target, int peer, Patience &patience) {
  while (static_cast<int>(load_relaxed(word) - target) < 0) {
    const Trouble trouble = look_around(memory, patience);
    if (trouble != Trouble::none) return {peer << 8 | static_cast<int>(trouble)};
  }
  return {0};
}

/* ---- signals --------------------------------------------------------------------------------------- */

/** Where signals from `source` to `owner` are counted: a word that only `source` writes and that only grows. [thread] */
SYMM_DEVICE unsigned *signal_word(const Memory &memory, int owner, int channel, int source) {
  return memory.pads[owner] + channel * memory.size + source;
}
/** Where this rank counts the signals from `source` that it has taken. [thread] */
SYMM_DEVICE unsigned *taken_word(const Memory &memory, int channel, int source) {
  return memory.taken + channel * memory.size + source;
}

/** symm_put_signal() from a kernel: one signal to `rank`, after everything that this thread, and those it met at a
 * __syncthreads(), wrote. Never waits. [thread] */
SYMM_DEVICE void put_signal(const Memory &memory, int rank, int channel) {
  add_release(signal_word(memory, rank, channel, memory.rank));
}

/** Wait until `ahead` signals from `rank` are there beyond those taken, and take none: any number of threads and blocks may wait
 * for the same signal. Nobody may take it before the last of them has seen it; take it after the kernel (symm_wait_signal()), or
 * by its last block (take_signals()). [thread] */
SYMM_DEVICE Outcome await_signal(const Memory &memory, int rank, int channel, unsigned ahead = 1) {
  Patience patience;
  const unsigned target = load_relaxed(taken_word(memory, channel, rank)) + ahead;
  const Outcome outcome = await_count(memory, signal_word(memory, memory.rank, channel, rank), target, rank, patience);
  fence_system();
  return outcome;
}

/** Count `count` signals from `rank` as taken, without waiting. [thread] */
SYMM_DEVICE void take_signals(const Memory &memory, int rank, int channel, unsigned count = 1) {
  unsigned *const taken = taken_word(memory, channel, rank);
  store_relaxed(taken, load_relaxed(taken) + count);
}

/** symm_wait_signal() from a kernel: wait for one signal from `rank` and take it. If it fails, nothing was taken. [thread] */
SYMM_DEVICE Outcome wait_signal(const Memory &memory, int rank, int channel) {
  const Outcome outcome = await_signal(memory, rank, channel);
  if (outcome) take_signals(memory, rank, channel);
  return outcome;
}

/** Signals from `rank` that are there and not taken. What was written before them is visible. Never waits. [thread] */
SYMM_DEVICE unsigned signals_there(const Memory &memory, int rank, int channel) {
  const unsigned there =
      load_relaxed(signal_word(memory, memory.rank, channel, rank)) - load_relaxed(taken_word(memory, channel, rank));
  fence_system();
  return there;
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

// A block is: thread() of threads(), blocks() of them in the grid, sync(), and two ways to agree: any(), and agree(), which gives
// all of its threads the same failed Outcome if one of them has a failed one.
struct OneThread {
  SYMM_DEVICE unsigned thread() const { return 0; }
  SYMM_DEVICE unsigned threads() const { return 1; }
  SYMM_DEVICE void sync() const {}
  SYMM_DEVICE Outcome agree(Outcome mine) const { return mine; }
};

// The signals of a barrier are those of put_signal() on its channel: each rank puts one to every other and takes one from every
// other.
template <class Block>
SYMM_DEVICE Outcome barrier_of(const Memory &memory, int channel, unsigned ranks, const Block &block) {
  block.sync();
  const int first = static_cast<int>(block.thread());
  const int step = static_cast<int>(block.threads());
  const auto takes_part = [&](int peer) { return peer != memory.rank && (ranks >> peer & 1U) != 0; };
  for (int peer = first; peer < memory.size; peer += step) {
    if (takes_part(peer)) put_signal(memory, peer, channel);
  }
  Patience patience;
  Outcome mine = {0};
  for (int peer = first; peer < memory.size; peer += step) {
    if (!takes_part(peer)) continue;
    unsigned *const taken = taken_word(memory, channel, peer);
    const unsigned target = load_relaxed(taken) + 1;
    const Outcome outcome = await_count(memory, signal_word(memory, memory.rank, channel, peer), target, peer, patience);
    if (outcome) {
      store_relaxed(taken, target);
    } else if (mine) {
      mine = outcome;
    }
  }
  fence_system();
  return block.agree(mine);
}

// The last block of the grid to arrive goes to the barrier of the ranks; the others wait for it.
template <class Block>
SYMM_DEVICE Outcome barrier_of_grid(const Memory &memory, int channel, Grid *grid, unsigned ranks, const Block &block) {
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
    outcome = await_count(memory, &grid->round, round + 1, memory.rank, patience);
    if (!outcome) store_relaxed(&grid->code, static_cast<unsigned>(outcome.code));
    fence_system();
    outcome.code = static_cast<int>(load_relaxed(&grid->code));
  }
  return block.agree(outcome);
}

/** Wait until one thread of every rank is here; what they wrote before is visible after. [thread] One at a time on a channel; all
 * ranks must meet by calls of the same kind. After a failure the ranks are out of step on this channel: do not use it again. */
SYMM_DEVICE Outcome barrier_thread(const Memory &memory, int channel, unsigned ranks = kEverybody) {
  return barrier_of(memory, channel, ranks, OneThread());
}

#ifdef __CUDACC__
// The block that a kernel is in.
struct ThisBlock {
  SYMM_DEVICE unsigned thread() const { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
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
SYMM_DEVICE Outcome barrier_grid(const Memory &memory, int channel, Grid *grid, unsigned ranks = kEverybody) {
  return barrier_of_grid(memory, channel, grid, ranks, ThisBlock());
}

/** put_signal() after everything that the threads of this block wrote. [block] */
SYMM_DEVICE void put_signal_block(const Memory &memory, int rank, int channel) {
  __syncthreads();
  if (ThisBlock().thread() == 0) put_signal(memory, rank, channel);
}
/** await_signal() for all threads of this block. [block] */
SYMM_DEVICE Outcome await_signal_block(const Memory &memory, int rank, int channel, unsigned ahead = 1) {
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
