// Imports: finds the connection to the token's owner, or makes one, and takes a lease by it, in
// the thread that imports. Threads that must ask the same exporter wait for each other.
#include "core/ipc/importer.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/provider.hpp"
#include "core/backends.hpp"
#include "core/base/error.hpp"
#include "core/base/timed_mutex.hpp"
#include "core/base/wait.hpp"
#include "core/ipc/exporter_connection.hpp"
#include "core/ipc/held_lease.hpp"
#include "core/ipc/kept_addresses.hpp"
#include "core/ipc/mapping.hpp"
#include "core/ipc/protocol.hpp"
#include "core/ipc/token.hpp"
#include "symm/symm.h"

namespace symm::ipc {
namespace {
void require_same_machine(const Token& token) {
  if (token.machine == machine_id()) return;
  throw Error(Status::unavailable,
      format("token: it was made on another machine (boot id %s, here %s)",
          hexadecimal(token.machine).c_str(), hexadecimal(machine_id()).c_str()));
}

std::string directory_of(const Token& token, const ImportOptions& options) {
  if (options.directory.empty()) return token.directory;
  return options.directory + token.directory.substr(token.directory.rfind('/'));
}
}  // namespace

std::shared_ptr<Importer::Peer> Importer::peer_of(const Id& exporter) {
  const std::lock_guard lock(mutex_);
  if (const auto found = peers_.find(exporter); found != peers_.end()) return found->second;
  return peers_.emplace(exporter, std::make_shared<Peer>()).first->second;
}

// The connection, a new one if there is none that lives. The peer's `asking` is held.
std::shared_ptr<ExporterConnection> Importer::reconnect(
    Peer& peer, const Token& token, const ImportOptions& options, Deadline deadline) {
  std::shared_ptr<ExporterConnection> former;
  {
    const std::lock_guard lock(peer.mutex);
    former = peer.connection;
  }

  if (former && former->alive()) return former;
  std::shared_ptr<ExporterConnection> fresh;
  try {
    fresh = ExporterConnection::connect(token, directory_of(token, options), deadline);
  } catch (const Error&) {
    const std::lock_guard lock(mutex_);
    if (!former) peers_.erase(token.exporter);  // nobody: not to be remembered
    throw;
  }

  const std::lock_guard lock(mutex_);
  if (former) orphans_.push_back(former);
  const std::lock_guard held(peer.mutex);
  peer.connection = fresh;

  return fresh;
}

std::shared_ptr<HeldLease> Importer::import(
    const Token& token, const ImportOptions& options, void* stream) {
  require_same_machine(token);
  const Provider& provider = ipc_provider(static_cast<BackendKind>(token.backend));
  const MappedAs as{provider.device_for(token.gpu, options.device), options.access};

  // This may fail, so it comes before there is a lease that could be forgotten.
  auto held = std::make_shared<HeldLease>(token, exporter_);
  if (token.bytes == 0) {
    LeasedMapping nothing{std::make_shared<Mapping>()};
    nothing.mapping->as = as;
    held->hold(std::move(nothing));
    return held;
  }

  provider.check_stream(stream, as.device);
  if (exporter_.made(token)) {
    held->hold(exporter_.claim(token, options.access, stream));
    return held;
  }

  HeldLease::Taken taken = take(token, as, options);
  const std::shared_ptr<ExporterConnection> connection = taken.connection;
  held->hold(std::move(taken.leased), connection);
  connection->wait_for_exporter(token, provider, stream, as.device);
  return held;
}

// A lease on memory of another process, and the mapping of it. With `kept`, if this throws, some
// of the memory may be mapped there.
HeldLease::Taken Importer::take(
    const Token& token, MappedAs as, const ImportOptions& options, const KeptAddresses* kept) {
  const Provider& provider = ipc_provider(static_cast<BackendKind>(token.backend));
  const std::shared_ptr<Peer> peer = peer_of(token.exporter);
  std::shared_ptr<ExporterConnection> connection;
  {
    const std::lock_guard lock(peer->mutex);
    connection = peer->connection;
  }

  LeasedMapping leased;
  if (connection && kept == nullptr) leased = connection->claim(token, as);
  if (leased.lease == 0) {
    const Deadline deadline = Deadline::after_ms(options.timeout_ms);
    const TimedLock asking(peer->asking, options.timeout_ms, "import");
    const auto ask = [&] {
      try {
        connection = reconnect(*peer, token, options, deadline);
        leased = connection->request(token, as, provider, deadline, kept);
      } catch (const Error& error) {
        if (!is_crowded(error.failure()) || deadline.expired()) throw;
      }
      return leased.lease != 0;
    };
    if (!retry_until(ask, deadline)) throw Error(crowded());
  }
  return {std::move(leased), std::move(connection)};
}

void Importer::resume(
    HeldLease& held, const Token* token, const ImportOptions& options, void* stream) {
  const std::optional<Token> other = token != nullptr ? std::optional(*token) : std::nullopt;
  held.resume(other, [&](const Token& wanted, const KeptAddresses& kept) {
    return take_again(wanted, kept, options, stream);
  });
}

// What a token names, at the addresses of a suspended import.
HeldLease::Taken Importer::take_again(
    const Token& token, const KeptAddresses& kept, const ImportOptions& options, void* stream) {
  require_same_machine(token);
  const Provider& provider = ipc_provider(static_cast<BackendKind>(token.backend));
  const int device = kept.as().device;
  HeldLease::Taken nothing{{std::make_shared<Mapping>()}, nullptr};
  nothing.leased.mapping->as = kept.as();
  if (token.bytes == 0) return nothing;

  provider.check_stream(stream, device);
  const bool is_own = exporter_.made(token);
  if (is_own != kept.is_own()) {
    throw Error(Status::invalid_argument,
        is_own ? "token: names memory of this process, which stays at its own address"
               : "token: names memory of another process, and the import was of this one's");
  }
  if (is_own) {
    LeasedMapping leased = exporter_.claim(token, kept.as().access, stream);
    try {
      kept.require_there(*leased.mapping);
    } catch (...) {
      exporter_.release(leased.lease, {});
      throw;
    }
    return {std::move(leased), nullptr};
  }

  try {
    HeldLease::Taken taken = take(token, kept.as(), options, &kept);
    try {
      taken.connection->wait_for_exporter(token, provider, stream, device);
    } catch (...) {
      taken.connection->release(taken.leased, token, {});
      throw;
    }
    return taken;
  } catch (...) {
    kept.unmap();
    throw;
  }
}

std::vector<std::shared_ptr<ExporterConnection>> Importer::connections() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<ExporterConnection>> found;
  for (const auto& [id, peer] : peers_) {
    const std::lock_guard held(peer->mutex);
    if (peer->connection) found.push_back(peer->connection);
  }
  for (const auto& orphan : orphans_) {
    if (auto connection = orphan.lock()) found.push_back(std::move(connection));
  }
  return found;
}

