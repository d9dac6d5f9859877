// Reads memory of another process, and the seal that says that it is the right one.
#include "core/host/peer_memory.hpp"

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <system_error>
#include <utility>

namespace symm::host {
bool PeerMemory::read(std::span<std::byte> to, uint64_t from, uint64_t seal_at) noexcept {
  if (!may_be_read_) return false;

  std::array<std::byte, kMostSeal> seen;
  const iovec here[] = {{seen.data(), seal_.size()}, {to.data(), to.size()}};
  // NOLINTBEGIN(performance-no-int-to-ptr): addresses of another process
  const iovec there[] = {{reinterpret_cast<void*>(seal_at), seal_.size()},
      {reinterpret_cast<void*>(from), to.size()}};
  // NOLINTEND(performance-no-int-to-ptr)
  const ssize_t got = process_vm_readv(static_cast<pid_t>(pid_), here, 2, there, 2, 0);

  if (got < 0) return refuse(errno);
  const auto bytes = static_cast<size_t>(got);
  if (bytes < seal_.size()) return refuse(ESRCH);
  if (std::memcmp(seen.data(), seal_.data(), seal_.size()) != 0) return refuse(ESRCH);
  // A part that the kernel does not read, as memory of a device, says nothing of other parts.
  return bytes == seal_.size() + to.size();
}

bool PeerMemory::refuse(int error) noexcept {
  may_be_read_ = false;
  is_refusal_new_ = true;
  error_ = error;
  return false;
}

std::string PeerMemory::take_refusal() {
  if (!std::exchange(is_refusal_new_, false)) return {};
  if (error_ == ESRCH) return "its process is not found by its number";
  return "process_vm_readv: " + std::generic_category().message(error_);
}
}  // namespace symm::host
