#include "bindings/nccl/alone_communicators.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/alone.hpp"
#include "bindings/nccl/communicators.hpp"
#include "bindings/nccl/cuda_group.hpp"
#include "bindings/nccl/failures.hpp"
#include "bindings/nccl/host_group.hpp"
#include "bindings/nccl/loading.hpp"
#include "bindings/nccl/mixture.hpp"
#include "bindings/nccl/settings.hpp"
#include "bindings/nccl/symm_library.hpp"
#include "bindings/nccl/thread.hpp"

namespace symm::nccl::alone {
namespace {
Comm comm_of(const Shared& one) { return reinterpret_cast<Comm>(one.get()); }

struct Registry {
  std::mutex mutex;
  std::map<Comm, Shared> communicators;
};

Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

constexpr const char* kEnded = "the communicator was ended while it was being made";

bool is_ended(Alone& one) {
  const std::lock_guard lock(one.mutex);
  return one.is_ended;
}

// A rank that has made its part of a child may leave the parent before the others hear of it.
constexpr std::chrono::seconds kPatience{1};

// Which of the ranks that a child waits for has died, or has left the parent for good.
class MissingRanks {
 public:
  explicit MissingRanks(const Job& job) : members_(job.one->members) {
    if (job.parent == nullptr) return;
    const std::lock_guard lock(job.parent->mutex);
    parent_ = job.parent->ranks;
  }

  std::optional<std::string> look() {
    if (parent_ == nullptr) return std::nullopt;
    auto gone = parent_->gone_of(members_);
    const auto now = std::chrono::steady_clock::now();
    if (!gone) first_seen_.reset();
    if (gone && !first_seen_) first_seen_ = now;
    const bool is_sure = first_seen_ && now - *first_seen_ >= kPatience;
    return is_sure ? std::move(gone) : std::nullopt;
  }

