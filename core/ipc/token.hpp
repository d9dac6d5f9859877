// A token: a flat string of bytes that says where memory is exported and which piece of it is
// meant, with the secret that shows the exporter that the bearer was given the token. Tokens travel
// through hands that are not ours, so one function decodes them and refuses everything that is not
// exactly as written here. It is fuzzed (tests/fuzz/ipc_fuzz.cpp).
//
// All numbers are little-endian; offsets are in bytes.
//    0  u32       magic
//    4  u16       number of the layout (layouts::token)
//    6  u16       back end, and bit 15 if the token is that of a bundle
//    8  u32       library, the version of the exporter's
//   12  u32       length
//   16  u32       slot
//   20  16 bytes  machine
//   36  16 bytes  gpu
//   52  16 bytes  exporter
//   68  16 bytes  secret
//   84  u64       block
//   92  u64       number
//  100  u64       offset
//  108  u64       bytes
//  116  u64       pid
//  124  u64       position
//  132  u32       word
//  136  u32       length of the directory, which follows
//  end  u64       checksum of everything before (FNV-1a)
//
// The first 12 bytes are equal in all versions, so that an importer of another number can name both
// versions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/backend/provider.hpp"
#include "core/base/error.hpp"
#include "core/base/layouts.hpp"
#include "core/base/process.hpp"

namespace symm::ipc {
inline constexpr size_t kMaxToken = 512;  // SYMM_IPC_TOKEN_MAX_BYTES
inline constexpr size_t kTokenFixed = 140;
inline constexpr size_t kMaxDirectory = kMaxToken - kTokenFixed - 8;
inline constexpr uint32_t kSlots = 256;  // blocks on an exporter's board
inline constexpr uint32_t kNoSlot = UINT32_MAX;

struct Token {
  uint16_t backend = 0;
  // The block is the table of a bundle, whose blocks are of the back end and the GPU.
  bool is_bundle = false;
  uint32_t library = layouts::library;
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
// Throws if the caller has not as much room as a token needs.
void require_room(size_t capacity, size_t bytes);

// Why bytes are no token. status ok: they are one. unsupported: `stamp` has another number.
struct TokenFault {
  Status status = Status::ok;
  const char* why = "";
  Stamp stamp{};
};
[[nodiscard]] TokenFault decode(std::span<const std::byte> bytes, Token& token);

// Takes the same time wherever they differ.
bool same_secret(const Id& a, const Id& b) noexcept;
std::string hexadecimal(const Id& id);
Id machine_id();  // this machine's boot id; zero if it cannot be read
using process::random_id;
}  // namespace symm::ipc
