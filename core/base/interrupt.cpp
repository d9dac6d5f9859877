// Decides when the function of a thread is asked whether its waits are to end.
#include "core/base/interrupt.hpp"

#include <cerrno>
#include <cstdint>

#include "core/base/deadline.hpp"
#include "core/base/page.hpp"

namespace symm::interrupt {
namespace {
constexpr uint64_t kPauseMs = 200;
}  // namespace

void set(Callback callback, void* user) noexcept { asked = {callback, user, 0, false}; }

void ask(int error) noexcept {
  if (asked.callback == nullptr || asked.happened) return;
  const uint64_t now = now_ns();
  if (error != EINTR && now < asked.next_ns) return;
  asked.next_ns = now + kPauseMs * kMillisecondNs;
  asked.happened = asked.callback(asked.user) != 0;
}

Deadline next_look() noexcept {
  return asked.callback == nullptr ? Deadline::never() : Deadline::after_ms(kPauseMs);
}
}  // namespace symm::interrupt