 private:
  const std::vector<int> members_;
  std::shared_ptr<HostGroup> parent_;
  std::optional<std::chrono::steady_clock::time_point> first_seen_;
};

// For a communicator of which a rank, named at the end of the sentence, has a NCCL.
std::string with_remedy(const std::string& sentence) {
  return sentence + " has NCCL and this one has none (" + real_library().reason +
         "): have it on all ranks, or set SYMM_NCCL=none on all";
}

// Has the ranks meet, and makes symm's groups. Waits for them.
Result connect(const Job& job) {
  const Shared& one = job.one;
  const std::string who =
      "rank " + std::to_string(one->rank) + " of " + std::to_string(one->size) + ": ";
  const uint64_t alike = hash_of(settings()) + (one->is_blocking ? 0 : 1);
  const uint64_t wait = settings().timeout_ms != 0 ? settings().timeout_ms : kArrivalMs;
  const auto ranks =
      HostGroup::meet(one->meeting, one->rank, one->size, {alike, true, false}, wait);
  if (ranks == nullptr) return refuse(kSystemError, who + symm_library().reason);
  {
    const std::lock_guard lock(one->mutex);
    one->ranks = ranks;
    if (one->is_ended) ranks->leave();
  }
  MissingRanks missing(job);
  while (!ranks->has_answer(kLook)) {
    if (const auto gone = missing.look()) {
      ranks->leave();
      return refuse(kRemoteError, who + *gone);
    }
    const std::optional<std::string> other = mark_of(one->meeting);
    if (!other) continue;
    ranks->leave();
    return refuse(kInvalidUsage, with_remedy(who + *other));
  }
  if (!ranks->agreed()) {
    if (is_ended(*one)) return refuse(kRemoteError, who + kEnded);
    std::string why = ranks->disagreement();
    constexpr std::string_view kHasNccl = " has NCCL";
    if (why.ends_with(kHasNccl)) why = with_remedy(why.substr(0, why.size() - kHasNccl.size()));
    Result result = ranks->has_met() ? kInvalidUsage : kSystemError;
    if (const auto failure = ranks->failure(one->version)) result = failure->result;
    ranks->leave();
    return refuse(result, who + why);
  }

  const auto group = std::make_shared<CudaGroup>(ranks, one->meeting, one->rank, one->size,
      one->device, one->name, one->version, one->is_blocking, true);
  {
    const std::lock_guard lock(one->mutex);
    one->cuda_group = group;
    if (one->is_ended) group->release();
  }
  if (!group->settle()) {
    const std::string why = group->refusal();
    const auto failure = ranks->failure(one->version);
    ranks->leave();
    if (is_ended(*one)) return refuse(kRemoteError, who + kEnded);
    if (failure) return refuse(failure->result, who + failure->sentence);
    const bool is_chosen = why != "SYMM_NCCL_COMMS";
    return refuse(is_chosen ? kSystemError : kInvalidUsage,
        who + (is_chosen ? why : "SYMM_NCCL_COMMS leaves it to NCCL, so it" + needs_nccl()));
  }
  leave_at_exit();
  return kSuccess;
}

// The words of all ranks of a parent. None if a rank has died or left, or the parent is ended.
std::optional<std::vector<uint64_t>> exchange(Alone& parent, const std::vector<uint64_t>& words) {
  std::shared_ptr<HostGroup> ranks;
  {
    const std::lock_guard lock(parent.mutex);
    if (parent.is_ended) return std::nullopt;
    ranks = parent.ranks;
    ++parent.exchanging;
  }
  auto all = ranks->exchange(words);
  const std::lock_guard lock(parent.mutex);
  --parent.exchanging;
  return all;
}

// Finds who is in the child: those of one color, in the order of their keys. False: the parent has
// failed, or is ended.
bool find_ranks(const Job& job) {
  const auto words = exchange(*job.parent,
      {static_cast<uint64_t>(int64_t{job.color}), static_cast<uint64_t>(int64_t{job.key})});
  if (!words) return false;
  std::vector<std::pair<int64_t, int>> members;
  for (int rank = 0; rank < job.parent->size; ++rank) {
    const size_t at = 2 * static_cast<size_t>(rank);
    const auto color = static_cast<int64_t>((*words)[at]);
    if (color == job.color) members.emplace_back(static_cast<int64_t>((*words)[at + 1]), rank);
  }

  std::sort(members.begin(), members.end());
  const auto mine = std::find_if(members.begin(), members.end(),
      [&](const auto& member) { return member.second == job.parent->rank; });
  job.one->rank = static_cast<int>(mine - members.begin());
  job.one->size = static_cast<int>(members.size());
  for (const auto& member : members) {
    job.one->members.push_back(member.second);
  }
  return true;
}

// Why find_ranks(), or begin_child(), has said no.
GroupFailure why_no_ranks(Alone& parent) {
  std::shared_ptr<HostGroup> ranks;
  {
    const std::lock_guard lock(parent.mutex);
    if (parent.is_ended) return {kRemoteError, kEnded};
    ranks = parent.ranks;
  }
  const auto failure = ranks->failure(parent.version);
  if (failure) return {failure->result, "ncclCommSplit: " + failure->sentence};
  return {kRemoteError, "ncclCommSplit: a rank has died or left"};
}

// Has the parent, if there is one, end the child with itself. False: it is ended.
bool begin_child(const Job& job) {
  if (job.parent == nullptr) return true;
  const std::lock_guard lock(job.parent->mutex);
  if (!job.parent->is_ended) job.parent->unfinished.push_back(job.one);
  return !job.parent->is_ended;
}

// Writes the address of what has been made, or null, to its place. The place of a child that does
// not block is the caller's to use otherwise as soon as the parent is ended. False: it is.
bool write_address(const Job& job, bool is_there) {
  if (job.parent == nullptr) {
    *job.where = is_there ? comm_of(job.one) : nullptr;
    return true;
  }
  const std::lock_guard lock(job.parent->mutex);
  std::erase(job.parent->unfinished, job.one);
  const bool is_ended = job.parent->is_ended;
  if (!is_ended || job.one->is_blocking) {
    *job.where = is_there && !is_ended ? comm_of(job.one) : nullptr;
  }
  return !is_ended;
}

// The result is the communicator's state, too.
Result carry_out(const Job& job) noexcept {
  Result result = guard("a communicator", [&] {
    if (!begin_child(job) || (job.is_split && !find_ranks(job))) {
      const GroupFailure failure = why_no_ranks(*job.parent);
      return refuse(failure.result, failure.sentence);
    }
    return job.has_part() ? connect(job) : kSuccess;
  });

  // The address of what does not block is there from the beginning, but that of a child.
  bool is_there = result == kSuccess && job.has_part();
  const bool is_written = job.one->is_blocking || job.parent != nullptr;
  if (is_written && !write_address(job, is_there)) {
    is_there = false;
    if (result == kSuccess) result = kRemoteError;
  }
  job.one->state = result;
  if (!is_there && is_written) {
    const std::lock_guard lock(registry().mutex);
    registry().communicators.erase(comm_of(job.one));
  }
  if (job.parent != nullptr && !job.one->is_blocking) {
    if (result != kSuccess) job.parent->state = result;
    --job.parent->making;
  }
  return result;
}

using Jobs = std::vector<Job>;

struct Open {
  int depth = 0;
  Jobs jobs;
};
Open& open() noexcept { return OfThread<Open>::get(); }

Result carry_out_all(const Jobs& jobs) noexcept {
  Result first = kSuccess;
  for (const Job& job : jobs) {
    const Result result = carry_out(job);
    if (first == kSuccess) first = result;
  }
  return first;
}

// Children of one parent are made in their order, and everything else at once: the ranks of this
// process wait for each other.
std::vector<Jobs> in_order(const Jobs& jobs) {
  std::vector<Jobs> all;
  for (const Job& job : jobs) {
    const auto same = std::find_if(all.begin(), all.end(),
        [&](const Jobs& one) { return job.parent != nullptr && one.front().parent == job.parent; });
    if (same != all.end()) {
      same->push_back(job);
    } else {
      all.push_back({job});
    }
  }
  return all;
}

// Whether some block and some do not. NCCL refuses that, and children of one parent could not be
// made in one order.
bool is_mixed(const Jobs& jobs) {
  return std::any_of(jobs.begin(), jobs.end(),
      [&](const Job& job) { return job.one->is_blocking != jobs.front().one->is_blocking; });
}

// Those of a list do not block.
void begin_pending(const Jobs& jobs) {
  for (const Job& job : jobs) {
    *job.where = job.parent == nullptr ? comm_of(job.one) : nullptr;
    if (job.parent != nullptr) ++job.parent->making;
  }
  try {
    start_thread([jobs] { carry_out_all(jobs); });
  } catch (...) {
    for (const Job& job : jobs) {
      job.one->state = kSystemError;
      if (job.parent != nullptr) --job.parent->making;
    }
    throw;
  }
}

Result make_all(const Jobs& jobs) {
  if (is_mixed(jobs)) {
    return refuse(kInvalidArgument,
        "ncclGroupEnd: communicators of one group of calls all block, or none does");
  }
  {
    const std::lock_guard lock(registry().mutex);
    for (const Job& job : jobs) {
      registry().communicators.emplace(comm_of(job.one), job.one);
    }
  }

  Result answer = kSuccess;
  std::vector<Jobs> waited_for;
  for (Jobs& together : in_order(jobs)) {
    if (together.front().one->is_blocking) {
      waited_for.push_back(std::move(together));
      continue;
    }
    begin_pending(together);
    answer = kInProgress;
  }

  std::vector<Result> results(waited_for.size(), kSuccess);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 1; i < waited_for.size(); ++i) {
      threads.emplace_back([&, i] { results[i] = carry_out_all(waited_for[i]); });
    }
    if (!waited_for.empty()) results[0] = carry_out_all(waited_for[0]);
  }
  for (const Result result : results) {
    if (result != kSuccess) return result;
  }
  return answer;
}
}  // namespace

