// The page on which a rank shows its state to other programs of its user.
// capi/include/symm/page.h says what is on it, and how it is found.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/layouts.hpp"
#include "core/base/peer_fd.hpp"
#include <symm/page.h>

namespace symm {
// CLOCK_MONOTONIC, the clock of all times that are told to others.
uint64_t now_ns() noexcept;

class Page;

// Memory of this process that its user's other processes find by the name of its file and can only
// read. If there is none that others can open, it is private, and the log says who is not seen.
class PageMemory {
 public:
  PageMemory(const char* name, size_t bytes, const char* who);
  ~PageMemory();
  PageMemory(PageMemory&&) = delete;
  void* at() const noexcept { return at_; }

 private:
  const size_t bytes_;
  PeerFd fd_;
  void* at_;
};

// The first word of a layout, whose last character is the number.
uint64_t magic_of(uint64_t magic, const Layout& layout);

// Notes a call by which ranks communicate, or a sleep in one, for symm run --trace and for a
// profiler, if on(). The call lasts as long as this object.
class Trace {
 public:
  static std::atomic<bool> wanted;
  static bool on() noexcept { return wanted.load(std::memory_order_relaxed); }
  Trace() = default;  // notes nothing before begin()
  Trace(const Page* page, const char* name, int peer = -1, uint64_t bytes = 0) noexcept {
    if (on()) begin(page, name, peer, bytes, 0);
  }
  ~Trace() {
    if (call_ != nullptr || ranges_ != 0) end();
  }
  Trace(Trace&&) = delete;
  [[gnu::cold]] void begin(
      const Page* page, const char* name, int peer, uint64_t bytes, int dtype) noexcept;
  // Adds what the calling thread's call has found out since it began.
  [[gnu::cold]] static void note(uint64_t bytes, int algorithm) noexcept;

 private:
  [[gnu::cold]] void end() noexcept;
  symm_trace_call_t* call_ = nullptr;
  int ranges_ = 0;  // the number of ranges pushed for the profiler
  uint64_t mark_;
};

class Page {
 public:
  // If there is no memory that others can open, the page is private to this process, and the log
  // says why.
  Page(uint64_t root, uint64_t group, int rank, const std::string& name,
      std::span<const int64_t> pids);
  Page(Page&&) = delete;

  symm_page_t& operator*() const noexcept { return *page_; }
  symm_page_t* operator->() const noexcept { return page_; }
  template <class Number>
  static void set(Number& word, Number value) noexcept {
    std::atomic_ref(word).store(value, std::memory_order_release);
  }

  // Shows that the calling thread sleeps, waiting for `peer` in `what`, as long as this lives.
  class Sleep {
   public:
    // `page` may be null: then nothing is shown.
    Sleep(const Page* page, int peer, std::string_view what, uint64_t since_ns) noexcept;
    ~Sleep();
    Sleep(Sleep&&) = delete;

   private:
    const Page* const page_;
    const Trace traced_;
    int slot_ = SYMM_PAGE_WAITS;  // SYMM_PAGE_WAITS: no slot was free, or there is no page
  };

 private:
  explicit Page(size_t bytes);
  const PageMemory memory_;
  symm_page_t* const page_;
  // One bit for each slot of `sleeping` that a thread of this process uses.
  mutable std::atomic<uint32_t> taken_{0};
};
}  // namespace symm
