// SPDX-License-Identifier: Apache-2.0
#include "core/ipc/exporter.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "core/base/environment.hpp"
#include "core/base/log.hpp"
#include "core/base/process_stat.hpp"

namespace symm::ipc {
namespace {

std::string directory_for_sockets() {
  const std::string chosen = environment("SYMM_IPC_DIRECTORY");
  return chosen.empty() ? default_parent() : chosen;
}

ValidityBoard& board_in(const host::Segment& segment) { return *reinterpret_cast<ValidityBoard*>(segment.data()); }

}  // namespace

Exporter::DeferredWork::~DeferredWork() {
  if (!warning.empty()) log::write(log::Level::warning, "%s", warning.c_str());
}

// All or nothing: what fails here is tried anew by the next export.
void Exporter::open() {
  const std::string parent = directory_for_sockets();
  sweep(parent);
  const Id id = random_id();
  SharedDirectory directory = SharedDirectory::make(parent, "g");
  auto listener = std::make_unique<Listener>(directory.path(), hexadecimal(id));
  auto board = host::Segment::create(sizeof(ValidityBoard), "symm-ipc-board");
  Fd spare(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  auto door = make_door();
  watching_door_ = monitor_.watch(listener->get(), door);
  id_ = id;
  directory_.emplace(std::move(directory));
  listener_ = std::move(listener);
  board_ = std::move(board);
  spare_ = std::move(spare);
  door_ = std::move(door);
  exports_.emplace(board_in(*board_));
}

void Exporter::leave() noexcept {
  const std::lock_guard lock(mutex_);
  if (watching_door_ != 0) monitor_.forget(std::exchange(watching_door_, 0));
  listener_.reset();
  directory_.reset();
}

// ---- tokens

ExportedBlock* Exporter::exported_at(const std::byte* data) {
  const auto known = by_address_.find(data);
  return known == by_address_.end() || !exports_ ? nullptr : exports_->find(known->second);
}

StreamWords* Exporter::stream_words(const Provider& provider) {
  const std::lock_guard lock(mutex_);
  if (!exports_) open();
  if (provider.kind() == BackendKind::host) return nullptr;
  if (!words_) words_ = provider.stream_words(board_, board_in(*board_).words);
  return words_.get();
}

Token Exporter::make_token(const Source& source, uint64_t offset, uint64_t bytes, const ExportOptions& options, void* stream) {
  // Without the lock: the driver may wait for room in the stream.
  StreamWords* words = stream_words(*source.provider);
  Token token;
  if (words != nullptr) token.position = words->mark(stream, source.device);
  DeferredWork after;
  const std::lock_guard lock(mutex_);
  tend(after);
  ExportedBlock* block = exported_at(source.block->data());
  if (block != nullptr && source.adopted && !block->block->still_at_owner()) {
    exports_->release(*block);
    block = nullptr;
  }
  if (block == nullptr) {
    block = &exports_->add(source.block, *source.provider, source.device);
    block->adopted = source.adopted;
    by_address_[source.block->data()] = block->id;
  }
  ++tokens_;
  token.backend = static_cast<uint16_t>(block->kind);
  token.machine = machine_id();
  token.gpu = block->gpu;
  token.exporter = id_;
  token.secret = block->secret;
  token.block = block->id;
  token.number = exports_->number(*block, options.hold_ms, options.hold_imports);
  token.offset = offset;
  token.bytes = bytes;
  token.pid = getpid();
  token.slot = options.hold_ms != 0 ? kNoSlot : block->slot;  // imports of held tokens are counted, so they ask
  token.directory = directory_->path();
  return token;
}

bool Exporter::made(const Token& token) {
  const std::lock_guard lock(mutex_);
  return exports_ && token.exporter == id_;
}

void Exporter::released(const std::byte* data) noexcept {
  try {
    DeferredWork after;
    const std::lock_guard lock(mutex_);
    if (ExportedBlock* block = exported_at(data)) {
      by_address_.erase(data);
      exports_->release(*block);
      tend(after);
    }
  } catch (const std::exception& error) {
    log::write(log::Level::error, "release of an exported buffer: %s", error.what());
  }
}

Exporter::LocalImport Exporter::claim_here(const Token& token, void* stream) {
  LocalImport here;
  {
    DeferredWork after;
    const std::lock_guard lock(mutex_);
    tend(after);
    try {
      ExportedBlock& block = exports_->require_valid(token);
      here = {block.block, ++last_lease_here_, block.device};
    } catch (const Error&) {
      ++refused_;
      throw;
    }
    here_.grant(*exports_, here.lease, {token.block, token.offset, token.bytes}, token.number);
    ++grants_;
  }
  StreamWords* const words = known_words();
  if (words != nullptr && token.position.word != kNoWord) {
    try {
      words->wait(stream, here.device, token.position);
    } catch (const Error&) {
      release_here(here.lease, {});
      throw;
    }
  }
  return here;
}

StreamWords* Exporter::known_words() {
  const std::lock_guard lock(mutex_);
  return words_.get();
}

Position Exporter::mark_here(void* stream, int device) {
  StreamWords* const words = known_words();
  return words != nullptr ? words->mark(stream, device) : Position{};
}

void Exporter::release_here(uint64_t lease, Position position) noexcept {
  try {
    DeferredWork after;
    const std::lock_guard lock(mutex_);
    if (here_.release(*exports_, lease, position, board_in(*board_).words) == Holder::End::now) ++ended_;
    settle(after);
    announce();
  } catch (const std::exception& error) {
    log::write(log::Level::error, "release of an import: %s", error.what());
  }
}

// ---- looking after what was given out

void Exporter::announce() noexcept {
  events_.fetch_add(1);
  if (waiters_ > 0) wake_all(events_);
}

void Exporter::drain_all() {
  ended_ += here_.on_streams() ? here_.drain(*exports_, board_in(*board_).words) : 0;
  for (auto at = consumers_.begin(); at != consumers_.end();) drain(at);
}

// Moves on to the next.
void Exporter::drain(Consumers::iterator& at) {
  const Consumers::iterator current = at++;
  try {
    ended_ += current->second->drain(*exports_);
  } catch (const Error& error) {
    break_off(current, error.what());
  }
}

void Exporter::settle(DeferredWork& after) {
  std::vector<uint64_t> retired;
  const Freed freed = exports_->settle(after.garbage, retired);
  freed_.blocks += freed.blocks;
  freed_.bytes += freed.bytes;
  for (const auto& [serial, consumer] : consumers_) {
    for (const uint64_t block : retired) consumer->retire(block);
    consumer->tell_retired();
  }
  const size_t limbo = exports_->limbo_blocks();
  if (limbo >= warn_at_) {
    after.warning = format("%zu released buffers are still held by importers: %s", limbo, holders_in_limbo().c_str());
    warn_at_ = limbo * 2;
  } else if (limbo < kWarnAt / 2) {
    warn_at_ = kWarnAt;
  }
}

void Exporter::tend(DeferredWork& after) {
  drain_all();
  settle(after);
}

std::string Exporter::holders_in_limbo() {
  std::string text;
  const auto add = [&](const std::string& name, const Holder& holder) {
    size_t leases = 0;
    for (const auto& [number, lease] : holder.leases()) {
      const ExportedBlock* block = exports_->find(lease.piece.block);
      if (block != nullptr && block->released) ++leases;
    }
    if (leases != 0 && text.size() < 300) text += format("%s%s (%zu)", text.empty() ? "" : ", ", name.c_str(), leases);
  };
  add("this process", here_);
  for (const auto& [serial, consumer] : consumers_) add(consumer->name(), consumer->holder());
  return text.empty() ? "nobody, but tokens that keep them have not run out" : text;
}

// ---- withdrawing

void Exporter::withdraw(const std::byte* data, uint64_t offset, uint64_t bytes, uint64_t timeout_ms) {
  const Deadline deadline = timeout_ms == Deadline::kInfinite ? Deadline::never() : Deadline::after_ms(timeout_ms);
  std::vector<std::pair<uint64_t, uint64_t>> awaited;  // consumer (0: this process), lease
  uint64_t id = 0;
  {
    DeferredWork after;
    const std::lock_guard lock(mutex_);
    ExportedBlock* block = exported_at(data);
    if (block == nullptr) return;
    id = block->id;
    exports_->withdraw(*block, offset, bytes);
    ++waiters_;
    for (const auto& [serial, consumer] : consumers_) consumer->want_to_hear(true);
    tend(after);
    const Piece piece{id, offset, bytes};
    for (const uint64_t lease : here_.overlapping(piece)) awaited.emplace_back(0, lease);
    for (const auto& [serial, consumer] : consumers_) {
      for (const uint64_t lease : consumer->holder().overlapping(piece)) awaited.emplace_back(serial, lease);
    }
    // An adopted allocation has nobody to say that it is released: this is as good a word.
    if (block->adopted && bytes == block->bytes) {
      by_address_.erase(data);
      exports_->release(*block);
    }
  }
  const bool all_over = await_end(awaited, deadline);
  DeferredWork after;
  const std::lock_guard lock(mutex_);
  if (--waiters_ == 0) {
    for (const auto& [serial, consumer] : consumers_) consumer->want_to_hear(false);
  }
  const ExportedBlock* block = exports_->find(id);
  const bool quarantined = block != nullptr && block->quarantined;
  settle(after);
  if (!all_over) {
    const auto holder = consumers_.find(awaited.front().first);
    const std::string name = holder == consumers_.end() ? "this process" : holder->second->name();
    throw Error(Status::timeout, format("withdraw: %zu leases on this memory are not over after %llu ms, one of them held by %s",
                                        awaited.size(), static_cast<unsigned long long>(timeout_ms), name.c_str()));
  }
  if (quarantined) {
    throw Error(
        Status::peer_failed,
        "withdraw: a process that held this memory is gone, but what it had begun may still be writing: release the buffer "
        "instead of using it again");
  }
}

// What is over is taken from `awaited`.
bool Exporter::await_end(std::vector<std::pair<uint64_t, uint64_t>>& awaited, Deadline deadline) {
  constexpr uint64_t kStreamSliceMs = 1;  // a stream that passes a point wakes nobody
  for (;;) {
    uint32_t seen = 0;
    bool on_streams = false;
    {
      DeferredWork after;
      const std::lock_guard lock(mutex_);
      seen = events_.load();
      tend(after);
      std::erase_if(awaited, [&](const auto& one) {
        if (one.first == 0) return !here_.has(one.second);
        const auto consumer = consumers_.find(one.first);
        return consumer == consumers_.end() || !consumer->second->holder().has(one.second);
      });
      if (awaited.empty()) return true;
      on_streams = here_.on_streams();
      for (const auto& [serial, consumer] : consumers_) on_streams = on_streams || consumer->holder().on_streams();
    }
    if (deadline.expired()) return false;
    sleep_while(events_, seen, nullptr, 0, on_streams ? Deadline::after_ms(kStreamSliceMs) : deadline);
  }
}

// ---- what can be asked

void Exporter::collect() {
  DeferredWork after;
  const std::lock_guard lock(mutex_);
  if (exports_) tend(after);
}

void Exporter::add_to(Report& report) {
  const std::lock_guard lock(mutex_);
  report.leases_ended = ended_ - std::exchange(reported_.leases_ended, ended_);
  report.leases_written_off = written_off_ - std::exchange(reported_.leases_written_off, written_off_);
  report.blocks_freed = freed_.blocks - std::exchange(reported_.blocks_freed, freed_.blocks);
  report.bytes_freed = freed_.bytes - std::exchange(reported_.bytes_freed, freed_.bytes);
  if (!exports_) return;
  exports_->each_in_limbo([&](const ExportedBlock& block) {
    ++report.blocks_in_limbo;
    report.bytes_in_limbo += block.bytes;
  });
}

void Exporter::add_to(Stats& stats) {
  DeferredWork after;
  const std::lock_guard lock(mutex_);
  if (!exports_) return;
  tend(after);
  stats.tokens = tokens_;
  stats.grants = grants_;
  stats.written_off = written_off_;
  stats.refused = refused_;
  stats.rejected_connections = rejected_;
  for (const auto& [id, block] : exports_->blocks()) {
    const bool importable = !block.released || !block.holds.empty();
    stats.exported_blocks += importable ? 1 : 0;
    stats.exported_bytes += importable ? block.bytes : 0;
    stats.leased_blocks += block.leases != 0 ? 1 : 0;
    stats.limbo_blocks += block.released ? 1 : 0;
    stats.limbo_bytes += block.released ? block.bytes : 0;
    stats.quarantined_blocks += block.quarantined ? 1 : 0;
    stats.quarantined_bytes += block.quarantined ? block.bytes : 0;
  }
  const Clock::time_point now = Clock::now();
  Clock::time_point oldest = now;
  const auto count = [&](const Holder& holder, int64_t pid, uint64_t start_time) {
    stats.leased += holder.leases().size();
    if (holder.leases().empty() || holder.leases().begin()->second.since >= oldest) return;
    oldest = holder.leases().begin()->second.since;
    stats.oldest_lease_ms = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now - oldest).count());
    stats.oldest_lease_pid = pid;
    stats.oldest_lease_start_time = start_time;
  };
  if (!here_.leases().empty()) {
    const auto self = process_stat(getpid());
    count(here_, getpid(), self ? self->start : 0);
  }
  for (const auto& [serial, consumer] : consumers_) {
    stats.consumers += consumer->connected() ? 1 : 0;
    count(consumer->holder(), consumer->pid(), consumer->start_time());
  }
}

}  // namespace symm::ipc
