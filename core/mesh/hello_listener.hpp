// The socket on which ranks of other processes introduce
// themselves. Whoever says something else is turned away and
// counted, and whoever says nothing keeps nobody waiting.
#pragma once

#include <list>

#include "core/mesh/wire.hpp"
#include "core/socket/socket.hpp"

namespace symm {
class HelloListener {
 public:
  // Takes the socket if the hello is of a rank that is
  // awaited; else it is left, and turned away. May throw.
  using Admit = std::function<bool(const wire::Hello& hello, PeerFd& socket)>;

  HelloListener(const std::string& directory, std::string name)
      : listener_(directory, std::move(name)) {}
  const std::string& name() const noexcept { return listener_.name(); }

  // One look at who has come, after waiting until the deadline for somebody to come or speak.
  void admit(Deadline deadline, const Admit& admit);
  void close_pending() noexcept { pending_.clear(); }
  uint64_t refused() const noexcept { return refused_; }
  // why somebody had to be turned away; status ok: nobody had
  const Failure& trouble() const noexcept { return trouble_; }

 private:
  void accept_some(const Admit& admit);
  size_t hear(const Admit& admit);                 // how many spoke
  bool heard(PeerFd& socket, const Admit& admit);  // false: it has not spoken yet

  Listener listener_;
  std::list<PeerFd> pending_;  // accepted, and silent so far
  uint64_t refused_ = 0;
  Failure trouble_;
};
}  // namespace symm
