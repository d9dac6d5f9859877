// All-reduces across machines in which not every rank sends to every other.
//
// ---- Chain
//
// The machines form a chain, in the order of their ranks. Each rank of a machine has a
// slice of the vector, which goes in chunks. For a chunk of its slice, rank r of
// machine k gets the sums of the machines before, not rounded, from rank r of machine
// k-1, adds the operands of its own machine in the order of ranks, and sends the sums
// on. The sums of the last machine are rounded: they are results, which go back the
// same way. Ranks of one machine read each other's operands and results in scratch.
//
// Definitions. lag(k) = 1 + kSlack * (number of machines behind machine k). In step t
// machine k does first the results of chunk t - lag(k), then the operands and sums of
// chunk t. All waits of a step are for messages that are sent in this order.
//
// Claim 1: no ranks wait for each other in a circle. By induction over the steps:
//   1. The results of step t are sent in the same step of the machine behind, or in an
//      earlier one, and ahead of its sums; this holds from the last machine on.
//   2. The operands of step t are published behind the results of step t.
//   3. The sums of step t are sent behind the operands of step t, from the first machine on.
// So each message of step t waits only for messages that come before it in this order.
//
// Claim 2: nothing is overwritten that is still read. Operands have two places; sums
// and results have lag(0) places, `depth`.
//   1. A rank publishes the operands of chunk c+2 when all ranks of its machine have published
//      those of chunk c+1; these ranks have combined the operands of chunk c before.
//   2. The sums of chunk c+depth are sent by a rank that has had the results of chunk
//      c, so the sums of chunk c have been combined.
//   3. The results of chunk c+depth are sent to a rank that has sent on the sums of
//      chunk c+depth. It had awaited the operands of c+depth of its machine, whose
//      ranks had all taken the results of chunk c by then.
// That calls do not overwrite each other's scratch is shown in collective.cpp. The model of the
// chain is tests/models/chain.pml.
//
// In tree order (kernels/tree_order.hpp) not one sum goes from machine to machine, but those of the
// subtrees that wait: at most as many as a number of ranks has bits that are 1. A machine divides
// its ranks into subtrees, and combines each with those that wait. Where each machine has a power
// of two of ranks, its ranks are one subtree, and between two machines there is one sum.
//
// ---- Bruck
//
// Each rank combines a slice, as in two shots, but messages go in rounds: in round j
// rank r sends to rank r + 2^j all pieces whose distance has bit j. In the second half
// it sends its results to rank r - 2^j. An exchange is one half. A rank that has
// finished an exchange has heard, directly or by way of others, that all ranks have
// begun it. So two places for incoming pieces, which alternate from exchange to
// exchange, are enough, as they are for rounds (collective.cpp).
//
// ---- Hierarchical
//
// Each rank of a machine combines a slice of the machine's operands, and does not round. Ranks
// with the same slice send each other these sums, combine them in the order of machines, round,
// and send the result to the other ranks of their machine. All ranks get the same result, but
// its bits are not those of a sum in the order of ranks. They are those of the tree if the ranks of
// each machine are a subtree, which they are where a machine has a power of two of them. A rank
// that has finished a chunk has heard, by way of others, that all ranks have begun it, so two
// places are enough.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/wait.hpp"
#include "core/engine/link.hpp"
#include "core/multinode/messages.hpp"
#include "core/multinode/transport.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/host/arithmetic/reduce.hpp"
#include "kernels/host/pointers.hpp"
#include "kernels/host/slices.hpp"
#include "kernels/tree_order.hpp"
#include "kernels/types.hpp"

