#include "tests/kernels/world.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kernels/collective.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/host/execution.hpp"
#include "kernels/host/plan.hpp"
#include "kernels/types.hpp"
#include "tests/kernels/reference.hpp"
#include "tests/kernels/values.hpp"
#include "tests/support/process.hpp"
#include "tools/bench/reference.hpp"

namespace symm::testing {
namespace {
struct alignas(128) RankWords {
  // The number of calls that the rank has entered.
  std::atomic<uint64_t> entered{0};
  // The number of calls << 32 | the number of arrivals in the last of them.
  std::atomic<uint64_t> arrived{0};
  host::EntryPayload payload[2];
};

// Whether a rank of a hybrid cube mesh has a link to another, or is it.
bool are_neighbours(int a, int b) {
  return a / kQuadRanks == b / kQuadRanks || a == (b ^ kQuadRanks);
}

class ThreadSync final : public host::Sync {
 public:
  ThreadSync(std::vector<RankWords>& words, int rank, bool delays, unsigned seed)
      : words_(words), rank_(rank), delays_(delays), random_(seed + static_cast<unsigned>(rank)) {}

  // Begins a call, as the executor does before each call. A call that is `on_mesh` may wait for
  // the neighbours in a hybrid cube mesh only.
  void begin(bool on_mesh) {
    on_mesh_ = on_mesh;
    delay();
    for (RankWords& peer : words_) {
      wait([&] { return peer.entered.load(std::memory_order_acquire) >= call_; });
    }
    ++call_;
    arrivals_ = 0;
    entries_ = 0;
  }

  int entries() const { return entries_; }

  uint64_t arrivals() const { return arrivals_; }

  void enter(const void* payload, size_t size) override {
    delay();
    ++entries_;
    auto& mine = words_[static_cast<size_t>(rank_)];
    ASSERT_LE(size, host::kEntryPayload);
    if (size > 0) std::memcpy(mine.payload[call_ % 2].data(), payload, size);
    mine.entered.store(call_, std::memory_order_release);
    delay();
  }

  const std::byte* await_entry(int peer) override {
    expect_link(peer);
    auto& word = words_[static_cast<size_t>(peer)];
    wait([&] { return word.entered.load(std::memory_order_acquire) >= call_; });
    return word.payload[call_ % 2].data();
  }

  void arrive() override {
    delay();
    words_[static_cast<size_t>(rank_)].arrived.store(
        call_ << 32 | ++arrivals_, std::memory_order_release);
    delay();
  }

  void await(int peer) override {
    expect_link(peer);
    auto& word = words_[static_cast<size_t>(peer)];
    wait([&] { return word.arrived.load(std::memory_order_acquire) >= (call_ << 32 | arrivals_); });
    delay();
  }

  void disagree(int peer, const PieceLengths& lengths) override {
    throw std::runtime_error("rank " + std::to_string(peer) + " sends " +
                             std::to_string(lengths.sent) + ", not " +
                             std::to_string(lengths.expected));
  }

 private:
  void expect_link(int peer) const {
    if (on_mesh_ && !are_neighbours(rank_, peer)) {
      ADD_FAILURE() << "rank " << rank_ << " waits for rank " << peer
                    << ", which is not a neighbour";
    }
  }

  template <class Ready>
  void wait(Ready ready) {
    for (int spins = 0; !ready(); ++spins) {
      // Waits must not keep the other ranks from a busy processor.
      if (spins > 300) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      } else if (spins > 50) {
        std::this_thread::yield();
      }
    }
  }

  void delay() {
    if (!delays_) return;
    const auto dice = random_() % 64;
    if (dice == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % 300));
    } else if (dice < 8) {
      std::this_thread::yield();
    }
  }

  std::vector<RankWords>& words_;
  const int rank_;
  const bool delays_;
  std::minstd_rand random_;
  uint64_t call_ = 0;
  uint64_t arrivals_ = 0;
  int entries_ = 0;
  bool on_mesh_ = false;
};

std::string describe(const Case& c, int size) {
  constexpr const char* kPlaceNames[] = {"", " in place", " mixed places"};
  std::ostringstream out;
  out << collective_name(c.collective) << ' ' << dtype_name(c.dtype) << ' ' << op_name(c.op)
      << " count " << c.count << " ranks " << size << " root " << c.root << ' '
      << algorithm_name(c.algorithm) << (c.symmetric ? " symmetric" : " private")
      << kPlaceNames[static_cast<size_t>(c.place)] << " misaligned " << c.misalignment
      << (c.llc_bytes ? " nontemporal" : "") << (c.order == Order::tree ? " in tree order" : "");
  return out.str();
}

