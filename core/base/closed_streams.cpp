// Holds the numbers of closed standard streams for all makers of descriptors in the process.
#include "core/base/closed_streams.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "core/base/fd.hpp"
#include "core/base/process.hpp"

namespace symm {
namespace {
constexpr size_t kStreams = STDERR_FILENO + 1;

// What is read and written here is guarded by the lock against fork(): a child finds each place
// either taken and known or not taken.
struct Places {
  size_t users = 0;
  std::array<OpenFile, kStreams> files;  // all zero: not held
};
constinit Places held_places;

// -1 if the stream is closed.
int flags_of(int stream) noexcept { return fcntl(stream, F_GETFL); }

// Takes the lowest numbers until one is beyond the streams. If there is none, no descriptor can be
// made either.
void take_closed() noexcept {
  for (;;) {
    const int made = ::open("/", O_PATH | O_CLOEXEC);
    if (made < 0) return;
    if (made > STDERR_FILENO) {
      ::close(made);
      return;
    }
    held_places.files.at(static_cast<size_t>(made)) = OpenFile::behind(made);
  }
}

// The program may have another file there by now. No program has a stream that can be neither read
// nor written (O_PATH).
void give_back() noexcept {
  for (size_t i = 0; i < kStreams; ++i) {
    OpenFile& file = held_places.files[i];
    const int stream = static_cast<int>(i);
    const int flags = file == OpenFile() ? -1 : flags_of(stream);
    if (flags >= 0 && (flags & O_PATH) != 0 && OpenFile::behind(stream) == file) ::close(stream);
    file = {};
  }
}

void give_back_in_child() noexcept {
  give_back();
  held_places.users = 0;
}
}  // namespace

bool ClosedStreams::is_any_closed() noexcept {
  const int error = errno;
  bool any = false;
  for (int stream = 0; stream <= STDERR_FILENO && !any; ++stream) {
    const int flags = flags_of(stream);
    any = flags < 0 || (flags & O_PATH) != 0;
  }
  errno = error;
  return any;
}

ClosedStreams::ClosedStreams() : ClosedStreams(For::one_call) {}

ClosedStreams::ClosedStreams(For what) {
  if (what == For::one_call && !is_any_closed()) return;

  const int error = errno;
  const std::lock_guard lock(process::lock_against_fork());
  process::at_fork_in_child(give_back_in_child);
  generation_ = process::fork_generation();
  holds_ = true;
  ++held_places.users;
  take_closed();
  errno = error;
}

ClosedStreams::~ClosedStreams() {
  if (!holds_) return;
  const int error = errno;
  const std::lock_guard lock(process::lock_against_fork());
  if (generation_ == process::fork_generation() && --held_places.users == 0) give_back();
  errno = error;
}

std::shared_ptr<const ClosedStreams> hold_closed_streams() {
  return std::shared_ptr<const ClosedStreams>(new ClosedStreams(ClosedStreams::For::connections));
}
}  // namespace symm
