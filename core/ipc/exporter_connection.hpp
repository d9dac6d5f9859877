// The importer's end of the connection to an exporter: the blocks mapped from there,
// and the leases on them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/provider.hpp"
#include "core/backend/segment.hpp"
#include "core/base/deadline.hpp"
#include "core/base/fd.hpp"
#include "core/base/futex.hpp"
#include "core/base/peer_fd.hpp"
#include "core/ipc/bundle.hpp"
#include "core/ipc/kept_addresses.hpp"
#include "core/ipc/lease_ring.hpp"
#include "core/ipc/mapping.hpp"
#include "core/ipc/protocol.hpp"
#include "core/ipc/token.hpp"
#include "core/ipc/token_pad.hpp"
#include "core/ipc/validity_board.hpp"
#include "core/socket/connection.hpp"
#include "core/socket/fdpass.hpp"
#include "core/socket/life.hpp"
#include "core/socket/socket.hpp"
#include "symm/symm.h"

namespace symm::ipc {
class ExporterConnection final : public Receiver {
 public:
  // Connect to the process that made `token`. Throws what symm_ipc_import() shall say.
  static std::shared_ptr<ExporterConnection> connect(
      const Token& token, const std::string& directory, Deadline deadline);
  ExporterConnection(const Token& token, PeerFd socket, PeerProcess process,
      std::shared_ptr<host::Segment> ring, std::shared_ptr<host::Segment> board);

  // A lease taken without asking: none if the exporter must be asked.
  LeasedMapping claim(const Token& token, MappedAs as);
  // Ask the exporter. One thread at a time. `kept`: where the memory is to be mapped; null for
  // anywhere. If it throws, some of it may be mapped there.
  LeasedMapping request(const Token& token, MappedAs as, const Provider& provider,
      Deadline deadline, const KeptAddresses* kept = nullptr);
  // The blocks of an import, which no other use of this process has or comes to have.
  std::vector<std::shared_ptr<Block>> set_apart(const LeasedMapping& leased);
  // Has the stream wait for the exporter's stream.
  void wait_for_exporter(const Token& token, const Provider& provider, void* stream, int device);
  Position mark(const Provider& provider, void* stream, int device);
  // Returns the blocks that are not needed any more.
  Mappings::Garbage release(
      const LeasedMapping& leased, const Token& token, Position position) noexcept;

  bool alive() const noexcept { return alive_.load(std::memory_order_acquire); }
  // The mapping of the import that has all of these bytes, and a token for them; null
  // if there is none.
  std::shared_ptr<Mapping> containing(const void* pointer, uint64_t bytes, Token& token);
  size_t drop_unused();  // mappings kept for a next import
  bool close_if_idle();  // true: nothing is mapped, and the connection is closed
  void add_to(symm_ipc_stats_t& stats);

 private:
  struct Reply {
    uint64_t lease = 0;
    Word done{0};
    Packet packet;
    Fd fd;
    Fd pad;
    std::vector<Fd> parts;  // descriptors of blocks of a bundle
    bool is_short = false;  // of descriptors that could not be received
    std::string fault;
  };
  // What has come of a bundle so far.
  struct Arrived {
    std::shared_ptr<BundleTable> table;
    std::vector<Fd> blocks;
  };

  std::shared_ptr<Reply> expect(Packet& request, LeasedMapping& leased);
  void ask(const Packet& request, const std::shared_ptr<Reply>& reply, Deadline deadline,
      bool& may_be_granted);
  std::shared_ptr<ImportedPad> pad_of(const Token& token, Reply& reply) const;
  void take(LeasedMapping& leased, const Token& token, const Provider& provider, Reply& reply,
      const KeptAddresses* kept);
  void take_bundle(LeasedMapping& leased, const Token& token, const Provider& provider,
      Reply& reply, Deadline deadline, const KeptAddresses* kept);
  void take_more(Arrived& arrived, Reply& reply) const;
  std::vector<std::shared_ptr<Block>> map_missing(
      Arrived& arrived, MappedAs as, const Provider& provider, const KeptAddresses* kept);
  const char* on_packet(std::span<const std::byte> bytes, fdpass::Received& received) override;
  void on_end(End end, const std::string& why) override;
  void on_death(const std::string&) override;
  void answer(Packet& packet, std::vector<Fd>& fds);
  void lost(const std::string& how) noexcept;
  void pass_all_positions() noexcept;

  // The functions below are called with the lock held.
  void write_or_defer(const LeaseRing::Event& event);
  void nudge(bool now) noexcept;

  void share_life() noexcept;

  const int64_t pid_;
  HeldWord held_;  // for the exporter
  Connection connection_;
  const std::shared_ptr<host::Segment> board_segment_;
  ValidityBoard& board_;
  std::atomic<bool> alive_{true};     // and connected
  std::atomic<bool> is_gone_{false};  // as far as can be known
  std::mutex mutex_;
  LeaseRingWriter ring_;
  uint64_t last_lease_ = 0;
  Mappings mappings_;
  std::shared_ptr<Reply> awaited_;
  std::unique_ptr<StreamWords> exporters_words_;
  std::unique_ptr<StreamWords> own_words_;
};
}  // namespace symm::ipc
