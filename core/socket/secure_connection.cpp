#include "core/socket/secure_connection.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/peer_fd.hpp"
#include "core/base/process.hpp"
#include "core/base/reserve.hpp"
#include "core/base/wait.hpp"
#include "core/socket/fdpass.hpp"
#include "core/socket/secure.hpp"

namespace symm {
namespace {
constexpr size_t kMostWaiting = 16U << 20;  // bytes
constexpr size_t kMostEarly = 4096;         // frames
constexpr int kReadsPerTurn = 8;
constexpr size_t kMostAround = 64;  // bytes, of what is sealed
constexpr size_t kMostSilent = 256, kMostStrangers = 4096;
constexpr int kMostRedials = 16;
constexpr int kMostQueued = 1024;

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

// Without a host: all of this machine.
Addresses addresses_of(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(
      host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    throw Error(Status::unavailable,
        format("no address of '%s' is known: %s", host.c_str(), gai_strerror(error)));
  }
  return {found, freeaddrinfo};
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24 ==
           IN_LOOPBACKNET;
  }
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

PeerFd tcp_socket(int family) {
  return PeerFd(Fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP)));
}

std::string in_numbers(const sockaddr* address) {
  char text[NI_MAXHOST] = "";
  const socklen_t size = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  return getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 ? text : "";
}

void set(int socket, int level, int name, int value) {
  setsockopt(socket, level, name, &value, sizeof value);
}

// With a domain or without one; many an /etc/hosts says that both lead to the loopback.
bool is_own_name(const std::string& host) {
  const auto first = [](const std::string& name) { return name.substr(0, name.find('.')); };
  return first(host) == first(host_name()) && first(host) != "localhost";
}
}  // namespace

std::string host_name() {
  char text[HOST_NAME_MAX + 1] = "";
  gethostname(text, sizeof text - 1);
  return text;
}

std::string own_address(int socket, const std::string& dialled) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  const auto* const address = reinterpret_cast<const sockaddr*>(&storage);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  return is_loopback(address) && is_own_name(dialled) ? dialled : in_numbers(address);
}

std::string outside_address() {
  // Not one of a link, which needs the name that the link has where it is dialled.
  const auto is_far = [](const sockaddr* at) {
    return !is_loopback(at) && !in_numbers(at).starts_with("fe80:");
  };
  try {
    const Addresses named = addresses_of(host_name(), 0);
    for (const addrinfo* at = named.get(); at != nullptr; at = at->ai_next) {
      if (is_far(at->ai_addr)) return in_numbers(at->ai_addr);
    }
  } catch (const Error&) {
  }  // a name of its own
  ifaddrs* found = nullptr;
  getifaddrs(&found);
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> interfaces(found, freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* at = interfaces.get(); at != nullptr; at = at->ifa_next) {
      if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != family ||
          (at->ifa_flags & IFF_UP) == 0) {
        continue;
      }
      if (is_far(at->ifa_addr)) return in_numbers(at->ifa_addr);
    }
  }
  throw Error(Status::unavailable,
      host_name() + " has no address but that of its loopback: set MASTER_ADDR and SYMM_PORT");
}

uint16_t hold_free_port() {
  for (const int family : {AF_INET6, AF_INET}) {
    PeerFd socket = tcp_socket(family);
    set(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);  // for who listens there
    sockaddr_in6 address{};                          // of either family, the port lies alike
    address.sin6_family = static_cast<sa_family_t>(family);
    socklen_t size = sizeof address;
    if (bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) continue;
    getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
    static PeerFd& held = *new PeerFd;
    held = std::move(socket);
    return ntohs(address.sin6_port);
  }
  throw system_error(errno, "bind", "a free port");
}

PeerFd dial_tcp(const std::string& host, uint16_t port, unsigned attempt) {
  const Addresses all = addresses_of(host, port);
  const addrinfo* chosen = all.get();
  for (; attempt > 0; --attempt) {
    chosen = chosen->ai_next != nullptr ? chosen->ai_next : all.get();
  }
  PeerFd socket = tcp_socket(chosen->ai_family);
  if (!socket) throw system_error(errno, "socket", host);
  if (connect(socket.get(), chosen->ai_addr, chosen->ai_addrlen) != 0 && errno != EINPROGRESS) {
    throw Error(Status::unavailable,
        format("%s cannot be reached at port %u: %s", host.c_str(), port, strerror(errno)));
  }
  return socket;
}

// ---- a connection

