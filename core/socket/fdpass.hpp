// Sends and receives one packet with its descriptors through a SEQPACKET socket, without waiting.
// Descriptors that arrive are counted and never leak: if the packet or its control part was cut
// short, all of them are closed.
#pragma once

#include <cerrno>
#include <cstddef>
#include <span>
#include <vector>

#include "core/base/fd.hpp"

namespace symm {
// Whether a call on a socket that does not block can be repeated: nothing was lost.
inline bool is_momentary(int error) noexcept {
  return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == ENOMEM;
}
}  // namespace symm

namespace symm::fdpass {
inline constexpr size_t kMaxFds = 4;  // in one packet

enum class Sent {
  done,
  would_block,
  // The kernel is short of something for now, such as the number of descriptors that a user may
  // have in flight. It does not tell when there is room again.
  crowded,
  closed
};
// Throws Error(system).
Sent send(int socket, std::span<const std::byte> packet, std::span<const int> fds);

struct Received {
  enum class What { packet, nothing, closed };
  What what = What::nothing;
  size_t size = 0;        // bytes of the packet
  std::vector<Fd> fds;    // empty if anything was cut short
  bool too_long = false;  // the packet did not fit the buffer
  // There were more descriptors than kMaxFds, or this process could take no more (then recvmsg()
  // succeeds without them).
  bool fds_cut = false;
  size_t fds_arrived = 0;  // includes those that were closed because something was cut short
};
// Throws Error(system).
Received receive(int socket, std::span<std::byte> buffer);
}  // namespace symm::fdpass
