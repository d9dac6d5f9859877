// Every check of arguments that needs no other rank. It reads the call and the group, lays out
// pieces, and changes nothing else.
#include "core/group/checks.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/base/wait.hpp"
#include "core/group/group.hpp"
#include "core/mesh/peer_link.hpp"
#include "kernels/collective.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/number.hpp"
#include "kernels/pieces.hpp"
#include "kernels/rmsnorm.hpp"
#include "kernels/types.hpp"
#include "kernels/wire.hpp"

namespace symm {
namespace {
[[noreturn]] void refuse_argument(std::string_view argument, std::string_view why) {
  std::string message(argument);
  message.append(": ").append(why);
  throw Error(Status::invalid_argument, std::move(message));
}
}  // namespace

// ---- arguments that many calls have

void require_known(bool is_known, int value, const char* argument) {
  if (!is_known) throw not_known(argument, value);
}

int require_channels(int channels, const char* argument) {
  if (channels < 0) refuse_argument(argument, format("%d is negative", channels));
  if (channels > kMostChannels) {
    throw Error(Status::unsupported,
        format("%s: %d, and there are at most %d", argument, channels, kMostChannels));
  }
  return channels;
}

void require_waiting(uint64_t timeout_ms, const char* argument) {
  if (timeout_ms == Deadline::kNow) {
    refuse_argument(argument, "SYMM_TIMEOUT_NOW, but this call cannot look once");
  }
}

void require_lasting(uint64_t timeout_ms, const char* argument) {
  if (timeout_ms == Deadline::kNow) {
    refuse_argument(argument, "SYMM_TIMEOUT_NOW, which is for single calls only");
  }
}

uint64_t Group::timeout_or_look(uint64_t timeout_ms) const {
  if (timeout_ms == Deadline::kNow && backend_->kind() != BackendKind::host) {
    refuse_argument("options.timeout_ms", "SYMM_TIMEOUT_NOW, but the call waits on a stream");
  }
  return timeout_or_default(timeout_ms);
}

void Group::require_usable() const {
  transport_->device().check_device_errors();
  revocation_->throw_if_revoked();
  if (finalized_.load(std::memory_order_relaxed)) {
    throw Error(Status::invalid_handle, "group: it was finalized");
  }
  if (!hears_all()) await_heartbeats();
}

void Group::require_rank(const char* argument, int rank) const {
  if (rank < 0 || rank >= size_) {
    refuse_argument(argument, format("%d is not in 0 .. %d", rank, size_ - 1));
  }
}

void Group::require_ranks(std::span<const int32_t> ranks) const {
  // The length is looked at before any rank is read.
  if (ranks.size() > static_cast<size_t>(size_)) {
    refuse_argument("ranks", format("%zu, and the group has %d", ranks.size(), size_));
  }

  // Each rank is looked for among those before it. A set would need memory, and a rank that
  // fails here for lack of memory would leave the others waiting until their deadline.
  for (size_t i = 0; i < ranks.size(); ++i) {
    require_rank("ranks", ranks[i]);
    const auto before = ranks.first(i);
    if (std::find(before.begin(), before.end(), ranks[i]) != before.end()) {
      refuse_argument("ranks", format("%d is named twice", ranks[i]));
    }
  }

  if (std::find(ranks.begin(), ranks.end(), rank_) == ranks.end()) {
    refuse_argument("ranks", format("this rank, %d, is not among them", rank_));
  }
}

void Group::require_channel(int channel, int channels) {
  if (channel < 0 || channel >= channels) {
    refuse_argument("channel", format("%d is not in 0 .. %d", channel, channels - 1));
  }
}

void Group::require_barrier(std::span<const int32_t> ranks, int channel) const {
  require_channel(channel, config_.channels);
  if (!ranks.empty()) require_ranks(ranks);
}

namespace {
Error not_known_dtype(const char* argument, int value) {
  if (value < 0) return {Status::invalid_argument, format("%s: %d is negative", argument, value)};
  const auto code = static_cast<unsigned>(value);
  if ((code & 0xFFU) == 0) {
    return {Status::invalid_argument, format("%s: 0x%x has no bits", argument, code)};
  }
  return {Status::unsupported, format("%s: 0x%x is not known to this library", argument, code)};
}
}  // namespace

Error unknown_dtype(int value) { return not_known_dtype("dtype", value); }

WireFormat wire_format(int dtype, int group) {
  if (dtype == 0) {
    refuse_argument("options.wire_group", format("%d, but there is no wire_dtype", group));
  }
  const auto type = static_cast<DType>(dtype);
  if (!is_valid(type)) throw not_known_dtype("options.wire_dtype", dtype);
  if (!is_wire_type(type)) {
    refuse_argument(
        "options.wire_dtype", format("%s; there are f8e4m3, f8e5m2 and i8", dtype_name(type)));
  }
  const auto length = static_cast<uint32_t>(group);
  if (group != 0 && length != kSmallWireGroup && length != kLargeWireGroup) {
    refuse_argument("options.wire_group",
        format("%d; there are %u and %u", group, kSmallWireGroup, kLargeWireGroup));
  }
  return {type, group == 0 ? kLargeWireGroup : length};
}

// ---- a call of a collective: refusals that name what the call has

namespace {
// In `pattern`, $collective, $op, $dtype, $result_dtype and $weight_dtype stand for the
// names of the call's values.
[[noreturn]] void refuse_argument(
    const CollectiveCall& call, const char* argument, std::string_view pattern) {
  std::string why(pattern);
  const auto say = [&](std::string_view word, const char* name) {
    const size_t at = why.find(word);
    if (at != std::string::npos) why.replace(at, word.size(), name);
  };

  say("$collective", collective_name(call.collective));
  say("$op", op_name(call.op));
  say("$dtype", dtype_name(call.dtype));
  say("$result_dtype", dtype_name(call.scaling.result));
  if (call.norm != nullptr) say("$weight_dtype", dtype_name(call.norm->weight_dtype));
  refuse_argument(argument, why);
}

[[noreturn]] void refuse_unknown(const char* argument, int value) {
  throw not_known(argument, value);
}

[[noreturn]] void refuse_count(std::string_view argument, size_t count) {
  refuse_argument(argument, format("%zu elements are more than memory holds", count));
}

// ---- a call of a collective: operands

struct Operand {
  const char* name;
  const std::byte* begin;
  size_t bytes;
};

Operand operand_of(const char* name, const void* begin, size_t bytes) {
  return {name, static_cast<const std::byte*>(begin), bytes};
}

bool overlap(const Operand& a, const Operand& b) {
  const auto begin_a = reinterpret_cast<uintptr_t>(a.begin);
  const auto begin_b = reinterpret_cast<uintptr_t>(b.begin);
  return a.bytes != 0 && b.bytes != 0 && begin_a < begin_b + b.bytes && begin_b < begin_a + a.bytes;
}

// This function and the next are inlined: a small collective takes measurably longer if
// operands are passed in memory.
[[gnu::always_inline]] inline void require_operand(const Operand& operand) {
  if (operand.bytes == 0) return;
  if (operand.begin == nullptr) refuse_argument(operand.name, "is NULL");
  if (operand.bytes > UINTPTR_MAX - reinterpret_cast<uintptr_t>(operand.begin)) {
    refuse_argument(
        operand.name, format("%zu bytes reach beyond the address space", operand.bytes));
  }
}

[[gnu::always_inline]] inline void require_apart(
    const Operand& send, const Operand& recv, bool in_place, const CollectiveCall& call) {
  require_operand(send);
  require_operand(recv);
  if (overlap(send, recv) && !in_place) {
    refuse_argument(call, "recv", "overlaps send without being the in-place form of $collective");
  }
}

// ---- a call of a collective: blocks of one size

void check_blocks(const Group& group, const CollectiveCall& call, const CollectiveRow& row) {
  const CollectiveTraits& traits = row.traits;
  const bool changes_type = call.scaling && call.scaling.result != call.dtype;
  const size_t element = size_of(call.dtype);
  const size_t result_element = changes_type ? size_of(call.scaling.result) : element;

  const auto ranks = static_cast<size_t>(group.size());
  size_t most = 0;
  if (__builtin_mul_overflow(call.count, std::max(element, result_element), &most) ||
      __builtin_mul_overflow(most, ranks, &most)) {
    refuse_count(row.count, call.count);
  }
  const size_t unit = call.count * element;
  const size_t result_unit = call.count * result_element;
  const size_t send_bytes = traits.send_per_rank ? unit * ranks : unit;
  const size_t recv_bytes = traits.recv_per_rank ? result_unit * ranks : result_unit;

  const auto own_block = [&](const void* operand, bool per_rank) {
    return reinterpret_cast<uintptr_t>(operand) +
           (per_rank ? static_cast<size_t>(group.rank()) * unit : 0);
  };
  const bool in_place = !changes_type && own_block(call.send, traits.send_per_rank) ==
                                             own_block(call.recv, traits.recv_per_rank);
  const bool am_root = group.rank() == call.root;
  require_apart(operand_of("send", call.send, traits.from_root && !am_root ? 0 : send_bytes),
      operand_of("recv", call.recv, traits.to_root && !am_root ? 0 : recv_bytes), in_place, call);
}

// ---- a call of a collective: pieces

std::string of_rank(const std::string& name, size_t rank) {
  return name + "[" + std::to_string(rank) + "]";
}

std::string counts_of(const char* operand) { return std::string(operand) + "_counts"; }

// Lays out pieces of `counts` elements; without displacements they lie one behind the other.
// Returns the end of the last one.
size_t lay_counted(std::vector<Piece>& pieces, const char* operand, const size_t* counts,
    const size_t* displacements, size_t element) {
  if (counts == nullptr) refuse_argument(counts_of(operand), "is NULL");

  size_t end = 0;
  size_t next = 0;
  for (size_t rank = 0; rank < pieces.size(); ++rank) {
    Piece& piece = pieces[rank];
    piece.at = next;
    if (__builtin_mul_overflow(counts[rank], element, &piece.bytes)) {
      refuse_count(of_rank(counts_of(operand), rank), counts[rank]);
    }
    if (piece.bytes == 0) continue;

    if (displacements != nullptr &&
        __builtin_mul_overflow(displacements[rank], element, &piece.at)) {
      const std::string name = std::string(operand) + "_displacements";
      refuse_count(of_rank(name, rank), displacements[rank]);
    }
    if (__builtin_add_overflow(piece.at, piece.bytes, &next)) {
      refuse_count(of_rank(counts_of(operand), rank), counts[rank]);
    }
    end = std::max(end, next);
  }
  return end;
}

// Lays out pieces of one length, one every `step` bytes. Returns the end of the last one.
size_t lay_equal(std::vector<Piece>& pieces, size_t bytes, size_t step) {
  for (size_t rank = 0; rank < pieces.size(); ++rank) {
    pieces[rank] = {rank * step, bytes};
  }
  return bytes == 0 ? 0 : (pieces.size() - 1) * step + bytes;
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
      refuse_argument(of_rank(displacements, order[i]),
          format("the block of rank %zu overlaps that of rank %zu", order[i], order[i - 1]));
    }
  }
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

// Where only one operand has counts, the pieces of the other are all as long as this rank's own
// piece of the counted one.
void lay_pieces_of_counts(Pieces& pieces, const CollectiveRow& row, size_t rank, size_t element) {
  const PieceCounts& counts = pieces.counts;
  if (row.has_send_counts) {
    pieces.send_bytes =
        lay_counted(pieces.send, "send", counts.send_counts, counts.send_displacements, element);
  }
  if (row.has_recv_counts) {
    pieces.recv_bytes =
        lay_counted(pieces.recv, "recv", counts.recv_counts, counts.recv_displacements, element);
  }
  if (!row.has_send_counts) pieces.send_bytes = lay_equal(pieces.send, pieces.recv[rank].bytes, 0);
  if (!row.has_recv_counts) pieces.recv_bytes = lay_equal(pieces.recv, pieces.send[rank].bytes, 0);

  if (counts.capacities) {
    require_within("send", pieces.send, counts.capacities->send, element);
    require_within("recv", pieces.recv, counts.capacities->recv, element);
  }
}

// The root has a block of `unit` bytes for each rank, or from each.
void lay_pieces_of_root(
    Pieces& pieces, const CollectiveTraits& traits, size_t rank, size_t root, size_t unit) {
  if (traits.to_root) {
    pieces.send[root] = {0, unit};
    pieces.send_bytes = unit;
    if (rank == root) pieces.recv_bytes = lay_equal(pieces.recv, unit, unit);
  } else {
    pieces.recv[root] = {0, unit};
    pieces.recv_bytes = unit;
    if (rank == root) pieces.send_bytes = lay_equal(pieces.send, unit, unit);
  }
}

// Only the root has counts; every rank knows the length of its own block, which the root has, too.
void lay_pieces_of_counted_root(
    Pieces& pieces, const CollectiveTraits& traits, size_t rank, size_t root, size_t element) {
  PieceCounts& counts = pieces.counts;
  const char* const argument = traits.to_root ? "send_count" : "recv_count";
  size_t own = 0;
  if (__builtin_mul_overflow(counts.own_count, element, &own)) {
    refuse_count(argument, counts.own_count);
  }

  (traits.to_root ? pieces.send : pieces.recv)[root] = {0, own};
  (traits.to_root ? pieces.send_bytes : pieces.recv_bytes) = own;
  if (rank != root) {
    // These lists are not looked at, and may be anything.
    counts.send_counts = nullptr;
    counts.send_displacements = nullptr;
    counts.recv_counts = nullptr;
    counts.recv_displacements = nullptr;
    return;
  }

  const char* const operand = traits.to_root ? "recv" : "send";
  std::vector<Piece>& all = traits.to_root ? pieces.recv : pieces.send;
  const size_t* const list = traits.to_root ? counts.recv_counts : counts.send_counts;
  const size_t* const places =
      traits.to_root ? counts.recv_displacements : counts.send_displacements;
  const size_t end = lay_counted(all, operand, list, places, element);
  (traits.to_root ? pieces.recv_bytes : pieces.send_bytes) = end;
  if (all[rank].bytes != own) {
    refuse_argument(argument, format("%zu, but %s is %zu", counts.own_count,
                                  of_rank(counts_of(operand), rank).c_str(), list[rank]));
  }
}

// The root has bytes for all other ranks, which have room for so many. How many come is found out
// by the call.
void lay_pieces_of_bytes(Pieces& pieces, size_t rank, size_t root) {
  const size_t own = pieces.counts.own_count;
  pieces.found = {};
  if (rank != root) {
    pieces.recv_bytes = own;
    return;
  }
  pieces.send_bytes = own;
  for (size_t peer = 0; peer < pieces.send.size(); ++peer) {
    if (peer != root) pieces.send[peer].bytes = own;
  }
}

// Each rank's piece is a row of `unit` bytes in each of the rows of recv, or of send where they are
// combined. These rows have `all_rows` bytes.
void lay_pieces_of_rows(
    Pieces& pieces, bool are_sent, size_t element, size_t unit, size_t all_rows) {
  const PieceCounts& counts = pieces.counts;
  const char* const argument = are_sent ? "send_stride" : "recv_stride";
  const size_t elements = all_rows / element;
  size_t piece = 0;
  size_t stride = 0;
  size_t last_row = 0;
  if (__builtin_mul_overflow(unit, counts.rows, &piece)) refuse_count("rows", counts.rows);
  if (counts.stride < elements) {
    refuse_argument(argument,
        format("%zu is less than the %zu elements of all ranks' rows", counts.stride, elements));
  }
  if (counts.rows > 1 && (__builtin_mul_overflow(counts.stride, element, &stride) ||
                             __builtin_mul_overflow(stride, counts.rows - 1, &last_row) ||
                             last_row > SIZE_MAX - all_rows)) {
    refuse_count(argument, counts.stride);
  }

  lay_equal(are_sent ? pieces.send : pieces.recv, piece, unit);
  const size_t own_bytes = lay_equal(are_sent ? pieces.recv : pieces.send, piece, 0);
  const size_t all_bytes = piece == 0 ? 0 : last_row + all_rows;
  pieces.send_bytes = are_sent ? all_bytes : own_bytes;
  pieces.recv_bytes = are_sent ? own_bytes : all_bytes;
  if (stride != 0 && unit != 0) {
    pieces.row_bytes = unit;
    pieces.row_stride = stride;
  }
}

bool is_in_place(const CollectiveCall& call, const CollectiveRow& row, size_t rank) {
  const Pieces& pieces = *call.pieces;
  if (row.in_place == InPlace::same_pieces) {
    const auto is_same = [](const Piece& a, const Piece& b) {
      return a.bytes == b.bytes && (a.bytes == 0 || a.at == b.at);
    };
    return !pieces.counts.capacities && call.send == call.recv &&
           std::equal(pieces.send.begin(), pieces.send.end(), pieces.recv.begin(),
               pieces.recv.end(), is_same);
  }

  const auto block = [](const void* operand, const Piece& piece) {
    return reinterpret_cast<uintptr_t>(operand) + piece.at;
  };
  return pieces.row_bytes == 0 &&
         block(call.send, pieces.send[rank]) == block(call.recv, pieces.recv[rank]);
}

// In the checks of every back end an operand is as long as its capacity, whatever the
// counts of this call say. So a capacity that is too large is found in the first call, and
// not only in a call that uses it.
struct CapacityBytes {
  size_t send;
  size_t recv;
};

CapacityBytes bytes_of_capacities(const CollectiveCall& call) {
  const Capacities& capacities = *call.pieces->counts.capacities;
  const auto bytes_of = [&](const char* argument, size_t capacity) {
    size_t bytes = 0;
    if (__builtin_mul_overflow(capacity, size_of(call.dtype), &bytes)) {
      refuse_count(argument, capacity);
    }
    return bytes;
  };
  return {bytes_of("send_capacity", capacities.send), bytes_of("recv_capacity", capacities.recv)};
}

void check_pieces(const Group& group, const CollectiveCall& call, const CollectiveRow& row) {
  const auto size = static_cast<size_t>(group.size());
  const auto rank = static_cast<size_t>(group.rank());
  const size_t element = size_of(call.dtype);
  Pieces& pieces = *call.pieces;
  const PieceCounts& counts = pieces.counts;
  pieces.send.assign(size, {});
  pieces.recv.assign(size, {});

  const bool in_rows = has_rows(call.collective);
  const size_t count = in_rows ? counts.row_count : call.count;
  size_t unit = 0;
  size_t all = 0;
  if (__builtin_mul_overflow(count, element, &unit) || __builtin_mul_overflow(unit, size, &all)) {
    refuse_count(row.count, count);
  }
  if (call.collective == Collective::broadcast_bytes) {
    lay_pieces_of_bytes(pieces, rank, static_cast<size_t>(call.root));
  } else if (has_counts(call.collective) && row.traits.has_root()) {
    lay_pieces_of_counted_root(pieces, row.traits, rank, static_cast<size_t>(call.root), element);
  } else if (has_counts(call.collective)) {
    lay_pieces_of_counts(pieces, row, rank, element);
  } else if (row.traits.has_root()) {
    lay_pieces_of_root(pieces, row.traits, rank, static_cast<size_t>(call.root), unit);
  } else {
    lay_pieces_of_rows(pieces, row.traits.has_op, element, unit, all);
  }
  if (counts.recv_displacements != nullptr) require_distinct(pieces.recv, "recv_displacements");

  const bool in_place = is_in_place(call, row, rank);
  const auto [send_bytes, recv_bytes] = counts.capacities
                                            ? bytes_of_capacities(call)
                                            : CapacityBytes{pieces.send_bytes, pieces.recv_bytes};
  const Operand send = operand_of("send", call.send, send_bytes);
  const Operand recv = operand_of("recv", call.recv, recv_bytes);
  require_apart(send, recv, in_place, call);
  if (in_place && overlap(send, recv) && counts.send_displacements != nullptr) {
    require_distinct(pieces.send, "send_displacements");
  }
}

// The counts are in memory of the device, so the pieces are laid out when the call runs.
void check_pieces_on_device(const CollectiveCall& call) {
  Pieces& pieces = *call.pieces;
  const PieceCounts& counts = pieces.counts;
  if (counts.send_counts == nullptr) refuse_argument(counts_of("send"), "is NULL");
  if (counts.recv_counts == nullptr) refuse_argument(counts_of("recv"), "is NULL");

  const CapacityBytes bytes = bytes_of_capacities(call);
  pieces.device_send = {counts.send_counts, counts.send_displacements};
  pieces.device_recv = {counts.recv_counts, counts.recv_displacements};
  pieces.send_bytes = bytes.send;
  pieces.recv_bytes = bytes.recv;
  require_apart(operand_of("send", call.send, pieces.send_bytes),
      operand_of("recv", call.recv, pieces.recv_bytes), false, call);
}

// ---- a call of a collective: RMSNorm

// An operand that is written may overlap another one only in the in-place form
// (InPlace::same_rows).
struct NormOperand : Operand {
  bool is_written = false;
  bool has_rows = false;
  size_t alignment = 16;
};

void check_norm_rows(const CollectiveCall& call, const CollectiveRow& row) {
  const auto hidden = static_cast<size_t>(call.root);
  if (!is_norm_type(call.dtype)) {
    refuse_argument(call, "dtype", "$dtype is not f32, f16 or bf16");
  }
  const size_t longest = kMostNormBytes / size_of(call.dtype);
  if (hidden == 0 || hidden % kNormUnit != 0 || hidden > longest) {
    refuse_argument("hidden", format("%zu is not a multiple of %zu from %zu to %zu", hidden,
                                  kNormUnit, kNormUnit, longest));
  }
  if (call.count > SIZE_MAX / 2 / size_of(call.dtype)) refuse_count(row.count, call.count / hidden);
}

void require_scale(const char* argument, const void* scale, bool is_wanted) {
  if (is_wanted && scale == nullptr) refuse_argument(argument, "is NULL");
  if (!is_wanted && scale != nullptr) {
    refuse_argument(argument, "is not NULL, but quant_out and scale_kind do not ask for it");
  }
}

void check_norm_values(const CollectiveCall& call, const RmsNorm& norm) {
  if (!is_valid(norm.weight_dtype)) {
    throw not_known_dtype("norm.weight_dtype", static_cast<int>(norm.weight_dtype));
  }
  if (!is_norm_type(norm.weight_dtype)) {
    refuse_argument(call, "norm.weight_dtype", "$weight_dtype is not f32, f16 or bf16");
  }
  const Number epsilon(norm.epsilon);
  const Number offset(norm.weight_offset);
  if (!epsilon.is_finite() || epsilon.is_negative()) {
    refuse_argument("norm.epsilon", format("%g is not finite, or negative", epsilon.f64()));
  }
  if (!offset.is_finite()) {
    refuse_argument("norm.weight_offset", format("%g is not finite", offset.f64()));
  }
  if (!is_valid(norm.scale_kind)) {
    refuse_unknown("norm.scale_kind", static_cast<int>(norm.scale_kind));
  }

  const bool quantises = norm.quant_out != nullptr;
  if (!quantises && norm.norm_out == nullptr && norm.residual_out == nullptr) {
    refuse_argument("norm", "there is no output");
  }
  if (quantises && norm.scale_kind == QuantScale::group && norm.hidden % kNormGroup != 0) {
    refuse_argument("hidden", format("%zu is not a multiple of %zu", norm.hidden, kNormGroup));
  }
  const bool scale_is_given = norm.scale_kind == QuantScale::tensor;
  require_scale("norm.scale_in", norm.scale_in, quantises && scale_is_given);
  require_scale("norm.scale_out", norm.scale_out, quantises && !scale_is_given);
  if (call.send == nullptr) refuse_argument("send", "is NULL");
  if (norm.weight == nullptr) refuse_argument("norm.weight", "is NULL");
}

std::array<NormOperand, 8> norm_operands(const CollectiveCall& call, const RmsNorm& norm) {
  const size_t rows = call.unit();
  const size_t weights = norm.hidden * size_of(norm.weight_dtype);
  const size_t scales = call.count / norm.hidden * norm.scales() * sizeof(float);

  // The fields are the name, begin and bytes of an operand, whether it is written, whether it
  // has rows, and its alignment.
  return {{
      {operand_of("send", call.send, rows), false, true},
      {operand_of("norm.residual_in", norm.residual_in, rows), false, true},
      {operand_of("norm.weight", norm.weight, weights)},
      {operand_of("norm.scale_in", norm.scale_in, sizeof(float)), false, false, sizeof(float)},
      {operand_of("norm.residual_out", norm.residual_out, rows), true, true},
      {operand_of("norm.norm_out", norm.norm_out, rows), true, true},
      {operand_of("norm.quant_out", norm.quant_out, call.count), true},
      {operand_of("norm.scale_out", norm.scale_out, scales), true, false, sizeof(float)},
  }};
}

void check_norm_operands(const CollectiveCall& call, const RmsNorm& norm) {
  const auto operands = norm_operands(call, norm);

  for (const NormOperand& one : operands) {
    if (one.begin == nullptr) continue;
    require_operand(one);
    if (reinterpret_cast<uintptr_t>(one.begin) % one.alignment != 0) {
      refuse_argument(one.name, format("%p is not a multiple of %zu",
                                    static_cast<const void*>(one.begin), one.alignment));
    }

    for (const NormOperand& other : operands) {
      const bool is_another = &other != &one && other.begin != nullptr;
      if (!is_another || !one.is_written || !overlap(one, other)) continue;
      const bool in_place =
          one.has_rows && other.has_rows && !other.is_written && one.begin == other.begin;
      if (!in_place) refuse_argument(one.name, format("overlaps %s", other.name));
    }
  }
}

// ---- a call of a collective: values

void check_scaling(const CollectiveCall& call, const CollectiveRow& row) {
  const Scaling& scaling = call.scaling;
  const bool is_of_float = is_float(call.dtype);
  const bool changes_type = scaling.result != call.dtype;
  const bool widens = scaling.result == DType::f32 && is_small_float(call.dtype);
  const bool narrows = call.dtype == DType::f32 && is_small_float(scaling.result);
  if (!is_valid(scaling.position)) {
    refuse_unknown("options.scale_position", static_cast<int>(scaling.position));
  }
  if (!is_valid(scaling.result)) {
    throw not_known_dtype("options.result_dtype", static_cast<int>(scaling.result));
  }
  if (!row.has_scaling) {
    refuse_argument(call, "options.scale_position, result_dtype", "$collective has neither");
  }
  if (changes_type && !widens && !narrows) {
    refuse_argument(call, "options.result_dtype",
        "$result_dtype of $dtype; there is only f32 of narrower floats, and these of f32");
  }

  if (scaling.position == ScalePosition::none) {
    if (scaling.factor.is_zero() && call.scale_pointer == nullptr) return;
    refuse_argument("options.scale_position", "NONE, but there is a factor");
  }
  if (!is_of_float) refuse_argument(call, "options.scale_position", "$dtype is not a float");
  if (scaling.factor.is_zero() == (call.scale_pointer == nullptr)) {
    refuse_argument(
        "options.scale, scale_pointer", "one of them, and not both, must be other than 0");
  }
  const bool is_double = call.dtype == DType::f64;
  const Number used = is_double ? scaling.factor : scaling.factor.rounded_to_f32();
  if (!used.is_finite()) {
    refuse_argument("options.scale",
        format("%g is not a finite %s", scaling.factor.f64(), is_double ? "f64" : "f32"));
  }
}

void check_wire(const CollectiveCall& call, const CollectiveRow& row) {
  constexpr const char* kArgument = "options.wire_dtype";
  if (!row.has_scaling) {
    refuse_argument(call, kArgument, "$collective has no wire of its own");
  }
  if (call.op != Op::sum && call.op != Op::avg) {
    refuse_argument(call, kArgument, "goes with sum and avg, not with $op");
  }
  if (!is_wire_operand(call.dtype)) {
    refuse_argument(call, kArgument, "goes with f32, f16 and bf16, not with $dtype");
  }
  if (call.scaling) {
    refuse_argument(kArgument, "does not go with a scale_position or another result_dtype");
  }

  const bool is_possible =
      call.algorithm == Algorithm::automatic || call.algorithm == Algorithm::two_shot ||
      (call.algorithm == Algorithm::one_shot && call.collective != Collective::reduce_scatter);
  if (!is_possible) {
    refuse_argument("options.algorithm",
        format("a call of %s with a wire_dtype goes by TWO_SHOT%s, not by %s",
            collective_name(call.collective),
            call.collective == Collective::reduce_scatter ? "" : " or ONE_SHOT",
            algorithm_name(call.algorithm)));
  }
}

// The words of a call in chunks are those of one block or of a block for each rank.
size_t bytes_of_words(const Group& group, const CollectiveCall& call) {
  const size_t blocks =
      call.collective == Collective::allreduce ? 1 : static_cast<size_t>(group.size());
  return call.words.chunks_of(call.unit()) * blocks * sizeof(uint32_t);
}

void check_words_of_group(const Group& group, const CollectiveCall& call) {
  const bool by_engine = call.algorithm == Algorithm::copy_engine &&
                         call.collective == Collective::allgather &&
                         group.backend().kind() != BackendKind::host;
  if (call.algorithm != Algorithm::automatic && call.collective != Collective::allreduce &&
      !by_engine) {
    refuse_argument(
        "options.algorithm", format("%s in chunks does not go by %s",
                                 collective_name(call.collective), algorithm_name(call.algorithm)));
  }
  const OperandBytes bytes =
      operand_bytes(kCollectiveTable[call.collective].traits, call.unit(), group.size());
  const size_t words = bytes_of_words(group, call);
  const bool gathers = call.collective == Collective::allgather;
  const Operand given = gathers ? operand_of("options.progress", call.words.progress, words)
                                : operand_of("options.ready", call.words.ready, words);
  if (given.begin == nullptr) return;
  require_operand(given);
  if (overlap(given, operand_of("recv", call.recv, bytes.recv))) {
    refuse_argument(given.name, "overlaps recv");
  }
  if (gathers && overlap(given, operand_of("send", call.send, bytes.send))) {
    refuse_argument(given.name, "overlaps send");
  }
}

void check_values(const Group& group, const CollectiveCall& call, const CollectiveRow& row) {
  require_waiting(call.timeout_ms, "options.timeout_ms");
  if (!is_valid(call.dtype)) throw unknown_dtype(static_cast<int>(call.dtype));
  if (row.traits.has_op && !is_valid(call.op)) refuse_unknown("op", static_cast<int>(call.op));
  if (row.traits.has_op && call.op == Op::avg && call.dtype == DType::boolean) {
    refuse_argument(call, "op", "there is no average of bool");
  }
  if (row.traits.of_prefix && call.op == Op::avg) {
    refuse_argument(call, "op", "there is no average in a $collective");
  }
  if (call.collective == Collective::broadcast_bytes &&
      group.backend().kind() != BackendKind::host) {
    throw Error(Status::unsupported,
        "collective: broadcast_bytes is of groups on the host; with CUDA a call returns before the "
        "length has come");
  }
  if (row.traits.has_op && is_bitwise(call.op) && !is_integer(call.dtype)) {
    refuse_argument(call, "op", "$op of $dtype; bitwise operations are of integers");
  }
  if (row.traits.has_op && is_located(call.op) != is_pair(call.dtype)) {
    refuse_argument(call, "op",
        is_pair(call.dtype) ? "$op of $dtype; pairs of a value and an index have minloc and maxloc"
                            : "$op of $dtype; it is of pairs of a value and an index");
  }
  if (row.traits.has_op && is_complex(call.dtype) && (call.op == Op::min || call.op == Op::max)) {
    refuse_argument(call, "op", "$op of $dtype; complex numbers have no order");
  }
  if (!is_valid(call.algorithm)) {
    refuse_unknown("options.algorithm", static_cast<int>(call.algorithm));
  }
  if (row.traits.has_root()) group.require_rank("root", call.root);
  if (call.scaling) check_scaling(call, row);
  if (call.scaling.wire) check_wire(call, row);
}
}  // namespace

