// Drawn collectives in pieces through the library: in symmetric and private memory in
// any mixture, with counts that are read when they run.
#pragma once

#include "tests/support/group.hpp"
#include "tests/support/pieces.hpp"

namespace support {
// Memory in which the operands of one rank may lie, kBytes each, and a function that copies bytes
// there and back. `run` makes a call and waits for it.
struct PiecesMemory {
  static constexpr size_t kLists = size_t{4} << 20;
  static constexpr size_t kBytes = kLists + 1024;
  std::byte* symmetric;
  std::byte* ordinary;
  std::function<void(void* to, const void* from, size_t bytes)> copy;
  std::function<symm_status_t(const std::function<symm_status_t()>& call)> run;
  void* stream = nullptr;
};

// Runs a call that all ranks draw alike, from one seed. Long, since each kind of call takes other
// ones of the values that were drawn, and a failure names them all.
inline void run_drawn(const Group& group, const PiecesMemory& memory, unsigned seed,
    symm_algorithm_t algorithm, PiecesKind kind) {
  std::mt19937 random(seed * 16 + static_cast<unsigned>(kind));
  const auto n = static_cast<size_t>(group.size());
  const auto me = static_cast<size_t>(group.rank());
  std::vector<bool> is_private;
  for (size_t r = 0; r < n; ++r) {
    is_private.push_back(algorithm != SYMM_ALGORITHM_TWO_SHOT && random() % 3 == 0);
  }
  const bool reduces = is_reduced(kind);
  const bool by_device = random() % 2 == 0;
  const bool in_place = random() % 3 == 0;
  const DrawnPieces drawn(kind, n, reduces || random() % 2 == 0 ? 4 : 1, in_place, random,
      reduces ? sums(random) : Elements(), 4, me);
  const PiecesOfRank& mine = drawn.of[me];
  const symm_dtype_t dtype = drawn.element == 4 ? SYMM_DTYPE_I32 : SYMM_DTYPE_U8;
  ASSERT_LE(mine.before.size(), PiecesMemory::kLists);

  std::byte* const base = is_private[me] ? memory.ordinary : memory.symmetric;
  std::byte* const send = base + mine.send_at;
  std::byte* const recv = base + mine.recv_at;
  const std::array<Counts, 4> lists = mine.lists(drawn.element);
  const size_t* const send_at = mine.send_packed ? nullptr : lists[1].data();
  const size_t* const recv_at = mine.recv_packed ? nullptr : lists[3].data();
  const auto options = forced(algorithm);
  symm_group_t* const g = group.get();
  const auto root = static_cast<int32_t>(drawn.root);
  const size_t count = lists[kind == PiecesKind::gather ? 0 : 2][drawn.root];
  const auto call = [&] {
    switch (kind) {
      case PiecesKind::allgatherv:
        return symm_allgatherv(
            g, send, recv, lists[2].data(), recv_at, dtype, options, memory.stream);
      case PiecesKind::reduce_scatterv:
        return symm_reduce_scatterv(
            g, send, lists[0].data(), send_at, recv, dtype, SYMM_OP_SUM, options, memory.stream);
      case PiecesKind::gather:
        return symm_gather(
            g, send, me == drawn.root ? recv : nullptr, count, dtype, root, options, memory.stream);
      case PiecesKind::scatter:
        return symm_scatter(
            g, me == drawn.root ? send : nullptr, recv, count, dtype, root, options, memory.stream);
      case PiecesKind::gatherv:
        if (me != drawn.root) {
          return symm_gatherv(g, send, lists[0][drawn.root], nullptr, nullptr, nullptr, dtype, root,
              options, memory.stream);
        }
        return symm_gatherv(g, send, lists[0][drawn.root], recv, lists[2].data(), recv_at, dtype,
            root, options, memory.stream);
      case PiecesKind::scatterv:
        if (me != drawn.root) {
          return symm_scatterv(g, nullptr, nullptr, nullptr, recv, lists[2][drawn.root], dtype,
              root, options, memory.stream);
        }
        return symm_scatterv(g, send, lists[0].data(), send_at, recv, lists[2][drawn.root], dtype,
            root, options, memory.stream);
      case PiecesKind::rows:
        return symm_allgather_rows(g, send, recv, drawn.rows, drawn.row / drawn.element,
            mine.stride / drawn.element, dtype, options, memory.stream);
      case PiecesKind::reduced_rows:
        return symm_reduce_scatter_rows(g, send, recv, drawn.rows, drawn.row / drawn.element,
            mine.stride / drawn.element, dtype, SYMM_OP_SUM, options, memory.stream);
      default: break;
    }
    if (in_place || !by_device) {
      return symm_alltoallv(g, send, lists[0].data(), send_at, recv, lists[2].data(), recv_at,
          dtype, options, memory.stream);
    }
    uint64_t* there[4] = {};
    for (size_t i = 0; i < 4; ++i) {
      there[i] = reinterpret_cast<uint64_t*>(base + PiecesMemory::kLists) + i * n;
    }
    return symm_alltoallv_device(g, send, mine.send_bytes / drawn.element, there[0],
        send_at == nullptr ? nullptr : there[1], recv, mine.recv_bytes / drawn.element, there[2],
        recv_at == nullptr ? nullptr : there[3], dtype, options, memory.stream);
  };
  memory.copy(base, mine.before.data(), mine.before.size());
  for (size_t i = 0; i < 4; ++i) {
    memory.copy(base + PiecesMemory::kLists + i * n * sizeof(uint64_t), lists[i].data(),
        n * sizeof(uint64_t));
  }
  check(memory.run(call));
  Bytes got(mine.before.size());
  memory.copy(got.data(), base, got.size());
  const auto [wanted, seen] = std::mismatch(mine.after.begin(), mine.after.end(), got.begin());
  if (wanted == mine.after.end()) return;
  FAIL() << "kind " << static_cast<int>(kind) << ", seed " << seed << ", algorithm " << algorithm
         << " on rank " << me << " of " << n << (is_private[me] ? ", private" : "")
         << (in_place ? ", in place" : "") << ": byte " << wanted - mine.after.begin() << " is "
         << static_cast<int>(*seen) << ", not " << static_cast<int>(*wanted)
         << "; send begins at byte " << mine.send_at << ", recv at " << mine.recv_at;
}

inline void run_drawn(
    const Group& group, const PiecesMemory& memory, unsigned seed, symm_algorithm_t algorithm) {
  for (const PiecesKind kind : kPiecesKinds) {
    run_drawn(group, memory, seed, algorithm, kind);
  }
}
}  // namespace support
