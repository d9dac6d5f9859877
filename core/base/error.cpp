// Turns exceptions into failures, and failures into texts and into bytes that travel.
#include "core/base/error.hpp"

#include <string.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "core/base/interrupt.hpp"
#include "core/base/little_endian.hpp"
#include "core/base/reserve.hpp"
#include "core/base/text.hpp"

namespace symm {
Failure current_failure() noexcept {
  try {
    try {
      throw;  // the exception that the caller's catch block is handling
    } catch (const Error& error) {
      return interrupt::told(error.failure());
    } catch (const std::bad_alloc&) {
      return {Status::out_of_memory, -1, 0, "out of host memory"};
    } catch (const std::exception& error) {
      return {Status::internal, -1, 0, error.what()};
    } catch (...) {
      return {Status::internal, -1, 0, "unknown C++ exception"};
    }
  } catch (...) {
    // The text is so short that the string needs no memory of its own.
    return {Status::out_of_memory, -1, 0, "out of memory"};
  }
}

Failure blamed(Failure failure, int rank, int64_t pid, const char* place) {
  if (failure.rank >= 0) return failure;
  failure.message = with_reserve([&] {
    return format("rank %d%s%s (pid %ld): %s", rank, place != nullptr ? " of " : "",
        place != nullptr ? place : "", pid, failure.message.c_str());
  });
  failure.rank = rank;
  failure.pid = pid;
  return failure;
}

const char* status_text(Status status) noexcept {
#define SYMM_TEXT(name, c_name, value, text) \
  case Status::name: return text;
  switch (status) { SYMM_STATUSES(SYMM_TEXT) }
#undef SYMM_TEXT
  return "unknown status";
}

std::string format(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  va_list again;
  va_copy(again, arguments);

  const int length = std::vsnprintf(nullptr, 0, pattern, arguments);
  va_end(arguments);

  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  if (length > 0) std::vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(again);
  return text;
}

Error not_known(const char* argument, int value) {
  if (value < 0) return {Status::invalid_argument, format("%s: %d is negative", argument, value)};
  return {Status::unsupported, format("%s: %d is not known to this library", argument, value)};
}

Error system_error(int error_number, const char* call, const std::string& what) {
  // The name of the error is left out: strerrorname_np() is younger than the oldest glibc that we
  // run on, and the text alone is clear enough.
  char buffer[128];
  const char* text = strerror_r(error_number, buffer, sizeof buffer);
  const bool memory = error_number == ENOMEM || error_number == ENOSPC || error_number == EDQUOT;
  std::string message = format("%s: %s (errno %d)", call, text, error_number);
  if (error_number == EMFILE) message += "; ulimit -n 4096 allows more";
  if (error_number == EFBIG) message += ", by the limit on file sizes (RLIMIT_FSIZE)";
  if (!what.empty()) message += ": " + what;
  return Error({memory ? Status::out_of_memory : Status::system, -1, 0, std::move(message),
      error_number, 0});
}

void encode(Writer& out, const Failure& failure, size_t most_text) {
  const std::string text =
      printable(failure.message.substr(0, length_within(most_text, failure.message)));
  out.numbers(failure.status, failure.rank, std::max<int64_t>(failure.pid, 0),
      std::max(failure.os_error, 0), std::max(failure.cuda_result, 0));
  out.text(text);
}

const char* decode(Reader in, Failure& failure, size_t most_text) {
  constexpr int32_t kLowestStatus = -64;  // room for the statuses of newer libraries
  if (in.left() < kFailureHeader || in.left() > kFailureHeader + most_text) {
    return "failure of wrong length";
  }
  in.numbers(failure.status, failure.rank, failure.pid, failure.os_error, failure.cuda_result);
  failure.message = in.text(in.left());

  const auto status = static_cast<int32_t>(failure.status);
  if (status > 0 || status < kLowestStatus) return "failure with an impossible status";
  if (failure.rank < -1) return "failure with an impossible rank";
  if (failure.pid < 0) return "failure with an impossible pid";
  if (failure.os_error < 0 || failure.cuda_result < 0) {
    return "failure with an impossible error number";
  }
  return is_clean(failure.message) ? nullptr : "failure with control characters";
}
}  // namespace symm