namespace symm::multinode {
namespace {
// The steps that a chunk gets for its sums to reach the next machine and its results
// to come back.
constexpr size_t kSlack = 2;
// The bytes of the smallest and of the largest chunk, where scratch has room for them.
constexpr size_t kLeastChunk = size_t{16} << 10;
constexpr size_t kMostChunk = size_t{4} << 20;
// The bytes that a link could carry during the latency of one message.
constexpr size_t kOnTheWay = 16'384;
constexpr const char* kNeedsLine =
    "needs the ranks of each machine to be consecutive, and equally many";
constexpr const char* kNeedsScratch = "needs more scratch";

// Calls `each` with each number below `count` but `own`.
template <class Each>
void for_others(int count, int own, const Each& each) {
  for (int other = 0; other < count; ++other) {
    if (other != own) each(other);
  }
}
}  // namespace

// ---- chain

std::string MultinodeTransport::why_no_chain(DType dtype, Order order) const {
  if (!in_line_) return kNeedsLine;
  return chain_room(dtype, order) == 0 ? kNeedsScratch : "";
}

// The most sums that wait at a time, on any machine of the chain.
size_t MultinodeTransport::chain_sums(Order order) const {
  if (order != Order::tree) return 1;
  int most = 1;
  for (int rank = 0; rank < context_.size;) {
    const int end = (rank / local_size_ + 1) * local_size_;
    rank += subtree_at(rank, end);
    most = std::max(most, waiting_before(rank));
  }
  return static_cast<size_t>(most);
}

size_t MultinodeTransport::chain_depth(int machine) const {
  return 1 + kSlack * static_cast<size_t>(context_.machines.count - 1 - machine);
}

// The bytes of the largest chunk for which scratch has room.
size_t MultinodeTransport::chain_room(DType dtype, Order order) const {
  const size_t places = 2 * static_cast<size_t>(local_size_) +
                        chain_depth(0) * (1 + chain_sums(order) * widening(dtype));
  return host::round_down((controls_.scratch_half() - step_area()) / places, host::kLine);
}

// Small chunks fill the chain sooner, large ones cost fewer messages.
size_t MultinodeTransport::chain_chunk(const CallSignature& call) const {
  const size_t slice = host::slice(call.unit(), 0, local_size_).size();
  const size_t ways = 2 * static_cast<size_t>(context_.machines.count) - 3;
  size_t best = kLeastChunk;
  while (best < kMostChunk && best * best < slice / ways * kOnTheWay) {
    best *= 2;
  }
  return std::min({best, chain_room(call.dtype, call.order), host::round_up(slice, host::kLine)});
}

// One call by the chain. Ranks of this machine are counted from 0, its first rank.
class MultinodeTransport::Chain {
 public:
  Chain(MultinodeTransport& transport, const CollectiveCall& call, LazyDeadline& deadline)
      : transport_(transport),
        call_(call),
        deadline_(deadline),
        locals_(transport.local_size_),
        rank_(transport.context_.rank),
        machine_(transport.context_.machines.machine_of[static_cast<size_t>(rank_)]),
        first_(machine_ * locals_),
        me_(rank_ - first_),
        before_(machine_ == 0 ? -1 : rank_ - locals_),
        behind_(machine_ + 1 == transport.context_.machines.count ? -1 : rank_ + locals_),
        gets_result_(call.collective == Collective::allreduce || call.root == rank_),
        chunk_(transport.chain_chunk(call)),
        depth_(transport.chain_depth(0)),
        most_sums_(transport.chain_sums(call.order)),
        results_(transport.step_area() + 2 * static_cast<size_t>(locals_) * chunk_),
        sums_(results_ + depth_ * chunk_),
        sources_(locals_) {}

  void run() {
    const size_t slice = host::slice(call_.unit(), 0, locals_).size();
    const size_t chunks = (slice + chunk_ - 1) / chunk_;
    const size_t lag = transport_.chain_depth(machine_);
    for (size_t step = 0; step < chunks + lag; ++step) {
      if (step >= lag) receive_results(step - lag);
      if (step >= chunks) continue;
      publish_operands(step);
      combine(step);
    }
  }

 private:
  // Where a chunk of a rank's slice lies in the vector.
  host::Range range(int local, size_t step) const {
    return host::part_of(host::slice(call_.unit(), local, locals_), step, chunk_);
  }
  // Places in scratch: of the operand's chunk for another rank, of results, and of sums.
  size_t operand_at(int local, size_t step) const {
    const size_t place = (step & 1U) * static_cast<size_t>(locals_) + static_cast<size_t>(local);
    return transport_.step_area() + place * chunk_;
  }
  size_t result_at(size_t step) const { return results_ + step % depth_ * chunk_; }
  size_t sum_bytes() const { return chunk_ * widening(call_.dtype); }
  size_t sums_at(size_t step) const { return sums_ + step % depth_ * most_sums_ * sum_bytes(); }
  std::byte* scratch(int local, size_t at) const {
    return transport_.controls_[first_ + local].scratch(transport_.calls_) + at;
  }
  std::byte* recv() const { return static_cast<std::byte*>(call_.recv); }