std::shared_ptr<Mapping> Importer::containing(
    const void* pointer, uint64_t bytes, Token& token, bool& exporter_alive) {
  for (const auto& connection : connections()) {
    std::shared_ptr<Mapping> mapping = connection->containing(pointer, bytes, token);
    if (!mapping) continue;
    exporter_alive = connection->alive();
    return mapping;
  }
  return nullptr;
}

uint64_t Importer::collect() {
  uint64_t dropped = 0;
  for (const auto& connection : connections()) {
    dropped += connection->drop_unused();
  }

  std::vector<std::shared_ptr<ExporterConnection>> closed;  // outside of the locks
  const std::lock_guard lock(mutex_);
  std::erase_if(orphans_, [](const auto& orphan) { return orphan.expired(); });
  std::erase_if(peers_, [&](const auto& entry) {
    Peer& peer = *entry.second;
    if (!peer.asking.try_take()) return false;
    const std::unique_ptr<TimedMutex, void (*)(TimedMutex*)> taken(
        &peer.asking, [](TimedMutex* mutex) { mutex->give(); });
    bool idle = false;
    {
      const std::lock_guard held(peer.mutex);
      idle = !peer.connection || peer.connection->close_if_idle();
      if (idle && peer.connection) closed.push_back(std::move(peer.connection));
    }
    return idle;
  });

  return dropped;
}

void Importer::add_to(symm_ipc_stats_t& stats) {
  for (const auto& connection : connections()) {
    connection->add_to(stats);
  }
}
}  // namespace symm::ipc