// The back end is not asked: some of it is not known before the call is complete.
void check_words(const CollectiveCall& call) {
  const ChunkWords& words = call.words;
  const bool gathers = call.collective == Collective::allgather;
  const bool reduces =
      call.collective == Collective::allreduce || call.collective == Collective::reduce_scatter;
  if (words.progress != nullptr && !gathers) {
    refuse_argument(call, "options.progress", "goes with allgather, not with $collective");
  }
  if (words.ready != nullptr && !reduces) {
    refuse_argument(
        call, "options.ready", "goes with allreduce and reduce_scatter, not with $collective");
  }
  if (!gathers && !reduces) {
    refuse_argument(call, "options.chunk_bytes", "$collective is not made in chunks");
  }
  if (words.chunk_bytes == 0 || words.chunk_bytes % ChunkWords::kUnit != 0) {
    refuse_argument(
        "options.chunk_bytes", format("%zu is not a multiple of %zu from %zu on", words.chunk_bytes,
                                   ChunkWords::kUnit, ChunkWords::kUnit));
  }

  const auto require_aligned = [](const char* argument, const void* word) {
    if (reinterpret_cast<uintptr_t>(word) % sizeof(uint32_t) == 0) return;
    refuse_argument(argument, format("%p is not a multiple of 4", word));
  };
  require_aligned("options.progress", words.progress);
  require_aligned("options.ready", words.ready);
  require_aligned("options.word_pointer", words.pointer);
  if (words.pointer != nullptr && words.value != 0) {
    refuse_argument("options.word_value, word_pointer", "one of them must be 0");
  }
  if (call.scaling || call.scaling.wire) {
    refuse_argument(
        "options.chunk_bytes", "does not go with a factor, another result_dtype or a wire_dtype");
  }
}