  template <class Each>
  void for_neighbours(const Each& each) const {
    for_others(locals_, me_, each);
  }
  void await(int peer) { transport_.await(call_, peer, deadline_); }
  void pass_to(int peer, size_t at, size_t bytes) {
    transport_.pass_step(call_, peer, at, {scratch(me_, at), bytes});
  }
  void notify_neighbours() {
    for_neighbours([&](int local) { pass_to(first_ + local, transport_.step_area(), 0); });
  }

  void receive_results(size_t step) {
    if (behind_ >= 0) {
      await(behind_);
      take_results(me_, step);
      hand_back(step);
    }
    for_neighbours([&](int local) {
      await(first_ + local);
      take_results(local, step);
    });
  }

  void take_results(int local, size_t step) {
    if (!gets_result_) return;
    const host::Range part = range(local, step);
    host::copy(recv() + part.begin, scratch(local, result_at(step)), part.size(), false);
  }

  // Results go to the machine before, and the other ranks of this machine may read them.
  void hand_back(size_t step) {
    if (before_ >= 0) pass_to(before_, result_at(step), range(me_, step).size());
    notify_neighbours();
  }

  // Gives each rank of this machine its slice of this rank's operand, through this rank's
  // scratch, and finds this rank's slice of theirs: sources_, which are combined next.
  void publish_operands(size_t step) {
    const auto* send = static_cast<const std::byte*>(call_.send);
    for_neighbours([&](int local) {
      const host::Range part = range(local, step);
      host::copy(scratch(me_, operand_at(local, step)), send + part.begin, part.size(), false);
    });
    notify_neighbours();
    for_neighbours([&](int local) {
      await(first_ + local);
      sources_[local] = scratch(local, operand_at(me_, step));
    });
    sources_[me_] = send + range(me_, step).begin;
  }

  // Adds the operands of this machine to the sums of the machines before.
  void combine(size_t step) {
    if (before_ >= 0) await(before_);
    const host::Range mine = range(me_, step);
    std::byte* const targets[] = {
        scratch(me_, result_at(step)), gets_result_ ? recv() + mine.begin : nullptr};
    std::byte* const unrounded = scratch(me_, sums_at(step));
    host::Reduction reduction =
        host::reduction_of(call_, sources_.data(), locals_, transport_.context_.size, mine.size());
    reduction.destinations = targets;
    reduction.destination_count = gets_result_ ? 2 : 1;

    if (reduction.in_tree) {
      combine_in_tree(reduction, unrounded);
    } else {
      reduction.partial_in = before_ >= 0 ? unrounded : nullptr;
      reduction.partial_out = behind_ >= 0 ? unrounded : nullptr;
      host::reduce(reduction);
    }

    if (behind_ >= 0) {
      const int sums = reduction.in_tree ? waiting_before(first_ + locals_) : 1;
      pass_to(behind_, sums_at(step),
          static_cast<size_t>(sums - 1) * sum_bytes() + mine.size() * widening(call_.dtype));
    } else {
      hand_back(step);
    }
  }

  // Combines the subtrees of this machine with the sums that wait, which lie one behind the other
  // from `sums` on. The last machine combines all, and rounds.
  void combine_in_tree(const host::Reduction& operands, std::byte* sums) {
    const auto sum = [&](int index) { return sums + static_cast<size_t>(index) * sum_bytes(); };
    int waiting = waiting_before(first_);

    for (int local = 0; local < locals_;) {
      const int rank = first_ + local;
      host::Reduction part = operands;
      part.sources = operands.sources + local;
      part.source_count = subtree_at(rank, first_ + locals_);
      local += part.source_count;
      const bool is_last = behind_ < 0 && local == locals_;
      int merges = is_last ? waiting : merges_after(rank / part.source_count);
      if (merges > 0) part.partial_in = sum(waiting - 1);
      if (is_last && merges <= 1) return host::reduce(part);

      waiting += merges > 0 ? 0 : 1;
      part.partial_out = sum(waiting - 1);
      host::reduce(part);
      for (; merges > 1; --merges, --waiting) {
        combine_sums(operands, sum(waiting - 2), sum(waiting - 1));
      }
    }

    if (behind_ >= 0) return;
    host::Reduction rounding = operands;
    rounding.source_count = 0;
    rounding.partial_in = sum(0);
    host::reduce(rounding);
  }

  // Combines a sum, in place, with the one on its right.
  static void combine_sums(
      const host::Reduction& operands, std::byte* left, const std::byte* right) {
    const std::byte* const sources[] = {left, right};
    host::Reduction both = host::of_partials(operands);
    both.sources = sources;
    both.source_count = 2;
    both.partial_out = left;
    host::reduce(both);
  }

