// The owner's side of sharing by tokens: makes tokens, lets importers in, ends what was given
// out. One lock, never held while anything waits.
#include "core/ipc/exporter.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/provider.hpp"
#include "core/backend/segment.hpp"
#include "core/base/background_tasks.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/log.hpp"
#include "core/base/peer_fd.hpp"
#include "core/base/process.hpp"
#include "core/base/reserve.hpp"
#include "core/base/wait.hpp"
#include "core/ipc/bundle.hpp"
#include "core/ipc/export.hpp"
#include "core/ipc/exporter_listener.hpp"
#include "core/ipc/lease.hpp"
#include "core/ipc/mapping.hpp"
#include "core/ipc/token.hpp"
#include "core/ipc/token_pad.hpp"
#include "core/ipc/validity_board.hpp"
#include "kernels/compare.hpp"
#include "symm/symm.h"

namespace symm::ipc {
Exporter::DeferredWork::~DeferredWork() {
  lock.unlock();
  if (on_monitor && !garbage.empty()) do_elsewhere([mine = std::move(garbage)] {});
  for (const auto& [level, text] : notes) {
    log::write(level, "%s", text.c_str());
  }
}

// Everything is opened or nothing: if this fails, the next export tries again.
void Exporter::open() {
  if (left_) throw Error(Status::unavailable, "export: this process is ending");
  const Id id = random_id();
  auto listener =
      std::make_shared<ExporterListener>(id, [this] { let_in(); }, [this] { on_time(); });
  auto board = host::Segment::create(sizeof(ValidityBoard), "symm-ipc-board");
  listener->start();
  listener_ = std::move(listener);
  board_ = std::move(board);
  exports_.emplace(ValidityBoard::in(*board_), id);
  importers_.emplace(*this, *exports_, statistics_);
}

void Exporter::leave() noexcept {
  const std::lock_guard lock(mutex_);
  left_ = true;
  if (listener_) listener_->close();
}

// ---- on the monitor's thread

template <class Work>
void Exporter::turn(const Work& work) noexcept {
  try {
    DeferredWork after(mutex_);
    after.on_monitor = true;
    if (!importers_) return;
    work();
    settle(after);
    announce();
  } catch (const std::exception& error) {
    log::write(log::Level::error, "sharing by tokens: %s", error.what());
  }
}

void Exporter::let_in() noexcept {
  turn([this] {
    uint64_t& rejected = statistics_.total.rejected_connections;
    const std::string why = listener_->accept(
        [this](PeerFd socket) { importers_->admit(std::move(socket), board_->fd()); },
        [this] { return importers_->evict_idle(); }, rejected);
    if (!why.empty()) {
      statistics_.notes.emplace_back(log::Level::warning, "an importer cannot be let in: " + why);
    }
  });
}

void Exporter::on_time() noexcept {
  turn([this] { listener_->start(); });
}

void Exporter::take_turn(uint64_t importer, bool dead) noexcept {
  turn([&] { importers_->take_turn(importer, dead); });
}

// ---- tokens

StreamWords* Exporter::stream_words(const Provider& provider) {
  const std::lock_guard lock(mutex_);
  if (!exports_) open();
  if (provider.kind() == BackendKind::host) return nullptr;
  if (!words_) words_ = provider.stream_words(board_, ValidityBoard::in(*board_).words);
  return words_.get();
}

Token Exporter::make_token(
    const Source& source, uint64_t bytes, const ExportOptions& options, void* stream) {
  // Without the lock: the driver may wait for room in the stream.
  StreamWords* words = stream_words(*source.provider);
  SYMM_POINT("ipc.export");
  const Position position = words != nullptr ? words->mark(stream, source.device) : Position{};
  DeferredWork after(mutex_);
  listener_->start();
  tend(after);
  require_room_for_token(options.capacity);
  return finish(enter(source, true), source.offset, bytes, options, position);
}

// A token that cannot be given to the caller is not made: it would be counted, and could hold the
// memory. All tokens of one directory have the same length.
void Exporter::require_room_for_token(size_t capacity) {
  Token token;
  token.directory = listener_->directory();
  require_room(capacity, encode(token).size());
}

// The export of a block. The lock is held.
Export& Exporter::enter(const Source& source, bool with_slot) {
  if (source.block->is_retired()) {
    throw Error(Status::invalid_argument,
        "pointer: the buffer there was released while it was being exported");
  }

  Export* exported = exports_->find(source.block->data());
  if (exported != nullptr && source.adopted && !exported->memory->still_at_owner()) {
    exports_->release(*exported);
    exported = nullptr;
  }

  if (exported == nullptr) {
    exported = &exports_->add(source.block, *source.provider, source.device, {}, with_slot);
    exported->adopted = source.adopted;
  }
  return *exported;
}

// The token of an export. The lock is held.
Token Exporter::finish(Export& exported, uint64_t offset, uint64_t bytes,
    const ExportOptions& options, Position position) {
  Token token = exports_->make_token(exported, offset, bytes, options);
  ++statistics_.total.tokens;
  token.position = position;
  token.machine = machine_id();
  token.pid = getpid();
  token.directory = listener_->directory();
  return token;
}

// ---- bundles

std::vector<TableBlock> Exporter::enter_all(std::span<const Source> sources, size_t capacity) {
  std::vector<TableBlock> blocks;
  blocks.reserve(sources.size());
  DeferredWork after(mutex_);
  listener_->start();
  tend(after);
  require_room_for_token(capacity);
  for (const Source& source : sources) {
    const Export& exported = enter(source, false);
    blocks.push_back({exported.id, exported.secret, exported.slot, exported.bytes,
        exported.mapped_bytes, exported.on_host ? 1U : 0U, UINT64_MAX, 0});
  }
  return blocks;
}

// The table is written without the lock, since there may be a million pieces. A buffer that is
// released meanwhile is found to be so afterwards.
Token Exporter::make_bundle(std::span<const Source> sources, std::span<const BundlePiece> pieces,
    const ExportOptions& options, void* stream) {
  const Source& first = sources.front();
  StreamWords* words = stream_words(*first.provider);
  SYMM_POINT("ipc.export");
  const Position position = words != nullptr ? words->mark(stream, first.device) : Position{};

  std::vector<TableBlock> blocks = enter_all(sources, options.capacity);
  for (const BundlePiece& piece : pieces) {
    if (piece.block == kNoBlock) continue;
    TableBlock& block = blocks[piece.block];
    block.first = std::min(block.first, piece.offset);
    block.end = std::max(block.end, piece.offset + piece.bytes);
  }

  const std::vector<std::byte> written = encode_table(blocks, pieces);
  const auto known = [&](Export** found) {
    const std::lock_guard lock(mutex_);
    *found = exports_->find_table(written);
    return *found != nullptr;
  };
  Export* exported = nullptr;
  std::shared_ptr<BundleTable> table;
  if (!known(&exported)) table = BundleTable::seal(written);

  DeferredWork after(mutex_);
  for (const TableBlock& block : blocks) {
    const Export* const there = exports_->find(block.id);
    if (there == nullptr || there->released) {
      throw Error(Status::invalid_argument,
          "pieces: a buffer of them was released while they were being exported");
    }
  }

  exported = exports_->find_table(written);
  if (exported == nullptr) {
    if (!table) table = BundleTable::seal(written);  // the one that was there has just ended
    std::vector<Export::Part> parts;
    for (const TableBlock& block : blocks) {
      parts.push_back({block.id, block.first, block.end - block.first});
    }
    exported = &exports_->add(std::move(table), *first.provider, first.device, std::move(parts));
  }
  return finish(*exported, 0, exported->bytes, options, position);
}

bool Exporter::made(const Token& token) {
  const std::lock_guard lock(mutex_);
  return exports_ && token.exporter == exports_->exporter();
}

void Exporter::released(const std::byte* data) noexcept {
  try {
    DeferredWork after(mutex_);
    Export* exported = exports_ ? exports_->find(data) : nullptr;
    if (exported == nullptr) return;
    exports_->release(*exported);
    tend(after);
  } catch (const std::exception& error) {
    log::write(log::Level::error, "release of an exported buffer: %s", error.what());
  }
}

void Exporter::end_all(const std::byte* data) {
  DeferredWork after(mutex_);
  Export* const exported = exports_ ? exports_->find(data) : nullptr;
  if (exported == nullptr) return;
  exports_->withdraw(*exported, 0, exported->bytes);
  exports_->release(*exported);
  tend(after);
}

// Replaces the blocks of a mapping by others of the same memory that can only be read.
void Exporter::map_for_reading(Mapping& mapping, const Token& token, const Provider& provider) {
  const int device = mapping.as.device;
  if (!mapping.table) {
    mapping.block = map_for_reading(token.block, *mapping.block, provider, device);
    return;
  }
  const std::span<const TableBlock> blocks = mapping.table->blocks();
  for (size_t i = 0; i < blocks.size(); ++i) {
    std::shared_ptr<Block>& block = mapping.blocks[i]->block;
    block = map_for_reading(blocks[i].id, *block, provider, device);
  }
}

// The memory once more, mapped for reading, as another process would map it. Without the lock.
std::shared_ptr<Block> Exporter::map_for_reading(
    uint64_t id, const Block& memory, const Provider& provider, int device) {
  {
    const std::lock_guard lock(mutex_);
    const Export* const exported = exports_->find(id);
    if (exported != nullptr) {
      if (auto there = exported->for_reading.lock()) return there;
    }
  }

  const ShareableHandle handle = memory.share();
  Fd own(fcntl(handle.fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!own) throw system_error(errno, "fcntl(F_DUPFD_CLOEXEC)", "memory of this process");
  std::shared_ptr<Block> mapped =
      provider.memory(device)->import(std::move(own), handle.extent, Access::read_only);

  const std::lock_guard lock(mutex_);
  if (Export* const exported = exports_->find(id)) exported->for_reading = mapped;
  return mapped;
}

std::optional<Exporter::Source> Exporter::shown_at(const void* pointer) {
  const std::lock_guard lock(mutex_);
  uint64_t offset = 0;
  const Export* const exported =
      exports_ ? exports_->shown_at(static_cast<const std::byte*>(pointer), &offset) : nullptr;
  if (exported == nullptr || !exported->memory) return std::nullopt;
  return Source{exported->memory, exported->provider, exported->device, offset, exported->adopted};
}

LeasedMapping Exporter::claim(const Token& token, Access access, void* stream) {
  LeasedMapping own{std::make_shared<Mapping>()};
  const Provider* provider = nullptr;
  {
    DeferredWork after(mutex_);
    tend(after);
    try {
      const Export& exported = exports_->require_valid(token);
      own.mapping->block = exported.memory;
      own.mapping->table = std::dynamic_pointer_cast<const BundleTable>(exported.memory);
      for (const Export::Part& part : exported.parts) {
        own.mapping->blocks.push_back(std::make_shared<Mapping>());
        own.mapping->blocks.back()->block = exports_->find(part.block)->memory;
      }
      own.mapping->as = {exported.device, access};
      provider = exported.provider;
      own.mapping->on_host = exported.on_host;
      own.mapping->is_borrowed = exported.is_borrowed;
    } catch (const Error&) {
      ++statistics_.total.refused_imports;
      throw;
    }
    std::shared_ptr<PadWriter> writer;
    if (auto pad = exports_->pad_of(token)) {
      writer = std::make_shared<PadWriter>(std::move(pad), getpid(), "this process");
      own.pad = std::make_shared<ImportedPad>(writer->pad(), writer->number());
    }
    own.lease = ++last_own_lease_;
    own_leases_.grant(*exports_, own.lease,
        {token.block, token.offset, token.bytes, {}, std::move(writer)}, token.number);
    ++statistics_.total.granted_leases;
  }

  try {
    const int device = own.mapping->as.device;
    if (access == Access::read_only) map_for_reading(*own.mapping, token, *provider);
    wait_for_export(token, stream, device);
  } catch (const std::exception&) {
    release(own.lease, {});
    throw;
  }

  return own;
}

void Exporter::wait_for_export(const Token& token, void* stream, int device) {
  StreamWords* const words = known_words();
  if (words != nullptr && token.position.word != kNoWord) {
    words->wait(stream, device, token.position);
  }
}

StreamWords* Exporter::known_words() {
  const std::lock_guard lock(mutex_);
  return words_.get();
}

Position Exporter::mark(void* stream, int device) {
  StreamWords* const words = known_words();
  return words != nullptr ? words->mark(stream, device) : Position{};
}

void Exporter::release(uint64_t lease, Position position) noexcept {
  try {
    DeferredWork after(mutex_);
    if (own_leases_.release(*exports_, lease, position, words()) == Leases::End::now) {
      ++statistics_.done.ended_leases;
    }
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

void Exporter::settle(DeferredWork& after) {
  std::vector<Retired> retired;
  const Exports::Freed freed =
      with_reserve([&] { return exports_->settle(after.garbage, retired); });
  importers_->retire(retired);
  after.notes.insert(after.notes.end(), statistics_.notes.begin(), statistics_.notes.end());
  statistics_.notes.clear();
  listener_->look_again(freed.next);
  statistics_.done.freed_blocks += freed.blocks;
  statistics_.done.freed_bytes += freed.bytes;
  const size_t limbo = exports_->in_limbo();

  if (limbo >= warn_at_) {
    after.notes.emplace_back(
        log::Level::warning, format("%zu released buffers are still held by importers: %s", limbo,
                                 holders_in_limbo().c_str()));
    warn_at_ = limbo * 2;
  } else if (limbo < kWarnAt / 2) {
    warn_at_ = kWarnAt;
  }
}

void Exporter::tend(DeferredWork& after) {
  if (own_leases_.on_streams()) {
    statistics_.done.ended_leases += own_leases_.drain(*exports_, words());
  }
  importers_->drain();
  settle(after);
}

std::string Exporter::holders_in_limbo() {
  std::string text;
  const auto add = [&](const std::string& name, const Leases& held) {
    size_t leases = 0;
    for (const auto& [number, lease] : held.all()) {
      const Export* exported = exports_->find(lease.block);
      if (exported != nullptr && exported->released) ++leases;
    }
    if (leases != 0 && text.size() < 300) {
      text += format("%s%s (%zu)", text.empty() ? "" : ", ", name.c_str(), leases);
    }
  };

  add("this process", own_leases_);
  for (const auto& [serial, importer] : importers_->all()) {
    add(importer->name(), importer->leases());
  }

  return text.empty() ? "nobody, but tokens that keep them have not run out" : text;
}

// ---- withdrawing, and who would be waited for

std::vector<Exporter::Awaited> Exporter::leases_on(const Lease& piece) const {
  std::vector<Lease> ranges = exports_->bundles_with(piece);
  ranges.push_back(piece);
  std::vector<Awaited> found;
  const auto add = [&](uint64_t importer, const Leases& held) {
    for (const Lease& range : ranges) {
      for (const uint64_t lease : held.overlapping(range)) {
        found.push_back({importer, lease});
      }
    }
  };

  add(0, own_leases_);
  for (const auto& [serial, importer] : importers_->all()) {
    add(serial, importer->leases());
  }
  return found;
}

symm_ipc_holders_t Exporter::holders(const std::byte* data, uint64_t offset, uint64_t bytes) {
  symm_ipc_holders_t holders{};
  DeferredWork after(mutex_);
  if (exports_) tend(after);
  const Export* exported = exports_ ? exports_->find(data) : nullptr;
  if (exported == nullptr) return holders;
  uint64_t last = UINT64_MAX;

  for (const Awaited& one : leases_on({exported->id, offset, bytes})) {
    ++holders.leases;
    if (one.importer != std::exchange(last, one.importer)) ++holders.processes;
    holders.pid =
        one.importer == 0 ? getpid() : importers_->find(one.importer)->connection().peer().pid;
  }

  holders.quarantined = exported->quarantined ? 1 : 0;
  return holders;
}

void Exporter::withdraw(
    const std::byte* data, uint64_t offset, uint64_t bytes, uint64_t timeout_ms) {
  uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    const Export* const exported = exports_ ? exports_->find(data) : nullptr;
    if (exported == nullptr) return;
    id = exported->id;
  }
  withdraw(id, offset, bytes, timeout_ms);
}

void Exporter::withdraw(const Token& token, uint64_t timeout_ms) {
  withdraw(token.block, token.offset, token.bytes, timeout_ms);
}

void Exporter::end(const Token& token) noexcept {
  try {
    DeferredWork after(mutex_);
    Export* const exported = exports_->find(token.block);
    if (exported == nullptr || exported->released) return;
    exports_->withdraw(*exported, token.offset, token.bytes);
    tend(after);
  } catch (const std::exception& error) {
    log::write(log::Level::error, "end of a token: %s", error.what());
  }
}

bool Exporter::is_held(const Token& token) {
  DeferredWork after(mutex_);
  tend(after);
  return exports_->find(token.block) != nullptr &&
         !leases_on({token.block, token.offset, token.bytes}).empty();
}

void Exporter::require_valid(const Token& token) {
  const std::lock_guard lock(mutex_);
  if (!exports_) throw Error(Status::invalid_argument, "token: it is of another exporter");
  exports_->require_valid(token);
}

uint64_t Exporter::bytes_of(const Token& token) {
  const std::lock_guard lock(mutex_);
  const Export* const exported = exports_ ? exports_->find(token.block) : nullptr;
  if (exported == nullptr || !exported->is_table() || !exported->memory) return token.bytes;
  return static_cast<const BundleTable&>(*exported->memory).piece_bytes();
}

std::string Exporter::directory() {
  const std::lock_guard lock(mutex_);
  if (!exports_) open();
  listener_->start();
  return listener_->directory();
}

// Nothing is left to be ended of a block that was released before its leases are over.
void Exporter::withdraw(uint64_t id, uint64_t offset, uint64_t bytes, uint64_t timeout_ms) {
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  std::vector<Awaited> awaited;
  std::vector<uint64_t> memory{id};
  {
    DeferredWork after(mutex_);
    Export* exported = exports_->find(id);
    if (exported == nullptr) return;
    for (const Export::Part& part : exported->parts) {
      memory.push_back(part.block);
    }
    if (!exported->released) {
      exports_->withdraw(*exported, offset, bytes);
    } else if (!exported->is_withdrawn) {
      exported->is_withdrawn = true;
      importers_->retire({{id, true}});
    }
    SYMM_POINT("ipc.withdraw");
    ++waiters_;
    importers_->want_to_hear(true);
    // The leases are looked for before a table that has ended, and that nobody holds, is forgotten.
    importers_->drain();
    awaited = leases_on({id, offset, bytes});
    // The library is not told when an adopted allocation is released, so this call
    // counts as its release.
    if (exported->adopted && bytes == exported->bytes) exports_->release(*exported);
    tend(after);
  }

  const bool all_over = await_end(awaited, deadline);
  DeferredWork after(mutex_);
  if (--waiters_ == 0) importers_->want_to_hear(false);
  const bool quarantined = std::any_of(memory.begin(), memory.end(), [this](uint64_t each) {
    const Export* const exported = exports_->find(each);
    return exported != nullptr && exported->quarantined;
  });
  settle(after);

  if (!all_over) {
    const ImporterConnection* holder = importers_->find(awaited.front().importer);
    const std::string name = holder == nullptr ? "this process" : holder->name();
    throw Error({Status::timeout, -1,
        holder == nullptr ? getpid() : holder->connection().peer().pid,
        format(
            "withdraw: %zu leases on this memory are not over after %lu ms, one of them held by %s",
            awaited.size(), timeout_ms == Deadline::kNow ? 0 : timeout_ms, name.c_str())});
  }

  if (quarantined) {
    throw Error(Status::peer_failed,
        "withdraw: a process that held this memory is gone, but what it had begun may still be "
        "writing: release the buffer "
        "instead of using it again");
  }
}

// Removes the leases that are over from `awaited`.
bool Exporter::await_end(std::vector<Awaited>& awaited, Deadline deadline) {
  constexpr uint64_t kStreamSliceMs = 1;  // a stream that passes a point wakes nobody
  for (;;) {
    uint32_t seen = 0;
    bool on_streams = false;
    {
      DeferredWork after(mutex_);
      seen = events_.load();
      tend(after);
      std::erase_if(awaited, [&](const Awaited& one) {
        if (one.importer == 0) return !own_leases_.has(one.lease);
        const ImporterConnection* holder = importers_->find(one.importer);
        return holder == nullptr || !holder->leases().has(one.lease);
      });
      if (awaited.empty()) return true;
      on_streams = own_leases_.on_streams() || importers_->on_streams();
    }

    if (deadline.expired()) return false;
    sleep_while(
        events_, seen, nullptr, 0, on_streams ? Deadline::after_ms(kStreamSliceMs) : deadline);
  }
}

// ---- pads

uint64_t Exporter::wait_value(
    const Token& token, int channel, Compare compare, uint64_t value, uint64_t timeout_ms) {
  std::shared_ptr<OwnedPad> pad;
  {
    const std::lock_guard lock(mutex_);
    if (!exports_ || token.exporter != exports_->exporter()) {
      throw Error(Status::invalid_argument,
          format(
              "token: it was made by process %ld, which alone can wait for its words", token.pid));
    }
    pad = exports_->pad_of(token);
  }

  if (!pad) throw Error(Status::invalid_argument, "token: it was made without channels");
  require_channel(pad->pad().shape(), channel, "channel");
  return pad->wait_value(static_cast<uint32_t>(channel), compare, value, timeout_ms);
}

void Exporter::fence(
    const std::byte* data, uint64_t offset, uint64_t bytes, uint64_t epoch, uint64_t timeout_ms) {
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  std::vector<std::shared_ptr<OwnedPad>> pads;
  {
    const std::lock_guard lock(mutex_);
    const Export* const exported = exports_ ? exports_->find(data) : nullptr;
    if (exported == nullptr) return;
    for (const auto& [number, pad] : exported->pads) {
      if (!pad->overlaps(offset, bytes)) continue;
      pad->require_whole_parts(offset, bytes);
      pads.push_back(pad);
    }
  }

  for (const auto& pad : pads) {
    pad->raise(offset, bytes, epoch);
  }
  for (const auto& pad : pads) {
    pad->await_late_puts(epoch, deadline);
  }
}

// ---- what can be asked

void Exporter::collect() {
  DeferredWork after(mutex_);
  if (exports_) tend(after);
}

void Exporter::fill(symm_ipc_collect_stats_t& report) {
  const std::lock_guard lock(mutex_);
  report = statistics_.done;
  if (exports_) exports_->add_to(report);
}

void Exporter::fill(symm_ipc_stats_t& stats) {
  DeferredWork after(mutex_);
  if (!exports_) return;
  tend(after);
  stats = statistics_.total;
  exports_->add_to(stats);
  const Clock::time_point now = Clock::now();
  Clock::time_point oldest = now;
  const auto count = [&](const Leases& held, int64_t pid, uint64_t start_time) {
    stats.leases += held.all().size();
    if (held.all().empty() || held.all().begin()->second.since >= oldest) return;
    oldest = held.all().begin()->second.since;
    stats.oldest_lease_ms = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(now - oldest).count());
    stats.oldest_lease_pid = pid;
    stats.oldest_lease_start_time = start_time;
  };

  if (!own_leases_.all().empty()) count(own_leases_, getpid(), process::start_time_of(getpid()));
  for (const auto& [serial, importer] : importers_->all()) {
    stats.consumers += importer->connection().open() ? 1 : 0;
    count(importer->leases(), importer->connection().peer().pid, importer->start_time());
  }
}
}  // namespace symm::ipc
