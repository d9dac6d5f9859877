// The sentence that says what went wrong last, for ncclGetLastError().
#pragma once

#include <string_view>

namespace symm::nccl {
// Makes `sentence` the newest one of the process. A caller needs no memory for the call.
void say(std::string_view sentence) noexcept;
// The same without a line in the log, which has the sentence already.
void say_again(std::string_view sentence) noexcept;

// The newest sentence, "" before the first. Valid until this thread asks again.
const char* last_sentence() noexcept;
}  // namespace symm::nccl
