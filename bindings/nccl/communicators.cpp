// Makes, keeps and ends the entries of the table: the calls by which communicators come and go.
#include "bindings/nccl/communicators.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/failures.hpp"
#include "bindings/nccl/forwarding.hpp"
#include "bindings/nccl/host_group.hpp"
#include "bindings/nccl/meeting.hpp"
#include "bindings/nccl/settings.hpp"

namespace symm::nccl {
namespace {
// A communicator that a call has made, or is making: NCCL writes its address to *where.
struct Made {
  Comm* where;
  Meeting meeting;
  uint32_t version;
};

struct Entry {
  Meeting meeting{};
  uint32_t version = 0;
  // Null until NCCL has said that all ranks are there, and for what cannot be watched.
  std::shared_ptr<HostGroup> group;
  bool started = false;
  // ncclCommFinalize() was called: other ranks may leave.
  bool ending = false;
  bool failure_said = false;
  // Calls of ncclCommSplit() and ncclCommShrink(), which all ranks make in the same order.
  uint64_t children = 0;
  // Children that NCCL is making. The program must keep *where until ncclCommGetAsyncError() of
  // this communicator has said that they are there, and there they are taken.
  std::vector<Made> awaited;
};

struct Table {
  std::mutex mutex;
  std::unordered_map<Comm, Entry> entries;
  const pid_t pid = getpid();
};

Table& table();

// A process that ends leaves its groups in good order, so that the others hear that it has left,
// and not that it was killed. A forked child has no part in them.
void leave_all() {
  Table& all = table();
  if (all.pid != getpid() || !all.mutex.try_lock()) return;
  for (auto& [comm, entry] : all.entries) {
    if (entry.group != nullptr) entry.group->leave();
  }
  all.mutex.unlock();
}

Table& table() {
  static auto* const all = [] {
    auto* const made = new Table;
    std::atexit(leave_all);
    return made;
  }();
  return *all;
}

std::optional<Entry> take_out(Comm comm) noexcept {
  const std::lock_guard lock(table().mutex);
  const auto found = table().entries.find(comm);
  if (found == table().entries.end()) return std::nullopt;
  std::optional<Entry> entry(std::move(found->second));
  table().entries.erase(found);
  return entry;
}

void leave(const std::optional<Entry>& entry) noexcept {
  if (entry && entry->group != nullptr) entry->group->leave();
}

// All ranks are there: they meet. NCCL tells rank and size, unless it is not ready to.
void start(Comm comm, Entry& entry) {
  if (entry.started) return;
  int rank = 0;
  int size = 0;
  if (real<Result, Comm, int*>(Function::ncclCommUserRank)(comm, &rank) != kSuccess ||
      real<Result, Comm, int*>(Function::ncclCommCount)(comm, &size) != kSuccess) {
    return;
  }
  entry.started = true;
  entry.group = HostGroup::meet(entry.meeting, rank, size);
}

// Notes a communicator. If the result of the call that made it is kInProgress, it is watched from
// when ncclCommGetAsyncError() has said that it is complete.
void note(const Made& made, Result result) {
  Comm const comm = *made.where;
  if (comm == nullptr) return;
  Entry entry;
  entry.meeting = made.meeting;
  entry.version = made.version;
  if (result == kSuccess) start(comm, entry);

  const std::lock_guard lock(table().mutex);
  const auto [place, is_new] = table().entries.try_emplace(comm, std::move(entry));
  // NCCL has given the memory of a communicator to another one, which ended in a way that is not
  // seen here.
  if (is_new) return;
  leave(std::move(place->second));
  place->second = std::move(entry);
}

// What this thread has made since its outermost ncclGroupStart(). NCCL completes it in
// ncclGroupEnd(), and writes the pointers there.
struct OpenGroup {
  int depth = 0;
  std::vector<Made> made;
};
thread_local OpenGroup open_group;

// All ranks of a communicator may be devices of this process: then nobody can die alone.
bool is_whole(const std::vector<Made>& all, const Made& one) {
  int size = 0;
  const auto count = real<Result, Comm, int*>(Function::ncclCommCount);
  if (count(*one.where, &size) != kSuccess) return false;
  const auto same = [&](const Made& other) { return other.meeting == one.meeting; };
  return std::count_if(all.begin(), all.end(), same) == size;
}

void finish(Made made, Result result) noexcept {
  try {
    if (result != kSuccess && result != kInProgress) return;
    if (open_group.depth > 0) {
      open_group.made.push_back(made);
    } else {
      note(made, result);
    }
  } catch (...) {
    log("a communicator is not watched: no memory");
  }
}

// The name for the next child of a communicator, if its parent has one.
std::optional<Meeting> next_child(Comm parent, int64_t color) noexcept {
  const std::lock_guard lock(table().mutex);
  const auto found = table().entries.find(parent);
  if (found == table().entries.end()) return std::nullopt;
  Entry& entry = found->second;
  return child_of(entry.meeting, entry.children++, color);
}

// Notes a child, or that NCCL is making it.
void finish_child(Comm parent, Comm* child, const std::optional<Meeting>& meeting,
    const Config* config, Result result) noexcept {
  if (!meeting || child == nullptr) return;
  const Made made{child, *meeting, read_config(config).version};
  if (result != kInProgress || open_group.depth > 0) return finish(made, result);

  try {
    const std::lock_guard lock(table().mutex);
    const auto found = table().entries.find(parent);
    if (found != table().entries.end()) found->second.awaited.push_back(made);
  } catch (...) {
    log("a communicator is not watched: no memory");
  }
}

// Colors of ncclCommSplit() are not negative.
constexpr int64_t kShrunk = -1;
}  // namespace

Result ask_communicator(Comm comm, Result state) noexcept {
  try {
    std::shared_ptr<HostGroup> group;
    uint32_t version = 0;
    std::vector<Made> children;
    {
      const std::lock_guard lock(table().mutex);
      const auto found = table().entries.find(comm);
      if (found == table().entries.end()) return kSuccess;
      Entry& entry = found->second;
      if (state == kSuccess) start(comm, entry);
      if (state == kSuccess) children.swap(entry.awaited);
      if (!entry.ending || state != kSuccess) group = entry.group;
      version = entry.version;
    }
    for (const Made& child : children) {
      note(child, kSuccess);
    }
    if (group == nullptr) return kSuccess;
    const std::optional<GroupFailure> failure = group->failure(version);
    if (!failure) return kSuccess;

    bool is_new = false;
    {
      const std::lock_guard lock(table().mutex);
      const auto found = table().entries.find(comm);
      if (found != table().entries.end()) is_new = !std::exchange(found->second.failure_said, true);
    }
    if (is_new) say(failure->sentence);
    return failure->result;
  } catch (...) {
    return kSuccess;
  }
}

void ask_all_communicators() noexcept {
  try {
    std::vector<Comm> all;
    {
      const std::lock_guard lock(table().mutex);
      for (const auto& [comm, entry] : table().entries) {
        all.push_back(comm);
      }
    }
    // Their creation may be under way: NCCL is not asked.
    for (Comm const comm : all) {
      ask_communicator(comm, kInProgress);
    }
  } catch (...) {
    // Without memory nothing more is known.
  }
}

// ---- calls

extern "C" {
Result symm_ncclGetUniqueId(UniqueId* id) noexcept {
  const Result result = real<Result, UniqueId*>(Function::ncclGetUniqueId)(id);
  if (result == kSuccess && id != nullptr && watching()) add_meeting(*id);
  return result;
}

Result symm_ncclCommInitRank(Comm* comm, int size, UniqueId id, int rank) noexcept {
  const Result result =
      real<Result, Comm*, int, UniqueId, int>(Function::ncclCommInitRank)(comm, size, id, rank);
  const auto meeting = watching() ? meeting_of(id) : std::nullopt;
  if (meeting && comm != nullptr) finish({comm, *meeting, 0}, result);
  return result;
}

Result symm_ncclCommInitRankConfig(
    Comm* comm, int size, UniqueId id, int rank, Config* config) noexcept {
  const Result result = real<Result, Comm*, int, UniqueId, int, Config*>(
      Function::ncclCommInitRankConfig)(comm, size, id, rank, config);
  const auto meeting = watching() ? meeting_of(id) : std::nullopt;
  if (meeting && comm != nullptr) finish({comm, *meeting, read_config(config).version}, result);
  return result;
}

Result symm_ncclCommInitRankScalable(
    Comm* comm, int size, int rank, int count, UniqueId* ids, Config* config) noexcept {
  const Result result = real<Result, Comm*, int, int, int, UniqueId*, Config*>(
      Function::ncclCommInitRankScalable)(comm, size, rank, count, ids, config);
  const bool has_ids = count > 0 && ids != nullptr;
  const auto meeting = watching() && has_ids ? meeting_of(ids[0]) : std::nullopt;
  if (meeting && comm != nullptr) finish({comm, *meeting, read_config(config).version}, result);
  return result;
}

Result symm_ncclCommSplit(Comm comm, int color, int key, Comm* child, Config* config) noexcept {
  const auto meeting = next_child(comm, color);
  const Result result = real<Result, Comm, int, int, Comm*, Config*>(Function::ncclCommSplit)(
      comm, color, key, child, config);
  finish_child(comm, child, color < 0 ? std::nullopt : meeting, config, result);
  return result;
}

Result symm_ncclCommShrink(
    Comm comm, int* excluded, int count, Comm* child, Config* config, int flags) noexcept {
  const auto meeting = next_child(comm, kShrunk);
  const Result result = real<Result, Comm, int*, int, Comm*, Config*, int>(
      Function::ncclCommShrink)(comm, excluded, count, child, config, flags);
  finish_child(comm, child, meeting, config, result);
  return result;
}

Result symm_ncclCommFinalize(Comm comm) noexcept {
  {
    const std::lock_guard lock(table().mutex);
    const auto found = table().entries.find(comm);
    if (found != table().entries.end()) found->second.ending = true;
  }
  return real<Result, Comm>(Function::ncclCommFinalize)(comm);
}

// The entry goes before the communicator, whose address NCCL may give to another one at once; the
// group goes after it, when NCCL has let all ranks pass.
Result symm_ncclCommDestroy(Comm comm) noexcept {
  const std::optional<Entry> entry = take_out(comm);
  const Result result = real<Result, Comm>(Function::ncclCommDestroy)(comm);
  leave(entry);
  return result;
}

// Programs end communicators by an abort, too, also those that are well. So the other ranks hear
// that this one has left, after a while, and not that it has failed.
Result symm_ncclCommAbort(Comm comm) noexcept {
  const std::optional<Entry> entry = take_out(comm);
  const Result result = real<Result, Comm>(Function::ncclCommAbort)(comm);
  leave(entry);
  return result;
}

Result symm_ncclGroupStart() noexcept {
  const Result result = real<Result>(Function::ncclGroupStart)();
  if (result == kSuccess) ++open_group.depth;
  return result;
}

Result symm_ncclGroupEnd() noexcept {
  const Result result = real<Result>(Function::ncclGroupEnd)();
  if (open_group.depth > 0) --open_group.depth;
  if (open_group.depth > 0 || open_group.made.empty()) return result;

  const std::vector<Made> made = std::exchange(open_group.made, {});
  for (const Made& one : made) {
    if (*one.where != nullptr && result == kSuccess && is_whole(made, one)) continue;
    finish(one, result);
  }
  return result;
}
}
}  // namespace symm::nccl
