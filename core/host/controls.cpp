// Maps the control segments of all ranks, waits on their words, and finds the rank to blame for
// a wait that fails.
#include "core/host/controls.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/mismatch.hpp"
#include "core/backend/plan_table.hpp"
#include "core/backend/segment.hpp"
#include "core/base/error.hpp"
#include "core/base/layouts.hpp"
#include "core/base/wait.hpp"
#include "core/host/control.hpp"
#include "core/host/mailbox.hpp"
#include "core/host/standstill.hpp"
#include "core/mesh/mesh.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/pieces.hpp"
#include "kernels/text.hpp"
#include "kernels/types.hpp"

namespace symm::host {
namespace {
struct TransportShare {
  Stamp control;
  Stamp plans;
  uint64_t bytes;
  Processors processors;  // processors that the rank may use
  uint32_t registered;    // not 0: the rank has registered for asymmetric fences
  PlanValues values;
};
}  // namespace

Controls::Controls(TransportContext context, const PlanValues& values, RemoteRanks* remote)
    : context_(std::move(context)),
      remote_(remote),
      values_(values),
      half_(Control::scratch_half(context_.size,
          remote == nullptr ? 0 : context_.machines.most_together(), context_.scratch_bytes)),
      mailboxes_(MailboxShape::of(context_.machines.most_together(), context_.channels)),
      processors_(usable_processors()),
      spin_(SpinPolicy::for_ranks(
          context_.machines.local_size(context_.rank), processors_, remote != nullptr)),
      registered_(register_for_asymmetric_fences()),
      fencing_(fencing_of_group()),
      controls_(static_cast<size_t>(context_.size)),
      mine_(controls_[static_cast<size_t>(context_.rank)]) {
  mine_ = Control(Segment::create(segment_bytes(), "symm-control"), context_.size,
      context_.channels, half_, mailboxes_);
  mine_.header() = {kControlMagic, context_.group, context_.rank, context_.size, context_.channels,
      layouts::control.number, layouts::library, 0};
}

size_t Controls::segment_bytes() const {
  return Control::bytes(context_.size, context_.channels, half_, mailboxes_);
}

OutgoingMessage Controls::share() const {
  // Each rank tells what its own fencing was chosen from, so that all ranks choose alike.
  const TransportShare body{stamp_of(layouts::control), stamp_of(layouts::plans), segment_bytes(),
      processors_, registered_ ? 1U : 0U, values_};
  OutgoingMessage share{{}, {mine_.segment()->fd()}};
  append(share, body);
  return share;
}

void Controls::require_same_layout(int peer, const Message& message) const {
  const auto body = first_of<TransportShare>(message);
  require_same_stamp(layouts::control, context_.rank, peer, body.control);
  require_same_stamp(layouts::plans, context_.rank, peer, body.plans);
  const size_t expected = segment_bytes();
  if (body.bytes != expected) {
    throw Error({Status::mismatch, peer, 0,
        format("rank %d has a control segment of %lu bytes, this rank of %zu: they were given "
               "different sizes of scratch or numbers of channels",
            peer, body.bytes, expected)});
  }
}

void Controls::connect(int peer, Message message) {
  require_same_layout(peer, message);
  const size_t expected = segment_bytes();
  const auto body = first_of<TransportShare>(message);

  if (const std::string differs =
          plan_difference(BackendKind::host, context_.rank, values_, peer, body.values);
      !differs.empty()) {
    throw Error({Status::mismatch, peer, 0, differs});
  }

  Control control(Segment::import(std::move(message.fds.at(0)), expected), context_.size,
      context_.channels, half_, mailboxes_);
  const ControlHeader& header = control.header();
  if (header.magic != kControlMagic || header.group != context_.group || header.rank != peer) {
    throw Error({Status::peer_failed, peer, 0,
        format("the control segment of rank %d is not of this group", peer)});
  }
  require_same_stamp(layouts::control, context_.rank, peer, {header.library, header.layout});

  connected_.push_back({&control.gave_up(), peer});
  controls_[static_cast<size_t>(peer)] = std::move(control);
  processors_ |= body.processors;
  spin_ = SpinPolicy::for_ranks(
      context_.machines.local_size(context_.rank), processors_, remote_ != nullptr);
  registered_ = registered_ && body.registered != 0;
  fencing_ = fencing_of_group();
}

// The fencing is the same on all ranks once all have connected: it follows from the processors of
// all ranks and from whether all have registered. Ranks that share processors sleep in nearly every
// call; for them the kernel's barrier would cost more than the writer's fence.
Fencing Controls::fencing_of_group() const noexcept {
  const bool enough = processors_.count() >= static_cast<size_t>(context_.size);
  return remote_ == nullptr && registered_ && enough ? Fencing::asymmetric : Fencing::symmetric;
}

// Announces that this rank leaves the call, after which its caller may overwrite the operands. A
// late peer that still reads them learns by this word that its result may be wrong.
void Controls::give_up() noexcept {
  mine_.gave_up().store(1, std::memory_order_seq_cst);
  fence();
}

// Called at the end of a call. If a peer gave up before, the data read from its memory may be
// anything. A peer writes its word once at most, so the line stays in this processor's cache.
void Controls::throw_if_any_rank_aborted(LazyDeadline& deadline, const WaitingCall& call) {
  fence();
  for (const Peer& peer : connected_) {
    if (peer.gave_up->load(std::memory_order_relaxed) == 0) continue;
    // The mesh is about to tell why the peer gave up: wait for that revocation.
    constexpr uint32_t kNever = 2;
    await(*peer.gave_up, kNever, peer.rank, deadline, call);
  }
}

void Controls::fail(Failure failure) {
  give_up();
  // If another rank failed first, all ranks report its failure.
  context_.fail(failure);
  context_.revocation->throw_if_revoked();
  throw Error(std::move(failure));
}

// The wait that a rank whose segment is mapped shows in one lane.
ShownWait Controls::shown_wait(int rank, uint32_t lane) const noexcept {
  const Control& owner = (*this)[rank];
  const WaitLine& line = owner.waiting(lane);
  const uint32_t next = line.peer.load(std::memory_order_acquire);
  if (next == 0 || next > static_cast<uint32_t>(context_.size)) return {};

  const uint32_t offset = line.offset.load(std::memory_order_relaxed);
  const uint32_t target = line.target.load(std::memory_order_relaxed);
  ShownWait shown{.peer = static_cast<int>(next) - 1,
      .lane = lane,
      .number = static_cast<uint64_t>(offset) << 32 | target,
      .looks = line.looks.load(std::memory_order_acquire),
      .several = owner.threads().load(std::memory_order_relaxed) > 1};
  if (lane == lane::kCollective &&
      owner.long_call().target.load(std::memory_order_acquire) == target) {
    shown.call = owner.long_call().signature;
  }
  if (offset == WaitLine::kNoWord) {
    shown.about = static_cast<uint16_t>(line.about.load(std::memory_order_relaxed));
    return shown;
  }

  const Control& holder =
      (*this)[line.in_own_segment.load(std::memory_order_relaxed) != 0 ? rank : shown.peer];
  if (!holder.is_mapped()) return shown;
  const Word* word = holder.word_at(offset);
  return word == nullptr || reached(*word, target) ? ShownWait{} : shown;
}

ShownWait Controls::wait_of(int rank, uint32_t lane) const noexcept {
  if (!(*this)[rank].is_mapped()) return remote_->wait_of(rank, lane);
  ShownWait found = shown_wait(rank, lane);
  int others = 0;
  for (uint32_t other = 0; other < mine_.lanes(); ++other) {
    if (other == lane) continue;
    const ShownWait shown = shown_wait(rank, other);
    if (shown.peer < 0) continue;
    ++others;
    if (found.peer < 0) found = shown;
  }
  found.several = found.several || others > 1;

  const RefusalLine& refusal = (*this)[rank].refusal();
  found.refused = refusal.stands.load(std::memory_order_acquire) != 0;
  found.refusals = refusal.count.load(std::memory_order_relaxed) % (1U << Standstill::kRefusalBits);
  return found;
}

void Controls::note_refusal(const std::string& what) noexcept {
  RefusalLine& line = mine_.refusal();
  line.stands.store(0, std::memory_order_relaxed);
  std::memset(line.text, 0, sizeof line.text);
  std::memcpy(line.text, what.data(), std::min(what.size(), sizeof line.text - 1));
  line.count.fetch_add(1, std::memory_order_relaxed);
  line.stands.store(1, std::memory_order_release);
}

// The rank to blame when `peer` does not come in time: `peer` may itself be waiting for another
// rank, in the same lane. A rank whose awaited word is there could go on and does not, so it is
// stopped or busy. If ranks wait for each other in a circle, `peer` is as good a choice as any.
int Controls::culprit(int peer, uint32_t lane) const noexcept {
  int suspect = peer;
  for (int hop = 0; hop < context_.size; ++hop) {
    const ShownWait next = wait_of(suspect, lane);
    if (next.peer < 0 || next.lane != lane) return suspect;
    suspect = next.peer;
    if (suspect == context_.rank) return peer;
  }
  return peer;
}

// The rank that did not come may wait in another lane, for a rank that is silent: if its deadline
// passes in these moments, it knows better whom to blame. Whether another thread of it waits there,
// which has nothing to do with this wait, cannot be seen from here.
bool Controls::is_told_by_culprit(
    int peer, const WaitingCall& call, const LazyDeadline& deadline) const {
  constexpr uint64_t kMomentsMs = 200;
  if (deadline.timeout_ms() == Deadline::kNow) return false;

  const ShownWait elsewhere = wait_of(culprit(peer, call.lane), call.lane);
  if (elsewhere.peer < 0 || elsewhere.lane == call.lane) return false;

  return retry_until(
      [&] { return context_.revocation->revoked(); }, Deadline::after_ms(kMomentsMs));
}

Failure Controls::late(int peer, const WaitingCall& call, const LazyDeadline& deadline) const {
  const int suspect = culprit(peer, call.lane);
  std::string message = text(call.what, ": ", context_.rank_name(suspect), " did not come within ",
      deadline.timeout_ms(), " ms");
  const ShownWait elsewhere = wait_of(suspect, call.lane);
  const std::string other = elsewhere.peer < 0 ? "" : Standstill::text_of(*this, elsewhere);
  if (elsewhere.lane != call.lane && !other.empty()) {
    message += text("; it is in ", other, " and waits for rank ", elsewhere.peer);
  }
  return context_.blame(suspect, Status::timeout, std::move(message));
}

Failure Controls::different_sets(int channel, int rank, int other) const {
  const int blamed = std::max(rank, other);
  return context_.blame(blamed, Status::mismatch,
      format("barrier: ranks %d and %d come to barriers of different sets on channel %d, or not in "
             "one order",
          std::min(rank, other), blamed, channel));
}

// Tells what only ranks that wait long are asked for: the call, and whether threads take turns.
void Controls::note_long_wait(const WaitingCall& call, uint32_t target) noexcept {
  static thread_local const char here = 0;
  const void* first = nullptr;
  const bool is_first = first_thread_.compare_exchange_strong(first, &here) || first == &here;
  if (!is_first) note_several_threads();

  if (call.lane != lane::kCollective || call.signature == nullptr) return;
  CallLine& line = mine_.long_call();
  if (line.target.load(std::memory_order_relaxed) == target) return;
  line.signature = *call.signature;
  line.target.store(target, std::memory_order_release);
}

void Controls::show_members(uint32_t op, std::span<const Member> members) const noexcept {
  if (members.empty()) return;
  MemberTable& table = mine_.members(op);
  table.count = static_cast<uint32_t>(members.size());
  std::copy(members.begin(), members.end(), table.members);
}

std::vector<CallSignature> Controls::members_of(int rank, uint32_t op) const {
  const MemberTable& table = (*this)[rank].members(op);
  std::vector<CallSignature> calls;
  for (size_t i = 0; i < std::min<size_t>(table.count, MemberTable::kMost); ++i) {
    calls.push_back(table.members[i].unpacked());
  }
  return calls;
}

namespace {
// The calls that the call of a rank is made of: several if they were merged and are known.
std::vector<CallSignature> calls_of(int rank, const std::function<CallSignature(int)>& call_of,
    const std::function<std::vector<CallSignature>(int)>& members_of) {
  const CallSignature call = call_of(rank);
  if (call.batch.merged == 0) return {call};
  std::vector<CallSignature> members = members_of(rank);
  if (members.empty()) return {call};
  for (CallSignature& member : members) {
    member.batch = {call.batch.calls, member.batch.index};
    member.heaps = 0;
  }
  members.front().heaps = call.heaps;
  return members;
}

// The first call that differs. Ranks choose the calls of a batch to merge by what must agree, in
// the order of the batch: so the first call that one of two ranks has merged and the other has not
// is itself one that differs. A rank that has merged fewer calls shows its last one.
std::pair<CallSignature, CallSignature> first_difference(
    const std::vector<CallSignature>& a, const std::vector<CallSignature>& b) {
  const size_t both = std::min(a.size(), b.size());
  size_t at = 0;
  while (at + 1 < both && a[at].hash() == b[at].hash()) {
    ++at;
  }
  const bool is_longer = at + 1 == both && a[at].hash() == b[at].hash();
  const auto shown = [&](const std::vector<CallSignature>& calls) {
    return calls[is_longer && calls.size() > both ? both : at];
  };
  return {shown(a), shown(b)};
}
}  // namespace

// All ranks that detect the mismatch report the same, since they compare the calls of all ranks
// that have entered. Ranks that do not enter soon are left out.
void Controls::fail_mismatch(uint32_t call, const std::function<bool(int)>& entered,
    const std::function<CallSignature(int)>& call_of,
    const std::function<std::vector<CallSignature>(int)>& members_of, Deadline deadline) {
  // In checked mode every rank waits for all entries in any case.
  const uint64_t soon_ms = context_.check ? 2'000 : 200;
  const auto all_entered = [&] {
    for (int rank = 0; rank < context_.size; ++rank) {
      if (!entered(rank) && !context_.revocation->departed(rank)) {
        return context_.revocation->revoked();
      }
    }
    return true;
  };

  retry_until(all_entered, std::min(deadline, Deadline::after_ms(soon_ms)));
  std::vector<int> ranks;
  std::vector<uint32_t> hashes;
  for (int rank = 0; rank < context_.size; ++rank) {
    if (!entered(rank)) continue;
    ranks.push_back(rank);
    hashes.push_back(call_of(rank).hash());
  }

  // Two calls differ, or this would not have been called.
  const Mismatch found = mismatch_among(hashes).value();
  const int right = ranks[found.right];
  const int wrong = ranks[found.wrong];
  const auto [made, differs] =
      first_difference(calls_of(right, call_of, members_of), calls_of(wrong, call_of, members_of));
  fail(context_.blame(wrong, Status::mismatch,
      format("call %u of the group: rank %d makes %s, rank %d makes %s", call, right,
          made.text().c_str(), wrong, differs.text().c_str())));
}

void Controls::fail_piece(const CallSignature& call, int peer, const PieceLengths& lengths) {
  const size_t element = size_of(call.dtype);
  fail(context_.blame(peer, Status::mismatch,
      format("%s: rank %d sends %s%zu elements to rank %d, which expects %zu",
          collective_name(call.collective), peer, lengths.of_rows ? "rows of " : "",
          lengths.sent / element, context_.rank, lengths.expected / element)));
}

namespace {
// A thread polls for the message engine, whose own thread rests meanwhile. That ends here also if
// what the thread waits for throws: nobody would serve the engine any more.
class PollingTurn {
 public:
  explicit PollingTurn(RemoteRanks& remote) : remote_(remote) { remote_.polls(Polling::begins); }
  ~PollingTurn() { end(); }
  PollingTurn(PollingTurn&&) = delete;

