// A rank is killed and a spare takes its place, again and again. A captured graph of a kernel of
// the program's own, which finds blocks and pads by the view of the memory, replays right after
// each replacement. Ranks are processes, and may share a GPU.
//
//   gpu_growth [--trials=1]   so many replacements, of 1,000 replays each
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/world.hpp"

namespace gpu {
namespace {
constexpr int kSize = 4;
constexpr int kLast = kSize - 1;  // the rank that is killed
constexpr unsigned kReplays = 1'000;
constexpr int kChannel = 3;
constexpr size_t kBytes = size_t{1} << 20;
constexpr int kPatience = 120'000;  // milliseconds

// What the processes share.
struct Meeting {
  std::atomic<size_t> ticket_bytes;
  std::byte ticket[SYMM_TICKET_MAX_BYTES];
  std::atomic<int> ready;  // survivors that are ready for a death, of all replacements
};

// Counts in the block of each rank, and signals it.
__global__ void count(symm_memory_view_t memory) {
  const auto peer = static_cast<int>(threadIdx.x);
  atomicAdd_system(static_cast<unsigned*>(memory.blocks[peer]) + memory.rank, 1U);
  auto* const pad = reinterpret_cast<unsigned long long*>(memory.pads[peer]);
  atomicAdd_system(pad + kChannel * memory.size + memory.rank, 1ULL);
}

class Life {
 public:
  Life(int me, const std::string& where)
      : rank_{me, kSize},
        where_(where),
        meeting_(*static_cast<Meeting*>(support::map_shared(sizeof(Meeting), where + "/shared"))) {
    int devices = 0;
    cuda(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    config_.flags =
        SYMM_GROUP_ON_DEVICE | (devices < kSize ? SYMM_GROUP_OVERLAPPING_DEVICES : uint64_t{0});
    config_.device = me % devices;
    cuda(cudaSetDevice(config_.device), "cudaSetDevice");
    rank_.set_up();
  }

  void as_member(int replacements) {
    form();
    ::symm::Memory memory = rank_.whole.rendezvous(rank_.whole.allocate(kBytes));
    const symm_memory_view_t view = memory.device_view();
    const Graph graph(rank_, [&] { count<<<1, kSize, 0, rank_.stream>>>(view); });
    const ::symm::Group first = rank_.whole;
    expect_sum();
    const Graph of_collective(rank_, [&] { sum(first); });

    for (int replacement = 1; replacement <= replacements; ++replacement) {
      be_ready();
      if (rank_.rank == kLast) die(replacement);
      replace(memory);
      expect_view(memory, view);

      for (unsigned replay = 0; replay < kReplays; ++replay) {
        graph.replay();
      }
      rank_.wait();
      meet();
      const auto all = static_cast<unsigned>(replacement) * kReplays;
      expect(counted(memory, rank_.rank) == all, who(rank_, "its own block stays"));
      expect(counted(memory, kLast) == kReplays, who(rank_, "the spare's block is in the table"));
      if (replacement == 1) {
        of_collective.replay();
        rank_.wait();
        expect(first.status().status == SYMM_ERR_PEER_FAILED,
            who(rank_, "a collective of the old group fails"));
      }
      meet();
    }
    rank_.whole.finalize();
  }

  // A spare is the last rank after replacement `replacement`, and dies in the next one.
  void as_spare(int replacement, bool is_last) {
    if (!support::eventually([&] { return meeting_.ticket_bytes != 0; }, kPatience)) {
      give_up("there is no ticket");
    }
    config_.create_timeout_ms = SYMM_TIMEOUT_INFINITE;
    rank_.whole = ::symm::Group::join({meeting_.ticket, meeting_.ticket_bytes}, config_);
    expect(rank_.whole.rank() == kLast, "it has the number of the dead rank");
    const ::symm::Memory memory = rank_.whole.move_memory({});
    expect_sum();

    meet();
    const auto counts = rank_.download<unsigned>(memory.span().data(), kSize);
    const auto* const pad = memory.signal_pad(kLast).data() + kChannel * kSize;
    const auto signals = rank_.download<uint64_t>(pad, kSize);
    for (int by = 0; by < kLast; ++by) {
      const auto at = static_cast<size_t>(by);
      expect(counts[at] == kReplays, who(rank_, "counts of the replays by " + std::to_string(by)));
      expect(
          signals[at] == kReplays, who(rank_, "signals of the replays by " + std::to_string(by)));
    }
    meet();
    if (is_last) return rank_.whole.finalize();
    be_ready();
    die(replacement + 1);
  }

 private:
  void form() {
    const std::string bootstrap = "dir://" + where_;
    config_.rank = rank_.rank;
    config_.size = kSize;
    config_.create_timeout_ms = 60'000;
    config_.timeout_ms = 60'000;
    config_.bootstrap = bootstrap.c_str();
    rank_.whole = ::symm::Group::create(config_);
    if (rank_.rank != 0) return;
    const ::symm::Ticket ticket = rank_.whole.invite();
    std::copy(ticket.begin(), ticket.end(), meeting_.ticket);
    meeting_.ticket_bytes = ticket.size();
  }

  // All ranks have come here, and what they had issued is over.
  void meet() const {
    rank_.whole.barrier({}, 0, {}, rank_.stream);
    rank_.whole.synchronize(rank_.stream);
  }

  void sum(const ::symm::Group& group) const {
    auto* const numbers = reinterpret_cast<float*>(rank_.ordinary);
    symm(symm_allreduce(group.get(), numbers, numbers, 1024, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr,
             rank_.stream),
        "all-reduce");
  }

  void expect_sum() const {
    const std::vector<float> mine(1024, static_cast<float>(rank_.rank + 1));
    rank_.upload(rank_.ordinary, mine);
    sum(rank_.whole);
    rank_.whole.synchronize(rank_.stream);
    const std::vector<float> all(1024, static_cast<float>(kSize * (kSize + 1) / 2));
    expect(
        rank_.download<float>(rank_.ordinary, 1024) == all, who(rank_, "an all-reduce is right"));
  }

  // How often this rank has counted in a block.
  unsigned counted(const ::symm::Memory& memory, int block) const {
    const auto counts = rank_.download<unsigned>(memory.span(block).data(), kSize);
    return counts[static_cast<size_t>(rank_.rank)];
  }

  // The group has a spare, and nobody waits for the rank that is to die.
  void be_ready() {
    rank_.whole.keep_spares(1, kPatience);
    meet();
    if (rank_.rank != kLast) ++meeting_.ready;
  }

  [[noreturn]] void die(int replacement) {
    support::eventually([&] { return meeting_.ready >= replacement * kLast; }, kPatience);
    raise(SIGKILL);
    give_up("the process is not killed");
  }

  void replace(::symm::Memory& memory) {
    const bool has_heard = support::eventually(
        [&] { return rank_.whole.status().status == SYMM_ERR_PEER_FAILED; }, kPatience);
    expect(has_heard, who(rank_, "hears of the death"));
    const auto start = std::chrono::steady_clock::now();
    ::symm::Group whole = rank_.whole.grow();
    memory = whole.move_memory(memory);
    rank_.whole = std::move(whole);
    expect_sum();
    if (rank_.rank != 0) return;
    std::printf(
        "from the news of the death to a right all-reduce: %.2f ms\n", seconds_since(start) * 1e3);
  }

  void expect_view(const ::symm::Memory& memory, const symm_memory_view_t& before) const {
    const symm_memory_view_t after = memory.device_view();
    expect(after.blocks == before.blocks, who(rank_, "the table of blocks stays"));
    expect(after.pads == before.pads, who(rank_, "the table of pads stays"));
    expect(after.taken == before.taken, who(rank_, "the counts of taken signals stay"));
  }

  Rank rank_;
  const std::string where_;
  Meeting& meeting_;
  symm_group_config_t config_ = SYMM_GROUP_CONFIG_INIT;
};
}  // namespace

// Processes 0 to kLast are members. Each of the others takes the place of the one before it.
int role(const std::vector<std::string>& words) {
  const int number = std::stoi(words[0]);
  const int replacements = std::stoi(words[2]);
  Life life(std::min(number, kLast), words[1]);
  if (number <= kLast) {
    life.as_member(replacements);
  } else {
    life.as_spare(number - kLast, number == kLast + replacements);
  }
  return role_result();
}

namespace {
TEST(Growth, AGraphReplaysRightAfterEachReplacement) {
  const int replacements = machine().trials;
  const support::TemporaryDirectory directory;
  std::vector<std::unique_ptr<support::Process>> all;
  const auto start = [&] {
    const std::string number = std::to_string(all.size());
    all.push_back(std::make_unique<support::Process>([&] {
      support::run_again({"role", number, directory.path(), std::to_string(replacements)});
    }));
  };
  const auto end_of = [&](size_t number) {
    const int status = all[number]->wait(2 * kPatience);
    const bool is_killed = number >= kLast && number + 1 < all.size();
    const bool is_right =
        is_killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0;
    expect(is_right, "process " + std::to_string(number) + " ended with " + std::to_string(status) +
                         ": " + all[number]->said());
  };

  for (int number = 0; number < kSize; ++number) {
    start();
  }
  for (int replacement = 1; replacement <= replacements; ++replacement) {
    start();
    end_of(all.size() - 2);
  }
  for (size_t number = 0; number < kLast; ++number) {
    end_of(number);
  }
  end_of(all.size() - 1);
}
}  // namespace
}  // namespace gpu
