#include "bindings/nccl/mixture.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/driver.hpp"
#include "bindings/nccl/failures.hpp"
#include "bindings/nccl/host_group.hpp"
#include "bindings/nccl/loading.hpp"
#include "bindings/nccl/meeting.hpp"
#include "bindings/nccl/open_file.hpp"
#include "bindings/nccl/settings.hpp"
#include "bindings/nccl/thread.hpp"

namespace symm::nccl {
namespace {
namespace fs = std::filesystem;

constexpr const char* kEnd = "-refused";
constexpr std::chrono::hours kAge{1};
constexpr size_t kLongest = 64;
// Above what is a configuration or a name in any version of NCCL.
constexpr size_t kMostConfig = 1024;
constexpr size_t kLongestText = 4096;

// The directory where ranks meet, without the scheme.
fs::path folder() {
  const std::string place = meeting_place();
  return place.substr(place.find("://") + 3);
}

fs::path file_of(const Meeting& meeting) { return folder() / ("nccl-" + text_of(meeting) + kEnd); }

// Whether the directory is there, and nobody else's.
bool is_ours(const fs::path& directory) {
  struct stat status{};
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return false;
  return lstat(directory.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == geteuid();
}

void remove_old(const fs::path& directory) {
  std::error_code ignored;
  const auto now = fs::file_time_type::clock::now();
  for (const fs::directory_entry& one : fs::directory_iterator(directory, ignored)) {
    const bool is_mark = one.path().filename().string().ends_with(kEnd);
    if (is_mark && now - one.last_write_time(ignored) > kAge) fs::remove(one.path(), ignored);
  }
}

// A copy of what a caller has lent.
class Kept {
 public:
  explicit Kept(const Lent& lent) : ids_(lent.ids, lent.ids + lent.count), lent_(lent) {
    if (lent.count > 0) lent_.ids = ids_.data();
    // What is no configuration is refused by NCCL at once.
    if (const Config read = read_config(lent.config); read.size != 0) keep(read);
  }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  const Lent& lent() const { return lent_; }

 private:
  void keep(const Config& read) {
    bytes_.resize(read.size);
    std::memcpy(bytes_.data(), lent_.config, read.size);
    if (read.version >= kNetworkSince && read.size >= kLeastWithNetwork) {
      keep_text(kNetworkOffset, network_);
    }
    if (read.version >= kNameSince && read.size >= kLeastNamed) keep_text(kNameOffset, name_);
    lent_.config = reinterpret_cast<Config*>(bytes_.data());
  }

  // The address of a text that cannot be read stays as it is, for NCCL to judge.
  void keep_text(size_t offset, std::string& text) {
    const char* from = nullptr;
    std::memcpy(static_cast<void*>(&from), bytes_.data() + offset, sizeof from);
    const std::optional<std::string> read = text_at(from, kLongestText);
    if (!read || read->size() == kLongestText) return;
    text = *read;
    const char* const to = text.c_str();
    std::memcpy(bytes_.data() + offset, static_cast<const void*>(&to), sizeof to);
  }

  std::vector<std::byte> bytes_;
  std::string network_;
  std::string name_;
  std::vector<UniqueId> ids_;
  Lent lent_;
};

// A creation that goes on without its caller.
struct Pending {
  Pending(const Lent& lent, Comm before) : kept(lent), comm(before) {}

  const Kept kept;
  std::mutex mutex;
  std::condition_variable changed;
  bool is_over = false;
  Result result = kInternalError;
  // NCCL writes it before it waits for the other ranks, so that another thread can abort it.
  Comm comm;
};
}  // namespace

void leave_mark(const Meeting& meeting, int rank) noexcept {
  try {
    if (!is_ours(folder())) return;
    remove_old(folder());
    const std::string text =
        "rank " + std::to_string(rank) + " (pid " + std::to_string(getpid()) + ")";
    // The file appears with its text: the others look for it all the time.
    const std::string path = file_of(meeting);
    const std::string written = path + "." + std::to_string(getpid()) + kEnd;
    const int fd = open_file(written.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
    if (fd < 0) return;
    write_once(fd, text.data(), text.size());
    close(fd);
    (void)link(written.c_str(), path.c_str());  // another rank may have left its mark
    unlink(written.c_str());
  } catch (...) {
    // The others wait as for any rank that never comes.
  }
}

Result refuse_mark(const std::string& who) noexcept {
  try {
    say(who + " has no NCCL, and this process has NCCL " + real_library().version + " (" +
            real_library().file + "): have NCCL in all processes, or in none (SYMM_NCCL=none)",
        kInvalidUsage);
  } catch (...) {
    say("a rank has no NCCL, and this process has one", kInvalidUsage);
  }
  return kInvalidUsage;
}

Result make_unless_mixed(
    const Meeting& meeting, Comm* comm, const Lent& lent, const Creation& make) noexcept {
  std::shared_ptr<Pending> pending;
  try {
    if (const auto who = mark_of(meeting)) return refuse_mark(*who);
    void* const context = Driver::current_context();
    if (context == nullptr || read_config(lent.config).size > kMostConfig) return make(comm, lent);
    pending = std::make_shared<Pending>(lent, *comm);
    start_thread([pending, make, context] {
      Driver::enter_context(context);
      const Result result = make(&pending->comm, pending->kept.lent());
      const std::lock_guard lock(pending->mutex);
      pending->result = result;
      pending->is_over = true;
      pending->changed.notify_all();
    });
  } catch (...) {
    return make(comm, lent);
  }

  // What NCCL writes is written once: the caller may abort, and has another use for the place then.
  Comm told = *comm;
  const auto tell = [&](Comm now) {
    if (now != told) *comm = now;
    told = now;
  };
  std::unique_lock lock(pending->mutex);
  while (!pending->changed.wait_for(lock, kLook, [&] { return pending->is_over; })) {
    if (const auto who = mark_of(meeting)) {
      tell(nullptr);
      return refuse_mark(*who);
    }
    tell(std::atomic_ref(pending->comm).load());
  }
  tell(pending->comm);
  return pending->result;
}

std::optional<std::string> mark_of(const Meeting& meeting) noexcept {
  try {
    const int fd = open_file(file_of(meeting).c_str(), O_RDONLY | O_NOFOLLOW);
    if (fd < 0) return std::nullopt;
    char text[kLongest];
    const ssize_t got = read(fd, text, sizeof text);
    close(fd);
    // The other rank may be writing.
    return got > 0 ? std::string(text, static_cast<size_t>(got)) : std::string("a rank");
  } catch (...) {
    return std::nullopt;
  }
}
}  // namespace symm::nccl
