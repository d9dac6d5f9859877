// The one error type. core throws it; capi turns it into a status and a message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "core/base/little_endian.hpp"

// X(the name here, the end of its name in symm.h, its value there, its text). capi/library.cpp
// asserts that the values are equal.
#define SYMM_STATUSES(X)                                            \
  X(ok, OK, 0, "success")                                           \
  X(invalid_argument, ERR_INVALID_ARGUMENT, -1, "invalid argument") \
  X(invalid_handle, ERR_INVALID_HANDLE, -2, "invalid handle")       \
  X(out_of_memory, ERR_OUT_OF_MEMORY, -3, "out of memory")          \
  X(unavailable, ERR_UNAVAILABLE, -4, "unavailable")                \
  X(unsupported, ERR_UNSUPPORTED, -5, "unsupported")                \
  X(timeout, ERR_TIMEOUT, -6, "timed out")                          \
  X(aborted, ERR_ABORTED, -7, "aborted")                            \
  X(peer_failed, ERR_PEER_FAILED, -8, "peer failed")                \
  X(mismatch, ERR_MISMATCH, -9, "ranks disagree")                   \
  X(system, ERR_SYSTEM, -10, "system call failed")                  \
  X(cuda, ERR_CUDA, -11, "CUDA driver call failed")                 \
  X(internal, ERR_INTERNAL, -13, "internal error")                  \
  X(not_found, ERR_NOT_FOUND, -14, "not found")

namespace symm {
#define SYMM_ENUMERATOR(name, c_name, value, text) \
  name = value,  // NOLINT(bugprone-macro-parentheses)
enum class Status : int32_t { SYMM_STATUSES(SYMM_ENUMERATOR) };
#undef SYMM_ENUMERATOR

// A failure: what went wrong and, if a rank is to blame, which rank.
struct Failure {
  Status status = Status::ok;
  int rank = -1;
  int64_t pid = 0;
  std::string message;
  int32_t os_error = 0;     // errno of the system call that failed, 0 if it was none
  int32_t cuda_result = 0;  // CUresult of the driver call that failed, 0 if it was none
  uint64_t when_ns = 0;     // by the clock of the rank that noticed it; 0: unknown
};

class Error : public std::exception {
 public:
  Error(Status status, std::string message) : failure_{status, -1, 0, std::move(message), 0, 0} {}
  explicit Error(Failure failure) : failure_(std::move(failure)) {}
  const char* what() const noexcept override { return failure_.message.c_str(); }
  Status status() const noexcept { return failure_.status; }
  const Failure& failure() const noexcept { return failure_; }

 private:
  Failure failure_;
};

// The exception being handled, as a Failure; to be called in a catch block. It is used at every
// border at which an exception becomes a value.
Failure current_failure() noexcept;

// Makes a failure that names no rank that of the given one: its message becomes "rank 3 (pid 4711):
// ...", or "rank 3 of <place> (pid 4711): ...".
Failure blamed(Failure failure, int rank, int64_t pid, const char* place = nullptr);

// "timed out"; "unknown status" for a value of a newer library
const char* status_text(Status status) noexcept;

// Formats as printf() does, so that messages are written where the facts are.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

// An Error for a value of one of symm.h's enumerations that this library does not know, and a newer
// one may.
Error not_known(const char* argument, int value);

// An Error for a failed system call: "memfd_create: Too many open files (errno 24)". `what` may add
// detail. ENOMEM, ENOSPC and EDQUOT become out_of_memory, everything else system.
Error system_error(int error_number, const char* call, const std::string& what = {});

#if defined(SYMM_POINTS)
// A place at which tests make a process fail, stop or die. tests/points says what each leads to.
// Only a build for these tests has such places.
#define SYMM_POINT(name) ::symm::at_point("point:" name)
// The test defines it, and returns the errno that is met at the place, or 0.
extern "C" [[gnu::weak]] int symm_at_point(const char* name);
inline void at_point(const char* name) {
  if (symm_at_point == nullptr) return;
  if (const int error = symm_at_point(name)) throw system_error(error, name);
}
#else
#define SYMM_POINT(name) static_cast<void>(0)
#endif

// A Failure as it travels between processes: in packets, in votes, in stores.
//    0  i32 status      4  i32 rank           8  i64 pid
//   16  i32 os_error   20  i32 cuda_result   24  text, to the end
inline constexpr size_t kFailureHeader = 24;
inline constexpr size_t kMaxFailureText = 512;

// Long text is cut, but not within a character. Control characters become blanks.
void encode(Writer& out, const Failure& failure, size_t most_text = kMaxFailureText);
// Reads all that `in` has. Returns nullptr if it is exactly one valid failure, status ok included,
// and else why it is not.
[[nodiscard]] const char* decode(Reader in, Failure& failure, size_t most_text = kMaxFailureText);
}  // namespace symm
