// The C ABI of sharing by tokens. It checks and converts structs of symm.h; core/ipc/ipc.hpp
// does the work.
#include "core/ipc/ipc.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "capi/guard.hpp"
#include "capi/handle.hpp"
#include "capi/objects.hpp"
#include "capi/structs.hpp"
#include "core/base/error.hpp"
#include "core/group/memory.hpp"
#include "core/ipc/held_lease.hpp"
#include "core/ipc/importer.hpp"
#include "core/ipc/token.hpp"
#include "symm/symm.h"

using namespace symm;
using namespace symm::capi;

SYMM_OPTIONS_WITH_INIT(symm_ipc_export_options, options, failure, SYMM_IPC_EXPORT_OPTIONS_INIT)
SYMM_OPTIONS_WITH_INIT(symm_ipc_import_options, options, failure, SYMM_IPC_IMPORT_OPTIONS_INIT)
using symm::ipc::HeldLease;

static_assert(SYMM_IPC_TOKEN_MAX_SIZE == ipc::kMaxToken);

namespace {
HeldLease& ipc_of(symm_ipc_t* handle) { return *slot_of<HeldLease>(handle, "ipc").object; }
}  // namespace

symm_status_t symm_ipc_export(const void* pointer, size_t size,
    const symm_ipc_export_options_t* options, void* out_token, size_t capacity, size_t* out_size,
    void* stream) {
  return produce(options, out_size, "out_size", [&] {
    if (out_token == nullptr) throw Error(Status::invalid_argument, "out_token: is NULL");
    const symm_ipc_export_options_t given = read_options(options);
    constexpr uint64_t kPatienceMs = 1'000;
    if (const auto buffer = Buffer::find(pointer).buffer) {
      buffer->require_no_stragglers(kPatienceMs);
    }

    const std::vector<std::byte> token =
        ipc::export_memory(pointer, size, {given.hold_ms, given.hold_imports}, stream);
    if (token.size() > capacity) {
      throw Error(Status::invalid_argument,
          format("capacity: %zu is less than the %zu bytes of the token", capacity, token.size()));
    }
    std::memcpy(out_token, token.data(), token.size());
    return token.size();
  });
}

symm_status_t symm_ipc_import(const void* token, size_t token_size,
    const symm_ipc_import_options_t* options, symm_ipc_t** out, void* stream) {
  return produce(options, out, "out", [&] {
    if (token == nullptr) throw Error(Status::invalid_argument, "token: is NULL");
    const symm_ipc_import_options_t given = read_options(options);
    if (given.device < SYMM_DEVICE_AUTO) {
      throw Error(Status::invalid_argument, format("options.device: %d is negative", given.device));
    }

    ipc::ImportOptions import_options;
    import_options.timeout_ms = given.timeout_ms;
    import_options.directory = given.directory == nullptr ? "" : given.directory;
    import_options.device = given.device;
    return make_handle<symm_ipc_t>([&] {
      return ipc::import_memory(
          {static_cast<const std::byte*>(token), token_size}, import_options, stream);
    });
  });
}

symm_status_t symm_ipc_pointer(symm_ipc_t* ipc, void** out_pointer) {
  return guard([&] { require(out_pointer, "out_pointer") = ipc_of(ipc).data(); });
}

symm_status_t symm_ipc_size(symm_ipc_t* ipc, size_t* out_bytes) {
  return guard([&] { require(out_bytes, "out_bytes") = ipc_of(ipc).bytes(); });
}

symm_status_t symm_ipc_info(symm_ipc_t* ipc, symm_ipc_info_t* out) {
  return fill_struct(
      out, SYMM_FIRST_SIZE(symm_ipc_info_t, host_memory), [&] { return ipc_of(ipc).info(); });
}

symm_status_t symm_ipc_stream_wait(symm_ipc_t* ipc, void* stream) {
  return guard([&] { ipc_of(ipc).let_wait(stream); });
}

symm_status_t symm_ipc_record_use(symm_ipc_t* ipc, void* stream) {
  return guard([&] { ipc_of(ipc).record_use(stream); });
}

symm_status_t symm_ipc_retain(symm_ipc_t* ipc) {
  return guard([&] { retain<HeldLease>(ipc, "ipc"); });
}

void symm_ipc_release(symm_ipc_t* ipc, void* stream) {
  release<HeldLease>(
      ipc, [stream](HeldLease& last) { last.release_after(stream); },
      [stream](HeldLease& still_held) { still_held.note_release(stream); });
}

symm_status_t symm_ipc_withdraw(const void* pointer, size_t size, uint64_t timeout_ms) {
  return guard([&] { ipc::withdraw(pointer, size, timeout_ms); });
}

symm_status_t symm_ipc_holders(const void* pointer, size_t size, symm_ipc_holders_t* out) {
  return fill_struct(out, SYMM_FIRST_SIZE(symm_ipc_holders_t, quarantined),
      [&] { return ipc::holders(pointer, size); });
}

symm_status_t symm_ipc_collect(symm_ipc_report_t* out) {
  return guard([&] {
    if (out != nullptr) {
      require_struct_size(
          out->struct_size, SYMM_FIRST_SIZE(symm_ipc_report_t, bytes_in_limbo), "out");
    }
    const symm_ipc_report_t report = ipc::collect();
    if (out != nullptr) write_struct(report, out);
  });
}

symm_status_t symm_ipc_stats(symm_ipc_stats_t* out) {
  return fill_struct(
      out, SYMM_FIRST_SIZE(symm_ipc_stats_t, oldest_lease_start_time), [] { return ipc::stats(); });
}
