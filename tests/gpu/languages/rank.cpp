// One rank of a group on GPUs whose other ranks may be programs in other languages:
// rank.py, rank.jl, and the Rust crate's example gpu_rank. Each rank fills the first
// half of its block, puts a part of it into its neighbour's block with a signal, and
// all-reduces it. It compares every bit with a computation on the host, and hands its
// block to the next rank by a token. `run` starts all four.
#include "tests/gpu/world.hpp"

namespace {
using gpu::expect;

constexpr size_t kBlock = 1 << 20;  // bytes
// The neighbour's floats arrive here.
constexpr size_t kHalf = kBlock / 2;
// The neighbour's token arrives here: its length in 4 bytes, and then its bytes.
constexpr size_t kMailbox = 768 << 10;

// Elements.
constexpr size_t kPut = 4096;
constexpr size_t kReduced = 65536;

// Channels.
constexpr int32_t kData = 1;
constexpr int32_t kToken = 2;

// The elements that a rank writes.
std::vector<float> values(int32_t rank, size_t count) {
  std::vector<float> made(count);
  for (size_t i = 0; i < count; ++i) {
    made[i] = 0.3F * static_cast<float>(static_cast<size_t>(rank + 1) * (i % 1024));
  }
  return made;
}

// The sum in the order of the ranks, which is the library's order.
std::vector<float> sum(int32_t size, size_t count) {
  std::vector<float> total = values(0, count);
  for (int32_t rank = 1; rank < size; ++rank) {
    const std::vector<float> part = values(rank, count);
    for (size_t i = 0; i < count; ++i) {
      total[i] += part[i];
    }
  }
  return total;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Returns the length of the token that came.
uint32_t pass_on_by_token(const gpu::Rank& rank, const symm::Memory& memory, int32_t device) {
  const symm::Span block = memory.span();
  const symm::Token token = symm::ipc_export(block, SYMM_IPC_EXPORT_OPTIONS_INIT, rank.stream);
  const auto length = static_cast<uint32_t>(token.size());
  std::vector<std::byte> letter(sizeof length + token.size());
  std::memcpy(letter.data(), &length, sizeof length);
  std::memcpy(letter.data() + sizeof length, token.data(), token.size());
  const symm::Span staged(rank.ordinary, letter.size());
  rank.upload(staged.data(), letter.data(), letter.size(), rank.stream);
  memory.put_signal(rank.next(), kMailbox, staged, kToken, {}, rank.stream);

  memory.wait_signal(rank.last(), kToken, 0, rank.stream);
  const uint32_t came = rank.download<uint32_t>(&block[kMailbox], 1)[0];
  if (came == 0 || came > SYMM_IPC_TOKEN_MAX_BYTES) {
    gpu::give_up("wrong result: the length of the token");
  }
  symm_ipc_import_options_t options = SYMM_IPC_IMPORT_OPTIONS_INIT;
  // By default the memory would be mapped for the GPU that has it.
  options.flags = SYMM_IPC_ON_DEVICE;
  options.device = device;
  const symm::Import import(
      rank.download<std::byte>(&block[kMailbox + sizeof came], came), options, rank.stream);
  expect(same_bits(rank.download<float>(import.span().data(), 16), values(rank.last(), 16)),
      "the imported block");
  return came;
}

void run() {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = SYMM_BACKEND_CUDA;
  // If there are fewer GPUs than ranks, ranks share them.
  config.flags = SYMM_GROUP_OVERLAPPING_DEVICES;
  auto group = symm::Group::create(config);
  gpu::Rank rank{group.rank(), group.size(), std::move(group)};
  const int32_t device = rank.whole.info().device;
  gpu::cuda(cudaSetDevice(device), "cudaSetDevice");
  rank.set_up();
  const auto memory = rank.whole.rendezvous(rank.whole.allocate(kBlock));
  const auto mine = memory.span<float>();
  rank.upload(mine.data(), values(rank.rank, kHalf / sizeof(float)));
  rank.whole.barrier({}, 0, 0, rank.stream);

  memory.put_signal(rank.next(), kHalf, mine.subspan(0, kPut), kData, {}, rank.stream);
  memory.wait_signal(rank.last(), kData, 0, rank.stream);
  expect(same_bits(
             rank.download<float>(&mine[kHalf / sizeof(float)], kPut), values(rank.last(), kPut)),
      "the left neighbour's floats");

  const symm::Span reduced(reinterpret_cast<float*>(rank.ordinary), kReduced);
  symm::Options options;
  options.stream = rank.stream;
  rank.whole.allreduce(mine.subspan(0, kReduced), reduced, SYMM_OP_SUM, options);
  expect(same_bits(rank.download<float>(reduced.data(), kReduced), sum(rank.size, kReduced)),
      "the all-reduce");

  const uint32_t token = pass_on_by_token(rank, memory, device);
  rank.whole.finalize();
  std::printf(
      "rank %d (C++) on GPU %d: put %zu B to rank %d; all-reduce %zu B; all bits right; imported "
      "rank %d's block by token "
      "(%u bytes)\n",
      rank.rank, device, kPut * sizeof(float), rank.next(), kReduced * sizeof(float), rank.last(),
      token);
}
}  // namespace

int main() {
  gpu::or_give_up(run);
  return gpu::role_result();
}
