// Accepts importers: a socket in a directory of its own. Nothing of it stays on disk.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/backend/provider.hpp"
#include "core/base/deadline.hpp"
#include "core/base/fd.hpp"
#include "core/base/peer_fd.hpp"
#include "core/ipc/token.hpp"
#include "core/socket/directory.hpp"
#include "core/socket/monitor.hpp"
#include "core/socket/socket.hpp"

namespace symm::ipc {
// The directory in which exporters have theirs. Throws Error(invalid_argument) for a variable that
// names no absolute path.
std::string directory_for_sockets();

class ExporterListener final : public Watched,
                               public std::enable_shared_from_this<ExporterListener> {
 public:
  // On the monitor's thread, `on_connect` is called when a process connects, `on_time` at the
  // time that look_again() asks for. Throws what the directory and the socket say.
  ExporterListener(
      const Id& exporter, std::function<void()> on_connect, std::function<void()> on_time);
  // Starts to listen, unless this object listens already or the socket has lost its
  // name. Throws Error(system).
  void start();
  void close() noexcept;  // at exit
  const std::string& directory() const noexcept { return path_; }

  // A few of those who wait are given to `admit`; the monitor comes again for the
  // others. Where there is no descriptor for one, `make_room` may find some. `rejected`
  // grows by those who cannot be let in; returns why one could not.
  std::string accept(const std::function<void(PeerFd)>& admit,
      const std::function<bool()>& make_room, uint64_t& rejected);
  void look_again(Deadline when) noexcept;  // unless sooner was asked for
 private:
  void ready(int fd) noexcept override;
  void open();

  const std::string name_;
  const std::function<void()> on_connect_;
  const std::function<void()> on_time_;
  std::unique_ptr<SharedDirectory> directory_;
  std::optional<Listener> listener_;
  std::string path_;
  Deadline known_ = Deadline::after_ms(0);  // until when it is taken to be there
  // A spare descriptor, which is closed to accept and refuse a connection when descriptors have run
  // out.
  Fd spare_;
  std::atomic<uint64_t> watching_{0};
  Fd timer_;
  Deadline asked_ = Deadline::never();
  std::atomic<uint64_t> watching_timer_{0};
};
}  // namespace symm::ipc
