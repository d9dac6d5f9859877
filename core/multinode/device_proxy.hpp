// Puts, gets, fills, values, atomics and signals between GPUs of different machines, in the
// order of streams: the bytes go through memory of the host and by the message engine,
// which need not know of devices.
//
// A call has its stream store a number in a `go` word, and then wait for that number in
// a `done` word. A thread of the group sees the go word, sends what the call says, and
// stores the done word. So whatever the stream does next, here or by a signal
// elsewhere, comes after the call. The same thread brings arriving messages to the
// device, in the order in which each rank sent them.
//
// The thread never waits for a stream of the caller, nor for anything that another
// rank's thread might be unable to do at once: a call that needs an answer is put on a
// list, and the thread goes on.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/device.hpp"
#include "core/base/error.hpp"
#include "core/base/wait.hpp"
#include "core/engine/link.hpp"
#include "core/engine/message_engine.hpp"
#include "core/multinode/messages.hpp"
#include "kernels/compare.hpp"

namespace symm::multinode {
class DeviceProxy final : private engine::Receiver,
                          public std::enable_shared_from_this<DeviceProxy> {
 public:
  // Without a message engine the proxy is made all the same, and require() throws the reason.
  static std::shared_ptr<DeviceProxy> open(
      const TransportContext& context, const IntranodeDevice& device);
  ~DeviceProxy();

  const EngineShare& share() const noexcept { return share_; }
  void connect(int rank, const EngineShare& theirs);
  // Starts the thread, when all ranks are connected.
  void begin();
  // Called when the group ends. Never waits: work that is still on streams is done as
  // long as this process lives.
  void close() noexcept;
  // See Transport::let_go().
  void let_go() noexcept;

  // Throws Error(unsupported) if `rank` cannot be reached, with the reason; `call`
  // names the call.
  void require_reach(int rank, const char* call) const;

  // Issues a call on `stream`. `at`, on this device, is the source of a put, or the destination
  // of a get. The time-out counts from when the stream has reached the call.
  void issue(const char* call, int rank, const engine::Head& head, const void* at, size_t bytes,
      uint64_t timeout_ms, IntranodeDevice& device, void* stream) {
    issue({call, rank, head, static_cast<const std::byte*>(at), bytes, timeout_ms}, device, stream);
  }
  // A change of a word of `rank`. `fetched`, on this device, receives what it was, or is null.
  void issue_change(int rank, engine::Head head, const AtomicChange& change, void* fetched,
      uint64_t timeout_ms, IntranodeDevice& device, void* stream);
  // Work issued on `stream` from here on runs when the calls issued before have arrived.
  // Nothing happens in a capture, in which no such calls can be issued.
  void settle(IntranodeDevice& device, void* stream);

  void memory_added(const std::shared_ptr<const MemoryView>& memory) { memories_.add(memory); }
  void memory_removed(const MemoryView& memory) noexcept;

 private:
  // Words of a call, in pinned memory. Numbers of calls only grow, so that a slot can
  // serve another call as soon as the call before is done.
  struct Slot {
    std::atomic<uint64_t> go;
    std::atomic<uint64_t> done;
  };
  // The calls that can be issued and not yet done.
  static constexpr uint32_t kSlots = 4096;
  static constexpr uint32_t kNoSlot = UINT32_MAX;

  struct Job {
    const char* call;
    int rank;
    engine::Head head;
    const std::byte* at;
    // The bytes to be sent, or still to be received.
    uint64_t bytes;
    uint64_t timeout_ms;
    // The value with which the word is compared.
    uint64_t compare = 0;
    // kNoSlot: another rank asked for the job.
    uint32_t slot = kNoSlot;
    uint64_t number = 0;
    Deadline until = Deadline::never();
    // The deadline for the mesh to say why, set when the engine loses the rank or the
    // rank leaves.
    std::optional<Deadline> grace = std::nullopt;
    // By rank: the query whose reply the job waits for.
    std::vector<uint64_t> replies = {};
  };
  using Jobs = std::list<Job>;

  struct Arrival {
    int source;
    engine::Head head;
    std::unique_ptr<std::byte[]> payload;
  };

  explicit DeviceProxy(const TransportContext& context);
  void issue(const Job& call, IntranodeDevice& device, void* stream);
  void open_engine(const IntranodeDevice& device);

  // Called on whatever thread makes progress in the message engine.
  std::byte* place(int source, const engine::Head& head) noexcept override;
  void arrived(int source, const engine::Head& head) noexcept override;
  void lost(int peer, const std::string& reason) noexcept override;

  size_t ranks() const { return static_cast<size_t>(context_.size); }
  size_t me() const { return static_cast<size_t>(context_.rank); }
  const Revocation& revocation() const { return *context_.revocation; }
  static Deadline deadline(uint64_t timeout_ms, uint64_t more_ms);

  // Pinned memory: the slots, then buffers of kMessage bytes each.
  enum Buffer : size_t { kFirstOutgoing, kSecondOutgoing, kIncoming, kBuffers };
  static constexpr size_t kPinnedBytes = kSlots * sizeof(Slot) + kBuffers * kMessage;
  std::byte* buffer(size_t index) const {
    return pinned_->host() + kSlots * sizeof(Slot) + index * kMessage;
  }
  Slot& slot(uint32_t index) const { return reinterpret_cast<Slot*>(pinned_->host())[index]; }
  // Whether the stream has reached the call.
  bool is_due(const Job& job) const {
    return job.slot == kNoSlot || slot(job.slot).go.load(std::memory_order_acquire) >= job.number;
  }

  // ---- the thread

  void run() noexcept;
  bool is_over();
  void fail(const Failure& failure) noexcept;
  void rest(uint32_t seen, uint32_t events);
  void wake() noexcept;
  bool start_job();
  void send_reply_to_fetch(Job& job);
  void await_answers(Job& job);
  void check_waiting_jobs();
  void require_answer_in_time(Job& job, int rank);
  void send_bytes(Job& job, const std::byte* from);
  void send_change(const Job& job);
  bool send(const Job& job, const engine::Head& head, std::span<const std::byte> payload = {});
  void finish(Jobs& list, Jobs::iterator job) noexcept;
  void finish_all() noexcept;

  bool receive();
  void receive_one(int source, const engine::Head& head, const std::byte* payload);
  std::shared_ptr<const MemoryView> find(
      const engine::Head& head, uint64_t count, uint64_t word_bytes);
  std::byte* destination(const MemoryView& memory, const engine::Head& head) const {
    return memory.blocks[me()] + head.offset;
  }
  void bring(const std::byte* to, const std::byte* payload, size_t bytes);
  void bring_signal(int source, const engine::Head& head);
  void bring_fetched(int source, const engine::Head& head, const std::byte* payload);
  void change_word(int source, const engine::Head& head, const std::byte* payload);
  void bring_word(int source, const engine::Head& head);
  void drain();

  TransportContext context_;
  EngineShare share_;
  // By rank; "": the rank can be reached.
  std::vector<std::string> unreachable_;
  // Null without a message engine.
  std::unique_ptr<PinnedStream> pinned_;
  MemoryViews memories_;
  // Guards context_.fail, which goes with the group.
  std::mutex calling_;
  std::atomic<bool> closing_ = false;
  std::atomic<bool> ended_ = true;
  // Calls that write at another rank, and those of them that are known to have arrived.
  std::atomic<uint64_t> issued_ = 0;
  std::atomic<uint64_t> settled_ = 0;
  Word woken_{0};

  // Guards the fields below, up to signals_. Never held while the message engine or
  // the driver is called.
  std::mutex mutex_;
  std::atomic<bool> over_ = false;
  std::vector<uint32_t> free_slots_;
  uint64_t numbers_ = 0;
  // Jobs that their streams may not have reached, the current job, and jobs that
  // other ranks answer.
  Jobs pending_;
  Jobs current_;
  Jobs waiting_;
  // By rank: why the engine lost it; "": it did not.
  std::vector<std::string> losses_;
  // Payloads on their way here, by source and sequence number; and messages that have arrived.
  std::map<std::pair<int, uint64_t>, std::unique_ptr<std::byte[]>> landing_;
  std::vector<Arrival> arrivals_;
  // The signals stored so far, by memory and place in its pad.
  std::map<std::pair<uint64_t, size_t>, uint64_t> signals_;

  // The fields below belong to the thread; vectors are indexed by rank.
  //
  // The bytes that the rank has not reported as taken.
  std::vector<uint64_t> in_flight_;
  // The last query to the rank, and the last to which it replied.
  std::vector<uint64_t> queries_;
  std::vector<uint64_t> replies_;
  // Whether anything was sent to the rank since the last query.
  std::vector<bool> unsettled_;
  uint64_t done_ = 0;
  uint64_t fetches_ = 0;
  uint32_t idle_ = 0;
  // Null without a message engine. Declared last and so destroyed first, because it
  // calls this object.
  std::unique_ptr<engine::Endpoint> endpoint_;
};
}  // namespace symm::multinode
