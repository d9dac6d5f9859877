// Stands in for the kernels' memory.cuh when they are compiled for the host, with the same
// functions. Every access to memory that ranks share goes to the model (world.hpp), where another
// thread may go on.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/args.hpp"
#include "kernels/host/words.hpp"

#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline, unused))
#define __grid_constant__
#define __launch_bounds__(...)
#define SYMM_SHARED(Type, name) \
  Type& name = *static_cast<Type*>(symm::cuda::model::shared(sizeof(Type)))

struct uint4 {
  uint32_t x;
  uint32_t y;
  uint32_t z;
  uint32_t w;
};
struct uint2 {
  uint32_t x;
  uint32_t y;
};
struct Index {
  unsigned x;
};

namespace symm::cuda::model {
// Indices of the thread that is running.
inline Index block_index;
inline Index thread_index;
inline Index grid_size;
inline Index block_size;

// Eight bytes, which come into view together: the kernels take that of a GPU for granted.
struct Pair {
  uint32_t first;
  uint32_t second;
};
uint32_t load(const uint32_t* from);
Pair load_pair(const uint32_t* from);
void store(uint32_t* to, uint32_t value);
void store_pair(uint32_t* to, Pair values);
void add(uint32_t* to, uint32_t value);
void add(uint64_t* to, uint64_t value);
uint32_t claim(uint32_t* word);
uint64_t claim(uint64_t* word);
void fence();
// All threads of a block meet. Returns whether all say yes.
bool meet(bool yes);
// Exchanges a number with the thread whose index differs in the bits `with`.
float exchange(float mine, unsigned with);
uint64_t now();
// Shared memory of the block that is running. A kernel has at most one object of each size.
void* shared(size_t bytes);
}  // namespace symm::cuda::model

#define blockIdx (symm::cuda::model::block_index)
#define threadIdx (symm::cuda::model::thread_index)
#define gridDim (symm::cuda::model::grid_size)
#define blockDim (symm::cuda::model::block_size)

inline void __syncthreads() { symm::cuda::model::meet(true); }
inline int __syncthreads_and(bool yes) { return symm::cuda::model::meet(yes) ? 1 : 0; }
// Blocks of the model have one warp.
inline void __syncwarp() { symm::cuda::model::meet(true); }
inline int __any_sync(unsigned, bool mine) { return symm::cuda::model::meet(!mine) ? 0 : 1; }
inline float __shfl_xor_sync(unsigned, float mine, int with) {
  return symm::cuda::model::exchange(mine, static_cast<unsigned>(with));
}
template <class Pack>
Pack __ldcs(const Pack* from) {
  return *from;
}
template <class Pack>
void __stcs(Pack* to, Pack v) {
  *to = v;
}
inline int __ffs(int word) {
  return word == 0 ? 0 : std::countr_zero(static_cast<unsigned>(word)) + 1;
}
// No other thread goes on in between, so that this is atomic.
inline uint32_t atomicCAS(uint32_t* word, uint32_t expected, uint32_t wanted) {
  const uint32_t seen = *word;
  if (seen == expected) *word = wanted;
  return seen;
}

namespace symm::cuda {
inline uint32_t load_relaxed(const uint32_t* from) { return model::load(from); }
inline void store_relaxed(uint32_t* to, uint32_t v) { model::store(to, v); }
inline uint64_t load_relaxed(const uint64_t* from) {
  const model::Pair pair = model::load_pair(reinterpret_cast<const uint32_t*>(from));
  return std::bit_cast<uint64_t>(pair);
}
inline void store_relaxed(uint64_t* to, uint64_t v) {
  model::store_pair(reinterpret_cast<uint32_t*>(to), std::bit_cast<model::Pair>(v));
}
// A pack is torn into its four words, which come into view in any order.
inline uint4 load_relaxed(const uint4* from) {
  return {
      model::load(&from->x), model::load(&from->y), model::load(&from->z), model::load(&from->w)};
}
inline void store_relaxed(uint4* to, uint4 v) {
  model::store(&to->x, v.x);
  model::store(&to->y, v.y);
  model::store(&to->z, v.z);
  model::store(&to->w, v.w);
}
inline uint4 load_pairs(const uint4* from) {
  const model::Pair low = model::load_pair(&from->x);
  const model::Pair high = model::load_pair(&from->z);
  return {low.first, low.second, high.first, high.second};
}
inline void store_pairs(uint4* to, uint4 v) {
  model::store_pair(&to->x, {v.x, v.y});
  model::store_pair(&to->z, {v.z, v.w});
}
inline void fence_system() { model::fence(); }
template <class Word>
void store_release(Word* to, Word v) {
  model::fence();
  store_relaxed(to, v);
}
template <class Word>
void add_release(Word* to, Word v) {
  model::fence();
  model::add(to, v);
}
// No other thread goes on in between, so that this is atomic.
template <class Word>
Word change_acq_rel(Word* word, AtomicOp op, Word value, Word compare) {
  model::fence();
  return symm::change(*reinterpret_cast<std::atomic<Word>*>(word), op, value, compare);
}
using model::claim;
template <class Word>
Word load_acquire(const Word* from) {
  const Word seen = load_relaxed(from);
  model::fence();
  return seen;
}
inline uint64_t nanoseconds() { return model::now(); }
// A kernel of the model starts when the one ahead has ended.
inline void begin() {}
inline void let_next_launch() {}

template <class Size>
Size packs_of(Size bytes) {
  return (bytes + kPack - 1) / kPack;
}
inline void prefetch(const void*) {}
inline bool is_aligned(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % kPack == 0;
}
inline uint64_t bytes_of_pack(uint64_t bytes, uint64_t q) {
  return std::min<uint64_t>(kPack, bytes - q * kPack);
}
template <class Size>
uint4 load_pack(const char* message, Size bytes, Size q) {
  uint4 v{};
  std::memcpy(&v, message + q * kPack, bytes_of_pack(bytes, q));
  return v;
}
template <class Size>
void store_pack(char* message, Size bytes, Size q, uint4 v) {
  std::memcpy(message + q * kPack, &v, bytes_of_pack(bytes, q));
}

inline ControlWords& words_of(const DeviceComm& comm, int rank) {
  return *reinterpret_cast<ControlWords*>(comm.control[rank]);
}
}  // namespace symm::cuda
