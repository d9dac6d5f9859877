// Counts the calls that this rank issues, and compares the counts with those of the others.
//
// Definitions
//   Call      a collective, by its number in the group; a barrier of all ranks, by its channel and
//             its number there; a call of another kind (MessageCall), while a rank waits in it.
//   Ahead     rank a is ahead of rank b by a call if a has issued it, or waits in it, and b not. If
//             both wait in calls of other kinds, they must wait for each other.
//   Crossing  a is ahead of b by one call, and b of a by another.
//
// Collectives come in one order on every rank, so two ranks whose collectives of one number differ
// never go on. Ranks that cross wait for each other if neither issues more: both are seen to wait,
// on one thread each, and to look in vain for a second, or a deadline has passed and neither has
// issued anything for a second. (A rank that is stopped is seen to wait, and does not look.)
// Barriers of some of the ranks are not counted, and a graph may be replayed at any time: where
// there are such, less is found, and nothing wrong.
#include "core/cuda/issued_calls.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/mismatch.hpp"
#include "core/backend/segment.hpp"
#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/page.hpp"
#include "core/base/revocation.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/text.hpp"

namespace symm::cuda {
namespace {
using SharedCount = std::atomic<uint64_t>;

constexpr uint64_t kPatienceNs = 1000 * kMillisecondNs;
constexpr uint64_t kLookNs = 100 * kMillisecondNs;
constexpr uint64_t kLeastLooks = 2;
constexpr size_t kRemembered = 16;

// IssuedWords::message, of a rank that waits for `peer`.
uint64_t pack_message(MessageCall call, int rank, int peer) {
  return (static_cast<uint64_t>(call) + 1) | static_cast<uint64_t>(peer + 1) << 16 |
         static_cast<uint64_t>(rank + 1) << 32;
}

MessageCall call_of_message(uint64_t message) {
  return static_cast<MessageCall>((message & 0xFFFF) - 1);
}

// Ranks wait for each other, in different calls. A third rank may be slow to come to a call of some
// ranks, for which the others do not wait.
bool are_crossed(uint64_t one, uint64_t other) {
  const auto peer_of = [](uint64_t message) { return message >> 16 & 0xFFFF; };
  const auto rank_of = [](uint64_t message) { return message >> 32; };
  return call_of_message(one) != call_of_message(other) && peer_of(one) == rank_of(other) &&
         peer_of(other) == rank_of(one);
}
}  // namespace

// One rank writes, and the others read. Everything is zero at first.
struct IssuedWords {
  struct Collective {
    SharedCount number;
    SharedCount packed;
    SharedCount count;
  };

  SharedCount last_ns;      // when the last call was issued
  SharedCount is_captured;  // a call was issued in a capture
  SharedCount is_shared;    // several threads issue calls, or wait for them
  SharedCount waits;        // threads that wait for what was issued
  SharedCount looks;        // how often such a thread has looked
  SharedCount message;      // 0, or pack_message() of a call in which a thread waits
  SharedCount collectives;
  std::array<Collective, kRemembered> last;
  std::array<SharedCount, kBarrierChannels> barriers;

  // The collective of this number, if it is remembered. What is read of a slot while another call
  // replaces it is thrown away: whoever sees a word of that call also sees its number, or 0.
  std::optional<CallSignature> collective(uint64_t at) const noexcept {
    const Collective& one = last[at % kRemembered];
    if (at == 0 || one.number.load(std::memory_order_acquire) != at) return std::nullopt;
    const uint64_t packed = one.packed.load(std::memory_order_acquire);
    const uint64_t count = one.count.load(std::memory_order_acquire);
    if (one.number.load(std::memory_order_relaxed) != at) return std::nullopt;
    return CallSignature::unpacked(packed, count);
  }

  uint64_t all() const noexcept {
    uint64_t sum = collectives.load(std::memory_order_acquire);
    for (const SharedCount& channel : barriers) {
      sum += channel.load(std::memory_order_relaxed);
    }
    return sum;
  }
};

class IssuedCalls::Wait final : public MessageWait {
 public:
  Wait(IssuedCalls& calls, uint64_t message) : calls_(calls), message_(message) {
    calls_.note_thread();
    calls_.mine_->waits.fetch_add(1);
    if (message_ != 0) calls_.mine_->message.store(message_);
  }

