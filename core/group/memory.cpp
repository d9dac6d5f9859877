// Buffers and memories of a group, and the calls on a memory: put, get, signal, wait. The calls
// are checked here and done by the group's transport. rendezvous.cpp makes a memory of buffers.
#include "core/group/memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/piece_checks.hpp"
#include "core/backend/suspendable.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/page.hpp"
#include "core/base/per_process.hpp"
#include "core/base/wait.hpp"
#include "core/group/checks.hpp"
#include "core/group/group.hpp"
#include "core/group/memory_pressure.hpp"
#include "core/group/stragglers.hpp"
#include "core/ipc/ipc.hpp"
#include "core/mesh/peer_link.hpp"
#include "kernels/compare.hpp"
#include "kernels/piece_list.hpp"
#include "symm/symm.h"

namespace symm {
namespace {
// Gives back blocks that importers have let go of and mappings that are only kept for the next
// import. Returns whether there were any.
bool collect_tokens() {
  const symm_ipc_collect_stats_t before = ipc::report();
  const symm_ipc_collect_stats_t after = ipc::collect();
  return after.freed_blocks != before.freed_blocks ||
         after.dropped_mappings != before.dropped_mappings;
}

// Allocates memory. If it is short, the library gives back what it can, and then calls the
// callbacks of the program in turn. After each one that has given memory back the allocation is
// tried again.
template <class Allocate>
auto allocate_under_pressure(BackendKind kind, int device, size_t bytes, const Allocate& allocate) {
  std::optional<memory_pressure::Round> callbacks;
  for (;;) {
    try {
      return allocate();
    } catch (const Error& error) {
      if (error.status() != Status::out_of_memory) throw;

      const bool is_first = !callbacks;
      if (is_first) callbacks.emplace(kind, device, bytes);
      if (is_first && collect_tokens()) continue;
      if (!callbacks->relieve()) throw;
      collect_tokens();
    }
  }
}

void require_known(Compare compare) {
  symm::require_known(is_valid(compare), static_cast<int>(compare), "compare");
}

// The buffers of this process, by address.
class Buffers {
 public:
  void insert(const std::shared_ptr<Buffer>& buffer) {
    const std::unique_lock lock(mutex_);
    const std::byte* const at_owner = buffer->block()->owners_address();
    by_start_.emplace(number(buffer->data()), Entry{buffer, buffer.get(), buffer->bytes(), false});
    if (at_owner != nullptr) {
      by_start_.emplace(number(at_owner), Entry{buffer, buffer.get(), buffer->bytes(), true});
    }
  }

  void erase(const Buffer& buffer) noexcept {
    const std::unique_lock lock(mutex_);
    for (const std::byte* at :
        {static_cast<const std::byte*>(buffer.data()), buffer.block()->owners_address()}) {
      auto [entry, end] = by_start_.equal_range(number(at));
      while (entry != end) {
        entry = entry->second.raw == &buffer ? by_start_.erase(entry) : std::next(entry);
      }
    }
  }

  // Buffers that symm mapped never overlap. Memory at the address of its owner may have been
  // adopted several times, or be something else by now.
  Buffer::Found find(const void* address) const {
    // Declared before the lock, so that last references go after it.
    std::vector<std::shared_ptr<Buffer>> others;

    const std::shared_lock lock(mutex_);
    for (auto at = by_start_.upper_bound(number(address)); at != by_start_.begin();) {
      const auto& [start, entry] = *--at;
      const size_t offset = number(address) - start;
      std::shared_ptr<Buffer> buffer = offset < entry.bytes ? entry.buffer.lock() : nullptr;
      if (buffer && (!entry.at_owner || buffer->block()->still_at_owner())) {
        return {std::move(buffer), offset};
      }
      if (!entry.at_owner) return {};
      if (buffer) others.push_back(std::move(buffer));
    }
    return {};
  }

 private:
  struct Entry {
    std::weak_ptr<Buffer> buffer;
    const Buffer* raw = nullptr;
    size_t bytes = 0;
    bool at_owner = false;
  };

  static uintptr_t number(const void* address) { return reinterpret_cast<uintptr_t>(address); }

