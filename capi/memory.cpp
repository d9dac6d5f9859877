// The C ABI of buffers and memories, with the one-sided calls on a memory. It checks and
// converts handles and structs of symm.h; core/group/memory.hpp does the work.
#include "core/group/memory.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capi/guard.hpp"
#include "capi/handle.hpp"
#include "capi/objects.hpp"
#include "capi/options.hpp"
#include "capi/pieces.hpp"
#include "capi/placement.hpp"
#include "capi/request.hpp"
#include "capi/structs.hpp"
#include "core/backend/address_map.hpp"
#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/base/wait.hpp"
#include "core/group/checks.hpp"
#include "core/group/group.hpp"
#include "core/group/memory_pressure.hpp"
#include "core/group/requests.hpp"
#include "kernels/compare.hpp"
#include "kernels/piece_list.hpp"
#include "symm/symm.h"

using namespace symm;
using namespace symm::capi;

SYMM_OPTIONS(symm_alloc_options, options, failure, SYMM_ALLOC_OPTIONS_INIT)
SYMM_OPTIONS(symm_adopt_options, options, failure, SYMM_ADOPT_OPTIONS_INIT)
SYMM_OPTIONS(symm_rendezvous_options, options, failure, SYMM_RENDEZVOUS_OPTIONS_INIT)

symm_status_t symm_memory_pressure_add_listener(
    symm_memory_pressure_callback_t callback, void* user, uint64_t* out_id) {
  return produce(out_id, "out_id", [&] {
    if (callback == nullptr) throw Error(Status::invalid_argument, "callback: is NULL");
    return memory_pressure::add(callback, user);
  });
}

symm_status_t symm_memory_pressure_remove_listener(uint64_t id) {
  return guard([&] { memory_pressure::remove(id); });
}

symm_status_t symm_alloc(
    symm_group_t* group, size_t bytes, const symm_alloc_options_t* options, symm_buffer_t** out) {
  return produce(options, out, "out", [&] {
    Group& owner = *group_of(group);
    const symm_alloc_options_t given = read_options(options);
    return make_handle<symm_buffer_t>([&] {
      return Buffer::allocate(owner, bytes, placement_of(given), bounded_name(given.name));
    });
  });
}

symm_status_t symm_buffer_adopt(symm_group_t* group, const void* pointer, size_t bytes,
    const symm_adopt_options_t* options, symm_buffer_t** out) {
  return produce(options, out, "out", [&] {
    Group& owner = *group_of(group);
    const symm_adopt_options_t given = read_options(options);

    const std::string name = bounded_name(given.name);
    require_known_bits(given.flags, SYMM_ADOPT_FD, "options.flags");
    const bool by_fd = (given.flags & SYMM_ADOPT_FD) != 0;
    require_with_flag(
        by_fd, static_cast<uint64_t>(int64_t{given.fd}), "options.fd", "SYMM_ADOPT_FD");
    require_with_flag(by_fd, given.offset, "options.offset", "SYMM_ADOPT_FD");
    if (!by_fd) {
      return make_handle<symm_buffer_t>([&] { return Buffer::adopt(owner, pointer, bytes, name); });
    }
    if (pointer != nullptr) {
      throw Error(Status::invalid_argument, "pointer: is not NULL, though SYMM_ADOPT_FD is given");
    }
    return make_handle<symm_buffer_t>(
        [&] { return Buffer::adopt(owner, given.fd, given.offset, bytes, name); });
  });
}

symm_status_t symm_buffer_export_dmabuf(symm_buffer_t* buffer, size_t offset, size_t bytes,
    const symm_call_options_t* options, int32_t* out_fd) {
  return produce(options, out_fd, "out_fd", [&] {
    check_options(options);
    return buffer_of(buffer)->export_dmabuf(offset, bytes).release();
  });
}

symm_status_t symm_buffer_pointer(symm_buffer_t* buffer, void** out_pointer) {
  return guard([&] { require(out_pointer, "out_pointer") = buffer_of(buffer)->data(); });
}

symm_status_t symm_buffer_bytes(symm_buffer_t* buffer, size_t* out_bytes) {
  return guard([&] { require(out_bytes, "out_bytes") = buffer_of(buffer)->bytes(); });
}

