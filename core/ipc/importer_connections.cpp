#include "core/ipc/importer_connections.hpp"
#include "core/base/reserve.hpp"

namespace symm::ipc {
namespace {
constexpr size_t kMostSilent = 256;  // an importer asks as soon as it is connected
}  // namespace

void ImporterConnections::admit(PeerFd socket, int board) {
  const int raw = socket.get();
  std::shared_ptr<ImporterConnection> importer;
  try {
    SYMM_POINT("ipc.admit");
    PeerProcess process = identify(raw);
    LeaseRingReader ring;
    importer = std::make_shared<ImporterConnection>(
        exporter_, exports_, statistics_, ++last_serial_, std::move(socket), std::move(process), std::move(ring));
    BySerial one;  // before it is welcome, after which it cannot be refused
    one.emplace(last_serial_, importer);
    silent_.push_back(last_serial_);
    importer->start(importer, board);
    importer->want_to_hear(want_to_hear_);
    all_.merge(one);
    if (silent_.size() > kMostSilent) drop_a_silent_one(kMostSilent);
  } catch (const std::exception&) {
    fdpass::send(raw, with_reserve([] { return encode(refusal_of(1)); }), {});
    ++statistics_.total.rejected_connections;
  }
}

bool ImporterConnections::drop_a_silent_one(size_t unless_at_most) {
  std::erase_if(silent_, [&](uint64_t serial) {
    const auto at = all_.find(serial);
    return at == all_.end() || at->second->has_spoken();
  });
  if (silent_.size() <= unless_at_most) return false;
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
  for (auto at = all_.begin(); at != all_.end();) drain(at++);
}

void ImporterConnections::drain(BySerial::iterator at) {
  try {
    at->second->drain();
  } catch (const Error& error) { break_off(at, error.what()); }
}

// Its leases stay until it is known to be dead.
void ImporterConnections::break_off(BySerial::iterator at, const std::string& why) {
  statistics_.notes.emplace_back(log::Level::warning, "connection of importer " + at->second->name() + " closed: " + why);
  ++statistics_.total.rejected_connections;
  at->second->distrust();
  disconnected(at);
}

void ImporterConnections::close_and_drain(ImporterConnection& importer) {
  importer.connection().close_socket();
  try {
    importer.drain();
  } catch (const Error&) { importer.distrust(); }
}

void ImporterConnections::disconnected(BySerial::iterator at) {
  ImporterConnection& importer = *at->second;
  close_and_drain(importer);
  if (importer.leases().all().empty()) {
    importer.connection().stop();
    all_.erase(at);
  } else if (importer.has_no_memory()) {
    write_off(at, true);
  } else if (!importer.connection().death_will_be_known()) {
    write_off(at, false);
  }
}

void ImporterConnections::write_off(BySerial::iterator at, bool surely) {
  const uint64_t leases = at->second->leases().write_off(exports_, surely);
  if (leases != 0) {
    statistics_.notes.emplace_back(log::Level::info,
        format("importer %s is gone with %llu leases", at->second->name().c_str(), static_cast<unsigned long long>(leases)));
  }
  statistics_.write_off(leases);
  at->second->connection().stop();
  all_.erase(at);
}

void ImporterConnections::retire(const std::vector<uint64_t>& blocks) noexcept {
  for (const auto& [serial, importer] : all_) {
    for (const uint64_t block : blocks) importer->retire(block);
    importer->tell_retired();
  }
}

void ImporterConnections::want_to_hear(bool each_release) noexcept {
  want_to_hear_ = each_release;
  for (const auto& [serial, importer] : all_) importer->want_to_hear(each_release);
}

bool ImporterConnections::on_streams() const noexcept {
  return std::any_of(all_.begin(), all_.end(), [](const auto& one) { return one.second->leases().on_streams(); });
}

const ImporterConnection* ImporterConnections::find(uint64_t serial) const noexcept {
  const auto found = all_.find(serial);
  return found == all_.end() ? nullptr : found->second.get();
}
}  // namespace symm::ipc
