// Libraries that are found at run time.
#pragma once

#include <dlfcn.h>

#include "core/base/error.hpp"
#include "core/base/process.hpp"

// Members of what holds a library's calls, one for each X(name, result, parameters) of
// a list, and where they are found: `found` is the library, `where` what it is called
// in messages, and unavailable() throws.
#define SYMM_LIBRARY_CALL(call, result, parameters) \
  result(*call) parameters = nullptr;  // NOLINT(bugprone-macro-parentheses)
#define SYMM_LIBRARY_FIND(call, result, parameters)                         \
  this->call = reinterpret_cast<decltype(this->call)>(dlsym(found, #call)); \
  if (this->call == nullptr) unavailable(where + " has no " #call);

namespace symm {
// The copy of `soname` that the process has, else `named` if that is not empty, else
// the one in `folder` of the Python packages beside which this library lies, if not
// null, else the loader's; it stays loaded. Null, and `why`.
void* find_library(
    const std::string& soname, const std::string& named, const char* folder, std::string& why);

// The process's only one, for good: its threads survive
// neither an unload nor a fork. It has a `name`.
template <class Library>
const Library& only_library() {
  struct Loaded : Library {
    uint32_t forks = process::fork_generation();
  };
  static const auto* const loaded = new Loaded;
  if (loaded->forks != process::fork_generation()) {
    throw Error(Status::unavailable,
        loaded->name +
            " was loaded before this process was forked, and does not work in the child");
  }
  return *loaded;
}
}  // namespace symm