symm_status_t symm_buffer_group(symm_buffer_t* buffer, symm_group_t** out) {
  return guard([&] {
    require(out, "out");
    std::shared_ptr<Group> group = buffer_of(buffer)->group();
    if (group) *out = make_handle<symm_group_t>([&] { return group; });
    // False becomes SYMM_ERR_NOT_FOUND.
    return group != nullptr;
  });
}

symm_status_t symm_buffer_record_use(
    symm_buffer_t* buffer, const symm_call_options_t* options, void* stream) {
  return guard(options, [&] {
    check_options(options);
    buffer_of(buffer)->record_use(stream);
  });
}

symm_status_t symm_buffer_suspend(
    symm_buffer_t* buffer, uint64_t flags, const symm_call_options_t* options, void* stream) {
  return guard(options, [&] {
    check_options(options);
    require_known_bits(flags, SYMM_SUSPEND_KEEP, "flags");
    buffer_of(buffer)->suspend((flags & SYMM_SUSPEND_KEEP) != 0, stream);
  });
}

symm_status_t symm_buffer_resume(
    symm_buffer_t* buffer, const symm_call_options_t* options, void* stream) {
  return guard(options, [&] {
    check_options(options);
    buffer_of(buffer)->resume(stream);
  });
}

symm_status_t symm_buffer_retain(symm_buffer_t* buffer) {
  return guard([&] { retain<Buffer>(buffer, "buffer"); });
}

void symm_buffer_release(symm_buffer_t* buffer) {
  release<Buffer>(buffer, [](Buffer& last) { last.forget_memories(); });
}

symm_status_t symm_buffer_info(symm_buffer_t* buffer, symm_buffer_info_t* out) {
  return fill_struct(out, SYMM_FIRST_SIZE(symm_buffer_info_t, name), [&] {
    const Buffer& self = *buffer_of(buffer);
    symm_buffer_info_t filled{};

    filled.backend = static_cast<int32_t>(self.kind());
    filled.device = self.device();
    filled.bytes = self.bytes();
    filled.mapped_bytes = self.block()->mapped();
    filled.flags = (self.on_host() ? uint64_t{SYMM_BUFFER_HOST} : 0) |
                   (self.adopted() ? uint64_t{SYMM_BUFFER_ADOPTED} : 0) |
                   (self.is_suspended() ? uint64_t{SYMM_BUFFER_SUSPENDED} : 0);
    filled.numa_node = self.numa_node();
    filled.memories = static_cast<int32_t>(self.memories().size());
    filled.pointer = self.data();
    filled.page_bytes = self.block()->page_bytes();
    write_text(filled.name, self.name());
    return filled;
  });
}

symm_status_t symm_buffer_find(const void* address, const symm_call_options_t* options,
    symm_buffer_t** out, size_t* out_offset) {
  return guard(options, [&] {
    require(out, "out");
    check_options(options);
    Buffer::Found found = Buffer::find(address);
    if (!found.buffer) return false;
    *out = make_handle<symm_buffer_t>([&] { return found.buffer; });
    if (out_offset != nullptr) *out_offset = found.offset;
    return true;
  });
}

symm_status_t symm_buffer_memory(symm_buffer_t* buffer, symm_group_t* group,
    const symm_call_options_t* options, symm_memory_t** out) {
  return guard(options, [&] {
    require(out, "out");
    check_options(options);
    const Buffer& self = *buffer_of(buffer);
    std::shared_ptr<Memory> memory = self.memory_on(*group_of(group));
    if (memory) *out = make_handle<symm_memory_t>([&] { return memory; });
    return memory != nullptr;
  });
}

symm_status_t symm_rendezvous(symm_group_t* group, symm_buffer_t* buffer,
    const symm_rendezvous_options_t* options, symm_memory_t** out) {
  return produce(options, out, "out", [&] {
    const std::shared_ptr<Group>& owner = group_of(group);
    const std::shared_ptr<Buffer>& own_buffer = buffer_of(buffer);
    const symm_rendezvous_options_t given = read_options(options);

    return make_handle<symm_memory_t>([&] {
      return Memory::rendezvous_and_keep(
          owner, own_buffer, given.tag, given.timeout_ms, given.channels);
    });
  });
}