  mutable std::shared_mutex mutex_;
  std::multimap<uintptr_t, Entry> by_start_;
};

Buffers& buffers() { return PerProcess<Buffers>::current(); }
}  // namespace

std::shared_ptr<Buffer> Buffer::allocate(
    Group& group, size_t bytes, Placement placement, std::string name) {
  group.require_usable();
  if (bytes == 0) throw Error(Status::invalid_argument, "bytes: must be at least 1 byte");

  const bool of_host = placement.on_host || group.backend().kind() == BackendKind::host;
  if (placement.node != Placement::kNearest && (placement.node < 0 || !of_host)) {
    throw Error(Status::invalid_argument,
        format("options.numa_node: %d %s", placement.node,
            placement.node < 0 ? "is negative" : "goes with SYMM_ALLOC_HOST only"));
  }
  for (const auto& [field, value] : {std::pair("alignment", placement.alignment),
           std::pair("page_bytes", placement.page_bytes)}) {
    if (value != 0 && !std::has_single_bit(value)) {
      throw Error(
          Status::invalid_argument, format("options.%s: %zu is not a power of two", field, value));
    }
  }

  placement.unit = group.transport().device().block_unit();
  Backend& backend = group.backend();
  auto block = allocate_under_pressure(backend.kind(), backend.device(), bytes,
      [&] { return backend.memory().allocate(bytes, placement); });
  auto buffer = std::make_shared<Buffer>(
      std::move(block), bytes, backend.kind(), backend.device(), std::move(name));
  buffer->group_ = group.weak_from_this();
  buffer->numa_node_ = placement.node;
  buffer->on_host_ = of_host;
  ipc::buffer_made(buffer->block(), bytes, buffer->kind(), buffer->device());
  buffers().insert(buffer);
  return buffer;
}

// An adopted buffer is not made known to core/ipc: a token for a piece of it is a token for the
// whole allocation, as for all memory that symm has not allocated.
std::shared_ptr<Buffer> Buffer::adopt(
    Group& group, const void* pointer, size_t bytes, std::string name) {
  group.require_usable();
  if (pointer == nullptr) throw Error(Status::invalid_argument, "pointer: is NULL");
  if (bytes == 0) throw Error(Status::invalid_argument, "bytes: must be at least 1 byte");
  return of_adopted(group, group.backend().memory().adopt(pointer, bytes), bytes, std::move(name));
}

std::shared_ptr<Buffer> Buffer::adopt(
    Group& group, int fd, uint64_t offset, size_t bytes, std::string name) {
  group.require_usable();
  if (bytes == 0) throw Error(Status::invalid_argument, "bytes: must be at least 1 byte");
  return of_adopted(
      group, group.backend().memory().adopt(fd, offset, bytes), bytes, std::move(name));
}

std::shared_ptr<Buffer> Buffer::of_adopted(
    Group& group, std::shared_ptr<Block> block, size_t bytes, std::string name) {
  Backend& backend = group.backend();
  auto buffer = std::make_shared<Buffer>(
      std::move(block), bytes, backend.kind(), backend.device(), std::move(name));
  buffer->group_ = group.weak_from_this();
  buffer->adopted_ = true;
  buffer->on_host_ = backend.kind() == BackendKind::host;
  buffers().insert(buffer);
  return buffer;
}

Buffer::~Buffer() {
  // A forked child has no buffers yet.
  if (Buffers* all = PerProcess<Buffers>::existing()) all->erase(*this);
  ipc::buffer_gone(*block_);
}

Buffer::Found Buffer::find(const void* address) { return buffers().find(address); }

void Buffer::become(const std::shared_ptr<Memory>& memory) {
  const std::lock_guard lock(memories_mutex_);
  std::erase_if(memories_, [](const std::weak_ptr<Memory>& old) { return old.expired(); });
  memories_.push_back(memory);
  std::erase_if(pasts_, [](const auto& past) { return past->over(); });
  const auto& past = memory->group().past();
  if (std::find(pasts_.begin(), pasts_.end(), past) == pasts_.end()) pasts_.push_back(past);
}

void Buffer::require_memory() const {
  if (!is_suspended()) return;
  throw Error(Status::invalid_argument, "buffer: is suspended, and has no memory");
}

void Buffer::suspend(bool keep, void* stream) {
  const std::lock_guard lock(suspending_);
  require_memory();
  if (adopted_) {
    throw Error(Status::unsupported, "buffer: was adopted, and its memory is not symm's");
  }
  if (const size_t groups = memories().size(); groups != 0) {
    throw Error(Status::invalid_argument,
        format("buffer: has met on %zu groups, whose ranks have it mapped: only a buffer that is "
               "symmetric memory of no group can be suspended",
            groups));
  }

  ipc::buffer_suspended(*block_, kind_, device_, stream);
  try {
    if (block_.use_count() > 1) {
      throw Error(Status::invalid_argument,
          "buffer: this process has imported a piece of it, or is using it in another call");
    }
    dynamic_cast<Suspendable&>(*block_).suspend(keep, stream);
  } catch (...) {
    ipc::buffer_made(block_, bytes_, kind_, device_);
    throw;
  }
  is_suspended_ = true;
}

void Buffer::resume(void* stream) {
  const std::lock_guard lock(suspending_);
  if (!is_suspended()) throw Error(Status::invalid_argument, "buffer: is not suspended");
  allocate_under_pressure(kind_, device_, bytes_, [&] {
    dynamic_cast<Suspendable&>(*block_).resume(stream);
    return true;
  });
  is_suspended_ = false;
  ipc::buffer_made(block_, bytes_, kind_, device_);
}

void Buffer::require_no_stragglers(uint64_t patience_ms) const {
  std::vector<std::shared_ptr<Stragglers>> pasts;
  {
    const std::lock_guard lock(memories_mutex_);
    pasts = pasts_;
  }

  std::vector<Straggler> left;
  const auto none_left = [&] {
    left.clear();
    for (size_t i = 0; i < pasts.size() && left.empty(); ++i) {
      left = pasts[i]->all();
    }
    return left.empty();
  };
  // A death is told before it is certain, by as long as the kernel takes to free the memory of
  // the dead. A rank that is not reported as dying is waited for this long only, because all
  // ranks of a group are to know of a failure within a second.
  constexpr uint64_t kSilentMs = 800;
  const Deadline silent = Deadline::after_ms(std::min(kSilentMs, patience_ms));
  const auto is_dying = [](const Straggler& straggler) { return straggler.link->is_dying(); };
  const auto over = [&] {
    return none_left() || (silent.expired() && !std::all_of(left.begin(), left.end(), is_dying));
  };
  retry_until(over, Deadline::after_ms(patience_ms));
  if (left.empty()) return;

  throw Error(Status::unavailable,
      format("buffer: rank %d (pid %ld) of a group that failed has it mapped, and may still write "
             "to it: that process is not "
             "dead, and has not left that group; allocate another buffer, or end that process",
          left.front().rank, left.front().identity.pid));
}

std::vector<std::shared_ptr<Memory>> Buffer::memories() const {
  std::vector<std::shared_ptr<Memory>> living;
  const std::lock_guard lock(memories_mutex_);
  for (const std::weak_ptr<Memory>& memory : memories_) {
    if (auto held = memory.lock()) living.push_back(std::move(held));
  }
  return living;
}

void Buffer::forget_memories() noexcept {
  try {
    for (const auto& memory : memories()) {
      memory->group().forget(*memory);
    }
  } catch (const std::bad_alloc&) {
    // The memories stay for as long as their groups.
  }
}

std::shared_ptr<Memory> Buffer::memory_on(Group& group) const {
  std::shared_ptr<Memory> memory = group.addresses().find(data()).memory;
  return memory && memory->buffer() == this ? memory : nullptr;
}

Fd Buffer::export_dmabuf(size_t offset, size_t bytes) const {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  require_memory();
  if (bytes == 0) throw Error(Status::invalid_argument, "bytes: must be at least 1 byte");
  if (offset > bytes_ || bytes > bytes_ - offset) {
    throw Error(Status::invalid_argument,
        format("offset, bytes: %zu bytes at %zu go beyond the buffer of %zu bytes", bytes, offset,
            bytes_));
  }

  if (reinterpret_cast<uintptr_t>(data() + offset) % page != 0) {
    throw Error(Status::invalid_argument,
        format("offset: %p, which is at %zu, is not a multiple of the page size, %zu",
            static_cast<const void*>(data() + offset), offset, page));
  }
  return block_->export_dmabuf(offset, (bytes + page - 1) / page * page);
}

std::shared_ptr<Memory::HostTables> Memory::host_tables_of(const MemoryView& view) {
  auto tables = std::make_shared<HostTables>();
  tables->pointers.assign(view.blocks.begin(), view.blocks.end());
  tables->pads.assign(view.pads.begin(), view.pads.end());
  return tables;
}

Memory::Memory(std::shared_ptr<Group> group, std::shared_ptr<Buffer> buffer,
    std::shared_ptr<MemoryView> view, const Memory* place)
    : group_(std::move(group)),
      buffer_(std::move(buffer)),
      view_(std::move(view)),
      host_tables_(place != nullptr ? place->host_tables_ : host_tables_of(*view_)) {
  group_->transport().device().memory_added(view_);
  tables_ = group_->transport().device().device_tables(*view_);
}

Memory::~Memory() {
  group_->addresses().erase(*view_);
  group_->transport().device().memory_removed(*view_);
}

void* const* Memory::pointer_table() const noexcept {
  return tables_.blocks != nullptr ? tables_.blocks : host_tables_->pointers.data();
}

void* const* Memory::pad_table() const noexcept {
  return tables_.pads != nullptr ? tables_.pads : host_tables_->pads.data();
}

std::byte* Memory::taken_on_device() const {
  if (tables_.taken == nullptr) {
    throw Error(Status::unsupported, "memory: the host back end has no kernels");
  }
  return tables_.taken;
}

std::byte* Memory::mapped(const std::vector<std::byte*>& places, int rank) const {
  group_->require_rank("rank", rank);
  if (std::byte* at = places[static_cast<size_t>(rank)]; at != nullptr) return at;
  throw Error(Status::unavailable, format("rank: %d is on another machine (%s): its memory is not "
                                          "mapped here; use symm_put(), symm_get()",
                                       rank, group_->facts(rank).host));
}

std::byte* Memory::pointer(int rank) const { return mapped(view_->blocks, rank); }

std::byte* Memory::pad(int rank) const { return mapped(view_->pads, rank); }

std::byte* Memory::multicast() const {
  if (view_->multicast == nullptr) {
    throw Error(
        Status::unavailable, "memory: it has no multicast address: " + view_->why_no_multicast);
  }
  return view_->multicast;
}

void Memory::require_multiple(size_t offset, size_t bytes) {
  if (offset % bytes == 0) return;
  throw Error(
      Status::invalid_argument, format("offset: %zu is not a multiple of %zu", offset, bytes));
}

void Memory::require_range(int rank, size_t offset, size_t bytes) const {
  group_->require_usable();
  group_->require_rank("rank", rank);
  if (offset > view_->bytes || bytes > view_->bytes - offset) {
    throw Error(Status::invalid_argument,
        format("offset, bytes: %zu bytes at %zu go beyond the block of %zu bytes", bytes, offset,
            view_->bytes));
  }
}

void Memory::require_not_moved() const {
  if (!has_moved_.load(std::memory_order_relaxed)) return;
  throw Error(Status::invalid_handle, "memory: it has moved to another group");
}

void Memory::moved_to(const MemoryView& view) noexcept {
  has_moved_.store(true, std::memory_order_relaxed);
  if (view.pads != view_->pads) return;
  std::copy(view.blocks.begin(), view.blocks.end(), host_tables_->pointers.begin());
}

void Memory::require_signal(int rank, int channel) const {
  group_->require_usable();
  require_not_moved();
  group_->require_rank("rank", rank);
  require_channel(channel);
}

// ---- calls on the memory: each is traced, checked, and handed to the group's transport

// Sends a signal to `rank`: adds to, or sets, a word of its pad that this rank alone writes.
void Memory::send_signal(
    int rank, int channel, SignalOp op, uint64_t value, void* stream, uint64_t timeout_ms) {
  const Trace traced(
      group_->page(), op == SignalOp::add && value == 1 ? "signal" : "signal_value", rank);
  require_signal(rank, channel);
  require_known(is_valid(op), static_cast<int>(op), "op");
  group_->transport().send_signal(
      *view_, rank, channel, op, value, reach_timeout(timeout_ms), stream);
  group_->transport().stats().shown.signals_sent.add_shared(1);
}

void Memory::wait_signal(int rank, int channel, uint64_t timeout_ms, void* stream) {
  const Trace traced(group_->page(), "wait_signal", rank);
  GroupStats& stats = group_->transport().stats();
  stats.counted([&] {
    require_signal(rank, channel);
    group_->transport().take_signal(
        *view_, rank, channel, group_->timeout_or_look(timeout_ms), stream);
  });
  stats.shown.signals_taken.add_shared(1);
}

SignalState Memory::look_at_signal(int rank, int channel) {
  require_signal(rank, channel);
  return group_->transport().look_at_signal(*view_, rank, channel);
}

template <class Wait>
void Memory::counted_wait(const Wait& wait) {
  GroupStats& stats = group_->transport().stats();
  stats.counted(wait);
  stats.shown.waits.add_shared(1);
}

void Memory::wait_signal_value(
    const SignalWait& wait, uint64_t timeout_ms, uint64_t* out_seen, void* stream) {
  const Trace traced(group_->page(), "wait_signal_value", wait.rank);
  counted_wait([&] {
    require_signal(wait.rank, wait.channel);
    require_known(wait.compare);
    group_->transport().wait_signals(
        *view_, {&wait, 1}, false, group_->timeout_or_look(timeout_ms), nullptr, out_seen, stream);
  });
}

void Memory::wait_signals(std::span<const SignalWait> waits, bool any, uint64_t timeout_ms,
    size_t* out_index, void* stream) {
  const Trace traced(group_->page(), "wait_signals");
  // The host's transport tells this call from wait_signal_value() by whether an index is asked for,
  // and names it in its messages. Other transports have no index.
  size_t index = 0;
  const bool has_index = group_->backend().kind() == BackendKind::host;

  counted_wait([&] {
    group_->require_usable();
    for (const SignalWait& wait : waits) {
      try {
        require_signal(wait.rank, wait.channel);
        require_known(wait.compare);
      } catch (const Error& error) {
        throw Error(error.status(), format("waits[%td].%s", &wait - waits.data(), error.what()));
      }
    }

    group_->transport().wait_signals(*view_, waits, any, group_->timeout_or_look(timeout_ms),
        has_index ? &index : out_index, nullptr, stream);
  });

  if (has_index && out_index != nullptr) *out_index = index;
}

void Memory::write_value(
    int rank, size_t offset, uint64_t value, size_t bytes, void* stream, uint64_t timeout_ms) {
  const Trace traced(group_->page(), bytes == 4 ? "write_value32" : "write_value64", rank, bytes);
  require_word(rank, offset, bytes);
  group_->transport().write_value(
      *view_, rank, offset, value, bytes, reach_timeout(timeout_ms), stream);
}

void Memory::wait_value(size_t offset, size_t bytes, Compare compare, uint64_t value,
    uint64_t timeout_ms, void* stream) {
  const Trace traced(group_->page(), bytes == 4 ? "wait_value32" : "wait_value64", -1, bytes);
  counted_wait([&] {
    require_known(compare);
    require_word(group_->rank(), offset, bytes);
    const std::byte* at = pointer(group_->rank()) + offset;
    group_->transport().wait_value(
        *view_, at, bytes, compare, value, group_->timeout_or_look(timeout_ms), stream);
  });
}

uint64_t Memory::reach_timeout(uint64_t timeout_ms) const {
  require_waiting(timeout_ms, "options.timeout_ms");
  return group_->timeout_or_default(timeout_ms);
}

void Memory::put(
    int rank, size_t offset, const void* source, size_t bytes, void* stream, uint64_t timeout_ms) {
  const Trace traced(group_->page(), "put", rank, bytes);
  require_range(rank, offset, bytes);
  const uint64_t timeout = reach_timeout(timeout_ms);
  if (bytes == 0) return;
  if (source == nullptr) throw Error(Status::invalid_argument, "source: is NULL");
  group_->transport().put(*view_, rank, offset, source, bytes, timeout, stream);
}

void Memory::put_signal(int rank, size_t offset, const void* source, size_t bytes,
    const OutgoingSignal& signal, void* stream, uint64_t timeout_ms) {
  require_known_signal(signal);
  const uint64_t timeout = reach_timeout(timeout_ms);
  group_->require_rank("rank", rank);
  with_signal(rank, signal, stream, timeout,
      [&](uint64_t limit) { put(rank, offset, source, bytes, stream, limit); });
}

void Memory::require_known_signal(const OutgoingSignal& signal) const {
  require_not_moved();
  require_channel(signal.channel);
  require_known(is_valid(signal.op), static_cast<int>(signal.op), "op");
}

template <class Copy>
void Memory::with_signal(int rank, const std::optional<OutgoingSignal>& signal, void* stream,
    uint64_t timeout_ms, const Copy& copy) {
  const bool is_endless = timeout_ms == Deadline::kInfinite || group_->maps(rank);
  const Deadline until = is_endless ? Deadline::never() : Deadline::after_ms(timeout_ms);
  copy(timeout_ms);
  if (!signal) return;
  const uint64_t left = is_endless ? timeout_ms : until.remaining_ns() / kMillisecondNs + 1;
  send_signal(rank, signal->channel, signal->op, signal->value, stream, left);
}

PieceSide Memory::block_from(size_t offset) const {
  return {offset == 0 ? "the block" : "the block from offset on", view_->bytes - offset};
}

// Both sides of a copy, of which one is in this process.
struct Memory::PieceSides {
  PieceSide from;
  PieceSide to;
  const void* pointer;
  bool reads_local;

