// The border between C++ and C. No exception passes it, and every failure leaves a message.
#pragma once

#include <cstddef>
#include <type_traits>

#include "core/base/error.hpp"
#include "core/base/process.hpp"
#include <symm/symm.h>

namespace symm::capi {
// Remembers the failure for symm_last_error() and symm_last_failure(), writes it to *sink too, and
// returns its status. Newlines become spaces: a message is one line.
symm_status_t fail(const Failure& failure, symm_failure_t* sink) noexcept;
// The struct of a failure, with SYMM_OK if there was none.
symm_failure_t struct_of(const Failure& failure) noexcept;
void require_sink(const symm_failure_t& sink, const char* argument);

// The largest valid struct_size. No struct grows so large, so a larger value was never set.
inline constexpr size_t kMostStruct = 4096;

// The place for the failure that the options of a call name; null if there is none. The
// options are not checked yet.
template <class Options>
symm_failure_t* sink_of(const Options* options) noexcept {
  if (options == nullptr || options->struct_size > kMostStruct) return nullptr;
  return options->struct_size >= offsetof(Options, failure) + sizeof(void*) ? options->failure
                                                                            : nullptr;
}

// The form of guard() for calls that take some ten nanoseconds. It does not keep the
// thread from being cancelled: code that such a call reaches and that has cancellation
// points disables cancellation itself. A look-up returns whether it has found something,
// so that a miss costs no exception.
template <class Options, class Function>
symm_status_t quick(const Options* options, Function&& function) noexcept {
  symm_failure_t* const sink = sink_of(options);

  try {
    if (sink != nullptr) {
      require_sink(*sink,
          std::is_same_v<Options, symm_group_config_t> ? "config.failure" : "options.failure");
    }

    if constexpr (std::is_same_v<decltype(function()), bool>) {
      if (!function()) return fail({Status::not_found, -1, 0, "not found"}, sink);
    } else {
      function();
    }
    return SYMM_OK;
  } catch (...) {
    return fail(current_failure(), sink);
  }
}
template <class Function>
symm_status_t quick(Function&& function) noexcept {
  return quick<symm_call_options_t>(nullptr, function);
}

// Calls `function` and turns what it throws into a status. The thread is not cancelled meanwhile.
template <class Options, class Function>
symm_status_t guard(const Options* options, Function&& function) noexcept {
  const process::Uncancelled whole;
  return quick(options, function);
}
template <class Function>
symm_status_t guard(Function&& function) noexcept {
  return guard<symm_call_options_t>(nullptr, function);
}

template <class T>
T& require(T* pointer, const char* argument) {
  if (pointer == nullptr) throw Error(Status::invalid_argument, format("%s: is NULL", argument));
  return *pointer;
}

// Writes what `make` returns to *out, which is checked before anything is done.
template <class Options, class T, class Make>
symm_status_t produce(const Options* options, T* out, const char* argument, Make&& make) noexcept {
  return guard(options, [&] {
    require(out, argument);
    *out = make();
  });
}
template <class T, class Make>
symm_status_t produce(T* out, const char* argument, Make&& make) noexcept {
  return produce<symm_call_options_t>(nullptr, out, argument, make);
}
}  // namespace symm::capi
