// A token: a flat string of bytes that says where memory is exported and which piece of it is
// meant, with the secret that shows the exporter that the bearer was given the token. Tokens travel
// through hands that are not ours, so one function decodes them and refuses everything that is not
// exactly as written here. It is fuzzed (tests/fuzz/ipc_fuzz.cpp).
//
// All numbers are little-endian; offsets are in bytes.
//    0  u32       magic
//    4  u16       version
//    6  u16       back end
//    8  u32       length
//   12  u32       slot
//   16  16 bytes  machine
//   32  16 bytes  gpu
//   48  16 bytes  exporter
//   64  16 bytes  secret
//   80  u64       block
//   88  u64       number
//   96  u64       offset
//  104  u64       bytes
//  112  u64       pid
//  120  u64       position
//  128  u32       word
//  132  u32       length of the directory, which follows
//  end  u64       checksum of everything before (FNV-1a)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/backend/provider.hpp"
#include "core/base/error.hpp"
#include "core/base/process.hpp"

namespace symm::ipc {
inline constexpr size_t kMaxToken = 512;  // SYMM_IPC_TOKEN_MAX_BYTES
inline constexpr size_t kTokenFixed = 136;
inline constexpr size_t kMaxDirectory = kMaxToken - kTokenFixed - 8;
inline constexpr uint32_t kSlots = 256;  // blocks on an exporter's board
inline constexpr uint32_t kNoSlot = UINT32_MAX;

struct Token {
  uint16_t backend = 0;
  Id machine{};   // boot id
  Id gpu{};       // UUID; zero for host memory
  Id exporter{};  // also the name of its socket
  Id secret{};    // secret of the block
  uint64_t block = 0;
  // The number grows from token to token where older ones must be told apart.
  uint64_t number = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;  // 0: of no block, and nobody needs to be asked
  int64_t pid = 0;     // for messages
  Position position;   // position of the producer's stream on the exporter's board
  uint32_t slot = 0;   // slot of the block on the exporter's board, or kNoSlot
  std::string directory;
};

// Throws Error(unavailable) if the directory's name is too long.
std::vector<std::byte> encode(const Token& token);

// Why bytes are no token. status ok: they are one.
struct TokenFault {
  Status status = Status::ok;
  const char* why = "";
};
[[nodiscard]] TokenFault decode(std::span<const std::byte> bytes, Token& token);

// Takes the same time wherever they differ.
bool same_secret(const Id& a, const Id& b) noexcept;
std::string hexadecimal(const Id& id);
Id machine_id();  // this machine's boot id; zero if it cannot be read
using process::random_id;
}  // namespace symm::ipc