// The operands of one test case on all ranks, their right results, and a check that nothing
// else was written.
class Operands {
 public:
  Operands(const Case& c, int size, unsigned seed)
      : case_(c), size_(size), element_(size_of(c.dtype)) {
    const auto n = static_cast<size_t>(size);
    Values values(c.dtype, c.op, seed);
    const size_t send_count = its_.send_per_rank ? c.count * n : c.count;
    const size_t recv_count = its_.recv_per_rank ? c.count * n : c.count;

    for (size_t rank = 0; rank < n; ++rank) {
      inputs_.push_back(values.make(send_count));
      memory_.emplace_back(
          2 * (kGuard + 8 * n + 64) + (send_count + recv_count) * element_ + 256, kFill);
    }

    for (size_t rank = 0; rank < n; ++rank) {
      place(rank, send_count * element_, recv_count * element_);
    }

    expect();
  }

  const std::byte* send(int rank) const { return sends_[static_cast<size_t>(rank)]; }

  std::byte* recv(int rank) const { return recvs_[static_cast<size_t>(rank)]; }

  const std::byte* const* sends() const { return sends_.data(); }

  std::byte* const* recvs() const { return recvs_.data(); }

  bool all_direct() const { return case_.all_direct(); }

  void check(int rank_number) const {
    const auto rank = static_cast<size_t>(rank_number);
    // The result is compared first, and then whether all other bytes are unchanged.
    const Bytes& result = results_[rank];
    const Bytes& memory = memory_[rank];
    Bytes expected = before_[rank];

    if (!result.empty()) {
      ASSERT_EQ(
          reference::difference(case_.dtype, recvs_[rank], result.data(), result.size() / element_),
          "")
          << describe(case_, size_) << " rank " << rank;
      std::memcpy(expected.data() + (recvs_[rank] - memory.data()), recvs_[rank], result.size());
    }

    ASSERT_TRUE(expected == memory)
        << describe(case_, size_) << " rank " << rank << " wrote beside its result";
  }

  // The caller uses its memory again. A rank that writes there afterwards is noticed by
  // check_scribbles(), and a rank that reads there has wrong results.
  void scribble(int rank) const {
    std::memset(memory_of(rank).data(), static_cast<int>(kScribble), memory_of(rank).size());
  }

  void check_scribbles() const {
    for (int rank = 0; rank < size_; ++rank) {
      const Bytes& memory = memory_of(rank);
      const auto written = std::find_if(
          memory.begin(), memory.end(), [](std::byte byte) { return byte != kScribble; });
      ASSERT_TRUE(written == memory.end())
          << describe(case_, size_) << " wrote after its end: byte " << written - memory.begin()
          << " of rank " << rank;
    }
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr std::byte kFill{0xC3};
  static constexpr std::byte kScribble{0x5A};

  bool is_root(size_t rank) const { return rank == static_cast<size_t>(case_.root); }

  bool gives_operand(size_t rank) const { return !its_.from_root || is_root(rank); }

  bool gets_result(size_t rank) const { return !its_.to_root || is_root(rank); }

  bool is_in_place(size_t rank) const {
    return case_.place == Case::Place::in || (case_.place == Case::Place::mixed && rank % 2 == 0);
  }

  std::vector<std::byte>& memory_of(int rank) const { return memory_[static_cast<size_t>(rank)]; }

  void place(size_t rank, size_t send_bytes, size_t recv_bytes) {
    std::vector<std::byte>& memory = memory_[rank];
    const size_t shift = case_.misalignment == 0 ? 0 : case_.misalignment + rank;
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    const size_t first = kGuard + (64 - address % 64) % 64 + shift % 64;
    std::byte* recv = memory.data() + first;
    std::byte* send = recv + (recv_bytes + kGuard + 63) / 64 * 64 + 2 * shift % 64;

    if (is_in_place(rank) && gives_operand(rank) && gets_result(rank)) {
      if (case_.collective == Collective::reduce_scatter) {
        send = recv;
        recv = send + rank * recv_bytes;
      } else if (case_.collective == Collective::allgather) {
        send = recv + rank * send_bytes;
      } else {
        send = recv;
      }
    }

    if (gives_operand(rank) && send_bytes > 0) std::memcpy(send, inputs_[rank].data(), send_bytes);
    sends_.push_back(gives_operand(rank) && send_bytes > 0 ? send : nullptr);
    recvs_.push_back(gets_result(rank) && recv_bytes > 0 ? recv : nullptr);
    before_.push_back(memory);
  }

  void expect() {
    const auto combine = [&](const std::vector<reference::Bits>& bits) {
      return reference::reduce(case_.dtype, case_.op, bits, static_cast<symm_order_t>(case_.order));
    };

    std::map<size_t, Bytes> made;  // by the byte at which a block begins
    const auto reduced = [&](size_t at) {
      if (!made.contains(at)) {
        made[at] = reference::combined(case_.dtype, inputs_, at, case_.count, case_.dtype, combine);
      }
      return made[at];
    };

    for (int rank = 0; rank < size_; ++rank) {
      if (its_.of_prefix) {
        const int ranks = case_.collective == Collective::scan ? rank + 1 : rank;
        const std::vector<Bytes> prefix(inputs_.begin(), inputs_.begin() + ranks);
        results_.push_back(
            reference::combined(case_.dtype, prefix, 0, case_.count, case_.dtype, combine));
        continue;
      }
      results_.push_back(reference::result_of(
          case_.collective, inputs_, case_.count * element_, rank, case_.root, reduced));
    }
  }

  using Bytes = reference::Bytes;
  const Case case_;
  const CollectiveTraits its_ = traits(case_.collective);
  const int size_;
  const size_t element_;
  std::vector<Bytes> inputs_;
  mutable std::vector<Bytes> memory_;
  std::vector<Bytes> before_;
  std::vector<Bytes> results_;
  std::vector<const std::byte*> sends_;
  std::vector<std::byte*> recvs_;
};

host::PlanInput input_of(const Case& c, int size) {
  host::PlanInput input;
  input.collective = c.collective;
  input.dtype = c.dtype;
  input.op = c.op;
  input.count = c.count;
  input.root = c.root;
  input.size = size;
  input.algorithm = c.algorithm;
  input.order = c.order;
  input.llc_bytes = c.llc_bytes;
  input.tuning = tuning_for(size);
  return input;
}
}  // namespace

