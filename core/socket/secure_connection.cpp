// A TCP connection with frames, encrypted: sends in any thread, reads on the monitor's.
#include "core/socket/secure_connection.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/peer_fd.hpp"
#include "core/base/process.hpp"
#include "core/base/reserve.hpp"
#include "core/base/wait.hpp"
#include "core/socket/fdpass.hpp"
#include "core/socket/monitor.hpp"
#include "core/socket/secure.hpp"
#include "core/socket/tcp.hpp"

namespace symm {
namespace {
constexpr size_t kMaxWaiting = 16U << 20;  // bytes
constexpr size_t kMaxEarly = 4096;         // frames
constexpr size_t kMaxOverhead = 64;        // bytes that sealing adds to a frame, at most
constexpr int kReadsPerTurn = 8;
constexpr int kMaxRedials = 16;
}  // namespace

// ---- connecting and ending

SecureConnection::SecureConnection(
    PeerFd socket, bool dialled, const Secret& secret, uint64_t silence_ms)
    : socket_(std::move(socket)),
      dialled_(dialled),
      generation_(process::fork_generation()),
      keepalive_(silence_ms),
      stage_(dialled ? Stage::connecting : Stage::greeting),
      stream_(secret) {}

void SecureConnection::start(std::weak_ptr<Receiver> receiver) {
  receiver_ = std::move(receiver);
  if (watching_ != 0) return;

  if (dialled_) keepalive_.start();
  const std::lock_guard lock(mutex_);
  watch();
  if (dialled_) watch_timer();
}

void SecureConnection::watch_timer() {
  if (!keepalive_.enabled() || ended_) return;
  ticking_ = Monitor::current().watch(keepalive_.timer(), weak_from_this());
}

std::string SecureConnection::peer_address() const {
  return in_numbers(reinterpret_cast<const sockaddr*>(&peer_));
}

void SecureConnection::watch() {
  set_option(socket_.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  keepalive_.configure(socket_.get());
  watching_ = Monitor::current().watch(socket_.get(), weak_from_this());
  if (dialled_) Monitor::current().want_writable(watching_, true);
}

void SecureConnection::dial_again() {
  ++redials_;
  Monitor::forget(watching_);

  int error = 0;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;

    socket_.reset();
    socket_ = tcp_socket(peer_.ss_family);
    if (!socket_ ||
        (connect(socket_.get(), reinterpret_cast<sockaddr*>(&peer_), sizeof peer_) != 0 &&
            errno != EINPROGRESS)) {
      error = errno;
    }

    out_.clear();
    in_.clear();
    error_ = 0;
    stage_ = Stage::connecting;
    if (error == 0) watch();
  }
  if (error != 0) end(error);
}

void SecureConnection::stop() noexcept {
  if (generation_ != process::fork_generation()) return;

  const std::lock_guard lock(mutex_);  // so that the monitor does not dial again meanwhile
  Monitor::forget(ticking_);
  Monitor::forget(watching_);
  if (ended_.exchange(true)) return;
  tell_change(changes_);

  // The kernel drops what a socket has still to send if the socket is closed with something unread.
  shutdown(socket_.get(), SHUT_WR);
  std::array<std::byte, 4096> rest;
  while (recv(socket_.get(), rest.data(), rest.size(), MSG_DONTWAIT) > 0) {
  }
}

void SecureConnection::end(int error) {
  if (stage_ == Stage::connecting && redials_ == 0) {
    was_refused_ = error == ECONNREFUSED;
    return end("cannot be reached at " + host_ + ": " + strerror(error != 0 ? error : ETIMEDOUT));
  }
  if (error != ETIMEDOUT && error != EHOSTUNREACH && error != ENETUNREACH) {
    return end("died: its connection closed", true);
  }
  const uint64_t tenths = keepalive_.silence_ms() / 100;
  end(format("is cut off: %s has not answered %s for %lu.%lu s", host_.c_str(), host_name().c_str(),
      tenths / 10, tenths % 10));
}

void SecureConnection::end(const std::string& how, bool closed) {
  Monitor::forget(ticking_);
  Monitor::forget(watching_);
  if (ended_) return;

  // The receiver is told before the connection has ended: it may send a last frame, and if it
  // throws, ready() ends the connection once more.
  if (const auto receiver = receiver_.lock()) receiver->on_end(closed, how);
  if (ended_.exchange(true)) return;

  shutdown(socket_.get(), SHUT_RDWR);
  tell_change(changes_);
}

// ---- sending

void SecureConnection::write() {
  if (ended_ || out_.empty()) return;

  ssize_t sent = 0;
  do {
    sent = ::send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);

  if (sent < 0 && !is_momentary(errno)) {
    // The socket of a connection that failed becomes readable, so the monitor will see the error.
    if (error_ == 0) error_ = errno;
    out_.clear();
  }
  if (sent > 0) out_.erase(out_.begin(), out_.begin() + sent);

  tell_change(changes_);
  if (watching_ != 0) Monitor::current().want_writable(watching_, !out_.empty());
}

fdpass::Sent SecureConnection::send(std::span<const std::byte> frame, Deadline deadline) {
  fdpass::Sent sent = fdpass::Sent::would_block;

  await_change(changes_, deadline, [&] {
    const std::lock_guard lock(mutex_);

    if (ended_) {
      sent = fdpass::Sent::closed;
    } else if (!known_ && dialled_ && early_.size() < kMaxEarly) {
      with_reserve([&] { early_.emplace_back(frame.begin(), frame.end()); });
      sent = fdpass::Sent::done;
    } else if (known_ && out_.size() < kMaxWaiting) {
      enqueue_sealed(frame);
      write();
      sent = fdpass::Sent::done;
    }

    return sent != fdpass::Sent::would_block;
  });

  return sent;
}

void SecureConnection::post(std::span<const std::byte> frame) noexcept {
  try {
    send(frame, Deadline::after_ms(0));
  } catch (const std::exception&) {
    return;  // out of memory; the peer's deadline remains
  }
}

// A frame that was sealed must also be sent, so room for it is made before.
void SecureConnection::enqueue_sealed(std::span<const std::byte> frame) {
  with_reserve([&] {
    const size_t needed = out_.size() + frame.size() + kMaxOverhead;
    if (out_.capacity() < needed) out_.reserve(2 * needed);
    enqueue(stream_.seal(frame));
  });
}

// ---- turns of the monitor

void SecureConnection::ready(int fd) noexcept {
  const std::shared_ptr<SecureConnection> self = weak_from_this().lock();
  if (!self || ended_) return;

  try {
    if (keepalive_.enabled() && fd == keepalive_.timer()) {
      on_timer();
    } else {
      on_socket();
    }
  } catch (const std::exception& error) {
    end(with_reserve([&] { return std::string("can no longer be listened to: ") + error.what(); }));
  }
}

void SecureConnection::on_timer() {
  const uint64_t turns = keepalive_.read_timer();
  if (turns == 0) return;
  if (stage_ == Stage::frames && !keepalive_.answered(socket_.get(), turns)) return end(ETIMEDOUT);

  // An empty frame asks the other machine for an acknowledgement.
  const std::lock_guard lock(mutex_);
  if (known_ && out_.empty()) enqueue_sealed({});
  write();
}

void SecureConnection::on_socket() {
  {
    const std::lock_guard lock(mutex_);
    if (stage_ == Stage::connecting && !finish_connecting()) return;
    write();
  }
  if (stage_ == Stage::connecting) return end(error_);
  read();
}

bool SecureConnection::finish_connecting() {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    error_ = error;
    return true;
  }

