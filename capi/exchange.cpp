// The C ABI of what neighbours exchange. It converts handles and structs of symm.h;
// core/group/neighbor_exchange.hpp does the work.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "capi/guard.hpp"
#include "capi/handle.hpp"
#include "capi/objects.hpp"
#include "capi/options.hpp"
#include "capi/request.hpp"
#include "capi/structs.hpp"
#include "core/base/error.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "core/group/neighbor_exchange.hpp"
#include "core/group/requests.hpp"
#include "kernels/types.hpp"
#include "symm/symm.h"

using namespace symm;
using namespace symm::capi;

namespace {
NeighborPart part_of(const symm_neighbor_t& neighbor) {
  if (neighbor.pieces == nullptr && neighbor.count != 0) {
    throw Error(
        Status::invalid_argument, format("pieces: is NULL, and count is %zu", neighbor.count));
  }
  std::vector<symm_piece_t> pieces;
  std::shared_ptr<Memory> memory;
  if (neighbor.count != 0 || neighbor.memory != nullptr) memory = memory_of(neighbor.memory);
  if (neighbor.count != 0) pieces.assign(neighbor.pieces, neighbor.pieces + neighbor.count);
  return {std::move(memory), neighbor.rank, neighbor.offset, neighbor.source, neighbor.source_bytes,
      std::move(pieces), neighbor.expected_bytes};
}

std::vector<NeighborPart> parts_of(const symm_neighbor_t* neighbors, size_t count) {
  if (count > NeighborExchange::kMostNeighbors) {
    throw Error(
        Status::invalid_argument, format("count: %zu is more than the %zu that there can be", count,
                                      NeighborExchange::kMostNeighbors));
  }
  std::vector<NeighborPart> parts;
  parts.reserve(count);
  read_structs<symm_neighbor_t>(neighbors, count, SYMM_NEIGHBOR_INIT,
      SYMM_FIRST_SIZE(symm_neighbor_t, expected_bytes), "neighbors",
      [&](size_t i, const symm_neighbor_t& neighbor) {
        naming_neighbor(i, [&] { parts.push_back(part_of(neighbor)); });
      });
  return parts;
}

NeighborBlocks blocks_of(const char* name, const int32_t* ranks, size_t count, const void* data,
    const size_t* counts, const size_t* displacements) {
  // A side that sends is only read.
  auto* const bytes = static_cast<std::byte*>(const_cast<void*>(data));
  return {name, ranks, count, bytes, counts, displacements};
}
}  // namespace

symm_status_t symm_exchange_create(symm_group_t* group, const symm_neighbor_t* neighbors,
    size_t count, const symm_call_options_t* options, symm_exchange_t** out) {
  return produce(options, out, "out", [&] {
    const std::shared_ptr<Group>& owner = group_of(group);
    const uint64_t timeout_ms = timeout_of(options);
    const auto make = [&] { return parts_of(neighbors, count); };
    return make_handle<symm_exchange_t>(
        [&] { return NeighborExchange::create(owner, std::ref(make), timeout_ms); });
  });
}

symm_status_t symm_exchange_start(
    symm_exchange_t* exchange, const symm_call_options_t* options, void* stream) {
  return quick(options, [&] {
    act(options, exchange_of(exchange), RequestOrder::collective, "exchange_start", stream,
        [=](NeighborExchange& self, uint64_t ms) { self.start(ms, stream); });
  });
}

symm_status_t symm_exchange_finish(
    symm_exchange_t* exchange, const symm_call_options_t* options, void* stream) {
  return quick(options, [&] {
    act(options, exchange_of(exchange), RequestOrder::collective, "exchange_finish", stream,
        [=](NeighborExchange& self, uint64_t ms) { self.finish(ms, stream); });
  });
}

symm_status_t symm_exchange_retain(symm_exchange_t* exchange) {
  return quick([&] { retain<NeighborExchange>(exchange, "exchange"); });
}

void symm_exchange_release(symm_exchange_t* exchange) { release<NeighborExchange>(exchange); }

symm_status_t symm_neighbor_alltoallv(symm_group_t* group, const int32_t* send_ranks,
    size_t send_count, const void* send, const size_t* send_counts,
    const size_t* send_displacements, const int32_t* recv_ranks, size_t recv_count, void* recv,
    const size_t* recv_counts, const size_t* recv_displacements, symm_dtype_t dtype,
    int32_t channel, const symm_call_options_t* options, void* stream) {
  return quick(options, [&] {
    Group& self = *group_of(group);
    const symm_call_options_t given = read_options(options);
    const auto type = static_cast<DType>(dtype);
    const NeighborBlocks out =
        blocks_of("send", send_ranks, send_count, send, send_counts, send_displacements);
    const NeighborBlocks in =
        blocks_of("recv", recv_ranks, recv_count, recv, recv_counts, recv_displacements);
    if (given.request == nullptr) {
      return exchange_blocks(self, out, in, type, channel, given.timeout_ms, stream);
    }

    requests_of(self, stream);
    begin(given.request,
        [&] { return start_exchange_of_blocks(self, out, in, type, channel, given.timeout_ms); });
  });
}
