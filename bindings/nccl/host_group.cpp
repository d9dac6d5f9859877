#include "bindings/nccl/host_group.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/meeting.hpp"
#include "bindings/nccl/settings.hpp"
#include "bindings/nccl/symm_library.hpp"
#include "bindings/nccl/thread.hpp"
#include <symm/symm.h>

namespace symm::nccl {
namespace {
// A rank that ends in good order may leave while the others still complete what it took part in.
constexpr std::chrono::seconds kPatience{5};

// Begins what the drop-in of one rank tells those of the others.
constexpr std::string_view kTold = "libsymm_nccl: ";

// Whether the program keeps a quarter of its descriptors. A group has two for each rank, and a
// program that makes many communicators must not run out of them for the sake of names.
bool leaves_descriptors(int size) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return true;
  std::error_code failed;
  const std::filesystem::directory_iterator open("/proc/self/fd", failed);
  if (failed) return false;
  const auto now = static_cast<uint64_t>(std::distance(open, {}));
  return now + 2 * static_cast<uint64_t>(size) <= limit.rlim_cur / 4 * 3;
}

// Least scratch: the group's collective calls exchange a few words.
uint64_t least_scratch(int size) { return 16'384 + uint64_t{1'024} * static_cast<uint64_t>(size); }
}  // namespace

namespace {
std::string read_meeting_place() {
  const char* const runtime = variable("XDG_RUNTIME_DIR");
  const std::string own = "/symm-nccl-" + std::to_string(geteuid());
  struct stat status{};
  const bool usable = runtime != nullptr && stat(runtime, &status) == 0 &&
                      status.st_uid == geteuid() && access(runtime, W_OK) == 0;
  return "dir://" + (usable ? std::string(runtime) : std::string("/tmp")) + own;
}
}  // namespace

std::string meeting_place() {
  static const auto* const place = new std::string(read_meeting_place());
  return *place;
}

void read_variables() {
  settings();
  meeting_place();
  symm_library();
}

std::shared_ptr<HostGroup> HostGroup::meet(
    const Meeting& meeting, int rank, int size, const Facts& facts, uint64_t wait_ms) {
  read_variables();
  if (!symm_library().usable) return nullptr;
  const auto group = std::make_shared<HostGroup>();
  group->rank_ = rank;
  group->size_ = size;
  group->facts_ = facts;
  if (!facts.has_nccl) group->exchange_ms_ = wait_ms;
  if (settings().timeout_ms != 0) group->exchange_ms_ = settings().timeout_ms;
  start_thread([=] { group->form(meeting, rank, size, wait_ms); });
  return group;
}

void HostGroup::form(const Meeting& meeting, int rank, int size, uint64_t wait_ms) noexcept {
  bool agreed = false;
  try {
    if (join(meeting, rank, size, wait_ms)) agreed = agree(wait_ms);
  } catch (...) {
    log("rank %d of %d is not watched: no memory", rank, size);
  }

  const std::lock_guard lock(mutex_);
  agreed_ = agreed;
  formed_ = true;
  changed_.notify_all();
}

// Keeps why the ranks do not agree. Returns false.
bool HostGroup::disagree(const std::string& why) {
  const std::lock_guard lock(mutex_);
  disagreement_ = why;
  return false;
}

std::string HostGroup::disagreement() {
  const std::lock_guard lock(mutex_);
  return disagreement_.empty() ? "there is no memory" : disagreement_;
}

bool HostGroup::has_met() {
  const std::lock_guard lock(mutex_);
  return group_ != nullptr;
}

