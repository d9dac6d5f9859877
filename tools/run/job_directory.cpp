#include "tools/run/job_directory.hpp"
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include "tools/environment.hpp"
#include "tools/run/environment.hpp"

namespace symm::tool {
namespace {
constexpr const char* prefix = "symm-run-";

UniqueFd open_directory(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool is_private_directory(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() && (info.st_mode & 022) == 0;
}
}  // namespace

std::string runtime_parent() {
  const char* runtime = environment("XDG_RUNTIME_DIR");
  if (*runtime == '/' && is_private_directory(runtime)) return runtime;
  const char* temporary = environment("TMPDIR");
  return *temporary == '/' ? temporary : "/tmp";
}

JobDirectory::JobDirectory(const std::function<void(const std::string& path)>& before) {
  // Of a launcher that was killed and whose warden was, too. One that was made just now is not locked yet.
  constexpr time_t kSettledSeconds = 60;
  for (const std::string& left : stale_job_directories(runtime_parent(), kSettledSeconds)) remove_tree(left);
  path_ = runtime_parent() + "/" + prefix + random_job_id();
  if (before) before(path_);
  if (::mkdir(path_.c_str(), 0700) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot make the private directory " + path_);
  lock_ = open_directory(path_);
  if (!lock_ || ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    remove_tree(path_);
    throw std::system_error(error, std::generic_category(), "cannot lock " + path_);
  }
}

JobDirectory::~JobDirectory() { remove_tree(path_); }

std::vector<std::string> stale_job_directories(const std::string& parent, time_t seconds) {
  std::vector<std::string> stale;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(prefix, 0) != 0) continue;
    const UniqueFd directory = open_directory(entry.path().string());
    struct stat info {};
    if (!directory || ::fstat(directory.get(), &info) != 0 || info.st_uid != ::geteuid()) continue;
    if (::time(nullptr) - info.st_mtime < seconds) continue;
    if (::flock(directory.get(), LOCK_EX | LOCK_NB) == 0) stale.push_back(entry.path().string());
  }
  return stale;
}

bool remove_tree(const std::string& path) noexcept {
  std::error_code failed;
  std::filesystem::remove_all(path, failed);
  return !failed;
}
}  // namespace symm::tool
