// The link to a rank in another process: a connection, and the packets of wire.hpp on it. On one
// machine the connection is a socket that carries descriptors, to another machine it is TCP.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/log.hpp"
#include "core/base/peer_fd.hpp"
#include "core/base/reserve.hpp"
#include "core/base/wait.hpp"
#include "core/mesh/groups.hpp"
#include "core/mesh/mesh.hpp"
#include "core/mesh/peer_events.hpp"
#include "core/mesh/peer_link.hpp"
#include "core/mesh/wire.hpp"
#include "core/socket/connection.hpp"
#include "core/socket/fdpass.hpp"
#include "core/socket/life.hpp"
#include "core/socket/secure_connection.hpp"
#include "core/socket/socket.hpp"
#include "core/socket/tcp.hpp"

namespace symm {
namespace {
class PacketLink : public PeerLink {
 public:
  PacketLink(int rank, int peer, std::weak_ptr<PeerEvents> events)
      : rank_(static_cast<uint16_t>(rank)), peer_(peer), events_(std::move(events)) {}

  fdpass::Sent send(const Topic& topic, std::span<const std::byte> body, std::span<const int> fds,
      Deadline deadline) override {
    const wire::Header header{.type = static_cast<wire::Type>(topic.kind),
        .nfds = static_cast<uint16_t>(fds.size()),
        .source = rank_,
        .group = topic.group,
        .tag = topic.tag,
        .sequence = topic.sequence};
    return carry(wire::encode(header, body), fds, deadline);
  }

  void post(wire::Type type, uint64_t group, const Failure* failure) noexcept override {
    try {
      const uint64_t when = failure != nullptr ? failure->when_ns : 0;
      const wire::Header header{.type = type, .source = rank_, .group = group, .tag = when};
      carry_now(with_reserve([&] {
        return failure == nullptr ? wire::encode(header) : wire::encode(header, *failure);
      }));
    } catch (const std::exception&) {
      return;  // out of memory
    }
  }

 protected:
  virtual fdpass::Sent carry(
      std::span<const std::byte> packet, std::span<const int> fds, Deadline deadline) = 0;
  // Drops the packet if it cannot be sent at once.
  virtual void carry_now(std::span<const std::byte> packet) noexcept = 0;

  virtual void watch_life(const Fd&, uint64_t) {}

  const char* hear(std::span<const std::byte> bytes, fdpass::Received&& received) {
    wire::Packet packet;
    const char* fault = with_reserve([&] { return wire::decode(bytes, packet); });
    if (fault != nullptr) return fault;

    const wire::Header& header = packet.header;
    if (header.source != peer_) return "a packet in another rank's name";
    if (received.fds_cut && received.fds_arrived >= header.nfds) {
      return "more descriptors than allowed";
    }
    if (!received.fds_cut && received.fds.size() != header.nfds) {
      return "another number of descriptors than announced";
    }

    const std::shared_ptr<PeerEvents> events = events_.lock();
    if (!events) return nullptr;  // the mesh is being destroyed
    switch (header.type) {
      case wire::Type::leave:
      case wire::Type::bye:
      case wire::Type::failure:
      case wire::Type::commit_vote:
        packet.failure.when_ns = header.tag;
        events->on_post(peer_, header.type, header.group, packet.failure);
        return nullptr;
      case wire::Type::life:
        if (!received.fds.empty()) watch_life(received.fds[0], header.tag);
        return nullptr;
      default:
        if (header.type < wire::Type::first_user) return "it introduced itself twice";
    }

    Arrival arrival;
    with_reserve([&] { arrival.message.body.assign(packet.body.begin(), packet.body.end()); });
    arrival.message.fds = std::move(received.fds);
    arrival.fds_lost = received.fds_cut;
    events->on_message(peer_,
        {static_cast<MessageKind>(header.type), header.group, header.tag, header.sequence},
        std::move(arrival));
    return nullptr;
  }

  void gone(const std::string& how) {
    if (const std::shared_ptr<PeerEvents> events = events_.lock()) events->on_gone(peer_, how);
  }

  // The exception that is being handled, if there is one, is the cause.
  void lost(const std::string& how) {
    const Failure local = std::current_exception() ? current_failure() : Failure{};
    if (const auto events = events_.lock()) {
      events->on_lost(peer_, how, local.status == Status::ok ? nullptr : &local);
    }
  }