SecureConnection::SecureConnection(
    PeerFd socket, bool dialled, const Secret& secret, uint64_t silence_ms)
    : socket_(std::move(socket)),
      dialled_(dialled),
      silence_ms_(silence_ms),
      generation_(process::fork_generation()),
      stage_(dialled ? Stage::connecting : Stage::greeting),
      stream_(secret) {}

void SecureConnection::start(std::weak_ptr<Receiver> receiver) {
  receiver_ = std::move(receiver);
  if (watching_ != 0) return;
  if (silence_ms_ != 0) {
    // between what must be answered within silence_ms_
    const uint64_t ms = std::clamp<uint64_t>(silence_ms_ / 8, 20, 250);
    due_ = Deadline::after_ms(silence_ms_);
    timer_ = PeerFd(Fd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)));
    if (!timer_) throw system_error(errno, "timerfd_create");
    const timespec each{static_cast<time_t>(ms / 1000), static_cast<long>(ms % 1000) * 1'000'000};
    const itimerspec times{each, each};
    timerfd_settime(timer_.get(), 0, &times, nullptr);
  }
  const std::lock_guard lock(mutex_);
  watch();
  if (timer_) ticking_ = Monitor::current().watch(timer_.get(), weak_from_this());
}

std::string SecureConnection::peer_address() const {
  return in_numbers(reinterpret_cast<const sockaddr*>(&peer_));
}

