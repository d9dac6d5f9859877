// The interfaces of a back end: memory that can be shared, and a transport, which is the half of
// a group that moves bytes. Group, buffer and memory are written against them and know nothing
// of memfds or drivers.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/stats.hpp"
#include "core/base/call_tag.hpp"
#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/layouts.hpp"
#include "core/base/revocation.hpp"
#include "core/bootstrap/store.hpp"
#include "core/mesh/mesh.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/compare.hpp"
#include "kernels/piece_list.hpp"
#include "kernels/types.hpp"
#include "symm/page.h"

namespace symm {
enum class BackendKind : int32_t { automatic = 0, host = 1, cuda = 2 };

// A handle by which a driver finds memory without a descriptor, even from another
// machine. All zero if there is none.
using FabricHandle = std::array<std::byte, 64>;

// Whether a block that was imported keeps the descriptor by which it came. It is needed only to
// hand the memory on: no driver makes another one for an importer.
enum class Descriptor { close, keep };

// How a block lies in the memory behind its descriptor. It travels beside the
// descriptor, so it is checked.
struct BlockExtent {
  uint64_t bytes = 0;
  uint64_t mapped = 0;    // bytes of the memory that the block is a piece of
  uint64_t offset = 0;    // offset of the block in that memory
  uint64_t on_host = 0;   // 1: memory of a device's host, which the host uses, too
  FabricHandle fabric{};  // handle of the memory behind the descriptor
  bool is_possible() const noexcept {
    return bytes != 0 && mapped >= bytes && offset <= mapped - bytes && on_host <= 1;
  }
};

// The facts by which another process maps a block. Rendezvous sends them in a message, and a
// token's exporter in its answer.
struct ShareableHandle {
  BlockExtent extent;
  int fd = -1;  // borrowed from the block
  // A block may lie in several allocations of one size, as adopted memory that grew in place does:
  // the descriptors of all but the first. They are the caller's, since there may be hundreds.
  std::vector<Fd> more_fds = {};
};

// The largest number of allocations that a block lies in: several such blocks fit into the inbox of
// a peer that is slow to read (core/mesh).
inline constexpr size_t kMostParts = 512;

// What a mapping of an imported block allows. A store through a mapping that only reads faults.
enum class Access { read_write, read_only };

// A piece of memory mapped into this process: allocated here, or a peer's.
class Block {
 public:
  virtual ~Block() = default;
  virtual std::byte* data() const noexcept = 0;
  virtual size_t size() const noexcept = 0;
  virtual size_t mapped() const noexcept { return size(); }  // address space in bytes
  virtual size_t page_bytes() const noexcept { return 0; }   // 0: not known
  // The facts by which another process maps the block. Throws Error(unsupported) for a block that
  // cannot be shared.
  virtual ShareableHandle share() const {
    throw Error(Status::unsupported, "a block of this kind cannot be shared");
  }
  // Maps the memory of `other`, which is of the same size, at the address of this block, whose own
  // memory goes. On a device, nothing may be at work with the block: require_unused().
  virtual void show(const Block& /*other*/) {
    throw Error(Status::unsupported, "a block of this kind stays where it is");
  }
  // Waits until what the device has to do now is over, so that no kernel uses this block or another
  // one. Throws Error(timeout). In a back end in which no work outlives a call, no kernel does.
  virtual void require_unused(Deadline /*deadline*/) {}
  // Promises that share() will not be called again, so the block may close its descriptor.
  virtual void will_not_be_shared() noexcept {}
  // The start of the mapping that data() lies in.
  virtual std::byte* start() const noexcept { return data(); }
  // For adopted memory: the address at which its owner had it mapped when it was adopted, and
  // whether the owner has it mapped there still.
  virtual const std::byte* owners_address() const noexcept { return nullptr; }
  virtual bool still_at_owner() const noexcept { return false; }
  // Exports a DMA-BUF of the pages of a piece, which starts at a page. Throws
  // Error(unavailable) with the reason.
  virtual Fd export_dmabuf([[maybe_unused]] size_t offset, [[maybe_unused]] size_t bytes) const {
    throw Error(
        Status::unavailable, "buffer: memory of the host back end cannot be exported as DMA-BUF");
  }

