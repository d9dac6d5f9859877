#include "core/group/neighbor_exchange.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/piece_checks.hpp"
#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/page.hpp"
#include "core/base/revocation.hpp"
#include "core/group/checks.hpp"
#include "core/group/exchange.hpp"
#include "core/group/exchange_stages.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "core/group/request.hpp"
#include "core/group/staged_pieces.hpp"
#include "core/group/time_left.hpp"
#include "core/mesh/mesh.hpp"
#include "kernels/compare.hpp"
#include "kernels/piece_list.hpp"
#include "kernels/piece_rows.hpp"
#include "kernels/types.hpp"
#include "symm/symm.h"

namespace symm {
namespace {
// The channels of an exchange's pads.
constexpr int kBegun = 0;
constexpr int kThere = 1;
constexpr int kTold = 2;
constexpr int kReleased = 3;
constexpr int kWordChannels = 4;

// What a rank tells on the last channel while the exchange is made: that its row is there, and then
// what ExchangeStages tells.
constexpr uint64_t kRowTold = 1;
constexpr uint64_t kStagesTold = 2;

SignalWait at_least(int rank, int channel, uint64_t value) {
  return {rank, channel, Compare::ge, value};
}
}  // namespace

class NeighborExchange::Turn {
 public:
  explicit Turn(std::atomic<bool>& is_in_call) : is_in_call_(is_in_call) {
    if (is_in_call_.exchange(true, std::memory_order_acquire)) {
      throw Error(Status::invalid_argument, "exchange: another thread is in a call on it");
    }
  }
  ~Turn() { is_in_call_.store(false, std::memory_order_release); }
  Turn(Turn&&) = delete;

