// The object behind a symm_ipc_t: a lease of this process on memory of another process or of its
// own. The lease ends with the object.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "core/backend/backend.hpp"
#include "core/backend/piece_checks.hpp"
#include "core/backend/provider.hpp"
#include "core/ipc/bundle.hpp"
#include "core/ipc/exporter.hpp"
#include "core/ipc/exporter_connection.hpp"
#include "core/ipc/kept_addresses.hpp"
#include "core/ipc/mapping.hpp"
#include "core/ipc/shares.hpp"
#include "core/ipc/token.hpp"
#include "core/ipc/token_pad.hpp"
#include "kernels/piece_list.hpp"
#include "symm/symm.h"

namespace symm::ipc {
class HeldLease : public std::enable_shared_from_this<HeldLease> {
 public:
  HeldLease(const Token& token, Exporter& exporter) : exporter_(exporter), token_(token) {}
  // A lease on memory of another process; without a connection, on memory of this one.
  void hold(
      LeasedMapping leased, std::shared_ptr<ExporterConnection> connection = nullptr) noexcept;
  ~HeldLease();
  HeldLease(HeldLease&&) = delete;

  std::byte* data() const noexcept;
  uint64_t bytes() const noexcept;
  // Throws Error(invalid_argument) if this is no bundle.
  std::shared_ptr<const BundleTable> bundle() const;
  symm_ipc_piece_t piece(size_t index) const;
  symm_ipc_info_t info() const noexcept;

  // Copies to or from the memory, and signals. Throws what symm_ipc_put_pieces() says.
  struct Local {
    void* pointer;  // only read by a put
    size_t bytes;   // SIZE_MAX: not known
  };
  void put_pieces(size_t offset, const Local& source, const PieceList& list,
      const std::optional<OutgoingSignal>& signal, uint64_t epoch, uint64_t timeout_ms,
      void* stream);
  void get_pieces(size_t offset, const Local& destination, const PieceList& list,
      const std::optional<OutgoingSignal>& signal, void* stream);
  void signal_value(const OutgoingSignal& signal, void* stream);

  // Orders work issued on `stream` from now on after the work that the exporter had issued before
  // the export.
  void let_wait(void* stream) const;
  // The lease shall not end before what is on `stream` now is over.
  void record_use(void* stream);
  // A reference goes that is not the last: as if it were, on that stream.
  void note_release(void* stream) noexcept;
  // Lets the lease end when the present work on `stream` is over; for kAllStreams,
  // all present work of the device.
  void release_after(void* stream) noexcept;

  // Gives the mapping and the lease up when the work on `stream` and the recorded uses are over,
  // and keeps the addresses. If this throws Error(invalid_argument), nothing has changed.
  void suspend(void* stream);
  // Ends a suspension: `take` leases what a token names, at the addresses that were kept. If that
  // throws, the import stays suspended.
  struct Taken {
    LeasedMapping leased;
    std::shared_ptr<ExporterConnection> connection;  // null for memory of this process
  };
  using Take = std::function<Taken(const Token& token, const KeptAddresses& kept)>;
  void resume(const std::optional<Token>& other, const Take& take);

 private:
  BackendKind kind() const noexcept { return static_cast<BackendKind>(token_.backend); }
  bool is_empty() const noexcept { return leased_.lease == 0; }  // nor a block in the mapping
  void require_awake() const;
  // What a put, a get or a signal works on.
  struct Reach {
    std::byte* data;
    uint64_t bytes;
    MappedAs as;
    std::shared_ptr<ImportedPad> pad;  // null: the token has no channels
    PieceSide side(size_t offset) const;
  };
  Reach reach(size_t offset, const std::optional<OutgoingSignal>& signal, void* stream) const;
  void require_owner() const;
  void require_own_stays() const;
  void finish_uses(void* stream);
  void end_lease() noexcept;
  const std::shared_ptr<const BundleTable>& table() const noexcept {
    return kept_ ? kept_->table() : leased_.mapping->table;
  }
  uint64_t all_bytes() const noexcept { return table() ? table()->piece_bytes() : token_.bytes; }
  std::byte* start_of(size_t block) const noexcept;

  Exporter& exporter_;
  // Suspensions take turns; the facts below change in them, and other threads may ask for these.
  std::mutex suspending_;
  mutable std::mutex mutex_;
  Token token_;
  LeasedMapping leased_;
  std::shared_ptr<ExporterConnection> connection_;
  std::optional<KeptAddresses> kept_;  // while it is suspended
  Shares::Row shown_;
  Position over_;
  std::atomic<bool> has_uses_{false};          // that were recorded
  std::atomic<bool> has_unknown_uses_{false};  // what replays of a graph do nobody sees
  // The stream could not be asked whether it is done, so the lease ends with the process.
  bool is_never_over_ = false;
};
}  // namespace symm::ipc