bool Case::is_possible(int size) const {
  const CollectiveTraits what = traits(collective);
  return (!what.has_op || reference::are_combined(dtype, op)) &&
         !(what.of_prefix && op == Op::avg) &&
         host::refuse(input_of(*this, size), all_direct()).empty();
}

// Long, since the threads of all ranks share what it makes: words, scratch and operands.
void World::run(std::span<const Case> cases) const {
  // A limit of the cases in one group of ranks, so that memory stays small.
  constexpr unsigned kAtOnce = 150;
  if (cases.size() > kAtOnce) {
    World{size, scratch_bytes, delays, seed + kAtOnce}.run(cases.subspan(kAtOnce));
    cases = cases.first(kAtOnce);
  }

  const auto n = static_cast<size_t>(size);
  std::vector<RankWords> words(n);
  std::vector<std::vector<std::byte>> scratch_memory(
      n, std::vector<std::byte>(2 * scratch_bytes + 64));
  std::vector<std::byte*> scratch[2];

  for (int half = 0; half < 2; ++half) {
    for (auto& memory : scratch_memory) {
      const auto address = reinterpret_cast<uintptr_t>(memory.data());
      scratch[half].push_back(
          memory.data() + (64 - address % 64) % 64 + static_cast<size_t>(half) * scratch_bytes);
    }
  }

  std::vector<std::unique_ptr<Operands>> operands;
  for (size_t i = 0; i < cases.size(); ++i) {
    operands.push_back(std::make_unique<Operands>(cases[i], size, seed + static_cast<unsigned>(i)));
  }

  std::vector<std::vector<uint64_t>> arrivals(n, std::vector<uint64_t>(cases.size()));

  const auto rank_main = [&](int rank) {
    ThreadSync sync(words, rank, delays, seed * 1000);
    for (size_t i = 0; i < cases.size(); ++i) {
      const Case& c = cases[i];
      const Operands& o = *operands[i];
      host::PlanInput input = input_of(c, size);
      input.scratch_bytes = scratch_bytes;
      CollectiveCall call;
      static_cast<CallSignature&>(call) = input;
      call.send = o.send(rank);
      call.recv = o.recv(rank);
      host::Plan plan = host::plan(input);

      // The scratch of a rank without a link is not reached: an access there ends the program.
      const bool on_mesh = plan.algorithm == Algorithm::hybrid_cube_mesh && size == kCubeMeshRanks;
      std::vector<std::byte*> reached = scratch[i % 2];
      for (int peer = 0; peer < size; ++peer) {
        if (on_mesh && !are_neighbours(rank, peer)) reached[static_cast<size_t>(peer)] = nullptr;
      }

      sync.begin(on_mesh);
      if (plan.entered) {
        sync.enter(nullptr, 0);
        sync.await_all_entries(size);
        plan = host::settle(input, plan, o.all_direct());
      }
      host::run({call, plan, rank, size, o.sends(), o.recvs(), nullptr, reached.data(), sync});
      EXPECT_EQ(sync.entries(), 1) << describe(c, size) << " rank " << rank;
      arrivals[static_cast<size_t>(rank)][i] = sync.arrivals();

      // The operands belong to the caller again at once, so that a peer that still writes to them
      // is noticed.
      o.check(rank);
      o.scribble(rank);
    }
  };
  support::as_threads(size, rank_main);
  for (size_t i = 0; i < cases.size(); ++i) {
    for (size_t rank = 1; rank < n; ++rank) {
      EXPECT_EQ(arrivals[rank][i], arrivals[0][i])
          << describe(cases[i], size) << ": arrivals of rank " << rank << " and rank 0";
    }
  }

  for (const auto& o : operands) {
    o->check_scribbles();
  }
}
}  // namespace symm::testing
