// Ranks of one communicator of which some have NCCL and some have none: neither can wait for the
// other, so each is told.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/meeting.hpp"

namespace symm::nccl {
// A rank that cannot use an id leaves a mark for those that wait by it, or come later: one without
// NCCL for ranks with NCCL, and one with NCCL for ranks that meet by an id of a process without. It
// lies where the ranks of this machine and user meet; marks older than an hour are removed with it.
void leave_mark(const Meeting& meeting, int rank) noexcept;

// Who has left a mark, such as "rank 1 (pid 4711)"; none if nobody has.
std::optional<std::string> mark_of(const Meeting& meeting) noexcept;

// How often a rank that waits looks for a mark.
inline constexpr std::chrono::milliseconds kLook{100};

// Says who has left a mark. The result for a call by that id, with NCCL.
Result refuse_mark(const std::string& who) noexcept;

// What a call that makes a communicator has from its caller until it returns.
struct Lent {
  Config* config = nullptr;
  // Those that ncclCommInitRankScalable() has.
  UniqueId* ids = nullptr;
  size_t count = 0;
};
using Creation = std::function<Result(Comm*, const Lent&)>;

// NCCL makes a communicator of all ranks in `make`, and waits for them without an end. So it is
// called on a thread of its own, in the context of this one and with a copy of what is lent, and
// this thread waits for it, or for a mark: then NCCL's thread is left where it waits, and nothing
// is made. A thread without a context may have chosen a device all the same, by a runtime that it
// shares with NCCL, and then NCCL is called on it, and waits.
Result make_unless_mixed(
    const Meeting& meeting, Comm* comm, const Lent& lent, const Creation& make) noexcept;
}  // namespace symm::nccl
