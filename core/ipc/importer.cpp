// SPDX-License-Identifier: Apache-2.0
#include "core/ipc/importer.hpp"
#include "core/backends.hpp"

#include "core/base/log.hpp"

namespace symm::ipc {
namespace {

void require_same_machine(const Token& token) {
  if (token.machine == machine_id()) return;
  throw Error(Status::unavailable, format("token: it was made on another machine (boot id %s, here %s)",
                                          hexadecimal(token.machine).c_str(), hexadecimal(machine_id()).c_str()));
}

std::string directory_of(const Token& token, const ImportOptions& options) {
  if (options.directory.empty()) return token.directory;
  return options.directory + token.directory.substr(token.directory.rfind('/'));
}

}  // namespace

// ---- one import

Imported::Imported(const Token& token, int device, Exporter& exporter, std::shared_ptr<ExporterLink> link,
                   ExporterLink::Import import)
    : token_(token),
      device_(device),
      block_(import.mapped->block),
      link_(std::move(link)),
      import_(std::move(import)),
      exporter_(exporter) {}

Imported::Imported(const Token& token, Exporter& exporter, Exporter::LocalImport here)
    : token_(token), device_(here.device), block_(std::move(here.block)), exporter_(exporter), lease_here_(here.lease) {}

Imported::~Imported() {
  const std::byte* const data = block_->data();
  block_.reset();
  if (!link_) {
    if (!never_over_) exporter_.release_here(lease_here_, over_);
  } else if (link_->release(import_, token_.offset, token_.number, over_)) {
    exporter_.released(data);  // in case that it was exported from here, its owner being dead
  }
}

void Imported::release_after(void* stream) noexcept {
  if (kind() == BackendKind::host) return;
  try {
    over_ = link_ ? link_->mark(ipc_provider(kind()), stream, device_) : exporter_.mark_here(stream, device_);
  } catch (const std::exception& error) {
    log::write(log::Level::warning, "symm_ipc_release: the lease ends with this process, because its stream cannot be asked: %s",
               error.what());
    over_ = {0, kPassed * 2 - 1};
    never_over_ = true;
  }
}

// ---- all of them

std::shared_ptr<Importer::Peer> Importer::peer_of(const Id& exporter) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Peer>& peer = peers_[exporter];
  if (!peer) peer = std::make_shared<Peer>();
  return peer;
}

std::shared_ptr<Imported> Importer::import(const Token& token, const ImportOptions& options, void* stream) {
  require_same_machine(token);
  const Provider& memory = ipc_provider(static_cast<BackendKind>(token.backend));
  if (exporter_.made(token)) {
    memory.check_stream(stream, memory.device_for(token.gpu, options.device));
    return std::make_shared<Imported>(token, exporter_, exporter_.claim_here(token, stream));
  }
  const int device = memory.device_for(token.gpu, options.device);
  memory.check_stream(stream, device);
  const std::shared_ptr<Peer> peer = peer_of(token.exporter);
  std::shared_ptr<ExporterLink> link;
  {
    const std::lock_guard lock(peer->mutex);
    link = peer->link;
  }
  ExporterLink::Import got;
  if (link) got = link->claim(token, device);
  if (got.lease == 0) {
    const Deadline deadline = Deadline::after_ms(options.timeout_ms);
    const TimedLock turn(peer->turn, options.timeout_ms, "import");
    {
      const std::lock_guard lock(peer->mutex);
      link = peer->link;
    }
    if (!link || !link->alive()) {
      std::shared_ptr<ExporterLink> fresh;
      try {
        fresh = ExporterLink::connect(token, directory_of(token, options), monitor_, deadline);
      } catch (const Error&) {
        const std::lock_guard lock(mutex_);
        if (!link) peers_.erase(token.exporter);  // nobody: not to be remembered
        throw;
      }
      const std::lock_guard lock(mutex_);
      if (link) orphans_.push_back(link);
      link = fresh;
      const std::lock_guard held(peer->mutex);
      peer->link = std::move(fresh);
    }
    got = link->request(token, device, memory, deadline);
  }
  auto imported = std::make_shared<Imported>(token, device, exporter_, link, std::move(got));
  link->wait_for_producer(token, memory, stream, device);
  return imported;
}

std::vector<std::shared_ptr<ExporterLink>> Importer::links() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<ExporterLink>> found;
  for (const auto& [id, peer] : peers_) {
    const std::lock_guard held(peer->mutex);
    if (peer->link) found.push_back(peer->link);
  }
  for (const auto& orphan : orphans_) {
    if (auto link = orphan.lock()) found.push_back(std::move(link));
  }
  return found;
}

std::optional<Importer::Found> Importer::find(const void* pointer, uint64_t bytes) {
  for (const auto& link : links()) {
    Found found;
    ExporterLink::Import import;
    uint64_t offset = 0;
    if (!link->find(pointer, bytes, found.token, import, offset)) continue;
    found.block = import.mapped->block;
    found.device = import.mapped->device;
    found.exporter_alive = link->alive();
    return found;
  }
  return std::nullopt;
}

void Importer::collect(Report& report) {
  for (const auto& link : links()) report.mappings_dropped += link->drop_unused();
  std::vector<std::shared_ptr<ExporterLink>> closed;  // outside of the locks
  const std::lock_guard lock(mutex_);
  std::erase_if(orphans_, [](const auto& orphan) { return orphan.expired(); });
  std::erase_if(peers_, [&](const auto& entry) {
    Peer& peer = *entry.second;
    if (!peer.turn.try_take()) return false;
    bool idle = false;
    {
      const std::lock_guard held(peer.mutex);
      idle = !peer.link || peer.link->close_if_idle();
      if (idle && peer.link) closed.push_back(std::move(peer.link));
    }
    peer.turn.give();
    return idle;
  });
}

void Importer::add_to(Stats& stats) {
  for (const auto& link : links()) {
    const ExporterLink::Counts counts = link->counts();
    stats.imported += counts.imports;
    stats.imported_blocks += counts.blocks;
    stats.imported_bytes += counts.bytes;
    stats.exporters += link->alive() ? 1 : 0;
  }
}

}  // namespace symm::ipc
