// SPDX-License-Identifier: Apache-2.0
//
// This process as the owner of memory that others import: its socket, its consumers, its book. One lock, which is never held
// while anything waits.
#pragma once

#include <mutex>
#include <optional>

#include "core/ipc/consumer.hpp"
#include "core/ipc/report.hpp"
#include "core/socket/directory.hpp"

namespace symm::ipc {

struct ExportOptions {
  uint64_t hold_ms = 0;
  uint64_t hold_imports = 0;
};

class Exporter {
 public:
  explicit Exporter(Monitor& monitor) : monitor_(monitor) {}

  // Memory of this process that a token is to name.
  struct Source {
    std::shared_ptr<Block> block;
    const Provider* provider = nullptr;
    int device = 0;
    bool adopted = false;
  };
  Token make_token(const Source& source, uint64_t offset, uint64_t bytes, const ExportOptions& options, void* stream);
  bool made(const Token& token);  // by this process
  // The buffer at `data` was released by its owner.
  void released(const std::byte* data) noexcept;
  // End the tokens of a piece and wait for its leases. Nothing if the block was never exported.
  void withdraw(const std::byte* data, uint64_t offset, uint64_t bytes, uint64_t timeout_ms);

  // An import in this very process.
  struct LocalImport {
    std::shared_ptr<Block> block;
    uint64_t lease = 0;
    int device = 0;
  };
  LocalImport claim_here(const Token& token, void* stream);
  Position mark_here(void* stream, int device);
  void release_here(uint64_t lease, Position position) noexcept;

  void collect();  // what a consumer has released, and what nobody holds
  void add_to(Report& report);
  void add_to(Stats& stats);
  void leave() noexcept;  // at exit: nothing stays on disk

  void ready(uint64_t consumer, int fd) noexcept;  // 0: the door. On the monitor's thread
  void count_grant() noexcept { ++grants_; }
  void uncount_grant() noexcept { --grants_; }

 private:
  // What is done when the lock has been given up: memory is unmapped, the log is written.
  struct DeferredWork {
    std::vector<std::shared_ptr<Block>> garbage;
    std::string warning;
    ~DeferredWork();
  };
  struct Door;
  using Consumers = std::map<uint64_t, std::shared_ptr<Consumer>>;

  void open();
  std::shared_ptr<Watched> make_door();
  ExportedBlock* exported_at(const std::byte* data);
  StreamWords* stream_words(const Provider& provider);  // null where there are no streams
  StreamWords* known_words();                           // null before the first export of memory that streams use
  bool await_end(std::vector<std::pair<uint64_t, uint64_t>>& awaited, Deadline deadline);

  // With the lock held.
  void tend(DeferredWork& after);
  void drain_all();
  void drain(Consumers::iterator& at);
  void settle(DeferredWork& after);
  std::string holders_in_limbo();
  void announce() noexcept;

  void admit();
  void admit_one(PeerFd socket);
  void read(Consumers::iterator at);
  void serve(Consumer& consumer, const Packet& packet);
  void serve_request(Consumer& consumer, const Packet& packet);
  void break_off(Consumers::iterator at, const std::string& why);
  void close_and_drain(Consumer& consumer);
  void disconnected(Consumers::iterator at);
  void write_off(Consumers::iterator at, bool surely);

  Monitor& monitor_;
  std::mutex mutex_;
  Id id_{};
  std::optional<SharedDirectory> directory_;
  std::unique_ptr<Listener> listener_;
  std::shared_ptr<Watched> door_;
  uint64_t watching_door_ = 0;
  Fd spare_;  // given up to be able to refuse a connection when descriptors have run out
  std::shared_ptr<host::Segment> board_;
  std::unique_ptr<StreamWords> words_;
  std::optional<Exports> exports_;
  std::map<const std::byte*, uint64_t> by_address_;
  Consumers consumers_;
  uint64_t last_serial_ = 0;
  Holder here_;
  uint64_t last_lease_here_ = 0;
  Word events_{0};
  int waiters_ = 0;
  static constexpr size_t kWarnAt = 64;  // released buffers that are still held
  size_t warn_at_ = kWarnAt;
  uint64_t tokens_ = 0, grants_ = 0, ended_ = 0, written_off_ = 0, refused_ = 0, rejected_ = 0;
  Freed freed_;
  Report reported_;  // up to the last report
};

}  // namespace symm::ipc