void check_call(const Group& group, const CollectiveCall& call) {
  if (!is_valid(call.collective)) refuse_unknown("collective", static_cast<int>(call.collective));
  // The row is looked up, because the comparisons of traits() would slow down a small
  // collective measurably.
  const CollectiveRow& row = kCollectiveTable[call.collective];
  group.require_usable();
  check_values(group, call, row);

  if (row.has_norm) {
    check_norm_rows(call, row);
    if (call.norm == nullptr || call.count == 0) return;
    check_norm_values(call, *call.norm);
    check_norm_operands(call, *call.norm);
  } else if (!row.traits.in_pieces) {
    check_blocks(group, call, row);
    if (call.words) check_words_of_group(group, call);
  } else if (call.pieces->counts.capacities && group.backend().kind() != BackendKind::host) {
    check_pieces_on_device(call);
  } else {
    check_pieces(group, call, row);
  }
}

void require_room(const Group& group, const CollectiveCall& call) {
  const BytesFound& found = call.pieces->found;
  if (found.fits()) return;
  const std::string whose =
      found.rank == group.rank() ? "" : " of rank " + std::to_string(found.rank);
  refuse_argument("recv_capacity" + whose,
      format("%zu bytes, and rank %d sends %zu", found.room, call.root, found.bytes));
}

