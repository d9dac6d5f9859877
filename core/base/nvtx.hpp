// Ranges for profilers (Nsight Systems), in the domain "symm". Where no profiler is, or
// the library was built without NVTX's headers, there are none.
#pragma once

#include <cstdint>

namespace symm::nvtx {
bool is_there() noexcept;  // a profiler: of this process, from its beginning
// On the calling thread's stack of ranges; `bytes` is its payload.
void push(const char* text, uint64_t bytes) noexcept;
void pop() noexcept;
}  // namespace symm::nvtx