symm_status_t symm_memory_move(symm_memory_t* memory, symm_group_t* new_group,
    const symm_call_options_t* options, symm_memory_t** out) {
  return produce(options, out, "out", [&] {
    const std::shared_ptr<Group>& owner = group_of(new_group, "new_group");
    const std::shared_ptr<Memory> from = memory != nullptr ? memory_of(memory) : nullptr;
    const uint64_t timeout_ms = timeout_of(options);
    return make_handle<symm_memory_t>([&] { return Memory::move(owner, from, timeout_ms); });
  });
}

symm_status_t symm_memory_info(symm_memory_t* memory, symm_memory_info_t* out) {
  return fill_struct(out, SYMM_FIRST_SIZE(symm_memory_info_t, signal_pad_bytes), [&] {
    const Memory& self = *memory_of(memory);
    symm_memory_info_t filled{};
    filled.rank = self.group().rank();
    filled.size = self.group().size();
    filled.bytes = self.view().bytes;
    filled.id = self.view().id;
    filled.channels = self.view().channels;

    filled.signal_pad_bytes = static_cast<uint64_t>(filled.channels) *
                              static_cast<uint64_t>(filled.size) * sizeof(uint64_t);
    filled.multicast = self.view().multicast != nullptr ? 1 : 0;
    write_text(filled.multicast_reason, self.view().why_no_multicast);
    return filled;
  });
}

symm_status_t symm_memory_group(symm_memory_t* memory, symm_group_t** out) {
  return produce(out, "out",
      [&] { return make_handle<symm_group_t>([&] { return memory_of(memory)->shared_group(); }); });
}

symm_status_t symm_memory_buffer(symm_memory_t* memory, symm_buffer_t** out) {
  return produce(out, "out", [&] {
    return make_handle<symm_buffer_t>([&] { return memory_of(memory)->shared_buffer(); });
  });
}

symm_status_t symm_memory_pointer(symm_memory_t* memory, int32_t rank, void** out_pointer) {
  return guard([&] { require(out_pointer, "out_pointer") = memory_of(memory)->pointer(rank); });
}

symm_status_t symm_memory_signal_pad(symm_memory_t* memory, int32_t rank, void** out_pad) {
  return guard([&] { require(out_pad, "out_pad") = memory_of(memory)->pad(rank); });
}

symm_status_t symm_memory_pointer_table(symm_memory_t* memory, void* const** out_table) {
  return guard([&] { require(out_table, "out_table") = memory_of(memory)->pointer_table(); });
}

symm_status_t symm_memory_signal_pad_table(symm_memory_t* memory, void* const** out_table) {
  return guard([&] { require(out_table, "out_table") = memory_of(memory)->pad_table(); });
}

symm_status_t symm_memory_device_view(symm_memory_t* memory, const void* stop,
    const symm_call_options_t* options, symm_memory_view_t* out) {
  return fill_struct(options, out, SYMM_FIRST_SIZE(symm_memory_view_t, stop), [&] {
    const Memory& self = *memory_of(memory);
    const uint64_t timeout_ms = timeout_of(options);
    require_waiting(timeout_ms, "options.timeout_ms");
    symm_memory_view_t filled{};
    filled.taken = reinterpret_cast<uint64_t*>(self.taken_on_device());
    filled.layout = SYMM_MEMORY_VIEW_LAYOUT;
    filled.rank = self.group().rank();
    filled.size = self.group().size();
    filled.channels = self.view().channels;

    filled.blocks = self.pointer_table();
    filled.pads = reinterpret_cast<uint64_t* const*>(self.pad_table());
    filled.timeout_ns = symm::nanoseconds_of(self.group().timeout_or_default(timeout_ms));
    filled.stop = static_cast<const uint32_t*>(stop);
    return filled;
  });
}

symm_status_t symm_memory_multicast_pointer(
    symm_memory_t* memory, const symm_call_options_t* options, void** out_pointer) {
  return produce(options, out_pointer, "out_pointer", [&] {
    check_options(options);
    return memory_of(memory)->multicast();
  });
}

