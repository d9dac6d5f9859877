// SPDX-License-Identifier: Apache-2.0
#include "core/ipc/exporter_listener.hpp"

#include <fcntl.h>

#include "core/base/environment.hpp"
#include "core/base/log.hpp"

namespace symm::ipc {
namespace {

std::string directory_for_sockets() {
  const std::string chosen = environment("SYMM_IPC_DIRECTORY");
  return chosen.empty() ? default_parent() : chosen;
}

Fd spare() { return Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace

ExporterListener::ExporterListener(const Id& exporter, std::function<void()> on_connect) : on_connect_(std::move(on_connect)) {
  const std::string parent = directory_for_sockets();
  sweep(parent);
  directory_.emplace(SharedDirectory::make(parent, "g"));
  path_ = directory_->path();
  listener_.emplace(path_, hexadecimal(exporter));
  spare_ = spare();
}

void ExporterListener::start() {
  if (listener_ && watching_ == 0) watching_ = Monitor::current().watch(listener_->get(), weak_from_this());
}

void ExporterListener::close() noexcept {
  if (watching_ != 0) Monitor::current().forget(std::exchange(watching_, 0));
  listener_.reset();
  directory_.reset();
}

void ExporterListener::accept(const std::function<void(PeerFd)>& admit, uint64_t& rejected) {
  if (!listener_) return;
  try {
    while (PeerFd socket = listener_->accept(rejected)) admit(std::move(socket));
  } catch (const Error& error) {
    // No descriptor for whoever waits; left there, it would wake us without end.
    log::write(log::Level::warning, "an importer cannot be let in: %s", error.what());
    spare_.reset();
    ++rejected;
    try {
      const PeerFd refused = listener_->accept(rejected);
    } catch (const Error&) {
      Monitor::current().forget(std::exchange(watching_, 0));  // another thread took it: the next export listens again
    }
    spare_ = spare();
  }
}

}  // namespace symm::ipc
