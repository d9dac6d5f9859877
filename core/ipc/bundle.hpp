// The table of a bundle: which blocks its pieces lie in, and for each piece where it is, its name
// and what it is. The exporter writes the table into a memfd that it then seals, so nobody can
// change it any more: an importer that has checked a number may use it. The import of a bundle
// looks at its blocks only; a piece is checked when somebody asks for it.
//
// The parts of a table, one behind the other:
//   TableHeader
//   TableBlock[blocks]
//   TablePiece[pieces]
//   uint32_t[slots]  the index: 1 + the number of a piece, at the hash of its name or in the next
//                    free place after it; 0: free. A power of two, at least twice the pieces.
//   texts            names, each with a NUL behind it, and at multiples of 16 what pieces are
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/provider.hpp"
#include "core/base/fd.hpp"

namespace symm::ipc {
inline constexpr size_t kMostPieces = size_t{1} << 20;  // SYMM_IPC_BUNDLE_MAX_PIECES
inline constexpr size_t kLongestName = 1000;            // SYMM_IPC_NAME_MAX_BYTES
inline constexpr size_t kLongestAbout = 4096;           // SYMM_IPC_ABOUT_MAX_BYTES

struct TableHeader {
  uint32_t magic;
  uint16_t number;  // of layouts::bundle
  uint16_t spare;
  uint32_t library;
  uint32_t more_spare;
  uint64_t bytes;  // of the whole
  uint64_t blocks;
  uint64_t pieces;
  uint64_t slots;
  uint64_t piece_bytes;  // the sum of all pieces
  uint64_t texts;        // where they begin
};
static_assert(sizeof(TableHeader) == 64);

// A block of the exporter, as a token of it would name it, and the range that has all its pieces.
struct TableBlock {
  uint64_t id;
  Id secret;
  uint64_t slot;
  uint64_t bytes;
  uint64_t mapped;
  uint64_t on_host;
  uint64_t first;
  uint64_t end;
};
static_assert(sizeof(TableBlock) == 72);

struct TablePiece {
  uint32_t block;  // kNoBlock: the piece has no bytes
  uint32_t name_bytes;
  uint64_t offset;  // in the block
  uint64_t bytes;
  uint64_t name;   // in the texts; kNoText: none
  uint64_t about;  // in the texts
  uint64_t about_bytes;
};
static_assert(sizeof(TablePiece) == 48);

inline constexpr uint32_t kNoBlock = UINT32_MAX;
inline constexpr uint64_t kNoText = UINT64_MAX;

// A piece as it is put into a table, and as it is read there. The texts of one that was read are
// the table's.
struct BundlePiece {
  uint32_t block = kNoBlock;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  const char* name = nullptr;
  const void* about = nullptr;
  uint64_t about_bytes = 0;
};

// Throws Error(invalid_argument) if two pieces have one name.
std::vector<std::byte> encode_table(
    std::span<const TableBlock> blocks, std::span<const BundlePiece> pieces);

class BundleTable final : public Block {
 public:
  // Throws Error(out_of_memory, system).
  static std::shared_ptr<BundleTable> seal(std::span<const std::byte> table);
  // Maps the table of another process. Throws Error(peer_failed) if it is none or can still be
  // changed, Error(unsupported) if a library of another number made it.
  static std::shared_ptr<BundleTable> import(Fd fd);
  ~BundleTable() override;
  BundleTable(BundleTable&&) = delete;

  std::byte* data() const noexcept override { return start_; }
  size_t size() const noexcept override { return bytes_; }
  ShareableHandle share() const override { return {{bytes_, bytes_, 0}, fd_.get()}; }

  std::span<const TableBlock> blocks() const noexcept;
  size_t pieces() const noexcept { return header().pieces; }
  uint64_t piece_bytes() const noexcept { return header().piece_bytes; }
  // Throw Error(invalid_argument) or Error(not_found) if there is none, and Error(peer_failed) if
  // it is impossible.
  BundlePiece piece(size_t index) const;
  size_t find(std::string_view name) const;

 private:
  BundleTable(Fd fd, size_t bytes);
  const TableHeader& header() const noexcept;
  const std::byte* index() const noexcept;
  void require_possible() const;

  const Fd fd_;
  const size_t bytes_;
  std::byte* start_ = nullptr;
};
}  // namespace symm::ipc
