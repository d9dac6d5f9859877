/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's one-shot all-reduce inside a kernel of your own: a thread pushes its pack, 16
 * bytes of f32, f16 or bf16, to every rank and takes the packs of all ranks, or their sum. What
 * comes before and behind is yours. CUDA C++17, for nvcc and NVRTC, on device.cuh.
 *
 * On the host of all ranks, for messages of up to `bytes` bytes:
 *
 *     const symm::Exchange scratch(group, bytes);
 *     kernel<<<blocks, threads, 0, stream>>>(scratch.device(timeout_ms, stop), ...);
 *
 * In the kernel, whose first argument is `given`:
 *
 *     uint4 pack = message[q];
 *     const Outcome outcome = exchange::all_reduce_sum<exchange::bf16>(given, q, pack);
 *
 * Other languages rendezvous a memory of exchange::scratch_bytes() zeros and pass an Exchange
 * of its view and the addresses of the first 16 blocks. Compiled by a host compiler, there is
 * no f16.
 *
 * Packs
 *   A message is packs 0, 1, 2, ... of 16 bytes, its end filled up. Which thread of which block
 *   has a pack is free, and grids may differ between ranks; but all ranks push and take the
 *   same packs equally often.
 *
 * Once each
 *   A launch pushes a pack once and takes it once. So may each launch or replay that is ordered
 *   behind that launch, when it has waited for the earlier one (programmatic dependent launch).
 *   Within one launch, fence_system() has to be between take and push.
 *
 * Progress
 *   push() never waits. take() waits for pushes of other ranks only, so push all of a thread's
 *   packs before its first take. CUDA does not say in which order blocks come onto a device, so
 *   there are two ways to make sure of progress:
 *   - The blocks that take are resident together with those that push, on every rank, as in a
 *     cooperative launch.
 *   - One kernel pushes and the next one on the stream takes, which asks nothing of their
 *     blocks.
 *
 * Sums
 *   Ranks are added in rank order, in f32, and rounded once: the same bits on all ranks, and
 *   those of symm_allreduce() of two ranks and more without multicast, whatever flags the
 *   program is compiled with.
 *
 * Values
 *   All values arrive as they are, zeros of both signs and infinities too, with one exception:
 *   a word of all ones (a NaN, or a pair of them) means "nothing is here", and arrives as
 *   0x7FFF7FFF, also NaN. So take() moves any words but that one.
 *
 * Order
 *   A pack is its own flag. No fence is needed and none is implied: nothing else that a rank
 *   wrote becomes visible by it.
 *
 * Failure
 *   As in device.cuh, take() leaves at Memory::timeout_ns or Memory::stop, with an Outcome that
 *   is false. Ranks may then be out of step: make a new Exchange on all of them.
 *
 * Size
 *   Scratch is (2 * ranks + 1/4) * bytes on each rank, and a pack is stored ranks - 1 times.
 *   That is for some hundred kilobytes; above, symm_allreduce() has algorithms that move less.
 */
#ifndef SYMM_EXCHANGE_CUH
#define SYMM_EXCHANGE_CUH

#include <symm/device.cuh>
#ifndef __CUDACC_RTC__
#include <symm/symm.hpp>
#endif