  MultinodeTransport& transport_;
  const CollectiveCall& call_;
  LazyDeadline& deadline_;
  // The number of ranks of this machine; this rank, its machine, and the machine's first rank.
  const int locals_;
  const int rank_;
  const int machine_;
  const int first_;
  // This rank's number on its machine, and its partners on the machines before and
  // behind; -1 if there is none.
  const int me_;
  const int before_;
  const int behind_;
  const bool gets_result_;
  const size_t chunk_;
  const size_t depth_;
  const size_t most_sums_;
  // Where the results and the sums begin in scratch.
  const size_t results_;
  const size_t sums_;
  // The operands of the chunk at hand, by rank of this machine.
  host::Sources sources_;
};

void MultinodeTransport::allreduce_chain(const CollectiveCall& call, LazyDeadline& deadline) {
  Chain(*this, call, deadline).run();
}

// ---- hierarchical

std::string MultinodeTransport::why_not_hierarchical(DType dtype, Order order) const {
  if (!in_line_) return kNeedsLine;
  // Only then the ranks of each machine are a subtree.
  if (order == Order::tree && !std::has_single_bit(static_cast<unsigned>(local_size_))) {
    return "needs, in tree order, a power of two of ranks on each machine";
  }
  return hierarchical_chunk(dtype, thresholds_.round) == 0 ? kNeedsScratch : "";
}

// One of the two places holds the operands and results of all ranks of a machine, the
// sums of each machine, and the sum of these; sums are not rounded.
size_t MultinodeTransport::hierarchical_chunk(DType dtype, size_t bytes) const {
  const size_t parts = 2 * static_cast<size_t>(local_size_) +
                       static_cast<size_t>(context_.machines.count + 1) * widening(dtype);
  const size_t room =
      host::round_down((controls_.scratch_half() - step_area()) / 2 / parts, host::kLine);
  return std::min({room, thresholds_.round, host::round_up(bytes, host::kLine)});
}

// One hierarchical call. Ranks of this machine are counted from 0, its first rank.
class MultinodeTransport::Hierarchical {
 public:
  Hierarchical(MultinodeTransport& transport, const CollectiveCall& call, LazyDeadline& deadline)
      : transport_(transport),
        call_(call),
        deadline_(deadline),
        locals_(transport.local_size_),
        machines_(transport.context_.machines.count),
        machine_(
            transport.context_.machines.machine_of[static_cast<size_t>(transport.context_.rank)]),
        first_(machine_ * locals_),
        me_(transport.context_.rank - first_),
        longest_(host::slice(call.unit(), 0, locals_).size()),
        chunk_(transport.hierarchical_chunk(call.dtype, longest_)),
        wide_(chunk_ * widening(call.dtype)),
        scratch_(transport.controls_.mine().scratch(transport.calls_)),
        sources_(std::max(locals_, machines_)) {}

  void run() {
    for (size_t step = 0; step * chunk_ < longest_; ++step) {
      exchange_operands(step);
      host::Reduction reduction = combine_operands(step);
      exchange_sums(step);
      combine_sums(step, reduction);
      exchange_results(step);
    }
  }

 private:
  // Where a chunk of a rank's slice lies in the vector.
  host::Range part(int local, size_t step) const {
    return host::part_of(host::slice(call_.unit(), local, locals_), step, chunk_);
  }
  // Places in scratch, which two steps use in turn.
  size_t operand_at(int local, size_t step) const {
    const size_t place =
        2 * static_cast<size_t>(locals_) * chunk_ + static_cast<size_t>(machines_ + 1) * wide_;
    return transport_.step_area() + (step & 1U) * place + static_cast<size_t>(local) * chunk_;
  }
  size_t result_at(int local, size_t step) const { return operand_at(locals_ + local, step); }
  // The sum of a machine. The sum of all machines lies behind that of the last machine.
  size_t sum_at(int machine, size_t step) const {
    return operand_at(2 * locals_, step) + static_cast<size_t>(machine) * wide_;
  }
  // The rank with this rank's slice on another machine.
  int partner(int machine) const { return machine * locals_ + me_; }

  void await(int peer) { transport_.await(call_, peer, deadline_); }

