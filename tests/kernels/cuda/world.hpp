// Ranks that run kernels on the host, one step at a time in an order drawn at random, with memory
// as weak as that of GPUs. The threads of all kernels are contexts of one thread of the host, so
// that a seed determines everything.
//
// Memory: the stores of a thread come into view of other threads later, in pieces of 8 bytes and
// in any order, except that stores to one address keep the order of their thread. All stores of a
// kernel are in view when the kernel has ended, and only then does its rank start the next one.
//
// Groups: a rank may be in several groups at once, with a kernel of each under way, and has a
// number in each. Members are numbered by group: those of the first group come first, then those
// of the second. Member n is rank n % ranks of its group.
//
// Devices: each has multiprocessors, and each of these has units, of which a block takes some.
// Blocks come onto a device in the order of the launches and of their numbers. Each comes onto the
// emptiest multiprocessor, when that has room, and keeps its place until it ends.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "kernels/collective.hpp"
#include "kernels/cuda/args.hpp"
#include "tests/support/context.hpp"
#include "tests/support/test.hpp"

namespace symm::cuda::model {
template <class Args>
using KernelOf = void(Args);  // with it, one declaration declares several kernels

class Ranks {
 public:
  struct Options {
    int ranks = 8;
    int groups = 1;
    // The groups are streams of one group.
    bool are_streams = false;
    // All groups work in the stages of the first group.
    bool share_stages = false;
    // Ranks that share a device.
    int on_one = 1;
    // The multiprocessors of a device, and the units of each.
    unsigned room = 1000;
    unsigned units = 1;
    unsigned seed = 1;
    unsigned blocks = 1;
    unsigned threads = 1;
    // The bytes of a slot of LL, and of the slots of the other algorithms.
    uint64_t slot = 1024;
    // Work groups of the pipeline.
    int work_groups = 0;
    // Bytes behind all others, which a test lays out itself.
    uint64_t extra = 0;
    // A step of the model takes a nanosecond.
    uint64_t timeout_ns = UINT64_MAX;
    // Faults that the model must notice: both halves of LL's slots are the same memory, or a
    // kernel starts before all stores of the kernel before it are in view.
    bool has_one_half = false;
    bool ends_early = false;
  };
  using Kernel = std::function<void(const CollectiveArgs&)>;

  explicit Ranks(const Options& options);
  ~Ranks();
  Ranks(Ranks&&) = delete;

  const DeviceComm& comm(int rank) const { return members_[static_cast<size_t>(rank)].comm; }
  ControlWords& words(int rank);
  // Where Options::extra begin in each control block.
  uint64_t extra_at() const { return extra_at_; }
  const ErrorRecord& record(int rank) const {
    return members_[static_cast<size_t>(rank)].page.record;
  }
  // What the host tells the kernels of a rank.
  Told& told(int rank) { return members_[static_cast<size_t>(rank)].page.told; }
  // Blocks of 0 means Options::blocks. Each takes so many units of a multiprocessor.
  void launch(
      int rank, Kernel kernel, const CollectiveArgs& args, unsigned blocks = 0, unsigned units = 1);
  // Holds a rank up: after `stores` stores the rank does nothing until the model has taken `steps`
  // steps.
  void hold(int rank, long stores, long steps);
  // Is called when all that was launched on a member has ended.
  std::function<void(int member)> at_end;
  // Is called when a rank stores into a slot of LL: whose slot that is, and for which source.
  std::function<void(int by, int owner, int source)> at_store;
  // Runs until all kernels have ended. False if nothing goes on any more.
  bool run();

  // ---- the kernels call these

  uint32_t load(const uint32_t* from, bool may_yield = true);
  void store(uint32_t* to, uint32_t first, const uint32_t* second = nullptr);
  // The sum comes into view like a store.
  void add(void* to, size_t words, uint64_t value);
  // Adds one at once, and returns the value before.
  uint64_t claim(void* word, size_t words);
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
    unsigned units;
  };
  // In memory of the host, by which kernels and host tell each other of failures.
  struct Page {
    ErrorRecord record{};
    alignas(kToldAt) Told told{};
  };
  static_assert(sizeof(Page) == 2 * size_t{kToldAt});
  struct Member {
    DeviceComm comm{};
    Page page{};
    std::vector<uint32_t> control;
    std::vector<Launch> queue;
    size_t next = 0;  // in the queue
    size_t device = 0;
    // The multiprocessors of the blocks that are on the device.
    std::map<unsigned, size_t> multiprocessors;
    // The kernel that is under way: the block that comes onto the device next, the threads that
    // are there, shared memory by block and size, and stores that are not in view yet.
    unsigned next_block = 0;
    std::vector<std::unique_ptr<Thread>> running;
    std::map<std::pair<unsigned, size_t>, std::vector<uint64_t>> shared;
    std::vector<Pending> pending;
    unsigned speed = 1;
    long stored = 0;
    long held_after = -1;
    long held_until = 0;
    bool ended = false;
  };

  struct Device {
    // Units of each multiprocessor.
    std::vector<unsigned> free;
    // Members whose kernels have blocks that are not on the device yet.
    std::vector<Member*> launched;
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
  void tell_store(const uint32_t* to) const;
  bool is_held(const Member& member) const;

  Options options_;
  uint64_t half_bytes_;
  uint64_t extra_at_ = 0;
  std::mt19937 random_;
  std::vector<Member> members_;
  std::vector<Device> devices_;
  support::Context scheduler_;
  Member* member_ = nullptr;
  Thread* thread_ = nullptr;
  long steps_ = 0;
  // The last step in which memory or a thread's number changed, or a thread ended.
  long last_change_ = 0;
};

// A number of a wide range, so that most sums depend on their order.
inline float draw_number(std::mt19937& random) {
  return std::ldexp(static_cast<float>(random() % 1000), static_cast<int>(random() % 40) - 20);
}

// The sum of the numbers of all ranks, in their order or in tree order.
float sum_of(const std::vector<float>& numbers, bool in_tree);

// The arguments of a rank for a call on private memory. The type does not matter to kernels that
// only move.
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
