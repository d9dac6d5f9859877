// Writes, seals, maps and reads the tables of bundles. What is read was written by another process,
// and nothing in it is taken for granted.
#include "core/ipc/bundle.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/hash.hpp"
#include "core/base/layouts.hpp"
#include "core/base/memfd.hpp"

namespace symm::ipc {
namespace {
constexpr uint32_t kTableMagic = 0x54425953;  // "SYBT"
constexpr size_t kAboutAlignment = 16;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

template <class T>
void put(std::vector<std::byte>& table, size_t at, const T& value) {
  std::memcpy(table.data() + at, &value, sizeof value);
}

template <class T>
T get(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Where the parts of a table lie.
struct Places {
  Places(uint64_t blocks, uint64_t piece_count, uint64_t slots)
      : pieces(sizeof(TableHeader) + blocks * sizeof(TableBlock)),
        index(pieces + piece_count * sizeof(TablePiece)),
        texts(round_up(index + slots * sizeof(uint32_t), kAboutAlignment)) {}
  size_t pieces;
  size_t index;
  size_t texts;
};

size_t hash_of(std::string_view name) { return static_cast<size_t>(fnv1a(name)); }

// Puts the names into the index, whose places are all free.
void fill_index(std::span<const BundlePiece> pieces, std::vector<uint32_t>& index) {
  const size_t mask = index.size() - 1;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].name == nullptr) continue;
    const std::string_view name = pieces[i].name;
    size_t at = hash_of(name) & mask;
    for (; index[at] != 0; at = (at + 1) & mask) {
      if (name != pieces[index[at] - 1].name) continue;
      throw Error(
          Status::invalid_argument, format("pieces[%zu].name: '%s' is the name of pieces[%u], too",
                                        i, pieces[i].name, index[at] - 1));
    }
    index[at] = static_cast<uint32_t>(i + 1);
  }
}

Error impossible(const char* what) {
  return Error(Status::peer_failed, format("the table of a bundle has %s", what));
}
}  // namespace

std::vector<std::byte> encode_table(
    std::span<const TableBlock> blocks, std::span<const BundlePiece> pieces) {
  std::vector<uint32_t> index(std::bit_ceil(2 * pieces.size()));
  fill_index(pieces, index);

  const Places places(blocks.size(), pieces.size(), index.size());
  std::vector<TablePiece> described;
  described.reserve(pieces.size());
  size_t texts = 0;
  uint64_t piece_bytes = 0;
  for (const BundlePiece& piece : pieces) {
    TablePiece one{piece.block, 0, piece.offset, piece.bytes, kNoText, 0, piece.about_bytes};
    if (piece.about_bytes != 0) {
      one.about = round_up(texts, kAboutAlignment);
      texts = one.about + piece.about_bytes;
    }
    if (piece.name != nullptr) {
      one.name_bytes = static_cast<uint32_t>(std::strlen(piece.name));
      one.name = texts;
      texts += one.name_bytes + 1;
    }
    piece_bytes += piece.bytes;
    described.push_back(one);
  }

  std::vector<std::byte> table(places.texts + texts);
  put(table, 0,
      TableHeader{kTableMagic, layouts::bundle.number, 0, layouts::library, 0, table.size(),
          blocks.size(), pieces.size(), index.size(), piece_bytes, places.texts});
  std::memcpy(table.data() + sizeof(TableHeader), blocks.data(), blocks.size_bytes());
  std::memcpy(table.data() + places.pieces, described.data(), pieces.size() * sizeof(TablePiece));
  std::memcpy(table.data() + places.index, index.data(), index.size() * sizeof(uint32_t));
  for (size_t i = 0; i < pieces.size(); ++i) {
    std::byte* const text = table.data() + places.texts;
    const TablePiece& one = described[i];
    if (one.about_bytes != 0) std::memcpy(text + one.about, pieces[i].about, one.about_bytes);
    if (one.name_bytes != 0) std::memcpy(text + one.name, pieces[i].name, one.name_bytes);
  }

  return table;
}

// The mapping is private, since before Linux 6.7 a file that is sealed against writing has no
// shared one. It shows the file's pages all the same, for nobody writes to either.
BundleTable::BundleTable(Fd fd, size_t bytes) : fd_(std::move(fd)), bytes_(bytes) {
  void* const start = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd_.get(), 0);
  if (start == MAP_FAILED) {
    throw system_error(errno, "mmap", format("the table of a bundle, %zu bytes", bytes));
  }
  start_ = static_cast<std::byte*>(start);
  madvise(start_, bytes, MADV_DONTDUMP);
}

BundleTable::~BundleTable() { munmap(start_, bytes_); }