  // Records that the work issued on `stream` so far uses this block, or others of the device.
  // Returns false in a capture, since the uses by its replays cannot be seen. A back end in
  // which no work outlives a call has nothing to record.
  virtual bool record_use(void* stream) {
    if (stream != nullptr) {
      throw Error(Status::invalid_argument, "stream: must be NULL for memory of the host");
    }
    return true;
  }
  // Notes an answer of record_use(). From then on the release of the block waits for recorded uses
  // only, unless one use could not be recorded.
  void note_use(bool recorded) noexcept {
    uses_.fetch_or(recorded ? 1U : 2U, std::memory_order_relaxed);
  }

  // Notes that the owner has released the block. A caller that found it before must not make
  // it known to others any more.
  void retire() noexcept { is_retired_.store(true); }
  bool is_retired() const noexcept { return is_retired_.load(); }

 protected:
  bool all_uses_recorded() const noexcept { return uses_.load(std::memory_order_relaxed) == 1U; }

 private:
  std::atomic<uint8_t> uses_{0};
  std::atomic<bool> is_retired_{false};
};

// The placement that a user asks for.
struct Placement {
  bool on_host = false;  // in memory of the host, though the group may work on a device
  int node = kNearest;   // NUMA node of memory of the host
  static constexpr int kNearest = -1;
  size_t alignment = 0;   // alignment of the local address, a power of two; 0: any
  size_t page_bytes = 0;  // least bytes of a page, a power of two; 0: any
  // The mapped size is a multiple of this unit, in back ends for which it matters: block_unit().
  size_t unit = 1;
};

// The memory of a back end that can be shared: the one place where blocks come from, for
// rendezvous and for tokens. It is bound to a device, whose streams it knows. Each group has an
// object of its own; all memory that tokens share on a device has one object.
class ShareableMemory {
 public:
  virtual ~ShareableMemory() = default;
  virtual std::shared_ptr<Block> allocate(size_t bytes, const Placement& placement) = 0;
  // Adopts memory that its owner has allocated and mapped. The block is a piece, mapped
  // once more so that it stays when the owner unmaps it, or else the whole allocation that
  // contains `pointer`, where the owner has mapped it. Throws Error(unsupported) if the
  // back end cannot adopt memory.
  virtual std::shared_ptr<Block> adopt(const void* pointer, size_t bytes) = 0;
  static constexpr size_t kWhole = 0;
  static constexpr size_t kAdoptedAlignment = 16;  // what a thread of a kernel moves at a time
  // Adopts memory by its descriptor, which stays its owner's.
  virtual std::shared_ptr<Block> adopt(
      int fd, [[maybe_unused]] uint64_t offset, [[maybe_unused]] size_t bytes) {
    throw Error(Status::unsupported,
        format("options.fd: %d, but memory of a device is adopted by its address", fd));
  }
  // Maps a block that another process shared. A block of another host comes without a
  // descriptor, and is found by its fabric handle.
  virtual std::shared_ptr<Block> import(Fd fd, const BlockExtent& extent, Access access) = 0;
  std::shared_ptr<Block> import(Fd fd, const BlockExtent& extent) {
    return import(std::move(fd), extent, Access::read_write);
  }
  // Maps a block that lies in several allocations of one size, one behind the other.
  virtual std::shared_ptr<Block> import_parts(
      const std::vector<Fd>& fds, [[maybe_unused]] const BlockExtent& extent) {
    throw Error(Status::peer_failed,
        format(
            "a peer sent a block of %zu allocations, and memory of the host is one", fds.size()));
  }
};

// A message to a peer, of the same size for every transport of a back end.
struct OutgoingMessage {
  Bytes body;
  std::vector<int> fds;  // borrowed from the transport
  // Descriptors behind those, of which each rank may send another number: fewer than kMostParts.
  std::vector<int> more_fds = {};
};
template <class Part>
void append(OutgoingMessage& message, const Part& part) {
  const auto bytes = std::as_bytes(std::span(&part, 1));
  message.body.insert(message.body.end(), bytes.begin(), bytes.end());
}
// The struct at the beginning of a message that is at least as large.
template <class Part>
Part first_of(const Message& message) {
  Part part;
  std::copy_n(
      message.body.begin(), sizeof part, std::as_writable_bytes(std::span(&part, 1)).begin());
  return part;
}

// Throws Error(mismatch), with both versions, if rank `peer` has another number of a layout.
inline void require_same_stamp(const Layout& layout, int rank, int peer, const Stamp& theirs) {
  const std::string differs =
      stamp_difference(layout, theirs, format("rank %d", peer), format("rank %d", rank));
  if (!differs.empty()) throw Error({Status::mismatch, peer, 0, differs});
}

// Values of symm_advice_t.
enum class Advice : int32_t { unmeasured = 0, symm = 1, nccl = 2 };

struct PlanReport {
  Algorithm algorithm{};
  int slices = 1;
  uint64_t chunk_bytes = 0;
  bool nontemporal = false;
  std::string reason;
  // Whether NCCL was measured to be faster; nccl_column.hpp. Times are 0 if it was not measured.
  Advice advice = Advice::unmeasured;
  uint64_t symm_ns = 0;
  uint64_t nccl_ns = 0;
  std::string advice_reason{};
};

// The local addresses of all blocks of a memory, and the number by which all ranks know the memory.
// Transports look operands up in it. Blocks and pads of ranks on other machines are null.
struct MemoryView {
  uint64_t id = 0;
  size_t bytes = 0;
  std::vector<std::byte*> blocks;
  std::vector<std::byte*> pads;
  // The memory that is to be mapped at this rank's pad, if it is another one still (moving.hpp): a
  // back end that keeps tables in pads writes them there. Null: the pad.
  std::byte* own_tables = nullptr;
  // By rank: whether the block is memory of the host although the group works on devices. False
  // where the block is not mapped here.
  std::vector<bool> on_host;
  int channels = 0;  // signal channels of a pad
  // Signals that this rank has taken, [channel][source]; where kernels take them, the
  // device counts instead.
  mutable std::vector<std::atomic<uint64_t>> taken;
  std::shared_ptr<const Block> adopted;  // this rank's block, if it is one
  // Keeps all blocks mapped, even while a call still works on a memory that was released.
  std::vector<std::shared_ptr<Block>> owned;
  // The address that reaches all blocks at once. If it is null, the reason, which is the same on
  // all ranks.
  std::byte* multicast = nullptr;
  std::string why_no_multicast;
};

// A signal word of this rank, uint64_t pad[channel][source], and the condition that a
// wait for it has.
struct SignalWait {
  int rank = 0;  // its source
  int channel = 0;
  Compare compare{};
  uint64_t value = 0;
};
struct SignalState {
  uint64_t value = 0;
  uint64_t taken = 0;
};

// A signal of this rank, on its way to another one.
struct OutgoingSignal {
  int channel = 0;
  SignalOp op = SignalOp::add;
  uint64_t value = 1;
};

// What a put or a get of pieces copies.
struct PieceCopy {
  const PieceList& list;
  // The bytes of all pieces; 0 if the device reads the list.
  size_t bytes;
  // The bytes of the side in this process; SIZE_MAX: not known.
  size_t local_bytes;
  // Sent by a transport that issues pieces on streams; null: none.
  const OutgoingSignal* signal;
};

// One side of a message between two ranks: what this rank sends, or the room for what it receives.
struct MessageSide {
  bool is_send = false;
  int rank = 0;  // the other side's
  int channel = 0;
  std::byte* data = nullptr;  // only read if this side sends
  size_t bytes = 0;           // of the message, or of the room
  size_t received = 0;        // bytes that have come
};

// Messages that were posted, and are under way. The sides, and the transport, live longer.
class PostedMessages {
 public:
  virtual ~PostedMessages() = default;
  PostedMessages(PostedMessages&&) = delete;
  // Waits for them, once, as Transport::pass_messages() does, on any thread.
  virtual void finish(uint64_t timeout_ms) = 0;

