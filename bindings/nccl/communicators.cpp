// Makes, keeps and ends the entries of the table: the calls by which communicators come and go.
#include "bindings/nccl/communicators.hpp"

#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/alone.hpp"
#include "bindings/nccl/choice.hpp"
#include "bindings/nccl/collectives.hpp"
#include "bindings/nccl/cuda_group.hpp"
#include "bindings/nccl/failures.hpp"
#include "bindings/nccl/forwarding.hpp"
#include "bindings/nccl/host_group.hpp"
#include "bindings/nccl/loading.hpp"
#include "bindings/nccl/meeting.hpp"
#include "bindings/nccl/mixture.hpp"
#include "bindings/nccl/settings.hpp"
#include "bindings/nccl/symm_library.hpp"
#include "bindings/nccl/thread.hpp"

namespace symm::nccl {
namespace {
// A communicator that a call has made, or is making: NCCL writes its address to *where.
struct Made {
  Comm* where;
  Meeting meeting;
  uint32_t version = 0;
  bool is_blocking = true;
  std::string name;
  // That of a child; null for others.
  Comm parent = nullptr;
};

Made made_of(Comm* where, const Meeting& meeting, const Config* config) {
  const bool is_blocking = read_blocking(config).value_or(true);
  return {where, meeting, read_config(config).version, is_blocking, name_at(read_name(config))};
}

struct Entry {
  // The process that has the communicator. A forked child has a copy of the table.
  int64_t pid = getpid();
  Meeting meeting{};
  uint32_t version = 0;
  bool is_blocking = true;
  std::string name;
  // Null until NCCL has said that all ranks are there, and for what cannot be watched.
  std::shared_ptr<HostGroup> group;
  // Null as `group`, and for what symm has no part in.
  std::shared_ptr<CudaGroup> cuda_group;
  // NCCL has told rank and size, and the ranks meet.
  bool started = false;
  int size = 0;
  // A thread is asking NCCL for them.
  bool is_starting = false;
  // When it was last looked for a rank without NCCL, while NCCL waits for all.
  std::chrono::steady_clock::time_point looked{};
  std::optional<std::string> without_nccl;
  // ncclCommFinalize() was called: other ranks may leave.
  bool ending = false;
  bool failure_said = false;
  std::string failure;
  // Calls of ncclCommSplit(), which all ranks make in the same order, and of ncclCommShrink(),
  // which those make that it does not leave out: by the meeting that stands for them.
  // And calls of ncclCommGrow().
  uint64_t splits = 0;
  uint64_t grows = 0;
  std::map<Meeting, uint64_t> shrinks;
  // Children that NCCL is making. The program must keep *where until ncclCommGetAsyncError() of
  // this communicator has said that they are there, and there they are taken.
  std::vector<Made> awaited;
  // Groups of children that do not block and have not settled: a program that waits for
  // a child asks for the state of its parent.
  std::vector<std::shared_ptr<CudaGroup>> settling;
};

bool is_unsettled(const std::shared_ptr<CudaGroup>& group) {
  return group != nullptr && !group->blocks() && !group->is_settled();
}

struct Table {
  std::mutex mutex;
  std::unordered_map<Comm, Entry> entries;
};

Table& table();

// A process that ends leaves its groups in good order, so that the others hear that it
// has left, and not that it was killed. With a status that is not 0, as after an exception, they
// hear of that at once. A forked child has no part in its parent's.
void leave_all(int exit_code, void*) {
  const int status = exit_code & 0xff;  // as its parent has it
  Table& all = table();
  if (!all.mutex.try_lock()) return;

  try {
    // The thread that ends the process has no variables of its own any more. Another one has.
    std::thread([&] {
      for (auto& [comm, entry] : all.entries) {
        if (entry.pid != getpid()) continue;
        const bool is_failure = status != 0 && !entry.ending;
        if (is_failure && entry.group != nullptr) entry.group->tell_exit(status);
        if (entry.cuda_group != nullptr) entry.cuda_group->release();
        if (entry.group != nullptr) entry.group->leave();
      }
    }).join();
  } catch (...) {
    // Without a thread the others hear that the process has ended.
  }

  all.mutex.unlock();
}

Table& table() {
  static auto* const all = [] {
    auto* const made = new Table;
    on_exit(leave_all, nullptr);
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
  if (entry && entry->cuda_group != nullptr) entry->cuda_group->release();
  if (entry && entry->group != nullptr) entry->group->leave();
}

// The groups of a communicator of the drop-in's own are there when it is complete.
void start_alone(Comm comm, Entry& entry) {
  const std::optional<AloneGroups> groups = alone_groups(comm);
  if (!groups || groups->cuda_group == nullptr) return;
  entry.group = groups->ranks;
  entry.cuda_group = groups->cuda_group;
  entry.size = groups->cuda_group->size();
  entry.started = true;
}

// All ranks are there: they meet. NCCL tells rank and size, unless it is not ready to. The table's
// mutex is not held: NCCL's own calls may lead back here.
void start(Comm comm, Entry& entry) {
  if (is_alone()) {
    start_alone(comm, entry);
    return;
  }
  int rank = 0;
  int size = 0;
  if (real<Result, Comm, int*>(Function::ncclCommUserRank)(comm, &rank) != kSuccess ||
      real<Result, Comm, int*>(Function::ncclCommCount)(comm, &size) != kSuccess) {
    return;
  }

  entry.started = true;
  entry.size = size;
  int device = 0;
  const bool has_device =
      real<Result, Comm, int*>(Function::ncclCommCuDevice)(comm, &device) == kSuccess;
  const bool is_able = settings().collectives != 0 && has_device && size <= kMostRanks;

  // One that blocks on one rank only waits for the others in its first call.
  const uint64_t alike = hash_of(settings()) + (entry.is_blocking ? 0 : 1);
  if (size < 2) return;
  entry.group = HostGroup::meet(entry.meeting, rank, size, {alike, is_able});

  if (entry.group == nullptr || !is_able) return;
  entry.cuda_group = std::make_shared<CudaGroup>(
      entry.group, entry.meeting, rank, size, device, entry.name, entry.version, entry.is_blocking);

  if (entry.is_blocking) return;
  start_thread([group = entry.cuda_group] {
    if (group->settle()) leave_at_exit();
  });
}

// Notes a communicator. If the result of the call that made it is kInProgress, it is
// watched from when ncclCommGetAsyncError() has said that it is complete.
void note(const Made& made, Result result) {
  Comm const comm = *made.where;
  if (comm == nullptr) return;
  Entry entry;
  entry.meeting = made.meeting;
  entry.version = made.version;
  // NCCL_COMM_BLOCKING has the last word, and only NCCL knows it.
  entry.is_blocking = made.is_blocking && result != kInProgress;
  entry.name = made.name;
  if (result == kSuccess) start(comm, entry);

  const std::lock_guard lock(table().mutex);
  const auto [place, is_new] = table().entries.try_emplace(comm, std::move(entry));
  // NCCL has given a communicator the memory of another one, which ended in a way
  // that is not seen here.
  if (is_new) return;
  leave(std::move(place->second));
  place->second = std::move(entry);
}

// Whether symm is still making the groups of a communicator that does not block, or
// of its children.
bool is_settling(Comm comm) noexcept {
  const std::lock_guard lock(table().mutex);
  const auto found = table().entries.find(comm);
  if (found == table().entries.end()) return false;
  Entry& entry = found->second;
  std::erase_if(entry.settling, [](const auto& child) { return !is_unsettled(child); });
  return entry.is_starting || !entry.settling.empty() || is_unsettled(entry.cuda_group);
}

// A child has been made that does not block: its parent is in progress until it has settled.
void add_settling(Comm parent, Comm child) {
  const std::lock_guard lock(table().mutex);
  const auto found = table().entries.find(child);
  const auto place = table().entries.find(parent);
  if (found == table().entries.end() || place == table().entries.end()) return;
  if (is_unsettled(found->second.cuda_group)) {
    place->second.settling.push_back(found->second.cuda_group);
  }
}

// The result of a call that has made *comm, outside of groups of calls.
Result answer_made(const Comm* comm, Result result) noexcept {
  if (result != kSuccess || comm == nullptr || open_depth() > 0) return result;
  return is_settling(*comm) ? kInProgress : kSuccess;
}

// A window that a call has registered, or is registering: NCCL writes it to *where.
struct Registered {
  Comm comm;
  const void* memory;
  size_t bytes;
  void** where;
};

// The counter of an entry that a call for a child counts on.
using Counter = std::function<uint64_t&(Entry&)>;
struct Counted {
  Comm parent;
  Counter counter;
};

// The communicators that this thread has made since its outermost ncclGroupStart(), and the windows
// that it has registered. NCCL completes them in ncclGroupEnd(), and writes their pointers there.
// The calls for children have been counted when they were made.
struct OpenObjects {
  std::vector<Made> made;
  std::vector<Registered> windows;
  std::vector<Counted> counted;
};
OpenObjects& open_objects() noexcept { return OfThread<OpenObjects>::get(); }

// The other ranks wait for this one where they make symmetric memory of the window.
void note_window(const Registered& window) noexcept {
  std::shared_ptr<CudaGroup> group;
  try {
    group = cuda_group_of(window.comm);
    // Windows meet in a call that waits.
    if (group == nullptr || !group->blocks() || *window.where == nullptr) return;
    group->windows().note(*window.where, window.memory, window.bytes);
  } catch (...) {
    log("a window is not noted: no memory");
    if (group != nullptr) group->abort();
  }
}

void add_settling_child(const Made& made, Result result) noexcept {
  try {
    if (result == kSuccess) add_settling(made.parent, *made.where);
  } catch (...) {
    log("a communicator does not wait for its child: no memory");
  }
}

void finish(const Made& made, Result result) noexcept {
  try {
    if (result != kSuccess && result != kInProgress) return;
    if (open_depth() > 0) {
      open_objects().made.push_back(made);
    } else {
      note(made, result);
    }
  } catch (...) {
    log("a communicator is not watched: no memory");
  }
}

// NCCL is making a child, which is noted when ncclCommGetAsyncError() says that the parent is
// complete.
void await(const Made& made) noexcept {
  try {
    const std::lock_guard lock(table().mutex);
    const auto found = table().entries.find(made.parent);
    if (found != table().entries.end()) found->second.awaited.push_back(made);
  } catch (...) {
    log("a communicator is not watched: no memory");
  }
}

// Takes back the counts of a group of calls that was refused for its arguments: nothing of it was
// done, and other ranks may have made no such group.
void uncount(const std::vector<Counted>& counted) noexcept {
  const std::lock_guard lock(table().mutex);
  for (const Counted& one : counted) {
    const auto found = table().entries.find(one.parent);
    if (found == table().entries.end()) continue;
    uint64_t& count = one.counter(found->second);
    if (count > 0) --count;
  }
}

// Notes what this thread has made if its outermost group of calls has ended with `result`, and
// returns the result for the program.
Result finish_open(Result result) noexcept {
  OpenObjects& open = open_objects();
  const bool is_empty = open.made.empty() && open.windows.empty() && open.counted.empty();
  if (open_depth() > 0 || is_empty) return result;
  const OpenObjects objects = std::exchange(open, {});
  if (result == kInvalidArgument) uncount(objects.counted);
  Result answer = result;
  for (const Made& one : objects.made) {
    if (result == kInProgress && one.parent != nullptr && *one.where == nullptr) {
      await(one);
      continue;
    }
    finish(one, result);
    if (one.parent != nullptr) add_settling_child(one, result);
    if (answer_made(one.where, result) == kInProgress) answer = kInProgress;
  }
  for (const Registered& window : objects.windows) {
    if (result == kSuccess) note_window(window);
  }
  return answer;
}

// A communicator by an id: NCCL's, which `call` makes, or the drop-in's own.
template <class Call>
Result make(
    Comm* comm, int size, const UniqueId& id, int rank, const Lent& lent, Call call) noexcept {
  const Config* const config = lent.config;
  if (!is_alone() && is_alone_id(id)) return refuse_alone_id(id, size, rank);
  const auto meeting = watching() ? meeting_of(id) : std::nullopt;
  if (!meeting || comm == nullptr) return call(comm, lent);
  read_variables();

  // What does not block, or is made in a group of calls, cannot be left where it waits; nor has a
  // single rank others to wait for.
  const bool is_left =
      !is_alone() && open_depth() == 0 && size > 1 && read_blocking(config).value_or(true);
  Result result = kSuccess;
  if (is_left) {
    result = make_unless_mixed(*meeting, comm, lent, call);
  } else {
    const auto who = is_alone() ? std::nullopt : mark_of(*meeting);
    result = who ? refuse_mark(*who) : call(comm, lent);
  }
  finish(made_of(comm, *meeting, config), result);
  return answer_made(comm, result);
}

// Colors of ncclCommSplit() are not negative.
constexpr int64_t kShrunk = -1;
constexpr int64_t kLeftOut = -2;
constexpr int64_t kGrown = -3;

// The name for the next child of a communicator, if its parent has one.
std::optional<Meeting> next_split(Comm parent, int64_t color) noexcept {
  const std::lock_guard lock(table().mutex);
  const auto found = table().entries.find(parent);
  if (found == table().entries.end()) return std::nullopt;
  return child_of(found->second.meeting, found->second.splits, color);
}

// The same for the next call of ncclCommGrow().
std::optional<Meeting> next_grow(Comm parent) noexcept {
  const std::lock_guard lock(table().mutex);
  const auto found = table().entries.find(parent);
  if (found == table().entries.end()) return std::nullopt;
  return child_of(found->second.meeting, found->second.grows, kGrown);
}

// The same for the ranks that are not left out, and what stands for those. A list that has more of
// them than the communicator is not read.
struct NextShrink {
  Meeting meeting;
  Meeting those;
};
std::optional<NextShrink> next_shrink(Comm parent, const int* left_out, int count) noexcept {
  try {
    const std::lock_guard lock(table().mutex);
    const auto found = table().entries.find(parent);
    if (found == table().entries.end() || count > found->second.size) return std::nullopt;
    std::set<int> ranks;
    if (left_out != nullptr && count > 0) ranks.insert(left_out, left_out + count);
    Meeting those = found->second.meeting;
    for (const int rank : ranks) {
      those = child_of(those, static_cast<uint64_t>(rank), kLeftOut);
    }
    return NextShrink{child_of(those, found->second.shrinks[those], kShrunk), those};
  } catch (...) {
    log("a communicator is not watched: no memory");
    return std::nullopt;
  }
}

// Counts a call that makes a child, but one that was refused for its arguments: that one may have
// been made on this rank alone. A call that failed otherwise may have succeeded on other ranks.
void count_child(Comm parent, Result result, const Counter& counter) noexcept {
  if (result == kInvalidArgument) return;
  try {
    const std::lock_guard lock(table().mutex);
    const auto found = table().entries.find(parent);
    if (found == table().entries.end()) return;
    if (open_depth() > 0) open_objects().counted.push_back({parent, counter});
    ++counter(found->second);
  } catch (...) {
    log("a child is not counted: no memory");
  }
}

bool blocks(Comm comm) noexcept {
  const std::lock_guard lock(table().mutex);
  const auto found = table().entries.find(comm);
  return found == table().entries.end() || found->second.is_blocking;
}

// Notes a child, or that NCCL is making it.
void finish_child(Comm parent, Comm* child, const std::optional<Meeting>& meeting,
    const Config* config, Result result) noexcept {
  if (!meeting || child == nullptr) return;
  Made made = made_of(child, *meeting, config);
  // A child that is not told otherwise does as its parent does.
  if (!read_blocking(config)) made.is_blocking = blocks(parent);
  if (result == kInProgress) made.is_blocking = false;
  made.parent = parent;
  if (result == kInProgress && open_depth() == 0) {
    await(made);
    return;
  }

  finish(made, result);
  if (open_depth() == 0) add_settling_child(made, result);
}

// What start() needs of an entry, which is starting from now on. None if it has started, or another
// thread is at it.
std::optional<Entry> begin_start(Comm comm) {
  const std::lock_guard lock(table().mutex);
  const auto found = table().entries.find(comm);
  if (found == table().entries.end()) return std::nullopt;
  Entry& entry = found->second;
  if (entry.started || entry.is_starting) return std::nullopt;

  Entry copy;
  copy.meeting = entry.meeting;
  copy.version = entry.version;
  copy.is_blocking = entry.is_blocking;
  copy.name = entry.name;
  entry.is_starting = true;
  return copy;
}

// Has the ranks meet if NCCL has just reported that all are there. Other threads that
// ask meanwhile hear that the communicator is in progress, so none makes a call
// before symm's part is known.
void start_once(Comm comm) {
  std::optional<Entry> begun = begin_start(comm);
  if (!begun) return;
  Entry& copy = *begun;
  std::exception_ptr failed;
  try {
    start(comm, copy);
  } catch (...) {
    failed = std::current_exception();
  }

  bool is_kept = false;
  {
    const std::lock_guard lock(table().mutex);
    const auto found = table().entries.find(comm);
    // The communicator may have been ended meanwhile, and another one have its address.
    is_kept = found != table().entries.end() && found->second.is_starting &&
              found->second.meeting == copy.meeting;
    if (is_kept) {
      found->second.is_starting = false;
      found->second.started = copy.started;
      found->second.size = copy.size;
      found->second.group = copy.group;
      found->second.cuda_group = copy.cuda_group;
    }
  }
  if (!is_kept) leave(copy);
  if (failed) std::rethrow_exception(failed);
}

// Who has no NCCL and has come to a communicator that NCCL is making here.
std::optional<std::string> mark_for(Comm comm) {
  Meeting meeting{};
  {
    const auto now = std::chrono::steady_clock::now();
    const std::lock_guard lock(table().mutex);
    const auto found = table().entries.find(comm);
    if (is_alone() || found == table().entries.end() || found->second.started) return std::nullopt;
    Entry& entry = found->second;
    if (entry.without_nccl || now - entry.looked < kLook) return entry.without_nccl;
    entry.looked = now;
    meeting = entry.meeting;
  }
  const std::optional<std::string> who = mark_of(meeting);
  const std::lock_guard lock(table().mutex);
  const auto found = table().entries.find(comm);
  if (who && found != table().entries.end()) found->second.without_nccl = who;
  return who;
}

// Whether a failure of a communicator has not been said before. It is said now.
bool is_news(Comm comm) {
  const std::lock_guard lock(table().mutex);
  const auto found = table().entries.find(comm);
  return found != table().entries.end() && !std::exchange(found->second.failure_said, true);
}

void keep_failure(Comm comm, const std::string& sentence) {
  const std::lock_guard lock(table().mutex);
  const auto found = table().entries.find(comm);
  if (found != table().entries.end()) found->second.failure = sentence;
}

// The result of a failure of a communicator for the program, which hears why.
Result tell_failure(Comm comm, const GroupFailure& failure, CudaGroup* cuda_group) {
  if (cuda_group != nullptr) cuda_group->condemn(failure);
  if (is_news(comm)) {
    keep_failure(comm, failure.sentence);
    say(failure.sentence, failure.result);
  }
  return failure.result;
}

// What ncclCommFinalize() ends.
struct Ending {
  std::shared_ptr<HostGroup> group;
  std::shared_ptr<CudaGroup> cuda_group;
  Meeting meeting{};
  uint32_t version = 0;
  bool was_ending = false;
};

// Other ranks may leave from now on.
Ending begin_ending(Comm comm) noexcept {
  const std::lock_guard lock(table().mutex);
  const auto found = table().entries.find(comm);
  if (found == table().entries.end()) return {};
  Entry& entry = found->second;
  const bool was_ending = std::exchange(entry.ending, true);
  return {entry.group, entry.cuda_group, entry.meeting, entry.version, was_ending};
}

// Whether another thread has aborted the communicator, whose memory may be another one's now.
bool was_taken_out(Comm comm, const Ending& ending) noexcept {
  const std::lock_guard lock(table().mutex);
  const auto found = table().entries.find(comm);
  return found == table().entries.end() || found->second.meeting != ending.meeting;
}

// It was refused: deaths are failures as before.
void take_back_ending(Comm comm, const Ending& ending) noexcept {
  const std::lock_guard lock(table().mutex);
  const auto found = table().entries.find(comm);
  if (found == table().entries.end() || found->second.meeting != ending.meeting) return;
  found->second.ending = ending.was_ending;
}

// The failure that a communicator has had while it was at work; kSuccess if it had none. Ranks that
// have left in good order are none.
Result failure_before_end(Comm comm, const Ending& ending) noexcept {
  if (ending.group == nullptr || ending.was_ending) return kSuccess;
  try {
    std::optional<GroupFailure> failure = ending.group->failure_told(ending.version);
    if (!failure && ending.cuda_group != nullptr) failure = ending.cuda_group->failure();
    return failure ? tell_failure(comm, *failure, ending.cuda_group.get()) : kSuccess;
  } catch (...) {
    return kSystemError;
  }
}

void abort_cuda_group(Comm comm) noexcept {
  try {
    if (const auto group = cuda_group_of(comm)) group->abort();
  } catch (...) {
    log("a group is not aborted: its lock failed");
  }
}
}  // namespace

Result ask_communicator(Comm comm, Result state) noexcept {
  try {
    if (state == kSuccess) start_once(comm);
    if (state == kInProgress) {
      const auto who = mark_for(comm);
      if (who && is_news(comm)) return refuse_mark(*who);
      if (who) return kInvalidUsage;
    }
    std::shared_ptr<HostGroup> group;
    std::shared_ptr<CudaGroup> cuda_group;
    uint32_t version = 0;
    std::vector<Made> children;
    std::shared_ptr<CudaGroup> ended;
    {
      const std::lock_guard lock(table().mutex);
      const auto found = table().entries.find(comm);
      if (found == table().entries.end()) return kSuccess;
      Entry& entry = found->second;
      if (state == kSuccess) children.swap(entry.awaited);
      if (!entry.ending || state != kSuccess) group = entry.group;
      if (group != nullptr) cuda_group = entry.cuda_group;
      version = entry.version;
      if (entry.ending && !entry.is_blocking) ended = entry.cuda_group;
    }
    for (const Made& child : children) {
      note(child, kSuccess);
      add_settling(comm, *child.where);
    }
    if (ended != nullptr && ended->is_busy()) return kInProgress;
    const Result quiet = state == kSuccess && is_settling(comm) ? kInProgress : kSuccess;
    if (group == nullptr) return quiet;
    std::optional<GroupFailure> failure = group->failure(version);
    if (!failure && cuda_group != nullptr) failure = cuda_group->failure();
    return failure ? tell_failure(comm, *failure, cuda_group.get()) : quiet;
  } catch (...) {
    return kSuccess;
  }
}

std::string failure_of_communicator(Comm comm) {
  const std::lock_guard lock(table().mutex);
  const auto found = table().entries.find(comm);
  return found != table().entries.end() ? found->second.failure : "";
}

void leave_at_exit() noexcept {
  static const int registered = on_exit(leave_all, nullptr);
  static_cast<void>(registered);
}

std::shared_ptr<CudaGroup> cuda_group_of(Comm comm) {
  const std::lock_guard lock(table().mutex);
  const auto found = table().entries.find(comm);
  return found != table().entries.end() ? found->second.cuda_group : nullptr;
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

    // The creation of a communicator may be under way, so NCCL is not asked.
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
  return result == kSuccess && is_alone() && !meeting_of(*id) ? kSystemError : result;
}

Result symm_ncclCommInitRank(Comm* comm, int size, UniqueId id, int rank) noexcept {
  return make(comm, size, id, rank, {}, [=](Comm* to, const Lent&) {
    return real<Result, Comm*, int, UniqueId, int>(Function::ncclCommInitRank)(to, size, id, rank);
  });
}

Result symm_ncclCommInitRankConfig(
    Comm* comm, int size, UniqueId id, int rank, Config* config) noexcept {
  return make(comm, size, id, rank, {config}, [=](Comm* to, const Lent& lent) {
    return real<Result, Comm*, int, UniqueId, int, Config*>(Function::ncclCommInitRankConfig)(
        to, size, id, rank, lent.config);
  });
}

Result symm_ncclCommInitRankScalable(
    Comm* comm, int size, int rank, int count, UniqueId* ids, Config* config) noexcept {
  const bool has_ids = count > 0 && ids != nullptr;
  // NCCL refuses more ids than ranks.
  const bool are_lent = has_ids && count <= size;
  const Lent own{config, ids, are_lent ? static_cast<size_t>(count) : 0};
  return make(
      comm, size, has_ids ? ids[0] : UniqueId{}, rank, own, [=](Comm* to, const Lent& lent) {
        return real<Result, Comm*, int, int, int, UniqueId*, Config*>(
            Function::ncclCommInitRankScalable)(to, size, rank, count, lent.ids, lent.config);
      });
}

// All ranks are devices of this process, so NCCL draws no id.
Result symm_ncclCommInitAll(Comm* comms, int count, const int* devices) noexcept {
  const Result result =
      real<Result, Comm*, int, const int*>(Function::ncclCommInitAll)(comms, count, devices);
  if (!watching() || comms == nullptr) return result;
  UniqueId id{};
  add_meeting(id);
  const auto meeting = meeting_of(id);
  for (int rank = 0; meeting && rank < count; ++rank) {
    finish(made_of(comms + rank, *meeting, nullptr), result);
  }
  return result;
}

Result symm_ncclCommSplit(Comm comm, int color, int key, Comm* child, Config* config) noexcept {
  const auto meeting = next_split(comm, color);
  const Result result = is_alone() ? split_alone(comm, color, key, child, config, meeting)
                                   : real<Result, Comm, int, int, Comm*, Config*>(
                                         Function::ncclCommSplit)(comm, color, key, child, config);
  count_child(comm, result, [](Entry& entry) -> uint64_t& { return entry.splits; });
  finish_child(comm, child, color < 0 ? std::nullopt : meeting, config, result);
  return color < 0 ? result : answer_made(child, result);
}

Result symm_ncclCommShrink(
    Comm comm, int* excluded, int count, Comm* child, Config* config, int flags) noexcept {
  // NCCL waits for its kernels that it ends here, and those may wait for work of symm.
  if ((flags & kShrinkAborts) != 0) abort_cuda_group(comm);
  const auto next = next_shrink(comm, excluded, count);
  const auto meeting = next ? std::optional(next->meeting) : std::nullopt;
  const Result result =
      is_alone() ? shrink_alone(comm, excluded, count, child, config, meeting)
                 : real<Result, Comm, int*, int, Comm*, Config*, int>(Function::ncclCommShrink)(
                       comm, excluded, count, child, config, flags);
  if (next) {
    count_child(comm, result,
        [those = next->those](Entry& entry) -> uint64_t& { return entry.shrinks[those]; });
  }
  finish_child(comm, child, meeting, config, result);
  return answer_made(child, result);
}

// The rank that draws an id for new ranks gives them the name that all ranks of the communicator
// know.
Result symm_ncclCommGetUniqueId(Comm comm, UniqueId* id) noexcept {
  const Result result = real<Result, Comm, UniqueId*>(Function::ncclCommGetUniqueId)(comm, id);
  const auto meeting = next_grow(comm);
  if (result == kSuccess && id != nullptr && meeting) add_meeting(*id, *meeting);
  return result;
}

// A rank that joins has no communicator yet, and an id.
Result symm_ncclCommGrow(
    Comm comm, int size, const UniqueId* id, int rank, Comm* child, Config* config) noexcept {
  std::optional<Meeting> meeting;
  if (comm != nullptr) meeting = next_grow(comm);
  if (comm == nullptr && id != nullptr && watching()) meeting = meeting_of(*id);

  const Result result = real<Result, Comm, int, const UniqueId*, int, Comm*, Config*>(
      Function::ncclCommGrow)(comm, size, id, rank, child, config);
  count_child(comm, result, [](Entry& entry) -> uint64_t& { return entry.grows; });
  if (comm != nullptr) finish_child(comm, child, meeting, config, result);
  if (comm == nullptr && meeting && child != nullptr) {
    finish(made_of(child, *meeting, config), result);
  }
  return answer_made(child, result);
}

Result symm_ncclCommWindowRegister(
    Comm comm, void* memory, size_t bytes, void** window, int flags) noexcept {
  const Result result = real<Result, Comm, void*, size_t, void**, int>(
      Function::ncclCommWindowRegister)(comm, memory, bytes, window, flags);
  if (result != kSuccess || window == nullptr) return result;

  const Registered registered{comm, memory, bytes, window};
  if (open_depth() == 0) {
    note_window(registered);
    return result;
  }

  try {
    open_objects().windows.push_back(registered);
  } catch (...) {
    abort_cuda_group(comm);
  }
  return result;
}

Result symm_ncclCommWindowDeregister(Comm comm, void* window) noexcept {
  try {
    const std::shared_ptr<CudaGroup> group = cuda_group_of(comm);
    if (group != nullptr && window != nullptr) group->windows().forget(window);
  } catch (...) {
    log("a window stays symmetric memory: its lock failed");
  }
  return real<Result, Comm, void*>(Function::ncclCommWindowDeregister)(comm, window);
}

Result symm_ncclCommFinalize(Comm comm) noexcept {
  const Ending ending = begin_ending(comm);
  CudaGroup* const cuda_group = ending.cuda_group.get();
  if (cuda_group != nullptr && cuda_group->blocks()) {
    cuda_group->complete();
    if (was_taken_out(comm, ending)) return kRemoteError;
  }

  const Result result = real<Result, Comm>(Function::ncclCommFinalize)(comm);
  const bool is_fine = result == kSuccess || result == kInProgress;
  const Result failed = is_fine ? failure_before_end(comm, ending) : result;
  if (failed != kSuccess) {
    take_back_ending(comm, ending);
    return failed;
  }
  const bool is_busy = cuda_group != nullptr && !cuda_group->blocks() && cuda_group->is_busy();
  return result == kSuccess && is_busy ? kInProgress : result;
}

// The entry goes before the communicator, whose address NCCL may give to another one at
// once; the group goes after it, when NCCL has let all ranks pass.
Result symm_ncclCommDestroy(Comm comm) noexcept {
  const std::optional<Entry> entry = take_out(comm);
  if (entry && entry->cuda_group != nullptr) entry->cuda_group->complete();
  const Result result = real<Result, Comm>(Function::ncclCommDestroy)(comm);
  leave(entry);
  return result;
}

// A revoked communicator is good for making others of it, and for its end.
Result symm_ncclCommRevoke(Comm comm, int flags) noexcept {
  abort_cuda_group(comm);
  return real<Result, Comm, int>(Function::ncclCommRevoke)(comm, flags);
}

// Programs end communicators by an abort, too, also those that are well. So the other
// ranks hear that this one has left, after a while, and not that it has failed.
Result symm_ncclCommAbort(Comm comm) noexcept {
  const std::optional<Entry> entry = take_out(comm);
  if (entry && entry->cuda_group != nullptr) entry->cuda_group->abort();
  const Result result = real<Result, Comm>(Function::ncclCommAbort)(comm);
  leave(entry);
  return result;
}

Result symm_ncclGroupStart() noexcept {
  const Result result = real<Result>(Function::ncclGroupStart)();
  if (result == kSuccess) open_collectives();
  return result;
}

Result symm_ncclGroupEnd() noexcept {
  const bool is_last = open_depth() == 1;
  const Result ours = is_last ? issue_collectives() : kSuccess;
  const Result theirs = real<Result>(Function::ncclGroupEnd)();
  leave_collectives();
  const Result messages = is_last ? close_collectives() : kSuccess;
  const Result answer = finish_open(theirs);
  if (ours != kSuccess) return ours;
  return messages != kSuccess ? messages : answer;
}

Result symm_ncclGroupSimulateEnd(void* info) noexcept {
  const Result result = real<Result, void*>(Function::ncclGroupSimulateEnd)(info);
  if (leave_collectives() == 0) drop_collectives();
  return finish_open(result);
}
}
}  // namespace symm::nccl
