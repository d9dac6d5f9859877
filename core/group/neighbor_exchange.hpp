// Neighbours that put pieces into each other's blocks, round by round, by lists that stay.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/group/exchange_stages.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "core/group/request.hpp"
#include "kernels/types.hpp"
#include "symm/symm.h"

namespace symm {
// What a rank puts to one neighbour in each round. A neighbour may have several.
struct NeighborPart {
  std::shared_ptr<Memory> memory;  // null if there are no pieces
  int rank = 0;
  size_t offset = 0;
  const void* source = nullptr;
  size_t source_bytes = 0;  // SIZE_MAX: not known
  std::vector<symm_piece_t> pieces;
  size_t expected = 0;                   // bytes that the neighbour puts here in return
  size_t bytes = 0;                      // of the pieces
  std::vector<symm_piece_t> small = {};  // of the pieces, if the neighbour gets them by a stage
};

// Calls `check`, and names the neighbour in the refusal that it throws.
template <class Check>
void naming_neighbor(size_t index, const Check& check) {
  try {
    check();
  } catch (const Error& error) {
    throw Error(error.status(), format("neighbors[%zu].%s", index, error.what()));
  }
}

// The words by which two neighbours keep step are signals in pads of the exchange's own. Each has
// one writer, the rank that it tells of, and only grows:
//   begun[i -> j]  the last round that rank i has started, told to its neighbour j
//   there[i -> j]  the last round of which rank i has put all pieces into j's blocks, or packed
//                  into a stage there (staged_pieces.hpp)
//   released[i -> j]  one more than the number of the rank that has released the exchange in a
//                  round, which may be another one than i; stored once
//
// Between finish() of a round and start() of the next one, a rank may read what came, and no
// neighbour writes there. Between start() and finish() it may read none of it, and must leave what
// it puts as it is. This holds since
//   1. rank i puts the pieces of round k to j only when it has seen begun[j -> i] >= k. Rank j says
//      so in its own start(k), so it has done with what round k-1 brought.
//   2. rank i stores there[i -> j] = k behind the pieces of round k, and a signal is seen after all
//      that was put before it. finish(k) of j waits for that word of each neighbour i, and then
//      unpacks what i has put into its stage.
//   3. no piece of round k+1 reaches j before it has called start(k+1), by 1; it cannot call that
//      before finish(k) has returned. So one stage for each direction of a pair is enough.
//   4. finish(k) of i returns when i has put all its own pieces of round k: nobody else reads the
//      sources.
// A rank that is ahead waits for its neighbours in finish(), never in start(): what start() finds
// its neighbours not ready for, finish() puts. It is ahead by one round at most: to return from
// finish(k) it has seen begun >= k of each neighbour.
//
// No circle of waits: start(k) waits for no rank and says begun = k to all neighbours. Once all
// have called it, each finish(k) can put all that start(k) left, and then each there = k comes.
//
// A rank that releases the exchange between start() and finish() tells its neighbours. Those that
// it still owes pieces fail, and tell theirs, so that all that come to wait for one another in vain
// name the same rank. A released word is stored behind the last there of its writer, and is read
// before it: what came whole is taken, and the next round fails.
//
// Where calls are ordered on streams (kernels/cuda/exchange.cu), a round is two launches that
// follow the same steps, with words of their own, and the device counts the rounds.
//
// What is still under way when a rank has finished round k is nothing that others wait to send to
// it: it has seen begun = k and there = k of each neighbour, and those are the last words that they
// write to it in this round. So it may release the exchange then.
class NeighborExchange {
 public:
  // The tag of its rendezvous and votes, which no user meets by accident.
  static constexpr uint64_t kTag = 0x7267'6863'7865;
  static constexpr size_t kMostNeighbors = size_t{1} << 20;

  // [collective] Every rank makes its parts, which are checked; then those of each pair are
  // compared. What fails on one rank fails on all. A timeout_ms of 0 is the group's for creation.
  using MakeParts = std::function<std::vector<NeighborPart>()>;
  static std::shared_ptr<NeighborExchange> create(
      const std::shared_ptr<Group>& group, const MakeParts& make, uint64_t timeout_ms);
  NeighborExchange(const Group& group, std::vector<NeighborPart> parts);  // for create()
  NeighborExchange(NeighborExchange&&) = delete;
  ~NeighborExchange();

