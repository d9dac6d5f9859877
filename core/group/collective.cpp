#include "core/group/collective.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/base/page.hpp"
#include "core/group/group.hpp"
#include "kernels/collective.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/pieces.hpp"
#include "kernels/rmsnorm.hpp"
#include "kernels/text.hpp"
#include "kernels/types.hpp"

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
  if (operand.begin == nullptr) {
    throw Error(Status::invalid_argument, format("%s: is NULL", operand.name));
  }
  if (operand.bytes > UINTPTR_MAX - reinterpret_cast<uintptr_t>(operand.begin)) {
    throw Error(Status::invalid_argument,
        format("%s: %zu bytes reach beyond the address space", operand.name, operand.bytes));
  }
}

// As the parameter is called in symm.h.
const char* name_of_count(Collective collective) {
  if (collective == Collective::reduce_scatter) return "recv_count";
  if (collective == Collective::allgather_rows) return "row_count";
  return collective == Collective::allgather ? "send_count" : "count";
}

void check_scaling(const CollectiveCall& call) {
  const Scaling& scaling = call.scaling;
  const auto refuse = [](Status status, const std::string& why) {
    throw Error(status, "options." + why);
  };
  if (!is_valid(scaling.position)) {
    refuse(Status::unsupported,
        format("scale_position: %d is not known", static_cast<int>(scaling.position)));
  }
  if (!is_valid(scaling.result)) {
    refuse(Status::unsupported,
        format("result_dtype: 0x%x is not known", static_cast<unsigned>(scaling.result)));
  }
  if (const CollectiveTraits its = traits(call.collective);
      !its.has_op || its.in_pieces || call.collective == Collective::allreduce_rmsnorm) {
    refuse(Status::invalid_argument,
        format("scale_position, result_dtype: %s has neither", name_of(call.collective)));
  }
  if (scaling.result != call.dtype &&
      !(scaling.result == DType::f32 && is_small_float(call.dtype))) {
    refuse(Status::invalid_argument,
        format("result_dtype: %s of %s; there is only f32 of narrower floats",
            name_of(scaling.result), name_of(call.dtype)));
  }
  if (scaling.position == ScalePosition::none) {
    if (scaling.factor != 0 || call.scale_pointer != nullptr) {
      refuse(Status::invalid_argument, "scale_position: NONE, but there is a factor");
    }
    return;
  }
  if (!is_float(call.dtype)) {
    refuse(Status::invalid_argument, format("scale_position: %s is no float", name_of(call.dtype)));
  }
  if ((scaling.factor != 0) == (call.scale_pointer != nullptr)) {
    refuse(Status::invalid_argument,
        "scale, scale_pointer: one of them, and not both, must be other than 0");
  }
  const bool is_finite = call.dtype == DType::f64
                             ? std::isfinite(scaling.factor)
                             : std::isfinite(static_cast<float>(scaling.factor));
  if (!is_finite) {
    refuse(Status::invalid_argument, format("scale: %g is no finite %s", scaling.factor,
                                         call.dtype == DType::f64 ? "f64" : "f32"));
  }
}

void check(const Group& group, const CollectiveCall& call, const CollectiveTraits& its) {
  group.require_usable();
  require_waiting(call.timeout_ms, "options.timeout_ms");
  if (!is_valid(call.dtype)) throw unknown_dtype(static_cast<int>(call.dtype));
  if (its.has_op && !is_valid(call.op)) throw not_known("op", static_cast<int>(call.op));
  if (its.has_op && call.op == Op::avg && call.dtype == DType::boolean) {
    throw Error(Status::invalid_argument, "op: there is no average of bool");
  }
  if (!is_valid(call.algorithm)) {
    throw not_known("options.algorithm", static_cast<int>(call.algorithm));
  }
  if (its.has_root()) group.require_rank("root", call.root);
  if (call.scaling) check_scaling(call);
}

// Read from a table: a small collective would notice the comparisons.
const CollectiveTraits& known_traits(Collective collective) {
  static constexpr auto kAll = [] {
    std::array<CollectiveTraits, kCollectives> all{};
    for (size_t i = 0; i < kCollectives; ++i) {
      all[i] = traits(static_cast<Collective>(i));
    }
    return all;
  }();
  if (!is_valid(collective)) throw not_known("collective", static_cast<int>(collective));
  return kAll[static_cast<size_t>(collective)];
}

