// The files by which the spares of a job find its groups, and tell the launcher of their places.
#include "core/group/launched_spares.hpp"

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/deadline.hpp"
#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/hash.hpp"
#include "core/base/process.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/store.hpp"
#include "core/group/flags.hpp"
#include "core/group/group.hpp"
#include "core/group/ticket.hpp"

namespace symm {
namespace {
std::string ticket_path(const std::string& name) {
  return format("%s/ticket-%016lx", environment("SYMM_TICKETS"), fnv1a(std::string_view(name)));
}

// Writes a file that appears whole, or does nothing if it is there.
void write_once(const std::string& path, const Bytes& bytes) {
  const std::string temporary = format("%s.%016lx", path.c_str(), process::random64());
  const Fd file = make_fd(
      ::open, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (!file) throw system_error(errno, "open", temporary);
  const bool written = write_whole(file.get(), bytes.data(), bytes.size());
  const int error = written && ::link(temporary.c_str(), path.c_str()) == 0 ? 0 : errno;
  ::unlink(temporary.c_str());
  if (!written) throw system_error(error, "write", temporary);
  if (error != 0 && error != EEXIST) throw system_error(error, "link", path);
}

Bytes await_file(const std::string& path) {
  Fd file;
  const auto is_there = [&] {
    file = make_fd(::open, path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (!file && errno != ENOENT) throw system_error(errno, "open", path);
    return static_cast<bool>(file);
  };
  retry_until(is_there, Deadline::never());
  Bytes bytes(kTicketBytes);
  if (read_whole(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    throw Error(Status::system, path + ": is no ticket");
  }
  return bytes;
}
}  // namespace

bool is_launched(const GroupConfig& config) {
  return config.size == 0 && config.callbacks == nullptr && config.id.empty() &&
         (config.bootstrap.empty() || config.bootstrap == "env://");
}

bool is_launched_spare(const GroupConfig& config) {
  if (!is_launched(config) || *environment("SYMM_SPARE") == '\0') return false;
  if (*environment("SYMM_TICKETS") != '\0') return true;
  throw Error(Status::invalid_argument, "SYMM_TICKETS is missing: SYMM_SPARE goes with it");
}

std::shared_ptr<Group> join_launched(const GroupConfig& config) {
  const Bytes ticket = await_file(ticket_path(config.name));
  GroupConfig own;
  own.backend = config.backend;
  own.device = config.device;
  set_flags(own, flags_of(config) & kOwnFlags);
  own.create_timeout_ms = Deadline::kInfinite;
  auto group = Group::join(ticket, own);
  // The launcher takes it for a rank from now on.
  write_once(format("%s/rank-%s", environment("SYMM_TICKETS"), environment("SYMM_SPARE")), {});
  return group;
}

void leave_ticket(const Group& group) {
  if (group.rank() != 0 || *environment("SYMM_TICKETS") == '\0') return;
  if (group.machines().count > 1) return;
  write_once(ticket_path(group.name()), group.invite(0));
}
}  // namespace symm
