// The steps of a move: the ranks tell what they bring and agree on it, one of those that bring a
// heap tells newcomers of its pieces, and all meet.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/page.hpp"
#include "core/base/text.hpp"
#include "core/bootstrap/store.hpp"
#include "core/group/agreement.hpp"
#include "core/group/checks.hpp"
#include "core/group/exchange.hpp"
#include "core/group/group.hpp"
#include "core/group/heap.hpp"
#include "core/group/memory.hpp"
#include "core/group/moving.hpp"
#include "core/mesh/mesh.hpp"

namespace symm {
namespace {
// What a rank brings, as it tells the others. All zero: nothing.
struct Brought {
  uint64_t size = 0;  // ranks of the memory's group
  uint64_t rank = 0;
  uint64_t id = 0;  // of the memory
  uint64_t bytes = 0;
  uint64_t channels = 0;
  // If it is a heap: the alignment of its block, its calls, and how many numbers tell its pieces.
  uint64_t alignment = 0;
  uint64_t calls = 0;
  uint64_t history = 0;
  uint64_t saved = 0;
};
static_assert(sizeof(Brought) <= sizeof(Vote::value));

Brought brought_by(const Memory* memory) {
  if (memory == nullptr) return {};
  return {static_cast<uint64_t>(memory->group().size()),
      static_cast<uint64_t>(memory->group().rank()), memory->view().id, memory->view().bytes,
      static_cast<uint64_t>(memory->view().channels)};
}

// What all ranks have agreed on.
struct Moved {
  Moving moving;
  Brought brought;
  int leader = -1;  // the lowest rank that brings something
};

[[noreturn]] void refuse(Status status, size_t rank, const std::string& why) {
  throw Agreed({status, static_cast<int>(rank), 0, why});
}

void require_same(const Brought& one, size_t leader, const Brought& other, size_t rank) {
  if (one.id != other.id || one.bytes != other.bytes || one.size != other.size ||
      one.channels != other.channels) {
    refuse(Status::mismatch, rank,
        format("memory: rank %zu brings memory %016lx of %lu bytes, rank %zu brings %016lx of %lu",
            leader, one.id, one.bytes, rank, other.id, other.bytes));
  }
  if (one.history != other.history || one.calls != other.calls) {
    refuse(Status::mismatch, rank,
        format("heap: its ranks have made different calls, rank %zu %lu of them, rank %zu %lu",
            leader, one.calls, rank, other.calls));
  }
}

Moved moved_by(std::span<const Vote> votes) {
  Moved moved;
  std::vector<bool> seen;
  moved.moving.in_place = true;
  for (size_t rank = 0; rank < votes.size(); ++rank) {
    Brought theirs;
    std::memcpy(&theirs, votes[rank].value, sizeof theirs);
    moved.moving.former.push_back(theirs.size == 0 ? -1 : static_cast<int>(theirs.rank));
    if (theirs.size == 0) continue;

    if (moved.leader < 0) {
      moved.leader = static_cast<int>(rank);
      moved.brought = theirs;
      seen.resize(std::min<uint64_t>(theirs.size, kMostRanks));
    }
    require_same(moved.brought, static_cast<size_t>(moved.leader), theirs, rank);
    if (theirs.rank >= seen.size() || seen[theirs.rank]) {
      refuse(Status::peer_failed, rank,
          format("rank %zu says that it was rank %lu of %lu", rank, theirs.rank, theirs.size));
    }
    seen[theirs.rank] = true;
    moved.moving.in_place &= theirs.rank == rank && theirs.size == votes.size();
  }
  if (moved.leader < 0) {
    refuse(Status::invalid_argument, 0, "memory, heap: is NULL on all ranks, so nothing moves");
  }
  return moved;
}

// Throws for what this rank must not bring.
void require_movable(Group& group, const Memory& memory) {
  memory.require_not_moved();
  if (&memory.group() == &group) {
    throw Error(Status::invalid_argument, "new_group: has this memory already");
  }
  if (memory.shared_buffer()->memory_on(group)) {
    throw Error(Status::invalid_argument, "new_group: the buffer of the memory has met on it");
  }
}

// The call of one rank, from what it brings to the memory that it gets.
class Move {
 public:
  Move(std::shared_ptr<Group> group, const char* call, uint64_t tag, uint64_t timeout_ms)
      : group_(std::move(group)), call_(call), tag_(tag), timeout_ms_(timeout_ms) {
    // A group that was revoked fails in step with the ranks that do not know of it yet.
    try {
      group_->require_usable();
    } catch (const Error& error) {
      if (error.status() == Status::invalid_handle) throw;
    }
    if (group_->machines().count > 1) {
      throw Error(Status::unsupported,
          format("new_group: is on %d machines, and memory moves on one machine so far",
              group_->machines().count));
    }
    group_->with_refusals_told(call_, [&] { require_waiting(timeout_ms, "options.timeout_ms"); });
    deadline_ = timeout_ms != 0 ? Deadline::after_ms(timeout_ms) : group_->create_deadline();
  }

