// Holds the places of closed standard streams for all users of foreign libraries in the process.
#include "core/base/closed_streams.hpp"

#include <unistd.h>

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include "core/base/fd.hpp"
#include "core/base/per_process.hpp"

namespace symm {
class ClosedStreams {
 public:
  // A program may have closed another stream since.
  void take() noexcept {
    for (int stream = 0; stream <= STDERR_FILENO; ++stream) {
      if (Fd place = Fd::in_place_of(stream)) {
        held_.at(static_cast<size_t>(stream)) = std::move(place);
      }
    }
  }

 private:
  std::array<Fd, STDERR_FILENO + 1> held_;
};

namespace {
struct Holders {
  std::mutex mutex;
  std::weak_ptr<ClosedStreams> held;
};
}  // namespace

std::shared_ptr<const ClosedStreams> hold_closed_streams() {
  Holders& holders = PerProcess<Holders>::current();
  const std::lock_guard lock(holders.mutex);
  std::shared_ptr<ClosedStreams> held = holders.held.lock();
  if (held == nullptr) {
    held = std::make_shared<ClosedStreams>();
    holders.held = held;
  }
  held->take();
  return held;
}
}  // namespace symm