  ~Wait() override {
    if (message_ != 0) calls_.mine_->message.store(0);
    calls_.mine_->waits.fetch_sub(1);
  }

  Wait(Wait&&) = delete;

  void look() override {
    const uint64_t now = now_ns();
    if (now < next_ns_) return;
    next_ns_ = now + kLookNs;
    calls_.mine_->looks.fetch_add(1, std::memory_order_release);
    calls_.context_.revocation->throw_if_revoked();

    Seen seen;
    const std::optional<Failure> found = calls_.mismatch(false, seen);
    if (!found || seen.calls != seen_.calls) {
      seen_ = found ? std::move(seen) : Seen();
      since_ns_ = now;
      return;
    }
    const auto has_looked = [](uint64_t then, uint64_t by_now) {
      return by_now - then >= kLeastLooks;
    };
    const bool all_look = std::equal(
        seen_.looks.begin(), seen_.looks.end(), seen.looks.begin(), seen.looks.end(), has_looked);
    if (now - since_ns_ < kPatienceNs || !all_look) return;

    calls_.context_.fail(*found);
    calls_.context_.revocation->throw_if_revoked();
    throw Error(*found);
  }

 private:
  IssuedCalls& calls_;
  const uint64_t message_;
  uint64_t next_ns_ = now_ns() + kLookNs;
  uint64_t since_ns_ = 0;
  Seen seen_;
};

IssuedCalls::IssuedCalls(const TransportContext& context)
    : context_(context),
      segment_of_mine_(host::Segment::create(sizeof(IssuedWords), "symm-issued")),
      segments_(static_cast<size_t>(context.size)) {
  segments_[static_cast<size_t>(context.rank)] = segment_of_mine_;
  mine_ = new (segment_of_mine_->data()) IssuedWords();
}

IssuedCalls::~IssuedCalls() = default;

int IssuedCalls::fd() const noexcept {
  return static_cast<const host::Segment&>(*segment_of_mine_).fd();
}

void IssuedCalls::connect(int peer, Fd fd) {
  segments_[static_cast<size_t>(peer)] = host::Segment::import(std::move(fd), sizeof(IssuedWords));
}

void IssuedCalls::will_not_be_shared() noexcept { segment_of_mine_->will_not_be_shared(); }

// Whether only one thread has issued calls so far, and waited.
void IssuedCalls::note_thread() noexcept {
  static thread_local const char here = 0;
  const void* first = nullptr;
  const bool is_first = first_thread_.compare_exchange_strong(first, &here) || first == &here;
  if (!is_first) mine_->is_shared.store(1, std::memory_order_relaxed);
}

void IssuedCalls::note(const CallSignature& call, bool is_captured) noexcept {
  if (context_.size == 1) return;
  note_thread();
  if (is_captured) return mine_->is_captured.store(1);

  const uint64_t number = mine_->collectives.load(std::memory_order_relaxed) + 1;
  IssuedWords::Collective& slot = mine_->last[number % kRemembered];
  slot.number.store(0, std::memory_order_relaxed);
  slot.packed.store(call.packed(), std::memory_order_release);
  slot.count.store(call.count, std::memory_order_release);
  slot.number.store(number, std::memory_order_release);
  mine_->last_ns.store(now_ns(), std::memory_order_relaxed);
  mine_->collectives.store(number, std::memory_order_release);
}

void IssuedCalls::note_barrier(int channel, bool is_captured) noexcept {
  if (context_.size == 1) return;
  note_thread();
  if (is_captured) return mine_->is_captured.store(1);

  mine_->last_ns.store(now_ns(), std::memory_order_relaxed);
  mine_->barriers[static_cast<size_t>(channel)].fetch_add(1, std::memory_order_release);
}

std::unique_ptr<MessageWait> IssuedCalls::await_stream() {
  if (context_.size == 1) return nullptr;
  return std::make_unique<Wait>(*this, 0);
}

std::unique_ptr<MessageWait> IssuedCalls::await_message(MessageCall call, int peer) {
  if (context_.size == 1) return nullptr;
  return std::make_unique<Wait>(*this, pack_message(call, context_.rank, peer));
}

// A call by which `one` is ahead of `other`, in words, or "".
std::string IssuedCalls::ahead(const IssuedWords& one, const IssuedWords& other) const {
  const uint64_t there = other.collectives.load(std::memory_order_acquire);
  if (one.collectives.load(std::memory_order_acquire) > there) {
    if (const auto call = one.collective(there + 1)) return call->text();
  }

  for (int channel = 0; channel < kBarrierChannels; ++channel) {
    const auto at = static_cast<size_t>(channel);
    if (one.barriers[at].load() <= other.barriers[at].load()) continue;
    return channel < context_.channels ? format("barrier on channel %d", channel)
                                       : std::string("group_finalize");
  }

  const uint64_t message = one.message.load();
  const uint64_t theirs = other.message.load();
  const bool counts = message != 0 && (theirs == 0 || are_crossed(message, theirs));
  return counts ? name_of(call_of_message(message)) : "";
}

std::optional<IssuedCalls::Difference> IssuedCalls::difference(int peer) const {
  const std::shared_ptr<Block>& segment = segments_[static_cast<size_t>(peer)];
  if (segment == nullptr) return std::nullopt;
  const IssuedWords& theirs = *reinterpret_cast<const IssuedWords*>(segment->data());
  if (mine_->is_captured.load() != 0 || theirs.is_captured.load() != 0) return std::nullopt;

  const uint64_t calls = mine_->all() + theirs.all();
  const uint64_t both = std::min(mine_->collectives.load(), theirs.collectives.load());
  for (uint64_t back = std::min<uint64_t>(both, kRemembered - 1); back > 0; --back) {
    const auto one = mine_->collective(both + 1 - back);
    const auto other = theirs.collective(both + 1 - back);
    if (!one || !other || *one == *other) continue;
    return Difference{one->text(), other->text(), true, false, calls, 0};
  }

  Difference found{
      ahead(*mine_, theirs), ahead(theirs, *mine_), false, true, calls, theirs.looks.load()};
  if (found.mine.empty() || found.theirs.empty()) return std::nullopt;
  const auto waits_alone = [](const IssuedWords& words) {
    return words.waits.load() != 0 && words.is_shared.load() == 0;
  };
  found.is_certain = waits_alone(*mine_) && waits_alone(theirs);
  return found;
}

std::optional<Failure> IssuedCalls::mismatch(bool at_deadline, Seen& seen) const {
  std::vector<std::string> calls(segments_.size());
  const auto me = static_cast<size_t>(context_.rank);
  for (int peer = 0; peer < context_.size; ++peer) {
    if (peer == context_.rank) continue;
    const std::optional<Difference> found = difference(peer);
    if (!found || !(found->is_certain || at_deadline)) continue;
    calls[me] = found->mine;
    calls[static_cast<size_t>(peer)] = found->theirs;
    seen.calls += found->calls;
    if (found->by_waits) seen.looks.push_back(found->looks);
  }
  if (calls[me].empty()) return std::nullopt;
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    if (!calls[rank].empty()) continue;
    const auto& segment = segments_[rank];
    const uint64_t message =
        segment ? reinterpret_cast<const IssuedWords*>(segment->data())->message.load() : 0;
    calls[rank] = message != 0 ? name_of(call_of_message(message)) : calls[me];
  }