void SecureConnection::watch() {
  set(socket_.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  if (silence_ms_ != 0) {
    set(socket_.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
    set(socket_.get(), IPPROTO_TCP, TCP_KEEPIDLE, 1);
    set(socket_.get(), IPPROTO_TCP, TCP_KEEPINTVL, 1);
    set(socket_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT,
        static_cast<int>(std::min<uint64_t>(silence_ms_, INT_MAX)));
  }
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
  const std::lock_guard lock(mutex_);  // so that it does not dial again
  Monitor::forget(ticking_);
  Monitor::forget(watching_);
  if (ended_.exchange(true)) return;
  tell_change(changes_);
  shutdown(socket_.get(), SHUT_WR);
  // A socket that is closed with something unread takes back what it has sent.
  std::array<std::byte, 4096> rest;
  while (recv(socket_.get(), rest.data(), rest.size(), MSG_DONTWAIT) > 0) {
  }
}

void SecureConnection::end(int error) {
  if (stage_ == Stage::connecting && redials_ == 0) {
    return end("cannot be reached at " + host_ + ": " + strerror(error != 0 ? error : ETIMEDOUT));
  }
  if (error != ETIMEDOUT && error != EHOSTUNREACH && error != ENETUNREACH) {
    return end("died: its connection closed", true);
  }
  end(format("is cut off: %s has not answered %s for %.1f s", host_.c_str(), host_name().c_str(),
      static_cast<double>(silence_ms_) / 1e3));
}

void SecureConnection::end(const std::string& how, bool closed) {
  Monitor::forget(ticking_);
  Monitor::forget(watching_);
  if (ended_) return;
  // Before it has ended: a last word may be sent, and should this throw, ready() ends it again.
  if (const auto receiver = receiver_.lock()) receiver->on_end(closed, how);
  if (ended_.exchange(true)) return;
  shutdown(socket_.get(), SHUT_RDWR);
  tell_change(changes_);
}

void SecureConnection::write() {
  if (ended_ || out_.empty()) return;
  ssize_t sent = 0;
  do {
    sent = ::send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0 && !is_momentary(errno)) {
    if (error_ == 0) error_ = errno;  // the monitor is told by a socket that can be read
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
    } else if (!known_ && dialled_ && early_.size() < kMostEarly) {
      with_reserve([&] { early_.emplace_back(frame.begin(), frame.end()); });
      sent = fdpass::Sent::done;
    } else if (known_ && out_.size() < kMostWaiting) {
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

// What is sealed must also be sent.
void SecureConnection::enqueue_sealed(std::span<const std::byte> frame) {
  with_reserve([&] {
    const size_t most = out_.size() + frame.size() + kMostAround;
    if (out_.capacity() < most) out_.reserve(2 * most);
    enqueue(stream_.seal(frame));
  });
}

// Whether the other machine has, of which the kernel suffices, since the process may be
// stopped; so may this one have been, for `ticks`. TCP_USER_TIMEOUT alone begins to
// count when something is sent again, which is late where answers were slow before.
bool SecureConnection::answered(uint64_t ticks) {
  tcp_info info{};
  socklen_t size = sizeof info;
  getsockopt(socket_.get(), IPPROTO_TCP, TCP_INFO, &info, &size);
  const uint64_t waited_ms = silence_ms_ - std::min(silence_ms_, due_.remaining_ns() / 1'000'000);
  if (ticks > 4 || info.tcpi_unacked == 0 || info.tcpi_last_ack_recv < waited_ms) {
    due_ = Deadline::after_ms(silence_ms_);
  }
  return !due_.expired();
}

void SecureConnection::ready(int fd) noexcept {
  const std::shared_ptr<SecureConnection> self = weak_from_this().lock();
  if (!self || ended_) return;
  try {
    if (timer_ && fd == timer_.get()) {
      uint64_t times = 0;
      if (::read(fd, &times, sizeof times) != sizeof times) return;
      if (stage_ == Stage::frames && !answered(times)) return end(ETIMEDOUT);
      const std::lock_guard lock(mutex_);
      if (known_ && out_.empty()) enqueue_sealed({});
      return write();
    }
    {
      const std::lock_guard lock(mutex_);
      if (stage_ == Stage::connecting) {
        int error = 0;
        socklen_t size = sizeof error;
        socklen_t peer_size = sizeof peer_;
        getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
        if (error == 0 &&
            getpeername(socket_.get(), reinterpret_cast<sockaddr*>(&peer_), &peer_size) != 0) {
          return;
        }
        if (error != 0) {
          error_ = error;
        } else {
          stage_ = Stage::greeting;
          enqueue(stream_.greet());
        }
      }
      write();
    }
    if (stage_ == Stage::connecting) return end(error_);
    read();
  } catch (const std::exception& error) {
    end(with_reserve([&] { return std::string("can no longer be listened to: ") + error.what(); }));
  }
}

void SecureConnection::read() {
  std::array<std::byte, 16384> buffer;
  for (int turn = 0; turn < kReadsPerTurn; ++turn) {
    const ssize_t size = recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && is_momentary(errno)) return;
    const bool closed = size == 0 || (size < 0 && errno == ECONNRESET);
    if (closed && dialled_ && silent() && redials_ < kMostRedials) return dial_again();
    if (size <= 0) return end(error_ != 0 ? error_.load() : size < 0 ? errno : 0);
    with_reserve([&] { in_.insert(in_.end(), buffer.begin(), buffer.begin() + size); });
    if (!parse()) return;
  }
}

bool SecureConnection::meet(std::span<const std::byte> theirs) {
  const std::lock_guard lock(mutex_);
  if (dialled_) {
    if (!stream_.finish(theirs)) return false;
    known_ = true;
    for (const auto& frame : early_) {
      enqueue_sealed(frame);
    }
    early_.clear();
  } else {
    const auto answer = stream_.answer(theirs);
    if (!answer) return false;
    enqueue(*answer);
  }
  stage_ = Stage::header;
  write();
  return true;
}

bool SecureConnection::parse() {
  size_t at = 0;
  const auto next = [&](size_t size) {
    const std::span<const std::byte> part(in_.data() + at, size);
    at += size;
    return part;
  };
  const auto left = [&] { return in_.size() - at; };
  const auto stranger = [&] {
    end("broke the protocol: it does not know the secret");
    return false;
  };
  for (;;) {
    if (stage_ == Stage::greeting) {
      const size_t size = dialled_ ? SecureStream::kAnswer : SecureStream::kGreeting;
      if (left() < size) break;
      if (!meet(next(size))) return stranger();
    } else if (stage_ == Stage::header) {
      if (left() < SecureStream::kHeader) break;
      if (!stream_.begin(next(SecureStream::kHeader))) return stranger();
      stage_ = Stage::frames;
    } else {
      if (left() < SecureStream::kLength) break;
      const size_t length = std::to_integer<size_t>(in_[at]) | std::to_integer<size_t>(in_[at + 1])
                                                                   << 8;
      if (left() < SecureStream::kLength + length) break;
      next(SecureStream::kLength);
      const auto sealed = next(length);
      const auto text = with_reserve([&] { return stream_.open(sealed); });
      if (!text) {
        end("broke the protocol: a frame that it did not seal");
        return false;
      }
      known_ = true;  // a greeting may have been replayed, this was not
      if (text->empty()) continue;
      const auto receiver = receiver_.lock();
      const char* fault = receiver ? receiver->on_frame(*text) : nullptr;
      if (fault != nullptr) end(std::string("broke the protocol: ") + fault);
      if (ended_) return false;
    }
  }
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(at));
  return true;
}

// ---- those who connect

class SecureListener::Stranger final : public SecureConnection::Receiver,
                                       public std::enable_shared_from_this<Stranger> {
 public:
  Stranger(std::weak_ptr<SecureListener> listener, std::shared_ptr<SecureConnection> connection)
      : listener_(std::move(listener)), connection_(std::move(connection)) {}

  bool silent() const { return connection_->silent(); }

  void go(bool counts) {
    const auto self = shared_from_this();
    const auto listener = listener_.lock();
    if (!listener) return;
    const std::lock_guard lock(listener->mutex_);
    if (std::erase(listener->strangers_, self) != 0 && counts) ++listener->refused_;
  }

 private:
  const char* on_frame(std::span<const std::byte> frame) override {
    const auto listener = listener_.lock();
    const auto heir = listener ? listener->admit_(connection_, frame) : nullptr;
    if (!heir) return "nobody awaits it";
    connection_->start(heir);
    go(false);
    return nullptr;
  }

  void on_end(bool, const std::string&) override { go(true); }

  const std::weak_ptr<SecureListener> listener_;
  const std::shared_ptr<SecureConnection> connection_;
};

SecureListener::SecureListener(
    const std::string& host, uint16_t port, const Secret& secret, uint64_t silence_ms, Admit admit)
    : secret_(secret),
      silence_ms_(silence_ms),
      admit_(std::move(admit)),
      generation_(process::fork_generation()) {
  Addresses all = addresses_of(host, port);
  if (is_own_name(host) || !is_loopback(all->ai_addr)) all = addresses_of({}, port);
  int error = EADDRNOTAVAIL;
  for (const int family : {AF_INET6, AF_INET}) {  // the first takes both, where there is one
    for (const addrinfo* at = all.get(); at != nullptr; at = at->ai_next) {
      if (at->ai_family != family || socket_) continue;
      socket_ = tcp_socket(family);
      set(socket_.get(), SOL_SOCKET, SO_REUSEADDR, 1);
      if (family == AF_INET6) set(socket_.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
      if (bind(socket_.get(), at->ai_addr, at->ai_addrlen) == 0 &&
          listen(socket_.get(), kMostQueued) == 0) {
        continue;
      }
      error = errno;
      socket_.reset();
    }
  }
  if (!socket_) throw system_error(error, "bind", format("port %u of %s", port, host.c_str()));
}

void SecureListener::start() {
  spare_ = spare_descriptor();
  watching_ = Monitor::current().watch(socket_.get(), weak_from_this());
}

void SecureListener::stop() noexcept {
  if (generation_ != process::fork_generation()) return;
  Monitor::forget(watching_);
  std::unique_lock lock(mutex_);
  const auto going = std::exchange(strangers_, {});
  lock.unlock();
}

uint16_t SecureListener::port() const {
  sockaddr_in6 address{};  // of either family, the port lies alike
  socklen_t size = sizeof address;
  getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin6_port);
}

void SecureListener::ready(int) noexcept {
  try {
    for (int i = 0; i < 64; ++i) {
      Fd fd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      const int error = fd ? 0 : errno;
      const bool starved = error == EMFILE || error == ENFILE;
      if (error == EAGAIN || error == EWOULDBLOCK) return;
      std::shared_ptr<Stranger> oldest;
      std::shared_ptr<Stranger> stranger;  // who goes without the lock, and who comes
      std::shared_ptr<SecureConnection> connection;
      if (fd) {
        connection =
            std::make_shared<SecureConnection>(PeerFd(std::move(fd)), false, secret_, silence_ms_);
        stranger = std::make_shared<Stranger>(weak_from_this(), connection);
      }
      std::unique_lock lock(mutex_);
      if (stranger) strangers_.push_back(stranger);
      // Also for want of descriptors, perhaps by those that say nothing: of whom the
      // oldest goes, but nobody who has just come.
      const bool all = starved || strangers_.size() > kMostStrangers;
      const auto end = stranger ? std::prev(strangers_.end()) : strangers_.end();
      auto going = end;
      if (all || strangers_.size() > kMostSilent) {
        going =
            std::find_if(strangers_.begin(), end, [](const auto& one) { return one->silent(); });
      }
      if (all && going == end) going = strangers_.begin();
      if (going != end) {
        oldest = *going;
        strangers_.erase(going);
        ++refused_;
      } else if (starved) {
        if (!spare_) return Monitor::forget(watching_);  // or it would ask for ever
        spare_.reset();
        // and comes again
        {
          const Fd turned_away(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        }
        spare_ = spare_descriptor();
        return;
      }
      lock.unlock();
      try {
        if (connection) connection->start(stranger);
      } catch (...) {
        stranger->go(true);  // who waits for no answer tries again
        throw;
      }
    }
  } catch (const std::exception&) {
    return;  // out of memory: who connected is turned away
  }
}
}  // namespace symm
