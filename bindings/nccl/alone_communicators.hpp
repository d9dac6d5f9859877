// The communicators that the drop-in makes where there is no NCCL: their ranks meet, and symm makes
// its groups. Calls between ncclGroupStart() and ncclGroupEnd() make them at the outermost end.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/cuda_group.hpp"
#include "bindings/nccl/failures.hpp"
#include "bindings/nccl/host_group.hpp"
#include "bindings/nccl/meeting.hpp"

namespace symm::nccl::alone {
// A communicator of the drop-in's own; a Comm is its address.
struct Alone {
  Meeting meeting{};
  int rank = 0;
  int size = 1;
  // The ranks of a child, as its parent numbers them.
  std::vector<int> members;
  int device = 0;
  uint32_t version = 0;
  bool is_blocking = true;
  std::string name;
  // kInProgress until all ranks are there and symm has made its groups.
  std::atomic<Result> state{kInProgress};
  // Children that do not block and are in progress, for which this one is, too.
  std::atomic<int> making{0};

  std::mutex mutex;
  std::shared_ptr<HostGroup> ranks;
  std::shared_ptr<CudaGroup> cuda_group;
  bool is_ended = false;
  // Threads that wait for words of the other ranks, and children that are being made: both end with
  // the communicator.
  int exchanging = 0;
  std::vector<std::shared_ptr<Alone>> unfinished;
};
using Shared = std::shared_ptr<Alone>;

// That of an address which the program has; null if there is none.
Shared find(Comm comm);

// One that a configuration describes.
Shared describe(const Config* config);
// The same for a child, which is as its parent where the configuration says nothing.
Shared describe_child(const Config* config, const Shared& parent);

// A communicator that is to be made: its address goes to *where.
struct Job {
  Shared one;
  Comm* where;
  // That of a child, whose children its ranks make in one order, and else null.
  Shared parent = nullptr;
  // ncclCommSplit().
  bool is_split = false;
  int color = 0;
  int key = 0;

  // A rank without a color has no part in a child.
  bool has_part() const { return !is_split || color >= 0; }
};

// Makes them, now or at the end of the group of calls. Waits for the other ranks, unless they do
// not block.
Result make(const std::vector<Job>& jobs);

// Groups of calls of this thread.
void open_group();
// Whether one was open. The result is that of what was made, unless the group is only dropped.
bool close_group(bool is_dropped, Result& result);

// Ends a communicator; whether there was one.
bool end(Comm comm, bool aborts);

// Says why a call fails, which then returns `result`.
Result refuse(Result result, const std::string& sentence);

// A call that ends by an exception has had no memory, or no thread.
template <class Body>
Result guard(const char* call, Body body) noexcept {
  try {
    return body();
  } catch (...) {
    char sentence[128];
    std::snprintf(sentence, sizeof sentence, "%s: there is no memory", call);
    say(sentence, kSystemError);
    return kSystemError;
  }
}
}  // namespace symm::nccl::alone
