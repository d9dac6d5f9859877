// The socket at which importers knock, in a directory that only this user may enter.
#include "core/ipc/exporter_listener.hpp"

#include <fcntl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <ctime>
#include <functional>
#include <string>
#include <utility>

#include "core/backend/provider.hpp"
#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/peer_fd.hpp"
#include "core/ipc/token.hpp"
#include "core/socket/directory.hpp"
#include "core/socket/monitor.hpp"

namespace symm::ipc {
std::string directory_for_sockets() {
  const std::string chosen = environment("SYMM_IPC_DIRECTORY");
  if (chosen.empty()) return default_parent();
  if (chosen[0] != '/') {
    throw Error(Status::invalid_argument,
        "SYMM_IPC_DIRECTORY is '" + chosen + "'; it must be an absolute path");
  }
  return chosen;
}

namespace {
constexpr int kMostAccepted = 4;      // in one turn: others want the exporter's lock, too
constexpr uint64_t kDeafForMs = 100;  // when there was no descriptor even to refuse somebody
}  // namespace

ExporterListener::ExporterListener(
    const Id& exporter, std::function<void()> on_connect, std::function<void()> on_time)
    : name_(hexadecimal(exporter)),
      on_connect_(std::move(on_connect)),
      on_time_(std::move(on_time)),
      timer_(make_fd(timerfd_create, CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (!timer_) throw system_error(errno, "timerfd_create");
  open();
  spare_ = spare_descriptor();
}

void ExporterListener::open() {
  const std::string parent = directory_for_sockets();
  sweep(parent);
  directory_ = SharedDirectory::make(parent, "g");
  path_ = directory_->path();
  listener_.emplace(path_, name_);
}

void ExporterListener::start() {
  if (!listener_) return;
  // The runtime directory goes when its user logs out, and what lies in /tmp for long
  // may be cleared away.
  constexpr uint64_t kLookMs = 1'000;

  if (known_.expired()) {
    if (access((path_ + "/" + name_).c_str(), F_OK) != 0 && errno == ENOENT) {
      Monitor::forget(watching_);
      open();
    }
    known_ = Deadline::after_ms(kLookMs);
  }

  if (watching_timer_ == 0) {
    watching_timer_ = Monitor::current().watch(timer_.get(), weak_from_this());
  }

  if (watching_ == 0) watching_ = Monitor::current().watch(listener_->get(), weak_from_this());
}

void ExporterListener::close() noexcept {
  Monitor::forget(watching_);
  Monitor::forget(watching_timer_);
  listener_.reset();
  directory_.reset();
}

void ExporterListener::ready(int fd) noexcept {
  if (fd != timer_.get()) return on_connect_();
  uint64_t times = 0;
  if (::read(fd, &times, sizeof times) < 0) return;
  on_time_();
}

void ExporterListener::look_again(Deadline when) noexcept {
  constexpr uint64_t kSecond = 1'000'000'000;
  if (asked_.expired()) asked_ = Deadline::never();
  if (when >= asked_) return;
  asked_ = when;
  const uint64_t left = when.remaining_ns() + 1;  // 0 would stop the timer
  itimerspec once{};
  once.it_value = {static_cast<time_t>(left / kSecond), static_cast<long>(left % kSecond)};
  timerfd_settime(timer_.get(), 0, &once, nullptr);
}

std::string ExporterListener::accept(const std::function<void(PeerFd)>& admit,
    const std::function<bool()>& make_room, uint64_t& rejected) {
  std::string why;
  for (int turn = 0; listener_ && turn < kMostAccepted; ++turn) {
    try {
      PeerFd socket = listener_->accept(rejected);
      if (!socket) break;
      admit(std::move(socket));
    } catch (const Error& error) {
      why = error.what();
      if (make_room()) continue;
      // There is no descriptor for the connection that waits. If it stayed in the queue, it would
      // wake this thread without end.
      spare_.reset();
      ++rejected;
      try {
        const PeerFd refused = listener_->accept(rejected);
      } catch (const Error&) {  // another thread took it
        Monitor::forget(watching_);
        look_again(Deadline::after_ms(kDeafForMs));
      }
      spare_ = spare_descriptor();
      break;
    }
  }

  return why;
}
}  // namespace symm::ipc
