// Gives any bytes to the decoder of packets between ranks. Bytes that it accepts must survive a
// round trip unchanged.
#include <cstdlib>

#include "core/mesh/wire.hpp"

namespace {
symm::wire::Buffer encode_again(const symm::wire::Packet& packet) {
  using symm::wire::Type;
  switch (packet.header.type) {
    case Type::hello: return encode(packet.header, packet.hello);
    case Type::failure:
    case Type::commit_vote: return encode(packet.header, packet.failure);
    case Type::identity: return encode(packet.header, packet.identity);
    case Type::address: return encode(packet.header, packet.address);
    default: return encode(packet.header, packet.body);
  }
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  symm::wire::Packet packet;
  if (symm::wire::decode(bytes, packet) != nullptr) return 0;
  const symm::wire::Buffer again = encode_again(packet);
  if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
  return 0;
}
