// SPDX-License-Identifier: Apache-2.0
//
// Where importers connect: a socket in a directory of its own, of which nothing stays on disk.
#pragma once

#include <functional>
#include <optional>

#include "core/ipc/token.hpp"
#include "core/socket/directory.hpp"
#include "core/socket/monitor.hpp"
#include "core/socket/socket.hpp"

namespace symm::ipc {

class ExporterListener final : public Watched, public std::enable_shared_from_this<ExporterListener> {
 public:
  // `on_connect` is called on the monitor's thread when somebody connects. Throws what the directory and the socket say.
  ExporterListener(const Id& exporter, std::function<void()> on_connect);
  void start();           // unless it listens already. Throws Error(system)
  void close() noexcept;  // at exit
  const std::string& directory() const noexcept { return path_; }

  // All who wait are given to `admit`. `rejected` grows by those who cannot be let in.
  void accept(const std::function<void(PeerFd)>& admit, uint64_t& rejected);

 private:
  void ready(int) noexcept override { on_connect_(); }

  const std::function<void()> on_connect_;
  std::optional<SharedDirectory> directory_;
  std::optional<Listener> listener_;
  std::string path_;
  Fd spare_;  // given up to be able to refuse a connection when descriptors have run out
  uint64_t watching_ = 0;
};

}  // namespace symm::ipc
