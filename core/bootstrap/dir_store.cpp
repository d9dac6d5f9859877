// Stores in a directory that all ranks see. A value is written to a file without the key's
// name and then linked to it, so a reader finds all of it or nothing, and no key is set twice.
#include "core/bootstrap/dir_store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <exception>
#include <functional>
#include <string>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/little_endian.hpp"
#include "core/base/process.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/store.hpp"

namespace symm {
namespace {
std::string file_name(const std::string& key) {
  std::string name = "key." + escape_key(key);
  constexpr size_t kLongestName = 255;
  if (name.size() > kLongestName) {
    throw Error(Status::invalid_argument, "the key is too long for a file name: " + key);
  }
  return name;
}

Bytes read_all(int file, const std::string& name) {
  struct stat status{};
  if (fstat(file, &status) != 0) throw system_error(errno, "fstat", name);
  Bytes value(static_cast<size_t>(status.st_size));
  const ssize_t got = read_whole(file, value.data(), value.size());
  if (got < 0) throw system_error(errno, "read", name);
  if (static_cast<size_t>(got) != value.size()) {
    throw Error(Status::system, name + " was cut short while it was read");
  }
  return value;
}
}  // namespace

std::string escape_key(const std::string& key) {
  std::string escaped;
  for (const char c : key) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    escaped += plain ? std::string(1, c)
                     : format("%%%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
  return escaped;
}

namespace {
// Throws Error(mismatch) if the key is there.
void set_key(int directory, const std::string& path, const std::string& description,
    const std::string& key, const Bytes& value) {
  const std::string name = file_name(key);
  const std::string temporary = format("new.%016lx", process::random64());
  const Fd file = make_fd(::openat, directory, temporary.c_str(),
      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (!file) throw system_error(errno, "open", path + "/" + temporary);

  SYMM_POINT("store.set");
  const bool written = write_whole(file.get(), value.data(), value.size());

  // Unlike rename(), link() fails if the key is there.
  const int error =
      written && linkat(directory, temporary.c_str(), directory, name.c_str(), 0) == 0 ? 0 : errno;
  SYMM_POINT("store.linked");
  unlinkat(directory, temporary.c_str(), 0);

  if (!written) throw system_error(error, "write", path + "/" + temporary);
  if (error == EEXIST) {
    throw Error(Status::mismatch, "the key \"" + key + "\" was set twice in " + description);
  }
  if (error != 0) throw system_error(error, "link", path + "/" + name);
}

// The file of the key; none if it is not there.
Fd open_key(int directory, const std::string& path, const std::string& key) {
  const std::string name = file_name(key);
  Fd file = make_fd(::openat, directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (!file && errno != ENOENT) throw system_error(errno, "open", path + "/" + name);
  return file;
}

// Waits for the key. `look` throws if it will not come.
Bytes get_key(int directory, const std::string& path, const std::string& description,
    const std::string& key, const std::function<void()>& look, Deadline deadline) {
  SYMM_POINT("store.get");
  Fd file;
  const auto is_there = [&] {
    file = open_key(directory, path, key);
    return static_cast<bool>(file);
  };
  const auto look_once = [&] {
    if (is_there()) return true;

    try {
      look();
    } catch (const Error&) {
      if (is_there()) return true;  // a key that a rank set before it died counts
      throw;
    }
    return false;
  };

  if (!retry_until(look_once, deadline)) {
    throw Error(Status::timeout,
        "the key \"" + key + "\" did not appear in " + description + " before the deadline");
  }
  return read_all(file.get(), path + "/" + file_name(key));
}
}  // namespace

void DirStore::set(const std::string& key, const Bytes& value, Deadline) {
  set_key(rendezvous_.fd(), rendezvous_.path(), rendezvous_.config().description, key, value);
}

Bytes DirStore::get(const std::string& key, Deadline deadline) {
  const auto look = [this] { rendezvous_.look_at_next_rank(); };
  return get_key(
      rendezvous_.fd(), rendezvous_.path(), rendezvous_.config().description, key, look, deadline);
}

namespace {
constexpr char kFailure[] = "failure";  // the key of what a rank has told
}  // namespace

void PlaceStore::set(const std::string& key, const Bytes& value, Deadline) {
  set_key(place_->fd(), place_->path(), place_->path(), key, value);
}

Bytes PlaceStore::get(const std::string& key, Deadline deadline) {
  const auto look = [this] {
    if (const Fd file = open_key(place_->fd(), place_->path(), kFailure)) {
      Failure told;
      const Bytes text = read_all(file.get(), place_->path() + "/" + file_name(kFailure));
      const char* const fault =
          text.size() < kFailureHeader ? "cut short" : decode(Reader(text), told);
      if (fault == nullptr && told.status != Status::ok) throw Error(std::move(told));
    }
    look_();
  };
  return get_key(place_->fd(), place_->path(), place_->path(), key, look, deadline);
}

void PlaceStore::tell(const Failure& failure) const noexcept try {
  Writer text;
  encode(text, failure);
  set_key(place_->fd(), place_->path(), place_->path(), kFailure, text.bytes_);
} catch (const std::exception&) {
  return;  // another rank was first; or the others look for those that are gone
}
}  // namespace symm
