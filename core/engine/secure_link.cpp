// The link over symm's own connections: TCP, authenticated and encrypted as those of the mesh are,
// so no port of this process answers a stranger. Called with the message engine's lock held, and
// calls its Sink; it knows lines and bytes, but no ranks.
//
// A process only sends on the connections that it has dialled (lines), and only receives on those
// that it has accepted. So the two ends need not agree which of two connections is which line.
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/little_endian.hpp"
#include "core/base/peer_fd.hpp"
#include "core/base/process.hpp"
#include "core/base/reserve.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/store.hpp"
#include "core/engine/link.hpp"
#include "core/socket/fdpass.hpp"
#include "core/socket/secure.hpp"
#include "core/socket/tcp.hpp"

namespace symm::engine {
namespace {
// Sealed bytes of a line that the kernel has not taken yet, at most; and the bytes that are read
// from a connection at a time.
constexpr size_t kMostWaiting = 256U << 10;
constexpr size_t kReadAtOnce = 256U << 10;
// Connections that have not shown that they know the secret, at most.
constexpr size_t kMostSilent = 256;
// A line that is refused before it is known dials again so often: a crowd of strangers at the other
// end's port can have that effect.
constexpr int kMostRedials = 16;
// The time for which a connection that was given up stays open.
constexpr uint64_t kParkedMs = 2'000;
constexpr int kMostQueued = 1024;
constexpr int kMostEvents = 64;

// The process to which an address belongs.
using Id = std::array<std::byte, 16>;

// An address: the id of the process, its port, and the addresses of its machine in numbers, with
// spaces between them.
struct Address {
  Id id{};
  uint16_t port = 0;
  std::vector<std::string> hosts;

  Bytes encoded() const {
    Writer out;
    out.bytes(id);
    out.number(port);
    std::string all;
    for (const std::string& host : hosts) {
      all += (all.empty() ? "" : " ") + host;
    }
    out.text(all);
    return out.bytes_;
  }

  // Nothing if the bytes are no address.
  static std::optional<Address> decoded(std::span<const std::byte> bytes) {
    constexpr size_t kFixed = sizeof(Id) + sizeof(uint16_t);
    if (bytes.size() <= kFixed) return std::nullopt;

    Reader in(bytes);
    Address address;
    address.id = in.bytes<Id>();
    address.port = in.number<uint16_t>();
    std::istringstream words(in.text(in.left()));
    for (std::string host; words >> host;) {
      address.hosts.push_back(host);
    }
    return address.hosts.empty() ? std::nullopt : std::optional(address);
  }
};

// The source of an event of the epoll instance.
enum class Source : uint32_t { listener, line, incoming };

uint64_t tag_of(Source source, uint32_t number) {
  return static_cast<uint64_t>(source) << 32 | number;
}

class SecureLink final : public Link {
 public:
  SecureLink(Sink& sink, const std::vector<std::string>& addresses)
      : sink_(sink), secret_(read_secret()), epoll_(make_fd(epoll_create1, EPOLL_CLOEXEC)) {
    if (!epoll_) throw system_error(errno, "epoll_create1");
    own_.id = process::random_id();
    own_.hosts = addresses;
    if (own_.hosts.empty()) own_.hosts.push_back(outside_address());
    listen_there();
    address_ = own_.encoded();
    where_ = name_ + " (port " + std::to_string(own_.port) + ")";
  }

  const std::string& name() const override { return name_; }

  const std::string& where() const override { return where_; }

  const Bytes& address() const override { return address_; }

  int connect(std::span<const std::byte> address) override {
    const auto theirs = Address::decoded(address);
    if (!theirs) throw Error(Status::unavailable, name_ + ": a peer's address is none");

    auto& line = *lines_.emplace_back(
        std::make_unique<Line>(static_cast<int>(lines_.size()), *theirs, secret_));
    try {
      dial(line);
    } catch (...) {
      line.stage = Stage::closed;
      throw;
    }
    return line.number;
  }

  Transfer send(Envelope& envelope) noexcept override {
    Line& line = *lines_[static_cast<size_t>(envelope.line)];
    if (line.stage == Stage::closed) {
      sink_.lost(line.number, "its connection is closed");
      return Transfer::broken;
    }

    with_reserve([&] { line.queue.push_back(&envelope); });
    sending_ = &envelope;
    pump(line);
    if (std::exchange(sending_, nullptr) == nullptr) return Transfer::whole;
    return line.stage == Stage::closed ? Transfer::broken : Transfer::under_way;
  }

