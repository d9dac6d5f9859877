// The exporter's side of each importer's connection: its requests, its lease ring, its end.
// Called with the exporter's lock held, mostly on the monitor's thread; nothing here waits, and
// nothing that an importer says is trusted.
#include "core/ipc/importer_connections.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/peer_fd.hpp"
#include "core/base/process.hpp"
#include "core/base/reserve.hpp"
#include "core/ipc/export.hpp"
#include "core/ipc/exporter.hpp"
#include "core/ipc/lease_ring.hpp"
#include "core/ipc/protocol.hpp"
#include "core/ipc/token.hpp"
#include "core/ipc/token_pad.hpp"
#include "core/socket/fdpass.hpp"
#include "core/socket/life.hpp"
#include "core/socket/socket.hpp"

namespace symm::ipc {
namespace {
constexpr size_t kMaxCancelled = 1024;  // an importer has one request a thread under way
constexpr size_t kMostLeases = size_t{1} << 20;
constexpr size_t kMostSilent = 256;  // an importer asks as soon as it is connected
}  // namespace

ImporterConnection::ImporterConnection(Exporter& exporter, Exports& exports,
    ExporterStatistics& statistics, uint64_t serial, PeerFd socket, PeerProcess process,
    LeaseRingReader ring)
    : exporter_(exporter),
      exports_(exports),
      statistics_(statistics),
      serial_(serial),
      connection_(*this, std::move(socket), std::move(process), kMaxPacket),
      start_time_(process::start_time_of(connection_.peer().pid)),
      ring_(std::move(ring)) {}

void ImporterConnection::start(const std::shared_ptr<ImporterConnection>& self, int board) {
  const int fds[] = {ring_.fd(), board};
  const fdpass::Sent sent = send({.type = PacketType::welcome, .descriptors = 2}, fds);
  if (sent == fdpass::Sent::crowded) throw Error(crowded());
  if (sent != fdpass::Sent::done) throw Error(Status::peer_failed, "it went at once");
  ring_.will_not_be_shared();
  connection_.start(self);
}

std::string ImporterConnection::name() const {
  const int64_t pid = connection_.peer().pid;
  return pid != 0 ? format("pid %ld", pid) : "a process of another pid namespace";
}

fdpass::Sent ImporterConnection::send(const Packet& packet, std::span<const int> fds) {
  return connection_.send_now(with_reserve([&] { return encode(packet); }), fds);
}

// ---- what the importer sends

void ImporterConnection::on_turn(Connection&, bool dead) noexcept {
  exporter_.take_turn(serial_, dead);
}

ImporterConnection::State ImporterConnection::hear() {
  connection_.hear(false);
  return state_;
}

void ImporterConnection::on_end(End end, const std::string& why) {
  state_ = end == End::closed ? State::closed : State::broken;
  why_ = why;
}

const char* ImporterConnection::on_packet(
    std::span<const std::byte> bytes, fdpass::Received& received) {
  Packet packet;
  if (const char* fault = with_reserve([&] { return decode(bytes, packet); })) return fault;
  if (received.fds_arrived != packet.descriptors) return "descriptors that nobody asked for";

  if (packet.type == PacketType::life) {
    if (!life_ && !received.fds.empty()) life_ = map_life_word(received.fds[0], packet.block);
    return nullptr;
  }

  has_spoken_ = true;
  switch (packet.type) {
    case PacketType::request: serve(packet); return nullptr;
    case PacketType::nudge:
    case PacketType::bye: return nullptr;  // the ring is looked at in any case
    default: return "a packet that only an exporter sends";
  }
}

void ImporterConnection::serve(const Packet& request) {
  SYMM_POINT("ipc.serve");
  drain();
  if (cancelled_.erase(request.lease) != 0) return;

  if (leases_.has(request.lease)) {
    throw Error(Status::peer_failed, "it asked for a lease that it has");
  }

  const Token& token = request.token;
  Packet reply{.type = PacketType::grant, .lease = request.lease};
  std::vector<int> fds;  // of the block, or of blocks of the bundle
  std::shared_ptr<PadWriter> writer;
  try {
    reply = grant_of(request, fds);
    writer = add_pad(token, reply, fds);
  } catch (const std::exception&) {
    ++statistics_.total.refused_imports;
    reply = with_reserve([&] { return refusal_of(request.lease); });
  }

  // The lease is noted before the importer gets the grant, so that there is no grant
  // without a lease.
  if (reply.type == PacketType::grant) {
    if (request.wants_memory) {
      with_reserve([&] {
        mapped_.insert(token.block);
        for (const Export::Part& part : exports_.find(token.block)->parts) {
          mapped_.insert(part.block);
        }
      });
    }
    with_reserve([&] {
      leases_.grant(exports_, request.lease,
          {token.block, token.offset, token.bytes, {}, std::move(writer)}, token.number);
    });
    ++statistics_.total.granted_leases;
  }

  fdpass::Sent sent = fdpass::Sent::done;
  if (reply.type == PacketType::grant && token.is_bundle && request.wants_memory) {
    sent = send_blocks(request, fds, reply.block);
    fds.resize(reply.descriptors);  // that of the table is the first
  }
  if (sent == fdpass::Sent::done) sent = send(reply, {fds.data(), reply.descriptors});
  if (sent == fdpass::Sent::crowded && reply.type == PacketType::grant) {  // it asks again
    leases_.release(exports_, request.lease, {}, ring_.words());
    --statistics_.total.granted_leases;
    reply = {.type = PacketType::refusal, .lease = request.lease};
    reply.failure = crowded();
    sent = send(reply, {});
  }

  if (sent != fdpass::Sent::done) {
    throw Error(Status::peer_failed, "it does not read what it is sent");
  }
}

// The grant, and the descriptors that go with it: that of the table or of the block, if it is
// wanted, and behind it those of the bundle's blocks. Throws what the importer shall be told.
Packet ImporterConnection::grant_of(const Packet& request, std::vector<int>& fds) {
  const Export& exported = exports_.require_valid(request.token);
  Packet grant{.type = PacketType::grant, .lease = request.lease};
  grant.extent = {exported.bytes, exported.mapped_bytes, 0, exported.on_host ? 1U : 0U};
  if (!request.wants_memory) return grant;
  if (request.from != 0 && request.from >= exported.parts.size()) {
    throw Error(Status::peer_failed, "it asked for blocks that the bundle does not have");
  }

  const ShareableHandle handle = exported.memory->share();
  grant.extent.fabric = handle.extent.fabric;
  if (request.from == 0 && handle.fd >= 0) fds.push_back(handle.fd);
  grant.descriptors = static_cast<uint32_t>(fds.size());
  const size_t end = std::min(exported.parts.size(), request.from + kBlocksAtOnce);
  for (size_t i = request.from; i < end; ++i) {
    const Export* const block = exports_.find(exported.parts[i].block);
    if (block == nullptr || !block->memory) {
      throw Error(Status::invalid_handle, "token: the memory was released by its owner");
    }
    fds.push_back(block->memory->share().fd);
  }
  return grant;
}

// Adds the pad of a token with channels to a grant, and the importer to the pad.
std::shared_ptr<PadWriter> ImporterConnection::add_pad(
    const Token& token, Packet& grant, std::vector<int>& fds) {
  std::shared_ptr<OwnedPad> pad = exports_.pad_of(token);
  if (!pad) return nullptr;
  auto writer = std::make_shared<PadWriter>(std::move(pad), connection_.peer().pid, name());
  grant.pad = writer->pad().shape();
  grant.writer = writer->number();
  fds.push_back(writer->pad().segment()->fd());
  grant.descriptors = static_cast<uint32_t>(fds.size());
  return writer;
}

// Sends the descriptors of the bundle's blocks, behind that of the table in `fds`. `sent` becomes
// the number of those that this importer has got, also by earlier requests. If the kernel takes
// only some of them now, that is no failure: the importer asks for the others.
fdpass::Sent ImporterConnection::send_blocks(
    const Packet& request, std::span<const int> fds, uint64_t& sent) {
  sent = request.from;
  if (request.from == 0) fds = fds.subspan(1);
  while (!fds.empty()) {
    const size_t count = std::min(fds.size(), fdpass::kMaxFds);
    const fdpass::Sent result = send({.type = PacketType::part,
                                         .descriptors = static_cast<uint32_t>(count),
                                         .lease = request.lease,
                                         .block = sent},
        fds.first(count));
    if (result != fdpass::Sent::done) {
      return result == fdpass::Sent::crowded && sent != request.from ? fdpass::Sent::done : result;
    }
    sent += count;
    fds = fds.subspan(count);
  }
  return fdpass::Sent::done;
}

// ---- what the importer writes into its lease ring

void ImporterConnection::apply(const LeaseRing::Event& event) {
  using Kind = LeaseRing::Kind;
  switch (event.kind) {
    case Kind::claim: {
      const Export* exported = exports_.find(event.block);
      if (exported == nullptr) return;  // the importer sees the release too, and gives up
      // An importer maps only blocks whose token it has shown. A released block is not listed.
      if (!exported->released && !mapped_.contains(event.block)) {
        throw Error(Status::peer_failed, "it claimed what it does not map");
      }
      if (leases_.all().size() >= kMostLeases) {
        throw Error(Status::peer_failed, "it claimed more than anybody can use");
      }
      if (event.bytes == 0 || event.offset > exported->bytes ||
          event.bytes > exported->bytes - event.offset || leases_.has(event.lease)) {
        throw Error(Status::peer_failed, "it claimed memory that does not exist");
      }
      leases_.grant(exports_, event.lease, {event.block, event.offset, event.bytes}, event.number);
      ++statistics_.total.granted_leases;
      return;
    }
    case Kind::release:
      if (leases_.release(exports_, event.lease, {event.word, event.value}, ring_.words()) ==
          Leases::End::now) {
        ++statistics_.done.ended_leases;
      }
      return;
    case Kind::cancel:
      if (leases_.release(exports_, event.lease, {}, ring_.words()) == Leases::End::now) {
        --statistics_.total.granted_leases;
      } else if (cancelled_.insert(event.lease).second && cancelled_.size() > kMaxCancelled) {
        throw Error(Status::peer_failed, "it cancelled what it never asked for");
      }
      return;
  }

  throw Error(Status::peer_failed, "it wrote an unknown event");
}

void ImporterConnection::drain() {
  if (!is_trusted_) return;
  if (ring_.drain([this](const LeaseRing::Event& event) { with_reserve([&] { apply(event); }); }) &&
      connection_.open() && ring_.is_crowded()) {
    // A queue that is full holds an earlier message of this kind, which does as well.
    connection_.post(encode({.type = PacketType::nudge}));
  }
  if (leases_.on_streams()) statistics_.done.ended_leases += leases_.drain(exports_, ring_.words());
}

// ---- what the importer is told

void ImporterConnection::retire(const Retired& block) {
  const bool maps = mapped_.erase(block.block) != 0;
  // One that was told of the release has a lease to the end.
  const bool holds =
      block.is_withdrawn && !leases_.overlapping({block.block, 0, UINT64_MAX}).empty();
  if (maps || holds) with_reserve([&] { untold_.push_back(block); });
}

void ImporterConnection::tell_retired() noexcept {
  if (!connection_.open()) untold_.clear();
  try {
    while (!untold_.empty()) {
      const Retired& next = untold_.back();
      const PacketType type = next.is_withdrawn ? PacketType::withdrawn : PacketType::retired;
      if (send({.type = type, .block = next.block}, {}) != fdpass::Sent::done) return;
      untold_.pop_back();
    }
  } catch (const std::exception&) {
    return;  // the connection has failed; it will be noticed
  }
}

// ---- all importers

void ImporterConnections::admit(PeerFd socket, int board) {
  const int raw = socket.get();
  std::shared_ptr<ImporterConnection> importer;
  try {
    SYMM_POINT("ipc.admit");
    PeerProcess process = identify(raw);
    importer = std::make_shared<ImporterConnection>(exporter_, exports_, statistics_,
        ++last_serial_, std::move(socket), std::move(process), LeaseRingReader());

    BySerial one;  // before it is welcome, after which it cannot be refused
    one.emplace(last_serial_, importer);
    silent_.push_back(last_serial_);

    importer->start(importer, board);
    importer->want_to_hear(want_to_hear_);
    all_.merge(one);
    if (silent_.size() > kMostSilent) evict_idle(kMostSilent);
  } catch (const std::exception&) {
    fdpass::send(raw, with_reserve([] { return encode(refusal_of(1)); }), {});
    ++statistics_.total.rejected_connections;
  }
}

bool ImporterConnections::evict_idle(size_t keep) {
  std::erase_if(silent_, [&](uint64_t serial) {
    const auto at = all_.find(serial);
    return at == all_.end() || at->second->has_spoken();
  });

  if (silent_.size() <= keep) return false;
  const uint64_t serial = silent_.front();
  silent_.pop_front();
  take_turn(serial, false);  // it may have spoken just now
  const auto at = all_.find(serial);

  if (at != all_.end() && !at->second->has_spoken()) {
    ++statistics_.total.rejected_connections;
    disconnected(at);
  }

  return true;
}

void ImporterConnections::take_turn(uint64_t serial, bool dead) {
  const auto at = all_.find(serial);
  if (at == all_.end()) return;
  ImporterConnection& importer = *at->second;
  if (dead) {  // what it asked for is of no use to it any more
    close_and_drain(importer);
    return write_off(at, true);
  }

  switch (importer.hear()) {
    case ImporterConnection::State::connected: return drain(at);
    case ImporterConnection::State::closed: return disconnected(at);
    case ImporterConnection::State::broken: return break_off(at, importer.why());
  }
}

void ImporterConnections::drain() {
  for (auto at = all_.begin(); at != all_.end();) {
    drain(at++);
  }
}

void ImporterConnections::drain(BySerial::iterator at) {
  try {
    at->second->drain();
  } catch (const Error& error) {
    break_off(at, error.what());
  }
}

// Its leases stay until it is known to be dead.
void ImporterConnections::break_off(BySerial::iterator at, const std::string& why) {
  statistics_.notes.emplace_back(
      log::Level::warning, "connection of importer " + at->second->name() + " closed: " + why);
  ++statistics_.total.rejected_connections;
  at->second->distrust();
  disconnected(at);
}

void ImporterConnections::close_and_drain(ImporterConnection& importer) {
  importer.connection().close_socket();
  try {
    importer.drain();
  } catch (const Error&) {
    importer.distrust();
  }
}

void ImporterConnections::disconnected(BySerial::iterator at) {
  ImporterConnection& importer = *at->second;
  close_and_drain(importer);
  if (importer.leases().all().empty()) {
    importer.connection().stop();
    all_.erase(at);
  } else if (importer.has_no_memory()) {
    write_off(at, true);
  } else if (!importer.connection().has_death_watch()) {
    write_off(at, false);
  }
}

// Ends the leases of an importer that is gone, and forgets it. `surely`: the process can write
// no more. Otherwise, and where a device may write on without its process, what it had leased
// goes to quarantine.
void ImporterConnections::write_off(BySerial::iterator at, bool surely) {
  const uint64_t leases = at->second->leases().write_off(exports_, surely);
  if (leases != 0) {
    statistics_.notes.emplace_back(log::Level::info,
        format("importer %s is gone with %lu leases", at->second->name().c_str(), leases));
  }
  statistics_.total.written_off_leases += leases;
  statistics_.done.written_off_leases += leases;
  at->second->connection().stop();
  all_.erase(at);
}

void ImporterConnections::retire(const std::vector<Retired>& blocks) noexcept {
  for (const auto& [serial, importer] : all_) {
    for (const Retired& block : blocks) {
      importer->retire(block);
    }
    importer->tell_retired();
  }
}

void ImporterConnections::want_to_hear(bool each_release) noexcept {
  want_to_hear_ = each_release;
  for (const auto& [serial, importer] : all_) {
    importer->want_to_hear(each_release);
  }
}

bool ImporterConnections::on_streams() const noexcept {
  return std::any_of(
      all_.begin(), all_.end(), [](const auto& one) { return one.second->leases().on_streams(); });
}

const ImporterConnection* ImporterConnections::find(uint64_t serial) const noexcept {
  const auto found = all_.find(serial);
  return found == all_.end() ? nullptr : found->second.get();
}
}  // namespace symm::ipc
