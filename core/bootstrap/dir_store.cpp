// A store in a directory that all ranks see. A value is written to a file without the key's
// name and then linked to it, so a reader finds all of it or nothing, and no key is set twice.
#include "core/bootstrap/dir_store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>

#include "core/base/error.hpp"
#include "core/base/fd.hpp"
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

void DirStore::set(const std::string& key, const Bytes& value, Deadline) {
  const std::string name = file_name(key);
  const std::string temporary = format("new.%016lx", process::random64());
  const Fd file = make_fd(::openat, rendezvous_.fd(), temporary.c_str(),
      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (!file) throw system_error(errno, "open", rendezvous_.path() + "/" + temporary);

  SYMM_POINT("store.set");
  const std::string path = rendezvous_.path() + "/";
  const bool written = write_whole(file.get(), value.data(), value.size());

  // Unlike rename(), link() fails if the key is there.
  const int error =
      written && linkat(rendezvous_.fd(), temporary.c_str(), rendezvous_.fd(), name.c_str(), 0) == 0
          ? 0
          : errno;
  SYMM_POINT("store.linked");
  unlinkat(rendezvous_.fd(), temporary.c_str(), 0);

  if (!written) throw system_error(error, "write", path + temporary);
  if (error == EEXIST) {
    throw Error(Status::mismatch,
        "the key \"" + key + "\" was set twice in " + rendezvous_.config().description);
  }
  if (error != 0) throw system_error(error, "link", path + name);
}

Bytes DirStore::get(const std::string& key, Deadline deadline) {
  SYMM_POINT("store.get");
  const std::string name = file_name(key);
  Fd file;
  const auto look = [&] {
    const auto open_key = [&] {
      file = make_fd(::openat, rendezvous_.fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
      if (!file && errno != ENOENT) {
        throw system_error(errno, "open", rendezvous_.path() + "/" + name);
      }
      return static_cast<bool>(file);
    };
    if (open_key()) return true;

    try {
      rendezvous_.look_at_next_rank();
    } catch (const Error&) {
      if (open_key()) return true;  // a key that a rank set before it died counts
      throw;
    }
    return false;
  };

  if (!retry_until(look, deadline)) {
    throw Error(Status::timeout, "the key \"" + key + "\" did not appear in " +
                                     rendezvous_.config().description + " before the deadline");
  }
  return read_all(file.get(), rendezvous_.path() + "/" + name);
}
}  // namespace symm