// ---- a batch

namespace {
struct BatchOperand {
  uintptr_t begin;
  uintptr_t end;
  size_t call;
  const char* name;
  bool is_written;
};

// Finds, among operands in the order in which they begin, the one that reaches furthest, and
// the one of any other call that reaches furthest.
class Furthest {
 public:
  void add(const BatchOperand& operand) {
    if (best_ != nullptr && best_->call == operand.call) {
      if (operand.end > best_->end) best_ = &operand;
    } else if (best_ == nullptr || operand.end > best_->end) {
      second_ = best_;
      best_ = &operand;
    } else if (second_ == nullptr || operand.end > second_->end) {
      second_ = &operand;
    }
  }
  // The operand of another call than `call` that reaches furthest; null if there is none.
  const BatchOperand* of_another(size_t call) const {
    return best_ != nullptr && best_->call == call ? second_ : best_;
  }

 private:
  const BatchOperand* best_ = nullptr;
  const BatchOperand* second_ = nullptr;
};

template <class Add>
void add_operands(const Group& group, const CollectiveCall& call, const Add& add) {
  const CollectiveTraits& what = kCollectiveTable[call.collective].traits;
  add("options.scale_pointer", call.scale_pointer, sizeof(float), false);
  if (call.words) {
    const size_t words = bytes_of_words(group, call);
    add("options.progress", call.words.progress, words, true);
    add("options.ready", call.words.ready, words, false);
    add("options.word_pointer", call.words.pointer, sizeof(uint32_t), false);
  }

  if (const RmsNorm* norm = call.norm; norm != nullptr) {
    for (const NormOperand& operand : norm_operands(call, *norm)) {
      add(operand.name, operand.begin, operand.bytes, operand.is_written);
    }
    return;
  }
  if (call.pieces != nullptr) {
    add("send", call.send, call.pieces->send_bytes, false);
    add("recv", call.recv, call.pieces->recv_bytes, true);
    return;
  }

  const bool am_root = group.rank() == call.root;
  const size_t result = call.count * size_of(call.scaling ? call.scaling.result : call.dtype);
  const size_t send_bytes = operand_bytes(what, call.unit(), group.size()).send;
  const size_t recv_bytes = operand_bytes(what, result, group.size()).recv;
  if (!what.from_root || am_root) add("send", call.send, send_bytes, false);
  if (!what.to_root || am_root) add("recv", call.recv, recv_bytes, true);
}
}  // namespace