  bool progress() noexcept override {
    while (!parked_.empty() && parked_.front().until.expired()) {
      parked_.pop_front();
    }

    epoll_event events[kMostEvents];
    const int count = epoll_wait(epoll_.get(), events, kMostEvents, 0);
    for (int i = 0; i < count; ++i) {
      handle(
          static_cast<Source>(events[i].data.u64 >> 32), static_cast<uint32_t>(events[i].data.u64));
    }
    return count > 0;
  }

  int arm() noexcept override { return epoll_.get(); }

  void close(int number) noexcept override {
    Line& line = *lines_[static_cast<size_t>(number)];
    park(line.socket);
    end(line);
    for (auto& [key, incoming] : incoming_) {
      if (incoming.stage != Stage::open || incoming.from != line.peer.id) continue;
      park(incoming.socket);
      end(incoming);
    }
    std::erase_if(incoming_, [](const auto& one) { return one.second.stage == Stage::closed; });
  }

 private:
  // Dialled: connecting, greeting, open. Accepted: greeting, header, hello, open.
  enum class Stage { connecting, greeting, header, hello, open, closed };

  struct Line {
    Line(int its_number, Address its_peer, const Secret& secret)
        : number(its_number), peer(std::move(its_peer)), stream(secret) {}

    const int number;
    const Address peer;
    SecureStream stream;
    Stage stage = Stage::connecting;
    PeerFd socket;
    int redials = 0;
    // The answer to the greeting, as far as it has come.
    Bytes in;
    // The bytes that the kernel has still to take, from `taken` on.
    Bytes out;
    size_t taken = 0;
    bool awaits_room = false;
    // The messages that wait, and how much of the first one's payload is in `out` already; nothing
    // if its head is not there either.
    std::deque<Envelope*> queue;
    std::optional<size_t> moved;
  };

  struct Incoming {
    Incoming(PeerFd its_socket, const Secret& secret)
        : socket(std::move(its_socket)), stream(secret) {}

    PeerFd socket;
    SecureStream stream;
    Stage stage = Stage::greeting;
    // The beginning of a frame of which the end has not come yet.
    Bytes rest;
    Id from{};
    // The message of which a part is still to come. If `at` is null, it is dropped.
    Head head;
    std::byte* at = nullptr;
    uint64_t missing = 0;
  };

  // A connection that was given up, and is closed later.
  struct Parked {
    PeerFd socket;
    Deadline until;
  };

  // ---- opening connections

  // One address is listened on alone; if there are several, all of this machine are.
  void listen_there() {
    const std::string host = own_.hosts.size() == 1 ? own_.hosts[0] : "";
    const AddressList all = look_up(host, 0);

    // A socket of IPv6 takes connections of both families, where the machine has IPv6.
    int error = EADDRNOTAVAIL;
    for (const int family : {AF_INET6, AF_INET}) {
      for (const addrinfo* at = all.get(); at != nullptr && !listener_; at = at->ai_next) {
        if (at->ai_family == family && !listen_on(*at)) error = errno;
      }
    }
    if (!listener_) throw system_error(error, "bind", host);

    // Both families have the port at the same offset.
    sockaddr_in6 address{};
    socklen_t size = sizeof address;
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    own_.port = ntohs(address.sin6_port);
    spare_ = spare_descriptor();
    watch(listener_.get(), tag_of(Source::listener, 0), EPOLLIN, EPOLL_CTL_ADD);
  }

  // False: errno says why not.
  bool listen_on(const addrinfo& address) {
    PeerFd socket = tcp_socket(address.ai_family);
    if (address.ai_family == AF_INET6) set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (!socket || bind(socket.get(), address.ai_addr, address.ai_addrlen) != 0 ||
        listen(socket.get(), kMostQueued) != 0) {
      return false;
    }
    listener_ = std::move(socket);
    return true;
  }

  void watch(int socket, uint64_t tag, uint32_t events, int how) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = tag;
    if (epoll_ctl(epoll_.get(), how, socket, &event) != 0) throw system_error(errno, "epoll_ctl");
  }

  // Each time another of the addresses that the peer has.
  void dial(Line& line) {
    const auto attempt = static_cast<size_t>(line.redials);
    line.socket = dial_tcp(line.peer.hosts[attempt % line.peer.hosts.size()], line.peer.port);
    set_option(line.socket.get(), IPPROTO_TCP, TCP_NODELAY, 1);
    line.stage = Stage::connecting;
    line.in.clear();
    line.out = line.stream.greet();
    line.taken = 0;
    line.awaits_room = true;
    watch(line.socket.get(), tag_of(Source::line, static_cast<uint32_t>(line.number)),
        EPOLLIN | EPOLLOUT, EPOLL_CTL_ADD);
  }