namespace symm::device {

/** 16 bytes: four f32, eight f16 or eight bf16. */
#ifdef __CUDACC__
using Pack = uint4;
#else
struct alignas(16) Pack {
  unsigned x, y, z, w;
};
#endif

/**
 * What kernels are given by value. The addresses of the first ranks are in it, because loading
 * them from Memory::blocks takes time; those of the others are loaded from there.
 */
struct Exchange {
  static constexpr int kMaxRanks = 72;
  static constexpr int kNearRanks = 16;
  Memory memory;
  /** Packs of the largest message. */
  unsigned long long packs;
  /** The blocks of ranks 0 .. kNearRanks - 1; all blocks are zero at first. */
  char *scratch[kNearRanks];
};
static_assert(sizeof(Exchange) == 200, "passed between languages");

namespace exchange {

// A block holds cells [turn of the pack & 1][source][pack], and behind them the number of turns
// of each pack. A cell holds the complement of a pack, or zero while it is empty, so that fresh
// memory is empty.
//
// Two halves are enough, since no rank pushes turn k + 2 into a cell that still holds turn k:
// 1. A rank that pushes turn k + 2 has taken turn k + 1 of every rank.
// 2. Each rank emptied its cells of turn k before it pushed turn k + 1.

/** Bytes of scratch that each rank needs for `packs` packs. */
SYMM_HOST_DEVICE constexpr unsigned long long scratch_bytes(int ranks,
                                                            unsigned long long packs) {
  return packs * (2ULL * static_cast<unsigned>(ranks) * sizeof(Pack) + sizeof(unsigned));
}

// The cell of `owner` into which `source` pushes pack `q`.
SYMM_DEVICE Pack *cell(const Exchange &exchange, int owner, unsigned turn, int source,
                       unsigned long long q) {
  const int row = static_cast<int>(turn & 1U) * exchange.memory.size + source;
  void *const block =
      owner < Exchange::kNearRanks ? exchange.scratch[owner] : exchange.memory.blocks[owner];
  return reinterpret_cast<Pack *>(block) + static_cast<unsigned>(row) * exchange.packs + q;
}

// How often this rank has taken pack `q`.
SYMM_DEVICE unsigned *turn_word(const Exchange &exchange, unsigned long long q) {
  return reinterpret_cast<unsigned *>(
             cell(exchange, exchange.memory.rank, 0, 2 * exchange.memory.size, 0)) +
         q;
}

#ifdef __CUDACC__
SYMM_DEVICE Pack load_relaxed(const Pack *from) {
  Pack v;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from)
               : "memory");
  return v;
}

SYMM_DEVICE void store_relaxed(Pack *to, Pack v) {
  asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x),
               "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

SYMM_DEVICE float to_float(unsigned bits) { return __uint_as_float(bits); }
SYMM_DEVICE unsigned to_bits(float value) { return __float_as_uint(value); }

// An instruction, because the flags of the program do not change what it does.
SYMM_DEVICE float add(float a, float b) {
  float sum;
  asm("add.rn.f32 %0, %1, %2;" : "=f"(sum) : "f"(a), "f"(b));
  return sum;
}
#else
inline Pack load_relaxed(const Pack *from) {
  using device::load_relaxed;
  return {load_relaxed(&from->x), load_relaxed(&from->y), load_relaxed(&from->z),
          load_relaxed(&from->w)};
}

inline void store_relaxed(Pack *to, Pack v) {
  using device::store_relaxed;
  store_relaxed(&to->x, v.x);
  store_relaxed(&to->y, v.y);
  store_relaxed(&to->z, v.z);
  store_relaxed(&to->w, v.w);
}

inline float to_float(unsigned bits) { return __builtin_bit_cast(float, bits); }
inline unsigned to_bits(float value) { return __builtin_bit_cast(unsigned, value); }
inline float add(float a, float b) { return a + b; }
#endif

// Types of elements. A pack has kCount of them. wide() is the first element in a word. word()
// is the word of two elements, or of the first alone where that fills a word.
struct f32 {
  static constexpr int kCount = 4;
  static SYMM_DEVICE float wide(unsigned word) { return to_float(word); }
  static SYMM_DEVICE unsigned word(float first, float) { return to_bits(first); }
};
struct bf16 {
  static constexpr int kCount = 8;
  static SYMM_DEVICE float wide(unsigned word) { return to_float(word << 16); }
  static SYMM_DEVICE unsigned half(unsigned bits) {
    return (bits & 0x7FFFFFFFU) > 0x7F800000U ? 0x7FFFU
                                              : (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16;
  }
  // The instructions for two elements, here and below, need compute capability 8.0.
  static SYMM_DEVICE unsigned word(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    return both;
#else
    return half(to_bits(first)) | half(to_bits(second)) << 16;
#endif
  }
};
#ifdef __CUDACC__
struct f16 {
  static constexpr int kCount = 8;
  static SYMM_DEVICE float wide(unsigned word) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<unsigned short>(word)));
    return value;
  }
  static SYMM_DEVICE unsigned word(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    unsigned both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    return both;
#else
    unsigned short low;
    unsigned short high;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(low) : "f"(first));
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(high) : "f"(second));
    return low | static_cast<unsigned>(high) << 16;
