// Puts, gets, fills, values and signals between GPUs of
// different machines, in the order of streams: through memory
// of the host, by the message engine, which need not know of CUDA.
//
// A call has its stream write a word when it comes there, and wait for
// another. A thread of the group's sees the one, does what is asked, and
// writes the other when it has been sent: so whatever the stream does next,
// here or by a signal elsewhere, comes after it. The same thread brings
// what arrives to the device, in the order in which each rank sent it. It
// waits for no stream of the caller's and for nothing that another rank's
// thread may not do at once: what others answer, it remembers and goes on.
#pragma once

#include <list>

#include "core/cuda/device.hpp"
#include "core/multinode/messages.hpp"

namespace symm::multinode {
class DeviceProxy final : private engine::Receiver,
                          public std::enable_shared_from_this<DeviceProxy> {
 public:
  // Where there is no engine it is there to say so.
  static std::shared_ptr<DeviceProxy> open(
      const TransportContext& context, const std::shared_ptr<cuda::Device>& device);
  ~DeviceProxy();

  const EngineShare& share() const noexcept { return share_; }
  void connect(int rank, const EngineShare& theirs);
  void begin();  // all are connected
  // The group goes. Never waits: what streams have
  // still to do is done, while this process lives.
  void close() noexcept;
  // Throws Error(unsupported): what is missing for `what`.
  void require(int rank, const char* what) const;

  // On which calls are issued, with the context current.
  struct Stream {
    cuda::CUstream stream;
    // until the word is no less
    std::function<void(cuda::CUdeviceptr word, uint64_t value)> write, await;
  };
  // `at`: what is put, or to where it is fetched; on this device.
  void issue(const char* what, int rank, const engine::Head& head, const void* at, size_t bytes,
      const Stream& stream);
  // What was issued before has arrived before `stream` goes
  // on. Of captures, in which nothing is issued, nothing.
  void settle(const Stream& stream);
  void memory_added(const std::shared_ptr<const MemoryView>& memory) { memories_.add(memory); }
  void memory_removed(const MemoryView& memory) noexcept;
  void let_go() noexcept;  // as Transport says
 private:
  struct Slot {
    // numbers of calls, which only grow: so it is another's as soon as it is done
    std::atomic<uint64_t> go, done;
  };
  static constexpr uint32_t kSlots = 4096;  // for calls that were issued and not yet done
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Job {
    const char* what;
    int rank;
    engine::Head head;
    const std::byte* at;
    uint64_t bytes;         // that go, or are still to come
    uint32_t slot = kNone;  // none: another rank has asked
    uint64_t number = 0;
    Deadline until = Deadline::never();
    std::optional<Deadline> grace = std::nullopt;  // since its rank was lost
    std::vector<uint64_t> answers = {};            // of ranks
  };
  using Jobs = std::list<Job>;
  struct Arrival {
    int from;
    engine::Head head;
    std::unique_ptr<std::byte[]> payload;
  };

  DeviceProxy(const TransportContext& context, const std::shared_ptr<cuda::Device>& device);
  std::byte* place(int from, const engine::Head& head) noexcept override;
  void arrived(int from, const engine::Head& head) noexcept override;
  void lost(int peer, const std::string& how) noexcept override;

  size_t ranks() const { return static_cast<size_t>(context_.size); }
  const Revocation& revocation() const { return *context_.revocation; }
  std::byte* message(size_t index) const {
    return pinned_ + kSlots * sizeof(Slot) + index * kMessage;
  }
  Slot& slot(uint32_t index) const { return reinterpret_cast<Slot*>(pinned_)[index]; }
  Deadline deadline(uint64_t more_ms) const;
  bool is_there_yet(const Job& job) const {
    return job.slot == kNone || slot(job.slot).go.load(std::memory_order_acquire) >= job.number;
  }

  void run() noexcept;
  void rest(uint32_t seen, uint32_t events);
  void ring() noexcept;
  bool work();
  void look();
  void require_there(Job& job, int rank);
  void move(Job& job, const std::byte* from);
  bool send(const Job& job, const engine::Head& head, std::span<const std::byte> payload = {});
  bool receive();
  void take(int from, const engine::Head& head, const std::byte* payload);
  void copy(const void* to, const void* from, size_t bytes);
  void drain();
  void finish(Jobs& list, Jobs::iterator job) noexcept;
  void end() noexcept;

  TransportContext context_;
  const std::shared_ptr<cuda::Device> device_;
  const cuda::Driver& driver_;
  EngineShare share_;
  std::vector<std::string> why_not_;  // by rank; "": reached
  cuda::CUstream stream_ = nullptr;
  std::byte* pinned_ = nullptr;  // slots; two messages that go, one that has come
  cuda::CUdeviceptr address_ = 0;
  Memories memories_;
  std::mutex calling_;  // of context_.fail, which goes with the group
  std::atomic<bool> closing_ = false, ended_ = true;
  // calls that write, and those of them that have arrived
  std::atomic<uint64_t> issued_ = 0, settled_ = 0;
  Word woken_{0};

  std::mutex
      mutex_;  // of what follows; never held while the message engine or the driver is called
  std::atomic<bool> over_ = false;
  std::vector<uint32_t> free_slots_;
  uint64_t numbers_ = 0;
  // what streams may not have come to; the one; those that others answer
  Jobs jobs_, doing_, waiting_;
  std::vector<std::string> losses_;  // by rank
  std::map<std::pair<int, uint64_t>, std::unique_ptr<std::byte[]>> landing_;
  std::vector<Arrival> arrivals_;
  // what was written, by memory and place in its pad
  std::map<std::pair<uint64_t, size_t>, uint64_t> signals_;

  // The thread's; by rank.
  std::vector<uint64_t> under_way_, asked_, told_;
  std::vector<bool> sent_;  // what the rank was not asked about
  uint64_t done_ = 0, fetches_ = 0;
  uint32_t idle_ = 0;
  std::unique_ptr<engine::Endpoint> endpoint_;  // null: there is no engine. First to go
};
}  // namespace symm::multinode