 protected:
  PostedMessages() = default;
};

// What a rank puts to one neighbour in each round of an exchange.
struct NeighborPieces {
  int rank = 0;
  const std::byte* to = nullptr;  // from where the pieces count in the neighbour's block
  const void* source = nullptr;
  PieceList list;
};

// The rounds of an exchange of neighbours, in a back end that issues them on streams.
class ExchangeRounds {
 public:
  virtual ~ExchangeRounds() = default;
  ExchangeRounds(ExchangeRounds&&) = delete;
  virtual void start(uint64_t timeout_ms, void* stream) = 0;
  virtual void finish(uint64_t timeout_ms, void* stream) = 0;

 protected:
  ExchangeRounds() = default;
};

// Finds the memory of a group that contains an address of this rank's own block, or a
// memory by its number. Implemented by the group.
class MemoryDirectory {
 public:
  virtual ~MemoryDirectory() = default;
  virtual std::shared_ptr<const MemoryView> containing(
      const void* address, size_t bytes, size_t* offset) const = 0;
  virtual std::shared_ptr<const MemoryView> numbered(uint64_t id) const = 0;
  // A number, never 0, that changes with every memory that comes or goes.
  uint64_t generation() const noexcept { return generation_.load(std::memory_order_acquire); }

 protected:
  void changed() noexcept { generation_.fetch_add(1, std::memory_order_release); }

