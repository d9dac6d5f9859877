// The form of everything that one rank sends to another before memory
// is shared: packets on sockets and records in the store. One function
// decodes them all, from a private copy, and refuses whatever is not
// exactly as written here. It is fuzzed (tests/fuzz/wire_fuzz.cpp).
//
// A packet is a header of 40 bytes, little-endian, and a body:
//    0  u32 magic      4  u16 version    6  u16 type
//    8  u32 length    12  u16 nfds      14  u16 source rank
//   16  u64 group     24  u64 tag       32  u64 sequence
#pragma once

#include "core/base/error.hpp"
#include "core/bootstrap/store.hpp"
#include "core/socket/fdpass.hpp"

namespace symm::wire {
inline constexpr uint32_t kMagic = 0x4D4D5953;  // "SYMM"
inline constexpr uint16_t kVersion = 1;
inline constexpr size_t kHeaderSize = 40;
inline constexpr size_t kMaxBody = 4096;
inline constexpr size_t kMaxPacket = kHeaderSize + kMaxBody;
inline constexpr size_t kMaxFds = fdpass::kMaxFds;
inline constexpr size_t kMaxName = 64;    // of a socket
inline constexpr size_t kMaxPath = 1024;  // of a directory, or a name of DNS

enum class Type : uint16_t {
  hello = 1,  // first packet on a connection: Hello
  leave = 2,  // the source left `group`; no body
  bye = 3,    // the source left all groups and will close; no body
  // `group` is revoked: Failure, at the moment `tag`. In the store: this rank failed to come
  failure = 4,
  commit_vote = 5,  // how connecting went: Failure, of which status may be ok
  identity = 6,     // store record: Identity
  address = 7,      // store record: Address
  life = 8,         // the source holds word `tag` of the descriptor; no body
  // MessageKind: any body, up to kMaxFds descriptors; the receiver says what it expects
  first_user = 16,
  last_user = 63,
};

struct Header {
  Type type{};
  uint32_t length = 0;
  uint16_t nfds = 0;
  uint16_t source = 0;
  uint64_t group = 0;
  uint64_t tag = 0;
  uint64_t sequence = 0;
};

// Whose connection this is. Nonce and name tell apart groups, the cookie (drawn by the
// source for this mesh) impostors and leftovers.
struct Hello {
  uint64_t nonce = 0;
  uint64_t name_hash = 0;
  uint64_t cookie = 0;
  uint32_t rank = 0;
  uint32_t size = 0;
};

struct Identity {
  std::array<std::byte, 16> process{};
  uint64_t cookie = 0;
  uint64_t nonce = 0;  // rank 0's counts
  uint64_t name_hash = 0;
  int64_t pid = 0;
  uint64_t start_time = 0;     // field 22 of /proc/<pid>/stat, 0 if unknown
  uint64_t pid_namespace = 0;  // inode, 0 if unknown; pids compare only within one
  uint64_t machine = 0;        // ranks that have the same can meet by a socket in a directory
  uint32_t size = 0;
  std::string host;     // its name, for people
  std::string address;  // by which other machines reach it
};

struct Address {
  std::string name;       // of the socket; "" when nobody needs to connect to this rank
  std::string directory;  // "" unless this rank made a fresh one for its machine
  // for ranks of other machines; 0 when none of them needs to connect to this rank
  uint16_t port = 0;
};

// Which of the parts is filled depends on header.type; `body` points into the packet.
struct Packet {
  Header header;
  std::span<const std::byte> body;
  Hello hello;
  Failure failure;
  Identity identity;
  Address address;
};

// nullptr if `bytes` is exactly one valid packet, else why not; then `packet` means nothing.
[[nodiscard]] const char* decode(std::span<const std::byte> bytes, Packet& packet);

using Buffer = std::vector<std::byte>;
// length is taken from the body. Throws Error(invalid_argument)
// for a body or nfds that decode() would refuse.
Buffer encode(Header header, std::span<const std::byte> body = {});
Buffer encode(Header header, const Hello& hello);
Buffer encode(Header header, const Failure& failure);
Buffer encode(Header header, const Identity& identity);
Buffer encode(Header header, const Address& address);
}  // namespace symm::wire
