// SPDX-License-Identifier: Apache-2.0
//
// This process as a user of memory that others own: one connection to each of them.
#pragma once

#include <map>
#include <mutex>
#include <optional>

#include "core/base/timed_mutex.hpp"
#include "core/ipc/exporter.hpp"
#include "core/ipc/exporter_link.hpp"

namespace symm::ipc {

struct ImportOptions {
  uint64_t timeout_ms = 0;
  std::string directory;  // "": as the token says
  int device = -1;        // of the memory
};

// One import; its lease ends with it.
class Imported {
 public:
  // Of memory of another process, and of this one.
  Imported(const Token& token, int device, Exporter& exporter, std::shared_ptr<ExporterLink> link, ExporterLink::Import import);
  Imported(const Token& token, Exporter& exporter, Exporter::LocalImport here);
  ~Imported();
  Imported(const Imported&) = delete;
  Imported& operator=(const Imported&) = delete;

  std::byte* data() const noexcept { return block_->data() + token_.offset; }
  uint64_t bytes() const noexcept { return token_.bytes; }
  uint64_t offset() const noexcept { return token_.offset; }
  uint64_t block_bytes() const noexcept { return block_->size(); }
  BackendKind kind() const noexcept { return static_cast<BackendKind>(token_.backend); }
  int device() const noexcept { return device_; }
  int64_t exporter_pid() const noexcept { return token_.pid; }
  bool exporter_alive() const noexcept { return link_ == nullptr || link_->alive(); }

  // The lease shall end when what is on `stream` now is over.
  void release_after(void* stream) noexcept;

 private:
  const Token token_;
  const int device_;
  std::shared_ptr<Block> block_;
  std::shared_ptr<ExporterLink> link_;  // null: memory of this process
  ExporterLink::Import import_;
  Exporter& exporter_;
  uint64_t lease_here_ = 0;
  Position over_;
  bool never_over_ = false;  // its stream could not be asked: the lease ends with the process
};

class Importer {
 public:
  Importer(Monitor& monitor, Exporter& exporter) : monitor_(monitor), exporter_(exporter) {}

  std::shared_ptr<Imported> import(const Token& token, const ImportOptions& options, void* stream);
  // An import that contains these bytes.
  struct Found {
    Token token;  // for them
    std::shared_ptr<Block> block;
    int device = 0;
    bool exporter_alive = false;
  };
  std::optional<Found> find(const void* pointer, uint64_t bytes);
  void collect(Report& report);
  void add_to(Stats& stats);

 private:
  // A process that exports. The turn is taken to connect and to ask.
  struct Peer {
    TimedMutex turn;
    std::mutex mutex;
    std::shared_ptr<ExporterLink> link;
  };
  std::shared_ptr<Peer> peer_of(const Id& exporter);
  std::vector<std::shared_ptr<ExporterLink>> links();

  Monitor& monitor_;
  Exporter& exporter_;
  std::mutex mutex_;
  std::map<Id, std::shared_ptr<Peer>> peers_;
  std::vector<std::weak_ptr<ExporterLink>> orphans_;  // of dead exporters, while imports of theirs are in use
};

}  // namespace symm::ipc