std::shared_ptr<BundleTable> BundleTable::seal(std::span<const std::byte> table) {
  Fd fd = make_memfd("symm-ipc-bundle");
  if (!fd) throw system_error(errno, "memfd_create", "the table of a bundle");
  SYMM_POINT("ipc.bundle");
  if (!write_whole(fd.get(), table.data(), table.size())) {
    throw system_error(errno, "write", format("the table of a bundle, %zu bytes", table.size()));
  }
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    throw system_error(errno, "fcntl(F_ADD_SEALS)", "the table of a bundle");
  }
  return std::shared_ptr<BundleTable>(new BundleTable(std::move(fd), table.size()));
}

std::shared_ptr<BundleTable> BundleTable::import(Fd fd) {
  struct stat status{};
  if (fstat(fd.get(), &status) != 0) throw system_error(errno, "fstat", "the table of a bundle");
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    throw Error(Status::peer_failed, "a peer sent a table of a bundle that could still change");
  }
  const auto bytes = static_cast<size_t>(status.st_size);
  if (bytes < sizeof(TableHeader)) throw impossible("no room for its header");

  SYMM_POINT("ipc.table");
  std::shared_ptr<BundleTable> table(new BundleTable(std::move(fd), bytes));
  table->require_possible();
  return table;
}

void BundleTable::require_possible() const {
  const TableHeader& head = header();
  if (head.magic != kTableMagic) throw impossible("another beginning than any table");
  if (head.number != layouts::bundle.number) {
    throw Error(Status::unsupported,
        stamp_difference(layouts::bundle, {head.library, head.number}, "its exporter"));
  }

  if (head.bytes != bytes_ || head.pieces == 0 || head.pieces > kMostPieces || head.blocks == 0 ||
      head.blocks > head.pieces || head.slots != std::bit_ceil(2 * head.pieces)) {
    throw impossible("impossible counts");
  }
  const Places places(head.blocks, head.pieces, head.slots);
  if (head.texts != places.texts || places.texts > bytes_) {
    throw impossible("no room for its parts");
  }

  for (const TableBlock& block : blocks()) {
    const BlockExtent extent{block.bytes, block.mapped, 0, block.on_host};
    if (block.id == 0 || !extent.is_possible() || block.first >= block.end ||
        block.end > block.bytes) {
      throw impossible("an impossible block");
    }
  }
}

const TableHeader& BundleTable::header() const noexcept {
  return *reinterpret_cast<const TableHeader*>(start_);
}

std::span<const TableBlock> BundleTable::blocks() const noexcept {
  return {reinterpret_cast<const TableBlock*>(start_ + sizeof(TableHeader)), header().blocks};
}

const std::byte* BundleTable::index() const noexcept {
  const TableHeader& head = header();
  return start_ + Places(head.blocks, head.pieces, head.slots).index;
}

BundlePiece BundleTable::piece(size_t at) const {
  const TableHeader& head = header();
  if (at >= head.pieces) {
    throw Error(Status::invalid_argument,
        format("index: %zu, but the bundle has %lu pieces", at, head.pieces));
  }
  const auto one = get<TablePiece>(
      start_ + Places(head.blocks, head.pieces, head.slots).pieces + at * sizeof(TablePiece));

  if (one.block == kNoBlock ? one.bytes != 0 : one.block >= head.blocks) {
    throw impossible("a piece in no block");
  }
  if (one.block != kNoBlock) {
    const TableBlock& block = blocks()[one.block];
    if (one.offset < block.first || one.offset > block.end || one.bytes > block.end - one.offset) {
      throw impossible("a piece beyond its block");
    }
  }

  const uint64_t room = bytes_ - head.texts;
  const auto* const texts = start_ + head.texts;
  BundlePiece piece{one.block, one.offset, one.bytes, nullptr, nullptr, one.about_bytes};
  if (one.about_bytes != 0) {
    if (one.about > room || one.about_bytes > room - one.about) {
      throw impossible("a piece without room for what it is");
    }
    piece.about = texts + one.about;
  }
  if (one.name != kNoText) {
    if (one.name >= room || one.name_bytes >= room - one.name ||
        texts[one.name + one.name_bytes] != std::byte{0} ||
        memchr(texts + one.name, 0, one.name_bytes) != nullptr) {
      throw impossible("a piece with an impossible name");
    }
    piece.name = reinterpret_cast<const char*>(texts + one.name);
  }
  return piece;
}

size_t BundleTable::find(std::string_view name) const {
  const TableHeader& head = header();
  const size_t mask = head.slots - 1;
  const std::byte* const places = index();
  size_t at = hash_of(name) & mask;
  for (uint64_t looks = 0; looks < head.slots; ++looks, at = (at + 1) & mask) {
    const auto entry = get<uint32_t>(places + at * sizeof(uint32_t));
    if (entry == 0) break;
    const char* const there = piece(entry - 1).name;
    if (there != nullptr && name == there) return entry - 1;
  }
  throw Error(Status::not_found, "no such piece");
}
}  // namespace symm::ipc
