// Exchanges of neighbours between GPUs: one launch of kernels/cuda/exchange.cu starts a round, and
// one finishes it. Launches of one exchange run in the order of the calls, on whatever streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/cuda/allocation.hpp"
#include "core/cuda/device_group.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/stream_order.hpp"
#include "kernels/cuda/args.hpp"

namespace symm::cuda {
class Exchange final : public ExchangeRounds {
 public:
  // As Transport::make_exchange(). Throws Error(invalid_argument) for a source that no kernel
  // reaches.
  Exchange(DeviceGroup& group, const MemoryView& words, std::span<const NeighborPieces> parts);

  void start(uint64_t timeout_ms, void* stream) override;
  void finish(uint64_t timeout_ms, void* stream) override;

 private:
  // The parts by neighbours, as kernels get them.
  struct Lists {
    std::vector<ExchangeNeighbor> neighbors;
    std::vector<size_t> counts;  // of each one's pieces
    std::vector<ListedPiece> pieces;
  };
  Lists lists_of(const MemoryView& words, std::span<const NeighborPieces> parts) const;
  // The pieces of the part with this place in the list of the call.
  void add_pieces(Lists& lists, const NeighborPieces& part, size_t index) const;
  void place(Lists& lists);
  void issue(Operation operation, uint64_t timeout_ms, void* stream);
  void launch(Operation operation, uint64_t timeout_ms, CUstream stream) const;

  DeviceGroup& group_;
  StreamOrder order_;
  // What the kernel is told of the exchange.
  std::shared_ptr<Allocation> memory_;
  ExchangeArgsOf<kSmallRanks> told_{};
};
}  // namespace symm::cuda
