// The C ABI of the library itself: versions, errors, listeners. It also asserts that symm.h,
// fused.h, core and kernels use the same numbers.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "build_info.hpp"
#include "capi/guard.hpp"
#include "capi/structs.hpp"
#include "core/base/error.hpp"
#include "core/base/interrupt.hpp"
#include "core/base/layouts.hpp"
#include "core/base/log.hpp"
#include "core/base/text.hpp"
#include "core/group/checks.hpp"
#include "kernels/compare.hpp"
#include "kernels/types.hpp"
#include "symm/fused.h"
#include "symm/symm.h"

// Asserts that symm.h, core and kernels use the same numbers.
#define SYMM_SAME(c_name, cpp_value) \
  static_assert(static_cast<int32_t>(c_name) == static_cast<int32_t>(cpp_value))
#define SYMM_SAME_STATUS(name, c_name, value, text) SYMM_SAME(SYMM_##c_name, symm::Status::name);
#define SYMM_SAME_DTYPE(name, c_name, value) SYMM_SAME(SYMM_DTYPE_##c_name, symm::DType::name);
#define SYMM_SAME_OP(name, c_name, value) SYMM_SAME(SYMM_OP_##c_name, symm::Op::name);
#define SYMM_SAME_SCALE(name, c_name, value) \
  SYMM_SAME(SYMM_SCALE_##c_name, symm::ScalePosition::name);
#define SYMM_SAME_ORDER(name, c_name, value) SYMM_SAME(SYMM_ORDER_##c_name, symm::Order::name);
#define SYMM_SAME_QUANT_SCALE(name, c_name, value) \
  SYMM_SAME(SYMM_QUANT_SCALE_##c_name, symm::QuantScale::name);
#define SYMM_SAME_COLLECTIVE(name, c_name, value) \
  SYMM_SAME(SYMM_COLLECTIVE_##c_name, symm::Collective::name);
#define SYMM_SAME_ALGORITHM(name, c_name, value) \
  SYMM_SAME(SYMM_ALGORITHM_##c_name, symm::Algorithm::name);
SYMM_STATUSES(SYMM_SAME_STATUS)
SYMM_DTYPES(SYMM_SAME_DTYPE)
SYMM_OPS(SYMM_SAME_OP)
SYMM_SCALE_POSITIONS(SYMM_SAME_SCALE)
SYMM_ORDERS(SYMM_SAME_ORDER)
SYMM_QUANT_SCALES(SYMM_SAME_QUANT_SCALE)
SYMM_COLLECTIVES(SYMM_SAME_COLLECTIVE)
SYMM_ALGORITHMS(SYMM_SAME_ALGORITHM)
SYMM_SAME(SYMM_SIGNAL_ADD, symm::SignalOp::add);
SYMM_SAME(SYMM_SIGNAL_SET, symm::SignalOp::set);
SYMM_SAME(SYMM_COMPARE_EQ, symm::Compare::eq);
SYMM_SAME(SYMM_COMPARE_NE, symm::Compare::ne);
SYMM_SAME(SYMM_COMPARE_LT, symm::Compare::lt);
SYMM_SAME(SYMM_COMPARE_LE, symm::Compare::le);
SYMM_SAME(SYMM_COMPARE_GT, symm::Compare::gt);
SYMM_SAME(SYMM_COMPARE_GE, symm::Compare::ge);
SYMM_SAME(SYMM_LOG_ERROR, symm::log::Level::error);
SYMM_SAME(SYMM_LOG_WARNING, symm::log::Level::warning);
SYMM_SAME(SYMM_LOG_INFO, symm::log::Level::info);
SYMM_SAME(SYMM_LOG_DEBUG, symm::log::Level::debug);

namespace symm::capi {
namespace {
// The failure is plain memory: there is no destructor to run when a thread ends, and nothing to
// allocate when memory is short.
thread_local symm_failure_t last_failure{sizeof(symm_failure_t), SYMM_OK, -1, 0, 0, 0, ""};
constexpr size_t kFailureSize = SYMM_FIRST_SIZE(symm_failure_t, message);
}  // namespace

symm_failure_t struct_of(const Failure& failure) noexcept {
  symm_failure_t told{};
  told.struct_size = sizeof told;
  told.status = static_cast<symm_status_t>(failure.status);
  told.rank = failure.rank;
  told.pid = failure.pid;
  told.os_error = failure.os_error;
  told.cuda_result = failure.cuda_result;
  write_text(told.message, failure.message);
  return told;
}

symm_status_t fail(const Failure& failure, symm_failure_t* sink) noexcept {
  last_failure = struct_of(failure);
  if (sink != nullptr && sink->struct_size >= kFailureSize) write_struct(last_failure, sink);
  return last_failure.status;
}

void require_sink(const symm_failure_t& sink, const char* argument) {
  require_struct_size(sink.struct_size, kFailureSize, argument);
}
}  // namespace symm::capi

using namespace symm;
using namespace symm::capi;

uint32_t symm_version(void) { return symm::layouts::library; }

uint32_t symm_fused_version(void) { return SYMM_FUSED_VERSION; }

const char* symm_build_info(void) { return build_info::kJson; }

const char* symm_status_string(symm_status_t status) {
  return status_text(static_cast<Status>(status));
}

const char* symm_last_error(void) { return last_failure.message; }

symm_status_t symm_last_failure(symm_failure_t* out) {
  return fill_struct(out, SYMM_FIRST_SIZE(symm_failure_t, message), [] { return last_failure; });
}

namespace {
log::Level known(symm_log_level_t level) {
  if (level < SYMM_LOG_ERROR || level > SYMM_LOG_DEBUG) throw not_known("level", level);
  return static_cast<log::Level>(level);
}
}  // namespace

symm_status_t symm_log_add_listener(
    symm_log_callback_t callback, void* user, symm_log_level_t level, uint64_t* out_id) {
  return produce(out_id, "out_id", [&] {
    if (callback == nullptr) throw Error(Status::invalid_argument, "callback: is NULL");
    return log::add_listener(callback, user, known(level));
  });
}

symm_status_t symm_log_to_fd(int32_t fd, symm_log_level_t level, uint64_t* out_id) {
  return produce(out_id, "out_id", [&] { return log::add_descriptor(fd, known(level)); });
}

symm_status_t symm_log_remove_listener(uint64_t id) {
  return guard([&] { log::remove_listener(id); });
}

symm_status_t symm_thread_interrupt(symm_interrupt_callback_t callback, void* user) {
  return quick([&] { interrupt::set(callback, user); });
}

symm_status_t symm_dtype_bytes(symm_dtype_t dtype, size_t* out_bytes) {
  return produce(out_bytes, "out_bytes", [&] {
    const auto type = static_cast<DType>(dtype);
    if (!is_valid(type)) throw unknown_dtype(dtype);
    return size_of(type);
  });
}