symm_status_t symm_memory_find(symm_group_t* group, const void* address,
    const symm_call_options_t* options, symm_memory_t** out, int32_t* out_rank,
    size_t* out_offset) {
  return guard(options, [&] {
    require(out, "out");
    check_options(options);
    AddressMap::Found found = group_of(group)->addresses().find(address);
    if (!found.memory) return false;
    *out = make_handle<symm_memory_t>([&] { return found.memory; });
    if (out_rank != nullptr) *out_rank = found.rank;
    if (out_offset != nullptr) *out_offset = found.offset;
    return true;
  });
}

symm_status_t symm_memory_record_use(
    symm_memory_t* memory, const symm_call_options_t* options, void* stream) {
  return guard(options, [&] {
    check_options(options);
    memory_of(memory)->record_use(stream);
  });
}

symm_status_t symm_memory_retain(symm_memory_t* memory) {
  return guard([&] { retain<Memory>(memory, "memory"); });
}

void symm_memory_release(symm_memory_t* memory) { release<Memory>(memory); }

// ---- signals and data

symm_status_t symm_barrier(symm_group_t* group, const int32_t* ranks, size_t count, int32_t channel,
    const symm_call_options_t* options, void* stream) {
  return quick(options, [&] {
    const std::shared_ptr<Group>& self = group_of(group);
    if (ranks == nullptr && count != 0) {
      throw Error(Status::invalid_argument, "ranks: is NULL, but count is not 0");
    }
    if (ranks != nullptr && count == 0) {
      throw Error(Status::invalid_argument, "count: is 0, but ranks is not NULL");
    }
    if (!wants_request(options)) {
      return act(options, self, RequestOrder::collective, "barrier", stream,
          [=](Group& of, uint64_t ms) { of.barrier({ranks, count}, channel, ms, stream); });
    }
    // Before the list is copied, whose length may be anything.
    self->with_refusals_told("barrier", [&] { self->require_barrier({ranks, count}, channel); });
    const std::vector<int32_t> set(ranks, ranks + count);
    act(options, self, RequestOrder::collective, "barrier", stream,
        [=](Group& of, uint64_t ms) { of.barrier(set, channel, ms, stream); });
  });
}

symm_status_t symm_signal(symm_memory_t* memory, int32_t rank, int32_t channel,
    const symm_call_options_t* options, void* stream) {
  return quick(options, [&] {
    act(options, memory_of(memory), RequestOrder::one_sided, "signal", stream,
        [=](Memory& self, uint64_t ms) {
          self.send_signal(rank, channel, symm::SignalOp::add, 1, stream, ms);
        });
  });
}

symm_status_t symm_wait_signal(symm_memory_t* memory, int32_t rank, int32_t channel,
    const symm_call_options_t* options, void* stream) {
  return quick(options, [&] {
    act(options, memory_of(memory), RequestOrder::waiting, "wait_signal", stream,
        [=](Memory& self, uint64_t ms) { self.wait_signal(rank, channel, ms, stream); });
  });
}

symm_status_t symm_signal_value(symm_memory_t* memory, int32_t rank, int32_t channel,
    symm_signal_op_t op, uint64_t value, const symm_call_options_t* options, void* stream) {
  return quick(options, [&] {
    act(options, memory_of(memory), RequestOrder::one_sided, "signal_value", stream,
        [=](Memory& self, uint64_t ms) {
          self.send_signal(rank, channel, static_cast<symm::SignalOp>(op), value, stream, ms);
        });
  });
}

symm_status_t symm_wait_signal_value(symm_memory_t* memory, int32_t rank, int32_t channel,
    symm_compare_t compare, uint64_t value, const symm_call_options_t* options, uint64_t* out_seen,
    void* stream) {
  return quick(options, [&] {
    const symm::SignalWait wait{rank, channel, static_cast<symm::Compare>(compare), value};
    const bool is_request = wants_request(options);
    act(options, memory_of(memory), RequestOrder::waiting, "wait_signal_value", stream,
        [=](Memory& self, uint64_t ms) {
          uint64_t seen = 0;
          self.wait_signal_value(wait, ms, is_request ? &seen : out_seen, stream);
          return seen;
        });
  });
}