[[noreturn]] void too_many(const std::string& argument, size_t count) {
  throw Error(Status::invalid_argument,
      format("%s: %zu elements are more than memory holds", argument.c_str(), count));
}

void require_apart(const Operand& in, const Operand& out, bool in_place, Collective collective) {
  require_operand(in);
  require_operand(out);
  if (overlap(in, out) && !in_place) {
    throw Error(Status::invalid_argument,
        format("recv: overlaps send without being the in-place form of %s", name_of(collective)));
  }
}

void check_blocks(const Group& group, const CollectiveCall& call, const CollectiveTraits& its) {
  const bool widens = call.scaling && call.scaling.result != call.dtype;
  const size_t element = size_of(call.dtype);
  const size_t wide = widens ? size_of(call.scaling.result) : element;
  size_t out_unit = 0;
  size_t all = 0;
  if (__builtin_mul_overflow(call.count, wide, &out_unit) ||
      __builtin_mul_overflow(out_unit, static_cast<size_t>(group.size()), &all)) {
    too_many(name_of_count(call.collective), call.count);
  }
  const size_t unit = widens ? call.count * element : out_unit;
  const size_t in_bytes = its.send_per_rank ? unit * static_cast<size_t>(group.size()) : unit;
  const size_t out_bytes = its.recv_per_rank ? all : out_unit;
  const bool am_root = group.rank() == call.root;
  // In place means that this rank's block of one operand is its block of the other.
  const auto block_of = [&](const void* operand, bool per_rank) {
    return reinterpret_cast<uintptr_t>(operand) +
           (per_rank ? static_cast<size_t>(group.rank()) * unit : 0);
  };
  require_apart(
      {"send", static_cast<const std::byte*>(call.send), its.from_root && !am_root ? 0 : in_bytes},
      {"recv", static_cast<const std::byte*>(call.recv), its.to_root && !am_root ? 0 : out_bytes},
      !widens && block_of(call.send, its.send_per_rank) == block_of(call.recv, its.recv_per_rank),
      call.collective);
}

// ---- with RMSNorm

// Rows of dtype may be those of another matrix of them;
// nothing else that is written lies where anything else does.
struct NormOperand : Operand {
  bool is_written = false;
  bool has_rows = false;
  size_t alignment = 16;
};

void check_norm(const CollectiveCall& call, const RmsNorm& norm) {
  const auto require = [](bool is_so, const std::string& argument, const std::string& why) {
    if (!is_so) throw Error(Status::invalid_argument, argument + ": " + why);
  };
  if (!is_valid(norm.weight_dtype)) {
    throw not_known("norm.weight_dtype", static_cast<int>(norm.weight_dtype));
  }
  require(is_norm_type(norm.weight_dtype), "norm.weight_dtype",
      text(name_of(norm.weight_dtype), " is not f32, f16 or bf16"));
  require(std::isfinite(norm.epsilon) && norm.epsilon >= 0, "norm.epsilon",
      format("%g is not finite, or negative", norm.epsilon));
  require(std::isfinite(norm.weight_offset), "norm.weight_offset",
      format("%g is not finite", norm.weight_offset));
  if (!is_valid(norm.scale_kind)) {
    throw not_known("norm.scale_kind", static_cast<int>(norm.scale_kind));
  }
  const bool quantises = norm.quant_out != nullptr;
  const bool is_given = norm.scale_kind == QuantScale::tensor;
  require(quantises || norm.norm_out != nullptr || norm.residual_out != nullptr, "norm",
      "there is no output");
  require(!quantises || norm.scale_kind != QuantScale::group || norm.hidden % kNormGroup == 0,
      "hidden", text(norm.hidden, " is not a multiple of ", kNormGroup));
  const auto require_scale = [&](const char* argument, const void* scale, bool wanted) {
    require((scale != nullptr) == wanted, argument,
        wanted ? "is NULL" : "is not NULL, but quant_out and scale_kind do not ask for it");
  };
  require_scale("norm.scale_in", norm.scale_in, quantises && is_given);
  require_scale("norm.scale_out", norm.scale_out, quantises && !is_given);
  require(call.send != nullptr, "send", "is NULL");
  require(norm.weight != nullptr, "norm.weight", "is NULL");

  const size_t rows = call.unit();
  const auto bytes_of = [](const void* begin) { return static_cast<const std::byte*>(begin); };
  const size_t scales = call.count / norm.hidden * norm.scales() * sizeof(float);
  const NormOperand all[] = {{{"send", bytes_of(call.send), rows}, false, true},
      {{"norm.residual_in", norm.residual_in, rows}, false, true},
      {{"norm.weight", norm.weight, norm.hidden * size_of(norm.weight_dtype)}},
      {{"norm.scale_in", bytes_of(norm.scale_in), sizeof(float)}, false, false, sizeof(float)},
      {{"norm.residual_out", norm.residual_out, rows}, true, true},
      {{"norm.norm_out", norm.norm_out, rows}, true, true},
      {{"norm.quant_out", norm.quant_out, call.count}, true},
      {{"norm.scale_out", bytes_of(norm.scale_out), scales}, true, false, sizeof(float)}};
  for (const NormOperand& one : all) {
    if (one.begin == nullptr) continue;
    require_operand(one);
    require(reinterpret_cast<uintptr_t>(one.begin) % one.alignment == 0, one.name,
        format("%p is not a multiple of %zu", static_cast<const void*>(one.begin), one.alignment));
    for (const NormOperand& other : all) {
      if (&other == &one || other.begin == nullptr || !one.is_written || !overlap(one, other)) {
        continue;
      }
      const bool in_place =
          one.has_rows && other.has_rows && !other.is_written && one.begin == other.begin;
      require(in_place, one.name, text("overlaps ", other.name));
    }
  }
}