  // `bring` returns what this rank brings, or throws for all ranks; `tell` is made when they have
  // agreed, and before the memory is made.
  template <class Bring, class Tell>
  std::shared_ptr<Memory> make(
      const std::shared_ptr<Memory>& from, const Bring& bring, const Tell& tell) {
    bool has_agreed = false;
    bool all_have_it = false;
    try {
      moved_ = agree(from.get(), bring);
      moved_.moving.from = from;
      moved_.moving.agree = [&] {
        SYMM_POINT("move.done");
        has_agreed = true;
        Failure failure = outcome({}, deadline_);
        if (failure.status != Status::ok) throw Error(std::move(failure));
        all_have_it = true;
      };
      const Memory::MakeBuffer make = [&] {
        tell(moved_);
        return from ? brought(*from) : made();
      };
      return meet(
          group_, make, tag_, static_cast<int>(moved_.brought.channels), deadline_, &moved_.moving);
    } catch (const std::exception& error) {
      // A failure after the others have the memory is this rank's alone, so they hear of it.
      if (all_have_it) group_->fail(group_->blamed(current_failure()));
      if (has_agreed) end(current_failure());
      const bool is_in_step = dynamic_cast<const Agreed*>(&error) != nullptr;
      // Ranks that wait for this one hear that it is out of step. Those that are in the call come
      // at once then, and others may be in another call.
      if (!is_in_step) group_->fail(group_->blamed(current_failure()));
      end(outcome(current_failure(), is_in_step ? deadline_ : Deadline::after_ms(0)));
    }
  }

  // The leader tells newcomers of a heap's pieces, in messages of their own.
  void tell(std::span<const uint32_t> saved) const {
    for (size_t rank = 0; rank < moved_.moving.former.size(); ++rank) {
      if (moved_.moving.former[rank] >= 0) continue;
      for (auto left = saved; !left.empty(); left = left.subspan(part(left.size()))) {
        group_->send(static_cast<int>(rank), told_, std::as_bytes(left.first(part(left.size()))),
            {}, deadline_);
      }
    }
  }

  std::vector<uint32_t> hear() const {
    std::vector<uint32_t> saved(moved_.brought.saved);
    for (auto left = std::span(saved); !left.empty(); left = left.subspan(part(left.size()))) {
      const auto bytes = std::as_writable_bytes(left.first(part(left.size())));
      SYMM_POINT("move.hear");
      const Message message = group_->receive(moved_.leader, told_, bytes.size(), 0, deadline_);
      std::copy(message.body.begin(), message.body.end(), bytes.begin());
    }
    return saved;
  }

  // The messages of a heap's pieces fit into the inbox of a newcomer that is slow to read.
  static constexpr size_t kMostSaved = 4'000 * (kMaxBody / sizeof(uint32_t));

 private:
  // The failure of the call, for all ranks that live.
  Failure outcome(const Failure& mine, Deadline deadline) const {
    try {
      return group_->agree_on_outcome(mine, deadline_to_hear(deadline));
    } catch (...) {
      return mine.status == Status::ok ? current_failure() : mine;
    }
  }

  // Ends the call with the failure of all ranks that live. After a death, or without a rank that
  // was late, the group is of no use.
  [[noreturn]] void end(Failure failure) const {
    const bool is_late = failure.status == Status::timeout ||
                         failure.status == Status::peer_failed || failure.status == Status::aborted;
    failure.message = format("%s: %s", call_, failure.message.c_str());
    if (is_late) group_->fail(group_->blamed(failure));
    throw Error(std::move(failure));
  }

