// The link to a rank that is a thread of this process. What is sent becomes an event of that rank,
// on the sending thread.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/reserve.hpp"
#include "core/base/wait.hpp"
#include "core/mesh/mesh.hpp"
#include "core/mesh/peer_events.hpp"
#include "core/mesh/peer_link.hpp"
#include "core/mesh/wire.hpp"
#include "core/socket/fdpass.hpp"

namespace symm {
namespace {
class ThreadLink final : public PeerLink {
 public:
  ThreadLink(int rank, std::weak_ptr<PeerEvents> peer) : rank_(rank), peer_(std::move(peer)) {}

  fdpass::Sent send(const Topic& topic, std::span<const std::byte> body, std::span<const int> fds,
      Deadline) override {
    const std::shared_ptr<PeerEvents> peer = peer_.lock();
    if (!peer) return fdpass::Sent::closed;

    Arrival arrival;
    arrival.message.body.assign(body.begin(), body.end());
    for (const int fd : fds) {
      Fd copy(fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
      if (!copy) throw system_error(errno, "fcntl(F_DUPFD_CLOEXEC)");
      arrival.message.fds.push_back(std::move(copy));
    }

    peer->on_message(rank_, topic, std::move(arrival));
    return fdpass::Sent::done;
  }

  void post(wire::Type type, uint64_t group, const Failure* failure) noexcept override {
    const std::shared_ptr<PeerEvents> peer = peer_.lock();
    if (!peer) return;
    try {
      peer->on_post(rank_, type, group,
          with_reserve([&] { return failure != nullptr ? *failure : Failure{}; }));
    } catch (const std::exception&) {
      return;  // out of memory
    }
  }

 private:
  const int rank_;
  const std::weak_ptr<PeerEvents> peer_;
};
}  // namespace

std::shared_ptr<PeerLink> link_to_thread(int rank, std::weak_ptr<PeerEvents> peer_events) {
  return std::make_shared<ThreadLink>(rank, std::move(peer_events));
}
}  // namespace symm