symm_status_t symm_wait_signals(symm_memory_t* memory, const symm_signal_wait_t* waits,
    size_t count, symm_wait_mode_t mode, const symm_call_options_t* options, size_t* out_index,
    void* stream) {
  return quick(options, [&] {
    const std::shared_ptr<Memory>& self = memory_of(memory);
    const size_t step = require(waits, "waits").struct_size;
    if (count == 0 || count > Memory::kMostWaits) {
      throw Error(Status::invalid_argument,
          symm::format("count: %zu is not in 1 .. %zu", count, Memory::kMostWaits));
    }

    std::vector<symm::SignalWait> all;
    for (size_t i = 0; i < count; ++i) {
      const auto& at = *reinterpret_cast<const symm_signal_wait_t*>(
          reinterpret_cast<const char*>(waits) + i * step);
      if (at.struct_size != step) {
        throw Error(Status::invalid_argument, "waits: they differ in struct_size");
      }
      const auto wait =
          symm::capi::read_struct(&at, {}, SYMM_FIRST_SIZE(symm_signal_wait_t, value), "waits");
      all.push_back(
          {wait.rank, wait.channel, static_cast<symm::Compare>(wait.compare), wait.value});
    }

    require_known(mode == SYMM_WAIT_ALL || mode == SYMM_WAIT_ANY, mode, "mode");
    const bool is_request = wants_request(options);
    act(options, self, RequestOrder::waiting, "wait_signals", stream,
        [=, all = std::move(all)](Memory& of, uint64_t ms) {
          size_t index = 0;
          of.wait_signals(all, mode == SYMM_WAIT_ANY, ms, is_request ? &index : out_index, stream);
          return uint64_t{index};
        });
  });
}

symm_status_t symm_test_signal(symm_memory_t* memory, int32_t rank, int32_t channel,
    const symm_call_options_t* options, uint64_t* out_pending) {
  return produce(options, out_pending, "out_pending", [&] {
    check_options(options);
    const symm::SignalState state = memory_of(memory)->look_at_signal(rank, channel);
    // On a device a wait that is issued has taken its signal already, so `taken` may be ahead.
    return state.value > state.taken ? state.value - state.taken : 0;
  });
}

symm_status_t symm_test_signal_value(symm_memory_t* memory, int32_t rank, int32_t channel,
    const symm_call_options_t* options, uint64_t* out_value) {
  return produce(options, out_value, "out_value", [&] {
    check_options(options);
    return memory_of(memory)->look_at_signal(rank, channel).value;
  });
}

symm_status_t symm_put(symm_memory_t* memory, int32_t rank, size_t offset, const void* source,
    size_t bytes, const symm_call_options_t* options, void* stream) {
  return quick(options, [&] {
    act(options, memory_of(memory), RequestOrder::one_sided, "put", stream,
        [=](Memory& self, uint64_t ms) { self.put(rank, offset, source, bytes, stream, ms); });
  });
}

symm_status_t symm_get(symm_memory_t* memory, int32_t rank, size_t offset, void* destination,
    size_t bytes, const symm_call_options_t* options, void* stream) {
  return quick(options, [&] {
    act(options, memory_of(memory), RequestOrder::one_sided, "get", stream,
        [=](Memory& self, uint64_t ms) { self.get(rank, offset, destination, bytes, stream, ms); });
  });
}

symm_status_t symm_put_signal(symm_memory_t* memory, int32_t rank, size_t offset,
    const void* source, size_t bytes, int32_t channel, const symm_call_options_t* options,
    void* stream) {
  return quick(options, [&] {
    act(options, memory_of(memory), RequestOrder::one_sided, "put_signal", stream,
        [=](Memory& self, uint64_t ms) {
          self.put_signal(rank, offset, source, bytes, {channel}, stream, ms);
        });
  });
}

symm_status_t symm_put_signal_value(symm_memory_t* memory, int32_t rank, size_t offset,
    const void* source, size_t bytes, int32_t channel, symm_signal_op_t op, uint64_t value,
    const symm_call_options_t* options, void* stream) {
  return quick(options, [&] {
    const symm::OutgoingSignal signal{channel, static_cast<symm::SignalOp>(op), value};
    act(options, memory_of(memory), RequestOrder::one_sided, "put_signal_value", stream,
        [=](Memory& self, uint64_t ms) {
          self.put_signal(rank, offset, source, bytes, signal, stream, ms);
        });
  });
}

