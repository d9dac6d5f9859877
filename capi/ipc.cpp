// The C ABI of sharing by tokens. It checks and converts structs of symm.h; core/ipc/ipc.hpp
// does the work.
#include "core/ipc/ipc.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "capi/guard.hpp"
#include "capi/handle.hpp"
#include "capi/objects.hpp"
#include "capi/options.hpp"
#include "capi/pieces.hpp"
#include "capi/structs.hpp"
#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/group/memory.hpp"
#include "core/ipc/bundle.hpp"
#include "core/ipc/export.hpp"
#include "core/ipc/exporter.hpp"
#include "core/ipc/held_lease.hpp"
#include "core/ipc/importer.hpp"
#include "core/ipc/publication.hpp"
#include "core/ipc/token.hpp"
#include "core/ipc/token_pad.hpp"
#include "kernels/compare.hpp"
#include "symm/symm.h"

using namespace symm;
using namespace symm::capi;

SYMM_OPTIONS(symm_ipc_export_options, options, failure, SYMM_IPC_EXPORT_OPTIONS_INIT)
SYMM_OPTIONS(symm_ipc_import_options, options, failure, SYMM_IPC_IMPORT_OPTIONS_INIT)
SYMM_OPTIONS(symm_ipc_publish_options, options, failure, SYMM_IPC_PUBLISH_OPTIONS_INIT)
SYMM_OPTIONS(symm_ipc_lookup_options, options, failure, SYMM_IPC_LOOKUP_OPTIONS_INIT)
using symm::ipc::HeldLease;

static_assert(SYMM_IPC_TOKEN_MAX_BYTES == ipc::kMaxToken);
static_assert(SYMM_IPC_CHANNELS_MAX == ipc::kMostPadChannels);
static_assert(SYMM_IPC_NAME_MAX_BYTES == ipc::kLongestName);
static_assert(SYMM_IPC_ABOUT_MAX_BYTES == ipc::kLongestAbout);
static_assert(SYMM_IPC_BUNDLE_MAX_PIECES == ipc::kMostPieces);

namespace {
HeldLease& ipc_of(symm_ipc_t* handle) { return *slot_of<HeldLease>(handle, "ipc").object; }

// The channels of a token, with what does not go with them.
uint32_t channels_of(const symm_ipc_export_options_t& given) {
  if (given.channels < 0) {
    throw Error(
        Status::invalid_argument, format("options.channels: %d is negative", given.channels));
  }
  const auto channels = static_cast<uint32_t>(given.channels);
  if (channels > ipc::kMostPadChannels) {
    throw Error(Status::unsupported,
        format("options.channels: %u, and there are at most %u", channels, ipc::kMostPadChannels));
  }
  if (channels == 0 && given.fence_bytes != 0) {
    throw Error(Status::invalid_argument,
        format("options.fence_bytes: is %lu, but channels is 0", given.fence_bytes));
  }
  if (channels != 0 && (given.hold_ms != 0 || given.hold_imports != 0)) {
    throw Error(Status::invalid_argument, format("options.%s: is given beside channels",
                                              given.hold_ms != 0 ? "hold_ms" : "hold_imports"));
  }
  return channels;
}

void require_known_op(symm_signal_op_t op, const char* argument) {
  if (!is_valid(static_cast<SignalOp>(op))) throw not_known(argument, op);
}

ipc::ExportOptions export_options(const symm_ipc_export_options_t* options, size_t capacity) {
  const symm_ipc_export_options_t given = read_options(options);
  require_known_bits(given.flags, SYMM_IPC_NO_HOLD, "options.flags");
  const bool no_hold = (given.flags & SYMM_IPC_NO_HOLD) != 0;
  if (no_hold && (given.hold_ms != 0 || given.hold_imports != 0)) {
    throw Error(Status::invalid_argument, format("options.%s: is given beside SYMM_IPC_NO_HOLD",
                                              given.hold_ms != 0 ? "hold_ms" : "hold_imports"));
  }

  return {
      given.hold_ms, given.hold_imports, no_hold, capacity, channels_of(given), given.fence_bytes};
}

void require_no_stragglers(const void* pointer) {
  constexpr uint64_t kPatienceMs = 1'000;
  if (const auto buffer = Buffer::find(pointer).buffer) buffer->require_no_stragglers(kPatienceMs);
}

std::vector<symm_ipc_piece_t> pieces_of(const symm_ipc_piece_t* pieces, size_t count) {
  require(pieces, "pieces");
  if (count == 0 || count > ipc::kMostPieces) {
    throw Error(
        Status::invalid_argument, format("count: %zu is not in 1 .. %zu", count, ipc::kMostPieces));
  }
  std::vector<symm_ipc_piece_t> read;
  read.reserve(count);
  read_structs<symm_ipc_piece_t>(pieces, count, SYMM_IPC_PIECE_INIT,
      SYMM_FIRST_SIZE(symm_ipc_piece_t, about_bytes), "pieces",
      [&](size_t, const symm_ipc_piece_t& piece) { read.push_back(piece); });
  return read;
}

void require_known_compare(symm_compare_t compare) {
  if (!is_valid(static_cast<Compare>(compare))) throw not_known("compare", compare);
}

// The text of a name. Throws Error(invalid_argument) for NULL.
std::string name_of(const char* name) { return &require(name, "name"); }
}  // namespace

