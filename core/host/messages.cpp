// Posts the sides of a call, waits until all of them are done, and says which one is not.
#include "core/host/messages.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/hardware.hpp"
#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/wait.hpp"
#include "core/host/control.hpp"
#include "core/host/controls.hpp"
#include "core/host/message_pair.hpp"
#include "core/host/message_port.hpp"

namespace symm::host {
namespace {
const char* name_of(const MessageSide& side) { return side.is_send ? "send" : "recv"; }
}  // namespace

Messages::Messages(Controls& controls)
    : controls_(controls),
      llc_bytes_(last_level_cache_bytes()),
      same_process_(static_cast<size_t>(controls.context().size)),
      pairs_(static_cast<size_t>(controls.context().size)),
      made_(static_cast<size_t>(controls.context().size)) {
  same_process_[static_cast<size_t>(controls.context().rank)] = true;
}

Messages::~Messages() = default;

void Messages::connect(int peer, bool same_process) {
  same_process_[static_cast<size_t>(peer)] = same_process;
}

MessagePair& Messages::pair_of(int peer) {
  MessagePair* const made = made_[static_cast<size_t>(peer)].load(std::memory_order_acquire);
  return made != nullptr ? *made : make_pair_of(peer);
}

MessagePair& Messages::make_pair_of(int peer) {
  const std::lock_guard lock(making_);
  const auto index = static_cast<size_t>(peer);
  if (pairs_[index] == nullptr) {
    const TransportContext& context = controls_.context();
    const Control& theirs = controls_[peer];
    if (theirs.is_mapped()) {
      pairs_[index] = std::make_unique<MessagePair>(
          MessagePair::Surroundings{
              context, controls_.mailboxes(), llc_bytes_, news_, controls_.fencing()},
          peer, same_process_[index], controls_.mine().mailbox(context.machines.local_rank(peer)),
          theirs.mailbox(context.machines.local_rank(context.rank)), theirs.message_waiter());
    } else {
      MessagePort& port = controls_.remote()->message_port(peer);
      pairs_[index] = std::make_unique<MessagePair>(
          MessagePair::Surroundings{context, port.shape(), llc_bytes_, news_, controls_.fencing()},
          peer, port, controls_.mine().message_waiter());
    }
    made_[index].store(pairs_[index].get(), std::memory_order_release);
  }
  return *pairs_[index];
}

// One call of this rank, from when its sides are posted until none of them is in a flow.
class Messages::Call {
 public:
  Call(Messages& messages, std::span<MessageSide> sides)
      : messages_(messages),
        controls_(messages.controls_),
        sides_(sides),
        many_(sides.size() > 1 ? sides.size() : 0),
        posted_(many_.empty() ? std::span(&one_, sides.size()) : std::span(many_)) {
    // Other threads see this by the lock of a pair.
    count_.left.store(sides.size(), std::memory_order_relaxed);
    for (size_t i = 0; i < sides.size(); ++i) {
      posted_[i].side = &sides[i];
      posted_[i].call = &count_;
    }

    one_peer_.pair = &messages.pair_of(sides[0].rank);
    if (sides.size() == 1) return;
    for (size_t i = 0; i < sides.size(); ++i) {
      MessagePair* const pair = &messages.pair_of(sides[i].rank);
      const bool is_known = std::any_of(many_peers_.begin(), many_peers_.end(),
          [pair](const Peer& peer) { return peer.pair == pair; });
      if (!is_known) many_peers_.push_back({pair, i});
    }
    peers_ = many_peers_;
  }
  // Other threads may be at work on sides that are not done.
  ~Call() {
    if (count_.left.load(std::memory_order_acquire) == 0) return;
    for (size_t i = 0; i < posts_; ++i) {
      pair_of(i).drop(posted_[i]);
    }
  }
  Call(Call&&) = delete;

  void post() {
    while (posts_ < sides_.size()) {
      const size_t at = posts_++;
      pair_of(at).post(posted_[at]);
    }
  }

  // Throws if a rank that something is sent to has left. A short message would lie there for
  // nobody, and its sender would not wait.
  void require_receivers() const;
  // Waits until all sides are done. Returns a failure of no status, or why they are not.
  Failure outcome_within(uint64_t timeout_ms);
  // Takes out what has not begun. True if nothing has: the call has then left no trace.
  bool withdraw() {
    bool untouched = true;
    for (size_t i = 0; i < posts_; ++i) {
      untouched = pair_of(i).withdraw(posted_[i]) && untouched;
    }
    return untouched;
  }
  bool copies() const {
    return std::any_of(
        posted_.begin(), posted_.end(), [](const PostedSide& one) { return one.copies; });
  }
  const char* what() const { return sides_.size() == 1 ? name_of(sides_[0]) : "messages"; }

