// Accesses of kernels to memory that other ranks touch too; and packs, the 16 bytes
// that one thread moves at a time.
#pragma once

#include <cstdint>

#include "kernels/cuda/args.hpp"
#include "kernels/cuda/begin.cuh"

// A variable that the threads of a block share.
#define SYMM_SHARED(Type, name) __shared__ Type name

namespace symm::cuda {
// ---- relaxed: neither cached in L1 nor torn within a word

// Nothing is promised about the four words together.
__device__ __forceinline__ uint4 load_relaxed(const uint4* from) {
  uint4 v;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(from)
      : "memory");
  return v;
}

__device__ __forceinline__ void store_relaxed(uint4* to, uint4 v) {
  asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x), "r"(v.y),
      "r"(v.z), "r"(v.w)
      : "memory");
}

// Two words of 64 bits, {x, y} and {z, w}, neither of which is torn.
__device__ __forceinline__ uint4 load_pairs(const uint4* from) {
  uint64_t low;
  uint64_t high;
  asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
      : "=l"(low), "=l"(high)
      : "l"(from)
      : "memory");
  return {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
      static_cast<uint32_t>(high >> 32)};
}

__device__ __forceinline__ void store_pairs(uint4* to, uint4 v) {
  const uint64_t low = static_cast<uint64_t>(v.y) << 32 | v.x;
  const uint64_t high = static_cast<uint64_t>(v.w) << 32 | v.z;
  asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(to), "l"(low), "l"(high)
      : "memory");
}

__device__ __forceinline__ uint32_t load_relaxed(const uint32_t* from) {
  uint32_t v;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(from) : "memory");
  return v;
}

__device__ __forceinline__ void store_relaxed(uint32_t* to, uint32_t v) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(to), "r"(v) : "memory");
}

__device__ __forceinline__ void store_relaxed(uint64_t* to, uint64_t v) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(to), "l"(v) : "memory");
}

__device__ __forceinline__ uint64_t load_relaxed(const uint64_t* from) {
  uint64_t v;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(from) : "memory");
  return v;
}

// ---- release: whoever acquires the value sees what this thread, and those that it met at a
// block barrier, did before

__device__ __forceinline__ void store_release(uint32_t* to, uint32_t v) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to), "r"(v) : "memory");
}

// Additions, by which several streams may write one word.
__device__ __forceinline__ void add_release(uint32_t* to, uint32_t v) {
  asm volatile("red.release.sys.global.add.u32 [%0], %1;" ::"l"(to), "r"(v) : "memory");
}

__device__ __forceinline__ void add_release(uint64_t* to, uint64_t v) {
  asm volatile("red.release.sys.global.add.u64 [%0], %1;" ::"l"(to), "l"(v) : "memory");
}

__device__ __forceinline__ void store_release(uint64_t* to, uint64_t v) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(to), "l"(v) : "memory");
}

// ---- changes in one step, which return what the word was: release for what this
// thread did before, and acquire for what it does after

