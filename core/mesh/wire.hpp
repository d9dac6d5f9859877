// The form of all that one rank sends to another before memory is shared: packets on sockets, and
// records in the store. One function decodes them all, from a private copy, and refuses anything
// that is not exactly as written here. It is fuzzed (tests/fuzz/wire_fuzz.cpp).
//
// A packet is a header of 44 bytes, little-endian, and a body:
//    0  u32 magic      4  u16 number     6  u32 library
//   10  u16 type      12  u32 length    16  u16 nfds
//   18  u16 source rank
//   20  u64 group     28  u64 tag       36  u64 sequence
//
// The number is that of layouts::messages, and `library` the version of the sender's library. The
// first 10 bytes are equal in all versions, so that a receiver of another number can name both
// versions. The first packet of a rank that another reads is its record in the store.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/layouts.hpp"
#include "core/bootstrap/store.hpp"
#include "core/socket/fdpass.hpp"

namespace symm::wire {
inline constexpr uint32_t kMagic = 0x4D4D5953;  // "SYMM"
inline constexpr size_t kHeaderSize = 44;
// The error of decode() for a packet with another number, which packet.stamp tells.
inline constexpr char kOtherNumber[] = "another version of the protocol";
inline constexpr size_t kMaxBody = 4096;
inline constexpr size_t kMaxPacket = kHeaderSize + kMaxBody;
inline constexpr size_t kMaxFds = fdpass::kMaxFds;
inline constexpr size_t kMaxName = 64;    // bytes of a socket's name
inline constexpr size_t kMaxPath = 1024;  // bytes of a directory's path, or of a name of DNS

enum class Type : uint16_t {
  hello = 1,  // first packet on a connection: Hello
  leave = 2,  // the source left `group`; no body
  bye = 3,    // the source left all groups and will close; no body
  // On a connection, `group` is revoked: Failure, noticed at the time `tag`. In the store, the
  // source failed to come.
  failure = 4,
  commit_vote = 5,  // how connecting went: Failure, whose status may be ok
  identity = 6,     // store record: Identity
  address = 7,      // store record: Address
  life = 8,         // the source holds word `tag` of the descriptor; no body
  // Values of MessageKind: any body, up to kMaxFds descriptors; the receiver says what it expects.
  first_user = 16,
  last_user = 63,
};

struct Header {
  uint32_t library = layouts::library;
  Type type{};
  uint32_t length = 0;
  uint16_t nfds = 0;
  uint16_t source = 0;
  uint64_t group = 0;
  uint64_t tag = 0;
  uint64_t sequence = 0;
};

// The rank that opened a connection. Nonce and name tell groups apart. The cookie, which the source
// drew for this mesh, tells the rank from impostors and from processes of an earlier job.
struct Hello {
  uint64_t nonce = 0;
  uint64_t name_hash = 0;
  uint64_t cookie = 0;
  uint32_t rank = 0;
  uint32_t size = 0;
};

// The first record that a rank publishes of itself.
struct Identity {
  std::array<std::byte, 16> process{};
  uint64_t cookie = 0;
  uint64_t nonce = 0;  // that of rank 0 becomes the mesh's
  uint64_t name_hash = 0;
  int64_t pid = 0;
  uint64_t start_time = 0;     // field 22 of /proc/<pid>/stat, 0 if unknown
  uint64_t pid_namespace = 0;  // inode, 0 if unknown; pids compare only within one
  uint64_t machine = 0;        // ranks with equal values can meet by a socket in a directory
  uint64_t network = 0;        // ranks with equal values have one loopback interface; 0 if unknown
  uint32_t size = 0;
  std::string host;     // the machine's name, for messages
  std::string address;  // by which other machines reach this one
};

// The sockets by which others connect to a rank.
struct Address {
  std::string name;       // the socket's name; "" when nobody needs to connect to this rank
  std::string directory;  // "" unless this rank made a fresh one for its machine
  // The port for ranks of other machines; 0 when none of them needs to connect to this rank.
  uint16_t port = 0;
};

// A decoded packet. header.type says which of the records is filled; `body` points into the packet.
struct Packet {
  Stamp stamp;
  Header header;
  std::span<const std::byte> body;
  Hello hello;
  Failure failure;
  Identity identity;
  Address address;
};

// Returns nullptr if `bytes` is exactly one valid packet, else why it is not; then `packet` means
// nothing, except for its stamp if the reason is kOtherNumber.
[[nodiscard]] const char* decode(std::span<const std::byte> bytes, Packet& packet);

using Buffer = std::vector<std::byte>;
// Writes a packet; header.length is taken from the body. Throws Error(invalid_argument) for a body
// or nfds that decode() would refuse.
Buffer encode(Header header, std::span<const std::byte> body = {});
Buffer encode(Header header, const Hello& hello);
Buffer encode(Header header, const Failure& failure);
Buffer encode(Header header, const Identity& identity);
Buffer encode(Header header, const Address& address);
}  // namespace symm::wire
