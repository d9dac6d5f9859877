// Stands in for the kernels' memory.cuh when they are compiled for the fake driver, with the same
// functions. A block has one thread, which is a thread of the host, and words are atomic.
#pragma once

#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <thread>

#include "kernels/cuda/args.hpp"

#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline, unused))
#define __grid_constant__
#define __launch_bounds__(...)
#define SYMM_SHARED(Type, name) static thread_local Type name

struct uint4 {
  uint32_t x;
  uint32_t y;
  uint32_t z;
  uint32_t w;
};
struct Index {
  unsigned x;
};

namespace symm::cuda::host_form {
inline thread_local Index block_index{0};
inline thread_local Index grid_size{1};
inline constexpr Index kThreadIndex{0};
inline constexpr Index kBlockSize{1};

// There are more blocks than processors, and each polls.
inline void let_others_run() {
  static thread_local unsigned looks = 0;
  if (++looks % 16 == 0) std::this_thread::yield();
}

template <class Word>
std::atomic_ref<Word> at(const Word* word) {
  return std::atomic_ref<Word>(*const_cast<Word*>(word));
}
}  // namespace symm::cuda::host_form

#define blockIdx (symm::cuda::host_form::block_index)
#define gridDim (symm::cuda::host_form::grid_size)
#define threadIdx (symm::cuda::host_form::kThreadIndex)
#define blockDim (symm::cuda::host_form::kBlockSize)

inline void __syncthreads() {}
inline int __syncthreads_and(bool yes) { return yes ? 1 : 0; }
inline uint32_t atomicCAS(uint32_t* word, uint32_t expected, uint32_t wanted) {
  symm::cuda::host_form::at(word).compare_exchange_strong(expected, wanted);
  return expected;
}

namespace symm::cuda {
template <class Word>
Word load_relaxed(const Word* from) {
  return host_form::at(from).load(std::memory_order_relaxed);
}
template <class Word>
void store_relaxed(Word* to, Word v) {
  host_form::at(to).store(v, std::memory_order_relaxed);
}
template <class Word>
Word load_acquire(const Word* from) {
  host_form::let_others_run();
  return host_form::at(from).load(std::memory_order_acquire);
}
template <class Word>
void store_release(Word* to, Word v) {
  host_form::at(to).store(v, std::memory_order_release);
}
template <class Word>
void add_release(Word* to, Word v) {
  host_form::at(to).fetch_add(v, std::memory_order_release);
}
template <class Word>
Word claim(Word* word) {
  return host_form::at(word).fetch_add(1, std::memory_order_acq_rel);
}
// What comes behind it releases by itself, and ThreadSanitizer knows no fences.
inline void fence_system() {}
inline uint64_t nanoseconds() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}
inline void begin() {}
inline void let_next_launch() {}

inline ControlWords& words_of(const DeviceComm& comm, int rank) {
  return *reinterpret_cast<ControlWords*>(comm.control[rank]);
}
}  // namespace symm::cuda
