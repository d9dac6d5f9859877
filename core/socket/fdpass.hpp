// One packet with its descriptors through a SEQPACKET socket, without
// waiting. What arrives is counted and never leaked: a packet or
// control part that was cut short loses all its descriptors.
#pragma once

#include <cerrno>
#include <cstddef>
#include <span>
#include <vector>

#include "core/base/fd.hpp"

namespace symm {
// Of a socket that does not wait: nothing is lost, and it can be tried again.
inline bool is_momentary(int error) noexcept {
  return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == ENOMEM;
}
}  // namespace symm

namespace symm::fdpass {
inline constexpr size_t kMaxFds = 4;  // of one packet

enum class Sent {
  done,
  would_block,
  // the kernel is short of something for now, such as its bound
  // on a user's descriptors in flight; nobody tells of room
  crowded,
  closed
};
// Throws Error(system).
Sent send(int socket, std::span<const std::byte> packet, std::span<const int> fds);

struct Received {
  enum class What { packet, nothing, closed };
  What what = What::nothing;
  size_t size = 0;        // of the packet
  std::vector<Fd> fds;    // empty if anything was cut short
  bool too_long = false;  // did not fit the buffer
  // more descriptors than kMaxFds, or this process could
  // take no more (then recvmsg succeeds without them)
  bool fds_cut = false;
  size_t fds_arrived = 0;  // before they were closed
};
// Throws Error(system).
Received receive(int socket, std::span<std::byte> buffer);
}  // namespace symm::fdpass
