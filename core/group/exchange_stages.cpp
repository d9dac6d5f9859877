// How the stages of an exchange are made. A rank that is to unpack tells each neighbour where its
// stage is; the neighbour leaves the list there, which the rank reads, once. From the first round
// on there are packed rows in the place of the list.
#include "core/group/exchange_stages.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/piece_checks.hpp"
#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/group/exchange.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "core/group/time_left.hpp"
#include "core/mesh/mesh.hpp"
#include "kernels/compare.hpp"
#include "kernels/host/slices.hpp"
#include "kernels/piece_list.hpp"
#include "symm/symm.h"

namespace symm {
namespace {
// The place of the stage for a memory that a rank has released: there is none.
constexpr uint64_t kNowhere = ~uint64_t{0};

// What a stage has to hold: the list, and then the rows.
uint64_t stage_bytes(const StageRow& row) {
  return host::round_up(
      std::max<uint64_t>(row.bytes, row.pieces * sizeof(symm_piece_t)), host::kLine);
}

PieceList list_of(const std::vector<symm_piece_t>& pieces) {
  return {pieces.data(), pieces.size()};
}
}  // namespace

uint64_t stage_bytes(std::span<StagedPair* const> pairs) {
  uint64_t sum = 0;
  for (const StagedPair* pair : pairs) {
    sum += stage_bytes(pair->arriving);
  }
  return sum;
}

// One rank's steps. No circle of waits: nobody waits before it has told all its places, and nobody
// waits for a list before it has put all its own.
class ExchangeStages::Making {
 public:
  Making(const Words& words, Memory& stages, std::span<StagedPair* const> pairs, Deadline deadline)
      : words_(words), stages_(stages), pairs_(pairs), deadline_(deadline) {}

  void tell_places() {
    Group& group = stages_.group();
    size_t free = 0;
    for (StagedPair* pair : pairs_) {
      if (pair->arriving.bytes == 0) continue;
      pair->to = group.addresses().numbered(pair->arriving.memory);
      pair->arriving_at = free;
      free += stage_bytes(pair->arriving);

      const uint64_t place = pair->to ? pair->arriving_at : kNowhere;
      const size_t at = words_.places_at + static_cast<size_t>(group.rank()) * sizeof place;
      put(*words_.memory, pair->rank, at, &place, sizeof place);
      tell(pair->rank, words_.told);
    }
  }

  void put_lists() {
    const int me = stages_.group().rank();
    for (StagedPair* pair : pairs_) {
      if (pair->sent.empty()) continue;
      await(pair->rank, words_.told);
      uint64_t place = 0;
      std::memcpy(&place,
          words_.memory->pointer(me) + words_.places_at +
              static_cast<size_t>(pair->rank) * sizeof place,
          sizeof place);
      if (place == kNowhere) {
        pair->sent = {};
        continue;
      }

      pair->sent_at = place;
      const std::vector<symm_piece_t>& list = pair->sent.unpacking();
      put(stages_, pair->rank, place, list.data(), list.size() * sizeof list[0]);
      tell(pair->rank, words_.told + 1);
    }
  }

  void await_lists() {
    for (const StagedPair* pair : pairs_) {
      if (pair->to) await(pair->rank, words_.told + 1);
    }
  }

  void read_lists() {
    const int me = stages_.group().rank();
    for (StagedPair* pair : pairs_) {
      if (!pair->to) continue;
      pair->unpacking.resize(pair->arriving.pieces);
      std::memcpy(pair->unpacking.data(), stages_.pointer(me) + pair->arriving_at,
          pair->unpacking.size() * sizeof(symm_piece_t));
      check_pieces(list_of(pair->unpacking), {"the stage", pair->arriving.bytes},
          {"the block", pair->to->bytes}, format("neighbors: rank %d sends ", pair->rank).c_str());
    }
  }

 private:
  void put(Memory& memory, int rank, size_t at, const void* from, size_t bytes) {
    memory.group().transport().put(
        memory.view(), rank, at, from, bytes, left_until(deadline_), nullptr);
  }

  void tell(int rank, uint64_t step) {
    stages_.group().transport().send_signal(words_.memory->view(), rank, words_.channel,
        SignalOp::set, step, left_until(deadline_), nullptr);
  }

  void await(int rank, uint64_t step) {
    const SignalWait told{rank, words_.channel, Compare::ge, step};
    stages_.group().transport().wait_signals(
        words_.memory->view(), {&told, 1}, false, left_until(deadline_), nullptr, nullptr, nullptr);
  }

  const Words& words_;
  Memory& stages_;
  const std::span<StagedPair* const> pairs_;
  const Deadline deadline_;
};

ExchangeStages::ExchangeStages(const Words& words, uint64_t tag, uint64_t bytes,
    std::span<StagedPair* const> pairs, Deadline deadline) {
  const std::shared_ptr<Group>& group = words.memory->shared_group();
  const auto allocate = [&] { return Buffer::allocate(*group, bytes, {}, "exchange stages"); };
  // A rendezvous has a little time at least.
  const uint64_t left_ms = deadline.left_ms();
  stages_ = Memory::rendezvous(group, std::ref(allocate), tag, left_ms, 1);

  const uint64_t sequence = group->next_sequence(tag);
  try {
    Making mine(words, *stages_, pairs, deadline);
    mine.tell_places();
    mine.put_lists();
    mine.await_lists();
    Vote vote;
    try {
      mine.read_lists();
    } catch (...) {
      vote.failure = current_failure();
    }
    commit_vote(*group, {MessageKind::vote, group->id(), tag, sequence * 2}, vote, deadline);
  } catch (const std::exception& error) {
    leave_in_step(*group, error, "exchange_create: ");
  }
}

void ExchangeStages::pack(const StagedPair& pair) const {
  const Group& group = stages_->group();
  const PieceList list = list_of(pair.sent.packing());
  const PieceCopy pieces{list, pair.sent.bytes(), SIZE_MAX, nullptr};
  group.transport().put_pieces(stages_->view(), pair.rank, pair.sent_at, pair.sent.source(), pieces,
      group.config().timeout_ms, nullptr);
}

void ExchangeStages::unpack(const StagedPair& pair) const {
  const Group& group = stages_->group();
  const PieceList list = list_of(pair.unpacking);
  const PieceCopy pieces{list, pair.arriving.bytes, SIZE_MAX, nullptr};
  group.transport().put_pieces(*pair.to, group.rank(), 0,
      stages_->pointer(group.rank()) + pair.arriving_at, pieces, group.config().timeout_ms,
      nullptr);
}
}  // namespace symm
