// A Failure as it travels between processes: in packets, in votes, in stores.
//    0  i32 status      4  i32 rank           8  i64 pid
//   16  i32 os_error   20  i32 cuda_result   24  text, to the end
#pragma once

#include "core/base/error.hpp"
#include "core/base/little_endian.hpp"

namespace symm {
inline constexpr size_t kFailureHeader = 24;
inline constexpr size_t kMaxFailureText = 512;

// Long text is cut, never through the middle of a character; control characters become blanks.
void encode(Writer& out, const Failure& failure, size_t most_text = kMaxFailureText);
// Takes all that `in` has. nullptr if it is exactly one valid failure, status ok included, else why not.
[[nodiscard]] const char* decode(Reader in, Failure& failure, size_t most_text = kMaxFailureText);
}  // namespace symm
