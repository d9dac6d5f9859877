// SPDX-License-Identifier: Apache-2.0
//
// What goes wrong when ranks assemble, in words, and how the ranks tell each other.
#include <fcntl.h>

#include <cerrno>

#include "core/base/failure_codec.hpp"
#include "core/base/process.hpp"
#include "core/bootstrap/directory_rendezvous.hpp"

namespace symm {
namespace {

constexpr size_t kMaxDeclared = 2048;  // bytes of a declared failure's text: it names directories

}  // namespace

Failure DirectoryRendezvous::taken(int rank, int64_t pid) const {
  return {Status::mismatch, rank, pid,
          format("rank %d of %s is claimed by two processes: pid %lld, and pid %lld of this one", rank,
                 config_.description.c_str(), static_cast<long long>(pid), static_cast<long long>(getpid()))};
}

Failure DirectoryRendezvous::died(int rank, int64_t pid) const {
  return {Status::peer_failed, rank, pid,
          format("rank %d of %s (pid %lld) died or gave up while the group was being formed", rank, config_.description.c_str(),
                 static_cast<long long>(pid))};
}

Failure DirectoryRendezvous::missing() const {
  const std::string place = config_.description + (config_.name.empty() ? "" : " (group \"" + config_.name + "\")");
  if (!place_) return {Status::timeout, 0, 0, format("rank 0 did not come to %s before the deadline", place.c_str())};
  constexpr int kNamed = 8;
  std::string list;
  int first = -1;
  int count = 0;
  for (int rank = 0; rank < config_.size; ++rank) {
    if (rank == config_.rank || was_locked(fd(), rank)) continue;
    if (first < 0) first = rank;
    if (++count <= kNamed) list += (list.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (count == 0)
    return {Status::timeout, -1, 0, format("the ranks came to %s, but not all at once before the deadline", place.c_str())};
  if (count > kNamed) list += format(" and %d more", count - kNamed);
  return {Status::timeout, first, 0,
          format("%s %s of %d did not come to %s before the deadline", count == 1 ? "rank" : "ranks", list.c_str(), config_.size,
                 place.c_str())};
}

// Let everybody in an attempt fail with the same words.
void DirectoryRendezvous::declare(int directory, const Failure& failure) noexcept {
  try {
    const std::string temporary = format("new.%016llx", static_cast<unsigned long long>(process::random64()));
    const Fd file(openat(directory, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    Writer text;
    encode(text, failure, kMaxDeclared);
    if (file && write(file.get(), text.bytes_.data(), text.bytes_.size()) == static_cast<ssize_t>(text.bytes_.size())) {
      // The first one counts; that this is not it is no error.
      [[maybe_unused]] const int linked = linkat(directory, temporary.c_str(), directory, kFailedFile, 0);
    }
    unlinkat(directory, temporary.c_str(), 0);
  } catch (...) {
    return;  // the others then learn it from their own deadline
  }
}

void DirectoryRendezvous::throw_if_declared() const {
  const Fd file(openat(fd(), kFailedFile, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file) return;
  std::byte text[kFailureHeader + kMaxDeclared];
  const ssize_t size = read(file.get(), text, sizeof text);
  if (size < 0) throw system_error(errno, "read", path() + "/" + kFailedFile);
  Failure failure;
  if (decode(Reader({text, static_cast<size_t>(size)}), failure, kMaxDeclared) != nullptr) {
    throw Error(Status::mismatch, "another rank failed and left an unreadable reason in " + path());
  }
  throw Error(std::move(failure));
}

}  // namespace symm