 private:
  std::atomic<uint64_t> generation_{1};
};

inline void* const kAllStreams =
    reinterpret_cast<void*>(intptr_t{-1});  // NOLINT(performance-no-int-to-ptr)

class Transport;

// The machines of a group. Ranks of one machine map each other's memory. A machine is a host,
// whose ranks pass each other descriptors, or several hosts in one NVLink domain, which map
// each other's memory by fabric handles.
struct Machines {
  int count = 1;
  std::vector<int> machine_of;  // by rank; counted in the order of their lowest ranks
  std::vector<int> host_of;     // by rank; empty: each machine is a host
  int local_size(int rank) const noexcept {
    return static_cast<int>(std::count(machine_of.begin(), machine_of.end(), machine_of[at(rank)]));
  }
  int local_rank(int rank) const noexcept {
    return static_cast<int>(
        std::count(machine_of.begin(), machine_of.begin() + rank, machine_of[at(rank)]));
  }
  int most_together() const noexcept {
    int most = 0;
    for (size_t rank = 0; rank < machine_of.size(); ++rank) {
      most = std::max(most, local_size(static_cast<int>(rank)));
    }
    return most;
  }
  bool together(int a, int b) const noexcept { return machine_of[at(a)] == machine_of[at(b)]; }
  bool share_host(int a, int b) const noexcept { return host(a) == host(b); }
  // The number of a rank among those of its host.
  int host_rank(int rank) const noexcept {
    int before = 0;
    for (int other = 0; other < rank; ++other) {
      if (share_host(other, rank)) ++before;
    }
    return before;
  }
  // Whether the machine of `rank` has several hosts.
  bool spans_hosts(int rank) const noexcept {
    for (size_t other = 0; other < machine_of.size(); ++other) {
      const auto peer = static_cast<int>(other);
      if (together(peer, rank) && !share_host(peer, rank)) return true;
    }
    return false;
  }
  bool operator==(const Machines&) const = default;
  // Whether all machines have equally many ranks, and the ranks of each are consecutive.
  bool in_line() const noexcept {
    const size_t each = machine_of.size() / static_cast<size_t>(count);
    bool is = machine_of.size() == each * static_cast<size_t>(count);
    for (size_t rank = 0; is && rank < machine_of.size(); ++rank) {
      is = machine_of[rank] == static_cast<int>(rank / each);
    }
    return is;
  }

