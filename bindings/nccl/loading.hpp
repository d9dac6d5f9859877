// The NCCL that stands behind the drop-in: which file it is, and where its functions are.
#pragma once

#include <cstdint>
#include <string>

namespace symm::nccl {
struct Library {
  // Null if there is none.
  void* handle = nullptr;
  std::string file;
  // "2.27.3".
  std::string version;
  int version_code = 0;
  // Why there is none.
  std::string reason;
  // There is none, and symm serves by itself; `version` is the one that it says it has.
  bool is_alone = false;
  // The addresses of its code.
  uintptr_t code_begin = 0;
  uintptr_t code_end = 0;
};

// The real NCCL, which is searched for at the first call and never unloaded:
//  1. $SYMM_NCCL, where "none" stands for no NCCL at all;
//  2. the one that this process has already, since two copies of NCCL do not get on;
//  3. candidates(), see search.hpp.
// A file that is this library, or a copy of it, does not count. Where nothing is found, symm serves
// by itself (alone.hpp), but not behind a file that cannot be used, nor with SYMM_NCCL_MODE=off.
const Library& real_library();

// Whether this process has no NCCL, and symm serves by itself.
bool is_alone() noexcept;

// Whether this thread is inside of real_library(), which then must not be called: a constructor of
// a library that is being loaded has called NCCL's API. handle_being_loaded() is that library, or
// null if the loader does not give it yet.
bool is_loading() noexcept;
void* handle_being_loaded() noexcept;

// Whether `code` is code of the real NCCL. NCCL calls its own API by names that the dynamic loader
// looks up, so it reaches a drop-in that is preloaded or opened with RTLD_GLOBAL.
bool is_of_real(const void* code) noexcept;
}  // namespace symm::nccl

extern "C" {
// A program that opens "libnccl.so.2" and finds this symbol has the drop-in. The function
// returns the real library, as dlopen() does, or null.
__attribute__((visibility("default"))) void* symm_nccl_marker() noexcept;
}