  socklen_t peer_size = sizeof peer_;
  if (getpeername(socket_.get(), reinterpret_cast<sockaddr*>(&peer_), &peer_size) != 0) {
    return false;
  }
  stage_ = Stage::greeting;
  enqueue(stream_.greet());
  return true;
}

// ---- receiving: the handshake, then frames

void SecureConnection::read() {
  std::array<std::byte, 16384> buffer;
  for (int turn = 0; turn < kReadsPerTurn; ++turn) {
    const ssize_t size = recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    const int error = size < 0 ? errno : 0;
    if (error == EINTR) continue;
    if (error != 0 && is_momentary(error)) return;

    const bool closed = size == 0 || error == ECONNRESET;
    if (closed && dialled_ && silent() && redials_ < kMaxRedials) return dial_again();
    if (size <= 0) return end(error_ != 0 ? error_.load() : error);

    with_reserve([&] { in_.insert(in_.end(), buffer.begin(), buffer.begin() + size); });
    if (!parse()) return;
  }
}

// Takes as many whole messages as have come.
bool SecureConnection::parse() {
  std::span<const std::byte> left = in_;
  for (;;) {
    const size_t size = size_of_next(left);
    if (left.size() < size) break;
    if (!take(left.first(size))) return false;
    left = left.subspan(size);
  }

  in_.erase(in_.begin(), in_.end() - static_cast<std::ptrdiff_t>(left.size()));
  return true;
}

