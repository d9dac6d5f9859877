// The object behind a symm_ipc_t: a lease of this process on memory of another process or of its
// own. The lease ends with the object.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/backend/backend.hpp"
#include "core/backend/provider.hpp"
#include "core/ipc/bundle.hpp"
#include "core/ipc/exporter.hpp"
#include "core/ipc/exporter_connection.hpp"
#include "core/ipc/mapping.hpp"
#include "core/ipc/shares.hpp"
#include "core/ipc/token.hpp"
#include "symm/symm.h"

namespace symm::ipc {
class HeldLease : public std::enable_shared_from_this<HeldLease> {
 public:
  HeldLease(const Token& token, Exporter& exporter) : token_(token), exporter_(exporter) {}
  // A lease on memory of another process; without a connection, on memory of this one.
  void hold(
      LeasedMapping leased, std::shared_ptr<ExporterConnection> connection = nullptr) noexcept {
    leased_ = std::move(leased);
    connection_ = std::move(connection);
    if (!is_empty()) shown_ = Shares::show_lease(token_, bytes());
  }
  ~HeldLease();
  HeldLease(HeldLease&&) = delete;

  std::byte* data() const noexcept {
    const bool is_piece = !is_empty() && !leased_.mapping->table;
    return is_piece ? leased_.mapping->block->data() + token_.offset : nullptr;
  }
  uint64_t bytes() const noexcept {
    return leased_.mapping->table ? leased_.mapping->table->piece_bytes() : token_.bytes;
  }
  // Throws Error(invalid_argument) if this is no bundle.
  const BundleTable& bundle() const;
  symm_ipc_piece_t piece(size_t index) const;
  symm_ipc_info_t info() const noexcept;

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

 private:
  BackendKind kind() const noexcept { return static_cast<BackendKind>(token_.backend); }
  bool is_empty() const noexcept { return leased_.lease == 0; }  // nor a block in the mapping

  const Token token_;
  Exporter& exporter_;
  LeasedMapping leased_;
  std::shared_ptr<ExporterConnection> connection_;
  Shares::Row shown_;
  Position over_;
  std::atomic<bool> has_uses_{false};          // that were recorded
  std::atomic<bool> has_unknown_uses_{false};  // what replays of a graph do nobody sees
  // The stream could not be asked whether it is done, so the lease ends with the process.
  bool is_never_over_ = false;
};
}  // namespace symm::ipc