bool HostGroup::join(const Meeting& meeting, int rank, int size, uint64_t wait_ms) {
  const std::string name = "nccl-" + text_of(meeting);
  const std::string place = meeting_place();
  if (!leaves_descriptors(size)) {
    log("rank %d of %d is not watched: this process has few descriptors left", rank, size);
    return disagree("this process has few descriptors left");
  }
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.rank = rank;
  config.size = size;
  config.backend = SYMM_BACKEND_HOST;
  config.bootstrap = place.c_str();
  config.create_timeout_ms = wait_ms;
  config.timeout_ms = SYMM_TIMEOUT_INFINITE;
  config.name = name.c_str();
  config.scratch_bytes = least_scratch(size);
  config.channels = 1;
  config.flags = SYMM_GROUP_VARIABLES_AT_LOAD;

  symm_group_t* formed = nullptr;
  if (symm_library().group_create(&config, &formed) != SYMM_OK) {
    const std::string why = symm_library().last_error();
    log("rank %d of %d is not watched: %s", rank, size, why.c_str());
    return disagree(why);
  }

  const std::lock_guard lock(mutex_);
  if (left_) {
    symm_library().group_release(formed);
    return false;
  }
  group_ = formed;
  log("rank %d of %d is watched", rank, size);
  return true;
}

// A reference keeps the group while a call of this thread is on it: leave() may come meanwhile.
symm_group_t* HostGroup::hold() {
  const std::lock_guard lock(mutex_);
  if (group_ == nullptr || symm_library().group_retain(group_) != SYMM_OK) return nullptr;
  return group_;
}

// The others have come, and may be slower on their own threads than the program's deadline is long.
bool HostGroup::agree(uint64_t wait_ms) {
  constexpr size_t kWords = 3;
  const std::optional<std::vector<uint64_t>> words = exchange(
      {facts_.settings, facts_.is_able ? uint64_t{1} : 0, facts_.has_nccl ? uint64_t{1} : 0},
      std::max(wait_ms, exchange_ms_));
  if (!words) return disagree("a rank has died or left, or has another version of the drop-in");

  for (size_t i = 0; i < words->size(); i += kWords) {
    const std::string who = "rank " + std::to_string(i / kWords);
    const bool has_nccl = (*words)[i + 2] == 1;
    if (has_nccl != facts_.has_nccl) {
      return disagree(who + (has_nccl ? " has NCCL" : " has no NCCL"));
    }
    if ((*words)[i] != facts_.settings) {
      return disagree(who +
                      " has other values of SYMM_NCCL_MODE, SYMM_NCCL_OPS or "
                      "SYMM_NCCL_TIMEOUT_MS, or another `blocking`");
    }
    if ((*words)[i + 1] != 1) return disagree(who + " has no part in it");
  }
  return true;
}

std::optional<std::vector<uint64_t>> HostGroup::exchange(const std::vector<uint64_t>& words) {
  return exchange(words, exchange_ms_);
}

std::optional<std::vector<uint64_t>> HostGroup::exchange(
    const std::vector<uint64_t>& words, uint64_t wait_ms) {
  symm_group_t* const group = hold();
  if (group == nullptr) return std::nullopt;
  std::vector<uint64_t> all(words.size() * static_cast<size_t>(size_));
  symm_collective_options_t options = SYMM_COLLECTIVE_OPTIONS_INIT;
  options.timeout_ms = wait_ms;
  const symm_status_t status = symm_library().allgather(
      group, words.data(), all.data(), words.size(), SYMM_DTYPE_U64, &options, nullptr);
  symm_library().group_release(group);
  if (status != SYMM_OK) return std::nullopt;
  return all;
}

bool HostGroup::agreed() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return formed_ || left_; });
  return agreed_;
}

bool HostGroup::has_answer(std::chrono::milliseconds within) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, within, [this] { return formed_ || left_; });
}

bool HostGroup::all_wish(bool wish) {
  const std::optional<std::vector<uint64_t>> wishes = exchange({wish ? uint64_t{1} : 0});
  if (!wishes) return false;
  return std::all_of(wishes->begin(), wishes->end(), [](uint64_t one) { return one == 1; });
}

void HostGroup::interrupt() noexcept {
  const std::lock_guard lock(mutex_);
  if (group_ != nullptr) symm_library().group_abort(group_, "ncclCommAbort()");
}