#endif
  }
};
#endif

/** The elements of a pack as f32. [thread] */
template <class Type>
SYMM_DEVICE void widen(Pack pack, float (&wide)[Type::kCount]) {
  constexpr int kPerWord = Type::kCount / 4;
  const unsigned words[4] = {pack.x, pack.y, pack.z, pack.w};
  for (int i = 0; i < Type::kCount; ++i) {
    wide[i] = Type::wide(words[i / kPerWord] >> i % kPerWord * 16);
  }
}

/** A pack of elements that are f32, each rounded once, to nearest even. [thread] */
template <class Type>
SYMM_DEVICE Pack round(const float (&wide)[Type::kCount]) {
  constexpr int n = Type::kCount / 4;
  const auto word = [&](int i) { return Type::word(wide[i * n], wide[i * n + n - 1]); };
  return {word(0), word(1), word(2), word(3)};
}

// A word of all ones would look empty.
SYMM_DEVICE unsigned sendable(unsigned word) { return word == ~0U ? 0x7FFF7FFFU : word; }

SYMM_DEVICE Pack sendable(Pack v) {
  return {sendable(v.x), sendable(v.y), sendable(v.z), sendable(v.w)};
}

SYMM_DEVICE Pack complement(Pack v) { return {~v.x, ~v.y, ~v.z, ~v.w}; }

// Each word is looked at, because nothing promises that 16 bytes arrive together.
SYMM_DEVICE bool is_there(Pack v) { return v.x != 0 && v.y != 0 && v.z != 0 && v.w != 0; }

/**
 * Hand `mine` to every other rank as pack `q`.
 * [thread]
 *
 * Never waits.
 *
 * @param exchange  what the kernel was given.
 * @param q         number of the pack, less than Exchange::packs.
 * @param mine      the pack.
 */
SYMM_DEVICE void push(const Exchange &exchange, unsigned long long q, Pack mine) {
  const Memory &memory = exchange.memory;
  const unsigned turn = device::load_relaxed(turn_word(exchange, q));
  const Pack sent = complement(sendable(mine));
  for (int peer = memory.rank + 1; peer < memory.size; ++peer) {
    store_relaxed(cell(exchange, peer, turn, memory.rank, q), sent);
  }
  for (int peer = 0; peer < memory.rank; ++peer) {
    store_relaxed(cell(exchange, peer, turn, memory.rank, q), sent);
  }
}

/**
 * Wait for pack `q` of every rank and call each(rank, pack) for ranks 0, 1, 2, ...
 * [thread]
 *
 * If the wait fails, each() may have been called for some ranks.
 *
 * @param exchange  what the kernel was given.
 * @param q         number of the pack.
 * @param mine      the pack of this rank, which was pushed.
 * @param each      called with a rank and its pack.
 */
