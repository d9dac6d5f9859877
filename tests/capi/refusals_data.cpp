// SPDX-License-Identifier: Apache-2.0
#include "tests/capi/refusal.hpp"
#include "tests/support/options.hpp"

namespace symm_test {

namespace {

constexpr size_t kBytes = World::kBytes;
constexpr int32_t kSelf[] = {0};
constexpr int32_t kTwice[] = {0, 0};
constexpr int32_t kStranger[] = {0, 1};
constexpr int32_t kNegative[] = {-1};
constexpr int32_t kNoChannel = 1 << 30;
const WrongSize<symm_wait_options_t> kWait;

}  // namespace

const std::vector<Refusal>& data_refusals() {
  static const std::vector<Refusal> rows = {
      SYMM_REFUSE(symm_barrier, ranks, "NULL with a count", INVALID_ARGUMENT, w.group, nullptr, 1, 0, nullptr, nullptr),
      SYMM_REFUSE(symm_barrier, ranks, "twice the same", INVALID_ARGUMENT, w.group, kTwice, 2, 0, nullptr, nullptr),
      SYMM_REFUSE(symm_barrier, ranks, "= size", INVALID_ARGUMENT, w.group, kStranger, 2, 0, nullptr, nullptr),
      SYMM_REFUSE(symm_barrier, ranks, "-1", INVALID_ARGUMENT, w.group, kNegative, 1, 0, nullptr, nullptr),
      SYMM_REFUSE(symm_barrier, count, "0 with ranks", INVALID_ARGUMENT, w.group, kSelf, 0, 0, nullptr, nullptr),
      SYMM_REFUSE(symm_barrier, channel, "-1", INVALID_ARGUMENT, w.group, nullptr, 0, -1, nullptr, nullptr),
      SYMM_REFUSE(symm_barrier, channel, "too large", INVALID_ARGUMENT, w.group, nullptr, 0, kNoChannel, nullptr, nullptr),
      SYMM_REFUSE(symm_barrier, options, "short", INVALID_ARGUMENT, w.group, nullptr, 0, 0, kWait.small(), nullptr),
      SYMM_REFUSE(symm_barrier, options, "newer", UNSUPPORTED, w.group, nullptr, 0, 0, kWait.newer(), nullptr),
      SYMM_REFUSE(symm_group_finalize, options, "short", INVALID_ARGUMENT, w.group, kWait.small()),
      SYMM_REFUSE(symm_group_finalize, options, "newer", UNSUPPORTED, w.group, kWait.newer()),
      SYMM_REFUSE(symm_wait_signal, options, "short", INVALID_ARGUMENT, w.memory, 0, 0, kWait.small(), nullptr),
      SYMM_REFUSE(symm_wait_signal, options, "newer", UNSUPPORTED, w.memory, 0, 0, kWait.newer(), nullptr),
      SYMM_REFUSE(symm_barrier, stream, "not NULL", INVALID_ARGUMENT, w.group, nullptr, 0, 0, nullptr, stream()),
      SYMM_REFUSE(symm_group_synchronize, options, "short", INVALID_ARGUMENT, w.group, nullptr, kWait.small()),
      SYMM_REFUSE(symm_group_synchronize, options, "newer", UNSUPPORTED, w.group, nullptr, kWait.newer()),
      SYMM_REFUSE(symm_group_synchronize, stream, "not NULL", INVALID_ARGUMENT, w.group, stream(), nullptr),
      SYMM_REFUSE(symm_stream_wait, stream, "not NULL", INVALID_ARGUMENT, w.group, stream(), nullptr),
      SYMM_REFUSE(symm_stream_wait, after_stream, "not NULL", INVALID_ARGUMENT, w.group, nullptr, stream()),
      SYMM_REFUSE(symm_stream_query, stream, "not NULL", INVALID_ARGUMENT, w.group, stream(), w.out<int32_t>()),
      SYMM_REFUSE(symm_stream_query, out_done, "NULL", INVALID_ARGUMENT, w.group, nullptr, nullptr),
      SYMM_REFUSE(symm_buffer_record_use, stream, "not NULL", INVALID_ARGUMENT, w.buffer, stream()),
      SYMM_REFUSE(symm_memory_record_use, stream, "not NULL", INVALID_ARGUMENT, w.memory, stream()),

      SYMM_REFUSE(symm_signal, rank, "= size", INVALID_ARGUMENT, w.memory, 1, 0, nullptr),
      SYMM_REFUSE(symm_signal, rank, "-1", INVALID_ARGUMENT, w.memory, -1, 0, nullptr),
      SYMM_REFUSE(symm_signal, channel, "-1", INVALID_ARGUMENT, w.memory, 0, -1, nullptr),
      SYMM_REFUSE(symm_signal, channel, "too large", INVALID_ARGUMENT, w.memory, 0, kNoChannel, nullptr),
      SYMM_REFUSE(symm_signal, stream, "not NULL", INVALID_ARGUMENT, w.memory, 0, 0, stream()),
      SYMM_REFUSE(symm_wait_signal, rank, "= size", INVALID_ARGUMENT, w.memory, 1, 0, support::within(1), nullptr),
      SYMM_REFUSE(symm_wait_signal, rank, "-1", INVALID_ARGUMENT, w.memory, -1, 0, support::within(1), nullptr),
      SYMM_REFUSE(symm_wait_signal, channel, "-1", INVALID_ARGUMENT, w.memory, 0, -1, support::within(1), nullptr),
      SYMM_REFUSE(symm_wait_signal, channel, "too large", INVALID_ARGUMENT, w.memory, 0, kNoChannel, support::within(1), nullptr),
      SYMM_REFUSE(symm_wait_signal, stream, "not NULL", INVALID_ARGUMENT, w.memory, 0, 0, support::within(1), stream()),

      SYMM_REFUSE(symm_put, rank, "= size", INVALID_ARGUMENT, w.memory, 1, 0, w.source.data(), 8, nullptr),
      SYMM_REFUSE(symm_put, rank, "-1", INVALID_ARGUMENT, w.memory, -1, 0, w.source.data(), 8, nullptr),
      SYMM_REFUSE(symm_put, offset, "beyond the block", INVALID_ARGUMENT, w.memory, 0, kBytes + 1, w.source.data(), 0, nullptr),
      SYMM_REFUSE(symm_put, offset, "wraps around", INVALID_ARGUMENT, w.memory, 0, SIZE_MAX - 3, w.source.data(), 8, nullptr),
      SYMM_REFUSE(symm_put, source, "NULL", INVALID_ARGUMENT, w.memory, 0, 0, nullptr, 8, nullptr),
      SYMM_REFUSE(symm_put, size, "beyond the block", INVALID_ARGUMENT, w.memory, 0, kBytes - 4, w.source.data(), 8, nullptr),
      SYMM_REFUSE(symm_put, size, "SIZE_MAX", INVALID_ARGUMENT, w.memory, 0, 8, w.source.data(), SIZE_MAX, nullptr),
      SYMM_REFUSE(symm_put, stream, "not NULL", INVALID_ARGUMENT, w.memory, 0, 0, w.source.data(), 8, stream()),

      SYMM_REFUSE(symm_get, rank, "= size", INVALID_ARGUMENT, w.memory, 1, 0, w.destination(), 8, nullptr),
      SYMM_REFUSE(symm_get, rank, "-1", INVALID_ARGUMENT, w.memory, -1, 0, w.destination(), 8, nullptr),
      SYMM_REFUSE(symm_get, offset, "beyond the block", INVALID_ARGUMENT, w.memory, 0, kBytes + 1, w.destination(), 0, nullptr),
      SYMM_REFUSE(symm_get, offset, "wraps around", INVALID_ARGUMENT, w.memory, 0, SIZE_MAX - 3, w.destination(), 8, nullptr),
      SYMM_REFUSE(symm_get, destination, "NULL", INVALID_ARGUMENT, w.memory, 0, 0, nullptr, 8, nullptr),
      SYMM_REFUSE(symm_get, size, "beyond the block", INVALID_ARGUMENT, w.memory, 0, kBytes - 4, w.destination(), 8, nullptr),
      SYMM_REFUSE(symm_get, size, "SIZE_MAX", INVALID_ARGUMENT, w.memory, 0, 8, w.destination(), SIZE_MAX, nullptr),
      SYMM_REFUSE(symm_get, stream, "not NULL", INVALID_ARGUMENT, w.memory, 0, 0, w.destination(), 8, stream()),

      SYMM_REFUSE(symm_put_signal, rank, "= size", INVALID_ARGUMENT, w.memory, 1, 0, w.source.data(), 8, 0, nullptr),
      SYMM_REFUSE(symm_put_signal, offset, "beyond the block", INVALID_ARGUMENT, w.memory, 0, kBytes + 1, w.source.data(), 0, 0,
                  nullptr),
      SYMM_REFUSE(symm_put_signal, source, "NULL", INVALID_ARGUMENT, w.memory, 0, 0, nullptr, 8, 0, nullptr),
      SYMM_REFUSE(symm_put_signal, size, "beyond the block", INVALID_ARGUMENT, w.memory, 0, kBytes - 4, w.source.data(), 8, 0,
                  nullptr),
      SYMM_REFUSE(symm_put_signal, channel, "-1", INVALID_ARGUMENT, w.memory, 0, 0, w.source.data(), 8, -1, nullptr),
      SYMM_REFUSE(symm_put_signal, channel, "too large", INVALID_ARGUMENT, w.memory, 0, 0, w.source.data(), 8, kNoChannel,
                  nullptr),
      SYMM_REFUSE(symm_put_signal, stream, "not NULL", INVALID_ARGUMENT, w.memory, 0, 0, w.source.data(), 8, 0, stream()),

      SYMM_REFUSE(symm_fill32, rank, "= size", INVALID_ARGUMENT, w.memory, 1, 0, 7, 1, nullptr),
      SYMM_REFUSE(symm_fill32, offset, "not a multiple of 4", INVALID_ARGUMENT, w.memory, 0, 2, 7, 1, nullptr),
      SYMM_REFUSE(symm_fill32, offset, "beyond the block", INVALID_ARGUMENT, w.memory, 0, kBytes + 4, 7, 0, nullptr),
      SYMM_REFUSE(symm_fill32, count, "beyond the block", INVALID_ARGUMENT, w.memory, 0, kBytes - 4, 7, 2, nullptr),
      SYMM_REFUSE(symm_fill32, count, "wraps around", INVALID_ARGUMENT, w.memory, 0, 0, 7, SIZE_MAX / 4 + 2, nullptr),
      SYMM_REFUSE(symm_fill32, stream, "not NULL", INVALID_ARGUMENT, w.memory, 0, 0, 7, 1, stream()),
      SYMM_REFUSE(symm_write_value32, rank, "= size", INVALID_ARGUMENT, w.memory, 1, 0, 7, nullptr),
      SYMM_REFUSE(symm_write_value32, offset, "not a multiple of 4", INVALID_ARGUMENT, w.memory, 0, 2, 7, nullptr),
      SYMM_REFUSE(symm_write_value32, offset, "beyond the block", INVALID_ARGUMENT, w.memory, 0, kBytes, 7, nullptr),
      SYMM_REFUSE(symm_write_value32, stream, "not NULL", INVALID_ARGUMENT, w.memory, 0, 0, 7, stream()),
  };
  return rows;
}

}  // namespace symm_test
