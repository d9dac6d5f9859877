// SPDX-License-Identifier: Apache-2.0
//
// The one error type. core throws it; capi turns it into a status and a message.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace symm {

// Values are those of symm.h; capi/library.cpp asserts that they stay equal.
enum class Status : int32_t {
  ok = 0,
  invalid_argument = -1,
  invalid_handle = -2,
  out_of_memory = -3,
  unavailable = -4,
  unsupported = -5,
  timeout = -6,
  aborted = -7,
  peer_failed = -8,
  mismatch = -9,
  system = -10,
  cuda = -11,
  busy = -12,
  internal = -13,
};

// What went wrong and, where a rank is to blame, which.
struct Failure {
  Status status = Status::ok;
  int rank = -1;
  int64_t pid = 0;
  std::string message;
};

class Error : public std::exception {
 public:
  Error(Status status, std::string message) : failure_{status, -1, 0, std::move(message)} {}
  explicit Error(Failure failure) : failure_(std::move(failure)) {}
  const char* what() const noexcept override { return failure_.message.c_str(); }
  Status status() const noexcept { return failure_.status; }
  const Failure& failure() const noexcept { return failure_; }

 private:
  Failure failure_;
};

// What the exception being handled says; call it in a catch block. Every border at which an exception becomes a value uses it.
Failure current_failure() noexcept;

const char* name_of(Status status) noexcept;  // "timed out"; "unknown status" for a value of a newer library

// printf-style, so that messages are written where the facts are.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

// An Error for a failed system call: "memfd_create: Too many open files (EMFILE)". `what` may add detail. ENOMEM, ENOSPC and
// EDQUOT become out_of_memory, everything else system.
Error system_error(int error_number, const char* call, const std::string& what = {});

}  // namespace symm
