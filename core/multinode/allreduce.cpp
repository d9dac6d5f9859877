// All-reduces across machines in which not every rank sends to every other.
//
// Chain. A vector has a slice for each rank of a machine, which go in chunks.
// Rank r of machine k gets the sums of the machines before, of the chunk of its
// slice, unrounded, from rank r of machine k-1, adds the operands of its machine
// in the order of ranks, and sends the sums on. Those of the last machine are
// results, which go the same way back. Ranks of a machine read each other's
// operands and results in scratch. What step t of machine k is: results of chunk
// t - lag(k), then operands and sums of chunk t; lag(k) = 1 + kSlack * (machines
// behind k). All waits of a step are for messages that come in this order.
//
// Why nobody waits in a circle: by induction over steps. Results of step t were sent in
// the same step of the machine behind, or before, ahead of its sums, from the last
// machine on; operands of step t are left behind results of step t; sums are sent
// behind operands, from the first machine on.
//
// Why nothing is overwritten that is still read. Operands have two places, sums and
// results as many as lag(0), `depth`.
//   1. Operands of chunk c+2 come when all of this machine have
//      left those of c+1, and so have combined those of c.
//   2. Sums of chunk c+depth are sent by who has had
//      the results of c, so they have been combined.
//   3. Results of chunk c+depth are sent to who has sent on the
//      sums of c+depth, having awaited the operands of c+depth of
//      its machine, all of which had taken the results of c then.
// Thresholds calls: see collective.cpp. (tests/models/chain.pml)
//
// Bruck. As slices, but rank r sends to rank r + 2^j in round j, all
// pieces whose way has this bit, and in the second half the results it
// has to rank r - 2^j. An exchange ends when a rank has heard, if by
// way of others, that all have begun it; so two places for what comes,
// which alternate from exchange to exchange, do as they do in rounds.
//
// Hierarchical. Ranks of a machine combine a slice each, unrounded; those
// with one slice send each other what they have, combine it in the order
// of machines, round, and send it to their neighbours. So all get the
// same result, but not that of the order of ranks. Who has ended a chunk
// has heard, by way of others, that all have begun it: two places do.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <numeric>
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
#include "kernels/types.hpp"

