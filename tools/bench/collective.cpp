#include "tools/bench/collective.hpp"
#include <symm/symm.hpp>
#include "tools/bench/dtype.hpp"

namespace symm::tool {
namespace {
symm_collective_t code_of(Operation operation) {
  switch (operation) {
    case Operation::reduce_scatter: return SYMM_COLLECTIVE_REDUCE_SCATTER;
    case Operation::allgather: return SYMM_COLLECTIVE_ALLGATHER;
    case Operation::broadcast: return SYMM_COLLECTIVE_BROADCAST;
    case Operation::reduce: return SYMM_COLLECTIVE_REDUCE;
    case Operation::alltoall: return SYMM_COLLECTIVE_ALLTOALL;
    default: return SYMM_COLLECTIVE_ALLREDUCE;
  }
}
}  // namespace

size_t Call::element() const { return size_of(dtype); }

std::byte* Call::send() const {
  const bool own_slice = in_place && traits->operation == Operation::allgather;
  return first + (own_slice ? static_cast<size_t>(rank) * count * element() : 0);
}

std::byte* Call::recv() const {
  if (!in_place) return second;
  const bool own_slice = traits->operation == Operation::reduce_scatter;
  return first + (own_slice ? static_cast<size_t>(rank) * count * element() : 0);
}

void Call::write_inputs(const Pattern& pattern, size_t shift) const {
  const size_t all = count * static_cast<size_t>(ranks);
  switch (traits->operation) {
    case Operation::allreduce:
    case Operation::reduce:
    case Operation::allgather: return pattern.write(send(), rank, shift, count);
    case Operation::reduce_scatter:
    case Operation::alltoall: return pattern.write(send(), rank, shift, all);
    case Operation::broadcast:
      if (rank == root) pattern.write(send(), rank, shift, count);
      return;
    case Operation::barrier: return;
  }
}

symm_status_t Call::run() const {
  switch (traits->operation) {
    case Operation::allreduce: return symm_allreduce(group, send(), recv(), count, dtype, op, &options, stream);
    case Operation::reduce_scatter: return symm_reduce_scatter(group, send(), recv(), count, dtype, op, &options, stream);
    case Operation::allgather: return symm_allgather(group, send(), recv(), count, dtype, &options, stream);
    case Operation::broadcast: return symm_broadcast(group, send(), recv(), count, dtype, root, &options, stream);
    case Operation::reduce: return symm_reduce(group, send(), recv(), count, dtype, op, root, &options, stream);
    case Operation::alltoall: return symm_alltoall(group, send(), recv(), count, dtype, &options, stream);
    case Operation::barrier: break;
  }
  return symm_barrier(group, nullptr, 0, 0, nullptr, nullptr);
}

size_t Call::count_wrong(const Pattern& pattern, size_t shift) const {
  const size_t own = static_cast<size_t>(rank) * count;
  size_t wrong = 0;
  switch (traits->operation) {
    case Operation::allreduce: return pattern.count_wrong_reduced(recv(), shift, count);
    case Operation::reduce: return rank == root ? pattern.count_wrong_reduced(recv(), shift, count) : 0;
    case Operation::reduce_scatter: return pattern.count_wrong_reduced(recv(), shift + own, count);
    case Operation::broadcast: return pattern.count_wrong(recv(), root, shift, count);
    case Operation::allgather:
    case Operation::alltoall:
      for (int from = 0; from < ranks; ++from) {
        const std::byte* part = recv() + static_cast<size_t>(from) * count * element();
        wrong += pattern.count_wrong(part, from, shift + (traits->operation == Operation::alltoall ? own : 0), count);
      }
      return wrong;
    case Operation::barrier: break;
  }
  return 0;
}

std::string Call::algorithm() const {
  if (traits->operation == Operation::barrier) return "";
  symm_plan_info_t info{};
  info.struct_size = sizeof info;
  const symm_collective_call_t call{
      sizeof call, code_of(traits->operation), send(), recv(), count, dtype, op, 0, nullptr, nullptr, nullptr, nullptr, 0, 0};
  check(symm_collective_plan(group, &call, &options, &info), "symm_collective_plan");
  return name_of(algorithms(), info.algorithm);
}
}  // namespace symm::tool