#define SYMM_CHANGES(Word, name, letter)                                          \
  __device__ __forceinline__ Word change_acq_rel(                                 \
      Word* word, AtomicOp op, Word value, Word compare) {                        \
    Word before = 0;                                                              \
    switch (op) {                                                                 \
      case AtomicOp::fetch: /* an addition of 0, since a load releases nothing */ \
      case AtomicOp::add: SYMM_CHANGE(add.u##name, letter, value); break;         \
      case AtomicOp::band: SYMM_CHANGE(and.b##name, letter, value); break;        \
      case AtomicOp::bor: SYMM_CHANGE(or.b##name, letter, value); break;          \
      case AtomicOp::bxor: SYMM_CHANGE(xor.b##name, letter, value); break;        \
      case AtomicOp::swap: SYMM_CHANGE(exch.b##name, letter, value); break;       \
      case AtomicOp::compare_swap:                                                \
        asm volatile("atom.acq_rel.sys.global.cas.b" #name " %0, [%1], %2, %3;"   \
            : "=" letter(before)                                                  \
            : "l"(word), letter(compare), letter(value)                           \
            : "memory");                                                          \
        break;                                                                    \
    }                                                                             \
    return before;                                                                \
  }
#define SYMM_CHANGE(operation, letter, value)                         \
  asm volatile("atom.acq_rel.sys.global." #operation " %0, [%1], %2;" \
      : "=" letter(before)                                            \
      : "l"(word), letter(value)                                      \
      : "memory")
SYMM_CHANGES(uint32_t, 32, "r")
SYMM_CHANGES(uint64_t, 64, "l")
#undef SYMM_CHANGE
#undef SYMM_CHANGES

// Adds one to a word of this rank in which its other kernels count too. Returns the value before.
__device__ __forceinline__ uint32_t claim(uint32_t* word) {
  uint32_t before;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;"
      : "=r"(before)
      : "l"(word)
      : "memory");
  return before;
}

__device__ __forceinline__ uint64_t claim(uint64_t* word) {
  uint64_t before;
  asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], 1;"
      : "=l"(before)
      : "l"(word)
      : "memory");
  return before;
}

// ---- acquire: what was released before the value that is read is seen by what this thread, and
// those that it meets at a block barrier, do after

// Unlike a fence this does not wait for the multiprocessor's own stores.
__device__ __forceinline__ uint32_t load_acquire(const uint32_t* from) {
  uint32_t v;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(from) : "memory");
  return v;
}

__device__ __forceinline__ uint64_t load_acquire(const uint64_t* from) {
  uint64_t v;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(from) : "memory");
  return v;
}

// Orders what this thread, and those that it met at a block barrier, did before against what it
// does after, on all GPUs and the host.
__device__ __forceinline__ void fence_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

__device__ __forceinline__ uint64_t nanoseconds() {
  uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)::"memory");
  return now;
}

// ---- packs

// The last `bytes` bytes of a message, as the first bytes of a pack filled up with zeros. Not
// inlined: it is for ends, and for addresses that are not a multiple of 16.
static __device__ __noinline__ uint4 load_bytes(const char* from, uint32_t bytes) {
  uint32_t word[4] = {0, 0, 0, 0};
#pragma unroll
  for (uint32_t i = 0; i < kPack; ++i) {
    if (i < bytes) {
      word[i / 4] |= static_cast<uint32_t>(static_cast<unsigned char>(from[i])) << (i % 4 * 8);
    }
  }
  return {word[0], word[1], word[2], word[3]};
}

static __device__ __noinline__ void store_bytes(char* to, uint32_t bytes, uint4 v) {
  const uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (uint32_t i = 0; i < kPack; ++i) {
    if (i < bytes) to[i] = static_cast<char>(word[i / 4] >> (i % 4 * 8));
  }
}

__device__ __forceinline__ void prefetch(const void* from) {
  asm volatile("prefetch.global.L1 [%0];" ::"l"(from));
}

__device__ __forceinline__ bool is_aligned(const void* address) {
  return (reinterpret_cast<uintptr_t>(address) & (kPack - 1)) == 0;
}

// Pack `q` of a message of `bytes` bytes, where q * 16 < bytes. Size is uint32_t where that holds
// them, to spare registers.
template <class Size>
__device__ __forceinline__ uint4 load_pack(const char* message, Size bytes, Size q) {
  const char* from = message + q * kPack;
  const Size left = bytes - q * kPack;
  if (is_aligned(from) && left >= kPack) return *reinterpret_cast<const uint4*>(from);
  return load_bytes(from, left < kPack ? static_cast<uint32_t>(left) : kPack);
}

template <class Size>
__device__ __forceinline__ void store_pack(char* message, Size bytes, Size q, uint4 v) {
  char* to = message + q * kPack;
  const Size left = bytes - q * kPack;
  if (is_aligned(to) && left >= kPack) {
    *reinterpret_cast<uint4*>(to) = v;
  } else {
    store_bytes(to, left < kPack ? static_cast<uint32_t>(left) : kPack, v);
  }
}

template <class Size>
__device__ __forceinline__ Size packs_of(Size bytes) {
  return (bytes + kPack - 1) / kPack;
}

__device__ __forceinline__ ControlWords& words_of(const DeviceComm& comm, int rank) {
  return *reinterpret_cast<ControlWords*>(comm.control[rank]);
}
}  // namespace symm::cuda
