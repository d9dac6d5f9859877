// A call that a thread of the library makes for a program, which learns later how it ended.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/futex.hpp"
#include "core/base/peer_fd.hpp"

namespace symm {
// Nothing of a request changes once it is done: done_ is stored last, and whoever finds it set
// reads the rest without a lock.
class Request {
 public:
  // Makes the call. Returns the number that a blocking call would have had for its output; 0 if
  // it has none.
  using Work = std::function<uint64_t()>;

  explicit Request(const char* call) : call_(call) {}
  Request(Request&&) = delete;

  const char* call() const noexcept { return call_; }
  bool is_done() const noexcept { return done_.load(std::memory_order_acquire) != 0; }
  // How the call ended; ok if it is not done.
  Status status() const noexcept { return is_done() ? failure_.status : Status::ok; }
  uint64_t value() const noexcept { return is_done() ? value_ : 0; }
  // Throws the failure of the call, if it is done and has failed.
  void throw_if_failed() const;

  // Waits until the call is done. Throws its failure, or Error(timeout), which changes nothing.
  void wait(uint64_t timeout_ms) const;
  // Waits until one of the requests, of which some may be null, is done in whatever way. Returns
  // the place of the first. Throws Error(timeout).
  static size_t wait_any(std::span<const std::shared_ptr<Request>> requests, uint64_t timeout_ms);

  // A descriptor that is readable once the call is done, and stays so. It is made at the first
  // call, and closed with the request.
  int fd();

  // What happens at the end of a call, on the thread that made it.
  struct Ending {
    std::function<void()> before_it_is_done;
    std::function<void()> before_it_is_told;  // to whoever waits
  };
  // Makes the call, drops `work` and with it what the call has kept, and is done.
  void run(Work& work, const Ending& ending) noexcept;

 private:
  static std::optional<size_t> first_done(
      std::span<const std::shared_ptr<Request>> requests) noexcept;
  void tell() noexcept;

  const char* const call_;
  Word done_{0};
  uint64_t value_ = 0;
  Failure failure_;
  std::mutex fd_mutex_;
  PeerFd fd_;
};
}  // namespace symm
