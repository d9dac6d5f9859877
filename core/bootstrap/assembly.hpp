// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of one creation find each other in a directory that other creations, other jobs and their remains use as well.
//
// Rank 0 makes a shared directory (directory.hpp) for this creation: an incarnation. The others look for the newest incarnation
// whose rank 0 is alive and which is open, and claim their rank in it (claim.hpp). When every rank's claim is held by a living
// process, rank 0 seals the incarnation. Until then a rank that finds a newer one, or whose rank 0 dies, leaves and looks again;
// from then on nobody can enter, and a death is an error. So what a crashed or stopped former job left behind is passed over, a
// rank may come before rank 0, and successive creations need no numbers that could get out of step.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/wait.hpp"
#include "core/bootstrap/claim.hpp"
#include "core/socket/directory.hpp"

namespace symm {

inline constexpr char kFailedFile[] = "failed";  // why nobody should wait in this incarnation any more

struct AssemblyConfig {
  std::string base;         // private directory, made if missing
  std::string name;         // of the group: creations with different names do not see each other
  std::string description;  // of the bootstrap, for messages
  int rank = 0;
  int size = 1;
  bool remove_base = false;  // when it is empty at the end
};

class Assembly {
 public:
  // Wait until all ranks have come. Throws Error: timeout naming the missing ranks; mismatch if two processes claim one rank, or
  // the sizes differ; peer_failed if a rank came and died. What rank 0 throws, the ranks that had come throw too.
  Assembly(AssemblyConfig config, Deadline deadline);
  ~Assembly();
  Assembly(const Assembly&) = delete;
  Assembly& operator=(const Assembly&) = delete;

  int fd() const noexcept { return place_->fd(); }
  std::string path() const { return place_->path(); }
  const AssemblyConfig& config() const noexcept { return config_; }

  // Look whether one of the other ranks is dead, a different one in each call; throws Error(peer_failed).
  void look_at_next_rank();

 private:
  struct Incarnation {
    std::string name;
    ClaimInfo leader;
  };
  // A reason to fail that passes if it is due to an earlier job just being killed, or about to be replaced: it must last.
  struct Suspicion {
    std::optional<Failure> failure;
    Deadline grace = Deadline::never();
    void raise(Failure why);
    bool lasting() const noexcept { return failure && grace.expired(); }
  };

  void lead(Deadline deadline);
  void await_departure_of_rival(Deadline deadline) const;
  bool all_have_come(Suspicion& suspicion) const;
  bool follow(Suspicion& suspicion);
  void contest(Suspicion& suspicion, const ClaimInfo& leader);

  std::vector<Incarnation> open_incarnations() const;
  std::optional<Incarnation> newest_incarnation() const;
  void replace_older() const;
  static void declare(int directory, const Failure& failure) noexcept;
  void throw_if_declared() const;
  Failure taken(int rank, int64_t pid) const;
  Failure died(int rank, int64_t pid) const;
  Failure missing() const;
  void go_out() noexcept;
  void remove_base() const noexcept;

  AssemblyConfig config_;
  std::string prefix_;
  std::optional<SharedDirectory> place_;
  std::optional<Claim> claim_;
  int next_rank_ = 0;
  int exceptions_;  // in flight at the start; more at the end mean that the creation failed
};

}  // namespace symm