void check_rows(const CollectiveCall& call) {
  const auto hidden = static_cast<size_t>(call.root);
  if (!is_norm_type(call.dtype)) {
    throw Error(
        Status::invalid_argument, format("dtype: %s is not f32, f16 or bf16", name_of(call.dtype)));
  }
  if (hidden == 0 || hidden % kNormUnit != 0 || hidden > kMostNormBytes / size_of(call.dtype)) {
    throw Error(Status::invalid_argument,
        format("hidden: %zu is not a multiple of %zu from %zu to %zu", hidden, kNormUnit, kNormUnit,
            kMostNormBytes / size_of(call.dtype)));
  }
  if (call.count > SIZE_MAX / 2 / size_of(call.dtype)) too_many("tokens", call.count / hidden);
}

// ---- in pieces

std::string of_rank(const std::string& name, size_t rank) {
  return name + "[" + std::to_string(rank) + "]";
}

// Pieces of `counts` elements; without displacements one
// behind the other. Returns where the last of them ends.
size_t lay(std::vector<Piece>& pieces, const std::string& operand, const size_t* counts,
    const size_t* displacements, size_t element) {
  if (counts == nullptr) throw Error(Status::invalid_argument, operand + "_counts: is NULL");
  size_t end = 0;
  size_t next = 0;
  for (size_t rank = 0; rank < pieces.size(); ++rank) {
    Piece& piece = pieces[rank];
    piece.at = next;
    if (__builtin_mul_overflow(counts[rank], element, &piece.bytes)) {
      too_many(of_rank(operand + "_counts", rank), counts[rank]);
    }
    if (piece.bytes == 0) continue;
    if (displacements != nullptr &&
        __builtin_mul_overflow(displacements[rank], element, &piece.at)) {
      too_many(of_rank(operand + "_displacements", rank), displacements[rank]);
    }
    if (__builtin_add_overflow(piece.at, piece.bytes, &next)) {
      too_many(of_rank(operand + "_counts", rank), counts[rank]);
    }
    end = std::max(end, next);
  }
  return end;
}

void require_distinct(const std::vector<Piece>& pieces, const char* displacements) {
  std::vector<size_t> order;
  for (size_t rank = 0; rank < pieces.size(); ++rank) {
    if (pieces[rank].bytes != 0) order.push_back(rank);
  }
  std::sort(
      order.begin(), order.end(), [&](size_t a, size_t b) { return pieces[a].at < pieces[b].at; });
  for (size_t i = 1; i < order.size(); ++i) {
    const Piece& before = pieces[order[i - 1]];
    if (before.at + before.bytes > pieces[order[i]].at) {
      throw Error(Status::invalid_argument,
          format("%s[%zu]: the block of rank %zu overlaps that of rank %zu", displacements,
              order[i], order[i], order[i - 1]));
    }
  }
}

