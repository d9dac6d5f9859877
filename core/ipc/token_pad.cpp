// Signals, waits and fences on the pad of a token. token_pad.hpp has the proof.
#include "core/ipc/token_pad.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "core/backend/backend.hpp"
#include "core/backend/segment.hpp"
#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/process.hpp"
#include "core/base/spin_policy.hpp"
#include "core/base/timed_mutex.hpp"
#include "core/base/wait.hpp"
#include "kernels/compare.hpp"
#include "kernels/piece_list.hpp"

namespace symm::ipc {
namespace {
// A writer that is stopped may be the reason for a wait that ends in vain.
std::string with_state(const std::string& name, int64_t pid) {
  const auto stat = pid != 0 ? process::stat_of(pid) : std::nullopt;
  return stat && stat->stopped() ? name + ", which is stopped" : name;
}

uint64_t shown_ms(uint64_t timeout_ms) { return timeout_ms == Deadline::kNow ? 0 : timeout_ms; }
}  // namespace

void require_channel(const PadShape& shape, int channel, const char* argument) {
  if (channel >= 0 && static_cast<uint32_t>(channel) < shape.channels) return;
  throw Error(Status::invalid_argument,
      format("%s: %d is not in 0 .. %u", argument, channel, shape.channels - 1));
}

OwnedPad::OwnedPad(uint64_t offset, const PadShape& shape)
    : offset_(offset),
      pad_(host::Segment::create(TokenPad::bytes(shape), "symm-ipc-pad"), shape),
      spin_(SpinPolicy::for_ranks(2, usable_processors())) {
  for (uint32_t writer = 0; writer < kMostPadWriters; ++writer) {
    pad_.under_way(writer).store(kNoPut);
  }
}

// ---- who writes

uint32_t OwnedPad::admit(int64_t pid, std::string name) {
  const std::lock_guard lock(mutex_);
  const auto free = std::find(std::begin(writers_), std::end(writers_), std::nullopt);
  if (free == std::end(writers_)) {
    throw Error(Status::unavailable,
        format("token: %u imports of it write already, which is the most", kMostPadWriters));
  }
  *free = Writer{pid, std::move(name)};
  lost_.reset();
  return static_cast<uint32_t>(free - std::begin(writers_));
}

void OwnedPad::leave(uint32_t writer) noexcept {
  const std::lock_guard lock(mutex_);
  pad_.under_way(writer).store(kNoPut);
  writers_[writer].reset();
}

// The number of a writer that may live after all is given to no other.
void OwnedPad::lose(uint32_t writer, bool surely) noexcept {
  {
    const std::lock_guard lock(mutex_);
    std::optional<Writer>& gone = writers_[writer];
    if (surely) {
      pad_.under_way(writer).store(kNoPut);
      lost_ = std::exchange(gone, std::nullopt);
    } else {
      lost_ = gone;
      gone->may_be_dead = true;
    }
  }
  ring_bell();
}

void OwnedPad::end() noexcept {
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  ring_bell();
}

bool OwnedPad::is_over() const noexcept {
  const std::lock_guard lock(mutex_);
  return has_ended_ && std::none_of(std::begin(writers_), std::end(writers_),
                           [](const auto& writer) { return writer.has_value(); });
}

// ---- the owner waits

WaitEnd OwnedPad::await(const Predicate& holds, const Predicate& unreachable, const char* what,
    LazyDeadline& deadline) {
  const Word* const bells[] = {&pad_.bell()};
  const Condition condition{
      .holds = holds, .unreachable = unreachable, .bells = bells, .what = what};
  return wait_condition(condition, pad_.sleepers(), never_, spin_, deadline);
}

// Whether no writer is left that could change a word: the last ones died, or the token has ended.
bool OwnedPad::is_hopeless() const {
  const std::lock_guard lock(mutex_);
  const bool is_one_here = std::any_of(std::begin(writers_), std::end(writers_),
      [](const auto& writer) { return writer && !writer->may_be_dead; });
  return has_ended_ || (lost_ && !is_one_here);
}

Failure OwnedPad::hopeless(const std::string& what) const {
  const std::lock_guard lock(mutex_);
  if (has_ended_) {
    return {Status::invalid_handle, -1, 0, what + ": its owner has released or withdrawn it"};
  }
  return {Status::peer_failed, -1, lost_->pid,
      format("%s: %s, which was to write it, is gone", what.c_str(), lost_->name.c_str())};
}

Failure OwnedPad::late(const std::string& what, uint64_t timeout_ms) const {
  const std::lock_guard lock(mutex_);
  const auto is_there = [](const auto& writer) { return writer.has_value(); };
  const auto count = std::count_if(std::begin(writers_), std::end(writers_), is_there);
  const std::string text = format("%s, within %lu ms: ", what.c_str(), shown_ms(timeout_ms));
  if (count == 0) {
    return {Status::timeout, -1, 0, text + "nobody has imported the token, or all have let go"};
  }

  const Writer& one = **std::find_if(std::begin(writers_), std::end(writers_), is_there);
  const std::string name = with_state(one.name, one.pid);
  if (count > 1) {
    return {Status::timeout, -1, 0,
        text + format("%ld imports may write it, one of them of %s", count, name.c_str())};
  }
  return {Status::timeout, -1, one.pid, text + "it was to come from " + name};
}

uint64_t OwnedPad::wait_value(
    uint32_t channel, Compare compare, uint64_t value, uint64_t timeout_ms) {
  uint64_t seen = 0;
  const auto is_there = [&] {
    seen = pad_.word(channel).load(std::memory_order_seq_cst);
    return holds(seen, compare, value);
  };
  const auto unreachable = [&] { return is_hopeless(); };

  LazyDeadline deadline(timeout_ms);
  const WaitEnd end = await(is_there, unreachable, "ipc_wait_value", deadline);
  if (end == WaitEnd::reached) return seen;
  const std::string what =
      format("wait_value: the word of the token on channel %u was %lu, not %s %lu", channel, seen,
          sign_of(compare), value);
  throw Error(end == WaitEnd::peer_departed ? hopeless(what) : late(what, timeout_ms));
}

// ---- fences

// The bytes of the piece that a range of the block has, counted from the start of the piece.
OwnedPad::Range OwnedPad::within(uint64_t offset, uint64_t bytes) const noexcept {
  const uint64_t first = std::max(offset, offset_);
  const uint64_t end = std::min(offset + bytes, offset_ + pad_.shape().bytes);
  return {first - offset_, end - offset_};
}

void OwnedPad::require_whole_parts(uint64_t offset, uint64_t bytes) const {
  const PadShape& shape = pad_.shape();
  const auto [first, end] = within(offset, bytes);
  const bool is_whole =
      first % shape.fence_bytes == 0 && (end % shape.fence_bytes == 0 || end == shape.bytes);
  if (is_whole) return;
  throw Error(Status::invalid_argument,
      format("bytes: bytes %lu .. %lu of the piece of a token are not whole parts of %lu bytes, "
             "its fence_bytes",
          first, end - 1, shape.fence_bytes));
}

void OwnedPad::raise(uint64_t offset, uint64_t bytes, uint64_t epoch) noexcept {
  const auto [first, end] = within(offset, bytes);
  const uint64_t fence_bytes = pad_.shape().fence_bytes;
  const std::lock_guard lock(mutex_);  // of this process alone, so that a fence only grows
  for (uint64_t part = first / fence_bytes; part * fence_bytes < end; ++part) {
    std::atomic<uint64_t>& fence = pad_.fence(part);
    if (fence.load(std::memory_order_seq_cst) < epoch) {
      fence.store(epoch, std::memory_order_seq_cst);
    }
  }
}

std::optional<uint32_t> OwnedPad::first_late(uint64_t epoch) const {
  const std::lock_guard lock(mutex_);
  for (uint32_t i = 0; i < kMostPadWriters; ++i) {
    if (writers_[i] && pad_.under_way(i).load(std::memory_order_seq_cst) < epoch) return i;
  }
  return std::nullopt;
}

void OwnedPad::await_late_puts(uint64_t epoch, Deadline deadline) {
  std::optional<uint32_t> late;
  const auto is_over = [&] {
    late = first_late(epoch);
    return !late;
  };
  const auto unreachable = [&] {
    const std::lock_guard lock(mutex_);
    return late && writers_[*late] && writers_[*late]->may_be_dead;
  };

  LazyDeadline limit(deadline.expired() ? Deadline::kNow : deadline.left_ms());
  const WaitEnd end = await(is_over, unreachable, "ipc_fence", limit);
  if (end == WaitEnd::reached) return;
  const std::lock_guard lock(mutex_);
  const std::optional<Writer>& writer = writers_[*late];  // that may have left just now
  const int64_t pid = writer ? writer->pid : 0;
  const std::string name = writer ? with_state(writer->name, pid) : "a process that has left";
  if (end == WaitEnd::peer_departed) {
    throw Error({Status::peer_failed, -1, pid,
        format("fence: %s is gone, but its death cannot be confirmed: it may still be writing",
            name.c_str())});
  }
  throw Error({Status::timeout, -1, pid,
      format("fence: a put of an epoch before %lu, by %s, is not over", epoch, name.c_str())});
}

// ---- the importer

void ImportedPad::send_signal(const OutgoingSignal& signal) noexcept {
  std::atomic<uint64_t>& word = pad_.word(static_cast<uint32_t>(signal.channel));
  if (signal.op == SignalOp::add) {
    word.fetch_add(signal.value, std::memory_order_seq_cst);
  } else {
    word.store(signal.value, std::memory_order_seq_cst);
  }
  ring(pad_.bell(), pad_.sleepers());
}

void ImportedPad::require_not_late(const PieceList& list, uint64_t offset, uint64_t epoch) const {
  const uint64_t fence_bytes = pad_.shape().fence_bytes;
  each_stretch(list, [&](uint64_t to, uint64_t, uint64_t bytes) {
    const uint64_t last = (offset + to + bytes - 1) / fence_bytes;
    for (uint64_t part = (offset + to) / fence_bytes; part <= last; ++part) {
      const uint64_t fence = pad_.fence(part).load(std::memory_order_seq_cst);
      if (epoch >= fence) continue;
      throw Error(Status::aborted,
          format("epoch: %lu is late: from byte %lu on the owner takes puts of epoch %lu and later",
              epoch, part * fence_bytes, fence));
    }
  });
}

void ImportedPad::put(const PieceList& list, uint64_t offset, uint64_t epoch, uint64_t timeout_ms,
    const std::function<void()>& copy, const std::optional<OutgoingSignal>& signal) {
  const TimedLock turn(turn_, timeout_ms, "put_pieces");
  // Takes the epoch back, whatever happens, and wakes an owner that waits for that.
  class UnderWay {
   public:
    UnderWay(const TokenPad& pad, uint32_t writer, uint64_t epoch)
        : pad_(pad), word_(pad.under_way(writer)) {
      word_.store(epoch, std::memory_order_seq_cst);
    }
    ~UnderWay() {
      word_.store(kNoPut, std::memory_order_seq_cst);
      ring(pad_.bell(), pad_.sleepers());
    }
    UnderWay(UnderWay&&) = delete;

   private:
    const TokenPad& pad_;
    std::atomic<uint64_t>& word_;
  };

  const UnderWay mine(pad_, writer_, epoch);
  require_not_late(list, offset, epoch);
  SYMM_POINT("ipc.put");
  copy();
  if (signal) send_signal(*signal);
}
}  // namespace symm::ipc