  void accept_all() {
    for (;;) {
      Fd fd = make_fd(::accept4, listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      const int error = fd ? 0 : errno;
      const bool none_left = error == EMFILE || error == ENFILE;
      if (!fd && !none_left) return;

      if (fd) {
        const uint32_t number = ++accepted_;
        set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
        const auto [made, fresh] = incoming_.try_emplace(number, PeerFd(std::move(fd)), secret_);
        watch(made->second.socket.get(), tag_of(Source::incoming, number), EPOLLIN, EPOLL_CTL_ADD);
      }
      if (!make_room(none_left) && none_left) return refuse_one();
    }
  }

  // Ends the oldest connection that is not known, if there are too many.
  bool make_room(bool must) {
    const auto unknown = [](const auto& one) { return one.second.stage != Stage::open; };
    const auto count = std::count_if(incoming_.begin(), incoming_.end(), unknown);
    if (!must && static_cast<size_t>(count) <= kMostSilent) return false;

    const auto oldest = std::find_if(incoming_.begin(), incoming_.end(), unknown);
    if (oldest == incoming_.end()) return false;
    incoming_.erase(oldest);
    return true;
  }

  // Accepts a connection by the spare descriptor and closes it: a line dials again. Without one the
  // listener must not be watched any more: it would stay readable for ever.
  void refuse_one() {
    const bool has_spare = static_cast<bool>(spare_);
    spare_.reset();
    if (has_spare) {
      const Fd refused = make_fd(::accept4, listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      spare_ = spare_descriptor();
    } else {
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
    }
  }

  // ---- events

  void handle(Source source, uint32_t number) noexcept {
    Line* const line = source == Source::line ? lines_[number].get() : nullptr;
    const auto found = source == Source::incoming ? incoming_.find(number) : incoming_.end();
    Incoming* const incoming = found != incoming_.end() ? &found->second : nullptr;

    try {
      if (source == Source::listener) accept_all();
      if (line != nullptr && line->stage != Stage::closed) on_line(*line);
      if (incoming != nullptr) on_incoming(*incoming);
    } catch (const std::exception& error) {
      if (line != nullptr) lose(*line, error.what());
      if (incoming != nullptr) end(*incoming);
    }

    if (incoming != nullptr && incoming->stage == Stage::closed) incoming_.erase(found);
  }

  void on_line(Line& line) {
    if (line.stage == Stage::connecting) {
      int error = 0;
      socklen_t size = sizeof error;
      getsockopt(line.socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0) return break_off(line, error);
      line.stage = Stage::greeting;
    }

    // The other end sends its answer to the greeting, and nothing else.
    std::array<std::byte, SecureStream::kAnswer> answer;
    const ssize_t got = recv(line.socket.get(), answer.data(), answer.size(), MSG_DONTWAIT);
    const int error = got < 0 ? errno : 0;
    if (got == 0 || (got < 0 && !is_momentary(error) && error != EINTR && error != ENOTCONN)) {
      return break_off(line, error);
    }
    if (line.stage == Stage::greeting && got > 0) {
      line.in.insert(line.in.end(), answer.begin(), answer.begin() + got);
    }
    if (line.stage == Stage::greeting && line.in.size() >= SecureStream::kAnswer) {
      if (!line.stream.finish(std::span(line.in).first(SecureStream::kAnswer))) {
        return lose(line, "it does not know the secret");
      }
      line.stage = Stage::open;
      Bytes hello(line.peer.id.begin(), line.peer.id.end());
      hello.insert(hello.end(), own_.id.begin(), own_.id.end());
      line.stream.seal(hello, line.out);
    }
    pump(line);
  }

  void break_off(Line& line, int error) {
    const bool known = line.stage == Stage::open;
    const bool others_left = static_cast<size_t>(line.redials) + 1 < line.peer.hosts.size();
    if (!known && (error == 0 || error == ECONNRESET || others_left) &&
        line.redials < kMostRedials) {
      ++line.redials;
      return dial(line);
    }
    lose(line, error == 0 ? "its connection closed" : strerror(error));
  }

  void on_incoming(Incoming& incoming) {
    const size_t before = incoming.rest.size();
    std::copy(incoming.rest.begin(), incoming.rest.end(), read_.begin());
    const ssize_t got =
        recv(incoming.socket.get(), read_.data() + before, read_.size() - before, MSG_DONTWAIT);
    if (got < 0 && (is_momentary(errno) || errno == EINTR)) return;
    if (got <= 0) return end(incoming);

    std::span<const std::byte> left = std::span(read_).first(before + static_cast<size_t>(got));
    if (!take_all(incoming, left)) return end(incoming);
    incoming.rest.assign(left.begin(), left.end());
  }

  // ---- sending

  // Seals what waits as far as there is room, and gives it to the kernel as far as that takes it.
  void pump(Line& line) noexcept {
    try {
      for (;;) {
        if (line.stage == Stage::open) seal_some(line);
        if (line.taken == line.out.size()) break;
        const ssize_t sent = ::send(line.socket.get(), line.out.data() + line.taken,
            line.out.size() - line.taken, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && !is_momentary(errno) && errno != ENOTCONN) {
          return lose(line, strerror(errno));
        }
        if (sent < 0) break;
        line.taken += static_cast<size_t>(sent);
      }

      const bool waits = line.taken != line.out.size();
      if (waits != std::exchange(line.awaits_room, waits)) {
        watch(line.socket.get(), tag_of(Source::line, static_cast<uint32_t>(line.number)),
            waits ? EPOLLIN | EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD);
      }
    } catch (const std::exception& error) {
      lose(line, error.what());
    }
  }

  // The head of a message and the first bytes of its payload are one frame, and the rest of the
  // payload is others.
  void seal_some(Line& line) {
    if (line.taken == line.out.size() || line.taken >= kMostWaiting) {
      line.out.erase(line.out.begin(), line.out.begin() + static_cast<std::ptrdiff_t>(line.taken));
      line.taken = 0;
    }

    while (!line.queue.empty() && line.out.size() - line.taken < kMostWaiting) {
      Envelope& envelope = *line.queue.front();
      const auto payload = envelope.payload;
      if (!line.moved) {
        const size_t first = std::min(payload.size(), kFirstPiece);
        first_.assign(envelope.bytes.begin(), envelope.bytes.end());
        first_.insert(
            first_.end(), payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(first));
        line.stream.seal(first_, line.out);
        line.moved = first;
      } else {
        const size_t piece = std::min(payload.size() - *line.moved, SecureStream::kLongestText);
        line.stream.seal(payload.subspan(*line.moved, piece), line.out);
        line.moved = *line.moved + piece;
      }

      if (*line.moved != payload.size()) continue;
      line.moved.reset();
      line.queue.pop_front();
      finish(envelope, Transfer::whole);
    }
  }

  void finish(Envelope& envelope, Transfer how) {
    if (sending_ == &envelope) {
      sending_ = nullptr;
    } else {
      sink_.sent(envelope, how);
    }
  }

  // ---- receiving

  // Takes all whole messages of the handshake, and frames, off `left`. False: the connection must
  // end.
  bool take_all(Incoming& incoming, std::span<const std::byte>& left) {
    for (;;) {
      size_t size = SecureStream::kGreeting;
      if (incoming.stage == Stage::header) size = SecureStream::kHeader;
      if (incoming.stage == Stage::hello || incoming.stage == Stage::open) {
        if (left.size() < SecureStream::kLength) return true;
        size = SecureStream::kLength +
               (std::to_integer<size_t>(left[0]) | std::to_integer<size_t>(left[1]) << 8);
      }

      if (left.size() < size) return true;
      if (!take(incoming, left.first(size))) return false;
      left = left.subspan(size);
    }
  }

  bool take(Incoming& incoming, std::span<const std::byte> message) {
    switch (incoming.stage) {
      case Stage::greeting: return answer(incoming, message);
      case Stage::header: return take_header(incoming, message);
      case Stage::hello: return take_hello(incoming, message.subspan(SecureStream::kLength));
      case Stage::open: return take_frame(incoming, message.subspan(SecureStream::kLength));
      default: return false;
    }
  }

  bool answer(Incoming& incoming, std::span<const std::byte> greeting) {
    const auto reply = incoming.stream.answer(greeting);
    if (!reply) return false;
    incoming.stage = Stage::header;
    // The socket is fresh, so it has room for the answer.
    return ::send(incoming.socket.get(), reply->data(), reply->size(),
               MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(reply->size());
  }

  bool take_header(Incoming& incoming, std::span<const std::byte> header) {
    incoming.stage = Stage::hello;
    return incoming.stream.begin(header);
  }

  // The hello says for whom the connection is, since a port may be another process's by now, and
  // from whom.
  bool take_hello(Incoming& incoming, std::span<const std::byte> sealed) {
    const auto hello = incoming.stream.open(sealed);
    if (!hello || hello->size() != 2 * sizeof(Id)) return false;
    Reader in(*hello);
    if (in.bytes<Id>() != own_.id) return false;

    incoming.from = in.bytes<Id>();
    incoming.stage = Stage::open;
    return true;
  }

  bool take_frame(Incoming& incoming, std::span<const std::byte> sealed) {
    if (sealed.size() < SecureStream::kSeal) return false;
    const size_t bytes = sealed.size() - SecureStream::kSeal;
    if (incoming.missing == 0) return take_head(incoming, sealed, bytes);
    if (bytes == 0 || bytes > incoming.missing) return false;

    // A frame is decrypted where its bytes belong, after it was found to be genuine.
    std::byte* const at = incoming.at;
    if (!incoming.stream.open(sealed, at != nullptr ? at : opened_.data())) return false;
    incoming.at = at != nullptr ? at + bytes : nullptr;
    incoming.missing -= bytes;
    if (incoming.missing == 0 && at != nullptr) {
      incoming.at = nullptr;
      sink_.arrived(incoming.head, Transfer::whole);
    }
    return true;
  }

  bool take_head(Incoming& incoming, std::span<const std::byte> sealed, size_t bytes) {
    if (bytes < sizeof(HeadBytes) || !incoming.stream.open(sealed, opened_.data())) return false;

    const std::span text = std::span(opened_).first(bytes);
    const auto head = decode(text.first(sizeof(HeadBytes)));
    const auto piece = text.subspan(sizeof(HeadBytes));
    if (!head || piece.size() > head->bytes) return false;

    std::byte* const at = head->bytes != 0 ? sink_.place(*head) : nullptr;
    if (at != nullptr) std::copy(piece.begin(), piece.end(), at);
    const bool dropped = head->bytes != 0 && at == nullptr;
    incoming.missing = head->bytes - piece.size();
    if (incoming.missing != 0) {
      incoming.head = *head;
      incoming.at = dropped ? nullptr : at + piece.size();
    } else if (!dropped) {
      sink_.arrived(*head, Transfer::whole);
    }
    return true;
  }

  // ---- ends

  // Keeps a connection that this process gives up, unread, for a while. If the other end heard of
  // its end at once, it would report that, and not the cause, which it learns from the mesh. In
  // a partition that only one side has noticed, this is half a second later.
  void park(PeerFd& socket) noexcept {
    if (!socket) return;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket.get(), nullptr);
    with_reserve([&] { parked_.push_back({std::move(socket), Deadline::after_ms(kParkedMs)}); });
  }

  void lose(Line& line, const std::string& reason) noexcept {
    if (line.stage == Stage::closed) return;
    end(line);
    sink_.lost(line.number, reason);
  }

  void end(Line& line) noexcept {
    line.stage = Stage::closed;
    line.socket.reset();
    line.in = {};
    line.out = {};
    line.taken = 0;
    for (Envelope* const envelope : std::exchange(line.queue, {})) {
      if (envelope != sending_) sink_.sent(*envelope, Transfer::broken);
    }
  }

  // A process that closes its end has died, or takes part in nothing with this one any more.
  void end(Incoming& incoming) noexcept {
    if (incoming.stage == Stage::closed) return;
    const bool was_open = std::exchange(incoming.stage, Stage::closed) == Stage::open;
    incoming.socket.reset();
    if (incoming.missing != 0 && incoming.at != nullptr) {
      sink_.arrived(incoming.head, Transfer::broken);
    }
    for (const auto& line : lines_) {
      if (was_open && line->peer.id == incoming.from) lose(*line, "its connection closed");
    }
  }

  static constexpr size_t kFirstPiece = SecureStream::kLongestText - sizeof(HeadBytes);

  Sink& sink_;
  const Secret secret_;
  const std::string name_ = "secure 1";
  std::string where_;
  PeerFd epoll_;
  PeerFd listener_;
  Fd spare_;
  Address own_;
  Bytes address_;
  // Lines are kept as long as the link.
  std::deque<std::unique_ptr<Line>> lines_;
  // By number, so the oldest is the first.
  std::map<uint32_t, Incoming> incoming_;
  uint32_t accepted_ = 0;
  std::deque<Parked> parked_;
  // The message that send() was called with, until it is sealed as a whole.
  Envelope* sending_ = nullptr;
  // The bytes that were read, behind the rest of the bytes before them; a frame before it is
  // sealed, and a frame after it was opened.
  Bytes read_ = Bytes(kReadAtOnce);
  Bytes first_;
  Bytes opened_ = Bytes(SecureStream::kLongestText);
};
}  // namespace

std::unique_ptr<Link> open_secure(Sink& sink, const std::vector<std::string>& addresses) {
  return std::make_unique<SecureLink>(sink, addresses);
}
}  // namespace symm::engine
