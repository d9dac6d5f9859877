// Ranks that run kernels on the host, one step at a time in an order drawn at random,
// with memory as weak as that of GPUs: what a thread stores comes into view of others
// later, in pieces of 8 bytes and in any order, but for stores to one address, which
// keep the order of their thread. What a kernel has stored is in view when it has
// ended; only then does its rank start the next one. Threads are contexts of one thread
// of the host, so a seed tells everything.
//   A rank may be in several groups at once, with a kernel of each under way. Then it
//   has a number in each: ranks of the first
// come first, then those of the second, of which number n has the device of number n -
// ranks. Blocks come onto a device in the order of the launches and of their numbers,
// when there is room, and keep their place until they end.
#pragma once

#include <ucontext.h>

#include "kernels/collective.hpp"
#include "kernels/cuda/args.hpp"
#include "tests/support/test.hpp"

namespace symm::cuda::model {
template <class Args>
using KernelOf = void(Args);  // extern "C" KernelOf<...> declares several

class Ranks {
 public:
  struct Options {
    int ranks = 8;
    int groups = 1;
    bool are_streams = false;   // the groups are one, and its kernels run on as many streams
    bool share_stages = false;  // the groups work in those of the first
    unsigned room = 1000;       // of a device, for blocks
    unsigned seed = 1;
    unsigned blocks = 1;
    unsigned threads = 1;
    // bytes of a slot of LL, and of each of the others that there are
    uint64_t slot = 1024;
    int work_groups = 0;               // of the pipeline
    uint64_t timeout_ns = UINT64_MAX;  // a step is a nanosecond
    // What must not be, to see that it would be noticed.
    bool has_one_half = false;  // both halves are the same memory
    bool ends_early = false;    // the next kernel starts before what the last one stored is in view
  };
  using Kernel = std::function<void(const CollectiveArgs&)>;

  explicit Ranks(const Options& options);
  ~Ranks();
  Ranks(Ranks&&) = delete;

  const DeviceComm& comm(int rank) const { return members_[static_cast<size_t>(rank)].comm; }
  ControlWords& words(int rank);
  const ErrorRecord& record(int rank) const { return members_[static_cast<size_t>(rank)].record; }
  // 0: as options say
  void launch(int rank, Kernel kernel, const CollectiveArgs& args, unsigned blocks = 0);
  // When it has stored `stores` times, a rank does nothing
  // more until all together have taken `steps` steps.
  void hold(int rank, long stores, long steps);
  // Until all kernels have ended. False: nothing goes on any more.
  bool run();

  // For the kernels.
  uint32_t load(const uint32_t* from, bool may_yield = true);
  void store(uint32_t* to, uint32_t first, const uint32_t* second = nullptr);
  void add(void* to, size_t words, uint64_t value);  // comes into view like a store
  uint64_t claim(void* word, size_t words);          // adds one, at once
  void fence();
  bool meet(bool yes);
  float exchange(float mine, unsigned with);
  void* shared(size_t bytes);
  uint64_t now() const { return static_cast<uint64_t>(steps_); }

 private:
  struct Thread;
  struct Pending {
    uint32_t* to;
    uint32_t value[2];
    size_t words;
    const Thread* by;
    bool is_added = false;
  };
  struct Launch {
    Kernel kernel;
    CollectiveArgs args;
    unsigned blocks;
  };
  struct Member {
    DeviceComm comm{};
    ErrorRecord record{};
    std::vector<uint32_t> control;
    std::vector<Launch> queue;
    size_t next = 0;  // in the queue
    size_t device = 0;
    // of the kernel that is under way: to come onto the device
    unsigned next_block = 0;
    std::vector<std::unique_ptr<Thread>> running;                         // of it
    std::map<std::pair<unsigned, size_t>, std::vector<uint64_t>> shared;  // by block and size
    // what its threads have stored
    std::vector<Pending> pending;
    unsigned speed = 1;
    long stored = 0;
    long held_after = -1;
    long held_until = 0;
    bool ended = false;
  };

  struct Device {
    unsigned free;
    std::vector<Member*> launched;  // whose kernels have blocks that are not there yet
  };

  static void enter();
  void yield();
  void start(Member& member);
  void let_in(Device& device);
  void let_in(Member& member, const Launch& launch, unsigned index);
  void leave(Member& member, unsigned block);
  void finish(Member& member);
  bool step(Member& member);
  void deliver(Member& member, size_t index);
  void deliver_all(Member& member);
  uint32_t* place(const uint32_t* word) const;
  bool is_held(const Member& member) const;

  Options options_;
  uint64_t half_bytes_;
  std::mt19937 random_;
  std::vector<Member> members_;
  std::vector<Device> devices_;
  ucontext_t scheduler_{};
  Member* member_ = nullptr;
  Thread* thread_ = nullptr;
  long steps_ = 0;
  // the step in which memory, or a thread's number, last changed or a thread ended
  long last_change_ = 0;
};

// A rank's arguments of a call on private memory,
// of which kernels that move do not ask the type.
template <class T>
CollectiveArgs args_of(const Ranks& ranks, size_t rank, Collective collective,
    const std::vector<T>& send, const std::vector<T>& recv, size_t count) {
  CollectiveArgs args{};
  args.comm = ranks.comm(static_cast<int>(rank));
  args.unit = count * sizeof(T);
  args.send = reinterpret_cast<uintptr_t>(send.data());
  args.recv = reinterpret_cast<uintptr_t>(recv.data());
  args.collective = static_cast<int32_t>(collective);
  args.dtype = static_cast<int32_t>(DType::f32);
  return args;
}
}  // namespace symm::cuda::model
