// Makes, names and writes the page on which a rank shows its state. Other programs read it at
// any moment.
#include "core/base/page.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <string_view>

#include "core/base/call_tag.hpp"
#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/layouts.hpp"
#include "core/base/log.hpp"
#include "core/base/memfd.hpp"
#include "core/base/nvtx.hpp"
#include "core/base/peer_fd.hpp"
#include "core/base/per_process.hpp"
#include "core/base/text.hpp"
#include "kernels/types.hpp"
#include "symm/page.h"

namespace symm {
uint64_t now_ns() noexcept {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(t.tv_nsec);
}

// The last character of a magic is the number of the layout.
uint64_t magic_of(uint64_t magic, const Layout& layout) {
  constexpr int kLast = 56;
  return (magic & ~(UINT64_MAX << kLast)) | (uint64_t{'0'} + layout.number) << kLast;
}

namespace {
// Allocates all memory of the file before it is mapped, so that a lack of memory is an error here
// and does not end the process later. Other processes can map it only to read.
void* map_for_all_to_read(const PeerFd& fd, size_t bytes) noexcept {
  if (!fd || bytes > file_size_limit() ||
      fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes)) != 0) {
    return MAP_FAILED;
  }

  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
  if (at == MAP_FAILED ||
      (fchmod(fd.get(), S_IRUSR) == 0 && fcntl(fd.get(), F_ADD_SEALS, kSeals) == 0)) {
    return at;
  }

  munmap(at, bytes);
  return MAP_FAILED;
}

