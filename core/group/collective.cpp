// SPDX-License-Identifier: Apache-2.0
#include "core/group/collective.hpp"

namespace symm {
namespace {

struct Operand {
  const char* name;
  const std::byte* begin;
  size_t bytes;
};

bool overlap(const Operand& a, const Operand& b) {
  const auto begin_a = reinterpret_cast<uintptr_t>(a.begin);
  const auto begin_b = reinterpret_cast<uintptr_t>(b.begin);
  return a.bytes != 0 && b.bytes != 0 && begin_a < begin_b + b.bytes && begin_b < begin_a + a.bytes;
}

void require_operand(const Operand& operand) {
  if (operand.bytes == 0) return;
  if (operand.begin == nullptr) throw Error(Status::invalid_argument, format("%s: is NULL", operand.name));
  if (operand.bytes > UINTPTR_MAX - reinterpret_cast<uintptr_t>(operand.begin)) {
    throw Error(Status::invalid_argument, format("%s: %zu bytes reach beyond the address space", operand.name, operand.bytes));
  }
}

// As the parameter is called in symm.h.
const char* name_of_count(Collective collective) {
  if (collective == Collective::reduce_scatter) return "recv_count";
  return collective == Collective::allgather ? "send_count" : "count";
}

void check(const Group& group, const CollectiveCall& call) {
  group.require_usable();
  if (!is_valid(call.collective))
    throw Error(Status::invalid_argument, format("collective: %d is not known", static_cast<int>(call.collective)));
  if (!is_valid(call.dtype))
    throw Error(Status::invalid_argument, format("dtype: 0x%x is not known", static_cast<unsigned>(call.dtype)));
  if (takes_op(call.collective) && !is_valid(call.op))
    throw Error(Status::invalid_argument, format("op: %d is not known", static_cast<int>(call.op)));
  if (!is_valid(call.algorithm)) {
    throw Error(Status::invalid_argument, format("options.algorithm: %d is not known", static_cast<int>(call.algorithm)));
  }
  if (takes_root(call.collective)) group.require_rank("root", call.root);

  const auto size = static_cast<size_t>(group.size());
  const size_t element = size_of(call.dtype);
  size_t unit = 0;
  size_t all = 0;
  if (__builtin_mul_overflow(call.count, element, &unit) || __builtin_mul_overflow(unit, size, &all)) {
    throw Error(Status::invalid_argument,
                format("%s: %zu elements are more than memory holds", name_of_count(call.collective), call.count));
  }
  const auto rank = static_cast<size_t>(group.rank());
  const auto* send = static_cast<const std::byte*>(call.send);
  const auto* recv = static_cast<const std::byte*>(call.recv);
  const bool am_root = group.rank() == call.root;
  Operand in{"send", send, unit};
  Operand out{"recv", recv, unit};
  bool in_place = send == recv;
  switch (call.collective) {
    case Collective::allreduce: break;
    case Collective::broadcast:
      if (!am_root) in.bytes = 0;
      break;
    case Collective::reduce:
      if (!am_root) out.bytes = 0;
      break;
    case Collective::reduce_scatter:
      in.bytes = all;
      in_place = recv == send + rank * unit;
      break;
    case Collective::allgather:
      out.bytes = all;
      in_place = send == recv + rank * unit;
      break;
    case Collective::alltoall: in.bytes = out.bytes = all; break;
  }
  require_operand(in);
  require_operand(out);
  if (!in_place && overlap(in, out)) {
    throw Error(Status::invalid_argument,
                format("recv: overlaps send without being the in-place form of %s", name_of(call.collective)));
  }
}

}  // namespace

void run_collective(Group& group, const CollectiveCall& call) {
  check(group, call);
  CollectiveCall resolved = call;
  resolved.timeout_ms = group.timeout_or_default(call.timeout_ms);
  group.transport().collective(resolved);
}

PlanReport plan_collective(Group& group, const CollectiveCall& call) {
  check(group, call);
  return group.transport().plan(call);
}

}  // namespace symm