 private:
  static size_t at(int rank) noexcept { return static_cast<size_t>(rank); }
  int host(int rank) const noexcept {
    return host_of.empty() ? machine_of[at(rank)] : host_of[at(rank)];
  }
};

// The part of a group's configuration that concerns its transport.
struct TransportOptions {
  int channels = 0;
  bool check = false;
  bool no_check = false;             // overrides the environment
  bool overlapping_devices = false;  // several ranks may use one device
  bool multicast = false;
  bool no_multicast = false;
  bool any_order = false;      // floats may be combined in any order
  bool rank_order = false;     // floats are combined in rank order; overrides the environment
  bool tree_order = false;     // floats are combined as a balanced tree
  bool same_offsets = false;   // recvs in symmetric memory have one offset on all ranks
  uint64_t scratch_bytes = 0;  // upper bound; 0: as much as is fastest
  uint64_t timeout_ms = 0;     // for calls that give no time-out
};

// The services of its group that a transport may use.
struct TransportContext : TransportOptions {
  int rank = 0;
  int size = 1;
  uint64_t group = 0;
  Transport* lender = nullptr;    // its scratch is used here; it lives longer
  std::vector<int> lender_ranks;  // the number of each rank of this group in the lender
  std::vector<int64_t> pids;      // by group rank, for messages
  Machines machines;
  std::vector<std::string> addresses;  // from Mesh::addresses()
  Deadline until = Deadline::never();  // deadline of the creation
  std::shared_ptr<Revocation> revocation;
  std::function<void(const Failure&)> fail;  // revokes the group on all ranks
  // Whether this thread makes a request that was pending when the group was finalized, whose
  // failure harms no other call.
  std::function<bool()> is_left_over = [] { return false; };
  const MemoryDirectory* directory = nullptr;

