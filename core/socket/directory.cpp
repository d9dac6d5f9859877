// Makes and opens directories that only this user may enter, and refuses any other.
#include "core/socket/directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/hash.hpp"
#include "core/base/process.hpp"

namespace symm {
namespace {
constexpr char kLock[] = "lock";
constexpr int kOpenDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

constexpr std::string_view kLockText = "symm\n";

// Whether it is a name that fresh_name() makes, with this letter: two or three times
// "-<16 hexadecimal digits>" follow.
bool is_fresh_name(char letter, std::string_view name) noexcept {
  if (name.empty() || name.front() != letter) return false;
  name.remove_prefix(1);

  int parts = 0;
  for (; name.size() >= 17 && name.front() == '-'; ++parts) {
    if (name.substr(1, 16).find_first_not_of("0123456789abcdef") != std::string_view::npos) {
      return false;
    }
    name.remove_prefix(17);
  }
  return name.empty() && (parts == 2 || parts == 3);
}

// Whether symm made the lock file. It is empty in the moment before its text is written.
bool is_symm_lock(int lock) noexcept {
  char text[8];
  const ssize_t size = read_whole(lock, text, sizeof text);
  return size == 0 || (size > 0 && std::string_view(text, static_cast<size_t>(size)) == kLockText);
}

// Whether the lock file still has a name. A process that opened the file before another removed
// it holds a lock that no other process can find.
bool still_linked(int fd) {
  struct stat status{};
  return fstat(fd, &status) == 0 && status.st_nlink > 0;
}

// Removes a directory of which the caller holds the lock exclusively. The lock file is removed only
// before the directory itself: as long as the file is there, newcomers find it locked.
void remove_held(int parent, const char* name, int directory) noexcept {
  try {
    list_directory(directory, [&](const char* entry) {
      if (std::string_view(entry) != kLock) unlinkat(directory, entry, 0);
    });
  } catch (const std::exception&) {
    return;  // another sweep will try again
  }
  unlinkat(directory, kLock, 0);
  unlinkat(parent, name, AT_REMOVEDIR);
}

void sweep_one(int parent, const char* name) noexcept {
  Fd directory = make_fd(::openat, parent, name, kOpenDirectory);
  if (!directory) return;

  Fd lock = make_fd(::openat, directory.get(), kLock, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (!lock) {
    // The maker of the directory died before it made the lock, or has not made it yet: then it
    // sees its directory vanish and makes another.
    if (errno == ENOENT) unlinkat(parent, name, AT_REMOVEDIR);
    return;
  }

  if (!is_symm_lock(lock.get())) return;
  if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0 && still_linked(lock.get())) {
    remove_held(parent, name, directory.get());
  }
}

void sweep_in(int parent, Sweep what) noexcept {
  try {
    list_directory(parent, [&](const char* name) {
      if (is_fresh_name(kSharedPrefix[0], name)) sweep_one(parent, name);
      if (is_fresh_name(kNotePrefix[0], name) && has_expired(read_note(parent, name))) {
        unlinkat(parent, name, 0);
      }

      if (what != Sweep::with_jobs || !std::string_view(name).starts_with(kJobPrefix)) return;
      Fd job = make_fd(::openat, parent, name, kOpenDirectory);
      if (!job) return;
      sweep_in(job.get(), Sweep::shared_directories);
      unlinkat(parent, name, AT_REMOVEDIR);  // fails unless it is empty
    });
  } catch (const std::exception&) {
    return;  // unreadable now; nothing depends on the sweep
  }
}

Error not_of_this_user(const std::string& path, uid_t owner) {
  return {Status::unavailable, format("%s belongs to user %u, not to user %u who runs this "
                                      "process: it is not used; XDG_RUNTIME_DIR, "
                                      "SYMM_DIR or SYMM_IPC_DIRECTORY can name another place",
                                   path.c_str(), owner, geteuid())};
}
}  // namespace

std::string fresh_name(const std::string& prefix) {
  return format("%s-%016lx-%016lx", prefix.c_str(), process::boot_time_ns(), process::random64());
}

std::string read_note(int directory, const char* name) {
  char text[kLongestNote + 1];
  const ssize_t size = readlinkat(directory, name, text, sizeof text);
  return size <= 0 ? std::string() : std::string(text, static_cast<size_t>(size));
}

std::string expiry(uint64_t until_ns) {
  return format("%016lx %016lx ", fnv1a(process::boot_id()), until_ns);
}

bool has_expired(const std::string& note) {
  uint64_t boot = 0;
  uint64_t until_ns = 0;
  if (std::sscanf(note.c_str(), "%16lx %16lx ", &boot, &until_ns) != 2) return false;
  return boot != fnv1a(process::boot_id()) || until_ns < process::boot_time_ns();
}

Fd open_private_directory(const std::string& path, bool create) {
  // Another process may remove the empty directory between mkdir() and open(): then they are
  // repeated.
  Fd directory;
  int error = ENOENT;
  for (int attempt = 0; !directory && error == ENOENT && attempt < (create ? 100 : 1); ++attempt) {
    if (create && mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
      throw system_error(errno, "mkdir", path);
    }
    directory = make_fd(::open, path.c_str(), kOpenDirectory);
    error = errno;
  }

  if (!directory) {
    if (error == ELOOP || error == ENOTDIR) {
      throw Error(Status::unavailable,
          format("%s is not a directory, or is a symbolic link: it is not used", path.c_str()));
    }
    // In /tmp, another user may have made a directory of the name that this user's would have.
    struct stat theirs{};
    if (error != EACCES || stat(path.c_str(), &theirs) != 0 || theirs.st_uid == geteuid()) {
      throw system_error(error, "open", path);
    }
    throw not_of_this_user(path, theirs.st_uid);
  }

  struct stat status{};
  if (fstat(directory.get(), &status) != 0) throw system_error(errno, "fstat", path);
  if (status.st_uid != geteuid()) throw not_of_this_user(path, status.st_uid);
  if ((status.st_mode & 077) != 0) {
    throw Error(Status::unavailable,
        format("%s has mode %04o and so is open to others: it is not used; it needs mode 0700",
            path.c_str(), status.st_mode & 07777));
  }
  return directory;
}

std::string default_parent() {
  const char* runtime = environment("XDG_RUNTIME_DIR");
  struct stat status{};
  if (runtime[0] == '/' && stat(runtime, &status) == 0 && S_ISDIR(status.st_mode) &&
      status.st_uid == geteuid() && (status.st_mode & 022) == 0) {
    return std::string(runtime) + "/symm";
  }
  return "/tmp/symm-" + std::to_string(geteuid());
}

bool exists(int directory, const char* name) noexcept {
  struct stat status{};
  return fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

void list_directory(int directory, const std::function<void(const char*)>& visit) {
  Fd copy = make_fd(::openat, directory, ".", kOpenDirectory);
  if (!copy && errno == ENOENT) return;  // removed meanwhile, so it was empty
  DIR* const opened = copy ? fdopendir(copy.get()) : nullptr;
  if (opened == nullptr) throw system_error(errno, "opendir");

  copy.release();
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(opened, closedir);
  while (const dirent* entry = readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") visit(entry->d_name);
  }
}

std::unique_ptr<SharedDirectory> SharedDirectory::make(
    const std::string& parent, const std::string& prefix) {
  // A sweep may remove the directory between the steps below. Each step notices, and the
  // next attempt has another name.
  for (int attempt = 0; attempt < 100; ++attempt) {
    const Fd above = open_private_directory(parent, true);
    std::string name = fresh_name(prefix);
    if (mkdirat(above.get(), name.c_str(), 0700) != 0) {
      if (errno == ENOENT || errno == EEXIST) continue;
      throw system_error(errno, "mkdir", parent + "/" + name);
    }

    Fd directory = make_fd(::openat, above.get(), name.c_str(), kOpenDirectory);
    if (!directory && errno == ENOENT) continue;
    if (!directory) throw system_error(errno, "open", parent + "/" + name);

    Fd lock = make_fd(
        ::openat, directory.get(), kLock, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    const auto fail = [&](const char* call) {
      const int error = errno;
      remove_held(above.get(), name.c_str(), directory.get());
      throw system_error(error, call, parent + "/" + name + "/" + kLock);
    };
    if (!lock && errno == ENOENT) continue;
    if (!lock) fail("open");
    if (flock(lock.get(), LOCK_SH | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) continue;
      fail("flock");
    }

    if (!write_whole(lock.get(), kLockText.data(), kLockText.size())) fail("write");
    if (still_linked(lock.get())) {
      return std::make_unique<SharedDirectory>(
          parent, std::move(name), std::move(directory), std::move(lock));
    }
  }
  throw Error(Status::system, "cannot make a directory in " + parent +
                                  ": something removes each one as soon as it is made");
}

std::unique_ptr<SharedDirectory> SharedDirectory::enter(
    const std::string& parent, const std::string& name) {
  const Fd above = make_fd(::open, parent.c_str(), kOpenDirectory);
  if (!above && errno == ENOENT) return nullptr;
  if (!above) throw system_error(errno, "open", parent);

  Fd directory = make_fd(::openat, above.get(), name.c_str(), kOpenDirectory);
  if (!directory && errno == ENOENT) return nullptr;
  if (!directory) throw system_error(errno, "open", parent + "/" + name);

  Fd lock = make_fd(::openat, directory.get(), kLock, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (!lock && errno == ENOENT) return nullptr;
  if (!lock) throw system_error(errno, "open", parent + "/" + name + "/" + kLock);
  if (flock(lock.get(), LOCK_SH | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return nullptr;
    throw system_error(errno, "flock", parent + "/" + name + "/" + kLock);
  }
  if (!still_linked(lock.get())) return nullptr;
  return std::make_unique<SharedDirectory>(parent, name, std::move(directory), std::move(lock));
}

SharedDirectory::~SharedDirectory() {
  // flock() gives up the shared lock before it takes the exclusive one. So if two processes leave
  // at once, at least one gets the exclusive lock.
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) {
    const Fd above = make_fd(::open, parent_.c_str(), kOpenDirectory);
    if (above && still_linked(lock_.get())) {
      remove_held(above.get(), name_.c_str(), directory_.get());
    }
  }
  flock(lock_.get(), LOCK_UN);  // also if a forked child has a copy of the descriptor
}

void sweep(const std::string& parent, Sweep what) noexcept {
  const Fd directory = make_fd(::open, parent.c_str(), kOpenDirectory);
  struct stat status{};
  if (directory && fstat(directory.get(), &status) == 0 && status.st_uid == geteuid()) {
    sweep_in(directory.get(), what);
  }
}
}  // namespace symm
