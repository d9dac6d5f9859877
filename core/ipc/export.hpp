// The exporter's book: which blocks of this process can be imported, by which tokens,
// and how many leases there are on each. It has no sockets and no locks; the exporter
// holds its own lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/provider.hpp"
#include "core/base/deadline.hpp"
#include "core/base/log.hpp"
#include "core/ipc/lease.hpp"
#include "core/ipc/token.hpp"
#include "core/ipc/token_pad.hpp"
#include "core/ipc/validity_board.hpp"
#include <symm/symm.h>

namespace symm::ipc {
// The pieces of a block whose tokens were ended, and the number up to which they were.
class Withdrawn {
 public:
  void add(uint64_t offset, uint64_t bytes, uint64_t before);
  bool covers(const Lease& lease, uint64_t number) const;
  void clear() { ranges_.clear(); }
  size_t size() const { return ranges_.size(); }

 private:
  struct Range {
    uint64_t end;
    uint64_t before;  // tokens of lower numbers are void
  };
  std::map<uint64_t, Range> ranges_;  // by start; they do not overlap
};

// A block of this process that can be imported, or is still held.
struct Export {
  struct Hold {
    Deadline until;
    uint64_t imports = 0;  // still to come; 0: not counted
  };
  // A range of a block that pieces of a bundle lie in.
  struct Part {
    uint64_t block;
    uint64_t offset;
    uint64_t bytes;
  };
  uint64_t id = 0;
  Id secret{};
  BackendKind kind{};
  int device = 0;
  Id gpu{};
  std::shared_ptr<Block> memory;  // null once it is released and held for no token
  const Provider* provider = nullptr;
  // The memory once more, for reading, while this process imports it so.
  std::weak_ptr<Block> for_reading;
  std::vector<Part> parts;  // of the table of a bundle; each lease on the table is one on them
  bool is_table() const noexcept { return !parts.empty(); }
  uint64_t bytes = 0;
  uint64_t mapped_bytes = 0;
  bool on_host = false;
  bool adopted = false;
  // It goes when its owner frees it; of a bundle, some of its blocks. Each import of it asks,
  // because nobody tells of that.
  bool is_borrowed = false;
  uint32_t slot = kNoSlot;
  uint64_t valid_from = 0;  // tokens of lower numbers are void, whatever the piece
  Withdrawn withdrawn;
  std::map<uint64_t, Hold> holds;                      // by token number
  std::map<uint64_t, std::shared_ptr<OwnedPad>> pads;  // of tokens with channels, by their numbers
  size_t leases = 0;
  bool released = false;
  bool is_withdrawn = false;  // as a whole, if it is released: its owner may wait for its leases
  bool quarantined = false;
};

// A block that cannot be imported any more, as its importers are told.
struct Retired {
  uint64_t block;
  bool is_withdrawn;
};

// The counts of an exporter, in the structs that report them.
struct ExporterStatistics {
  // Messages for the log, written after the exporter's lock has been released.
  std::vector<std::pair<log::Level, std::string>> notes;
  // Both structs hold only counts since the beginning; all other facts are looked up when they are
  // asked for.
  symm_ipc_stats_t total{};
  symm_ipc_collect_stats_t done{};
};

// What a token is made with.
struct ExportOptions {
  uint64_t hold_ms = 0;
  uint64_t hold_imports = 0;
  bool no_hold = false;         // whatever SYMM_IPC_HOLD_MS says
  size_t capacity = kMaxToken;  // a longer token is refused, and not made
  uint32_t channels = 0;
  uint64_t fence_bytes = 0;  // 0: one fence for all of the piece
};

class Exports {
 public:
  explicit Exports(ValidityBoard& board, const Id& exporter = {})
      : board_(board), exporter_(exporter) {}

  const Id& exporter() const noexcept { return exporter_; }
  // Blocks of bundles take none of the few slots, which their table needs more.
  Export& add(std::shared_ptr<Block> memory, const Provider& provider, int device,
      std::vector<Export::Part> parts = {}, bool with_slot = true);
  Export* find(uint64_t id) noexcept;
  Export* find(const std::byte* data) noexcept;  // what is not released
  // What a mapping for reading in this process shows at an address; null if there is none.
  const Export* shown_at(const std::byte* pointer, uint64_t* offset) const;
  // Makes a token; `hold_ms` keeps the block for it. The exporter fills in the facts that only it
  // knows.
  Token make_token(Export& exported, uint64_t offset, uint64_t bytes, const ExportOptions& options);
  uint64_t number(Export& exported, const ExportOptions& options);  // that of a new token
  // Throws what an importer shall be told if the token is not valid now.
  Export& require_valid(const Token& token);
  // That of a valid token; null if the token has no channels.
  std::shared_ptr<OwnedPad> pad_of(const Token& token);

  void leased(const Lease& lease, uint64_t number);
  void ended(const Lease& lease) noexcept;
  void quarantine(const Lease& lease) noexcept;

  // The bundles with pieces in this range, also those whose token has ended: a lease on the whole
  // of each.
  std::vector<Lease> bundles_with(const Lease& range) const;
  // The bundle whose table has these bytes, and whose token has not ended; null if there is none.
  Export* find_table(std::span<const std::byte> bytes) noexcept;

  // All tokens for this piece are void from now on. The caller then looks at the rings.
  void withdraw(Export& exported, uint64_t offset, uint64_t bytes);
  void release(Export& exported);
  // Forgets holds that have run out and blocks without holds. Memory to be given back is
  // put in `garbage`, for the caller to drop without a lock; `retired` gets the blocks
  // that can no longer be imported.
  struct Freed {
    uint64_t blocks = 0;
    uint64_t bytes = 0;
    Deadline next = Deadline::never();  // when the next hold on a released block runs out
  };
  Freed settle(std::vector<std::shared_ptr<Block>>& garbage, std::vector<Retired>& retired);

  size_t in_limbo() const;
  void add_to(symm_ipc_stats_t& stats) const noexcept;
  void add_to(symm_ipc_collect_stats_t& report) const;

 private:
  uint64_t next_number() noexcept;
  void take_slot(Export& exported);
  bool any_is_borrowed(std::span<const Export::Part> parts) noexcept;
  bool was_freed(const Export& exported) noexcept;
  void end(Export& table, uint64_t before);
  static void end_pads(Export& exported, uint64_t offset, uint64_t bytes);
  template <class Change>
  void with_parts(uint64_t id, const Change& change);

  ValidityBoard& board_;
  const Id exporter_;
  uint64_t last_id_ = 0;
  uint64_t last_number_ = 1;
  std::vector<uint32_t> free_slots_;
  uint32_t used_slots_ = 0;
  std::unordered_map<uint64_t, Export> exports_;
  std::map<const std::byte*, uint64_t> by_address_;
  std::set<uint64_t> tables_;
  std::map<uint64_t, bool> unsettled_;  // that were released; true: its importers were told
};
}  // namespace symm::ipc
