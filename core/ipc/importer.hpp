// This process as a user of memory that others own: one connection to each of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/provider.hpp"
#include "core/base/deadline.hpp"
#include "core/base/timed_mutex.hpp"
#include "core/ipc/exporter.hpp"
#include "core/ipc/exporter_connection.hpp"
#include "core/ipc/held_lease.hpp"
#include "core/ipc/kept_addresses.hpp"
#include "core/ipc/mapping.hpp"
#include "core/ipc/token.hpp"
#include "symm/symm.h"

namespace symm::ipc {
struct ImportOptions {
  uint64_t timeout_ms = 0;
  std::string directory;  // "": as the token says
  int device = -1;        // device of the memory
  Access access = Access::read_write;
};

class Importer {
 public:
  explicit Importer(Exporter& exporter) : exporter_(exporter) {}

  std::shared_ptr<HeldLease> import(const Token& token, const ImportOptions& options, void* stream);
  // Ends the suspension of an import; `token`: null for the one by which it was imported.
  void resume(HeldLease& held, const Token* token, const ImportOptions& options, void* stream);
  // Returns the mapping of an import that contains these bytes, and a token for them;
  // null if there is none.
  std::shared_ptr<Mapping> containing(
      const void* pointer, uint64_t bytes, Token& token, bool& exporter_alive);
  uint64_t collect();  // mappings dropped
  void add_to(symm_ipc_stats_t& stats);

 private:
  // A process that exports. `asking` is taken to connect and to ask.
  struct Peer {
    TimedMutex asking;
    std::mutex mutex;
    std::shared_ptr<ExporterConnection> connection;
  };
  HeldLease::Taken take(const Token& token, MappedAs as, const ImportOptions& options,
      const KeptAddresses* kept = nullptr);
  HeldLease::Taken take_again(
      const Token& token, const KeptAddresses& kept, const ImportOptions& options, void* stream);
  std::shared_ptr<Peer> peer_of(const Id& exporter);
  std::shared_ptr<ExporterConnection> reconnect(
      Peer& peer, const Token& token, const ImportOptions& options, Deadline deadline);
  std::vector<std::shared_ptr<ExporterConnection>> connections();

  Exporter& exporter_;
  std::mutex mutex_;
  std::map<Id, std::shared_ptr<Peer>> peers_;
  // Connections to dead exporters, kept while imports from them are in use.
  std::vector<std::weak_ptr<ExporterConnection>> orphans_;
};
}  // namespace symm::ipc
