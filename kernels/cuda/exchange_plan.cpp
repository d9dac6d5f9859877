// Divides the pieces of an exchange among blocks: the lines of all neighbours behind each other,
// each a whole number of units, in parts of equal length.
#include "kernels/cuda/exchange_plan.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/args.hpp"
#include "kernels/cuda/piece_units.hpp"

namespace symm::cuda {
namespace {
uint64_t cost_of_all(std::span<const ListedPiece> pieces) {
  uint64_t cost = 0;
  for (const ListedPiece& piece : pieces) {
    cost += cost_of(piece);
  }
  return cost;
}

// Deals out the lines of neighbours one after the other.
class Dealer {
 public:
  Dealer(ExchangePlan& plan, std::span<const ListedPiece> pieces, uint64_t each)
      : plan_(plan), pieces_(pieces), each_(each), room_(each) {
    plan_.first_segment.push_back(0);
  }

  void deal(uint32_t neighbor, size_t first, size_t count) {
    const uint64_t cost = cost_of_all(pieces_.subspan(first, count));
    piece_ = first;
    end_ = first + count;
    ahead_ = 0;
    if (cost == 0) add({0, 0, first, first, 0, neighbor, 0});

    for (uint64_t at = 0; at < cost;) {
      if (room_ == 0) next_block();
      const uint64_t most = std::min(cost - at, room_ * kUnitCost);
      add(segment(neighbor, at, at + most));
      room_ -= parts_of(most, kUnitCost);
      at += most;
    }
  }

  void finish() { plan_.first_segment.push_back(static_cast<uint32_t>(plan_.segments.size())); }

 private:
  void add(const ExchangeSegment& segment) { plan_.segments.push_back(segment); }

  void next_block() {
    plan_.first_segment.push_back(static_cast<uint32_t>(plan_.segments.size()));
    room_ = each_;
  }

  // Segments of a neighbour come in their order, so no piece is passed twice.
  ExchangeSegment segment(uint32_t neighbor, uint64_t begin, uint64_t end) {
    while (ahead_ + cost_of(pieces_[piece_]) <= begin) {
      ahead_ += cost_of(pieces_[piece_]);
      ++piece_;
    }
    size_t last = piece_;
    for (uint64_t behind = ahead_; last < end_ && behind < end; ++last) {
      behind += cost_of(pieces_[last]);
    }
    return {begin, end, piece_, last, ahead_, neighbor, 0};
  }

  ExchangePlan& plan_;
  const std::span<const ListedPiece> pieces_;
  const uint64_t each_;
  uint64_t room_;
  size_t piece_ = 0;
  size_t end_ = 0;
  uint64_t ahead_ = 0;
};
}  // namespace

uint64_t units_of(std::span<const ListedPiece> pieces, std::span<const size_t> counts) {
  uint64_t units = 0;
  size_t first = 0;
  for (const size_t count : counts) {
    units += parts_of(cost_of_all(pieces.subspan(first, count)), kUnitCost);
    first += count;
  }
  return units;
}

ExchangePlan divide(
    std::span<const ListedPiece> pieces, std::span<const size_t> counts, uint32_t blocks) {
  ExchangePlan plan;
  const uint64_t each = std::max<uint64_t>(1, parts_of(units_of(pieces, counts), blocks));
  Dealer dealer(plan, pieces, each);
  size_t first = 0;
  for (size_t neighbor = 0; neighbor < counts.size(); ++neighbor) {
    dealer.deal(static_cast<uint32_t>(neighbor), first, counts[neighbor]);
    first += counts[neighbor];
  }
  dealer.finish();
  return plan;
}
}  // namespace symm::cuda