  int64_t pid_of(int peer) const noexcept {
    return peer < 0 || peer >= size ? 0 : pids[static_cast<size_t>(peer)];
  }
  std::string rank_name(int peer) const { return format("rank %d (pid %ld)", peer, pid_of(peer)); }
  Failure blame(int peer, Status status, std::string message) const {
    return {status, peer, pid_of(peer), with_tag(std::move(message), rank)};
  }
  Failure blame_departed(int peer, const std::string& what) const {
    return blame(peer, Status::peer_failed, what + ": " + rank_name(peer) + " has left the group");
  }
};

// The ranks of a group during a rendezvous, for a transport that has more to agree on than
// blocks. All ranks make the same calls in the same order.
class OutOfBand {
 public:
  virtual ~OutOfBand() = default;
  // [collective] Returns "" if `trouble` is "" on every rank, else the trouble of the lowest
  // rank that has any, on all ranks: "rank 2: ...". Throws what every exchange throws:
  // Error(timeout), Error(peer_failed), Error(aborted).
  virtual std::string commit_vote(const std::string& trouble) = 0;
  // [collective] Returns rank 0's descriptor on the other ranks; `fd` is read on rank 0 only.
  virtual Fd hand_out(int fd) = 0;
};

class IntranodeDevice;

// The operations that only a transport of a device has. This class itself is that of the host's
// memory, where they do nothing.
class DeviceTransport {
 public:
  virtual ~DeviceTransport() = default;
  // Revokes the group if something has gone wrong that no call could report, because
  // the call had returned.
  virtual void check_device_errors() {}
  // Called when a memory of the group was added, and when one is about to be removed.
  virtual void memory_added(const std::shared_ptr<const MemoryView>&) {}
  virtual void memory_removed(const MemoryView&) noexcept {}
  // Returns "" if memories of this group are given multicast addresses, otherwise the reason
  // why not. Equal on all ranks.
  virtual std::string why_no_multicast() const { return "host memory"; }
  // [collective] Gives a memory its multicast address, or the reason why it has none. Its
  // blocks are mapped on all ranks, and are in `blocks` by rank.
  virtual void add_multicast(
      MemoryView& memory, const std::vector<std::shared_ptr<Block>>&, OutOfBand&) {
    memory.why_no_multicast = why_no_multicast();
  }
  // The number of memories that a group may have; 0: any number.
  virtual int max_memories() const noexcept { return 0; }
  // The bytes of which the size of a block with a multicast address is a multiple.
  virtual size_t block_unit() const noexcept { return 1; }
  // Tables of the addresses of a memory's blocks and pads that the device can read; null where the
  // device reads the host's memory.
  struct Tables {
    void* const* blocks = nullptr;
    void* const* pads = nullptr;
    std::byte* taken = nullptr;  // counts of the signals taken, as in MemoryView::taken
  };
  virtual Tables device_tables(const MemoryView&) const { return {}; }
  // The device, for groups on several machines (core/backend/device.hpp); null: this back end has
  // no such groups. The object lives as long as the transport.
  virtual IntranodeDevice* intranode() { return nullptr; }
};

// The calls of all ranks in which a rank waits for messages of the mesh, not for a transport.
enum class MessageCall : uint32_t {
  rendezvous,
  heap_create,
  group_split,
  group_create_from_ranks,
  group_local,
  group_shrink,
  exchange_create,
  group_grow
};
inline constexpr uint32_t kMessageCalls = 8;
inline const char* name_of(MessageCall call) noexcept {
  switch (call) {
    case MessageCall::rendezvous: return "rendezvous";
    case MessageCall::heap_create: return "heap_create";
    case MessageCall::group_split: return "group_split";
    case MessageCall::group_create_from_ranks: return "group_create_from_ranks";
    case MessageCall::group_local: return "group_local";
    case MessageCall::group_shrink: return "group_shrink";
    case MessageCall::exchange_create: return "exchange_create";
    case MessageCall::group_grow: return "group_grow";
  }
  return "";
}

// Shows, while it lives, that this rank waits for a message, or for what it has issued on a
// stream. A rank that waits for long in another call learns from it that the calls differ.
class MessageWait {
 public:
  virtual ~MessageWait() = default;
  MessageWait(MessageWait&&) = delete;
  // Called each time that the awaited message or work was looked for and had not come. Revokes
  // the group and throws Error(mismatch) if ranks wait for each other in different calls.
  virtual void look() = 0;

 protected:
  MessageWait() = default;
};

class Transport {
 public:
  virtual ~Transport() = default;
  Transport(Transport&&) = delete;
  // Creation, in this order: share() on every rank, then connect() with what every peer shared.
  virtual OutgoingMessage share() const = 0;
  virtual void connect(int peer, Message message, const PeerIdentity& identity) = 0;
  // All peers are connected; called before the last vote.
  virtual void ready() {}

