// A byte stream between two processes that know one secret. Nobody else can read, change or begin
// it. Of a process that does not know the secret, only the first 92 bytes are looked at, and only
// to check their seal.
//
//   client   stamp[12], e[32], n[16], seal = BLAKE2b(secret; "c", all before the seal)
//   server   e'[32], n'[16], seal = BLAKE2b(secret; "s", both messages before the seal)
//   keys     BLAKE2b(secret; X25519(e, e'), hash of both messages, direction)
//   then     in each direction the header of a secretstream, and frames: u16 length, sealed text
//
// The client is the process that dials. A stream that is recorded cannot be read with a secret that
// leaks later, for e and e' are fresh. A greeting that is replayed gets an answer, and nothing
// after it.
//
// A stamp is "SYMM", the number of layouts::greeting and the version of the library, 4 bytes each.
// A server that reads another number answers with e' = 0 and a stamp at the beginning of n', and
// ends the stream: so both ends can name both versions. The greeting and this answer are equal in
// all versions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace symm {
using Secret = std::array<unsigned char, 32>;
// Reads the file that SYMM_SECRET_FILE names, else ~/.config/symm/secret. The file is made on first
// use. Throws Error(unavailable) if this library was built without libsodium, if others have access
// to the file, or if it is not 32 bytes long.
Secret read_secret();
// Whether this library was built with libsodium.
bool can_authenticate() noexcept;
std::string secret_file();

// One end of a stream. One thread may seal while another opens.
class SecureStream {
 public:
  using Bytes = std::vector<std::byte>;
  // Sizes in bytes.
  static constexpr size_t kGreeting = 92;
  static constexpr size_t kAnswer = 80;
  static constexpr size_t kHeader = 24;
  static constexpr size_t kSeal = 17;
  static constexpr size_t kLength = 2;
  static constexpr size_t kLongestText = UINT16_MAX - kSeal;

  explicit SecureStream(const Secret& secret);
  ~SecureStream();

  // The client's message. It may greet again.
  Bytes greet();
  // The server's message, for a greeting; nothing if the greeting is not genuine. If it is, and
  // refused() is not empty, the stream ends with this message.
  std::optional<Bytes> answer(std::span<const std::byte> theirs);
  // The client takes the answer. False if it is not genuine, or if the server refused.
  bool finish(std::span<const std::byte> theirs);
  // Why one of the ends refused the other, which has another version; "" if neither has.
  const std::string& refused() const noexcept;

  // After the handshake both ends may seal and open. The first call's result begins with the
  // header.
  Bytes seal(std::span<const std::byte> text);
  // Puts the frame behind what `to` holds.
  void seal(std::span<const std::byte> text, Bytes& to);
  // Takes the other end's header.
  bool begin(std::span<const std::byte> header);
  // Opens a frame, given without its length. Nothing if it is not the other end's next frame.
  std::optional<Bytes> open(std::span<const std::byte> sealed);
  // Opens it to `to`, where kSeal bytes less fit. False, and nothing is written there, if it is not
  // the other end's next frame.
  bool open(std::span<const std::byte> sealed, std::byte* to);

 private:
  struct State;
  std::unique_ptr<State> state_;
};
}  // namespace symm