// The file in which symm run --trace looks. All its memory is allocated at once: touching a page
// that there is no memory for would end the process.
struct TraceFile {
  TraceFile() {
    const std::string path = format("%s/%d.%lu", environment("SYMM_TRACE"), getpid(), now_ns());
    const Fd fd = make_fd(::open, path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    // The file has room for as many calls as there is memory for. The header takes the first place.
    constexpr uint64_t kMaxBytes = uint64_t{64} << 20;
    constexpr uint64_t kCall = sizeof(symm_trace_call_t);
    uint64_t places = std::min(kMaxBytes, file_size_limit()) / kCall;
    while (places > 1 && posix_fallocate(fd.get(), 0, static_cast<off_t>(places * kCall)) != 0) {
      places /= 2;
    }
    void* const at = mmap(nullptr, places * kCall, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (at == MAP_FAILED || places < 2) throw system_error(errno, "mmap", path);

    head = static_cast<symm_trace_t*>(at);
    const std::chrono::nanoseconds real = std::chrono::system_clock::now().time_since_epoch();
    *head = {0, layouts::library, 0, places - 1, real.count() - static_cast<int64_t>(now_ns()),
        std::atoi(environment("SYMM_RANK")), {}};
    Page::set(head->magic, magic_of(SYMM_TRACE_MAGIC, layouts::trace));
  }

  symm_trace_t* head;
};

thread_local Trace* current = nullptr;  // the outermost call of this thread

// Pushes a range of the call's name and, in quotes, its tag, which may be null.
void push_range(const char* name, const char* tag, uint64_t bytes) noexcept {
  if (tag == nullptr) return nvtx::push(name, bytes);

  std::array<char, kTagBytes + 32> text{};
  std::snprintf(text.data(), text.size(), "%s \"%s\"", name, tag);
  nvtx::push(text.data(), bytes);
}

const thread_local auto thread_number = static_cast<int32_t>(syscall(SYS_gettid));
}  // namespace

PageMemory::PageMemory(const char* name, size_t bytes, const char* who)
    : bytes_(bytes), fd_(make_memfd(name)), at_(map_for_all_to_read(fd_, bytes)) {
  if (at_ == MAP_FAILED) {
    log::write(log::Level::info, "symm top will not see this %s: no shared memory for its page: %s",
        who, std::strerror(errno));
    fd_.reset();
    at_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (at_ == MAP_FAILED) throw std::bad_alloc();
}

PageMemory::~PageMemory() { munmap(at_, bytes_); }

Page::Page(size_t bytes)
    : memory_("symm-page", bytes, "rank"), page_(static_cast<symm_page_t*>(memory_.at())) {}

Page::Page(
    uint64_t root, uint64_t group, int rank, const std::string& name, std::span<const int64_t> pids)
    : Page(sizeof(symm_page_t) + pids.size_bytes()) {
  page_->version = layouts::library;
  page_->root = root;
  page_->group = group;
  page_->rank = rank;
  page_->size = static_cast<int32_t>(pids.size());
  page_->backend = -1;
  page_->made_ns = now_ns();
  write_text(page_->job, environment("SYMM_JOB"));
  write_text(page_->name, name);

  for (int i = 0; i < SYMM_PAGE_KINDS; ++i) {
    write_text(page_->collective_names[i], collective_name(static_cast<Collective>(i)));
    write_text(page_->algorithm_names[i], algorithm_name(static_cast<Algorithm>(i)));
  }

  std::copy(pids.begin(), pids.end(), page_->pids);
  set(page_->magic, magic_of(SYMM_PAGE_MAGIC, layouts::page));
}

// The time is written last, and removed first. A reader that finds the same time before and after
// it reads the other fields knows that they belong together.
Page::Sleep::Sleep(const Page* page, int peer, std::string_view what, uint64_t since_ns) noexcept
    : page_(page), traced_(page, "sleep", peer) {
  if (page == nullptr) return;

  uint32_t taken = page->taken_.load(std::memory_order_relaxed);
  do {
    slot_ = std::countr_one(taken);
    if (slot_ >= SYMM_PAGE_WAITS) return;
  } while (
      !page->taken_.compare_exchange_weak(taken, taken | (1U << slot_), std::memory_order_acquire));

  symm_page_wait_t& wait = (*page)->sleeping[slot_];
  set(wait.peer, static_cast<int64_t>(peer));
  std::array<uint64_t, sizeof wait.what / sizeof(uint64_t)> words{};
  std::memcpy(words.data(), what.data(), std::min(what.size(), sizeof wait.what - 1));
  for (size_t i = 0; i < words.size(); ++i) {
    set(reinterpret_cast<uint64_t*>(wait.what)[i], words[i]);
  }
  set(wait.since_ns, since_ns);
}

Page::Sleep::~Sleep() {
  if (slot_ >= SYMM_PAGE_WAITS) return;
  set((*page_)->sleeping[slot_].since_ns, uint64_t{0});
  page_->taken_.fetch_and(~(1U << slot_), std::memory_order_release);
}

// NOLINTNEXTLINE(bugprone-throwing-static-initialization): reads two variables, throws nothing
std::atomic<bool> Trace::wanted{*environment("SYMM_TRACE") != '\0' || nvtx::is_there()};

void Trace::begin(const Page* page, const char* name, int peer, uint64_t bytes, int dtype) noexcept
    try {
  if (current == nullptr) current = this;
  // Collectives alone have a data type and a tag; a sleep in one has neither.
  const char* const tag = dtype != 0 ? CallTag::current() : nullptr;
  if (nvtx::is_there()) {
    push_range(name, tag, bytes);
    ranges_ = 1;
  }
  if (*environment("SYMM_TRACE") == '\0') return;

  symm_trace_t* const head = PerProcess<TraceFile>::current().head;
  mark_ = std::atomic_ref(head->calls).fetch_add(1, std::memory_order_relaxed) + 1;
  call_ = reinterpret_cast<symm_trace_call_t*>(head + 1) + (mark_ - 1) % head->room;

  Page::set(call_->mark, uint64_t{0});
  *call_ = {0, now_ns(), 0, bytes, "", "", "", -1, -1, peer, thread_number, dtype, -1,
      std::uncaught_exceptions(), 0};
  std::strncpy(call_->name, name, sizeof call_->name - 1);
  if (tag != nullptr) std::strncpy(call_->tag, tag, sizeof call_->tag - 1);
  if (page != nullptr) {
    std::memcpy(call_->group, (*page)->name, sizeof call_->group - 1);
    call_->rank = (*page)->rank;
    call_->size = (*page)->size;
    call_->backend = static_cast<int32_t>((*page)->backend);
  }
  Page::set(call_->mark, mark_);
} catch (const std::exception& error) {
  log::write(log::Level::warning, "symm run --trace will not see this rank: %s", error.what());
  wanted = false;
}

void Trace::note(uint64_t bytes, int algorithm) noexcept {
  if (current == nullptr) return;
  if (current->call_ != nullptr) {
    current->call_->bytes = bytes;
    current->call_->algorithm = algorithm;
  }
  if (current->ranges_ == 1) {
    nvtx::push(algorithm_name(static_cast<Algorithm>(algorithm)), bytes);
    current->ranges_ = 2;
  }
}

void Trace::end() noexcept {
  if (current == this) current = nullptr;
  for (; ranges_ > 0; --ranges_) {
    nvtx::pop();
  }

  // The file is a ring: later calls may have overwritten this one.
  if (call_ == nullptr || call_->mark != mark_) return;
  call_->failed = std::uncaught_exceptions() > call_->failed ? 1 : 0;
  call_->end_ns = now_ns();
}
}  // namespace symm
