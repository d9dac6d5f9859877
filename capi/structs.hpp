// Copies structs that grow between releases. `first` is the size that the struct had in the
// release that introduced it. Callers built against any release since then are served.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "capi/guard.hpp"
#include "core/base/error.hpp"
#include "core/base/little_endian.hpp"
#include "symm/symm.h"

namespace symm::capi {
// The end of the last field that the struct had in its first release; sizeof would round it up.
#define SYMM_FIRST_SIZE(type, last_field) \
  (offsetof(type, last_field) + sizeof(type::last_field))  // NOLINT(bugprone-sizeof-expression)

inline void require_struct_size(size_t size, size_t first, const char* argument) {
  if (size > kMostStruct) {
    throw Error(
        Status::invalid_argument, format("%s: struct_size is %zu: it was not set", argument, size));
  }
  if (size < first) {
    throw Error(Status::invalid_argument,
        format("%s: struct_size is %zu, at least %zu is needed", argument, size, first));
  }
}

// Copies a caller's struct, if there is one, over `defaults`. Bytes that this library does not know
// must be zero.
template <class T>
T read_struct(const T* from, const T& defaults, size_t first, const char* argument) {
  if (from == nullptr) return defaults;
  require_struct_size(from->struct_size, first, argument);

  if (from->struct_size == sizeof(T)) return *from;

  T into = defaults;
  std::memcpy(&into, from, std::min(from->struct_size, sizeof(T)));
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (size_t i = sizeof(T); i < from->struct_size; ++i) {
    if (bytes[i] != 0) {
      throw Error(Status::unsupported,
          format("%s: byte %zu is set, but symm %d.%d knows only %zu bytes of this struct",
              argument, i, SYMM_VERSION_MAJOR, SYMM_VERSION_MINOR, sizeof(T)));
    }
  }
  into.struct_size = sizeof(T);
  return into;
}

// Calls each(i, struct) for an array of structs of one struct_size, which may be that of another
// release.
template <class T, class Each>
void read_structs(const T* array, size_t count, const T& defaults, size_t first,
    const char* argument, const Each& each) {
  if (count == 0) return;
  const size_t step = require(array, argument).struct_size;
  require_struct_size(step, first, argument);

  for (size_t i = 0; i < count; ++i) {
    const auto& at = *reinterpret_cast<const T*>(reinterpret_cast<const char*>(array) + i * step);
    if (at.struct_size != step) {
      throw Error(Status::invalid_argument, format("%s: they differ in struct_size", argument));
    }
    each(i, read_struct(&at, defaults, first, argument));
  }
}

// Writes to a caller's struct as much as it holds. Bytes that it has beyond ours become zero.
template <class T>
void write_struct(const T& from, T* to) {
  const size_t size = to->struct_size;
  T copy = from;
  copy.struct_size = size;
  std::memcpy(to, &copy, std::min(size, sizeof(T)));
  if (size > sizeof(T)) {
    std::memset(reinterpret_cast<unsigned char*>(to) + sizeof(T), 0, size - sizeof(T));
  }
}

// For each struct of options: its defaults, which are zero except for its size, its size in its
// first release, and its name in messages.
template <class T>
struct OptionsOf;
template <class T>
T read_options(const T* from) {
  return read_struct(from, OptionsOf<T>::kDefaults, OptionsOf<T>::kFirst, OptionsOf<T>::kArgument);
}
#define SYMM_OPTIONS(name, argument, last_field, ...)                       \
  template <>                                                               \
  struct symm::capi::OptionsOf<name##_t> {                                  \
    static constexpr name##_t kDefaults = __VA_ARGS__;                      \
    static constexpr size_t kFirst = SYMM_FIRST_SIZE(name##_t, last_field); \
    static constexpr const char* kArgument = #argument;                     \
  };

// Writes what `fill` returns to a caller's struct, which is checked before anything is done.
template <class Options, class T, class Fill>
symm_status_t fill_struct(const Options* options, T* out, size_t first, Fill&& fill) noexcept {
  return guard(options, [&] {
    require_struct_size(require(out, "out").struct_size, first, "out");
    write_struct<T>(fill(), out);
  });
}
template <class T, class Fill>
symm_status_t fill_struct(T* out, size_t first, Fill&& fill) noexcept {
  return fill_struct<symm_call_options_t>(nullptr, out, first, fill);
}

// Refuses bits that this library does not know, but a newer one may.
inline void require_known_bits(uint64_t flags, uint64_t known, const char* argument) {
  if ((flags & ~known) == 0) return;
  throw Error(Status::unsupported, format("%s: symm %d.%d does not know 0x%lx", argument,
                                       SYMM_VERSION_MAJOR, SYMM_VERSION_MINOR, flags & ~known));
}

// Refuses a field that has a meaning only with a flag if the flag is not given.
inline void require_with_flag(
    bool given, uint64_t value, const char* argument, const char* flag_name) {
  if (given || value == 0) return;
  throw Error(Status::invalid_argument,
      format("%s: %ld goes with %s only", argument, static_cast<long>(value), flag_name));
}
}  // namespace symm::capi
