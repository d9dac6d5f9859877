// A rank is killed, and a newcomer takes its place, again and again: a captured graph of a kernel of
// the program's own, which finds blocks and pads by the tables of the memory, replays right after
// each replacement. Ranks are processes, and may share a GPU.
//
//   gpu_growth [--trials=20]   so many replacements, of 50 replays each
#include <signal.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/gpu/world.hpp"

namespace gpu {
namespace {
constexpr int kSize = 3;
constexpr int kLast = kSize - 1;  // the rank that is killed
constexpr unsigned kReplays = 50;
constexpr int kChannel = 3;
constexpr size_t kBytes = size_t{1} << 20;

// Counts in the block of each rank, and signals it.
__global__ void count(void* const* blocks, void* const* pads, int me) {
  const auto peer = static_cast<int>(threadIdx.x);
  atomicAdd_system(static_cast<unsigned*>(blocks[peer]) + me, 1U);
  atomicAdd_system(static_cast<unsigned long long*>(pads[peer]) + kChannel * kSize + me, 1ULL);
}

symm_group_config_t configuration() {
  int devices = 0;
  cuda(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.flags =
      SYMM_GROUP_ON_DEVICE | (devices < kSize ? SYMM_GROUP_OVERLAPPING_DEVICES : uint64_t{0});
  config.create_timeout_ms = 60'000;
  return config;
}

int device_of(int rank) {
  int devices = 0;
  cuda(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  return rank % devices;
}

unsigned counted(const Rank& rank, const void* block, int by) {
  return rank.download<unsigned>(block, kSize)[static_cast<size_t>(by)];
}

// All ranks have come here, and what they had issued is over.
void meet(const Rank& rank) {
  rank.whole.barrier({}, 0, {}, rank.stream);
  rank.whole.synchronize(rank.stream);
}

// A newcomer sees the counts of the others, and is killed when the next one is wanted.
void be_newcomer(const std::string& where, bool is_last) {
  const std::filesystem::path file = where + "/ticket";
  if (!support::eventually([&] { return std::filesystem::exists(file); }, 120'000)) {
    give_up("there is no ticket");
  }
  std::ifstream in(file, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  symm_group_config_t config = configuration();
  config.device = device_of(kLast);
  config.create_timeout_ms = SYMM_TIMEOUT_INFINITE;

  Rank rank{kLast, kSize};
  cuda(cudaSetDevice(config.device), "cudaSetDevice");
  rank.set_up();
  rank.whole = ::symm::Group::join({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()},
      config);
  expect(rank.whole.rank() == kLast, "it has the number of the dead rank");
  const ::symm::Memory memory = rank.whole.move_memory({});
  meet(rank);
  for (int by = 0; by < kLast; ++by) {
    expect(counted(rank, memory.pointer(kLast), by) == kReplays, who(rank, "counts of a replay"));
    memory.wait_signal(by, kChannel, {}, rank.stream);
  }
  rank.whole.synchronize(rank.stream);
  meet(rank);
  if (!is_last) raise(SIGKILL);
  rank.whole.finalize();
}

void be_member(int me, const std::string& where, int replacements) {
  symm_group_config_t config = configuration();
  const std::string bootstrap = "dir://" + where;
  config.rank = me;
  config.size = kSize;
  config.device = device_of(me);
  config.timeout_ms = 60'000;
  config.bootstrap = bootstrap.c_str();
  Rank rank{me, kSize};
  cuda(cudaSetDevice(config.device), "cudaSetDevice");
  rank.set_up();
  rank.whole = ::symm::Group::create(config);
  if (me == 0) {
    const ::symm::Ticket ticket = rank.whole.invite();
    std::ofstream(where + "/ticket.new", std::ios::binary)
        .write(reinterpret_cast<const char*>(ticket.data()),
            static_cast<std::streamsize>(ticket.size()));
    std::filesystem::rename(where + "/ticket.new", where + "/ticket");
  }

  ::symm::Memory memory = rank.whole.rendezvous(rank.whole.allocate(kBytes));
  void* const* const blocks = memory.pointer_table();
  void* const* const pads = memory.pad_table();
  const Graph graph(rank, [&] { count<<<1, kSize, 0, rank.stream>>>(blocks, pads, me); });
  // A graph of a collective belongs to its group.
  auto* const sums = reinterpret_cast<float*>(rank.ordinary);
  const ::symm::Group first = rank.whole;
  symm(symm_allreduce(first.get(), sums, sums, 1024, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr,
           rank.stream),
      "all-reduce");
  rank.whole.synchronize(rank.stream);
  const Graph of_collective(rank, [&] {
    symm(symm_allreduce(first.get(), sums, sums, 1024, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr,
             rank.stream),
        "captured all-reduce");
  });
  meet(rank);
  if (me == kLast) raise(SIGKILL);

  unsigned own = 0;
  for (int replacement = 1; replacement <= replacements; ++replacement) {
    const bool has_heard = support::eventually(
        [&] { return rank.whole.status().status == SYMM_ERR_PEER_FAILED; }, 60'000);
    expect(has_heard, who(rank, "hears of the death"));
    ::symm::Group whole = rank.whole.grow();
    memory = whole.move_memory(memory);
    rank.whole = std::move(whole);
    expect(memory.pointer_table() == blocks, who(rank, "the table of blocks stays"));
    expect(memory.pad_table() == pads, who(rank, "the table of pads stays"));

    for (unsigned replay = 0; replay < kReplays; ++replay) {
      graph.replay();
    }
    rank.wait();
    own += kReplays;
    meet(rank);
    expect(counted(rank, memory.pointer(me), me) == own, who(rank, "its own block stays"));
    expect(counted(rank, memory.pointer(kLast), me) == kReplays,
        who(rank, "the newcomer's block is in the dead rank's place"));
    if (replacement == 1) {
      of_collective.replay();
      rank.wait();
      expect(first.status().status == SYMM_ERR_PEER_FAILED,
          who(rank, "the collective of the old group fails"));
    }
    meet(rank);
  }
  rank.whole.finalize();
}
}  // namespace

int role(const std::vector<std::string>& words) {
  const int number = std::stoi(words[0]);
  const int replacements = std::stoi(words[2]);
  if (number < kSize) {
    be_member(number, words[1], replacements);
  } else {
    be_newcomer(words[1], number == kLast + replacements);
  }
  return role_result();
}
}  // namespace gpu

namespace {
TEST(Growth, AGraphReplaysRightAfterEachReplacement) {
  const int replacements = gpu::machine().trials > 1 ? gpu::machine().trials : 20;
  const support::TemporaryDirectory directory;
  // The next newcomer waits while the one before it is at work.
  constexpr int kLimit = 240'000;  // milliseconds
  const auto start = [&](int number) {
    return std::make_unique<support::Process>([&, number] {
      support::run_again(
          {"role", std::to_string(number), directory.path(), std::to_string(replacements)});
    });
  };
  std::vector<std::unique_ptr<support::Process>> all;
  for (int number = 0; number < gpu::kSize; ++number) {
    all.push_back(start(number));
  }
  for (int number = gpu::kSize; number <= gpu::kLast + replacements; ++number) {
    all.push_back(start(number));
    const auto gone = all.size() - 2;  // the one whose place it takes is killed
    const int status = all[gone]->wait(kLimit);
    gpu::expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
        "process " + std::to_string(gone) + ": " + all[gone]->said());
  }
  for (const int number : {0, 1, gpu::kLast + replacements}) {
    const auto at = static_cast<size_t>(number);
    gpu::expect(all[at]->wait(kLimit) == 0,
        "process " + std::to_string(number) + ": " + all[at]->said());
  }
}
}  // namespace
