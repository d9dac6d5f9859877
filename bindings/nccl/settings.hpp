// The variables of the drop-in, and its log.
#pragma once

namespace symm::nccl {
// A variable's value; null if it is unset or empty, or if the process runs for another user.
const char* variable(const char* name) noexcept;

// Whether communicators are watched: not with SYMM_NCCL_MODE=off.
bool watching() noexcept;

// Writes a line to what SYMM_NCCL_LOG names: stderr, or a file, to which it is appended. Without
// that variable nothing is written.
__attribute__((format(printf, 1, 2))) void log(const char* format, ...) noexcept;
}  // namespace symm::nccl
