// Accepts TCP connections on the monitor's thread, and drops those that do not know the secret.
#include "core/socket/secure_listener.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/peer_fd.hpp"
#include "core/base/process.hpp"
#include "core/socket/monitor.hpp"
#include "core/socket/secure.hpp"
#include "core/socket/secure_connection.hpp"
#include "core/socket/tcp.hpp"

namespace symm {
namespace {
constexpr size_t kMaxSilent = 256;
constexpr size_t kSilentPart = 8;  // of the descriptors that this process may have
constexpr size_t kMaxPending = 4096;
constexpr int kMaxQueued = 1024;
constexpr int kAcceptsPerTurn = 64;
// The number of connections that may be silent. They are strangers' perhaps, who must not take the
// descriptors that the group needs.
size_t most_silent() noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMaxSilent;
  return std::min<size_t>(kMaxSilent, static_cast<size_t>(limit.rlim_cur) / kSilentPart);
}
}  // namespace

// A connection of which no frame has come yet.
class SecureListener::PendingConnection final
    : public SecureConnection::Receiver,
      public std::enable_shared_from_this<PendingConnection> {
 public:
  PendingConnection(
      std::weak_ptr<SecureListener> listener, std::shared_ptr<SecureConnection> connection)
      : listener_(std::move(listener)), connection_(std::move(connection)) {}

  bool silent() const { return connection_->silent(); }

  // Takes it from the listener's list, if it is still there.
  void remove(bool refused) {
    const auto self = shared_from_this();
    const auto listener = listener_.lock();
    if (!listener) return;

    const std::lock_guard lock(listener->mutex_);
    if (std::erase(listener->pending_, self) != 0 && refused) ++listener->refused_;
  }

 private:
  const char* on_frame(std::span<const std::byte> frame) override {
    const auto listener = listener_.lock();
    const auto receiver = listener ? listener->admit_(connection_, frame) : nullptr;
    if (!receiver) return "nobody awaits it";

    connection_->start(receiver);
    remove(false);
    return nullptr;
  }

  void on_end(bool, const std::string&) override { remove(true); }

  const std::weak_ptr<SecureListener> listener_;
  const std::shared_ptr<SecureConnection> connection_;
};

SecureListener::SecureListener(
    const std::string& host, uint16_t port, const Secret& secret, uint64_t silence_ms, Admit admit)
    : secret_(secret),
      silence_ms_(silence_ms),
      admit_(std::move(admit)),
      generation_(process::fork_generation()) {
  AddressList all = look_up(host, port);
  on_loopback_ = is_loopback(all->ai_addr) && !is_own_name(host);
  if (!on_loopback_) all = look_up({}, port);

  // A socket of IPv6 takes connections of both families, where the machine has IPv6.
  int error = EADDRNOTAVAIL;
  for (const int family : {AF_INET6, AF_INET}) {
    for (const addrinfo* at = all.get(); at != nullptr; at = at->ai_next) {
      if (at->ai_family != family || socket_) continue;

      socket_ = tcp_socket(family);
      set_option(socket_.get(), SOL_SOCKET, SO_REUSEADDR, 1);
      if (family == AF_INET6) set_option(socket_.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
      if (bind(socket_.get(), at->ai_addr, at->ai_addrlen) == 0 &&
          listen(socket_.get(), kMaxQueued) == 0) {
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

  // The connections are destroyed after the lock is released.
  std::unique_lock lock(mutex_);
  const auto removed = std::exchange(pending_, {});
  lock.unlock();
}

void SecureListener::drop_silent() noexcept {
  // The connections are destroyed after the lock is released.
  std::list<std::shared_ptr<PendingConnection>> dropped;
  const std::lock_guard lock(mutex_);
  for (auto at = pending_.begin(); at != pending_.end();) {
    const auto next = std::next(at);
    if ((*at)->silent()) dropped.splice(dropped.end(), pending_, at);
    at = next;
  }
  refused_ += dropped.size();
}

uint16_t SecureListener::port() const {
  // Both families have the port at the same offset.
  sockaddr_in6 address{};
  socklen_t size = sizeof address;
  getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin6_port);
}

void SecureListener::ready(int) noexcept {
  try {
    for (int i = 0; i < kAcceptsPerTurn; ++i) {
      if (!accept_one()) return;
    }
  } catch (const std::exception&) {
    return;  // out of memory: the connection is refused
  }
}

bool SecureListener::accept_one() {
  Fd fd = make_fd(::accept4, socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  const int error = fd ? 0 : errno;
  if (error == EAGAIN || error == EWOULDBLOCK) return false;

  std::shared_ptr<SecureConnection> connection;
  std::shared_ptr<PendingConnection> pending;
  if (fd) {
    connection =
        std::make_shared<SecureConnection>(PeerFd(std::move(fd)), false, secret_, silence_ms_);
    pending = std::make_shared<PendingConnection>(weak_from_this(), connection);
  }

  const bool out_of_descriptors = error == EMFILE || error == ENFILE;
  std::shared_ptr<PendingConnection> evicted;  // destroyed after the lock is released
  {
    const std::lock_guard lock(mutex_);
    if (pending) pending_.push_back(pending);
    evicted = evict(pending.get(), out_of_descriptors);
    if (!evicted && out_of_descriptors) {
      refuse_one();
      return false;
    }
  }

  try {
    if (connection) connection->start(pending);
  } catch (...) {
    pending->remove(true);  // a rank that gets no answer dials again
    throw;
  }
  return true;
}

// Makes room: too many connections that send nothing may also be why there is no descriptor. The
// oldest silent one goes, else, if there must be room, the oldest of all; never the newest.
std::shared_ptr<SecureListener::PendingConnection> SecureListener::evict(
    const PendingConnection* newest, bool out_of_descriptors) {
  const bool must = out_of_descriptors || pending_.size() > kMaxPending;
  const auto end = newest != nullptr ? std::prev(pending_.end()) : pending_.end();

  auto oldest = end;
  if (must || pending_.size() > most_silent()) {
    oldest =
        std::find_if(pending_.begin(), end, [](const auto& pending) { return pending->silent(); });
  }
  if (must && oldest == end) oldest = pending_.begin();
  if (oldest == end) return nullptr;

  auto evicted = *oldest;
  pending_.erase(oldest);
  ++refused_;
  return evicted;
}

// Accepts a connection by the spare descriptor and closes it; a rank dials again. Without a spare
// descriptor the listener must not be watched any more: it would stay readable for ever.
void SecureListener::refuse_one() {
  if (!spare_) return Monitor::forget(watching_);
  spare_.reset();
  {
    const Fd refused = make_fd(::accept4, socket_.get(), nullptr, nullptr, SOCK_CLOEXEC);
  }
  spare_ = spare_descriptor();
}
}  // namespace symm
