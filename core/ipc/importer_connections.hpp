// All who import from this process: who connects, asks and dies. Nothing here waits.
// Used with the exporter's lock held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/base/peer_fd.hpp"
#include "core/ipc/export.hpp"
#include "core/ipc/lease.hpp"
#include "core/ipc/lease_ring.hpp"
#include "core/ipc/protocol.hpp"
#include "core/ipc/token.hpp"
#include "core/ipc/token_pad.hpp"
#include "core/socket/connection.hpp"
#include "core/socket/fdpass.hpp"
#include "core/socket/life.hpp"
#include "core/socket/socket.hpp"

namespace symm::ipc {
// The exporter's end of the connection to an importer: the leases that it has, and what
// it asks for. Used with the exporter's lock held.
class Exporter;

class ImporterConnection final : public Receiver {
 public:
  ImporterConnection(Exporter& exporter, Exports& exports, ExporterStatistics& statistics,
      uint64_t serial, PeerFd socket, PeerProcess process, LeaseRingReader ring);
  // Sends the welcome, and hears the importer from now on. Throws.
  void start(const std::shared_ptr<ImporterConnection>& self, int board);

  Connection& connection() noexcept { return connection_; }
  const Connection& connection() const noexcept { return connection_; }
  Leases& leases() noexcept { return leases_; }
  const Leases& leases() const noexcept { return leases_; }
  std::string name() const;
  bool has_spoken() const noexcept { return has_spoken_; }
  uint64_t start_time() const noexcept { return start_time_; }
  // For a closed connection: whether the mappings of its process are gone, though the process may
  // live on as another program.
  bool has_no_memory() const noexcept { return has_ended(life_); }

  // The state of the importer after a turn of the monitor; why() says why it is disconnected.
  enum class State {
    connected,
    closed,
    broken  // the importer broke the protocol
  };
  State hear();
  const std::string& why() const noexcept { return why_; }
  // Ignores everything that the importer writes from now on.
  void distrust() noexcept { is_trusted_ = false; }

  void drain();  // what it wrote in its ring. Throws Error(peer_failed) for nonsense
  void want_to_hear(bool each_release) noexcept { ring_.want_to_hear(each_release); }
  // Tell it that a block is retired, if it maps it. What cannot be told now is told later.
  void retire(const Retired& block);
  void tell_retired() noexcept;

 private:
  void on_turn(Connection&, bool dead) noexcept override;
  const char* on_packet(std::span<const std::byte> bytes, fdpass::Received& received) override;
  void on_end(End end, const std::string& why) override;
  void on_death(const std::string&) override {}
  void serve(const Packet& request);
  Packet grant_of(const Packet& request, std::vector<int>& fds);
  std::shared_ptr<PadWriter> add_pad(const Token& token, Packet& grant, std::vector<int>& fds);
  fdpass::Sent send_blocks(const Packet& request, std::span<const int> fds, uint64_t& sent);
  void apply(const LeaseRing::Event& event);
  // Sends what can be sent now. Throws Error.
  fdpass::Sent send(const Packet& packet, std::span<const int> fds);

  Exporter& exporter_;
  Exports& exports_;
  ExporterStatistics& statistics_;
  const uint64_t serial_;
  Connection connection_;
  const uint64_t start_time_;
  LeaseRingReader ring_;
  LifeWord life_;
  Leases leases_;
  std::set<uint64_t> cancelled_;  // requests that it gave up before we read them
  std::set<uint64_t> mapped_;     // blocks
  std::vector<Retired> untold_;
  State state_ = State::connected;
  std::string why_;
  bool is_trusted_ = true;
  bool has_spoken_ = false;
};

class ImporterConnections {
 public:
  using BySerial = std::map<uint64_t, std::shared_ptr<ImporterConnection>>;
  ImporterConnections(Exporter& exporter, Exports& exports, ExporterStatistics& statistics)
      : exporter_(exporter), exports_(exports), statistics_(statistics) {}

  void admit(PeerFd socket, int board);
  // Closes the oldest connection that has sent nothing. False if there are no more than `keep` of
  // these.
  bool evict_idle(size_t keep = 0);
  void take_turn(uint64_t serial, bool dead);  // takes in what an importer sent, or its death
  void drain();                                // takes in the events in all lease rings
  void retire(const std::vector<Retired>& blocks) noexcept;
  void want_to_hear(bool each_release) noexcept;
  bool on_streams() const noexcept;
  const ImporterConnection* find(uint64_t serial) const noexcept;
  const BySerial& all() const noexcept { return all_; }

 private:
  void drain(BySerial::iterator at);
  void break_off(BySerial::iterator at, const std::string& why);
  void close_and_drain(ImporterConnection& importer);
  void disconnected(BySerial::iterator at);
  void write_off(BySerial::iterator at, bool surely);

  Exporter& exporter_;
  Exports& exports_;
  ExporterStatistics& statistics_;
  BySerial all_;
  std::list<uint64_t> silent_;  // importers that had sent nothing when they were last looked at
  uint64_t last_serial_ = 0;
  bool want_to_hear_ = false;
};
}  // namespace symm::ipc
