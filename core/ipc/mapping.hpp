// Blocks of an exporter that are mapped here.
#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/ipc/bundle.hpp"
#include "core/ipc/token.hpp"
#include "core/ipc/token_pad.hpp"
#include <symm/symm.h>

namespace symm::ipc {
// How a block is mapped here: for which device, and what may be done there.
struct MappedAs {
  int device = 0;
  Access access = Access::read_write;
  // 0: at any address, for all imports that ask for the same; else at the addresses that one
  // suspended import has kept, which is the only one to use the mapping.
  uint64_t place = 0;
  auto operator<=>(const MappedAs&) const = default;
};

// A block, once for each way in which it is mapped, and the pieces of it that are imported now. Or
// the table of a bundle, which is one user of each block of the bundle.
struct Mapping {
  std::shared_ptr<Block> block;                  // null while the first import is under way
  std::shared_ptr<const BundleTable> table;      // the block, if it is a table
  std::vector<std::shared_ptr<Mapping>> blocks;  // of the bundle, in the table's order
  Token origin;  // token of the first import: its fields are those of all tokens of the block
  MappedAs as;
  bool on_host = false;                  // the host may touch it, though it may be a device's
  bool retired = false;                  // the exporter has ended it: not kept for a next import
  bool is_borrowed = false;              // goes with its maker, or some of the bundle does: so, too
  std::atomic<bool> is_released{false};  // it was ended without being withdrawn
  struct Piece {
    uint64_t bytes;
    uint64_t number;  // number of the token
  };
  std::multimap<uint64_t, Piece> pieces;  // by offset
  size_t users = 0;                       // pieces, requests under way, and bundles
};

// A lease of this process. `lease` is 0 if there is none.
struct LeasedMapping {
  std::shared_ptr<Mapping> mapping;
  uint64_t lease = 0;
  std::shared_ptr<ImportedPad> pad{};  // null if the token has no channels
};

// The mappings of one exporter, used with the lock of its connection held. Mappings that end are
// put into `garbage`, which the caller drops without the lock.
class Mappings {
 public:
  using Garbage = std::vector<std::shared_ptr<Block>>;

  std::shared_ptr<Mapping> find(const Token& token, MappedAs as) const;  // null if there is none
  // The one for a request, which is a user of it.
  std::shared_ptr<Mapping> place(const Token& token, MappedAs as);
  // The table of a bundle has come, and `blocks` of it that this process had not mapped; what is
  // not needed of them is put into `garbage`.
  void complete(Mapping& bundle, std::shared_ptr<BundleTable> table,
      std::vector<std::shared_ptr<Block>> blocks, Garbage& garbage);
  void add_piece(Mapping& mapping, const Token& token);
  void remove_piece(Mapping& mapping, const Token& token) noexcept;
  // An unused mapping is kept for the next import, unless there can be none.
  void forget(Mapping& mapping, Garbage& garbage);
  void retire(uint64_t block, bool is_withdrawn, Garbage& garbage);
  // The exporter is gone: what is mapped stays with those who use it.
  void orphan(Garbage& garbage);
  void drop_unused(Garbage& garbage);
  // Forgets the mapping of an import that is to be suspended, so that no other comes to use it, and
  // returns its blocks. Throws Error(invalid_argument) if another use is there.
  std::vector<std::shared_ptr<Block>> set_apart(Mapping& mapping, Garbage& garbage);
  // Finds the import that covers all of these bytes: its mapping, and a token for the bytes like
  // the one by which it was imported.
  std::shared_ptr<Mapping> containing(const void* pointer, uint64_t bytes, Token& token) const;

  bool empty() const noexcept { return all_.empty() && imports_ == 0; }
  void add_to(symm_ipc_stats_t& stats) const noexcept;

 private:
  void let_blocks_go(Mapping& bundle, Garbage& garbage);
  static void remove_range(Mapping& mapping, uint64_t offset, uint64_t number) noexcept;

  using Key = std::pair<uint64_t, MappedAs>;  // block
  std::map<Key, std::shared_ptr<Mapping>> all_;
  uint64_t imports_ = 0;
  bool orphaned_ = false;
};
}  // namespace symm::ipc