  const std::optional<Mismatch> found = mismatch_among(calls);
  if (!found) return std::nullopt;
  const auto right = static_cast<int>(found->right);
  const auto wrong = static_cast<int>(found->wrong);
  return context_.blame(wrong, Status::mismatch,
      format("rank %d makes %s, rank %d makes %s", right, calls[found->right].c_str(), wrong,
          calls[found->wrong].c_str()));
}

Failure IssuedCalls::explained(Failure failure) const {
  if (context_.size == 1) return failure;

  uint64_t last_ns = 0;
  for (const std::shared_ptr<Block>& segment : segments_) {
    if (segment == nullptr) continue;
    const auto& words = *reinterpret_cast<const IssuedWords*>(segment->data());
    last_ns = std::max(last_ns, words.last_ns.load());
  }
  Seen seen;
  const uint64_t now = now_ns();
  if (now - std::min(now, last_ns) >= kPatienceNs) {
    if (std::optional<Failure> found = mismatch(true, seen)) return *std::move(found);
  }

  const int peer = failure.rank;
  if (peer < 0 || peer >= context_.size || peer == context_.rank) return failure;
  if (const std::optional<Difference> found = difference(peer)) {
    failure.message += text("; rank ", peer, " has issued ", found->theirs, " instead");
  }
  return failure;
}
}  // namespace symm::cuda