 private:
  std::atomic<bool>& is_in_call_;
};

// ---- creation

NeighborExchange::NeighborExchange(const Group& group, std::vector<NeighborPart> parts)
    : parts_(std::move(parts)) {
  for (size_t i = 0; i < parts_.size(); ++i) {
    naming_neighbor(i, [&] { add(group, i); });
  }

  if (group.backend().kind() != BackendKind::host) return;
  for (Neighbor& neighbor : neighbors_) {
    if (neighbor.rank != group.rank() && group.maps(neighbor.rank)) stage_small(neighbor);
  }
}

// Checks a part, and adds it to those for its rank.
void NeighborExchange::add(const Group& group, size_t index) {
  NeighborPart& part = parts_[index];
  group.require_rank("rank", part.rank);
  if (part.memory && &part.memory->group() != &group) {
    throw Error(Status::invalid_argument, "memory: is one of another group");
  }
  if (part.memory) {
    part.bytes = part.memory->check_put(part.offset, {part.source, part.source_bytes},
        {part.pieces.data(), part.pieces.size()}, "");
  }

  const auto is_its = [&](const Neighbor& one) { return one.rank == part.rank; };
  auto neighbor = std::find_if(neighbors_.begin(), neighbors_.end(), is_its);
  if (neighbor == neighbors_.end()) {
    neighbor = neighbors_.insert(neighbor, Neighbor());
    neighbor->rank = part.rank;
    neighbor->staged.rank = part.rank;
  }
  neighbor->parts.push_back(index);
  neighbor->bytes = bounded_sum(neighbor->bytes, part.bytes);
  neighbor->expected = bounded_sum(neighbor->expected, part.expected);
}

// Chooses what goes by a stage: small pieces, for the memory of the first part that has any.
void NeighborExchange::stage_small(Neighbor& neighbor) {
  const Memory* memory = nullptr;
  uint64_t rows = 0;
  for (const size_t index : neighbor.parts) {
    NeighborPart& part = parts_[index];
    if (part.bytes == 0 || (memory != nullptr && part.memory.get() != memory)) continue;
    part.small = take_small(part.pieces);
    if (part.small.empty()) continue;
    memory = part.memory.get();
    part.bytes -= bytes_in(part.small);
    rows += rows_in(part.small);
  }
  if (rows < kFewestStagedRows) {
    put_unstaged(neighbor);
    return;
  }

  StagedPieces& sent = neighbor.staged.sent;
  for (const size_t index : neighbor.parts) {
    const NeighborPart& part = parts_[index];
    if (!part.small.empty()) sent.add(part.source, part.offset, part.small);
  }
  sent.lay_out();
  neighbor.staged.memory = memory->view().id;
}

void NeighborExchange::put_unstaged(Neighbor& neighbor) {
  for (const size_t index : neighbor.parts) {
    NeighborPart& part = parts_[index];
    part.bytes += bytes_in(part.small);
    part.pieces.insert(part.pieces.end(), part.small.begin(), part.small.end());
    part.small.clear();
  }
}

std::shared_ptr<NeighborExchange> NeighborExchange::create(
    const std::shared_ptr<Group>& group, const MakeParts& make, uint64_t timeout_ms) {
  const Trace traced(group->page(), "exchange_create");
  const bool is_on_host = group->backend().kind() == BackendKind::host;
  if (!is_on_host && group->machines().count > 1) {
    throw Error(Status::unsupported,
        "group: its ranks are GPUs of several machines, between which neighbours have no exchange: "
        "NCCL stores into no block, and UCX sends no list of pieces that a stream has to reach");
  }

  const Deadline deadline =
      timeout_ms == 0 ? group->create_deadline() : Deadline::after_ms(timeout_ms);
  std::shared_ptr<NeighborExchange> exchange;
  // A part that is refused on this rank is refused on all, as everything that rendezvous prepares.
  const auto prepare = [&] {
    exchange = std::make_shared<NeighborExchange>(*group, make());
    const size_t row = sizeof(PairRow) + sizeof(uint64_t);
    return Buffer::allocate(*group, static_cast<size_t>(group->size()) * row, {}, "exchange");
  };
  exchange->words_ = Memory::rendezvous(group, std::ref(prepare), kTag, timeout_ms, kWordChannels);
  if (is_on_host) {
    exchange->compare(deadline);
  } else {
    exchange->compare_and_make_rounds(deadline);
  }
  return exchange;
}

NeighborExchange::PairRow NeighborExchange::row_about(int rank) const noexcept {
  for (const Neighbor& neighbor : neighbors_) {
    if (neighbor.rank == rank) {
      return {1, neighbor.bytes, neighbor.expected, neighbor.staged.row()};
    }
  }
  return {};
}

// Every rank tells every other one, since a rank does not know which ranks name it. A rendezvous
// sends as many messages.
void NeighborExchange::tell_rows(Deadline deadline) {
  Group& group = words_->group();
  const size_t at = static_cast<size_t>(group.rank()) * sizeof(PairRow);

  for (int rank = 0; rank < group.size(); ++rank) {
    const PairRow row = row_about(rank);
    group.transport().put(
        words_->view(), rank, at, &row, sizeof row, left_until(deadline), nullptr);
    group.transport().send_signal(
        words_->view(), rank, kTold, SignalOp::set, kRowTold, left_until(deadline), nullptr);
  }
  for (int rank = 0; rank < group.size(); ++rank) {
    const SignalWait told = at_least(rank, kTold, kRowTold);
    group.transport().wait_signals(
        words_->view(), {&told, 1}, false, left_until(deadline), nullptr, nullptr, nullptr);
  }
}

void NeighborExchange::require_pair(int rank, const PairRow& theirs) const {
  const int me = words_->group().rank();
  const PairRow mine = row_about(rank);
  const auto refuse = [&](const std::string& why) {
    throw Error({Status::mismatch, rank, 0, "neighbors: " + why});
  };

  if (mine.is_neighbor != theirs.is_neighbor) {
    const auto [names, other] = mine.is_neighbor != 0 ? std::pair(me, rank) : std::pair(rank, me);
    refuse(format("rank %d names rank %d, which does not name rank %d", names, other, names));
  }
  if (mine.bytes != theirs.expected) {
    refuse(format("rank %d puts %lu bytes to rank %d, which expects %lu", me, mine.bytes, rank,
        theirs.expected));
  }
  if (theirs.bytes != mine.expected) {
    refuse(format("rank %d puts %lu bytes to rank %d, which expects %lu", rank, theirs.bytes, me,
        mine.expected));
  }
}

// What a rank has told this one.
NeighborExchange::PairRow NeighborExchange::row_of(int rank) const {
  PairRow theirs{};
  const int me = words_->group().rank();
  std::memcpy(
      &theirs, words_->pointer(me) + static_cast<size_t>(rank) * sizeof theirs, sizeof theirs);
  return theirs;
}

void NeighborExchange::require_pairs() const {
  for (int rank = 0; rank < words_->group().size(); ++rank) {
    require_pair(rank, row_of(rank));
  }
}

void NeighborExchange::compare(Deadline deadline) {
  Group& group = words_->group();
  const uint64_t sequence = group.next_sequence(kTag);
  uint64_t most = 0;  // the bytes of stages that any rank needs
  try {
    tell_rows(deadline);
    Vote vote;
    try {
      require_pairs();
      vote.value[0] = stage_bytes(staged_pairs());
    } catch (const Error& error) {
      vote.failure = error.failure();
    }
    const Topic topic{MessageKind::vote, group.id(), kTag, sequence * 2};
    for (const Vote& theirs : commit_vote(group, topic, vote, deadline)) {
      most = std::max(most, theirs.value[0]);
    }
  } catch (const std::exception& error) {
    leave_in_step(group, error, "exchange_create: ");
  }
  if (most != 0) make_stages(most, deadline);
}

// The pairs of this rank of which one side stages pieces for the other.
std::vector<StagedPair*> NeighborExchange::staged_pairs() {
  std::vector<StagedPair*> pairs;
  for (Neighbor& neighbor : neighbors_) {
    StagedPair& pair = neighbor.staged;
    pair.arriving = row_of(neighbor.rank).staged;
    if (pair.arriving.bytes != 0 || !pair.sent.empty()) pairs.push_back(&pair);
  }
  return pairs;
}

void NeighborExchange::make_stages(uint64_t bytes, Deadline deadline) {
  const size_t places = static_cast<size_t>(words_->group().size()) * sizeof(PairRow);
  stages_ =
      std::make_unique<ExchangeStages>(ExchangeStages::Words{words_, kTold, kStagesTold, places},
          kTag, bytes, staged_pairs(), deadline);
  for (Neighbor& neighbor : neighbors_) {
    if (neighbor.staged.sent.empty()) put_unstaged(neighbor);
  }
}

std::unique_ptr<ExchangeRounds> NeighborExchange::make_rounds() const {
  std::vector<NeighborPieces> parts;
  parts.reserve(parts_.size());
  for (const NeighborPart& part : parts_) {
    NeighborPieces& pieces = parts.emplace_back();
    pieces.rank = part.rank;
    pieces.source = part.source;
    if (part.bytes == 0) continue;
    pieces.to = part.memory->pointer(part.rank) + part.offset;
    pieces.list = {part.pieces.data(), part.pieces.size()};
  }
  return words_->group().transport().make_exchange(words_->view(), parts);
}

// Where calls are ordered on streams, ranks compare by messages of the mesh. Such groups are small.
void NeighborExchange::compare_and_make_rounds(Deadline deadline) {
  Group& group = words_->group();
  const auto me = static_cast<size_t>(group.rank());
  std::vector<PairRow> theirs(static_cast<size_t>(group.size()));
  theirs[me] = row_about(group.rank());

  Phases phases;
  phases.prepare = [&] {
    Offer offer;
    for (int rank = 0; rank < group.size(); ++rank) {
      append(offer.message, row_about(rank));
    }
    return offer;
  };
  phases.agree = [](std::span<const Vote>) {};
  phases.accept = [&](int peer, const Message& message) {
    std::memcpy(&theirs[static_cast<size_t>(peer)], message.body.data() + me * sizeof(PairRow),
        sizeof(PairRow));
  };
  phases.finish = [&] {
    for (int rank = 0; rank < group.size(); ++rank) {
      require_pair(rank, theirs[static_cast<size_t>(rank)]);
    }
    rounds_ = make_rounds();
  };
  try {
    exchange(group, MessageKind::segment, kTag, group.next_sequence(kTag), phases, deadline);
  } catch (const std::exception& error) {
    leave_in_step(group, error, "exchange_create: ");
  }
}

// ---- rounds

void NeighborExchange::require_stream(void* stream) const {
  words_->group().require_usable();
  if (rounds_ == nullptr && stream != nullptr) {
    throw Error(Status::invalid_argument, "stream: must be NULL with the host back end");
  }
}

void NeighborExchange::start(uint64_t timeout_ms, void* stream) {
  Group& group = words_->group();
  const Trace traced(group.page(), "exchange_start");
  const Turn turn(is_in_call_);

  group.transport().stats().counted([&] {
    require_stream(stream);
    require_waiting(timeout_ms, "options.timeout_ms");
    if (is_started_) {
      throw Error(Status::invalid_argument,
          format("exchange: round %lu was started, and not finished", round_));
    }

    // A launch that fails has begun nothing.
    if (rounds_ != nullptr) rounds_->start(group.timeout_or_default(timeout_ms), stream);
    ++round_;
    is_started_ = true;
    if (rounds_ != nullptr) return;
    tell_begun();
    put_where_ready();
  });
}

void NeighborExchange::finish(uint64_t timeout_ms, void* stream) {
  Group& group = words_->group();
  const Trace traced(group.page(), "exchange_finish");
  const Turn turn(is_in_call_);
  GroupStats& stats = group.transport().stats();

  stats.counted([&] {
    require_stream(stream);
    const uint64_t timeout = group.timeout_or_look(timeout_ms);
    if (!is_started_) {
      throw Error(Status::invalid_argument, "exchange: no round was started that is not finished");
    }

    if (rounds_ != nullptr) {
      rounds_->finish(timeout, stream);
    } else {
      if (released_) throw Error(*released_);
      const Deadline deadline = Deadline::after_ms(timeout);
      tell_begun();
      put_where_ready();
      await_all(deadline, timeout);
    }
    is_started_ = false;
  });
  stats.shown.waits.add_shared(1);
}

// Signals and puts have the time of the group, whatever the call has: on another machine they wait
// for no call of the neighbour, and a part that is not taken would end the group.
void NeighborExchange::tell_begun() {
  const Group& group = words_->group();
  Transport& transport = group.transport();
  for (Neighbor& neighbor : neighbors_) {
    if (neighbor.told == round_) continue;
    transport.send_signal(words_->view(), neighbor.rank, kBegun, SignalOp::set, round_,
        group.config().timeout_ms, nullptr);
    neighbor.told = round_;
  }
}

// A put that failed is made again from its beginning, which writes the same bytes.
void NeighborExchange::put_to(Neighbor& neighbor) {
  const Group& group = words_->group();
  Transport& transport = group.transport();
  if (!neighbor.staged.sent.empty()) stages_->pack(neighbor.staged);
  for (const size_t index : neighbor.parts) {
    const NeighborPart& part = parts_[index];
    if (part.bytes == 0) continue;
    const PieceList list{part.pieces.data(), part.pieces.size()};
    const PieceCopy pieces{list, part.bytes, part.source_bytes, nullptr};
    transport.put_pieces(part.memory->view(), part.rank, part.offset, part.source, pieces,
        group.config().timeout_ms, nullptr);
  }
  transport.send_signal(words_->view(), neighbor.rank, kThere, SignalOp::set, round_,
      group.config().timeout_ms, nullptr);
  neighbor.put = round_;
}

bool NeighborExchange::has(const Neighbor& neighbor, int channel, uint64_t value) const {
  return words_->group().transport().look_at_signal(words_->view(), neighbor.rank, channel).value >=
         value;
}

void NeighborExchange::put_where_ready() {
  for (Neighbor& neighbor : neighbors_) {
    if (neighbor.put != round_ && has(neighbor, kBegun, round_)) put_to(neighbor);
  }
}

void NeighborExchange::take_from(Neighbor& neighbor) {
  if (neighbor.staged.to) stages_->unpack(neighbor.staged);
  neighbor.taken = round_;
}

void NeighborExchange::take_where_there() {
  for (Neighbor& neighbor : neighbors_) {
    if (neighbor.taken != round_ && has(neighbor, kThere, round_)) take_from(neighbor);
  }
}

void NeighborExchange::await_all(Deadline deadline, uint64_t timeout_ms) {
  std::vector<SignalWait> waits;
  for (;;) {
    take_where_there();
    waits.clear();
    for (const Neighbor& neighbor : neighbors_) {
      if (neighbor.put != round_) waits.push_back(at_least(neighbor.rank, kBegun, round_));
    }
    if (waits.empty()) break;
    await(waits, deadline, timeout_ms);
    put_where_ready();
  }

  for (Neighbor& neighbor : neighbors_) {
    if (neighbor.taken == round_) continue;
    const SignalWait there = at_least(neighbor.rank, kThere, round_);
    if (!has(neighbor, kThere, round_)) await({there}, deadline, timeout_ms);
    take_from(neighbor);
  }
}

// Waits until one of the words is there. Throws if one of their ranks tells of a release instead.
void NeighborExchange::await(
    std::vector<SignalWait> waits, Deadline deadline, uint64_t timeout_ms) {
  const size_t awaited = waits.size();
  for (size_t i = 0; i < awaited; ++i) {
    waits.push_back(at_least(waits[i].rank, kReleased, 1));
  }

  try {
    words_->group().transport().wait_signals(
        words_->view(), waits, true, left_until(deadline), nullptr, nullptr, nullptr);
  } catch (const Error& error) {
    if (words_->group().revocation().revoked()) throw;
    throw_late(error, timeout_ms);
  }
  require_not_released();
}

void NeighborExchange::require_not_released() {
  const Group& group = words_->group();
  for (const Neighbor& neighbor : neighbors_) {
    const uint64_t told =
        group.transport().look_at_signal(words_->view(), neighbor.rank, kReleased).value;
    const bool is_rank = told != 0 && told <= static_cast<uint64_t>(group.size());
    if (!is_rank || neighbor.taken == round_ || has(neighbor, kThere, round_)) continue;

    const int by = static_cast<int>(told - 1);
    const int64_t pid = group.identity(by).pid;
    released_ = Failure{Status::peer_failed, by, pid,
        format("exchange: round %lu: rank %d (pid %ld) has released it between start and finish",
            round_, by, pid)};
    tell_release(by);
    throw Error(*released_);
  }
}

void NeighborExchange::tell_release(int by) noexcept {
  const Group& group = words_->group();
  const Revocation& revocation = group.revocation();
  if (revocation.revoked() || revocation.finalized()) return;

  for (Neighbor& neighbor : neighbors_) {
    if (std::exchange(neighbor.told_of_release, true) || neighbor.rank == group.rank()) continue;
    group.transport().tell_signal(
        words_->view(), neighbor.rank, kReleased, static_cast<uint64_t>(by) + 1);
  }
}

NeighborExchange::~NeighborExchange() {
  if (is_started_ && rounds_ == nullptr) tell_release(words_->group().rank());
}

// Throws that a rank has not come, or has left, in the words of an exchange. The first neighbour
// that lacks is to blame.
void NeighborExchange::throw_late(const Error& error, uint64_t timeout_ms) const {
  const Group& group = words_->group();
  const auto has_not_begun = [&](const Neighbor& one) { return !has(one, kBegun, round_); };
  const auto has_not_put = [&](const Neighbor& one) { return !has(one, kThere, round_); };
  auto late = std::find_if(neighbors_.begin(), neighbors_.end(), has_not_begun);
  const char* what = "has not started it";
  if (late == neighbors_.end()) {
    late = std::find_if(neighbors_.begin(), neighbors_.end(), has_not_put);
    what = "has not put its pieces";
  }
  // All came while this rank was about to say who did not.
  if (late == neighbors_.end()) throw error;

  const int64_t pid = group.identity(late->rank).pid;
  std::string message = format("exchange: round %lu: rank %d (pid %ld) ", round_, late->rank, pid);
  if (error.status() == Status::timeout) {
    message += format("%s within %lu ms", what, timeout_ms == Deadline::kNow ? 0 : timeout_ms);
  } else {
    message += "has left the group";
  }
  throw Error({error.status(), late->rank, pid, std::move(message)});
}

// ---- blocks as messages

namespace {
std::string argument_of(const NeighborBlocks& blocks, const char* what, size_t index) {
  return format("%s_%s[%zu]", blocks.name, what, index);
}

// A quarter of what 64 bits hold: the sum of two is a place in no memory, but a number.
uint64_t bytes_of(
    const NeighborBlocks& blocks, const char* what, size_t index, size_t elements, size_t element) {
  const uint64_t bytes = bounded_product(elements, element);
  if (bytes <= uint64_t{1} << 62) return bytes;
  throw Error(Status::invalid_argument, format("%s: %zu elements are more than memory holds",
                                            argument_of(blocks, what, index).c_str(), elements));
}

void add_sides(std::vector<MessageSide>& sides, const Group& group, const NeighborBlocks& blocks,
    bool is_send, size_t element, int channel) {
  if (blocks.count > NeighborExchange::kMostNeighbors) {
    throw Error(
        Status::invalid_argument, format("%s_count: %zu is more than the %zu that a call can have",
                                      blocks.name, blocks.count, NeighborExchange::kMostNeighbors));
  }
  if (blocks.count == 0) return;
  if (blocks.ranks == nullptr) {
    throw Error(Status::invalid_argument, format("%s_ranks: is NULL", blocks.name));
  }
  if (blocks.counts == nullptr) {
    throw Error(Status::invalid_argument, format("%s_counts: is NULL", blocks.name));
  }

  uint64_t end = 0;
  for (size_t i = 0; i < blocks.count; ++i) {
    group.require_rank(argument_of(blocks, "ranks", i).c_str(), blocks.ranks[i]);
    const uint64_t bytes = bytes_of(blocks, "counts", i, blocks.counts[i], element);
    uint64_t at = end;
    if (blocks.displacements != nullptr) {
      at = bytes_of(blocks, "displacements", i, blocks.displacements[i], element);
    }
    end = at + bytes;
    if (bytes != 0 && blocks.data == nullptr) {
      throw Error(Status::invalid_argument, format("%s: is NULL", blocks.name));
    }
    std::byte* const data = bytes != 0 ? blocks.data + at : nullptr;
    sides.push_back({is_send, blocks.ranks[i], channel, data, bytes, 0});
  }
}
// Throws if a block that is received overlaps another block.
void require_apart(std::span<const MessageSide> received, std::span<const MessageSide> sent) {
  using Block = std::pair<const std::byte*, const std::byte*>;
  std::vector<Block> written;
  for (const MessageSide& side : received) {
    if (side.bytes != 0) written.emplace_back(side.data, side.data + side.bytes);
  }
  std::sort(written.begin(), written.end());

  for (size_t i = 1; i < written.size(); ++i) {
    if (written[i].first < written[i - 1].second) {
      throw Error(Status::invalid_argument, "recv: two of its blocks overlap");
    }
  }
  for (const MessageSide& side : sent) {
    // The first block that ends behind the start of this one.
    const auto next = std::partition_point(
        written.begin(), written.end(), [&](const Block& one) { return one.second <= side.data; });
    if (side.bytes != 0 && next != written.end() && next->first < side.data + side.bytes) {
      throw Error(Status::invalid_argument, "recv: overlaps send");
    }
  }
}

std::vector<MessageSide> sides_of(Group& group, const NeighborBlocks& send,
    const NeighborBlocks& recv, DType dtype, int channel) {
  if (!is_valid(dtype)) throw unknown_dtype(static_cast<int>(dtype));
  const size_t element = size_of(dtype);
  std::vector<MessageSide> sides;
  Group::require_channel(channel, group.channels());
  add_sides(sides, group, recv, false, element, channel);
  add_sides(sides, group, send, true, element, channel);
  require_apart(std::span(sides).first(recv.count), std::span(sides).subspan(recv.count));
  return sides;
}

void require_expected(Group& group, std::span<const MessageSide> sides, size_t element) {
  for (const MessageSide& side : sides) {
    if (side.is_send || side.received == side.bytes) continue;
    group.fail(group.blamed({Status::mismatch, side.rank, group.identity(side.rank).pid,
        format("neighbor_alltoallv: rank %d sends %zu elements to rank %d, which expects %zu",
            side.rank, side.received / element, group.rank(), side.bytes / element)}));
    throw Error(group.revocation().failure());
  }
}

constexpr const char* kExchangeOfBlocks = "neighbor_alltoallv";
}  // namespace

void exchange_blocks(Group& group, const NeighborBlocks& send, const NeighborBlocks& recv,
    DType dtype, int channel, uint64_t timeout_ms, void* stream) {
  std::vector<MessageSide> sides = sides_of(group, send, recv, dtype, channel);
  group.pass_messages(sides, timeout_ms, stream, kExchangeOfBlocks);
  require_expected(group, sides, size_of(dtype));
}

std::shared_ptr<Request> start_exchange_of_blocks(Group& group, const NeighborBlocks& send,
    const NeighborBlocks& recv, DType dtype, int channel, uint64_t timeout_ms) {
  // The request keeps the group.
  return group.start_messages(sides_of(group, send, recv, dtype, channel), timeout_ms,
      kExchangeOfBlocks, [&group, element = size_of(dtype)](std::span<const MessageSide> sides) {
        require_expected(group, sides, element);
      });
}
}  // namespace symm