void require_independent(const Group& group, std::span<const CollectiveCall> calls) {
  if (calls.size() < 2) return;
  std::vector<BatchOperand> operands;
  operands.reserve(calls.size() * 2);
  for (size_t i = 0; i < calls.size(); ++i) {
    add_operands(
        group, calls[i], [&](const char* name, const void* from, size_t bytes, bool is_written) {
          if (from == nullptr || bytes == 0) return;
          const auto begin = reinterpret_cast<uintptr_t>(from);
          operands.push_back({begin, begin + bytes, i, name, is_written});
        });
  }
  std::sort(operands.begin(), operands.end(),
      [](const BatchOperand& a, const BatchOperand& b) { return a.begin < b.begin; });

  Furthest of_all;
  Furthest of_written;
  for (const BatchOperand& operand : operands) {
    const Furthest& those = operand.is_written ? of_all : of_written;
    const BatchOperand* other = those.of_another(operand.call);
    if (other != nullptr && other->end > operand.begin) {
      const bool is_later = other->call > operand.call;
      const BatchOperand& named = is_later ? *other : operand;
      const BatchOperand& first = is_later ? operand : *other;
      throw Error(Status::invalid_argument, format("calls[%zu]: %s: overlaps %s of calls[%zu]",
                                                named.call, named.name, first.name, first.call));
    }
    of_all.add(operand);
    if (operand.is_written) of_written.add(operand);
  }
}
}  // namespace symm
