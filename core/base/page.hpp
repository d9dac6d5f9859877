// What a rank shows of itself to other programs of its user: capi/include/symm/page.h
// says what is in it, and how it is found.
#pragma once

#include <atomic>
#include <span>
#include <string>

#include "core/base/peer_fd.hpp"
#include <symm/page.h>

namespace symm {
uint64_t now_ns() noexcept;  // CLOCK_MONOTONIC, of all times that are told to others

class Page;

// A call by which ranks communicate, or a sleep in one, noted for symm run --trace and
// for a profiler while this lives, if on().
class Trace {
 public:
  static std::atomic<bool> wanted;
  static bool on() noexcept { return wanted.load(std::memory_order_relaxed); }
  Trace() = default;  // of nothing before begin()
  Trace(const Page* page, const char* name, int peer = -1, uint64_t bytes = 0) noexcept {
    if (on()) begin(page, name, peer, bytes, 0);
  }
  ~Trace() {
    if (call_ != nullptr || ranges_ != 0) end();
  }
  Trace(Trace&&) = delete;
  [[gnu::cold]] void begin(
      const Page* page, const char* name, int peer, uint64_t bytes, int dtype) noexcept;
  // of the calling thread's call
  [[gnu::cold]] static void note(uint64_t bytes, int algorithm) noexcept;

 private:
  [[gnu::cold]] void end() noexcept;
  symm_trace_call_t* call_ = nullptr;
  int ranges_ = 0;  // of the profiler's
  uint64_t mark_;
};

class Page {
 public:
  // Where there is no memory that others could open, the
  // page is this process's alone, and the log says why.
  Page(uint64_t root, uint64_t group, int rank, const std::string& name,
      std::span<const int64_t> pids);
  ~Page();
  Page(Page&&) = delete;

  symm_page_t& operator*() const noexcept { return *page_; }
  symm_page_t* operator->() const noexcept { return page_; }
  template <class Number>
  static void set(Number& word, Number value) noexcept {
    std::atomic_ref(word).store(value, std::memory_order_release);
  }

  // The calling thread sleeps for `peer`, in `what`, for as long as this lives.
  class Sleep {
   public:
    // null: shown to nobody
    Sleep(const Page* page, int peer, std::string_view what, uint64_t since_ns) noexcept;
    ~Sleep();
    Sleep(Sleep&&) = delete;

   private:
    const Page* const page_;
    const Trace traced_;
    int slot_ = SYMM_PAGE_WAITS;  // that many: shown to nobody
  };

 private:
  explicit Page(size_t bytes);
  const size_t bytes_;
  PeerFd fd_;
  symm_page_t* page_ = nullptr;
  // the slots of those who sleep, which threads of this process share
  mutable std::atomic<uint32_t> taken_{0};
};
}  // namespace symm
