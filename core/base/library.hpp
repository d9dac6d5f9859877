// Libraries that are found at run time.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <string>

#include "core/base/error.hpp"
#include "core/base/process.hpp"

// A struct that holds a library's calls has one member for each X(name, result, parameters) of a
// list. SYMM_LIBRARY_CALL declares the member, SYMM_LIBRARY_FIND looks it up: `found` is the
// library, `where` its name in messages, and unavailable() throws.
#define SYMM_LIBRARY_CALL(call, result, parameters) \
  result(*call) parameters = nullptr;  // NOLINT(bugprone-macro-parentheses)
#define SYMM_LIBRARY_FIND(call, result, parameters)                         \
  this->call = reinterpret_cast<decltype(this->call)>(dlsym(found, #call)); \
  if (this->call == nullptr) unavailable(where + " has no " #call);

namespace symm {
// Finds a library, which then stays loaded. The first of these counts:
//  1. the copy of `soname` that the process has;
//  2. `named`, if that is not empty;
//  3. the file in `folder` of the Python packages beside which this library lies, if `folder` is
//     not null;
//  4. what the loader finds.
// Returns null if it cannot be loaded; `why` says why.
void* find_library(
    const std::string& soname, const std::string& named, const char* folder, std::string& why);

// The only instance of a library in the process, which is never unloaded: the library's threads
// survive neither an unload nor a fork. `Library` has a member `name`.
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
