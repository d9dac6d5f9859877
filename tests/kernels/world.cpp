#include "tests/kernels/world.hpp"
#include "tests/kernels/operands.hpp"

namespace symm::testing {
namespace {
struct alignas(128) RankWords {
  std::atomic<uint64_t> entered{0};  // calls
  std::atomic<uint64_t> arrived{0};  // calls << 32 | arrivals in the last of them
  host::EntryPayload payload[2];
};

class ThreadSync final : public host::Sync {
 public:
  ThreadSync(std::vector<RankWords>& words, int rank, bool delays, unsigned seed)
      : words_(words), rank_(rank), delays_(delays), random_(seed + static_cast<unsigned>(rank)) {}

  // The executor's part, before each call.
  void begin() {
    delay();
    for (RankWords& peer : words_) wait([&] { return peer.entered.load(std::memory_order_acquire) >= call_; });
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
    auto& word = words_[static_cast<size_t>(peer)];
    wait([&] { return word.entered.load(std::memory_order_acquire) >= call_; });
    return word.payload[call_ % 2].data();
  }
  void arrive() override {
    delay();
    words_[static_cast<size_t>(rank_)].arrived.store(call_ << 32 | ++arrivals_, std::memory_order_release);
    delay();
  }
  void await(int peer) override {
    auto& word = words_[static_cast<size_t>(peer)];
    wait([&] { return word.arrived.load(std::memory_order_acquire) >= (call_ << 32 | arrivals_); });
    delay();
  }
  void disagree(int peer, size_t sent, size_t expected) override {
    throw std::runtime_error(
        "rank " + std::to_string(peer) + " sends " + std::to_string(sent) + ", not " + std::to_string(expected));
  }
 private:
  template <class Ready> void wait(Ready ready) {
    for (int spins = 0; !ready(); ++spins)
      if (spins > 300) std::this_thread::sleep_for(std::chrono::microseconds(20));  // a busy machine
      else if (spins > 50) std::this_thread::yield();
  }
  void delay() {
    if (!delays_) return;
    const auto dice = random_() % 64;
    if (dice == 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 300));
    else if (dice < 8) std::this_thread::yield();
  }

  std::vector<RankWords>& words_;
  const int rank_;
  const bool delays_;
  std::minstd_rand random_;
  uint64_t call_ = 0;
  uint64_t arrivals_ = 0;
  int entries_ = 0;
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
  input.llc_bytes = c.llc_bytes;
  input.tuning = tuning_for(size);
  return input;
}
}  // namespace

bool Case::is_possible(int size) const { return host::refuse(input_of(*this, size), all_direct()).empty(); }

std::string describe(const Case& c, int size) {
  std::ostringstream out;
  out << name_of(c.collective) << ' ' << name_of(c.dtype) << ' ' << name_of(c.op) << " count " << c.count << " ranks " << size
      << " root " << c.root << ' ' << name_of(c.algorithm) << (c.symmetric ? " symmetric" : " private")
      << (c.place == Case::Place::out     ? ""
             : c.place == Case::Place::in ? " in place"
                                          : " mixed places")
      << " misaligned " << c.misalignment << (c.llc_bytes ? " nontemporal" : "");
  return out.str();
}

void World::run(std::span<const Case> cases) const {
  constexpr unsigned kAtOnce = 150;  // so that memory stays small
  if (cases.size() > kAtOnce) {
    World{size, scratch_bytes, delays, seed + kAtOnce}.run(cases.subspan(kAtOnce));
    cases = cases.first(kAtOnce);
  }
  const auto n = static_cast<size_t>(size);
  std::vector<RankWords> words(n);
  std::vector<std::vector<std::byte>> scratch_memory(n, std::vector<std::byte>(2 * scratch_bytes + 64));
  std::vector<std::byte*> scratch[2];
  for (int half = 0; half < 2; ++half)
    for (auto& memory : scratch_memory) {
      const auto address = reinterpret_cast<uintptr_t>(memory.data());
      scratch[half].push_back(memory.data() + (64 - address % 64) % 64 + static_cast<size_t>(half) * scratch_bytes);
    }
  std::vector<std::unique_ptr<Operands>> operands;
  for (size_t i = 0; i < cases.size(); ++i)
    operands.push_back(std::make_unique<Operands>(cases[i], size, seed + static_cast<unsigned>(i)));
  std::vector<std::vector<uint64_t>> arrivals(n, std::vector<uint64_t>(cases.size()));

  const auto rank_main = [&](int rank) {
    ThreadSync sync(words, rank, delays, seed * 1000);
    for (size_t i = 0; i < cases.size(); ++i) {
      const Case& c = cases[i];
      const Operands& o = *operands[i];
      host::PlanInput input = input_of(c, size);
      input.scratch_bytes = scratch_bytes;
      CollectiveCall call(o.send(rank), o.recv(rank), 0, nullptr);
      static_cast<CallSignature&>(call) = input;
      host::Plan plan = host::plan(input);

      sync.begin();
      if (plan.entered) {
        sync.enter(nullptr, 0);
        sync.await_all_entries(size);
        plan = host::settle(input, plan, o.all_direct());
      }
      host::run({call, plan, rank, size, o.sends(), o.recvs(), nullptr, scratch[i % 2].data(), sync});
      EXPECT_EQ(sync.entries(), 1) << describe(c, size) << " rank " << rank;
      arrivals[static_cast<size_t>(rank)][i] = sync.arrivals();
      // At once: the operands are the caller's again, and a peer that still wrote to them would be found out.
      o.check(rank);
      o.scribble(rank);
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back(rank_main, rank);
  for (auto& thread : threads) thread.join();
  for (size_t i = 0; i < cases.size(); ++i)
    for (size_t rank = 1; rank < n; ++rank)
      EXPECT_EQ(arrivals[rank][i], arrivals[0][i]) << describe(cases[i], size) << ": arrivals of rank " << rank << " and rank 0";
  for (const auto& o : operands) o->check_scribbles();
}
}  // namespace symm::testing