Shared find(Comm comm) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().communicators.find(comm);
  return found != registry().communicators.end() ? found->second : nullptr;
}

Shared describe(const Config* config) {
  read_variables();
  const auto one = std::make_shared<Alone>();
  one->version = read_config(config).version;
  one->is_blocking = read_blocking(config).value_or(true);
  one->name = name_at(read_name(config));
  return one;
}

Shared describe_child(const Config* config, const Shared& parent) {
  const Shared one = describe(config);
  if (!read_blocking(config)) one->is_blocking = parent->is_blocking;
  if (one->version == 0) one->version = parent->version;
  one->device = parent->device;
  return one;
}

Result make(const Jobs& jobs) {
  if (open().depth == 0) return make_all(jobs);
  open().jobs.insert(open().jobs.end(), jobs.begin(), jobs.end());
  return kSuccess;
}

void open_group() { ++open().depth; }

bool close_group(bool is_dropped, Result& result) {
  result = kSuccess;
  if (open().depth == 0) return false;
  if (--open().depth > 0) return true;
  const Jobs jobs = std::exchange(open().jobs, {});
  if (!is_dropped) result = make_all(jobs);
  return true;
}

namespace {
// Children that are being made are ended, too, so that nothing waits for their other ranks.
void end_one(Alone& one, bool aborts, bool is_made) {
  std::shared_ptr<HostGroup> ranks;
  std::shared_ptr<CudaGroup> group;
  std::vector<Shared> unfinished;
  bool is_exchanging = false;
  {
    const std::lock_guard lock(one.mutex);
    one.is_ended = true;
    ranks = one.ranks;
    group = one.cuda_group;
    unfinished.swap(one.unfinished);
    is_exchanging = one.exchanging > 0;
  }

  for (const Shared& child : unfinished) {
    end_one(*child, true, false);
  }
  if (ranks != nullptr && (is_exchanging || !is_made)) ranks->interrupt();
  if (group != nullptr && aborts) group->abort();
  if (group != nullptr) group->release();
  if (ranks != nullptr) ranks->leave();
}
}  // namespace

// Ends a communicator; whether there was one.
bool end(Comm comm, bool aborts) {
  Shared one;
  {
    const std::lock_guard lock(registry().mutex);
    const auto found = registry().communicators.find(comm);
    if (found == registry().communicators.end()) return false;
    one = found->second;
    registry().communicators.erase(found);
  }

  end_one(*one, aborts, true);
  return true;
}

Result refuse(Result result, const std::string& sentence) {
  say(sentence, result);
  return result;
}
}  // namespace symm::nccl::alone
