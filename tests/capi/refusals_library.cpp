// SPDX-License-Identifier: Apache-2.0
#include "tests/capi/refusal.hpp"

namespace symm_test {

namespace {
void ignore(void*, symm_log_level_t, const char*) {}
}  // namespace

const std::vector<Refusal>& library_refusals() {
  static const std::vector<Refusal> rows = {
      SYMM_REFUSE(symm_log_add_listener, callback, "NULL", INVALID_ARGUMENT, nullptr, nullptr, SYMM_LOG_INFO, w.out<uint64_t>()),
      SYMM_REFUSE(symm_log_add_listener, level, "0", UNSUPPORTED, ignore, nullptr, 0, w.out<uint64_t>()),
      SYMM_REFUSE(symm_log_add_listener, level, "one too many", UNSUPPORTED, ignore, nullptr, SYMM_LOG_DEBUG + 1,
                  w.out<uint64_t>()),
      SYMM_REFUSE(symm_log_add_listener, out_id, "NULL", INVALID_ARGUMENT, ignore, nullptr, SYMM_LOG_INFO, nullptr),
      SYMM_REFUSE(symm_log_to_fd, fd, "-1", INVALID_ARGUMENT, -1, SYMM_LOG_INFO, w.out<uint64_t>()),
      SYMM_REFUSE(symm_log_to_fd, fd, "not open", INVALID_ARGUMENT, 1 << 20, SYMM_LOG_INFO, w.out<uint64_t>()),
      SYMM_REFUSE(symm_log_to_fd, level, "one too many", UNSUPPORTED, 2, SYMM_LOG_DEBUG + 1, w.out<uint64_t>()),
      SYMM_REFUSE(symm_log_to_fd, out_id, "NULL", INVALID_ARGUMENT, 2, SYMM_LOG_INFO, nullptr),

      SYMM_REFUSE(symm_dtype_size, dtype, "0", INVALID_ARGUMENT, 0, w.out<size_t>()),
      SYMM_REFUSE(symm_dtype_size, dtype, "33 bits", UNSUPPORTED, SYMM_DTYPE_F32 + 1, w.out<size_t>()),
      SYMM_REFUSE(symm_dtype_size, dtype, "-1", INVALID_ARGUMENT, -1, w.out<size_t>()),
      SYMM_REFUSE(symm_dtype_size, out_bytes, "NULL", INVALID_ARGUMENT, SYMM_DTYPE_F32, nullptr),

      SYMM_REFUSE(symm_last_failure, out, "NULL", INVALID_ARGUMENT, nullptr),
      SYMM_REFUSE(symm_last_failure, out, "struct_size 0", INVALID_ARGUMENT, w.out_struct<symm_failure_t>(0)),

      SYMM_REFUSE(symm_device_count, backend, "unknown", UNSUPPORTED, 3, w.out<int32_t>()),
      SYMM_REFUSE(symm_device_count, backend, "-1", INVALID_ARGUMENT, -1, w.out<int32_t>()),
      SYMM_REFUSE(symm_device_count, out_count, "NULL", INVALID_ARGUMENT, SYMM_BACKEND_HOST, nullptr),

      SYMM_REFUSE(symm_device_info, backend, "unknown", UNSUPPORTED, 3, 0, w.out_struct<symm_device_info_t>()),
      SYMM_REFUSE(symm_device_info, device, "beyond the last", INVALID_ARGUMENT, SYMM_BACKEND_HOST, 1,
                  w.out_struct<symm_device_info_t>()),
      SYMM_REFUSE(symm_device_info, device, "-2", INVALID_ARGUMENT, SYMM_BACKEND_HOST, -2, w.out_struct<symm_device_info_t>()),
      SYMM_REFUSE(symm_device_info, out, "NULL", INVALID_ARGUMENT, SYMM_BACKEND_HOST, 0, nullptr),
      SYMM_REFUSE(symm_device_info, out, "struct_size 0", INVALID_ARGUMENT, SYMM_BACKEND_HOST, 0,
                  w.out_struct<symm_device_info_t>(0)),

      SYMM_REFUSE(symm_topology, backend, "unknown", UNSUPPORTED, 3, w.out<symm_topology_class_t>(), nullptr, 0),
      SYMM_REFUSE(symm_topology, out_class, "NULL", INVALID_ARGUMENT, SYMM_BACKEND_HOST, nullptr, nullptr, 0),
      SYMM_REFUSE(symm_topology, out_links, "NULL with a capacity", INVALID_ARGUMENT, SYMM_BACKEND_HOST,
                  w.out<symm_topology_class_t>(), nullptr, 1),
      SYMM_REFUSE(symm_topology, capacity, "too small", INVALID_ARGUMENT, SYMM_BACKEND_HOST, w.out<symm_topology_class_t>(),
                  w.out<int32_t>(), 0),
  };
  return rows;
}

}  // namespace symm_test
