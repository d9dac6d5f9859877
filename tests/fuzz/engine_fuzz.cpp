// Gives any bytes to the decoder of messages that a message engine receives. Bytes that
// it accepts must survive a round trip unchanged.
#include <cstdlib>

#include "core/engine/link.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto head = symm::engine::decode(bytes);
  if (!head) return 0;
  symm::engine::HeadBytes again;
  encode(*head, again);
  if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
  return 0;
}