  // An empty `ranks` means all ranks.
  virtual void barrier(
      std::span<const int32_t> ranks, int channel, uint64_t timeout_ms, void* stream) = 0;
  // A barrier of all ranks on `channel` that is over when this returns, also where
  // barriers are ordered on streams.
  virtual void finish(int channel, uint64_t timeout_ms) {
    barrier({}, channel, timeout_ms, nullptr);
  }
  // Signals and words. `timeout_ms` is how long a call may wait for a rank on another machine to
  // take what is sent, or to answer. A rank that has waited sees everything that the signalling
  // rank wrote before. A wait on the host that throws Error(timeout) does not revoke the group and
  // has taken nothing.
  virtual void send_signal(const MemoryView& memory, int rank, int channel, SignalOp op,
      uint64_t value, uint64_t timeout_ms, void* stream) = 0;
  // Sets a signal as send_signal() does, but never waits: for what is told when an object is
  // released. A rank that cannot be reached is not told. Only transports of the host do it.
  virtual void tell_signal(
      const MemoryView&, int /*rank*/, int /*channel*/, uint64_t /*value*/) noexcept {}
  virtual void take_signal(
      const MemoryView& memory, int rank, int channel, uint64_t timeout_ms, void* stream) = 0;
  virtual SignalState look_at_signal(const MemoryView& memory, int rank, int channel) = 0;
  // The outputs, which may be null, are the index of the first signal that met its condition,
  // and the value that was seen.
  virtual void wait_signals(const MemoryView& memory, std::span<const SignalWait> waits, bool any,
      uint64_t timeout_ms, size_t* out_index, uint64_t* out_seen, void* stream) = 0;
  // Words of 4 or 8 bytes. One in the block of `rank` is written, or one in this
  // rank's own block is waited for.
  virtual void write_value(const MemoryView& memory, int rank, size_t offset, uint64_t value,
      size_t bytes, uint64_t timeout_ms, void* stream) = 0;
  virtual void wait_value(const MemoryView& memory, const void* word, size_t bytes, Compare compare,
      uint64_t value, uint64_t timeout_ms, void* stream) = 0;
  // Changes a word of `rank`'s block. `fetched`, which may be null, is a word of as many bytes
  // that receives the former value: when the call returns, or on a stream when the call runs.
  virtual void change_value(const MemoryView& memory, int rank, size_t offset,
      const AtomicChange& change, void* fetched, uint64_t timeout_ms, void* stream) = 0;
  // Reads a word of `rank`'s block now, whatever streams there are.
  virtual uint64_t read_value(
      const MemoryView& memory, int rank, size_t offset, size_t bytes, uint64_t timeout_ms) = 0;
  // Puts, gets and fills are within `rank`'s block, which may be mapped here or not.
  virtual void put(const MemoryView& memory, int rank, size_t offset, const void* from,
      size_t bytes, uint64_t /*timeout_ms*/, void* stream) {
    copy(memory.blocks[static_cast<size_t>(rank)] + offset, from, bytes, stream);
  }
  virtual void get(const MemoryView& memory, int rank, size_t offset, void* to, size_t bytes,
      uint64_t /*timeout_ms*/, void* stream) {
    copy(to, memory.blocks[static_cast<size_t>(rank)] + offset, bytes, stream);
  }
  virtual void fill(const MemoryView& memory, int rank, size_t offset, const Copies& copies,
      uint64_t /*timeout_ms*/, void* stream) {
    fill_here(memory.blocks[static_cast<size_t>(rank)] + offset, copies, stream);
  }
  // Sends and receives messages that progress together, and returns when all of them have. The
  // messages of two ranks on a channel meet in the order of their calls, and within a call in that
  // of `sides`. A failure leaves the group usable if nothing has been sent or received.
  virtual void pass_messages(
      std::span<MessageSide> /*sides*/, uint64_t /*timeout_ms*/, void* /*stream*/) {
    throw Error(Status::unsupported,
        "group: its ranks are GPUs of several machines, between which there is no send and "
        "receive");
  }
  // Posts at least one message, which takes its place in the order of calls, and waits for nothing.
  // Only a back end without streams has this.
  virtual std::unique_ptr<PostedMessages> post_messages(std::span<MessageSide> /*sides*/) {
    throw Error(Status::internal, "messages on streams are not posted");
  }
  // Whether pieces are issued on streams, to be copied later. Such a transport reads lists on the
  // device, and sends the signals of copies itself.
  virtual bool streams_pieces() const noexcept { return false; }
  // Pieces of a list, which lie within their sides unless the device reads the list, that of the
  // block from `offset` on. They may be copied in any order.
  virtual void put_pieces(const MemoryView& memory, int rank, size_t offset, const void* from,
      const PieceCopy& pieces, uint64_t timeout_ms, void* stream) = 0;
  virtual void get_pieces(const MemoryView& memory, int rank, size_t offset, void* to,
      const PieceCopy& pieces, uint64_t timeout_ms, void* stream) = 0;
  // Makes the rounds of an exchange, whose neighbours agree on them. `words`: a memory of the
  // exchange's own, zeroed, of at least kExchangeBytes for each rank. Null: this back end has no
  // streams, and the group makes rounds of puts and signals.
  static constexpr size_t kExchangeBytes = 8;
  virtual std::unique_ptr<ExchangeRounds> make_exchange(
      const MemoryView& /*words*/, std::span<const NeighborPieces> /*parts*/) {
    return nullptr;
  }
  virtual void copy(void* to, const void* from, size_t bytes, void* stream) = 0;
  virtual void fill_here(void* to, const Copies& copies, void* stream) = 0;
  virtual void collective(const CollectiveCall& call) = 0;
  // Makes independent calls on one stream, of which each is possible. They have one time-out, and
  // may be changed.
  virtual void batch(std::span<CollectiveCall> calls) { one_by_one(calls); }
  virtual PlanReport plan(const CollectiveCall& call) = 0;