symm_status_t symm_ipc_export(const void* pointer, size_t bytes,
    const symm_ipc_export_options_t* options, void* out_token, size_t capacity, size_t* out_bytes,
    void* stream) {
  return produce(options, out_bytes, "out_bytes", [&] {
    if (out_token == nullptr) throw Error(Status::invalid_argument, "out_token: is NULL");
    const ipc::ExportOptions how = export_options(options, capacity);
    require_no_stragglers(pointer);
    const std::vector<std::byte> token = ipc::export_memory(pointer, bytes, how, stream);
    std::memcpy(out_token, token.data(), token.size());
    return token.size();
  });
}

symm_status_t symm_ipc_export_bundle(const symm_ipc_piece_t* pieces, size_t count,
    const symm_ipc_export_options_t* options, void* out_token, size_t capacity, size_t* out_bytes,
    void* stream) {
  return produce(options, out_bytes, "out_bytes", [&] {
    if (out_token == nullptr) throw Error(Status::invalid_argument, "out_token: is NULL");
    const ipc::ExportOptions how = export_options(options, capacity);
    const std::vector<symm_ipc_piece_t> given = pieces_of(pieces, count);
    for (const symm_ipc_piece_t& piece : given) {
      require_no_stragglers(piece.pointer);
    }
    const std::vector<std::byte> token = ipc::export_bundle(given, how, stream);
    std::memcpy(out_token, token.data(), token.size());
    return token.size();
  });
}

symm_status_t symm_ipc_import(const void* token, size_t token_bytes,
    const symm_ipc_import_options_t* options, symm_ipc_t** out, void* stream) {
  return produce(options, out, "out", [&] {
    if (token == nullptr) throw Error(Status::invalid_argument, "token: is NULL");
    const symm_ipc_import_options_t given = read_options(options);
    require_known_bits(given.flags, SYMM_IPC_ON_DEVICE | SYMM_IPC_READ_ONLY, "options.flags");
    const bool on_device = (given.flags & SYMM_IPC_ON_DEVICE) != 0;
    require_with_flag(on_device, static_cast<uint64_t>(int64_t{given.device}), "options.device",
        "SYMM_IPC_ON_DEVICE");
    if (given.device < 0) {
      throw Error(Status::invalid_argument, format("options.device: %d is negative", given.device));
    }

    ipc::ImportOptions import_options;
    import_options.timeout_ms = given.timeout_ms;
    import_options.directory = given.directory == nullptr ? "" : given.directory;
    import_options.device = on_device ? given.device : -1;
    import_options.access =
        (given.flags & SYMM_IPC_READ_ONLY) != 0 ? Access::read_only : Access::read_write;
    return make_handle<symm_ipc_t>([&] {
      return ipc::import_memory(
          {static_cast<const std::byte*>(token), token_bytes}, import_options, stream);
    });
  });
}

symm_status_t symm_ipc_suspend(symm_ipc_t* ipc, const symm_call_options_t* options, void* stream) {
  return guard(options, [&] {
    check_options(options);
    ipc_of(ipc).suspend(stream);
  });
}

