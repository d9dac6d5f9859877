#include <symm/symm.hpp>
#include "tools/bench/call.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/pattern.hpp"

namespace symm::tool {
size_t Call::element() const { return size_of(dtype); }

std::byte* Call::send() const {
  const bool own_slice = in_place && traits->collective == SYMM_COLLECTIVE_ALLGATHER;
  return first + (own_slice ? static_cast<size_t>(rank) * count * element() : 0);
}

std::byte* Call::recv() const {
  if (!in_place) return second;
  const bool own_slice = traits->collective == SYMM_COLLECTIVE_REDUCE_SCATTER;
  return first + (own_slice ? static_cast<size_t>(rank) * count * element() : 0);
}

void Call::write_inputs(const Pattern& pattern, size_t shift) const {
  const size_t all = count * static_cast<size_t>(ranks);
  switch (traits->collective) {
    case SYMM_COLLECTIVE_ALLREDUCE:
    case SYMM_COLLECTIVE_REDUCE:
    case SYMM_COLLECTIVE_ALLGATHER: return pattern.write(send(), rank, shift, count);
    case SYMM_COLLECTIVE_REDUCE_SCATTER:
    case SYMM_COLLECTIVE_ALLTOALL: return pattern.write(send(), rank, shift, all);
    case SYMM_COLLECTIVE_BROADCAST:
      if (rank == root) pattern.write(send(), rank, shift, count);
      return;
    case kBarrier: return;
  }
}

symm_collective_call_t Call::record() const {
  return {sizeof(symm_collective_call_t), traits->collective, send(), recv(), count, dtype, op, root, nullptr, nullptr, nullptr,
      nullptr, 0, 0};
}

symm_status_t Call::run() const {
  if (traits->collective == kBarrier) return symm_barrier(group, nullptr, 0, 0, nullptr, stream);
  return tool::run(group, record(), &options, stream);
}

size_t Call::count_wrong(const Pattern& pattern, size_t shift) const {
  const size_t own = static_cast<size_t>(rank) * count;
  size_t wrong = 0;
  switch (traits->collective) {
    case SYMM_COLLECTIVE_ALLREDUCE: return pattern.count_wrong_reduced(recv(), shift, count);
    case SYMM_COLLECTIVE_REDUCE: return rank == root ? pattern.count_wrong_reduced(recv(), shift, count) : 0;
    case SYMM_COLLECTIVE_REDUCE_SCATTER: return pattern.count_wrong_reduced(recv(), shift + own, count);
    case SYMM_COLLECTIVE_BROADCAST: return pattern.count_wrong(recv(), root, shift, count);
    case SYMM_COLLECTIVE_ALLGATHER:
    case SYMM_COLLECTIVE_ALLTOALL:
      for (int from = 0; from < ranks; ++from) {
        const std::byte* part = recv() + static_cast<size_t>(from) * count * element();
        wrong += pattern.count_wrong(part, from, shift + (traits->collective == SYMM_COLLECTIVE_ALLTOALL ? own : 0), count);
      }
      return wrong;
    case kBarrier: break;
  }
  return 0;
}

std::string Call::algorithm() const {
  if (traits->collective == kBarrier) return "";
  symm_plan_info_t info{};
  info.struct_size = sizeof info;
  const symm_collective_call_t call = record();
  check(symm_collective_plan(group, &call, &options, &info), "symm_collective_plan");
  return name_of(algorithms(), info.algorithm);
}
}  // namespace symm::tool
