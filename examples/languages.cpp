// SPDX-License-Identifier: Apache-2.0
//
// One rank of a group whose other ranks may be written in other languages: this is the C++ one, beside demo.py, demo.rs and
// demo.jl of the bindings. Each writes its part, puts some of it into its neighbour's block and signals it, all-reduces, checks
// every bit, and hands its block to the next rank by a token. languages.sh starts all four.
#include <symm/symm.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace {

constexpr size_t kBlock = 1 << 20;      // bytes
constexpr size_t kHalf = kBlock / 2;    // where the neighbour's floats arrive
constexpr size_t kMailbox = 768 << 10;  // where its token arrives: its length in 4 bytes, then its bytes
constexpr size_t kPut = 4096;           // elements
constexpr size_t kReduced = 65536;      // elements
constexpr int32_t kData = 1;            // channels
constexpr int32_t kToken = 2;

void require(symm_status_t status, const char* what) {
  if (status == SYMM_OK) return;
  std::fprintf(stderr, "%s: %s: %s\n", what, symm_status_string(status), symm_last_error());
  std::exit(1);
}

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "wrong result: %s\n", what);
  std::exit(1);
}

float value(int32_t rank, size_t i) { return static_cast<float>(static_cast<size_t>(rank + 1) * (i % 1024)); }

bool came_from(int32_t rank, const float* data, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (data[i] != value(rank, i)) return false;
  }
  return true;
}

template <class Call>
double microseconds(const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

struct Release {
  void operator()(symm_group_t* group) const { symm_group_release(group); }
  void operator()(symm_buffer_t* buffer) const { symm_buffer_release(buffer); }
  void operator()(symm_memory_t* memory) const { symm_memory_release(memory); }
  void operator()(symm_ipc_t* import) const { symm_ipc_release(import, nullptr); }
};
template <class Handle>
using Owned = std::unique_ptr<Handle, Release>;

// In the order of the ranks, as the library adds.
bool is_sum(const std::vector<float>& sum, int32_t size) {
  for (size_t i = 0; i < sum.size(); ++i) {
    float expected = 0;
    for (int32_t rank = 0; rank < size; ++rank) expected += value(rank, i);
    if (std::memcmp(&sum[i], &expected, sizeof expected) != 0) return false;
  }
  return true;
}

// Returns the length of the token that came.
uint32_t pass_on_by_token(symm_memory_t* memory, const std::byte* block, int32_t right, int32_t left) {
  std::byte letter[4 + SYMM_IPC_TOKEN_MAX_SIZE];
  size_t written = 0;
  require(symm_ipc_export(block, kBlock, nullptr, letter + 4, SYMM_IPC_TOKEN_MAX_SIZE, &written, nullptr), "symm_ipc_export");
  const auto length = static_cast<uint32_t>(written);
  std::memcpy(letter, &length, sizeof length);
  require(symm_put_with_signal(memory, right, kMailbox, letter, 4 + written, kToken, nullptr), "symm_put_with_signal");

  require(symm_wait_signal(memory, left, kToken, 0, nullptr), "symm_wait_signal");
  uint32_t came = 0;
  std::memcpy(&came, block + kMailbox, sizeof came);
  symm_ipc_t* handle = nullptr;
  require(symm_ipc_import(block + kMailbox + 4, came, nullptr, &handle, nullptr), "symm_ipc_import");
  const Owned<symm_ipc_t> import(handle);
  void* theirs = nullptr;
  require(symm_ipc_pointer(handle, &theirs), "symm_ipc_pointer");
  expect(came_from(left, static_cast<const float*>(theirs), 16), "the imported block");
  return came;
}

}  // namespace

int main() {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = SYMM_BACKEND_HOST;
  symm_group_t* group_handle = nullptr;
  require(symm_group_create(&config, &group_handle), "symm_group_create");
  const Owned<symm_group_t> group(group_handle);
  int32_t rank = 0;
  int32_t size = 1;
  require(symm_group_rank(group.get(), &rank), "symm_group_rank");
  require(symm_group_size(group.get(), &size), "symm_group_size");
  const int32_t right = (rank + 1) % size;
  const int32_t left = (rank + size - 1) % size;

  symm_buffer_t* buffer_handle = nullptr;
  require(symm_alloc(group.get(), kBlock, 0, &buffer_handle), "symm_alloc");
  const Owned<symm_buffer_t> buffer(buffer_handle);
  symm_memory_t* memory_handle = nullptr;
  require(symm_rendezvous(group.get(), buffer.get(), 0, &memory_handle), "symm_rendezvous");
  const Owned<symm_memory_t> memory(memory_handle);
  void* pointer = nullptr;
  require(symm_buffer_pointer(buffer.get(), &pointer), "symm_buffer_pointer");
  auto* block = static_cast<std::byte*>(pointer);
  auto* mine = static_cast<float*>(pointer);
  for (size_t i = 0; i < kHalf / sizeof(float); ++i) mine[i] = value(rank, i);
  require(symm_barrier(group.get(), nullptr, 0, 0, 0, nullptr), "symm_barrier");

  const double put_us = microseconds([&] {
    require(symm_put_with_signal(memory.get(), right, kHalf, mine, kPut * sizeof(float), kData, nullptr), "symm_put_with_signal");
  });
  require(symm_wait_signal(memory.get(), left, kData, 0, nullptr), "symm_wait_signal");
  expect(came_from(left, mine + kHalf / sizeof(float), kPut), "the left neighbour's floats");

  std::vector<float> sum(kReduced);
  const double reduce_us = microseconds([&] {
    require(symm_allreduce(group.get(), mine, sum.data(), kReduced, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, nullptr),
            "symm_allreduce");
  });
  expect(is_sum(sum, size), "the all-reduce");

  const uint32_t token = pass_on_by_token(memory.get(), block, right, left);
  std::printf(
      "rank %d (C++): put %zu B to rank %d in %.1f us; all-reduce %zu B in %.1f us; all bits right; imported rank %d's block by "
      "token (%u bytes)\n",
      rank, kPut * sizeof(float), right, put_us, kReduced * sizeof(float), reduce_us, left, token);
  require(symm_group_finalize(group.get(), 0), "symm_group_finalize");
  return 0;
}
