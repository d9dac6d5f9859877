// The calls of symm_ipc_*: finds whose memory an address is, and asks the exporter or the
// importer of this process.
#include "core/ipc/ipc.hpp"

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/borrowed.hpp"
#include "core/backend/provider.hpp"
#include "core/backends.hpp"
#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/layouts.hpp"
#include "core/base/per_process.hpp"
#include "core/ipc/bundle.hpp"
#include "core/ipc/export.hpp"
#include "core/ipc/exporter.hpp"
#include "core/ipc/held_lease.hpp"
#include "core/ipc/importer.hpp"
#include "core/ipc/publication.hpp"
#include "core/ipc/token.hpp"
#include "kernels/compare.hpp"
#include "symm/symm.h"

namespace symm::ipc {
namespace {
struct Service {
  Exporter exporter;
  Importer importer{exporter};
  Publications publications{exporter};
  std::atomic<uint64_t> collections{0};
  std::atomic<uint64_t> dropped_mappings{0};
  const int64_t pid = getpid();
};

using Services = PerProcess<Service>;

struct Buffers {
  struct Entry {
    std::weak_ptr<Block> block;
    uint64_t bytes;
    BackendKind kind;
    int device;
  };

  std::mutex mutex;
  std::map<uintptr_t, Entry> by_address;
};

using AllBuffers = PerProcess<Buffers>;

uintptr_t number(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

void require_range(uint64_t offset, uint64_t bytes, uint64_t whole) {
  if (bytes <= whole - offset) return;
  throw Error(Status::invalid_argument,
      format("bytes: %lu bytes at this pointer go beyond the memory of %lu bytes", bytes, whole));
}

std::optional<Exporter::Source> buffer_at(const void* pointer, uint64_t bytes) {
  Buffers& buffers = AllBuffers::current();
  const std::lock_guard lock(buffers.mutex);
  auto at = buffers.by_address.upper_bound(number(pointer));
  if (at == buffers.by_address.begin()) return std::nullopt;
  --at;
  const uint64_t offset = number(pointer) - at->first;
  const Buffers::Entry& entry = at->second;
  std::shared_ptr<Block> block = entry.block.lock();
  const bool is_inside = offset < entry.bytes || (offset == entry.bytes && bytes == 0);
  if (!is_inside || !block) return std::nullopt;
  require_range(offset, bytes, entry.bytes);

  return Exporter::Source{std::move(block), &ipc_provider(entry.kind), entry.device, offset};
}

std::optional<Exporter::Source> adopted_at(const void* pointer, uint64_t bytes) {
  const Provider* cuda = nullptr;
  try {
    cuda = &ipc_provider(BackendKind::cuda);
  } catch (const Error&) {
    return std::nullopt;  // no driver, so nothing of its
  }

  const std::optional<int> device = cuda->device_of(pointer);
  if (!device) return std::nullopt;
  std::shared_ptr<Block> block = cuda->memory(*device)->adopt(pointer, ShareableMemory::kWhole);
  const uint64_t offset = number(pointer) - number(block->data());
  require_range(offset, bytes, block->size());

  return Exporter::Source{std::move(block), cuda, *device, offset, true};
}

// The place of memory that can be exported.
struct Place {
  Exporter::Source source;
  // The lease by which the memory was imported, if its owner lives: only the owner can hold and
  // withdraw it.
  std::optional<Token> token;
};

std::optional<Place> imported_at(const void* pointer, uint64_t bytes) {
  Service* service = Services::existing();
  if (service == nullptr) return std::nullopt;
  Token token;
  bool exporter_alive = false;
  const auto mapping = service->importer.containing(pointer, bytes, token, exporter_alive);
  if (!mapping) return std::nullopt;
  const Provider& provider = ipc_provider(static_cast<BackendKind>(token.backend));
  Place place{{mapping->block, &provider, mapping->as.device, token.offset}, std::nullopt};
  if (exporter_alive) {
    place.token = std::move(token);
  } else if (mapping->is_borrowed) {
    throw Error({Status::peer_failed, -1, token.pid,
        format("pointer: process %ld is gone, and the memory that it had of cudaMalloc with it",
            token.pid)});
  }
  return place;
}

// Memory of this process at an address at which it has imported the memory for reading.
std::optional<Exporter::Source> shown_at(const void* pointer, uint64_t bytes) {
  Service* service = Services::existing();
  if (service == nullptr) return std::nullopt;
  std::optional<Exporter::Source> source = service->exporter.shown_at(pointer);
  if (source) require_range(source->offset, bytes, source->block->size());
  return source;
}

std::optional<Place> place_of(const void* pointer, uint64_t bytes) {
  if (auto source = buffer_at(pointer, bytes)) return Place{std::move(*source), std::nullopt};
  if (auto source = shown_at(pointer, bytes)) return Place{std::move(*source), std::nullopt};
  if (auto place = imported_at(pointer, bytes)) return place;
  if (pointer == nullptr) return std::nullopt;
  if (auto source = adopted_at(pointer, bytes)) return Place{std::move(*source), std::nullopt};
  return std::nullopt;
}

Place require_place(const void* pointer, uint64_t bytes) {
  if (auto place = place_of(pointer, bytes)) return std::move(*place);
  if (pointer == nullptr) throw Error(Status::invalid_argument, "pointer: is NULL");
  throw Error(Status::invalid_argument, format("pointer: %p lies in no buffer and no import of "
                                               "this process, and no driver can export it",
                                            pointer));
}

// The source of memory for which this process makes the tokens. Throws Error if another does.
Exporter::Source own_source(const void* pointer, uint64_t bytes) {
  Place place = require_place(pointer, bytes);
  if (place.token) {
    throw Error(Status::invalid_argument,
        "pointer: only the process that owns this memory can withdraw it, or see who holds it");
  }
  return std::move(place.source);
}

// A token for an address that belongs to no memory and so has no owner; a device may have had it.
Token token_of_nothing(const void* pointer) {
  const std::optional<Place> place = place_of(pointer, 0);
  const Provider& provider = place ? *place->source.provider : ipc_provider(BackendKind::host);
  Token token;
  token.backend = static_cast<uint16_t>(provider.kind());
  token.machine = machine_id();
  token.gpu = provider.gpu(place ? place->source.device : 0);
  token.pid = getpid();
  token.slot = kNoSlot;
  token.directory = "/";
  return token;
}

// What the environment says of holds, where the caller says nothing.
void settle_hold(ExportOptions& options) {
  if (options.hold_ms == 0 && !options.no_hold && *environment("SYMM_IPC_HOLD_MS") != '\0') {
    options.hold_ms = milliseconds("SYMM_IPC_HOLD_MS");
  }

  if (options.hold_imports != 0 && options.hold_ms == 0) {
    throw Error(
        Status::invalid_argument, "options.hold_imports: is set, but hold_ms, its limit, is 0");
  }
}

// A token holds memory for the imports to come. What is not symm's to keep cannot be held: that is
// refused if the call asks for it, and left out if the environment does for all tokens.
void settle_hold(ExportOptions& options, const Exporter::Source& source, bool is_asked_for) {
  if (options.hold_ms == 0 || !is_borrowed(source.block.get())) return;
  if (is_asked_for) {
    throw Error(Status::unsupported,
        "options.hold_ms: the memory is of cudaMalloc, which goes when its owner frees it");
  }
  options.hold_ms = 0;
}

void require_no_channels(const ExportOptions& options, bool is_without, const char* what) {
  if (options.channels == 0 || !is_without) return;
  throw Error(Status::unsupported, format("options.channels: %u, for %s", options.channels, what));
}

// Channels are words between those who live, so a token that has some is not held, whatever the
// environment says of all tokens.
void settle_channels(ExportOptions& options, const Place& place) {
  if (options.channels == 0) return;
  require_no_channels(options, place.token.has_value(), "memory of another process");
  require_no_channels(
      options, place.source.provider->kind() != BackendKind::host, "memory of a GPU");
  options.hold_ms = 0;
}

// The blocks of the pieces of a bundle, each found once.
class BundleSources {
 public:
  // The piece as the table has it. Throws Error(invalid_argument) with words that begin as those
  // for a piece of its own do.
  BundlePiece place(const symm_ipc_piece_t& piece) {
    BundlePiece placed{kNoBlock, 0, piece.bytes, piece.name, piece.about, piece.about_bytes};
    if (piece.bytes == 0) return placed;

    const uintptr_t address = number(piece.pointer);
    auto at = by_address_.upper_bound(address);
    if (at == by_address_.begin() || !is_in(*std::prev(at), address)) {
      at = std::next(add(piece.pointer, piece.bytes));
    }
    const auto& [start, index] = *std::prev(at);
    placed.block = index;
    placed.offset = address - start;
    require_range(placed.offset, piece.bytes, sources_[index].block->size());
    return placed;
  }
  const std::vector<Exporter::Source>& all() const noexcept { return sources_; }

 private:
  using ByAddress = std::map<uintptr_t, uint32_t>;

  bool is_in(const ByAddress::value_type& entry, uintptr_t address) const {
    return address - entry.first < sources_[entry.second].block->size();
  }

  ByAddress::iterator add(const void* pointer, uint64_t bytes) {
    Place place = require_place(pointer, bytes);
    if (place.token) {
      throw Error(Status::invalid_argument,
          format("pointer: the memory is that of process %ld, which alone can make a bundle of it",
              place.token->pid));
    }
    Exporter::Source& source = place.source;
    if (!sources_.empty() &&
        (source.provider != sources_[0].provider || source.device != sources_[0].device)) {
      throw Error(Status::invalid_argument,
          "pointer: the memory is that of another device than that of the pieces before it");
    }

    const uintptr_t start = number(source.block->data());
    source.offset = 0;
    sources_.push_back(std::move(source));
    return by_address_.emplace(start, static_cast<uint32_t>(sources_.size() - 1)).first;
  }

  std::vector<Exporter::Source> sources_;
  ByAddress by_address_;
};

// Refuses texts of a piece that a table cannot have.
void require_texts(const symm_ipc_piece_t& piece) {
  if (piece.name != nullptr) require_name(piece.name, "name");
  if (piece.about_bytes > kLongestAbout) {
    throw Error(Status::invalid_argument,
        format("about_bytes: %lu is more than %zu", piece.about_bytes, kLongestAbout));
  }
  if (piece.about == nullptr && piece.about_bytes != 0) {
    throw Error(Status::invalid_argument,
        format("about: is NULL, and about_bytes is %lu", piece.about_bytes));
  }
}

// Does something with a piece, and names it in the message if that fails.
template <class Work>
void naming_piece(size_t index, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    Failure failure = error.failure();
    failure.message = format("pieces[%zu].%s", index, failure.message.c_str());
    throw Error(std::move(failure));
  }
}

// Only the process that made them leaves; a forked child of it has none.
[[gnu::destructor]] void leave_at_exit() {
  Service* service = Services::existing();
  if (service != nullptr && service->pid == getpid()) service->exporter.leave();
}
}  // namespace

uint64_t timeout_or_default(uint64_t timeout_ms) {
  return timeout_ms != 0 ? timeout_ms : milliseconds("SYMM_TIMEOUT_MS");
}

void buffer_made(const std::shared_ptr<Block>& block, size_t bytes, BackendKind kind, int device) {
  Buffers& buffers = AllBuffers::current();
  const std::lock_guard lock(buffers.mutex);
  buffers.by_address[number(block->data())] = {block, bytes, kind, device};
}

// Another thread may have found the block for a token. If it makes the token before released(), the
// token ends there; if after, it finds the block retired.
void buffer_gone(Block& block) noexcept {
  block.retire();
  Buffers* buffers = AllBuffers::existing();
  if (buffers == nullptr) return;  // made before a fork
  {
    const std::lock_guard lock(buffers->mutex);
    buffers->by_address.erase(number(block.data()));
  }
  if (Service* service = Services::existing()) {
    service->exporter.released(block.start());
    service->publications.drop_ended();
  }
}

void buffer_suspended(Block& block, BackendKind kind, int device, void* stream) {
  ipc_provider(kind).check_stream(stream, device);
  Buffers& buffers = AllBuffers::current();
  {
    const std::lock_guard lock(buffers.mutex);
    buffers.by_address.erase(number(block.data()));
  }
  if (Service* service = Services::existing()) {
    service->exporter.end_all(block.start());
    service->publications.drop_ended();
  }
}

std::vector<std::byte> export_memory(
    const void* pointer, uint64_t bytes, ExportOptions options, void* stream) {
  const bool is_hold_asked_for = options.hold_ms != 0;
  settle_hold(options);
  require_no_channels(options, bytes == 0, "a token of no bytes");

  const auto fitting = [&](const Token& token) {
    std::vector<std::byte> encoded = encode(token);
    require_room(options.capacity, encoded.size());
    return encoded;
  };
  if (bytes == 0) return fitting(token_of_nothing(pointer));
  // The service is there before the memory is found, so that the release of what was found sees it.
  Service& service = Services::current();
  const Place place = require_place(pointer, bytes);
  const auto& [source, token] = place;
  source.provider->check_stream(stream, source.device);
  settle_channels(options, place);

  if (!token) {
    settle_hold(options, source, is_hold_asked_for || options.hold_imports != 0);
    return fitting(service.exporter.make_token(source, bytes, options, stream));
  }

  if (is_hold_asked_for) {
    throw Error(Status::unsupported,
        "options.hold_ms: the memory is another process's, which alone can hold it");
  }

  // The token names the owner, whose stream knows nothing of ours.
  source.provider->finish(stream, source.device);
  return fitting(*token);
}

std::vector<std::byte> export_bundle(
    std::span<const symm_ipc_piece_t> pieces, ExportOptions options, void* stream) {
  const bool is_hold_asked_for = options.hold_ms != 0 || options.hold_imports != 0;
  settle_hold(options);
  require_no_channels(options, true, "a bundle");
  // The service is there before the memory is found, so that the release of what was found sees it.
  Service& service = Services::current();
  BundleSources sources;
  std::vector<BundlePiece> placed;
  placed.reserve(pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    naming_piece(i, [&] {
      require_texts(pieces[i]);
      placed.push_back(sources.place(pieces[i]));
    });
  }

  if (sources.all().empty()) {
    throw Error(Status::invalid_argument, "pieces: none of them has any bytes");
  }
  const Exporter::Source& first = sources.all().front();
  first.provider->check_stream(stream, first.device);
  for (const Exporter::Source& source : sources.all()) {
    settle_hold(options, source, is_hold_asked_for);
  }
  return encode(service.exporter.make_bundle(sources.all(), placed, options, stream));
}

namespace {
// The token of these bytes, which may come from anywhere. Throws Error if they are none.
Token require_token(std::span<const std::byte> bytes) {
  Token token;
  const TokenFault fault = decode(bytes, token);
  if (fault.status == Status::unsupported) {
    throw Error(fault.status, "token: " + both_stamps(layouts::token, fault.stamp, "its maker"));
  }
  if (fault.status != Status::ok) throw Error(fault.status, format("token: %s", fault.why));
  return token;
}
}  // namespace

// A token that is invalid is refused before any process is asked.
std::shared_ptr<HeldLease> import_memory(
    std::span<const std::byte> bytes, ImportOptions options, void* stream) {
  const Token token = require_token(bytes);
  options.timeout_ms = timeout_or_default(options.timeout_ms);
  return Services::current().importer.import(token, options, stream);
}

void resume_import(
    HeldLease& held, std::span<const std::byte> bytes, ImportOptions options, void* stream) {
  options.timeout_ms = timeout_or_default(options.timeout_ms);
  Importer& importer = Services::current().importer;
  if (bytes.empty()) return importer.resume(held, nullptr, options, stream);
  const Token token = require_token(bytes);
  importer.resume(held, &token, options, stream);
}

void withdraw(const void* pointer, uint64_t bytes, uint64_t timeout_ms) {
  if (bytes == 0) return;
  const Exporter::Source source = own_source(pointer, bytes);
  timeout_ms = timeout_or_default(timeout_ms);
  if (Service* service = Services::existing()) {
    service->exporter.withdraw(source.block->data(), source.offset, bytes, timeout_ms);
    service->publications.drop_ended();
  }
}

uint64_t wait_value(std::span<const std::byte> bytes, int channel, Compare compare, uint64_t value,
    uint64_t timeout_ms, void* stream) {
  const Token token = require_token(bytes);
  ipc_provider(static_cast<BackendKind>(token.backend)).check_stream(stream, 0);
  timeout_ms = timeout_or_default(timeout_ms);
  return Services::current().exporter.wait_value(token, channel, compare, value, timeout_ms);
}

void fence(const void* pointer, uint64_t bytes, uint64_t epoch, uint64_t timeout_ms, void* stream) {
  if (bytes == 0) return;
  const Exporter::Source source = own_source(pointer, bytes);
  source.provider->check_stream(stream, source.device);
  timeout_ms = timeout_or_default(timeout_ms);
  Service* const service = Services::existing();
  if (service == nullptr) return;
  service->exporter.fence(source.block->data(), source.offset, bytes, epoch, timeout_ms);
}

void publish(
    const std::string& name, uint64_t version, std::span<const std::byte> bytes, uint64_t keep) {
  Services::current().publications.add(name, version, require_token(bytes), keep);
}

Found look_up(const std::string& name, Compare compare, uint64_t version,
    const std::string& directory, uint64_t timeout_ms) {
  timeout_ms = timeout_or_default(timeout_ms);
  return find_published(name, compare, version, directory, timeout_ms);
}

void withdraw_version(const std::string& name, uint64_t version, uint64_t timeout_ms) {
  timeout_ms = timeout_or_default(timeout_ms);
  Services::current().publications.withdraw(name, version, timeout_ms);
}

symm_ipc_holders_t holders(const void* pointer, uint64_t bytes) {
  if (bytes == 0) return {};
  const Exporter::Source source = own_source(pointer, bytes);
  Service* service = Services::existing();
  return service == nullptr ? symm_ipc_holders_t{}
                            : service->exporter.holders(source.block->data(), source.offset, bytes);
}

symm_ipc_collect_stats_t collect() {
  if (Service* service = Services::existing()) {
    service->collections.fetch_add(1, std::memory_order_relaxed);
    service->exporter.collect();
    service->dropped_mappings.fetch_add(service->importer.collect(), std::memory_order_relaxed);
  }
  ipc_reclaim();
  return report();
}

symm_ipc_collect_stats_t report() {
  symm_ipc_collect_stats_t report{};
  if (Service* service = Services::existing()) {
    service->exporter.fill(report);
    report.dropped_mappings = service->dropped_mappings.load(std::memory_order_relaxed);
  }
  return report;
}

symm_ipc_stats_t stats() {
  symm_ipc_stats_t stats{};
  Service* service = Services::existing();
  if (service == nullptr) return stats;
  service->exporter.fill(stats);
  service->importer.add_to(stats);
  stats.collections = service->collections.load(std::memory_order_relaxed);
  return stats;
}
}  // namespace symm::ipc