  // Orders work issued on `stream` from now on after work already issued on `after`; kAllStreams
  // stands for all work that this group has issued on any stream.
  virtual void stream_wait(void* stream, void* after) = 0;
  virtual bool stream_done(void* stream) = 0;

  // Returns null in back ends whose ranks do not show in which calls they are. `about`: equal on
  // ranks that are in one call with each other; 0: only the call itself tells.
  virtual std::unique_ptr<MessageWait> await_message(
      MessageCall, int /*peer*/, uint16_t /*about*/) {
    return nullptr;
  }
  virtual std::unique_ptr<MessageWait> await_stream() { return nullptr; }

  // Notes that this rank has refused the arguments of a call of all ranks, in a group
  // that checks.
  virtual void note_refusal(const std::string&) noexcept {}
  // Notes that several threads of this rank make calls, so that a wait of one of them tells the
  // other ranks nothing of what this rank will come to.
  virtual void note_several_threads() noexcept {}

  virtual uint64_t scratch_bytes() const noexcept = 0;  // of this rank, or of the lender
  virtual uint64_t lent_bytes() const noexcept { return 0; }
  virtual int max_ranks() const noexcept { return kMostRanks; }
  // Called when the group has failed. After this returns, nothing from another machine touches
  // memory of this rank any more.
  virtual void let_go() noexcept {}
  // The name of the engine that carries bytes between machines.
  virtual std::string engine() const { return ""; }

  // The transport in whose scratch another group can work: this one, or one that it is made of.
  virtual Transport* lender() noexcept { return this; }

  // The operations of a device. Every call asks for them, so this function is not virtual.
  DeviceTransport& device() noexcept { return *device_; }
  GroupStats& stats() noexcept { return stats_; }

 protected:
  GroupStats stats_;
  // `device`: null for none.
  Transport(DeviceTransport* device, symm_page_t& page) noexcept
      : stats_(page), device_(device != nullptr ? device : &no_device_) {}
  // A transport that is made of `part` counts in the page that `part` has begun to count in.
  Transport(DeviceTransport& device, Transport& part) noexcept
      : stats_(part.stats_.shown), device_(&device) {}

  void one_by_one(std::span<const CollectiveCall> calls) {
    for (const CollectiveCall& call : calls) {
      collective(call);
    }
  }

 private:
  DeviceTransport no_device_;
  DeviceTransport* device_ = &no_device_;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual BackendKind kind() const noexcept = 0;
  virtual int device() const noexcept = 0;
  virtual ShareableMemory& memory() noexcept = 0;
  // Bytes of a signal pad: channels * size words, and what the back end stores behind them.
  virtual size_t pad_bytes(int size, int channels) const noexcept = 0;
  virtual std::unique_ptr<Transport> make_transport(TransportContext context) = 0;
  // Names the NVLink domain of the device, within which memory of other hosts can be mapped by
  // fabric handles. "" if there is none; then `why` says why.
  virtual std::string domain(std::string& why) const {
    why = "host memory";
    return "";
  }
};
}  // namespace symm
