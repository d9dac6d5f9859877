// Ranges for profilers (Nsight Systems), in the domain "symm". There are none without a profiler,
// or if the library was built without NVTX's headers.
#pragma once

#include <cstdint>

namespace symm::nvtx {
// Whether this process was started under a profiler.
bool is_there() noexcept;
// Pushes a range on the calling thread's stack of ranges; `bytes` is its payload.
void push(const char* text, uint64_t bytes) noexcept;
void pop() noexcept;
}  // namespace symm::nvtx
