// SPDX-License-Identifier: Apache-2.0
//
// The importer's end of the connection to a process that exports: what is mapped from there, and the leases on it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/backend/provider.hpp"
#include "core/base/wait.hpp"
#include "core/ipc/pages.hpp"
#include "core/ipc/protocol.hpp"
#include "core/socket/fdpass.hpp"
#include "core/socket/monitor.hpp"
#include "core/socket/socket.hpp"

namespace symm::ipc {

// A block of the exporter mapped here, once for each device that asked for it, and the pieces of it that are imported now.
struct Mapped {
  std::shared_ptr<Block> block;  // null while the first import is under way
  Token origin;                  // of the first import: what all tokens of the block have in common
  int device = 0;
  bool retired = false;  // the exporter has released it: not kept for a next import
  struct Part {
    uint64_t bytes;
    uint64_t number;  // of the token
  };
  std::multimap<uint64_t, Part> parts;  // by offset
  size_t users = 0;                     // parts, and requests under way
};

class ExporterLink final : public Watched, public std::enable_shared_from_this<ExporterLink> {
 public:
  // Connect to the process that made `token`. Throws what symm_ipc_import() shall say.
  static std::shared_ptr<ExporterLink> connect(const Token& token, const std::string& directory, Monitor& monitor,
                                               Deadline deadline);
  ExporterLink(PeerFd socket, Monitor& monitor, const Token& token);
  ~ExporterLink() override;

  struct Import {
    std::shared_ptr<Mapped> mapped;
    uint64_t lease = 0;
  };
  // A lease taken without asking: `lease` is 0 if the exporter must be asked.
  Import claim(const Token& token, int device);
  // Ask the exporter. One thread at a time.
  Import request(const Token& token, int device, const Provider& provider, Deadline deadline);
  // Have the stream wait for the producer's.
  void wait_for_producer(const Token& token, const Provider& provider, void* stream, int device);
  Position mark(const Provider& provider, void* stream, int device);
  // True if the block is not mapped any more.
  bool release(const Import& import, uint64_t offset, uint64_t number, Position position) noexcept;

  bool alive() const noexcept { return alive_.load(std::memory_order_acquire); }
  int64_t pid() const noexcept { return pid_; }
  // The import that has all of these bytes: a token like the one it was imported by.
  bool find(const void* pointer, uint64_t bytes, Token& token, Import& import, uint64_t& offset);
  size_t drop_unused();  // mappings kept for a next import
  bool close_if_idle();  // true: nothing is mapped, and the connection is closed
  struct Counts {
    uint64_t imports = 0, blocks = 0, bytes = 0;
  };
  Counts counts();

  void ready(int fd) noexcept override;

 private:
  using Key = std::pair<uint64_t, int>;  // block, device
  struct Reply {
    uint64_t lease = 0;
    Word done{0};
    Packet packet;
    Fd fd;
    std::string fault;
  };

  void welcome(Deadline deadline);
  void start();
  bool push(const Event& event);  // mutex held; false if the ring is full
  void tell(const Event& event);  // mutex held; what does not fit is told later
  bool flush();                   // mutex held; true if nothing is left to tell
  void continue_telling();        // there is room
  void nudge(bool now) noexcept;  // mutex held
  void send(const Packet& packet, Deadline deadline);
  void forget(const Key& key, Mapped& mapped, std::vector<std::shared_ptr<Block>>& garbage);
  std::shared_ptr<Mapped> place(const Token& token, int device);
  bool valid(const Token& token, uint64_t block_bytes) const noexcept;  // as the board says
  void add_part(Mapped& mapped, const Token& token);
  void read();
  void handle(Packet& packet, std::vector<Fd> fds, std::vector<std::shared_ptr<Block>>& garbage);
  void lost(const std::string& how, std::vector<std::shared_ptr<Block>>& garbage) noexcept;
  void pass_all_positions() noexcept;
  LeaseRing& page() const noexcept { return *reinterpret_cast<LeaseRing*>(page_->data()); }
  ValidityBoard& board() const noexcept { return *reinterpret_cast<ValidityBoard*>(board_->data()); }
  std::string exporter_name() const;

  Monitor& monitor_;
  const Id exporter_;
  const int64_t pid_;
  PeerFd socket_;
  PeerFd pidfd_;
  std::shared_ptr<host::Segment> page_;
  std::shared_ptr<host::Segment> board_;
  std::unique_ptr<StreamWords> board_words_;
  std::unique_ptr<StreamWords> own_words_;
  std::atomic<bool> alive_{true};
  std::mutex mutex_;
  uint64_t watching_socket_ = 0;
  uint64_t watching_pidfd_ = 0;
  uint64_t written_ = 0;
  uint64_t nudged_at_ = 0;
  std::vector<Event> untold_;
  bool crowded_ = false;  // as the page says
  uint64_t last_lease_ = 0;
  uint64_t imports_ = 0;
  std::map<Key, std::shared_ptr<Mapped>> mapped_;
  std::shared_ptr<Reply> awaited_;
};

}  // namespace symm::ipc
