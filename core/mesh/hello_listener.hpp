// The socket on which ranks of other processes introduce themselves. A connection that says
// something else is refused and counted, and one that says nothing keeps no other one waiting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <utility>

#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/peer_fd.hpp"
#include "core/mesh/wire.hpp"
#include "core/socket/socket.hpp"

namespace symm {
class HelloListener {
 public:
  // Takes the socket if a rank that is awaited said the hello; returns false to refuse it. May
  // throw.
  using Admit = std::function<bool(const wire::Hello& hello, PeerFd& socket)>;

  HelloListener(const std::string& directory, std::string name)
      : listener_(directory, std::move(name)) {}
  const std::string& name() const noexcept { return listener_.name(); }

  // Waits until the deadline for a connection or a hello, then handles those that have come.
  void admit(Deadline deadline, const Admit& admit);
  void close_pending() noexcept { pending_.clear(); }
  uint64_t refused() const noexcept { return refused_; }
  // Why a connection could not be accepted; status ok if all could.
  const Failure& trouble() const noexcept { return trouble_; }

 private:
  void accept_some(const Admit& admit);
  size_t read_hellos(const Admit& admit);               // the number of connections that spoke
  bool read_hello(PeerFd& socket, const Admit& admit);  // false: nothing has come yet

  Listener listener_;
  std::list<PeerFd> pending_;  // accepted, and silent so far
  uint64_t refused_ = 0;
  Failure trouble_;
};
}  // namespace symm