namespace symm::multinode {
namespace {
// steps for the way to the next machine and back
constexpr size_t kSlack = 2;
constexpr size_t kLeast = size_t{16} << 10, kMost = size_t{4} << 20;  // of a chunk, where it fits
// bytes that could be sent while a message takes its time
constexpr size_t kOnTheWay = 16'384;
constexpr const char* kNeedsLine =
    "needs the ranks of each machine to be consecutive, and equally many";
constexpr const char* kNeedsScratch = "needs more scratch";

// Of `count`, each but this rank's own.
template <class Each>
void others(int count, int own, const Each& each) {
  for (int one = 0; one < count; ++one) {
    if (one != own) each(one);
  }
}
}  // namespace

// ---- chain

std::string MultinodeTransport::why_no_chain(DType dtype) const {
  if (!in_line_) return kNeedsLine;
  return chain_room(dtype) == 0 ? kNeedsScratch : "";
}

size_t MultinodeTransport::chain_depth(int machine) const {
  return 1 + kSlack * static_cast<size_t>(context_.machines.count - 1 - machine);
}

// The largest chunk that fits.
size_t MultinodeTransport::chain_room(DType dtype) const {
  const size_t places =
      2 * static_cast<size_t>(local_size_) + chain_depth(0) * (1 + widening(dtype));
  return host::round_down((controls_.scratch_half() - step_area()) / places, host::kLine);
}

// Small chunks fill the chain sooner, large ones cost fewer messages.
size_t MultinodeTransport::chain_chunk(const CallSignature& call) const {
  const size_t slice = host::slice(call.unit(), 0, local_size_).size();
  const size_t ways = 2 * static_cast<size_t>(context_.machines.count) - 3;
  size_t best = kLeast;
  while (best < kMost && best * best < slice / ways * kOnTheWay) {
    best *= 2;
  }
  return std::min({best, chain_room(call.dtype), host::round_up(slice, host::kLine)});
}

void MultinodeTransport::allreduce_chain(const CollectiveCall& call, LazyDeadline& deadline) {
  const int machine = context_.machines.of[static_cast<size_t>(context_.rank)];
  const int first = machine * local_size_;  // rank
  const int me = context_.rank - first;
  const int before = machine == 0 ? -1 : context_.rank - local_size_;
  const int behind = machine + 1 == context_.machines.count ? -1 : context_.rank + local_size_;
  const size_t chunk = chain_chunk(call);
  const size_t chunks = (host::slice(call.unit(), 0, local_size_).size() + chunk - 1) / chunk;
  const size_t lag = chain_depth(machine);
  const size_t results = step_area() + 2 * static_cast<size_t>(local_size_) * chunk;
  const size_t sums = results + chain_depth(0) * chunk;
  const auto* const send = static_cast<const std::byte*>(call.send);
  auto* const recv = static_cast<std::byte*>(call.recv);
  const bool gets_result = call.collective == Collective::allreduce || call.root == context_.rank;

  const auto range = [&](int local, size_t step) {
    return part_of(host::slice(call.unit(), local, local_size_), step, chunk);
  };
  const auto scratch = [&](int local, size_t at) {
    return controls_[first + local].scratch(calls_) + at;
  };
  const auto operand_at = [&](int local, size_t step) {
    return step_area() +
           ((step & 1U) * static_cast<size_t>(local_size_) + static_cast<size_t>(local)) * chunk;
  };
  const auto result_at = [&](size_t step) { return results + step % chain_depth(0) * chunk; };
  const auto sums_at = [&](size_t step) {
    return sums + step % chain_depth(0) * chunk * widening(call.dtype);
  };
  const auto pass_to = [&](int peer, size_t at, size_t bytes) {
    pass_step(call, peer, at, {scratch(me, at), bytes});
  };
  const auto neighbours = [&](const auto& each) { others(local_size_, me, each); };
  const auto tell_neighbours = [&] {
    neighbours([&](int local) { pass_to(first + local, step_area(), 0); });
  };
  const auto hand_back = [&](size_t step) {
    if (before >= 0) pass_to(before, result_at(step), range(me, step).size());
    tell_neighbours();
  };

  host::Sources sources(local_size_);
  for (size_t step = 0; step < chunks + lag; ++step) {
    if (step >= lag) {
      const size_t done = step - lag;
      const auto take = [&](int local) {
        if (!gets_result) return;
        const host::Range part = range(local, done);
        host::copy(recv + part.begin, scratch(local, result_at(done)), part.size(), false);
      };
      if (behind >= 0) {
        await(call, behind, deadline);
        take(me);
        hand_back(done);
      }
      neighbours([&](int local) {
        await(call, first + local, deadline);
        take(local);
      });
    }
    if (step >= chunks) continue;
    neighbours([&](int local) {
      const host::Range part = range(local, step);
      host::copy(scratch(me, operand_at(local, step)), send + part.begin, part.size(), false);
    });
    tell_neighbours();
    const host::Range mine = range(me, step);
    neighbours([&](int local) {
      await(call, first + local, deadline);
      sources[local] = scratch(local, operand_at(me, step));
    });
    sources[me] = send + mine.begin;
    if (before >= 0) await(call, before, deadline);
    std::byte* const targets[] = {
        scratch(me, result_at(step)), gets_result ? recv + mine.begin : nullptr};
    std::byte* const unrounded = scratch(me, sums_at(step));
    host::Reduction reduction =
        host::reduction_of(call, sources.data(), local_size_, context_.size, mine.size());
    reduction.partial_in = before >= 0 ? unrounded : nullptr;
    reduction.partial_out = behind >= 0 ? unrounded : nullptr;
    reduction.destinations = targets;
    reduction.destination_count = gets_result ? 2 : 1;
    host::reduce(reduction);
    if (behind >= 0) {
      pass_to(behind, sums_at(step), mine.size() * widening(call.dtype));
    } else {
      hand_back(step);
    }
  }
}

// ---- hierarchical

std::string MultinodeTransport::why_not_hierarchical(DType dtype) const {
  if (!in_line_) return kNeedsLine;
  return hierarchical_chunk(dtype, thresholds_.round) == 0 ? kNeedsScratch : "";
}

// A place holds operands and results of all of a machine,
// and what each machine has, and the sum of that, unrounded.
size_t MultinodeTransport::hierarchical_chunk(DType dtype, size_t bytes) const {
  const size_t parts = 2 * static_cast<size_t>(local_size_) +
                       static_cast<size_t>(context_.machines.count + 1) * widening(dtype);
  const size_t room =
      host::round_down((controls_.scratch_half() - step_area()) / 2 / parts, host::kLine);
  return std::min({room, thresholds_.round, host::round_up(bytes, host::kLine)});
}

void MultinodeTransport::allreduce_hierarchical(
    const CollectiveCall& call, LazyDeadline& deadline) {
  const int machines = context_.machines.count;
  const int machine = context_.machines.of[static_cast<size_t>(context_.rank)];
  const int first = machine * local_size_;  // rank
  const int me = context_.rank - first;
  const size_t longest = host::slice(call.unit(), 0, local_size_).size();
  const size_t chunk = hierarchical_chunk(call.dtype, longest);
  const size_t wide = chunk * widening(call.dtype);
  const auto* const send = static_cast<const std::byte*>(call.send);
  auto* const recv = static_cast<std::byte*>(call.recv);
  std::byte* const scratch = controls_.mine().scratch(calls_);
  host::Sources sources(std::max(local_size_, machines));
  for (size_t step = 0; step * chunk < longest; ++step) {
    const auto part = [&](int local) {
      return part_of(host::slice(call.unit(), local, local_size_), step, chunk);
    };
    const auto locals = static_cast<size_t>(local_size_);
    const size_t operands =
        step_area() + (step & 1U) * (2 * locals * chunk + static_cast<size_t>(machines + 1) * wide);
    const size_t results = operands + locals * chunk;
    const auto sum_at = [&](int of) {
      return results + locals * chunk + static_cast<size_t>(of) * wide;
    };
    const auto at = [&](size_t area, int local) {
      return area + static_cast<size_t>(local) * chunk;
    };
    const host::Range mine = part(me);
    others(local_size_, me, [&](int local) {
      pass_step(
          call, first + local, at(operands, me), {send + part(local).begin, part(local).size()});
    });
    others(local_size_, me, [&](int local) {
      await(call, first + local, deadline);
      sources[local] = scratch + at(operands, local);
    });
    sources[me] = send + mine.begin;
    host::Reduction reduction =
        host::reduction_of(call, sources.data(), local_size_, context_.size, mine.size());
    reduction.partial_out = scratch + sum_at(machine);
    host::reduce(reduction);
    const auto of = [&](int other) { return other * local_size_ + me; };
    const std::span sum(scratch + sum_at(machine), mine.size() * widening(call.dtype));
    others(machines, machine, [&](int other) { pass_step(call, of(other), sum_at(machine), sum); });
    others(machines, machine, [&](int other) { await(call, of(other), deadline); });
    for (int one = 0; one < machines; ++one) {
      sources[one] = scratch + sum_at(one);
    }
    if (is_small_float(call.dtype)) reduction.dtype = DType::f32;
    reduction.source_count = machines;
    reduction.partial_out = scratch + sum_at(machines);
    host::reduce(reduction);
    std::byte* const to = recv + mine.begin;
    reduction.dtype = call.dtype;
    reduction.source_count = 0;
    reduction.partial_in = std::exchange(reduction.partial_out, nullptr);
    reduction.destinations = &to;
    reduction.destination_count = 1;
    host::reduce(reduction);
    others(local_size_, me,
        [&](int local) { pass_step(call, first + local, at(results, me), {to, mine.size()}); });
    others(local_size_, me, [&](int local) {
      await(call, first + local, deadline);
      host::copy(recv + part(local).begin, scratch + at(results, local), part(local).size(), false);
    });
  }
}

// ---- bruck

// The largest part of a slice whose messages all have a place; 0: there is too little scratch.
size_t MultinodeTransport::bruck_block() const {
  const auto size = static_cast<size_t>(context_.size);
  const size_t places = static_cast<size_t>(std::bit_width(size - 1)) * ((size + 1) / 2);
  return host::round_down((controls_.scratch_half() - step_area()) / 2 / places, host::kLine);
}

void MultinodeTransport::allreduce_bruck(const CollectiveCall& call, LazyDeadline& deadline) {
  const int size = context_.size;
  const int me = context_.rank;
  const auto wrap = [&](int rank) { return (rank % size + size) % size; };
  const size_t most = bruck_block();
  const size_t message = static_cast<size_t>((size + 1) / 2) * most;
  const size_t longest = host::slice(call.unit(), 0, size).size();
  const auto* const send = static_cast<const std::byte*>(call.send);
  auto* const recv = static_cast<std::byte*>(call.recv);
  std::vector<const std::byte*> at(static_cast<size_t>(size));
  std::vector<const std::byte*> sources(static_cast<size_t>(size));
  const auto packed = std::make_unique_for_overwrite<std::byte[]>(message);
  std::vector<int> moved;
  for (size_t index = 0; index == 0 || index * most < longest; ++index) {
    const auto part = [&](int rank) {
      return part_of(host::slice(call.unit(), wrap(rank), size), index, most);
    };
    const size_t stride = part(0).size();
    const auto piece = [&](int i) -> const std::byte*& { return at[static_cast<size_t>(i)]; };
    // The pieces `moved`, of the ranks that `whose` names, go to a rank; what comes
    // from another stands for those from `into` on.
    const auto trade = [&](int to, int from, int round, const auto& whose, const auto& into) {
      engine::Head head;
      head.kind = kStep;
      head.offset =
          step_area() +
          (exchange_ & 1U) *
              (message * static_cast<size_t>(std::bit_width(static_cast<unsigned>(size - 1)))) +
          static_cast<size_t>(round) * message;
      for (size_t i = 0; i < moved.size(); ++i) {
        host::copy(packed.get() + i * stride, piece(moved[i]), part(whose(moved[i])).size(), false);
      }
      pass(call, wrap(to), head, {packed.get(), moved.size() * stride}, &deadline);
      await(call, wrap(from), deadline);
      for (size_t i = 0; i < moved.size(); ++i) {
        piece(into(moved[i])) = controls_.mine().scratch(calls_) + head.offset + i * stride;
      }
    };

    ++exchange_;
    for (int i = 0; i < size; ++i) {
      piece(i) = send + part(me + i).begin;
    }
    for (int round = 0, way = 1; way < size; ++round, way *= 2) {
      moved.clear();
      for (int i = 0; i < size; ++i) {
        if ((i & way) != 0) moved.push_back(i);
      }
      trade(
          me + way, me - way, round, [&](int i) { return me + i / way * way; },
          [](int i) { return i; });
    }
    for (int i = 0; i < size; ++i) {
      sources[static_cast<size_t>(wrap(me - i))] = piece(i);
    }
    std::byte* const to = recv + part(me).begin;
    combine(call, sources.data(), to, part(me).size());

    ++exchange_;
    piece(0) = to;
    for (int round = 0, way = 1; way < size; ++round, way *= 2) {
      moved.resize(static_cast<size_t>(std::min(way, size - way)));
      std::iota(moved.begin(), moved.end(), 0);
      trade(
          me - way, me + way, round, [&](int i) { return me + i; }, [&](int i) { return way + i; });
      for (const int i : moved) {
        host::copy(
            recv + part(me + way + i).begin, piece(way + i), part(me + way + i).size(), false);
      }
    }
  }
}
}  // namespace symm::multinode
