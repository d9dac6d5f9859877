// SPDX-License-Identifier: Apache-2.0
//
// A table of calls that must be refused. A row says what is wrong with which parameter; the runner (refusal_test.cpp) checks the
// status, that the message names the parameter, and that no output was touched.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <deque>
#include <vector>

#include "symm/symm.h"

namespace symm_test {

inline constexpr symm_dtype_t kF32 = SYMM_DTYPE_F32;
inline constexpr symm_op_t kSum = SYMM_OP_SUM;
inline void* stream() {  // of some other library; the host back end has none
  static int somebody_elses;
  return &somebody_elses;
}

// A group of one rank with a buffer, a memory, an import of the buffer and a heap, and poisoned places for outputs.
class World {
 public:
  static constexpr size_t kBytes = 4096;  // of the block
  static constexpr size_t kToken = SYMM_IPC_TOKEN_MAX_SIZE;

  World();
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // A poisoned place for a T.
  template <class T>
  T* out() {
    return static_cast<T*>(poisoned(sizeof(T)));
  }
  // A poisoned struct but for its struct_size, which says `size` (and has room for more).
  template <class T>
  T* out_struct(size_t size = sizeof(T)) {
    void* place = poisoned(sizeof(T) + 64);
    std::memcpy(place, &size, sizeof size);
    std::memcpy(places_.back().before.data(), &size, sizeof size);
    return static_cast<T*>(place);
  }
  void* out_token() { return poisoned(kToken); }
  bool outputs_untouched() const;
  void forget_outputs() { places_.clear(); }

  symm_group_t* group = nullptr;
  symm_buffer_t* buffer = nullptr;
  symm_memory_t* memory = nullptr;
  symm_ipc_t* ipc = nullptr;
  symm_heap_t* heap = nullptr;
  void* piece = nullptr;  // all of the heap, which has kBytes
  std::byte* block = nullptr;
  std::array<std::byte, kToken + 1> token{};
  size_t token_size = 0;
  std::array<float, 64> source{};
  const size_t eight = 8, too_many = SIZE_MAX / 2;  // counts of a group of one rank
  float* destination();                             // 64 poisoned floats

 private:
  struct Place {
    alignas(64) std::array<std::byte, 2048> bytes;
    std::array<std::byte, 2048> before;
  };
  void* poisoned(size_t size);
  std::deque<Place> places_;
};

struct Refusal {
  const char* function;
  const char* parameter;
  const char* how;
  symm_status_t status;
  symm_status_t (*call)(World& w);
};

// A function called with any handle in place of `parameter`.
struct HandleUse {
  const char* function;
  const char* parameter;
  symm_status_t (*call)(World& w, void* handle);
};

// A parameter for which there is no bad value, and why.
struct Exemption {
  const char* function;  // nullptr: of every function
  const char* parameter;
  const char* reason;
};

const std::vector<Refusal>& library_refusals();
const std::vector<Refusal>& group_refusals();
const std::vector<Refusal>& ipc_refusals();
const std::vector<Refusal>& memory_refusals();
const std::vector<Refusal>& heap_refusals();
const std::vector<Refusal>& data_refusals();
const std::vector<Refusal>& collective_refusals();
const std::vector<HandleUse>& handle_uses();
const std::vector<Exemption>& exemptions();

// A struct that is cut short, and one of a newer header, which asks for something that this library has never heard of.
template <class T>
class WrongSize {
 public:
  explicit WrongSize(T defaults = {}) : small_(defaults), newer_{defaults, 1} {
    small_.struct_size = sizeof(size_t);
    newer_.known.struct_size = sizeof newer_;
  }
  const T* small() const { return &small_; }
  const T* newer() const { return &newer_.known; }

 private:
  struct Newer {
    T known;
    uint64_t appended;
  };
  T small_;
  Newer newer_;
};

}  // namespace symm_test

// The rows of symm_<kind>_options_init(). Every struct ends with a field of less than 9 bytes.
#define SYMM_REFUSE_INIT(kind)                                                                                          \
  SYMM_REFUSE(symm_##kind##_options_init, options, "NULL", INVALID_ARGUMENT, nullptr, sizeof(symm_##kind##_options_t)), \
      SYMM_REFUSE(symm_##kind##_options_init, struct_size, "0", INVALID_ARGUMENT, w.out<symm_##kind##_options_t>(), 0), \
      SYMM_REFUSE(symm_##kind##_options_init, struct_size, "short", INVALID_ARGUMENT, w.out<symm_##kind##_options_t>(), \
                  sizeof(symm_##kind##_options_t) - 8)

// One row: SYMM_REFUSE(symm_alloc, size, "0", INVALID_ARGUMENT, w.group, 0, nullptr, w.out<symm_buffer_t*>())
#define SYMM_REFUSE(function, parameter, how, status, ...)                                                               \
  {                                                                                                                      \
#function, #parameter, how, SYMM_ERR_##status, [](World & w) { return static_cast<void>(w), function(__VA_ARGS__); } \
  }