// The size of the message that `bytes` begin with. For a frame of which the length has not come
// yet, the size of the length.
size_t SecureConnection::size_of_next(std::span<const std::byte> bytes) const {
  if (stage_ == Stage::greeting) {
    return dialled_ ? SecureStream::kAnswer : SecureStream::kGreeting;
  }
  if (stage_ == Stage::header) return SecureStream::kHeader;
  if (bytes.size() < SecureStream::kLength) return SecureStream::kLength;
  const size_t length = std::to_integer<size_t>(bytes[0]) | std::to_integer<size_t>(bytes[1]) << 8;
  return SecureStream::kLength + length;
}

bool SecureConnection::take(std::span<const std::byte> message) {
  if (stage_ == Stage::frames) return take_frame(message.subspan(SecureStream::kLength));

  const bool genuine =
      stage_ == Stage::greeting ? finish_handshake(message) : stream_.begin(message);
  if (!genuine) {
    if (other_version_.empty()) {
      end("broke the protocol: it does not know the secret");
    } else {
      log::write(log::Level::warning, "%s", other_version_.c_str());
      end("cannot be understood: " + other_version_);
    }
    return false;
  }
  stage_ = stage_ == Stage::greeting ? Stage::header : Stage::frames;
  return true;
}

bool SecureConnection::finish_handshake(std::span<const std::byte> theirs) {
  const std::lock_guard lock(mutex_);
  if (dialled_) {
    if (!stream_.finish(theirs)) {
      other_version_ = stream_.refused();
      return false;
    }

    known_ = true;
    for (const auto& frame : early_) {
      enqueue_sealed(frame);
    }
    early_.clear();
  } else {
    const auto answer = stream_.answer(theirs);
    if (!answer) return false;
    enqueue(*answer);
    if (!stream_.refused().empty()) {
      other_version_ = stream_.refused();
      write();
      return false;
    }
  }

  write();
  return true;
}

bool SecureConnection::take_frame(std::span<const std::byte> sealed) {
  const auto text = with_reserve([&] { return stream_.open(sealed); });
  if (!text) {
    end("broke the protocol: a frame that it did not seal");
    return false;
  }

  // A greeting may have been replayed; a frame cannot be. Only now the other end is worth a timer.
  if (!known_.exchange(true) && !dialled_) {
    keepalive_.start();
    const std::lock_guard lock(mutex_);
    watch_timer();
  }
  if (text->empty()) return true;

  const auto receiver = receiver_.lock();
  const char* fault = receiver ? receiver->on_frame(*text) : nullptr;
  if (fault != nullptr) end(std::string("broke the protocol: ") + fault);
  return !ended_;
}
}  // namespace symm