// Blocks of counts that are only read on the device, within operands of these capacities.
Pieces pieces_on_device(const CollectiveCall& call, const PieceCounts& counts) {
  Pieces pieces;
  const auto bytes = [&](const char* name, const size_t* numbers, size_t capacity) {
    if (numbers == nullptr) {
      throw Error(Status::invalid_argument, format("%s_counts: is NULL", name));
    }
    size_t room = 0;
    if (__builtin_mul_overflow(capacity, size_of(call.dtype), &room)) {
      too_many(std::string(name) + "_capacity", capacity);
    }
    return room;
  };
  pieces.device_send = {counts.send_counts, counts.send_displacements};
  pieces.device_recv = {counts.recv_counts, counts.recv_displacements};
  pieces.send_bytes = bytes("send", counts.send_counts, counts.capacities->send);
  pieces.recv_bytes = bytes("recv", counts.recv_counts, counts.capacities->recv);
  require_apart({"send", static_cast<const std::byte*>(call.send), pieces.send_bytes},
      {"recv", static_cast<const std::byte*>(call.recv), pieces.recv_bytes}, false,
      call.collective);
  return pieces;
}

void require_within(
    const char* operand, const std::vector<Piece>& pieces, size_t capacity, size_t element) {
  for (size_t rank = 0; rank < pieces.size(); ++rank) {
    const size_t at = pieces[rank].at / element;
    const size_t count = pieces[rank].bytes / element;
    if (count != 0 && at + count > capacity) {
      throw Error(Status::invalid_argument, beyond_capacity(operand, rank, count, at, capacity));
    }
  }
}

Pieces pieces_of(const Group& group, const CollectiveCall& call, const PieceCounts& counts) {
  const auto size = static_cast<size_t>(group.size());
  const auto rank = static_cast<size_t>(group.rank());
  const auto root = static_cast<size_t>(call.root);
  const size_t element = size_of(call.dtype);
  Pieces pieces;
  pieces.send.resize(size);
  pieces.recv.resize(size);
  const auto send = [&] {
    return lay(pieces.send, "send", counts.send_counts, counts.send_displacements, element);
  };
  const auto recv = [&] {
    return lay(pieces.recv, "recv", counts.recv_counts, counts.recv_displacements, element);
  };
  // Equal pieces for all, or for and from the root only.
  const auto equal = [&](std::vector<Piece>& all, size_t bytes, size_t step) {
    for (size_t r = 0; r < size; ++r) {
      all[r] = {r * step, bytes};
    }
    return bytes == 0 ? 0 : (size - 1) * step + bytes;
  };
  size_t unit = 0;
  size_t whole = 0;
  if (__builtin_mul_overflow(call.count, element, &unit) ||
      __builtin_mul_overflow(unit, size, &whole)) {
    too_many(name_of_count(call.collective), call.count);
  }
  switch (call.collective) {
    case Collective::alltoallv:
      pieces.send_bytes = send();
      pieces.recv_bytes = recv();
      if (counts.capacities) {
        require_within("send", pieces.send, counts.capacities->send, element);
        require_within("recv", pieces.recv, counts.capacities->recv, element);
      }
      break;
    case Collective::allgatherv:
      pieces.recv_bytes = recv();
      pieces.send_bytes = equal(pieces.send, pieces.recv[rank].bytes, 0);
      break;
    case Collective::reduce_scatterv:
      pieces.send_bytes = send();
      pieces.recv_bytes = equal(pieces.recv, pieces.send[rank].bytes, 0);
      break;
    case Collective::gather:
      pieces.send[root] = {0, pieces.send_bytes = unit};
      if (rank == root) pieces.recv_bytes = equal(pieces.recv, unit, unit);
      break;
    case Collective::scatter:
      pieces.recv[root] = {0, pieces.recv_bytes = unit};
      if (rank == root) pieces.send_bytes = equal(pieces.send, unit, unit);
      break;
    default: {  // allgather_rows, whose count is that of a row
      size_t piece = 0;
      size_t stride = 0;
      size_t end = 0;
      if (__builtin_mul_overflow(unit, counts.rows, &piece)) too_many("rows", counts.rows);
      if (counts.rows > 1 && counts.recv_stride < call.count * size) {
        throw Error(Status::invalid_argument,
            format("recv_stride: %zu is less than the %zu elements of all ranks' rows",
                counts.recv_stride, call.count * size));
      }
      if (counts.rows > 1 &&
          (__builtin_mul_overflow(counts.recv_stride, element, &stride) ||
              __builtin_mul_overflow(stride, counts.rows - 1, &end) || end > SIZE_MAX - whole)) {
        too_many("recv_stride", counts.recv_stride);
      }
      pieces.send_bytes = equal(pieces.send, piece, 0);
      equal(pieces.recv, piece, unit);
      pieces.recv_bytes = piece == 0 ? 0 : end + whole;
      if (stride != 0 && unit != 0) {
        pieces.row_bytes = unit;
        pieces.row_stride = stride;
      }
    }
  }
  if (counts.recv_displacements != nullptr) require_distinct(pieces.recv, "recv_displacements");
  const auto block_of = [](const void* operand, const Piece& piece) {
    return reinterpret_cast<uintptr_t>(operand) + piece.at;
  };
  const auto is_same = [](const Piece& a, const Piece& b) {
    return a.bytes == b.bytes && (a.bytes == 0 || a.at == b.at);
  };
  bool in_place = pieces.row_bytes == 0 &&
                  block_of(call.send, pieces.send[rank]) == block_of(call.recv, pieces.recv[rank]);
  if (call.collective == Collective::alltoallv) {
    in_place = !counts.capacities && call.send == call.recv &&
               std::equal(pieces.send.begin(), pieces.send.end(), pieces.recv.begin(),
                   pieces.recv.end(), is_same);
  }
  const Operand in{"send", static_cast<const std::byte*>(call.send), pieces.send_bytes};
  const Operand out{"recv", static_cast<const std::byte*>(call.recv), pieces.recv_bytes};
  require_apart(in, out, in_place, call.collective);
  if (in_place && overlap(in, out) && counts.send_displacements != nullptr) {
    require_distinct(pieces.send, "send_displacements");
  }
  return pieces;
}

