// A byte stream between two who know one secret, that nobody else can read, change or
// begin. Nothing of a stranger is looked at but 88 bytes, and these only by their seal.
//
//   who dials    magic, version, e[32], n[16], seal = BLAKE2b(secret; "c", all of it)
//   who accepts  e'[32], n'[16], seal = BLAKE2b(secret; "s", both messages)
//   keys         BLAKE2b(secret; X25519(e, e'), hash of both messages, direction): what is recorded today is not read with a
//                secret that leaks tomorrow, and a greeting that
//                is replayed gets no further than its answer
//   then         each way the header of a secretstream, and frames: u16 length, sealed text
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
// Of the file that SYMM_SECRET_FILE names, else ~/.config/symm/secret, which is made on
// first use. Throws Error(unavailable): this library was built without libsodium, or
// the file is not ours alone or not 32 bytes long.
Secret read_secret();
std::string secret_file();

class SecureStream {  // one end; sealing and opening may be on two threads
 public:
  using Bytes = std::vector<std::byte>;
  static constexpr size_t kGreeting = 88, kAnswer = 80, kHeader = 24, kSeal = 17, kLength = 2;
  static constexpr size_t kLongestText = UINT16_MAX - kSeal;

  explicit SecureStream(const Secret& secret);
  ~SecureStream();
  Bytes greet();  // who dials, perhaps again
  // who accepts, to a greeting; nothing if that is no good one
  std::optional<Bytes> answer(std::span<const std::byte> theirs);
  bool finish(std::span<const std::byte> theirs);  // who dials, with the answer
  // Now both can. The first call's result begins with the header.
  Bytes seal(std::span<const std::byte> text);
  bool begin(std::span<const std::byte> header);
  // without its length; nothing if it is not the other end's next
  std::optional<Bytes> open(std::span<const std::byte> sealed);

 private:
  struct State;
  std::unique_ptr<State> state_;
};
}  // namespace symm
