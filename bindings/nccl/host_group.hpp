// A host group of the ranks of a communicator. It knows which ranks live, and by it the
// ranks come to agree on whether symm may do collectives of the communicator.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/meeting.hpp"
#include "bindings/nccl/symm_library.hpp"
#include <symm/symm.h>

namespace symm::nccl {
// The facts that a rank tells the other ranks of a communicator.
struct Facts {
  // A hash of the settings that must be equal on all ranks.
  uint64_t settings = 0;
  // Whether symm may do collectives here.
  bool is_able = false;
  // Whether this process has a NCCL.
  bool has_nccl = true;
};

// A rank without the drop-in never comes. The others wait for it on threads of their own.
inline constexpr uint64_t kMeetingMs = 5'000;

// Where there is no NCCL, ranks may be late by as long as one of them loads a model. NCCL has no
// deadline here, and SYMM_NCCL_TIMEOUT_MS sets another.
inline constexpr uint64_t kArrivalMs = 600'000;

// The directory where ranks meet. It is this user's, and the same for all ranks of a machine.
std::string meeting_place();

// Reads all variables of the drop-in and of symm, once. A thread of the program calls this before
// one of the drop-in's own needs them: beside that one the program may call setenv().
void read_variables();

class HostGroup {
 public:
  // Begins to meet the other ranks, on a thread of its own, and returns. If not all come within
  // `wait_ms`, as when one runs without the drop-in, there is no group, and the log says so. Later
  // waits for words of the others have the deadline of SYMM_NCCL_TIMEOUT_MS. Without that variable
  // they have none, as NCCL's; where there is no NCCL, `wait_ms`.
  static std::shared_ptr<HostGroup> meet(const Meeting& meeting, int rank, int size,
      const Facts& facts, uint64_t wait_ms = kMeetingMs);

  // Whether all ranks have met, with equal settings, and able. All ranks get the same
  // answer, unless one has died. Waits until they have met or have not, which goes on
  // without the program: `wait_ms` at most, and then while a process is stopped. leave() ends the
  // wait.
  bool agreed();
  // Whether agreed() has an answer, or has one within this time.
  bool has_answer(std::chrono::milliseconds within);
  // Why they have not, once agreed() has said so, and whether all ranks had come.
  std::string disagreement();
  bool has_met();

  // The words of all ranks, if none has failed, and all come before the deadline. If not, the group
  // has failed. A collective call of the ranks that agreed.
  std::optional<std::vector<uint64_t>> exchange(const std::vector<uint64_t>& words);

  // Whether all ranks wish. A collective call of the ranks that agreed.
  bool all_wish(bool wish);

  // Ends all_wish() on all ranks. Never waits; any thread.
  void interrupt() noexcept;

  // Tells the other ranks that this process ends with a status that is not 0, unless the group has
  // failed before. Never waits; any thread.
  void tell_exit(int status) noexcept;

  // Leaves the group. Never waits; any thread.
  void leave() noexcept;

  // Why the group has failed, or which rank has left it and not come back to its senses: a rank
  // that was here and left without ncclCommDestroy() on the others is a failure after a while. The
  // first rank that finds that tells the others, which may ask when more ranks have left. `version`
  // is the NCCL that the caller was compiled with. Never waits.
  std::optional<GroupFailure> failure(uint32_t version);
  // Why the group has failed, without regard to ranks that have left. Never waits.
  std::optional<GroupFailure> failure_told(uint32_t version);
  // Says which of these ranks have died or left; none if all are there. Never waits.
  std::optional<std::string> gone_of(const std::vector<int>& ranks);

 private:
  void form(const Meeting& meeting, int rank, int size, uint64_t wait_ms) noexcept;
  bool join(const Meeting& meeting, int rank, int size, uint64_t wait_ms);
  bool agree(uint64_t wait_ms);
  std::optional<std::vector<uint64_t>> exchange(
      const std::vector<uint64_t>& words, uint64_t wait_ms);
  bool disagree(const std::string& why);
  symm_group_t* hold();
  // These need the lock, and a group.
  std::optional<GroupFailure> told(uint32_t version);
  std::optional<GroupFailure> departure(uint32_t version);
  std::vector<int32_t> gone_ranks();
  std::string name_of(int rank);
  std::string sentence_of(const std::vector<int32_t>& gone);
  void tell(const std::string& sentence);

  int rank_ = 0;
  int size_ = 0;
  Facts facts_;
  uint64_t exchange_ms_ = SYMM_TIMEOUT_INFINITE;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool formed_ = false;
  bool agreed_ = false;
  std::string disagreement_;
  symm_group_t* group_ = nullptr;
  bool left_ = false;
  // The ranks that were first seen to have left, and when.
  std::vector<int32_t> departed_;
  std::chrono::steady_clock::time_point departed_at_{};
};
}  // namespace symm::nccl
