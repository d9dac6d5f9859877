// This process as the owner of memory that others import. One lock, which is never
// held while anything waits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/provider.hpp"
#include "core/backend/segment.hpp"
#include "core/base/deadline.hpp"
#include "core/base/futex.hpp"
#include "core/base/log.hpp"
#include "core/ipc/bundle.hpp"
#include "core/ipc/export.hpp"
#include "core/ipc/exporter_listener.hpp"
#include "core/ipc/importer_connections.hpp"
#include "core/ipc/lease.hpp"
#include "core/ipc/mapping.hpp"
#include "core/ipc/token.hpp"
#include "kernels/compare.hpp"
#include "symm/symm.h"

namespace symm::ipc {
class Exporter {
 public:
  // Memory of this process that a token is to name.
  struct Source {
    std::shared_ptr<Block> block;
    const Provider* provider = nullptr;
    int device = 0;
    uint64_t offset = 0;
    bool adopted = false;
  };
  Token make_token(
      const Source& source, uint64_t bytes, const ExportOptions& options, void* stream);
  // A token for pieces in several blocks of one device; BundlePiece::block counts in `sources`.
  Token make_bundle(std::span<const Source> sources, std::span<const BundlePiece> pieces,
      const ExportOptions& options, void* stream);
  bool made(const Token& token);  // by this process
  // The buffer at `data` was released by its owner.
  void released(const std::byte* data) noexcept;
  // As released(), but the owner wants it back: as after withdraw(), without waiting.
  void end_all(const std::byte* data);
  // End the tokens of a piece and wait for its leases. Nothing if the block was never exported.
  void withdraw(const std::byte* data, uint64_t offset, uint64_t bytes, uint64_t timeout_ms);
  // The same of what a token of this process names. end() does not wait.
  void withdraw(const Token& token, uint64_t timeout_ms);
  void end(const Token& token) noexcept;
  bool is_held(const Token& token);
  // Throws what an importer would be told of the token.
  void require_valid(const Token& token);
  // Waits for a word on the pad of a token of this process, and returns it.
  uint64_t wait_value(
      const Token& token, int channel, Compare compare, uint64_t value, uint64_t timeout_ms);
  // Keeps late puts off a range of the memory at `data`, and waits for those under way.
  void fence(
      const std::byte* data, uint64_t offset, uint64_t bytes, uint64_t epoch, uint64_t timeout_ms);
  // Those of the memory that a token of this process names; of a bundle, of all its pieces.
  uint64_t bytes_of(const Token& token);
  // The directory of the socket; it is there.
  std::string directory();
  symm_ipc_holders_t holders(const std::byte* data, uint64_t offset, uint64_t bytes);

  // An import in this very process.
  LeasedMapping claim(const Token& token, Access access, void* stream);
  // The memory that a mapping for reading in this process shows at an address.
  std::optional<Source> shown_at(const void* pointer);
  // Orders work issued on `stream` from now on after the work that preceded an export of this
  // process.
  void wait_for_export(const Token& token, void* stream, int device);
  Position mark(void* stream, int device);
  void release(uint64_t lease, Position position) noexcept;

  void collect();  // what an importer has released, and what nobody holds
  void fill(symm_ipc_collect_stats_t& report);
  void fill(symm_ipc_stats_t& stats);
  void leave() noexcept;  // at exit: nothing stays on disk, and nothing is put there any more

  void take_turn(uint64_t importer, bool dead) noexcept;  // on the monitor's thread
 private:
  // The lock, and the work that is done after the lock has been released: memory is
  // unmapped, the log is written.
  struct DeferredWork {
    explicit DeferredWork(std::mutex& mutex) : lock(mutex) {}
    ~DeferredWork();
    std::unique_lock<std::mutex> lock;
    std::vector<std::shared_ptr<Block>> garbage;
    std::vector<std::pair<log::Level, std::string>> notes;
    bool on_monitor = false;  // which does not wait for that
  };
  struct Awaited {
    uint64_t importer;  // 0: this process
    uint64_t lease;
  };

  void open();
  void require_room_for_token(size_t capacity);
  Export& enter(const Source& source, bool with_slot);
  Token finish(Export& exported, uint64_t offset, uint64_t bytes, const ExportOptions& options,
      Position position);
  std::vector<TableBlock> enter_all(std::span<const Source> sources, size_t capacity);
  void withdraw(uint64_t id, uint64_t offset, uint64_t bytes, uint64_t timeout_ms);
  void on_time() noexcept;
  StreamWords* stream_words(const Provider& provider);  // null where there are no streams
  // Null before the first export of memory that streams use.
  StreamWords* known_words();
  template <class Work>
  void turn(const Work& work) noexcept;  // on the monitor's thread
  void let_in() noexcept;
  void map_for_reading(Mapping& mapping, const Token& token, const Provider& provider);
  std::shared_ptr<Block> map_for_reading(
      uint64_t id, const Block& memory, const Provider& provider, int device);
  bool await_end(std::vector<Awaited>& awaited, Deadline deadline);

  // The functions below are called with the lock held.
  void tend(DeferredWork& after);
  std::vector<Awaited> leases_on(const Lease& piece) const;
  void settle(DeferredWork& after);
  std::string holders_in_limbo();
  void announce() noexcept;
  std::span<const std::atomic<uint64_t>> words() const noexcept {
    return ValidityBoard::in(*board_).words;
  }

  std::mutex mutex_;
  bool left_ = false;
  ExporterStatistics statistics_;
  std::shared_ptr<ExporterListener> listener_;
  std::shared_ptr<host::Segment> board_;
  std::unique_ptr<StreamWords> words_;
  std::optional<Exports> exports_;
  std::optional<ImporterConnections> importers_;  // as soon as there are exports
  Leases own_leases_;
  uint64_t last_own_lease_ = 0;
  Word events_{0};
  int waiters_ = 0;
  static constexpr size_t kWarnAt = 64;  // released buffers that are still held
  size_t warn_at_ = kWarnAt;
};
}  // namespace symm::ipc