symm_status_t symm_ipc_resume(symm_ipc_t* ipc, const void* token, size_t token_bytes,
    const symm_ipc_import_options_t* options, void* stream) {
  return guard(options, [&] {
    const symm_ipc_import_options_t given = read_options(options);
    require_known_bits(given.flags, 0, "options.flags");
    if (given.device != 0) {
      throw Error(Status::invalid_argument,
          format("options.device: %d, but the import stays that of its device", given.device));
    }
    if (token == nullptr && token_bytes != 0) {
      throw Error(
          Status::invalid_argument, format("token: is NULL, and token_bytes is %zu", token_bytes));
    }
    if (token != nullptr && token_bytes == 0) {
      throw Error(Status::invalid_argument, "token_bytes: is 0, and token is not NULL");
    }

    ipc::ImportOptions again;
    again.timeout_ms = given.timeout_ms;
    again.directory = given.directory == nullptr ? "" : given.directory;
    ipc::resume_import(
        ipc_of(ipc), {static_cast<const std::byte*>(token), token_bytes}, again, stream);
  });
}

symm_status_t symm_ipc_pointer(symm_ipc_t* ipc, void** out_pointer) {
  return guard([&] { require(out_pointer, "out_pointer") = ipc_of(ipc).data(); });
}

symm_status_t symm_ipc_bytes(symm_ipc_t* ipc, size_t* out_bytes) {
  return guard([&] { require(out_bytes, "out_bytes") = ipc_of(ipc).bytes(); });
}

symm_status_t symm_ipc_info(symm_ipc_t* ipc, symm_ipc_info_t* out) {
  return fill_struct(
      out, SYMM_FIRST_SIZE(symm_ipc_info_t, host_memory), [&] { return ipc_of(ipc).info(); });
}

symm_status_t symm_ipc_bundle_size(symm_ipc_t* ipc, size_t* out_count) {
  return guard([&] { require(out_count, "out_count") = ipc_of(ipc).bundle()->pieces(); });
}

symm_status_t symm_ipc_bundle_piece(symm_ipc_t* ipc, size_t index, symm_ipc_piece_t* out) {
  return fill_struct(out, SYMM_FIRST_SIZE(symm_ipc_piece_t, about_bytes),
      [&] { return ipc_of(ipc).piece(index); });
}

symm_status_t symm_ipc_bundle_find(symm_ipc_t* ipc, const char* name, size_t* out_index) {
  return guard([&] {
    size_t& index = require(out_index, "out_index");
    index = ipc_of(ipc).bundle()->find(&require(name, "name"));
  });
}

symm_status_t symm_ipc_put_pieces(symm_ipc_t* ipc, size_t offset, const void* source,
    size_t source_bytes, const symm_pieces_call_t* call, uint64_t epoch,
    const symm_call_options_t* options, void* stream) {
  return quick(options, [&] {
    const symm_pieces_call_t given = pieces_of(call);
    require_known_op(given.op, "call.op");
    // The source is only read.
    const HeldLease::Local local{const_cast<void*>(source), source_bytes};
    ipc_of(ipc).put_pieces(offset, local, list_of(given), signal_of(given), epoch,
        ipc::timeout_or_default(timeout_of(options)), stream);
  });
}

symm_status_t symm_ipc_get_pieces(symm_ipc_t* ipc, size_t offset, void* destination,
    size_t destination_bytes, const symm_pieces_call_t* call, const symm_call_options_t* options,
    void* stream) {
  return quick(options, [&] {
    const symm_pieces_call_t given = pieces_of(call);
    require_known_op(given.op, "call.op");
    check_options(options);
    ipc_of(ipc).get_pieces(
        offset, {destination, destination_bytes}, list_of(given), signal_of(given), stream);
  });
}

symm_status_t symm_ipc_signal_value(symm_ipc_t* ipc, int32_t channel, symm_signal_op_t op,
    uint64_t value, const symm_call_options_t* options, void* stream) {
  return quick(options, [&] {
    require_known_op(op, "op");
    check_options(options);
    ipc_of(ipc).signal_value({channel, static_cast<SignalOp>(op), value}, stream);
  });
}

symm_status_t symm_ipc_wait_value(const void* token, size_t token_bytes, int32_t channel,
    symm_compare_t compare, uint64_t value, const symm_call_options_t* options, uint64_t* out_seen,
    void* stream) {
  return guard(options, [&] {
    if (token == nullptr) throw Error(Status::invalid_argument, "token: is NULL");
    require_known_compare(compare);
    const uint64_t seen = ipc::wait_value({static_cast<const std::byte*>(token), token_bytes},
        channel, static_cast<Compare>(compare), value, timeout_of(options), stream);
    if (out_seen != nullptr) *out_seen = seen;
  });
}