void HostGroup::leave() noexcept {
  symm_group_t* group = nullptr;
  {
    const std::lock_guard lock(mutex_);
    left_ = true;
    group = group_;
    group_ = nullptr;
    changed_.notify_all();
  }
  if (group != nullptr) symm_library().group_release(group);
}

std::optional<GroupFailure> HostGroup::failure(uint32_t version) {
  const std::lock_guard lock(mutex_);
  if (group_ == nullptr) return std::nullopt;

  if (auto failure = told(version)) return failure;
  return departure(version);
}

std::optional<GroupFailure> HostGroup::failure_told(uint32_t version) {
  const std::lock_guard lock(mutex_);
  return group_ != nullptr ? told(version) : std::nullopt;
}

std::optional<std::string> HostGroup::gone_of(const std::vector<int>& ranks) {
  const std::lock_guard lock(mutex_);
  if (group_ == nullptr) return std::nullopt;
  std::vector<int32_t> gone = gone_ranks();
  std::erase_if(gone,
      [&](int32_t rank) { return std::find(ranks.begin(), ranks.end(), rank) == ranks.end(); });
  return gone.empty() ? std::nullopt : std::optional(sentence_of(gone));
}

void HostGroup::tell_exit(int status) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (group_ == nullptr || told(0)) return;

    // This process may end because another one has left.
    const std::vector<int32_t> gone = gone_ranks();
    tell(gone.empty() ? name_of(rank_) + " exited with status " + std::to_string(status)
                      : sentence_of(gone));
  } catch (...) {
    log("rank %d exits with status %d and does not tell the others: no memory", rank_, status);
  }
}

// An abort is how a rank tells the others: the earliest one stands on all ranks.
void HostGroup::tell(const std::string& sentence) {
  symm_library().group_abort(group_, (std::string(kTold) + sentence).c_str());
}

// The failure of the group, in the words of tell() if it comes from there.
std::optional<GroupFailure> HostGroup::told(uint32_t version) {
  std::optional<GroupFailure> failure = failure_of(group_, version);
  if (!failure) return std::nullopt;

  const size_t at = failure->sentence.find(kTold);
  if (at != std::string::npos) failure->sentence.erase(0, at + kTold.size());
  return failure;
}

std::vector<int32_t> HostGroup::gone_ranks() {
  size_t count = 0;
  if (symm_library().group_failed_ranks(group_, nullptr, 0, &count) != SYMM_OK || count == 0) {
    return {};
  }

  std::vector<int32_t> ranks(static_cast<size_t>(size_));
  symm_library().group_failed_ranks(group_, ranks.data(), ranks.size(), &count);
  ranks.resize(count);
  return ranks;
}

std::string HostGroup::name_of(int rank) {
  symm_group_peer_info_t peer{};
  peer.struct_size = sizeof peer;
  const bool known =
      symm_library().group_peer_info(group_, rank, &peer) == SYMM_OK && peer.pid != 0;
  return "rank " + std::to_string(rank) + (known ? " (pid " + std::to_string(peer.pid) + ")" : "");
}

// Which of several ranks was the first is not known if none was seen to leave before the others.
std::string HostGroup::sentence_of(const std::vector<int32_t>& gone) {
  std::string names;
  for (const int32_t rank : gone) {
    names += (names.empty() ? "" : ", ") + name_of(rank);
  }
  return names + (gone.size() == 1 ? " has left the communicator" : " have left the communicator");
}

std::optional<GroupFailure> HostGroup::departure(uint32_t version) {
  const auto now = std::chrono::steady_clock::now();
  if (departed_.empty()) {
    departed_ = gone_ranks();
    departed_at_ = now;
  }
  if (departed_.empty() || now - departed_at_ < kPatience) return std::nullopt;

  const std::string sentence = sentence_of(departed_);
  tell(sentence);
  if (auto failure = told(version)) return failure;
  return GroupFailure{kRemoteError, sentence};
}
}  // namespace symm::nccl
