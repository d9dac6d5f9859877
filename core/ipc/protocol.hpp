// The packets between an exporter and an importer. As in core/mesh/wire.hpp, one function decodes
// all of them from a private copy, and is fuzzed.
//
// A packet is a header of 28 bytes, little-endian, and a body:
//    0  u32 magic
//    4  u16 number
//    6  u16 type
//    8  u32 library
//   12  u32 length of the whole
//   16  u32 descriptors
//   20  u64 lease
//
// The number is that of layouts::leases, which the lease ring and the validity board of a welcome
// have, too, and `library` the version of the sender's library. The first 12 bytes are equal in all
// versions: an importer refuses an exporter of another number at its welcome, and names both
// versions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/base/layouts.hpp"
#include "core/ipc/token.hpp"
#include "core/ipc/token_pad.hpp"

namespace symm::ipc {
inline constexpr size_t kPacketHeader = 28;
// The error of decode() for a packet with another number, which packet.stamp tells.
inline constexpr char kOtherNumber[] = "a packet of another version of symm";
inline constexpr size_t kMaxPacket = kPacketHeader + kFailureHeader + kMaxToken + kMaxFailureText;

enum class PacketType : uint16_t {
  welcome = 1,  // exporter, first: lease ring and validity board, as descriptors
  request = 2,  // importer: `token`, for which it wants `lease`
  // From the exporter: the lease is granted. `extent`, and the memory's descriptor if it was asked
  // for; of a bundle also `block`, how many of its blocks have been sent; of a token with channels
  // also `pad` and `writer`, and the pad's descriptor behind that of the memory.
  grant = 3,
  refusal = 4,  // exporter: it is not. `failure`
  retired = 5,  // exporter: `block` cannot be imported any more
  // Asks the receiver to look at the lease ring: there is an event (for the exporter), or there is
  // room again (for an importer whose ring was full).
  nudge = 6,
  bye = 7,   // importer: it holds nothing more and will close
  life = 8,  // importer: it holds word `block` of the descriptor
  // From the exporter, ahead of a grant: descriptors of blocks of a bundle, from number `block` on.
  part = 9,
  withdrawn = 10,  // exporter: as `retired`, and its owner has withdrawn it, not released it
};

// The blocks of a bundle that are sent with one grant. Those packets leave much room in the queue
// of a socket, and their descriptors fewer than the kernel has for a user.
inline constexpr size_t kBlocksAtOnce = 252;

struct Packet {
  PacketType type{};
  Stamp stamp = stamp_of(layouts::leases);
  uint32_t descriptors = 0;
  uint64_t lease = 0;
  bool wants_memory = false;
  uint64_t from = 0;  // of a request for a bundle: the first block whose memory it wants
  Token token{};
  uint64_t block = 0;
  BlockExtent extent{};  // from where it is mapped on
  PadShape pad{};        // no channels: there is none
  uint64_t writer = 0;   // the importer's number there
  Failure failure{};
};

// The packet that refuses `lease`; call it in a catch block. It has the failure, with this process
// as the one that reports it.
Packet refusal_of(uint64_t lease);

// The kernel does not take a descriptor just now, for one: its bound on those of a user
// that are in flight is reached. Who is told so asks again.
Failure crowded();
bool is_crowded(const Failure& failure) noexcept;

std::vector<std::byte> encode(const Packet& packet);
// Decodes a packet. Returns nullptr if `bytes` is exactly one valid packet, else the reason why
// not; if that is kOtherNumber, packet.stamp is the sender's.
[[nodiscard]] const char* decode(std::span<const std::byte> bytes, Packet& packet);
}  // namespace symm::ipc
