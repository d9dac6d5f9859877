// The sentence that says what went wrong last, for ncclGetLastError().
#pragma once

#include <string_view>

#include "bindings/nccl/abi.hpp"

namespace symm::nccl {
// Makes `sentence` the newest one of the process, for a call that returns `result`. A caller needs
// no memory for the call. That of a kRemoteError is the text of this result, too, until the next.
void say(std::string_view sentence, Result result) noexcept;
// The same without a line in the log, which has the sentence already.
void say_again(std::string_view sentence, Result result) noexcept;

// The newest sentence, "" before the first. Valid until this thread asks again.
const char* last_sentence() noexcept;
}  // namespace symm::nccl
