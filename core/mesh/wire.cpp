// Encodes and decodes the packets and records of a mesh. Decoding refuses everything that is
// not exactly as written.
#include "core/mesh/wire.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/layouts.hpp"
#include "core/base/little_endian.hpp"
#include "core/base/text.hpp"
#include "core/bootstrap/store.hpp"

namespace symm::wire {
namespace {
constexpr size_t kStampedSize = 10;  // magic, number and library
constexpr size_t kHelloSize = 32;
constexpr size_t kIdentitySize = 86;  // without host and address, which follow
constexpr size_t kAddressSize = 6;    // without name and directory, which follow

bool is_name(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
      [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-'; });
}

const char* decode_hello(Reader in, const Header& header, Hello& out) {
  if (in.left() != kHelloSize) return "hello of wrong length";
  in.numbers(out.nonce, out.name_hash, out.cookie, out.rank, out.size);
  if (out.size < 1 || out.size > kMostRanks || out.rank >= out.size || out.rank != header.source) {
    return "hello with an impossible rank";
  }
  return nullptr;
}

const char* decode_failure(Reader in, const Header& header, Failure& out) {
  if (const char* fault = decode(in, out)) return fault;
  if (out.status == Status::ok && header.type != Type::commit_vote) return "failure with status ok";
  return out.rank > kMostRanks ? "failure with an impossible rank" : nullptr;
}

const char* decode_identity(Reader in, Identity& out) {
  if (in.left() < kIdentitySize) return "identity of wrong length";
  out.process = in.bytes<decltype(out.process)>();
  in.numbers(out.cookie, out.nonce, out.name_hash, out.pid, out.start_time, out.pid_namespace,
      out.machine, out.network, out.size);
  const size_t host = in.number<uint16_t>();
  if (host > kMaxName || host > in.left() || in.left() - host > kMaxPath) {
    return "identity of wrong length";
  }

  out.host = in.text(host);
  out.address = in.text(in.left());
  if (!is_clean(out.host) || !is_clean(out.address)) return "identity with an impossible name";
  if (out.pid < 0) return "identity with an impossible pid";
  if (out.size < 1 || out.size > kMostRanks) return "identity with an impossible size";
  return nullptr;
}

const char* decode_address(Reader in, Address& out) {
  if (in.left() < kAddressSize) return "address of wrong length";
  const size_t name = in.number<uint16_t>();
  const size_t directory = in.number<uint16_t>();
  in.numbers(out.port);
  if (name > kMaxName || directory > kMaxPath || in.left() != name + directory) {
    return "address of wrong length";
  }

  out.name = in.text(name);
  out.directory = in.text(directory);

  // A name with a slash or a dot could lead out of the directory.
  if (!is_name(out.name)) return "address with an impossible name";
  if (!out.directory.empty() && (out.directory.front() != '/' || !is_clean(out.directory))) {
    return "address with an impossible directory";
  }
  return nullptr;
}

const char* decode_body(Packet& packet) {
  const Header& header = packet.header;
  if (header.type >= Type::first_user && header.type <= Type::last_user) return nullptr;
  if (header.nfds != (header.type == Type::life ? 1 : 0)) {
    return "descriptors where none belong, or none where one does";
  }

  const Reader in(packet.body);
  switch (header.type) {
    case Type::hello: return decode_hello(in, header, packet.hello);
    case Type::life:
    case Type::leave:
    case Type::bye: return header.length == 0 ? nullptr : "a body where none belongs";
    case Type::failure:
    case Type::commit_vote: return decode_failure(in, header, packet.failure);
    case Type::identity: return decode_identity(in, packet.identity);
    case Type::address: return decode_address(in, packet.address);
    default: return "unknown type";
  }
}
}  // namespace

const char* decode(std::span<const std::byte> bytes, Packet& packet) {
  // The part that is equal in all versions comes first: another version may have other lengths.
  if (bytes.size() < kStampedSize) return "shorter than a header";
  Reader in(bytes);
  if (in.number<uint32_t>() != kMagic) return "wrong magic";

  Header& header = packet.header;
  packet.stamp.number = in.number<uint16_t>();
  in.numbers(header.library);
  packet.stamp.library = header.library;
  if (packet.stamp.number != layouts::messages.number) return kOtherNumber;

  if (bytes.size() < kHeaderSize) return "shorter than a header";
  if (bytes.size() > kMaxPacket) return "longer than the longest packet";
  in.numbers(header.type, header.length, header.nfds, header.source, header.group, header.tag,
      header.sequence);

  if (header.length != bytes.size() - kHeaderSize) return "length that is not the packet's";
  if (header.nfds > kMaxFds) return "too many descriptors announced";
  if (header.source >= kMostRanks) return "impossible source rank";

  packet.body = bytes.subspan(kHeaderSize);
  return decode_body(packet);
}

Buffer encode(Header header, std::span<const std::byte> body) {
  Writer out;
  out.bytes_.reserve(kHeaderSize + body.size());
  header.length = static_cast<uint32_t>(body.size());
  out.numbers(kMagic, layouts::messages.number, header.library);
  out.numbers(header.type, header.length, header.nfds, header.source, header.group, header.tag,
      header.sequence);
  out.bytes(body);

  // A packet that a receiver would refuse is not sent, so that a fault is found where it is made.
  Packet check;
  if (const char* why = decode(out.bytes_, check)) {
    throw Error(Status::invalid_argument, format("packet not sent: %s", why));
  }
  return std::move(out.bytes_);
}

Buffer encode(Header header, const Hello& hello) {
  Writer body;
  body.numbers(hello.nonce, hello.name_hash, hello.cookie, hello.rank, hello.size);
  return encode(header, std::span<const std::byte>(body.bytes_));
}

Buffer encode(Header header, const Failure& failure) {
  Writer body;
  encode(body, failure);
  return encode(header, std::span<const std::byte>(body.bytes_));
}

Buffer encode(Header header, const Identity& identity) {
  Writer body;
  body.bytes(identity.process);
  body.numbers(identity.cookie, identity.nonce, identity.name_hash, identity.pid,
      identity.start_time, identity.pid_namespace, identity.machine, identity.network,
      identity.size);
  body.number(static_cast<uint16_t>(identity.host.size()));
  body.text(identity.host);
  body.text(identity.address);
  return encode(header, std::span<const std::byte>(body.bytes_));
}

Buffer encode(Header header, const Address& address) {
  Writer body;
  body.number(static_cast<uint16_t>(address.name.size()));
  body.numbers(static_cast<uint16_t>(address.directory.size()), address.port);
  body.text(address.name);
  body.text(address.directory);
  return encode(header, std::span<const std::byte>(body.bytes_));
}
}  // namespace symm::wire
