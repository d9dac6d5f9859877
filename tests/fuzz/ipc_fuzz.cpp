// Gives any bytes to the decoders of tokens and of packets between
// exporter and importer. Bytes that a decoder accepts must survive a
// round trip unchanged. The first byte chooses a packet, a token, or a
// token whose checksum is put right, since no fuzzer would guess one.
#include <cstdlib>

#include "core/base/hash.hpp"
#include "core/ipc/protocol.hpp"

namespace {
using symm::Status;

void require_same(const std::vector<std::byte>& again, std::span<const std::byte> bytes) {
  if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
}

void token(std::span<const std::byte> bytes) {
  symm::ipc::Token token;
  if (symm::ipc::decode(bytes, token).status == Status::ok) require_same(encode(token), bytes);
}

// The token with the right lengths and the right checksum.
std::vector<std::byte> sealed(std::span<const std::byte> bytes) {
  std::vector<std::byte> whole(bytes.begin(), bytes.end());
  if (whole.size() < symm::ipc::kTokenFixed + 8) return whole;
  const auto put = [&](size_t at, uint64_t value, size_t size) {
    for (size_t i = 0; i < size; ++i) {
      whole[at + i] = static_cast<std::byte>(value >> (8 * i));
    }
  };
  put(12, whole.size(), 4);
  put(136, whole.size() - symm::ipc::kTokenFixed - 8, 4);
  put(whole.size() - 8, symm::fnv1a(std::span(whole.data(), whole.size() - 8)), 8);
  return whole;
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  if (data[0] % 3 == 0) {
    symm::ipc::Packet packet;
    if (symm::ipc::decode(bytes, packet) == nullptr) require_same(encode(packet), bytes);
  } else if (data[0] % 3 == 1) {
    token(bytes);
  } else {
    token(sealed(bytes));
  }
  return 0;
}
