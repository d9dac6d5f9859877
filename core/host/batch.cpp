// Chooses the calls of a batch that are done as one, and copies their operands.
#include "core/host/batch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "core/base/hash.hpp"
#include "core/host/control.hpp"
#include "kernels/collective.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/types.hpp"

namespace symm::host {
namespace {
size_t larger_operand(const CollectiveCall& call, int ranks) {
  const OperandBytes bytes = operand_bytes(call.collective, call.unit(), ranks);
  return std::max(bytes.send, bytes.recv);
}

// A call of an algorithm that was asked for is left alone: the algorithm may have limits.
bool is_mergeable(const CollectiveCall& call, int ranks) {
  return ranks > 1 && call.is_plain() && call.pieces == nullptr &&
         call.collective != Collective::allreduce_rmsnorm &&
         call.algorithm == Algorithm::automatic && larger_operand(call, ranks) <= kMostMergeable;
}

// Calls that do not combine elements move bytes, whatever their type.
bool are_of_one_kind(const CollectiveCall& a, const CollectiveCall& b) {
  const CollectiveTraits what = traits(a.collective);
  return a.collective == b.collective && a.block_limit == b.block_limit && a.order == b.order &&
         (!what.has_op || (a.dtype == b.dtype && a.op == b.op)) &&
         (!what.has_root() || a.root == b.root);
}

// Calls `copy` with the place of each block of the calls in the merged operand, its place in the
// operand of its call, and its bytes.
template <class Copy>
void for_each_block(std::span<const CollectiveCall* const> calls, size_t blocks, const Copy& copy) {
  size_t at = 0;
  for (size_t block = 0; block < blocks; ++block) {
    for (const CollectiveCall* call : calls) {
      const size_t bytes = call->unit();
      if (bytes != 0) copy(*call, at, block * bytes, bytes);
      at += bytes;
    }
  }
}

size_t blocks_of(bool per_rank, int ranks) { return per_rank ? static_cast<size_t>(ranks) : 1; }
}  // namespace

std::vector<MergeableCalls> parts_of(std::span<const CollectiveCall> calls, int ranks) {
  struct Open {
    size_t part;
    size_t bytes;
  };
  std::vector<MergeableCalls> parts;
  std::vector<Open> open;  // the last part of each kind

  for (const CollectiveCall& call : calls) {
    if (!is_mergeable(call, ranks)) {
      parts.push_back({&call});
      continue;
    }

    const size_t bytes = larger_operand(call, ranks);
    const auto found = std::find_if(open.begin(), open.end(),
        [&](const Open& one) { return are_of_one_kind(*parts[one.part].front(), call); });
    if (found == open.end()) {
      open.push_back({parts.size(), bytes});
      parts.push_back({&call});
    } else if (found->bytes + bytes > kMostMerged || parts[found->part].size() == kMostMembers) {
      *found = {parts.size(), bytes};
      parts.push_back({&call});
    } else {
      found->bytes += bytes;
      parts[found->part].push_back(&call);
    }
  }
  return parts;
}

// Returns the number that stands for the calls in the signature of the merged one; not 0.
uint32_t MergedOperands::show(std::span<const CollectiveCall* const> calls) {
  uint64_t all = calls.size();
  members_.clear();
  for (const CollectiveCall* call : calls) {
    const auto index = static_cast<uint32_t>(call->batch.index);
    members_.push_back({call->packed(), call->packed_count(), index});
    all = mix(mix(all, index), call->hash());
  }
  return std::max(static_cast<uint32_t>(all >> 41), 1U);
}

CollectiveCall MergedOperands::gather(
    std::span<const CollectiveCall* const> calls, int rank, int ranks) {
  CollectiveCall all = *calls.front();
  const CollectiveTraits what = traits(all.collective);
  const bool is_of_one_type = std::all_of(calls.begin(), calls.end(),
      [&](const CollectiveCall* call) { return call->dtype == all.dtype; });
  size_t unit = 0;
  for (const CollectiveCall* call : calls) {
    unit += call->unit();
  }
  if (!is_of_one_type) all.dtype = DType::u8;
  all.count = unit / size_of(all.dtype);
  all.batch = {all.batch.calls, all.batch.index, show(calls)};

  send_.resize(std::max(send_.size(), unit * blocks_of(what.send_per_rank, ranks)));
  recv_.resize(std::max(recv_.size(), unit * blocks_of(what.recv_per_rank, ranks)));
  all.send = send_.data();
  all.recv = recv_.data();
  if (what.from_root && rank != all.root) return all;

  for_each_block(calls, blocks_of(what.send_per_rank, ranks),
      [&](const CollectiveCall& call, size_t at, size_t from, size_t bytes) {
        std::memcpy(send_.data() + at, static_cast<const std::byte*>(call.send) + from, bytes);
      });
  return all;
}

void MergedOperands::scatter(
    std::span<const CollectiveCall* const> calls, int rank, int ranks) const {
  const CollectiveCall& first = *calls.front();
  const CollectiveTraits what = traits(first.collective);
  if (what.to_root && rank != first.root) return;

  for_each_block(calls, blocks_of(what.recv_per_rank, ranks),
      [&](const CollectiveCall& call, size_t at, size_t to, size_t bytes) {
        std::memcpy(static_cast<std::byte*>(call.recv) + to, recv_.data() + at, bytes);
      });
}
}  // namespace symm::host