  void end() noexcept {
    if (std::exchange(polls_, false)) remote_.polls(Polling::ends);
  }

 private:
  RemoteRanks& remote_;
  bool polls_ = true;
};
}  // namespace

WaitEnd Controls::await_condition(
    const Condition& condition, Waiter& waiter, LazyDeadline& deadline) const {
  if (remote_ == nullptr) {
    return wait_condition(condition, waiter, *context_.revocation, spin_, deadline);
  }

  const auto holds = [&] {
    return condition.holds() || (remote_->progress() && condition.holds());
  };

  PollingTurn turn(*remote_);
  const auto unreachable = [&] {  // wait_condition() calls this before it sleeps
    turn.end();
    remote_->polls(Polling::sleeps);
    return condition.unreachable();
  };

  return wait_condition({holds, unreachable, condition.bells, condition.all_ring, condition.peer,
                            condition.what, condition.hopeless},
      waiter, *context_.revocation, spin_, deadline);
}

void Controls::await(Word& word, uint32_t target, Waiter& waiter, int peer, LazyDeadline& deadline,
    const WaitingCall& call) {
  const bool own = mine_.contains(word);
  WaitLine& waiting = mine_.waiting(call.lane);
  waiting.in_own_segment.store(own ? 1 : 0, std::memory_order_relaxed);
  const Control& holder = own ? mine_ : (*this)[peer];
  waiting.offset.store(holder.is_mapped() ? holder.offset_of(word) : 0, std::memory_order_relaxed);
  waiting.target.store(target, std::memory_order_relaxed);
  waiting.peer.store(static_cast<uint32_t>(peer) + 1, std::memory_order_release);

  std::optional<Standstill> standstill;
  const auto stands = [&](bool at_deadline) {
    try {
      note_long_wait(call, target);
      if (!standstill) standstill.emplace(*this, call.lane);
      return at_deadline ? standstill->is_there_at_deadline() : standstill->look();
    } catch (const std::bad_alloc&) {
      return false;  // the deadline remains
    }
  };
  const auto stands_still = [&] { return stands(false); };
  const Predicate hopeless(stands_still);

  const auto end_of_far_wait = [&] {
    const auto is_there = [&] { return reached(word, target); };
    const auto has_left = [&] { return remote_->has_left(peer); };
    const Word* const words[] = {&word};
    return await_condition(
        {is_there, has_left, words, true, peer, call.what, &hopeless}, waiter, deadline);
  };

  WaitEnd end = remote_ != nullptr ? end_of_far_wait()
                                   : wait_word(word, target, waiter, peer, *context_.revocation,
                                         spin_, deadline, fencing_, call.what, &hopeless);

  // After a failure the line stays, so that peers that time out later blame the same rank.
  if (end == WaitEnd::reached) waiting.peer.store(0, std::memory_order_relaxed);
  if (end == WaitEnd::timed_out && stands(true)) end = WaitEnd::hopeless;
  if (end == WaitEnd::timed_out && is_told_by_culprit(peer, call, deadline)) {
    end = WaitEnd::revoked;
  }

  switch (end) {
    case WaitEnd::reached: return;
    case WaitEnd::revoked: give_up(); throw Error(context_.revocation->failure());
    case WaitEnd::peer_departed: fail(context_.blame_departed(peer, call.what));
    case WaitEnd::hopeless: fail(standstill->failure());
    case WaitEnd::timed_out: fail(late(peer, call, deadline));
  }
}

// A wait for a message of a peer. Only one of a lane is shown at a time.
class Controls::ShownMessageWait final : public MessageWait {
 public:
  ShownMessageWait(Controls& controls, uint32_t lane, int peer, uint16_t about)
      : controls_(controls),
        lane_(lane),
        is_shown_(controls.message_waits_[lane].fetch_add(1) == 0),
        standstill_(controls, lane) {
    if (!is_shown_) {
      controls_.note_several_threads();
      return;
    }
    WaitLine& line = controls_.mine_.waiting(lane_);
    line.offset.store(WaitLine::kNoWord, std::memory_order_relaxed);
    line.about.store(about, std::memory_order_relaxed);
    line.target.fetch_add(1, std::memory_order_relaxed);
    line.peer.store(static_cast<uint32_t>(peer) + 1, std::memory_order_release);
  }

  ~ShownMessageWait() override {
    // After a failure the line stays, so that peers that time out later blame the same rank.
    const bool has_failed = controls_.mine_.gave_up().load(std::memory_order_relaxed) != 0;
    if (is_shown_ && !has_failed) {
      controls_.mine_.waiting(lane_).peer.store(0, std::memory_order_release);
    }
    controls_.message_waits_[lane_].fetch_sub(1);
  }

  ShownMessageWait(ShownMessageWait&&) = delete;

  void look() override {
    controls_.note_long_wait({"", lane_}, 0);
    if (!is_shown_) return;
    controls_.mine_.waiting(lane_).looks.fetch_add(1, std::memory_order_release);
    if (standstill_.look()) controls_.fail(standstill_.failure());
  }

 private:
  Controls& controls_;
  const uint32_t lane_;
  const bool is_shown_;
  Standstill standstill_;
};

std::unique_ptr<MessageWait> Controls::await_message(uint32_t lane, int peer, uint16_t about) {
  return std::make_unique<ShownMessageWait>(*this, lane, peer, about);
}
}  // namespace symm::host
