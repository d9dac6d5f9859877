// SPDX-License-Identifier: Apache-2.0
//
// What a symm_ipc_t is: a lease of this process on memory of another or of its own. It ends with the object.
#pragma once

#include "core/ipc/exporter.hpp"
#include "core/ipc/exporter_connection.hpp"

namespace symm::ipc {

class HeldLease {
 public:
  // Of memory of another process; of this one without a connection.
  HeldLease(const Token& token, Exporter& exporter, LeasedMapping leased,
            std::shared_ptr<ExporterConnection> connection = nullptr)
      : token_(token), exporter_(exporter), leased_(std::move(leased)), connection_(std::move(connection)) {}
  ~HeldLease();
  HeldLease(const HeldLease&) = delete;
  HeldLease& operator=(const HeldLease&) = delete;

  std::byte* data() const noexcept { return leased_.mapping->block->data() + token_.offset; }
  uint64_t bytes() const noexcept { return token_.bytes; }
  symm_ipc_info_t info() const noexcept;

  // The lease shall end when what is on `stream` now is over.
  void release_after(void* stream) noexcept;

 private:
  BackendKind kind() const noexcept { return static_cast<BackendKind>(token_.backend); }

  const Token token_;
  Exporter& exporter_;
  LeasedMapping leased_;
  const std::shared_ptr<ExporterConnection> connection_;
  Position over_;
  bool is_never_over_ = false;  // its stream could not be asked: the lease ends with the process
};

}  // namespace symm::ipc