template <class Each>
SYMM_DEVICE Outcome take(const Exchange &exchange, unsigned long long q, Pack mine,
                         const Each &each) {
  // Packs that are asked for together and stay in registers.
  constexpr int kAtOnce = 8;
  const Memory &memory = exchange.memory;
  const unsigned turn = device::load_relaxed(turn_word(exchange, q));
  Patience patience;

  for (int first = 0; first < memory.size; first += kAtOnce) {
    Pack packs[kAtOnce];
    int missing = memory.rank;

    const auto from = [&](int i) { return cell(exchange, memory.rank, turn, first + i, q); };
    const auto comes = [&](int i) {
      return first + i < memory.size && first + i != memory.rank;
    };

    const Outcome outcome = await(memory, memory.rank, patience, [&] {
      missing = -1;
      for (int i = 0; i < kAtOnce; ++i) {
        if (comes(i)) packs[i] = load_relaxed(from(i));
      }
      for (int i = 0; i < kAtOnce; ++i) {
        if (comes(i) && !is_there(packs[i])) missing = first + i;
      }
      return missing < 0;
    });
    if (!outcome) return {missing << 8 | (outcome.code & 0xFF)};

    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i < memory.size) {
        each(first + i, comes(i) ? complement(packs[i]) : sendable(mine));
      }
    }
    for (int i = 0; i < kAtOnce; ++i) {
      if (comes(i)) store_relaxed(from(i), Pack{0, 0, 0, 0});
    }
  }

  device::store_relaxed(turn_word(exchange, q), turn + 1);
  return {0};
}

/**
 * Wait for pack `q` of every rank and add them, in f32 and not rounded, for what comes behind.
 * [thread]
 *
 * @param exchange  what the kernel was given.
 * @param q         number of the pack.
 * @param mine      the pack of this rank, which was pushed.
 * @param sum       receives the sums.
 */
template <class Type>
SYMM_DEVICE Outcome take_sum(const Exchange &exchange, unsigned long long q, Pack mine,
                             float (&sum)[Type::kCount]) {
  return take(exchange, q, mine, [&](int rank, Pack pack) {
    float wide[Type::kCount];
    widen<Type>(pack, wide);
    for (int i = 0; i < Type::kCount; ++i) {
      sum[i] = rank == 0 ? wide[i] : add(sum[i], wide[i]);
    }
  });
}

/**
 * Push a pack and take the sum, for a thread that has one pack.
 * [thread]
 *
 * @param exchange  what the kernel was given.
 * @param q         number of the pack.
 * @param pack      the pack of this rank; becomes the sum, rounded, if the wait did not fail.
 */
template <class Type>
SYMM_DEVICE Outcome all_reduce_sum(const Exchange &exchange, unsigned long long q, Pack &pack) {
  float sum[Type::kCount];
  push(exchange, q, pack);
  const Outcome outcome = take_sum<Type>(exchange, q, pack, sum);
  if (outcome) pack = round<Type>(sum);
  return outcome;
}

}  // namespace exchange
}  // namespace symm::device

#ifndef __CUDACC_RTC__
namespace symm {
inline namespace v0 {

/**
 * Scratch of an exchange. All kernels that were given it must have ended, on all ranks, before
 * it is destroyed.
 */
class Exchange {
 public:
  /**
   * Make scratch for messages of up to `bytes` bytes. [collective] [blocking] Throws
   * symm::Error.
   */
  Exchange(const Group &group, size_t bytes)
      : packs_((bytes + sizeof(symm::device::Pack) - 1) / sizeof(symm::device::Pack)),
        memory_(group.rendezvous(
            group.allocate(symm::device::exchange::scratch_bytes(group.size(), packs_)))) {}

  /**
   * What is passed to kernels, which wait as symm::device::describe() says. [local] Throws
   * symm::Error: UNAVAILABLE for a group of several machines, UNSUPPORTED for the host back
   * end.
   */
  symm::device::Exchange device(uint64_t timeout_ms = 0, const unsigned *stop = nullptr) const {
    symm::device::Exchange made = {};
    check(symm::device::describe(memory_.get(), timeout_ms, stop, &made.memory),
          "symm_memory_device_view");
    detail::require(made.memory.size <= made.kMaxRanks, "symm::Exchange",
                    "it has more than 72 ranks");
    made.packs = packs_;
    for (int rank = 0; rank < made.memory.size && rank < made.kNearRanks; ++rank) {
      made.scratch[rank] = memory_.span<char>(rank).data();
    }
    return made;
  }

 private:
  size_t packs_;
  Memory memory_;
};

}  // namespace v0
}  // namespace symm
#endif

#endif /* SYMM_EXCHANGE_CUH */
