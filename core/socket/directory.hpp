// Private directories: mode 0700, ours, reached without
// following a link; anything else is refused, never repaired.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/base/fd.hpp"

namespace symm {
// Open `path`, making its last component if `create` and it is missing. Throws if it is
// a link, belongs to someone else or is open to group or others.
Fd open_private_directory(const std::string& path, bool create);

// $XDG_RUNTIME_DIR/symm if XDG_RUNTIME_DIR is a directory of ours that nobody else may
// write to, else /tmp/symm-<uid>. Not made here.
std::string default_parent();

// A directory with a fresh, unpredictable name that several processes may
// share. Everyone in it holds a shared flock on its lock file; the last
// to leave, in whatever order, removes it with all it contains. What a
// killed process leaves behind has a free lock: sweep() removes it.
class SharedDirectory {
 public:
  // Make "<prefix>-<time>-<random>", with "g" or "g-<16 hexadecimal digits>" as prefix,
  // in the private directory `parent`, which is made if missing.
  static std::unique_ptr<SharedDirectory> make(
      const std::string& parent, const std::string& prefix);
  // Enter an existing one. Null if it is gone or going.
  static std::unique_ptr<SharedDirectory> enter(const std::string& parent, const std::string& name);

  SharedDirectory(std::string parent, std::string name, Fd directory, Fd lock)
      : parent_(std::move(parent)),
        name_(std::move(name)),
        directory_(std::move(directory)),
        lock_(std::move(lock)) {}
  SharedDirectory(SharedDirectory&&) = delete;
  ~SharedDirectory();

  int fd() const noexcept { return directory_.get(); }
  // names of one prefix sort by the time they were made
  const std::string& name() const noexcept { return name_; }
  std::string path() const { return parent_ + "/" + name_; }

 private:
  const std::string parent_;
  const std::string name_;
  const Fd directory_;
  const Fd lock_;
};

inline constexpr char kSharedPrefix[] = "g-";  // directories of one creation
inline constexpr char kJobPrefix[] = "j-";     // directories of one job, with the former inside

// Remove the shared directories in `parent` that nobody is in: those
// of such a name and with such a lock as are made here, since `parent`
// may be a directory of the user's. In one that is ours alone, those
// inside job directories too, and job directories left empty.
enum class Sweep { shared_directories, with_jobs };
void sweep(const std::string& parent, Sweep what = Sweep::shared_directories) noexcept;

// By a system call that every sandbox knows.
bool exists(int directory, const char* name) noexcept;
// Call `visit` with every name in the directory but "." and "..".
void list_directory(int directory, const std::function<void(const char* name)>& visit);
}  // namespace symm