  void exchange_operands(size_t step) {
    const auto* send = static_cast<const std::byte*>(call_.send);
    for_others(locals_, me_, [&](int local) {
      const host::Range theirs = part(local, step);
      transport_.pass_step(
          call_, first_ + local, operand_at(me_, step), {send + theirs.begin, theirs.size()});
    });
    for_others(locals_, me_, [&](int local) {
      await(first_ + local);
      sources_[local] = scratch_ + operand_at(local, step);
    });
    sources_[me_] = send + part(me_, step).begin;
  }

  host::Reduction combine_operands(size_t step) {
    host::Reduction reduction = host::reduction_of(
        call_, sources_.data(), locals_, transport_.context_.size, part(me_, step).size());
    reduction.partial_out = scratch_ + sum_at(machine_, step);
    host::reduce(reduction);
    return reduction;
  }

  void exchange_sums(size_t step) {
    const size_t at = sum_at(machine_, step);
    const std::span sum(scratch_ + at, part(me_, step).size() * widening(call_.dtype));
    for_others(machines_, machine_,
        [&](int machine) { transport_.pass_step(call_, partner(machine), at, sum); });
    for_others(machines_, machine_, [&](int machine) { await(partner(machine)); });
  }

  // Combines the sums of all machines, and rounds the result into recv.
  void combine_sums(size_t step, host::Reduction& reduction) {
    for (int machine = 0; machine < machines_; ++machine) {
      sources_[machine] = scratch_ + sum_at(machine, step);
    }
    host::Reduction sums = host::of_partials(reduction);
    sums.sources = sources_.data();
    sums.source_count = machines_;
    sums.partial_out = scratch_ + sum_at(machines_, step);
    host::reduce(sums);

    std::byte* const to = result(step);
    reduction.source_count = 0;
    reduction.partial_in = sums.partial_out;
    reduction.partial_out = nullptr;
    reduction.destinations = &to;
    reduction.destination_count = 1;
    host::reduce(reduction);
  }

  void exchange_results(size_t step) {
    auto* recv = static_cast<std::byte*>(call_.recv);
    const std::span mine(result(step), part(me_, step).size());
    for_others(locals_, me_, [&](int local) {
      transport_.pass_step(call_, first_ + local, result_at(me_, step), mine);
    });
    for_others(locals_, me_, [&](int local) {
      await(first_ + local);
      const host::Range theirs = part(local, step);
      const std::byte* const from = scratch_ + result_at(local, step);
      host::copy(recv + theirs.begin, from, theirs.size(), false);
    });
  }

  std::byte* result(size_t step) const {
    return static_cast<std::byte*>(call_.recv) + part(me_, step).begin;
  }

  MultinodeTransport& transport_;
  const CollectiveCall& call_;
  LazyDeadline& deadline_;
  // The number of ranks of this machine, the number of machines, this machine, and
  // its first rank.
  const int locals_;
  const int machines_;
  const int machine_;
  const int first_;
  // This rank's number on its machine.
  const int me_;
  // The bytes of the longest slice, of a chunk, and of a chunk's sums.
  const size_t longest_;
  const size_t chunk_;
  const size_t wide_;
  std::byte* const scratch_;
  host::Sources sources_;
};

void MultinodeTransport::allreduce_hierarchical(
    const CollectiveCall& call, LazyDeadline& deadline) {
  Hierarchical(*this, call, deadline).run();
}

// ---- bruck

// The largest part of a slice for which all messages of an exchange have a place in scratch; 0:
// there is too little scratch.
size_t MultinodeTransport::bruck_block() const {
  const auto size = static_cast<size_t>(context_.size);
  const size_t places = static_cast<size_t>(std::bit_width(size - 1)) * ((size + 1) / 2);
  return host::round_down((controls_.scratch_half() - step_area()) / 2 / places, host::kLine);
}

// One call by Bruck's algorithm. Pieces are counted by the distance of their rank
// from this one.
class MultinodeTransport::Bruck {
 public:
  Bruck(MultinodeTransport& transport, const CollectiveCall& call, LazyDeadline& deadline)
      : transport_(transport),
        call_(call),
        deadline_(deadline),
        size_(transport.context_.size),
        me_(transport.context_.rank),
        block_(transport.bruck_block()),
        message_(static_cast<size_t>((size_ + 1) / 2) * block_),
        recv_(static_cast<std::byte*>(call.recv)),
        pieces_(static_cast<size_t>(size_)),
        sources_(static_cast<size_t>(size_)),
        packed_(std::make_unique_for_overwrite<std::byte[]>(message_)) {}

