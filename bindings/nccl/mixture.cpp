#include "bindings/nccl/mixture.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/driver.hpp"
#include "bindings/nccl/failures.hpp"
#include "bindings/nccl/host_group.hpp"
#include "bindings/nccl/loading.hpp"
#include "bindings/nccl/meeting.hpp"
#include "bindings/nccl/open_file.hpp"

namespace symm::nccl {
namespace {
namespace fs = std::filesystem;

constexpr const char* kEnd = "-without-nccl";
constexpr std::chrono::hours kAge{1};
constexpr size_t kLongest = 64;
constexpr std::chrono::milliseconds kLook{100};

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
}  // namespace

void leave_mark(const Meeting& meeting, int rank) noexcept {
  try {
    if (!is_ours(folder())) return;
    remove_old(folder());
    const std::string text =
        "rank " + std::to_string(rank) + " (pid " + std::to_string(getpid()) + ")";
    const int fd = open_file(file_of(meeting).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
    if (fd < 0) return;
    write_once(fd, text.data(), text.size());
    close(fd);
  } catch (...) {
    // The others wait as for any rank that never comes.
  }
}

Result refuse_mark(const std::string& who) noexcept {
  try {
    say(who + " has no NCCL, and this process has NCCL " + real_library().version + " (" +
        real_library().file + "): have NCCL in all processes, or in none (SYMM_NCCL=none)");
  } catch (...) {
    say("a rank has no NCCL, and this process has one");
  }
  return kInvalidUsage;
}

Result make_unless_mixed(
    const Meeting& meeting, Comm* comm, const std::function<Result(Comm*)>& make) noexcept {
  struct Creation {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_over = false;
    Result result = kInternalError;
    Comm comm = nullptr;
  };
  std::shared_ptr<Creation> creation;
  try {
    if (const auto who = mark_of(meeting)) return refuse_mark(*who);
    creation = std::make_shared<Creation>();
    creation->comm = *comm;
    std::thread([creation, make, context = Driver::current_context()] {
      Driver::enter_context(context);
      const Result result = make(&creation->comm);
      const std::lock_guard lock(creation->mutex);
      creation->result = result;
      creation->is_over = true;
      creation->changed.notify_all();
    }).detach();
  } catch (...) {
    return make(comm);
  }

  std::unique_lock lock(creation->mutex);
  while (!creation->changed.wait_for(lock, kLook, [&] { return creation->is_over; })) {
    if (const auto who = mark_of(meeting)) return refuse_mark(*who);
  }
  *comm = creation->comm;
  return creation->result;
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