namespace {
// What a request keeps of lists that the caller may drop at once.
struct KeptPieces {
  std::vector<symm_piece_t> pieces;
  std::vector<uint64_t> from_table;
  std::vector<uint64_t> to_table;
};

// Has the call read its lists from copies, unless it reads them when it runs.
std::shared_ptr<const KeptPieces> keep_lists(symm_pieces_call_t& call) {
  const auto kept = std::make_shared<KeptPieces>();
  if ((call.flags & SYMM_PIECES_ON_DEVICE) != 0) return kept;
  const auto keep = [count = call.count](auto& list, auto*& at) {
    if (at == nullptr) return;
    if (count > list.max_size()) {
      throw Error(Status::invalid_argument,
          format("call.count: %zu pieces are more than memory holds", count));
    }
    list.assign(at, at + count);
    at = list.data();
  };
  keep(kept->pieces, call.pieces);
  keep(kept->from_table, call.from_table);
  keep(kept->to_table, call.to_table);
  return kept;
}
}  // namespace

symm_status_t symm_put_pieces(symm_memory_t* memory, int32_t rank, size_t offset,
    const void* source, size_t source_bytes, const symm_pieces_call_t* call,
    const symm_call_options_t* options, void* stream) {
  return quick(options, [&] {
    const std::shared_ptr<Memory>& self = memory_of(memory);
    symm_pieces_call_t given = pieces_of(call);
    const auto lists = wants_request(options) ? keep_lists(given) : nullptr;
    const auto work = [=, kept = lists](Memory& of, uint64_t ms) {
      of.put_pieces(
          rank, offset, {source, source_bytes}, list_of(given), signal_of(given), stream, ms);
    };
    act(options, self, RequestOrder::one_sided, "put_pieces", stream, work);
  });
}

symm_status_t symm_get_pieces(symm_memory_t* memory, int32_t rank, size_t offset, void* destination,
    size_t destination_bytes, const symm_pieces_call_t* call, const symm_call_options_t* options,
    void* stream) {
  return quick(options, [&] {
    const std::shared_ptr<Memory>& self = memory_of(memory);
    symm_pieces_call_t given = pieces_of(call);
    const auto lists = wants_request(options) ? keep_lists(given) : nullptr;
    const auto work = [=, kept = lists](Memory& of, uint64_t ms) {
      of.get_pieces(rank, offset, {destination, destination_bytes}, list_of(given),
          signal_of(given), stream, ms);
    };
    act(options, self, RequestOrder::one_sided, "get_pieces", stream, work);
  });
}

namespace {
template <class Value>
void fill(symm_memory_t* memory, int32_t rank, size_t offset, Value value, size_t count,
    const symm_call_options_t* options, void* stream) {
  act(options, memory_of(memory), RequestOrder::one_sided, "fill", stream,
      [=](Memory& self, uint64_t ms) {
        self.fill(rank, offset, {value, sizeof value, count}, stream, ms);
      });
}
}  // namespace

symm_status_t symm_fill8(symm_memory_t* memory, int32_t rank, size_t offset, uint8_t value,
    size_t count, const symm_call_options_t* options, void* stream) {
  return quick(options, [&] { fill(memory, rank, offset, value, count, options, stream); });
}

symm_status_t symm_fill16(symm_memory_t* memory, int32_t rank, size_t offset, uint16_t value,
    size_t count, const symm_call_options_t* options, void* stream) {
  return quick(options, [&] { fill(memory, rank, offset, value, count, options, stream); });
}

symm_status_t symm_fill32(symm_memory_t* memory, int32_t rank, size_t offset, uint32_t value,
    size_t count, const symm_call_options_t* options, void* stream) {
  return quick(options, [&] { fill(memory, rank, offset, value, count, options, stream); });
}

symm_status_t symm_fill64(symm_memory_t* memory, int32_t rank, size_t offset, uint64_t value,
    size_t count, const symm_call_options_t* options, void* stream) {
  return quick(options, [&] { fill(memory, rank, offset, value, count, options, stream); });
}

namespace {
void write_value(symm_memory_t* memory, int32_t rank, size_t offset, uint64_t value, size_t bytes,
    const symm_call_options_t* options, void* stream) {
  act(options, memory_of(memory), RequestOrder::one_sided, "write_value", stream,
      [=](Memory& self, uint64_t ms) { self.write_value(rank, offset, value, bytes, stream, ms); });
}
}  // namespace

