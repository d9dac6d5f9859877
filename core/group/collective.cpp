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
  require_waiting(call.timeout_ms, "options.timeout_ms");
  if (!is_valid(call.collective)) throw not_known("collective", static_cast<int>(call.collective));
  const CollectiveTraits its = traits(call.collective);
  if (!is_valid(call.dtype)) throw unknown_dtype(static_cast<int>(call.dtype));
  if (its.has_op && !is_valid(call.op)) throw not_known("op", static_cast<int>(call.op));
  if (its.has_op && call.op == Op::avg && call.dtype == DType::boolean)
    throw Error(Status::invalid_argument, "op: there is no average of bool");
  if (!is_valid(call.algorithm)) throw not_known("options.algorithm", static_cast<int>(call.algorithm));
  if (its.has_root()) group.require_rank("root", call.root);

  size_t unit = 0;
  size_t all = 0;
  if (__builtin_mul_overflow(call.count, size_of(call.dtype), &unit) ||
      __builtin_mul_overflow(unit, static_cast<size_t>(group.size()), &all)) {
    throw Error(Status::invalid_argument,
                format("%s: %zu elements are more than memory holds", name_of_count(call.collective), call.count));
  }
  const bool am_root = group.rank() == call.root;
  const size_t in_bytes = its.send_per_rank ? all : unit;
  const size_t out_bytes = its.recv_per_rank ? all : unit;
  const Operand in{"send", static_cast<const std::byte*>(call.send), its.from_root && !am_root ? 0 : in_bytes};
  const Operand out{"recv", static_cast<const std::byte*>(call.recv), its.to_root && !am_root ? 0 : out_bytes};
  require_operand(in);
  require_operand(out);
  // In place means that this rank's block of one operand is its block of the other.
  const auto block_of = [&](const void* operand, bool per_rank) {
    return reinterpret_cast<uintptr_t>(operand) + (per_rank ? static_cast<size_t>(group.rank()) * unit : 0);
  };
  if (overlap(in, out) && block_of(call.send, its.send_per_rank) != block_of(call.recv, its.recv_per_rank)) {
    throw Error(Status::invalid_argument,
                format("recv: overlaps send without being the in-place form of %s", name_of(call.collective)));
  }
}

}  // namespace

Error unknown_dtype(int value) {
  return {(value & 0xFF) == 0 || value < 0 ? Status::invalid_argument : Status::unsupported,
          format("dtype: 0x%x is not known to this library", static_cast<unsigned>(value))};
}

void run_collective(Group& group, const CollectiveCall& call) {
  group.transport().stats().counted([&] {
    check(group, call);
    group.in_turn([&] { group.transport().collective(call); });
  });
}

PlanReport plan_collective(Group& group, const CollectiveCall& call) {
  check(group, call);
  return group.transport().plan(call);
}

}  // namespace symm