  void run() {
    const size_t longest = host::slice(call_.unit(), 0, size_).size();
    for (index_ = 0; index_ == 0 || index_ * block_ < longest; ++index_) {
      exchange_operands();
      combine();
      exchange_results();
    }
  }

 private:
  int wrap(int rank) const { return (rank % size_ + size_) % size_; }
  const std::byte*& piece(int distance) { return pieces_[static_cast<size_t>(distance)]; }
  // Where the block at hand of a rank's slice lies in the vector.
  host::Range part(int rank) const {
    return host::part_of(host::slice(call_.unit(), wrap(rank), size_), index_, block_);
  }

  // Sends the pieces `moved_`, which belong to the ranks that `rank_of` names, to rank `to`.
  // The message from rank `from` then has the pieces at the distances that `place_of` names.
  template <class RankOf, class PlaceOf>
  void trade(int to, int from, int round, const RankOf& rank_of, const PlaceOf& place_of) {
    const size_t stride = part(0).size();
    const auto rounds = static_cast<size_t>(std::bit_width(static_cast<unsigned>(size_ - 1)));
    const size_t exchange = (transport_.exchange_ & 1U) * message_ * rounds;
    engine::Head head;
    head.kind = kStep;
    head.offset = transport_.step_area() + exchange + static_cast<size_t>(round) * message_;

    for (size_t i = 0; i < moved_.size(); ++i) {
      const size_t bytes = part(rank_of(moved_[i])).size();
      host::copy(packed_.get() + i * stride, piece(moved_[i]), bytes, false);
    }
    const std::span<const std::byte> payload(packed_.get(), moved_.size() * stride);
    transport_.pass(call_, wrap(to), head, payload, &deadline_);
    transport_.await(call_, wrap(from), deadline_);

    const std::byte* const scratch = transport_.controls_.mine().scratch(transport_.calls_);
    for (size_t i = 0; i < moved_.size(); ++i) {
      piece(place_of(moved_[i])) = scratch + head.offset + i * stride;
    }
  }

  void exchange_operands() {
    ++transport_.exchange_;
    const auto* send = static_cast<const std::byte*>(call_.send);
    for (int i = 0; i < size_; ++i) {
      piece(i) = send + part(me_ + i).begin;
    }

    for (int round = 0, way = 1; way < size_; ++round, way *= 2) {
      moved_.clear();
      for (int i = 0; i < size_; ++i) {
        if ((i & way) != 0) moved_.push_back(i);
      }
      trade(
          me_ + way, me_ - way, round, [&](int i) { return me_ + i / way * way; },
          [](int i) { return i; });
    }
  }

  void combine() {
    for (int i = 0; i < size_; ++i) {
      sources_[static_cast<size_t>(wrap(me_ - i))] = piece(i);
    }
    const host::Range mine = part(me_);
    transport_.combine(call_, sources_.data(), recv_ + mine.begin, mine.size());
  }

  void exchange_results() {
    ++transport_.exchange_;
    piece(0) = recv_ + part(me_).begin;

    for (int round = 0, way = 1; way < size_; ++round, way *= 2) {
      moved_.resize(static_cast<size_t>(std::min(way, size_ - way)));
      std::iota(moved_.begin(), moved_.end(), 0);
      trade(
          me_ - way, me_ + way, round, [&](int i) { return me_ + i; },
          [&](int i) { return way + i; });
      for (const int i : moved_) {
        const host::Range theirs = part(me_ + way + i);
        host::copy(recv_ + theirs.begin, piece(way + i), theirs.size(), false);
      }
    }
  }

  MultinodeTransport& transport_;
  const CollectiveCall& call_;
  LazyDeadline& deadline_;
  const int size_;
  const int me_;
  // The bytes of a block of a slice, and of a message with as many blocks as it can have.
  const size_t block_;
  const size_t message_;
  std::byte* const recv_;
  // The block at hand.
  size_t index_ = 0;
  // Where each piece lies now, by distance; and operands by rank.
  std::vector<const std::byte*> pieces_;
  std::vector<const std::byte*> sources_;
  const std::unique_ptr<std::byte[]> packed_;
  std::vector<int> moved_;
};

void MultinodeTransport::allreduce_bruck(const CollectiveCall& call, LazyDeadline& deadline) {
  Bruck(*this, call, deadline).run();
}
}  // namespace symm::multinode