symm_status_t symm_ipc_fence(const void* pointer, size_t bytes, uint64_t epoch,
    const symm_call_options_t* options, void* stream) {
  return guard(options, [&] { ipc::fence(pointer, bytes, epoch, timeout_of(options), stream); });
}

symm_status_t symm_ipc_publish(const char* name, uint64_t version, const void* token,
    size_t token_bytes, const symm_ipc_publish_options_t* options) {
  return guard(options, [&] {
    const symm_ipc_publish_options_t given = read_options(options);
    if (token == nullptr) throw Error(Status::invalid_argument, "token: is NULL");
    ipc::publish(
        name_of(name), version, {static_cast<const std::byte*>(token), token_bytes}, given.keep);
  });
}

symm_status_t symm_ipc_lookup(const char* name, symm_compare_t compare, uint64_t version,
    const symm_ipc_lookup_options_t* options, void* out_token, size_t capacity, size_t* out_bytes,
    uint64_t* out_version) {
  return guard(options, [&] {
    const symm_ipc_lookup_options_t given = read_options(options);
    const std::string wanted = name_of(name);
    ipc::require_name(wanted, "name");
    require_known_compare(compare);
    if (out_token == nullptr) throw Error(Status::invalid_argument, "out_token: is NULL");
    size_t& size = require(out_bytes, "out_bytes");
    uint64_t& found_version = require(out_version, "out_version");

    const ipc::Found found = ipc::look_up(wanted, static_cast<Compare>(compare), version,
        given.directory == nullptr ? "" : given.directory, given.timeout_ms);
    ipc::require_room(capacity, found.token.size());
    std::memcpy(out_token, found.token.data(), found.token.size());
    size = found.token.size();
    found_version = found.version;
  });
}

symm_status_t symm_ipc_withdraw_version(
    const char* name, uint64_t version, const symm_call_options_t* options) {
  return guard(
      options, [&] { ipc::withdraw_version(name_of(name), version, timeout_of(options)); });
}

symm_status_t symm_ipc_stream_wait(
    symm_ipc_t* ipc, const symm_call_options_t* options, void* stream) {
  return guard(options, [&] {
    check_options(options);
    ipc_of(ipc).let_wait(stream);
  });
}

symm_status_t symm_ipc_record_use(
    symm_ipc_t* ipc, const symm_call_options_t* options, void* stream) {
  return guard(options, [&] {
    check_options(options);
    ipc_of(ipc).record_use(stream);
  });
}

symm_status_t symm_ipc_retain(symm_ipc_t* ipc) {
  return guard([&] { retain<HeldLease>(ipc, "ipc"); });
}

void symm_ipc_release(symm_ipc_t* ipc, void* stream) {
  release<HeldLease>(
      ipc, [stream](HeldLease& last) { last.release_after(stream); },
      [stream](HeldLease& still_held) { still_held.note_release(stream); });
}

symm_status_t symm_ipc_withdraw(
    const void* pointer, size_t bytes, const symm_call_options_t* options) {
  return guard(options, [&] { ipc::withdraw(pointer, bytes, timeout_of(options)); });
}

symm_status_t symm_ipc_holders(const void* pointer, size_t bytes,
    const symm_call_options_t* options, symm_ipc_holders_t* out) {
  return fill_struct(options, out, SYMM_FIRST_SIZE(symm_ipc_holders_t, quarantined), [&] {
    check_options(options);
    return ipc::holders(pointer, bytes);
  });
}

symm_status_t symm_ipc_collect(const symm_call_options_t* options, symm_ipc_collect_stats_t* out) {
  return guard(options, [&] {
    check_options(options);
    if (out != nullptr) {
      require_struct_size(
          out->struct_size, SYMM_FIRST_SIZE(symm_ipc_collect_stats_t, limbo_bytes), "out");
    }
    const symm_ipc_collect_stats_t report = ipc::collect();
    if (out != nullptr) write_struct(report, out);
  });
}

symm_status_t symm_ipc_stats(symm_ipc_stats_t* out) {
  return fill_struct(
      out, SYMM_FIRST_SIZE(symm_ipc_stats_t, oldest_lease_start_time), [] { return ipc::stats(); });
}
