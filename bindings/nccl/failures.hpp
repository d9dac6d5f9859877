// The sentence that says what went wrong last, for ncclGetLastError().
#pragma once

#include <string>

namespace symm::nccl {
// Makes `sentence` the newest one of the process.
void say(const std::string& sentence) noexcept;

// The newest sentence, "" before the first. Valid until this thread asks again.
const char* last_sentence() noexcept;
}  // namespace symm::nccl