// `then` makes the call, once it is found to be possible.
template <class Then>
auto with_checked(
    const Group& group, const CollectiveCall& call, const PieceCounts& counts, const Then& then) {
  const CollectiveTraits& its = known_traits(call.collective);
  check(group, call, its);
  if (call.collective == Collective::allreduce_rmsnorm) {
    check_rows(call);
    if (call.norm != nullptr && call.count != 0) check_norm(call, *call.norm);
    return then(call);
  }
  if (!its.in_pieces) {
    check_blocks(group, call, its);
    return then(call);
  }
  const bool later = counts.capacities && group.backend().kind() != BackendKind::host;
  const Pieces pieces = later ? pieces_on_device(call, counts) : pieces_of(group, call, counts);
  CollectiveCall with_pieces = call;
  with_pieces.pieces = &pieces;
  if (has_counts(call.collective)) with_pieces.count = 0;
  if (call.collective == Collective::allgather_rows) with_pieces.count = call.count * counts.rows;
  return then(with_pieces);
}
}  // namespace

Error unknown_dtype(int value) {
  return {(value & 0xFF) == 0 || value < 0 ? Status::invalid_argument : Status::unsupported,
      format("dtype: 0x%x is not known to this library", static_cast<unsigned>(value))};
}

void run_collective(Group& group, const CollectiveCall& call, const PieceCounts& counts) {
  Trace traced;
  if (Trace::on()) {
    traced.begin(
        group.page(), name_of(call.collective), -1, call.unit(), static_cast<int>(call.dtype));
  }
  group.transport().stats().counted([&] {
    with_checked(group, call, counts, [&](const CollectiveCall& checked) {
      group.in_turn([&] { group.transport().collective(checked); });
    });
  });
}

PlanReport plan_collective(Group& group, const CollectiveCall& call, const PieceCounts& counts) {
  return with_checked(group, call, counts,
      [&](const CollectiveCall& checked) { return group.transport().plan(checked); });
}
}  // namespace symm