  static size_t part(size_t numbers) { return std::min(numbers, kMaxBody / sizeof(uint32_t)); }

  template <class Bring>
  Moved agree(const Memory* from, const Bring& bring) {
    const uint64_t sequence = group_->next_sequence(tag_);
    told_ = {MessageKind::segment, group_->id(), tag_, sequence};
    Vote vote;
    try {
      if (from != nullptr) require_movable(*group_, *from);
      const Brought mine = bring();
      std::memcpy(vote.value, &mine, sizeof mine);
    } catch (...) {
      vote.failure = current_failure();
    }
    SYMM_POINT("move.agree");
    return moved_by(commit_vote(
        *group_, {MessageKind::vote, group_->id(), tag_, sequence * 2}, vote, deadline_));
  }

  std::shared_ptr<Buffer> brought(const Memory& from) const {
    from.shared_buffer()->require_no_stragglers(patience_with_stragglers(*group_, timeout_ms_));
    return from.shared_buffer();
  }

  std::shared_ptr<Buffer> made() const {
    Placement placement;
    if (std::has_single_bit(moved_.brought.alignment)) {
      placement.alignment = moved_.brought.alignment;
    }
    return Buffer::allocate(*group_, moved_.brought.bytes, placement);
  }

  const std::shared_ptr<Group> group_;
  const char* const call_;
  const uint64_t tag_;
  const uint64_t timeout_ms_;
  Deadline deadline_ = Deadline::never();
  Topic told_;
  Moved moved_;
};
}  // namespace

std::shared_ptr<Memory> Memory::move(
    const std::shared_ptr<Group>& group, const std::shared_ptr<Memory>& from, uint64_t timeout_ms) {
  const Trace traced(group->page(), "memory_move");
  Move move(group, "memory_move", kMoveTag, timeout_ms);
  // The list gets its room before the ranks meet, as in a rendezvous.
  std::list<std::shared_ptr<Memory>> kept(1);
  std::shared_ptr<Memory> memory =
      move.make(from, [&] { return brought_by(from.get()); }, [](const Moved&) {});
  kept.front() = memory;
  group->keep(std::move(kept));
  return memory;
}

std::shared_ptr<Heap> Heap::move(
    const std::shared_ptr<Group>& group, const std::shared_ptr<Heap>& from, uint64_t timeout_ms) {
  const Trace traced(group->page(), "heap_move");
  Move move(group, "heap_move", kMoveTag, timeout_ms);
  std::vector<uint32_t> saved;
  std::shared_ptr<Heap> heap;

  const auto bring = [&] {
    Brought mine = brought_by(from ? from->memory_.get() : nullptr);
    if (!from) return mine;
    const std::lock_guard lock(from->books_->mutex);
    saved = from->books_->pieces.save();
    if (saved.size() > Move::kMostSaved) {
      throw Error(Status::unsupported,
          format("heap: has %zu pieces, too many to tell a newcomer of",
              from->books_->pieces.pieces() + from->books_->pieces.free_pieces()));
    }
    mine.alignment = from->options_.placement.alignment;
    mine.calls = from->books_->calls;
    mine.history = from->books_->history;
    mine.saved = saved.size();
    return mine;
  };
  const auto tell = [&](const Moved& moved) {
    const Brought& brought = moved.brought;
    if (from && moved.leader == group->rank()) move.tell(saved);
    if (from) {
      heap = std::make_shared<Heap>(from->books_, from->options_);
      return;
    }

    if (brought.bytes % Suballocator::kUnit != 0 || brought.bytes > Suballocator::kMostBytes ||
        brought.saved > Move::kMostSaved || !std::has_single_bit(brought.alignment)) {
      throw Error({Status::peer_failed, moved.leader, 0, "a peer told of what is no heap"});
    }
    Options options;
    options.placement.alignment = brought.alignment;
    heap = std::make_shared<Heap>(std::make_shared<Books>(brought.bytes, move.hear()), options);
    heap->books_->calls = brought.calls;
    heap->books_->history = brought.history;
  };

  auto memory = move.make(from ? from->memory_ : nullptr, bring, tell);
  heap->lie_in(std::move(memory));
  return heap;
}
}  // namespace symm
