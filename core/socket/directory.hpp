// Private directories: of mode 0700, owned by this user, reached without following a link. Anything
// else is refused, never repaired.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "core/base/fd.hpp"

namespace symm {
// Opens `path`. If `create`, makes its last component if that is missing. Throws if the directory
// is a link, belongs to another user or is open to group or others.
Fd open_private_directory(const std::string& path, bool create);

// $XDG_RUNTIME_DIR/symm if XDG_RUNTIME_DIR is a directory of this user to which no other user
// may write, else /tmp/symm-<uid>. It is not made here.
std::string default_parent();

// A directory with a fresh, unpredictable name that several processes may share. Each process in it
// holds a shared flock on its lock file; the last to leave removes the directory with all it
// contains. A directory that killed processes left has a free lock: sweep() removes it.
class SharedDirectory {
 public:
  // Makes "<prefix>-<time>-<random>", with "g" or "g-<16 hexadecimal digits>" as prefix, in the
  // private directory `parent`, which is made if missing.
  static std::unique_ptr<SharedDirectory> make(
      const std::string& parent, const std::string& prefix);
  // Enters a directory that exists. Null if it is gone, or being removed.
  static std::unique_ptr<SharedDirectory> enter(const std::string& parent, const std::string& name);

  SharedDirectory(std::string parent, std::string name, Fd directory, Fd lock)
      : parent_(std::move(parent)),
        name_(std::move(name)),
        directory_(std::move(directory)),
        lock_(std::move(lock)) {}
  SharedDirectory(SharedDirectory&&) = delete;
  ~SharedDirectory();

  int fd() const noexcept { return directory_.get(); }
  // Names with one prefix sort by the time at which they were made.
  const std::string& name() const noexcept { return name_; }
  std::string path() const { return parent_ + "/" + name_; }

 private:
  const std::string parent_;
  const std::string name_;
  const Fd directory_;
  const Fd lock_;
};

inline constexpr char kSharedPrefix[] = "g-";  // the directory of one creation of a group
inline constexpr char kJobPrefix[] = "j-";     // the directory of a job, with such ones inside
inline constexpr char kNotePrefix[] = "f-";    // a note about a creation that failed

// "<prefix>-<time>-<random>". Names with one prefix sort by the time at which they were made.
std::string fresh_name(const std::string& prefix);

// A note is a symbolic link that leads nowhere: its target is the text. So it is there
// whole or not at all, and a process that has no descriptor left, or may write no file,
// can make one. A note begins with expiry(), which says how long it is worth anything.
inline constexpr size_t kLongestNote = 4095;
// The text of a note; "" if it is gone, or is none.
std::string read_note(int directory, const char* name);
// The first characters of a note that is kept until then, by process::boot_time_ns(), and not
// beyond the running of this kernel.
std::string expiry(uint64_t until_ns);
bool has_expired(const std::string& note);

// Removes the shared directories in `parent` that no process is in, and notes that have
// expired. Only those with the name and the lock of SharedDirectory, or with the name
// and the text of a note, are removed, since `parent` may be a directory of the user's.
// Use `with_jobs` in a directory that is symm's alone: it also removes those inside job
// directories, and job directories that are empty then.
enum class Sweep { shared_directories, with_jobs };
void sweep(const std::string& parent, Sweep what = Sweep::shared_directories) noexcept;

// Asks by a system call that every sandbox knows.
bool exists(int directory, const char* name) noexcept;
// Calls `visit` with every name in the directory but "." and "..".
void list_directory(int directory, const std::function<void(const char* name)>& visit);
}  // namespace symm