 private:
  // A rank that the call passes messages with. A call may have 2^20 sides, and looks about as often
  // as it has sides, so no look may go through all of them: those that are done stay behind.
  struct Peer {
    MessagePair* pair = nullptr;
    size_t first_left = 0;  // before it all sides of this rank are done
  };

  MessagePair& pair_of(size_t index) const { return messages_.pair_of(sides_[index].rank); }
  bool is_left(size_t index) const { return posted_[index].state != PostedSide::State::done; }
  bool look(LazyDeadline& deadline);
  WaitEnd await(LazyDeadline& deadline);
  void show();
  bool has_begun() const;
  size_t first_left();
  const MessageSide* first_departed();
  std::string text_of(const MessageSide& side) const;
  static const char* missing(const MessageSide& side, bool begun);
  Failure late(const LazyDeadline& deadline);

  Messages& messages_;
  Controls& controls_;
  const std::span<MessageSide> sides_;
  MessageCount count_;
  // Nearly all calls have one side, for which nothing is allocated.
  PostedSide one_;
  std::vector<PostedSide> many_;
  const std::span<PostedSide> posted_;
  Peer one_peer_;
  std::vector<Peer> many_peers_;
  std::span<Peer> peers_{&one_peer_, 1};
  size_t posts_ = 0;       // sides that were posted
  size_t first_left_ = 0;  // before it all sides are done
  uint32_t moves_ = 0;     // looks in which something moved
  std::unique_ptr<MessageWait> shown_;
  uint32_t shown_at_ = 0;  // the moves at which it was shown
};

// Moves what can be moved. A rank that goes to sleep after this has nothing to do but to wait.
bool Messages::Call::look(LazyDeadline& deadline) {
  for (;;) {
    bool has_moved = false;
    for (const Peer& peer : peers_) {
      has_moved = peer.pair->progress(count_) || has_moved;
    }
    if (count_.left.load(std::memory_order_acquire) == 0) return true;
    if (!has_moved) return false;

    ++moves_;
    // A long message takes many looks. One that comes in time may end behind the deadline of a call
    // that looks once.
    const bool is_late = deadline.timeout_ms() != Deadline::kNow && deadline.get().expired();
    if (is_late || controls_.context().revocation->revoked()) return false;
  }
}

bool Messages::Call::has_begun() const {
  return std::any_of(
      posted_.begin(), posted_.end(), [](const PostedSide& one) { return one.begun.load(); });
}

// The first side that is not done, as far as this thread knows.
size_t Messages::Call::first_left() {
  while (first_left_ < posted_.size() && !is_left(first_left_)) {
    ++first_left_;
  }
  return first_left_ == posted_.size() ? 0 : first_left_;
}

// The first side that is not done and whose rank has left; null if there is none.
const MessageSide* Messages::Call::first_departed() {
  size_t first = sides_.size();
  for (Peer& peer : peers_) {
    const int rank = peer.pair->peer();
    if (!controls_.has_left(rank)) continue;
    size_t& at = peer.first_left;
    while (at < sides_.size() && (sides_[at].rank != rank || !is_left(at))) {
      ++at;
    }
    first = std::min(first, at);
  }
  return first == sides_.size() ? nullptr : &sides_[first];
}

void Messages::Call::require_receivers() const {
  const TransportContext& context = controls_.context();
  for (const MessageSide& side : sides_) {
    if (side.is_send && context.revocation->departed(side.rank)) {
      throw Error(context.blame_departed(side.rank, text_of(side)));
    }
  }
}

// Shows for whom this rank waits, as a new wait each time that something has moved, so that ranks
// whose messages are under way are not taken for ranks that wait in a circle.
void Messages::Call::show() {
  if (shown_ != nullptr && shown_at_ == moves_) return;
  shown_.reset();
  shown_ = controls_.await_message(lane::kMessages, sides_[first_left()].rank);
  shown_at_ = moves_;
}

WaitEnd Messages::Call::await(LazyDeadline& deadline) {
  std::vector<const Word*> many;
  std::array<const Word*, 2> few{&messages_.news_, &peers_.front().pair->bell()};
  if (peers_.size() > 1) {
    many.push_back(&messages_.news_);
    for (const Peer& peer : peers_) {
      many.push_back(&peer.pair->bell());
    }
  }
  const std::span<const Word* const> bells = many.empty() ? std::span(few) : std::span(many);

  const auto hopeless = [&] {
    show();
    shown_->look();
    return false;
  };

  const auto holds = [&] { return look(deadline); };
  const auto unreachable = [&] { return first_departed() != nullptr; };
  const Predicate is_hopeless(hopeless);
  return controls_.await_condition({holds, unreachable, bells, true, sides_[first_left()].rank,
                                       what(), &is_hopeless, controls_.fencing()},
      controls_.mine().message_waiter(), deadline);
}

Failure Messages::Call::outcome_within(uint64_t timeout_ms) {
  LazyDeadline deadline(timeout_ms);
  if (look(deadline)) return {};
  const WaitEnd end = await(deadline);
  // A message that was there comes whole, though its call looks once.
  if (end == WaitEnd::timed_out && timeout_ms == Deadline::kNow && has_begun()) {
    return outcome_within(controls_.context().timeout_ms);
  }

  // Another thread may have ended the last side meanwhile.
  if (count_.left.load(std::memory_order_acquire) == 0) return {};

  switch (end) {
    case WaitEnd::reached: return {};
    case WaitEnd::revoked: return controls_.context().revocation->failure();
    case WaitEnd::peer_departed: {
      const MessageSide* const side = first_departed();
      if (side == nullptr) return outcome_within(timeout_ms);
      return controls_.context().blame_departed(side->rank, text_of(*side));
    }
    default: return late(deadline);
  }
}

// "recv", or in a batch "messages[2]: recv"
std::string Messages::Call::text_of(const MessageSide& side) const {
  const std::string place =
      sides_.size() == 1 ? "" : format("messages[%td]: ", &side - sides_.data());
  return place + name_of(side);
}

// What the other rank has not done, in the words of a time-out.
const char* Messages::Call::missing(const MessageSide& side, bool begun) {
  if (side.is_send) {
    return begun ? "has not taken all of the message" : "has not received what was sent before";
  }
  return begun ? "has not sent all of its message" : "has sent nothing";
}

// Where nothing has begun, the group goes on, and the rank of the side is told. Else the group
// fails, and the rank is told that keeps all others, who are to see the same.
Failure Messages::Call::late(const LazyDeadline& deadline) {
  const size_t index = first_left();
  const MessageSide& side = sides_[index];
  const TransportContext& context = controls_.context();
  std::string message = format("%s: %s %s on channel %d", text_of(side).c_str(),
      context.rank_name(side.rank).c_str(), missing(side, posted_[index].begun), side.channel);
  if (deadline.timeout_ms() != Deadline::kNow) {
    message += format(" within %lu ms", deadline.timeout_ms());
  }

  int suspect = side.rank;
  if (has_begun()) {
    show();
    suspect = controls_.culprit(side.rank, lane::kMessages);
  }
  if (suspect != side.rank) {
    message += format("; ranks wait for messages up to %s, which does not go on",
        context.rank_name(suspect).c_str());
  }
  return context.blame(suspect, Status::timeout, std::move(message));
}

// Ends a call whose sides were posted; `failure`: what kept them from being posted, if anything.
void Messages::finish(Call& call, uint64_t timeout_ms, Failure failure) {
  try {
    if (failure.status == Status::ok) failure = call.outcome_within(timeout_ms);
  } catch (...) {
    failure = current_failure();
  }

  if (failure.status != Status::ok) {
    if (call.withdraw() || controls_.context().is_left_over()) {
      // What this thread has found may be what is left of a call that the failure has ended.
      controls_.context().revocation->throw_if_revoked();
      throw Error(std::move(failure));
    }
    if (failure.rank < 0) failure = blamed(std::move(failure), controls_.context().rank, 0);
    controls_.fail(std::move(failure));
  }

  if (!call.copies()) return;
  LazyDeadline deadline(timeout_ms == Deadline::kNow ? controls_.context().timeout_ms : timeout_ms);
  controls_.throw_if_any_rank_aborted(deadline, {call.what(), lane::kMessages});
}

void Messages::pass(std::span<MessageSide> sides, uint64_t timeout_ms) {
  controls_.context().revocation->throw_if_revoked();
  if (sides.empty()) return;
  Call call(*this, sides);
  call.require_receivers();
  Failure failure;
  try {
    call.post();
  } catch (...) {
    failure = current_failure();
  }
  finish(call, timeout_ms, std::move(failure));
}

// A call whose sides are posted on one thread and awaited on another.
class Messages::Posted final : public PostedMessages {
 public:
  Posted(Messages& messages, std::span<MessageSide> sides)
      : messages_(messages), call_(messages, sides) {
    call_.require_receivers();
    try {
      call_.post();
    } catch (...) {
      failure_ = current_failure();
    }
  }
  void finish(uint64_t timeout_ms) override {
    messages_.finish(call_, timeout_ms, std::move(failure_));
  }

 private:
  Messages& messages_;
  Call call_;
  Failure failure_;
};

std::unique_ptr<PostedMessages> Messages::post(std::span<MessageSide> sides) {
  controls_.context().revocation->throw_if_revoked();
  return std::make_unique<Posted>(*this, sides);
}
}  // namespace symm::host