  // Begins a round. Waits at most for ranks of other machines to take what is sent. After a failure
  // the round has begun, and finish() goes on with it.
  void start(uint64_t timeout_ms, void* stream);
  // Ends the round. After Error(timeout) it may be called again.
  void finish(uint64_t timeout_ms, void* stream);

  const std::shared_ptr<Group>& group() const noexcept { return words_->shared_group(); }

 private:
  // What the parts for one rank come to.
  struct Neighbor {
    int rank = 0;
    std::vector<size_t> parts;  // by their places in parts_
    uint64_t bytes = 0;
    uint64_t expected = 0;
    uint64_t told = 0;   // the last round that it was told of
    uint64_t put = 0;    // the last round of which it has all pieces
    uint64_t taken = 0;  // the last round of which all its pieces are here, and unpacked
    bool told_of_release = false;
    StagedPair staged;
  };
  // What a rank tells another one about their pair when the exchange is made.
  struct PairRow {
    uint64_t is_neighbor;
    uint64_t bytes;
    uint64_t expected;
    StageRow staged;
  };
  // Keeps two threads of a rank out of one round.
  class Turn;

  void add(const Group& group, size_t index);
  void stage_small(Neighbor& neighbor);
  void put_unstaged(Neighbor& neighbor);
  PairRow row_about(int rank) const noexcept;
  void tell_rows(Deadline deadline);
  PairRow row_of(int rank) const;
  void require_pairs() const;
  void require_pair(int rank, const PairRow& theirs) const;
  std::vector<StagedPair*> staged_pairs();
  void make_stages(uint64_t bytes, Deadline deadline);
  void compare(Deadline deadline);
  void compare_and_make_rounds(Deadline deadline);
  std::unique_ptr<ExchangeRounds> make_rounds() const;

  void require_stream(void* stream) const;
  void tell_begun();
  void put_to(Neighbor& neighbor);
  bool has(const Neighbor& neighbor, int channel, uint64_t value) const;
  void put_where_ready();
  void take_from(Neighbor& neighbor);
  void take_where_there();
  void await_all(Deadline deadline, uint64_t timeout_ms);
  void tell_release(int by) noexcept;
  void require_not_released();
  void await(std::vector<SignalWait> waits, Deadline deadline, uint64_t timeout_ms);
  [[noreturn]] void throw_late(const Error& error, uint64_t timeout_ms) const;

  std::vector<NeighborPart> parts_;
  std::vector<Neighbor> neighbors_;
  std::shared_ptr<Memory> words_;
  std::unique_ptr<ExchangeStages> stages_;  // null: no rank stages anything
  // Null: rounds are signals and puts of this class.
  std::unique_ptr<ExchangeRounds> rounds_;
  std::atomic<bool> is_in_call_{false};
  uint64_t round_ = 0;
  bool is_started_ = false;
  // Once it is set, nothing more is put: neighbours are told that nothing comes.
  std::optional<Failure> released_;
};

// One side of an exchange of blocks with neighbours: `counts` elements from or to each, which lie
// one behind the other without displacements.
struct NeighborBlocks {
  const char* name;  // of the operand, as in the argument "send_counts"
  const int32_t* ranks;
  size_t count;
  std::byte* data;  // only read where it is sent
  const size_t* counts;
  const size_t* displacements;
};

// Sends a block to each rank of `send` and receives one from each of `recv`, as messages that
// progress together. Blocks of a pair meet in the order of the lists.
void exchange_blocks(Group& group, const NeighborBlocks& send, const NeighborBlocks& recv,
    DType dtype, int channel, uint64_t timeout_ms, void* stream);
std::shared_ptr<Request> start_exchange_of_blocks(Group& group, const NeighborBlocks& send,
    const NeighborBlocks& recv, DType dtype, int channel, uint64_t timeout_ms);
}  // namespace symm
