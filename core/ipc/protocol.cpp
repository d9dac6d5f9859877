// Encodes and decodes the packets between exporter and importer. Decoding refuses everything
// that is not exactly a packet.
#include "core/ipc/protocol.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/base/layouts.hpp"
#include "core/base/little_endian.hpp"
#include "core/ipc/bundle.hpp"
#include "core/ipc/token.hpp"
#include "core/ipc/token_pad.hpp"
#include "core/socket/fdpass.hpp"

namespace symm::ipc {
namespace {
constexpr uint32_t kPacketMagic = 0x43495953;  // "SYIC"

// The smallest and the largest number of descriptors that a packet of one type may carry.
struct Descriptors {
  uint32_t least;
  uint32_t most;
};

Descriptors descriptors_of(PacketType type) {
  if (type == PacketType::welcome) return {2, 2};
  if (type == PacketType::grant) return {0, 2};
  if (type == PacketType::life) return {1, 1};
  if (type == PacketType::part) return {1, fdpass::kMaxFds};
  return {0, 0};
}

const char* decode_body(Reader in, Packet& packet) {
  switch (packet.type) {
    case PacketType::request: {
      if (in.left() < sizeof(uint64_t)) return "a request without a token";
      const auto wants = in.number<uint64_t>();
      if (wants > kMostPieces) return "a request with unknown wishes";
      packet.wants_memory = wants != 0;
      packet.from = wants != 0 ? wants - 1 : 0;
      const TokenFault fault = decode(in.rest(), packet.token);
      if (fault.status != Status::ok) return fault.why;
      return packet.from == 0 || packet.token.is_bundle ? nullptr : "a request with unknown wishes";
    }

    case PacketType::grant:
      if (in.left() != 7 * sizeof(uint64_t) + sizeof(uint32_t) + sizeof(FabricHandle)) {
        return "a grant of wrong length";
      }
      in.numbers(packet.extent.bytes, packet.extent.mapped, packet.extent.on_host, packet.block,
          packet.pad.channels, packet.pad.bytes, packet.pad.fence_bytes, packet.writer);
      packet.extent.fabric = in.bytes<FabricHandle>();
      if (!packet.extent.is_possible()) return "a grant of an impossible block";
      if (packet.writer >= kMostPadWriters) return "a grant of an impossible pad";
      if (packet.pad.channels == 0) return packet.descriptors <= 1 ? nullptr : "a pad too many";
      if (!packet.pad.is_possible()) return "a grant of an impossible pad";
      return packet.descriptors >= 1 ? nullptr : "a grant without its pad";

    case PacketType::refusal:
      if (const char* fault = decode(in, packet.failure)) return fault;
      return packet.failure.status == Status::ok ? "a refusal without a reason" : nullptr;

    case PacketType::life:
    case PacketType::part:
    case PacketType::retired:
    case PacketType::withdrawn:
      if (in.left() != sizeof(uint64_t)) return "a number of wrong length";
      packet.block = in.number<uint64_t>();
      return nullptr;
    default: return in.left() == 0 ? nullptr : "a body where none belongs";
  }
}
}  // namespace

Packet refusal_of(uint64_t lease) {
  Packet refusal{.type = PacketType::refusal, .lease = lease, .failure = current_failure()};
  refusal.failure.pid = getpid();
  return refusal;
}

Failure crowded() {
  return {Status::system, -1, getpid(),
      "sendmsg: the kernel has too many descriptors of this user in flight", ETOOMANYREFS, 0};
}

bool is_crowded(const Failure& failure) noexcept { return failure.os_error == ETOOMANYREFS; }

std::vector<std::byte> encode(const Packet& packet) {
  Writer body;
  if (packet.type == PacketType::request) {
    body.number<uint64_t>(packet.wants_memory ? 1 + packet.from : 0);
    body.bytes(encode(packet.token));
  } else if (packet.type == PacketType::grant) {
    body.numbers(packet.extent.bytes, packet.extent.mapped, packet.extent.on_host, packet.block,
        packet.pad.channels, packet.pad.bytes, packet.pad.fence_bytes, packet.writer);
    body.bytes(packet.extent.fabric);
  } else if (packet.type == PacketType::refusal) {
    encode(body, packet.failure);
  } else if (packet.type == PacketType::retired || packet.type == PacketType::withdrawn ||
             packet.type == PacketType::life || packet.type == PacketType::part) {
    body.number(packet.block);
  }

  Writer out;
  out.numbers(kPacketMagic, layouts::leases.number, packet.type, packet.stamp.library,
      static_cast<uint32_t>(kPacketHeader + body.bytes_.size()), packet.descriptors, packet.lease);
  out.bytes(body.bytes_);

  return std::move(out.bytes_);
}

const char* decode(std::span<const std::byte> bytes, Packet& packet) {
  constexpr size_t kPrefix = 12;  // what is equal in all versions
  constexpr const char* kBadLength = "a packet of impossible length";
  if (bytes.size() < kPrefix) return kBadLength;

  Reader in(bytes);
  if (in.number<uint32_t>() != kPacketMagic) return "something that is not a packet";
  packet.stamp.number = in.number<uint16_t>();
  const auto type = in.number<uint16_t>();
  in.numbers(packet.stamp.library);
  if (packet.stamp.number != layouts::leases.number) return kOtherNumber;
  if (bytes.size() < kPacketHeader || bytes.size() > kMaxPacket) return kBadLength;
  if (type < static_cast<uint16_t>(PacketType::welcome) ||
      type > static_cast<uint16_t>(PacketType::withdrawn)) {
    return "an unknown packet";
  }

  packet.type = static_cast<PacketType>(type);
  if (in.number<uint32_t>() != bytes.size()) return "a packet of another length than it says";
  packet.descriptors = in.number<uint32_t>();
  packet.lease = in.number<uint64_t>();
  const Descriptors allowed = descriptors_of(packet.type);

  if (packet.descriptors < allowed.least || packet.descriptors > allowed.most) {
    return "a wrong number of descriptors";
  }

  const bool leased = packet.type == PacketType::request || packet.type == PacketType::grant ||
                      packet.type == PacketType::part || packet.type == PacketType::refusal;
  if (leased != (packet.lease != 0)) return "a lease where none belongs, or none where one does";
  return decode_body(in, packet);
}
}  // namespace symm::ipc