  const PieceSide& local() const { return reads_local ? from : to; }
};

template <class Copy>
void Memory::with_pieces(int rank, const PieceList& list, const PieceSides& sides,
    const std::optional<OutgoingSignal>& signal, void* stream, uint64_t timeout_ms,
    const Copy& copy) {
  const uint64_t timeout = reach_timeout(timeout_ms);
  const bool streams = group_->transport().streams_pieces();
  // The device of the host is the host, which reads the list now.
  const PieceList known = streams ? list : read_on_host(list);
  const bool is_known = !streams || !list.on_device;

  const size_t bytes = is_known ? check_pieces(known, sides.from, sides.to) : 0;
  require_given(sides.pointer, is_known ? bytes : list.count, sides.local().name);
  const PieceCopy pieces{known, bytes, sides.local().bytes, signal ? &*signal : nullptr};
  with_signal(rank, streams ? std::nullopt : signal, stream, timeout,
      [&](uint64_t limit) { copy(pieces, limit); });
  if (streams && signal) group_->transport().stats().shown.signals_sent.add_shared(1);
}

size_t Memory::check_put(size_t offset, const Local<const void*>& source, const PieceList& list,
    const char* holder) const {
  require_range(group_->rank(), offset, 0);
  const size_t bytes = check_pieces(list, {"source", source.bytes}, block_from(offset), holder);
  require_given(source.pointer, bytes, "source");
  return bytes;
}

void Memory::put_pieces(int rank, size_t offset, const Local<const void*>& source,
    const PieceList& list, const std::optional<OutgoingSignal>& signal, void* stream,
    uint64_t timeout_ms) {
  require_range(rank, offset, 0);
  if (signal) require_known_signal(*signal);
  const PieceSides sides{{"source", source.bytes}, block_from(offset), source.pointer, true};
  with_pieces(
      rank, list, sides, signal, stream, timeout_ms, [&](const PieceCopy& pieces, uint64_t limit) {
        const Trace traced(group_->page(), "put_pieces", rank, pieces.bytes);
        group_->transport().put_pieces(*view_, rank, offset, source.pointer, pieces, limit, stream);
      });
}

void Memory::get_pieces(int rank, size_t offset, const Local<void*>& destination,
    const PieceList& list, const std::optional<OutgoingSignal>& signal, void* stream,
    uint64_t timeout_ms) {
  require_range(rank, offset, 0);
  if (signal) require_known_signal(*signal);
  const PieceSides sides{
      block_from(offset), {"destination", destination.bytes}, destination.pointer, false};
  with_pieces(
      rank, list, sides, signal, stream, timeout_ms, [&](const PieceCopy& pieces, uint64_t limit) {
        const Trace traced(group_->page(), "get_pieces", rank, pieces.bytes);
        group_->transport().get_pieces(
            *view_, rank, offset, destination.pointer, pieces, limit, stream);
      });
}

void Memory::get(
    int rank, size_t offset, void* destination, size_t bytes, void* stream, uint64_t timeout_ms) {
  const Trace traced(group_->page(), "get", rank, bytes);
  require_range(rank, offset, bytes);
  const uint64_t timeout = reach_timeout(timeout_ms);
  if (bytes == 0) return;
  if (destination == nullptr) throw Error(Status::invalid_argument, "destination: is NULL");
  group_->transport().get(*view_, rank, offset, destination, bytes, timeout, stream);
}

namespace {
const char* name_of_fill(size_t bytes) {
  switch (bytes) {
    case 1: return "fill8";
    case 2: return "fill16";
    case 4: return "fill32";
    default: return "fill64";
  }
}
}  // namespace

void Memory::fill(
    int rank, size_t offset, const Copies& copies, void* stream, uint64_t timeout_ms) {
  const auto& [value, bytes, count] = copies;
  const Trace traced(group_->page(), name_of_fill(bytes), rank, copies.all_bytes());
  require_multiple(offset, bytes);
  if (offset <= view_->bytes && count > (view_->bytes - offset) / bytes) {
    throw Error(Status::invalid_argument,
        format("offset, count: %zu words at byte %zu go beyond the block of %zu bytes", count,
            offset, view_->bytes));
  }
  require_range(rank, offset, copies.all_bytes());
  group_->transport().fill(*view_, rank, offset, copies, reach_timeout(timeout_ms), stream);
}

void Memory::change_value(int rank, size_t offset, const AtomicChange& change, void* fetched,
    void* stream, uint64_t timeout_ms) {
  const bool is_fetch = change.op == AtomicOp::fetch;
  const Trace traced(
      group_->page(), change.bytes == 4 ? "atomic32" : "atomic64", rank, change.bytes);
  require_known(is_valid(change.op), static_cast<int>(change.op), "op");
  require_word(rank, offset, change.bytes);

  if (is_fetch && fetched == nullptr) {
    throw Error(Status::invalid_argument, "fetched: is NULL, and SYMM_ATOMIC_FETCH does no more");
  }
  if (is_fetch && change.value != 0) {
    throw Error(Status::invalid_argument,
        format("value: is %lu, and SYMM_ATOMIC_FETCH takes none", change.value));
  }
  if (change.op != AtomicOp::compare_swap && change.compare != 0) {
    throw Error(Status::invalid_argument,
        format("compare: is %lu, and goes with SYMM_ATOMIC_COMPARE_SWAP only", change.compare));
  }
  group_->transport().change_value(
      *view_, rank, offset, change, fetched, reach_timeout(timeout_ms), stream);
}

uint64_t Memory::read_value(int rank, size_t offset, size_t bytes, uint64_t timeout_ms) {
  const Trace traced(group_->page(), bytes == 4 ? "read_value32" : "read_value64", rank, bytes);
  require_word(rank, offset, bytes);
  return group_->transport().read_value(*view_, rank, offset, bytes, reach_timeout(timeout_ms));
}

// Throws unless a word of `bytes` bytes, which is accessed as a whole, lies at `offset`.
void Memory::require_word(int rank, size_t offset, size_t bytes) const {
  require_multiple(offset, bytes);
  require_range(rank, offset, bytes);
}

void Memory::record_use(void* stream) {
  const bool recorded = buffer_->block()->record_use(stream);
  buffer_->block()->note_use(recorded);
  for (const auto& block : view_->owned) {
    block->note_use(recorded);
  }
}
}  // namespace symm