  const uint16_t rank_;
  const int peer_;
  const std::weak_ptr<PeerEvents> events_;
};

class SocketLink final : public PacketLink, public Receiver {
 public:
  SocketLink(
      int rank, int peer, PeerFd socket, PeerProcess process, std::weak_ptr<PeerEvents> events)
      : PacketLink(rank, peer, std::move(events)),
        connection_(*this, std::move(socket), std::move(process), wire::kMaxPacket) {}

  void start(const std::shared_ptr<SocketLink>& self) { connection_.start(self); }

  void stop() noexcept override { connection_.stop(); }

  bool is_dead() const noexcept override { return connection_.is_dead(); }

  bool is_dying() const noexcept override { return connection_.is_dying(); }

  void share_life(Deadline deadline) noexcept override {
    try {
      if (!held_.hold()) return;
      const wire::Header header{
          .type = wire::Type::life, .nfds = 1, .source = rank_, .tag = held_.index()};
      const int fd = Life::current().fd();
      connection_.send(wire::encode(header), {&fd, 1}, deadline);
    } catch (const std::exception& error) {
      log::write(log::Level::info, "%s: it hears of this rank's death by its socket alone: %s",
          name_of_peer(peer_, connection_.peer().pid).c_str(), error.what());
    }
  }

 private:
  fdpass::Sent carry(
      std::span<const std::byte> packet, std::span<const int> fds, Deadline deadline) override {
    return connection_.send(packet, fds, deadline);
  }

  void carry_now(std::span<const std::byte> packet) noexcept override { connection_.post(packet); }

  void watch_life(const Fd& fd, uint64_t index) override {
    connection_.watch_life(map_life_word(fd, index));
  }

  const char* on_packet(std::span<const std::byte> bytes, fdpass::Received& received) override {
    return hear(bytes, std::move(received));
  }

  void on_end(End end, const std::string& why) override {
    switch (end) {
      case End::closed: return gone("died: its connection closed");
      case End::dying: return gone("died");
      case End::broken: return lost("broke the protocol: " + why);
      case End::failed: return lost("can no longer be listened to: " + why);
    }
  }

  void on_death(const std::string& manner) override {
    if (const std::shared_ptr<PeerEvents> events = events_.lock()) events->on_death(peer_, manner);
  }

  Connection connection_;
  HeldWord held_;  // the life word that the peer watches
};

class TcpLink final : public PacketLink, public SecureConnection::Receiver {
 public:
  TcpLink(int rank, int peer, std::shared_ptr<SecureConnection> connection,
      std::weak_ptr<PeerEvents> events)
      : PacketLink(rank, peer, std::move(events)), connection_(std::move(connection)) {}

  void stop() noexcept override { connection_->stop(); }

  bool carries_descriptors() const noexcept override { return false; }

  bool is_heard(uint64_t now) const noexcept override { return connection_->is_heard(now); }

  std::string own_address() const override { return local_address(connection_->socket()); }

 private:
  fdpass::Sent carry(
      std::span<const std::byte> packet, std::span<const int> fds, Deadline deadline) override {
    if (!fds.empty()) throw Error(Status::internal, "descriptors do not go to another machine");
    return connection_->send(packet, deadline);
  }

  void carry_now(std::span<const std::byte> packet) noexcept override { connection_->post(packet); }

  const char* on_frame(std::span<const std::byte> frame) override { return hear(frame, {}); }

  void on_end(bool closed, const std::string& how) override {
    if (closed) {
      gone(how);
    } else {
      lost(how);
    }
  }

  const std::shared_ptr<SecureConnection> connection_;
};
}  // namespace

std::shared_ptr<PeerLink> link_to_process(
    int rank, int peer, PeerFd socket, PeerProcess process, std::weak_ptr<PeerEvents> events) {
  auto link = std::make_shared<SocketLink>(
      rank, peer, std::move(socket), std::move(process), std::move(events));
  link->start(link);
  return link;
}

std::shared_ptr<PeerLink> link_to_machine(int rank, int peer,
    const std::shared_ptr<SecureConnection>& connection, std::weak_ptr<PeerEvents> events) {
  auto link = std::make_shared<TcpLink>(rank, peer, connection, std::move(events));
  connection->start(link);
  return link;
}
}  // namespace symm
