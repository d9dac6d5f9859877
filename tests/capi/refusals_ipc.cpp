// SPDX-License-Identifier: Apache-2.0
#include "tests/capi/refusal.hpp"

namespace symm_test {
namespace {

symm_ipc_export_options_t* export_options(size_t struct_size, uint64_t hold_ms, uint64_t hold_imports) {
  static symm_ipc_export_options_t options;
  options = {struct_size, hold_ms, hold_imports, nullptr};
  return &options;
}

symm_ipc_import_options_t* import_options(size_t struct_size, int32_t device) {
  static symm_ipc_import_options_t options;
  options = {struct_size, 0, nullptr, device, nullptr};
  return &options;
}

}  // namespace

const std::vector<Refusal>& ipc_refusals() {
  static const std::vector<Refusal> rows = {
      SYMM_REFUSE(symm_ipc_export_options_init, options, "NULL", INVALID_ARGUMENT, nullptr, sizeof(symm_ipc_export_options_t)),
      SYMM_REFUSE(symm_ipc_export_options_init, struct_size, "0", INVALID_ARGUMENT, w.out<symm_ipc_export_options_t>(), 0),
      SYMM_REFUSE(symm_ipc_import_options_init, options, "NULL", INVALID_ARGUMENT, nullptr, sizeof(symm_ipc_import_options_t)),
      SYMM_REFUSE(symm_ipc_import_options_init, struct_size, "0", INVALID_ARGUMENT, w.out<symm_ipc_import_options_t>(), 0),

      SYMM_REFUSE(symm_ipc_export, pointer, "NULL", INVALID_ARGUMENT, nullptr, 8, nullptr, w.out_token(), w.kToken,
                  w.out<size_t>(), nullptr),
      SYMM_REFUSE(symm_ipc_export, pointer, "of no buffer", INVALID_ARGUMENT, w.source.data(), 8, nullptr, w.out_token(),
                  w.kToken, w.out<size_t>(), nullptr),
      SYMM_REFUSE(symm_ipc_export, size, "beyond the end", INVALID_ARGUMENT, w.block + 1, w.kBytes, nullptr, w.out_token(),
                  w.kToken, w.out<size_t>(), nullptr),
      SYMM_REFUSE(symm_ipc_export, size, "SIZE_MAX", INVALID_ARGUMENT, w.block + 1, SIZE_MAX, nullptr, w.out_token(), w.kToken,
                  w.out<size_t>(), nullptr),
      SYMM_REFUSE(symm_ipc_export, options, "struct_size 0", INVALID_ARGUMENT, w.block, 8, export_options(0, 0, 0), w.out_token(),
                  w.kToken, w.out<size_t>(), nullptr),
      SYMM_REFUSE(symm_ipc_export, options, "imports without a time", INVALID_ARGUMENT, w.block, 8,
                  export_options(sizeof(symm_ipc_export_options_t), 0, 1), w.out_token(), w.kToken, w.out<size_t>(), nullptr),
      SYMM_REFUSE(symm_ipc_export, out_token, "NULL", INVALID_ARGUMENT, w.block, 8, nullptr, nullptr, w.kToken, w.out<size_t>(),
                  nullptr),
      SYMM_REFUSE(symm_ipc_export, capacity, "too small", INVALID_ARGUMENT, w.block, 8, nullptr, w.out_token(), 100,
                  w.out<size_t>(), nullptr),
      SYMM_REFUSE(symm_ipc_export, out_size, "NULL", INVALID_ARGUMENT, w.block, 8, nullptr, w.out_token(), w.kToken, nullptr,
                  nullptr),
      SYMM_REFUSE(symm_ipc_export, stream, "with host memory", INVALID_ARGUMENT, w.block, 8, nullptr, w.out_token(), w.kToken,
                  w.out<size_t>(), &w),

      SYMM_REFUSE(symm_ipc_import, token, "NULL", INVALID_ARGUMENT, nullptr, 200, nullptr, w.out<symm_ipc_t*>(), nullptr),
      SYMM_REFUSE(symm_ipc_import, token, "no token", INVALID_ARGUMENT, w.source.data(), sizeof w.source, nullptr,
                  w.out<symm_ipc_t*>(), nullptr),
      SYMM_REFUSE(symm_ipc_import, token_size, "0", INVALID_ARGUMENT, w.token.data(), 0, nullptr, w.out<symm_ipc_t*>(), nullptr),
      SYMM_REFUSE(symm_ipc_import, token_size, "one too few", INVALID_ARGUMENT, w.token.data(), w.token_size - 1, nullptr,
                  w.out<symm_ipc_t*>(), nullptr),
      SYMM_REFUSE(symm_ipc_import, token_size, "one too many", INVALID_ARGUMENT, w.token.data(), w.token_size + 1, nullptr,
                  w.out<symm_ipc_t*>(), nullptr),
      SYMM_REFUSE(symm_ipc_import, options, "struct_size 0", INVALID_ARGUMENT, w.token.data(), w.token_size,
                  import_options(0, SYMM_DEVICE_AUTO), w.out<symm_ipc_t*>(), nullptr),
      SYMM_REFUSE(symm_ipc_import, options, "device -2", INVALID_ARGUMENT, w.token.data(), w.token_size,
                  import_options(sizeof(symm_ipc_import_options_t), -2), w.out<symm_ipc_t*>(), nullptr),
      SYMM_REFUSE(symm_ipc_import, out, "NULL", INVALID_ARGUMENT, w.token.data(), w.token_size, nullptr, nullptr, nullptr),
      SYMM_REFUSE(symm_ipc_import, stream, "with host memory", INVALID_ARGUMENT, w.token.data(), w.token_size, nullptr,
                  w.out<symm_ipc_t*>(), &w),

      SYMM_REFUSE(symm_ipc_pointer, out_pointer, "NULL", INVALID_ARGUMENT, w.ipc, nullptr),
      SYMM_REFUSE(symm_ipc_size, out_bytes, "NULL", INVALID_ARGUMENT, w.ipc, nullptr),
      SYMM_REFUSE(symm_ipc_stream_wait, stream, "with host memory", INVALID_ARGUMENT, w.ipc, &w),
      SYMM_REFUSE(symm_ipc_record_use, stream, "with host memory", INVALID_ARGUMENT, w.ipc, &w),
      SYMM_REFUSE(symm_ipc_info, out, "NULL", INVALID_ARGUMENT, w.ipc, nullptr),
      SYMM_REFUSE(symm_ipc_info, out, "struct_size 0", INVALID_ARGUMENT, w.ipc, w.out_struct<symm_ipc_info_t>(0)),

      SYMM_REFUSE(symm_ipc_withdraw, pointer, "NULL", INVALID_ARGUMENT, nullptr, 8, 1),
      SYMM_REFUSE(symm_ipc_withdraw, pointer, "of no buffer", INVALID_ARGUMENT, w.source.data(), 8, 1),
      SYMM_REFUSE(symm_ipc_withdraw, size, "beyond the end", INVALID_ARGUMENT, w.block, w.kBytes + 1, 1),

      SYMM_REFUSE(symm_ipc_holders, pointer, "NULL", INVALID_ARGUMENT, nullptr, 8, w.out_struct<symm_ipc_holders_t>()),
      SYMM_REFUSE(symm_ipc_holders, size, "beyond the end", INVALID_ARGUMENT, w.block, w.kBytes + 1,
                  w.out_struct<symm_ipc_holders_t>()),
      SYMM_REFUSE(symm_ipc_holders, out, "NULL", INVALID_ARGUMENT, w.block, 8, nullptr),
      SYMM_REFUSE(symm_ipc_holders, out, "struct_size 0", INVALID_ARGUMENT, w.block, 8, w.out_struct<symm_ipc_holders_t>(0)),

      SYMM_REFUSE(symm_ipc_collect, out, "struct_size 0", INVALID_ARGUMENT, w.out_struct<symm_ipc_report_t>(0)),
      SYMM_REFUSE(symm_ipc_stats, out, "NULL", INVALID_ARGUMENT, nullptr),
      SYMM_REFUSE(symm_ipc_stats, out, "struct_size 0", INVALID_ARGUMENT, w.out_struct<symm_ipc_stats_t>(0)),
  };
  return rows;
}

}  // namespace symm_test
