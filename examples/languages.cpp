// One rank of a group whose other ranks may be written in other languages: this
// is the C++ one, beside demo.py, demo.rs and demo.jl of the bindings. They
// share one heap, of which each takes the same pieces. Each writes its part,
// puts some of it into its neighbour's inbox and signals it, all-reduces,
// checks every bit, and hands its part to the next rank by a token, which is of
// use on its machine only. With an argument, the sum goes into a file of that
// directory, named by the rank. languages.sh starts all four.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <ios>
#include <ratio>
#include <stdexcept>
#include <string>
#include <vector>

#include "symm/symm.h"
#include <symm/symm.hpp>

namespace {
constexpr size_t kHeap = 1 << 20;   // bytes
constexpr size_t kMine = 131072;    // elements
constexpr size_t kPut = 4096;       // elements that arrive in the neighbour's inbox
constexpr size_t kMail = 1024;      // bytes for a token: its length in 4 bytes, then its bytes
constexpr size_t kReduced = 65536;  // elements
constexpr int32_t kData = 1;        // channels
constexpr int32_t kToken = 2;

void expect(bool right, const char* what) {
  if (!right) throw std::runtime_error(std::string("wrong result: ") + what);
}

float value(int32_t rank, size_t i) {
  return 0.3F * static_cast<float>(static_cast<size_t>(rank + 1) * (i % 1024));
}

bool came_from(int32_t rank, symm::Span<const float> data) {
  for (size_t i = 0; i < data.size(); ++i) {
    if (data[i] != value(rank, i)) return false;
  }
  return true;
}

template <class Call>
double microseconds(const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

// The library adds in the order of the ranks, and so does this check.
bool is_sum(const std::vector<float>& sum, int32_t size) {
  for (size_t i = 0; i < sum.size(); ++i) {
    float expected = 0;
    for (int32_t rank = 0; rank < size; ++rank) {
      expected += value(rank, i);
    }
    if (std::memcmp(&sum[i], &expected, sizeof expected) != 0) return false;
  }
  return true;
}

// Returns the length of the token that came; 0: from another machine.
uint32_t pass_on_by_token(const symm::Memory& memory, symm::Span<float> mine,
    const symm::Piece<std::byte>& mail, int32_t right, int32_t left, bool mapped) {
  const symm::Token token = symm::ipc_export(mine);
  const auto length = static_cast<uint32_t>(token.size());
  memory.put(right, mail.offset(), symm::Span(&length, 1));
  memory.put_signal(right, mail.offset() + sizeof length, token, kToken);

  memory.wait_signal(left, kToken);
  if (!mapped) return 0;
  uint32_t came = 0;
  std::memcpy(&came, mail.data(), sizeof came);
  const symm::Import import(mail.span().subspan(sizeof came, came));
  expect(came_from(left, import.span<float>().subspan(0, 16)), "the imported piece");
  return came;
}

void run(const char* directory) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = SYMM_BACKEND_HOST;
  const auto group = symm::Group::create(config);
  const int32_t rank = group.rank();
  const int32_t size = group.size();
  const int32_t right = (rank + 1) % size;
  const int32_t left = (rank + size - 1) % size;

  const symm::Heap heap = group.heap(kHeap);
  const symm::Memory memory = heap.memory();
  const auto own = heap.allocate<float>(kMine);
  const auto inbox = heap.allocate<float>(kPut);
  const auto mail = heap.allocate(kMail);
  const symm::Span<float> mine = own.span();
  for (size_t i = 0; i < kMine; ++i) {
    mine[i] = value(rank, i);
  }
  group.barrier();

  const size_t arrives = inbox.offset();
  const double put_us =
      microseconds([&] { memory.put_signal(right, arrives, mine.subspan(0, kPut), kData); });
  memory.wait_signal(left, kData);
  expect(came_from(left, inbox.span()), "the left neighbour's floats");

  std::vector<float> sum(kReduced);
  const double reduce_us =
      microseconds([&] { group.allreduce(mine.subspan(0, kReduced), sum, SYMM_OP_SUM); });
  expect(is_sum(sum, size), "the all-reduce");

  if (directory != nullptr) {
    std::ofstream(directory + ("/" + std::to_string(rank)), std::ios::binary)
        .write(reinterpret_cast<const char*>(sum.data()),
            static_cast<std::streamsize>(sum.size() * sizeof sum[0]));
  }

  const uint32_t token =
      pass_on_by_token(memory, mine, mail, right, left, group.peer_info(left).mapped != 0);
  std::printf(
      "rank %d (C++): put %zu B to rank %d in %.1f us; all-reduce %zu B in %.1f us; all bits "
      "right; imported rank %d's piece by "
      "token (%u bytes)\n",
      rank, kPut * sizeof(float), right, put_us, kReduced * sizeof(float), reduce_us, left, token);
  group.finalize();
}
}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : nullptr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
