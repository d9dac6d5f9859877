// All who import from this process: who connects, asks and dies. Nothing here waits. Used with the exporter's lock held.
#pragma once

#include <deque>
#include <list>
#include "core/ipc/importer_connection.hpp"

namespace symm::ipc {
class ImporterConnections {
 public:
  using BySerial = std::map<uint64_t, std::shared_ptr<ImporterConnection>>;
  ImporterConnections(Exporter& exporter, Exports& exports, ExporterStatistics& statistics)
      : exporter_(exporter), exports_(exports), statistics_(statistics) {}

  void admit(PeerFd socket, int board);
  // Of those who connected and said nothing, the first one goes. False if there are no more than so many.
  bool drop_a_silent_one(size_t unless_at_most = 0);
  void take_turn(uint64_t serial, bool dead);  // of one that has something to say, or is dead
  void drain();                                // what they wrote in their rings
  void retire(const std::vector<uint64_t>& blocks) noexcept;
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
  std::list<uint64_t> silent_;  // who had said nothing when it was looked at
  uint64_t last_serial_ = 0;
  bool want_to_hear_ = false;
};
}  // namespace symm::ipc
