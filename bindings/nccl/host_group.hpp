// A host group of the ranks of a communicator. Nothing is sent over it: it knows which ranks live.
// This is the only file of the drop-in that calls symm.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/meeting.hpp"
#include <symm/symm.h>

namespace symm::nccl {
struct GroupFailure {
  Result result;
  std::string sentence;
};

class HostGroup {
 public:
  // Begins to meet the other ranks, on a thread of its own, and returns. If not all come within
  // five seconds, as when one runs without the drop-in, there is no group, and the log says so.
  static std::shared_ptr<HostGroup> meet(const Meeting& meeting, int rank, int size);

  // Leaves the group. Never waits; any thread.
  void leave() noexcept;

  // Why the group has failed, or which rank has left it and not come back to its senses: a rank
  // that was here and left without ncclCommDestroy() on the others is a failure after a while.
  // `version` is the NCCL that the caller was compiled with. Never waits.
  std::optional<GroupFailure> failure(uint32_t version);

 private:
  void form(const Meeting& meeting, int rank, int size) noexcept;
  std::optional<GroupFailure> departure();

  std::mutex mutex_;
  symm_group_t* group_ = nullptr;
  bool left_ = false;
  // When a rank was first seen to have left.
  std::optional<std::chrono::steady_clock::time_point> departed_;
};
}  // namespace symm::nccl