symm_status_t symm_write_value32(symm_memory_t* memory, int32_t rank, size_t offset, uint32_t value,
    const symm_call_options_t* options, void* stream) {
  return quick(
      options, [&] { write_value(memory, rank, offset, value, sizeof value, options, stream); });
}

symm_status_t symm_write_value64(symm_memory_t* memory, int32_t rank, size_t offset, uint64_t value,
    const symm_call_options_t* options, void* stream) {
  return quick(
      options, [&] { write_value(memory, rank, offset, value, sizeof value, options, stream); });
}

namespace {
// The number of a request is the word.
template <class Word>
void read_value(symm_memory_t* memory, int32_t rank, size_t offset,
    const symm_call_options_t* options, Word* out_value) {
  const bool is_request = wants_request(options);
  Word* const out = is_request ? nullptr : &require(out_value, "out_value");
  act(options, memory_of(memory), RequestOrder::one_sided, "read_value", nullptr,
      [=](Memory& self, uint64_t ms) {
        const uint64_t word = self.read_value(rank, offset, sizeof(Word), ms);
        if (!is_request) *out = static_cast<Word>(word);
        return word;
      });
}

template <class Word>
void change_value(symm_memory_t* memory, int32_t rank, size_t offset, symm_atomic_op_t op,
    Word value, Word compare, const symm_call_options_t* options, void* fetched, void* stream) {
  const symm::AtomicChange change{static_cast<symm::AtomicOp>(op), sizeof value, value, compare};
  // The number of a request is the word, and the caller's place is left alone.
  const bool is_request = wants_request(options);
  act(options, memory_of(memory), RequestOrder::one_sided, "atomic", stream,
      [=](Memory& self, uint64_t ms) {
        Word former = 0;
        void* const own = fetched != nullptr ? &former : nullptr;
        self.change_value(rank, offset, change, is_request ? own : fetched, stream, ms);
        return uint64_t{former};
      });
}
}  // namespace

symm_status_t symm_read_value32(symm_memory_t* memory, int32_t rank, size_t offset,
    const symm_call_options_t* options, uint32_t* out_value) {
  return quick(options, [&] { read_value(memory, rank, offset, options, out_value); });
}

symm_status_t symm_read_value64(symm_memory_t* memory, int32_t rank, size_t offset,
    const symm_call_options_t* options, uint64_t* out_value) {
  return quick(options, [&] { read_value(memory, rank, offset, options, out_value); });
}

symm_status_t symm_atomic32(symm_memory_t* memory, int32_t rank, size_t offset, symm_atomic_op_t op,
    uint32_t value, uint32_t compare, const symm_call_options_t* options, void* fetched,
    void* stream) {
  return quick(options,
      [&] { change_value(memory, rank, offset, op, value, compare, options, fetched, stream); });
}

symm_status_t symm_atomic64(symm_memory_t* memory, int32_t rank, size_t offset, symm_atomic_op_t op,
    uint64_t value, uint64_t compare, const symm_call_options_t* options, void* fetched,
    void* stream) {
  return quick(options,
      [&] { change_value(memory, rank, offset, op, value, compare, options, fetched, stream); });
}

namespace {
void wait_value(symm_memory_t* memory, size_t offset, size_t bytes, symm_compare_t compare,
    uint64_t value, const symm_call_options_t* options, void* stream) {
  act(options, memory_of(memory), RequestOrder::waiting, "wait_value", stream,
      [=](Memory& self, uint64_t ms) {
        self.wait_value(offset, bytes, static_cast<symm::Compare>(compare), value, ms, stream);
      });
}
}  // namespace

symm_status_t symm_wait_value32(symm_memory_t* memory, size_t offset, symm_compare_t compare,
    uint32_t value, const symm_call_options_t* options, void* stream) {
  return quick(
      options, [&] { wait_value(memory, offset, sizeof value, compare, value, options, stream); });
}

symm_status_t symm_wait_value64(symm_memory_t* memory, size_t offset, symm_compare_t compare,
    uint64_t value, const symm_call_options_t* options, void* stream) {
  return quick(
      options, [&] { wait_value(memory, offset, sizeof value, compare, value, options, stream); });
}
