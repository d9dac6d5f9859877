// Collectives with counts: any layout in any memory, eagerly and in graphs; the bits of the
// collectives without counts; counts in device memory that change from replay to replay; and
// calls that fail. Also scaled calls whose factor changes from replay to replay.
#include "tests/gpu/world.hpp"
#include "tests/kernels/reference.hpp"
#include "tests/support/options.hpp"
#include "tests/support/pieces_calls.hpp"

namespace gpu {
namespace {
using support::PiecesMemory;

void copy(const Rank& rank, void* to, const void* from, size_t bytes) {
  cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, rank.stream), "copy");
  rank.wait();
}

void any_layout(Rank& rank, std::barrier<>& together) {
  PiecesMemory memory{reinterpret_cast<std::byte*>(rank.block),
      reinterpret_cast<std::byte*>(rank.ordinary), {}, {}, rank.stream};
  memory.copy = [&](void* to, const void* from, size_t bytes) { copy(rank, to, from, bytes); };

  bool captures = false;
  memory.run = [&](const auto& call) {
    symm_status_t status = SYMM_OK;
    if (captures) {
      const Graph graph(rank, [&] { status = call(); });
      rank.settle(together);
      graph.replay();
      rank.settle(together);
    } else {
      status = call();
      rank.settle(together);
    }
    return status;
  };

  for (unsigned seed = 0; seed < 24; ++seed) {
    captures = seed % 3 == 2;
    run_drawn(rank.whole, memory, seed,
        seed % 4 == 0 ? SYMM_ALGORITHM_TWO_SHOT_STAGED : SYMM_ALGORITHM_AUTO);
  }
}

// Calls symm_reduce_scatterv() of blocks of one length, and expects the bits of
// symm_reduce_scatter(). The operands take many patterns of bits: byte i of each rank depends on i
// and on the rank.
void expect_same_bits(Rank& rank, std::barrier<>& together, symm_dtype_t dtype, symm_op_t op,
    size_t count, symm_order_t order) {
  const auto n = static_cast<size_t>(rank.size);
  const size_t bytes = count * static_cast<size_t>(dtype & 0xFF) / 8;
  std::vector<unsigned char> data(n * bytes);
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] =
        static_cast<unsigned char>((i + 7 * i / 256) * 31 + 5 * static_cast<size_t>(rank.rank));
  }

  copy(rank, rank.block, data.data(), data.size());
  char* results[] = {rank.ordinary, rank.ordinary + (16 << 20)};
  const std::vector<size_t> counts(n, count);
  together.arrive_and_wait();
  symm(symm_reduce_scatter(rank.group, rank.block, results[0], count, dtype, op,
           support::ordered(order), rank.stream),
      "reduce_scatter");
  symm(symm_reduce_scatterv(rank.group, rank.block, counts.data(), nullptr, results[1], dtype, op,
           support::ordered(order), rank.stream),
      "reduce_scatterv");

  const bool same =
      rank.download<char>(results[0], bytes) == rank.download<char>(results[1], bytes);
  expect(same, who(rank, "reduce_scatterv of dtype " + std::to_string(dtype) + ", op " +
                             std::to_string(op)));
}

void same_bits(Rank& rank, std::barrier<>& together) {
  for (const ::symm::DType type : ::symm::reference::kDTypes) {
    const auto dtype = static_cast<symm_dtype_t>(type);
    for (const symm_op_t op : {SYMM_OP_SUM, SYMM_OP_AVG, SYMM_OP_MIN, SYMM_OP_MAX, SYMM_OP_PROD,
             SYMM_OP_MINLOC, SYMM_OP_MAXLOC}) {
      if (!::symm::reference::has_op(dtype, op)) continue;
      for (const size_t count : {size_t{37}, size_t{40'003}}) {
        for (const symm_order_t order : {SYMM_ORDER_RANKS, SYMM_ORDER_TREE}) {
          expect_same_bits(rank, together, dtype, op, count, order);
        }
      }
    }
  }
}

// The number of ints that rank r sends to rank p in a round.
uint64_t length(int r, int p, int round) {
  return static_cast<uint64_t>((r * 7 + p * 3 + round * 1001) % 5000);
}

constexpr size_t kRoom = 100'000;

// Counts of an all-to-all, in memory of the device.
struct Counts {
  uint64_t* send;
  uint64_t* recv;

  explicit Counts(const Rank& rank)
      : send(reinterpret_cast<uint64_t*>(rank.ordinary + (32 << 20))), recv(send + 16) {}

  void set(const Rank& rank, int round) const {
    std::vector<uint64_t> numbers(32);
    for (int p = 0; p < rank.size; ++p) {
      numbers[static_cast<size_t>(p)] = length(rank.rank, p, round);
      numbers[static_cast<size_t>(p) + 16] = length(p, rank.rank, round);
    }
    copy(rank, send, numbers.data(), numbers.size() * sizeof(uint64_t));
  }

  symm_status_t exchange(const Rank& rank, void* out, int32_t max_blocks = 0) const {
    return symm_alltoallv_device(rank.group, rank.block, kRoom, send, nullptr, out, kRoom, recv,
        nullptr, SYMM_DTYPE_I32, support::tagged("counts", max_blocks), rank.stream);
  }
};

void counts_on_device(Rank& rank, std::barrier<>& together, bool is_private, int32_t max_blocks) {
  char* out = is_private ? rank.ordinary : rank.block + (32 << 20);
  const Counts counts(rank);
  counts.set(rank, 0);

  const Graph graph(
      rank, [&] { symm(counts.exchange(rank, out, max_blocks), "alltoallv_device in capture"); });
  std::vector<int> data(kRoom);
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] = rank.rank * 1'000'000 + static_cast<int>(i);
  }

  copy(rank, rank.block, data.data(), data.size() * sizeof(int));
  rank.settle(together);
  for (int round = 0; round < 10; ++round) {
    counts.set(rank, round);
    cuda(cudaMemsetAsync(out, 0xFF, kRoom * sizeof(int), rank.stream), "poison");
    rank.settle(together);
    graph.replay();

    const auto got = rank.download<int>(out, kRoom);
    std::vector<int> want(kRoom, -1);
    size_t at = 0;

    for (int r = 0; r < rank.size; ++r) {
      uint64_t from = 0;
      for (int p = 0; p < rank.rank; ++p) {
        from += length(r, p, round);
      }
      for (uint64_t i = 0; i < length(r, rank.rank, round); ++i) {
        want[at++] = r * 1'000'000 + static_cast<int>(from + i);
      }
    }

    expect(got == want, who(rank, "counts in device memory, round " + std::to_string(round)));
  }

  rank.settle(together);
}

// `spoil` changes the counts that rank 0 has on the device. The group fails, and rank 0, which
// notices, says why.
void fails(Rank& rank, std::barrier<>& together, const std::function<void(uint64_t*)>& spoil,
    symm_status_t status, const char* why) {
  const Counts counts(rank);
  counts.set(rank, 1);
  cuda(cudaMemsetAsync(rank.block + (32 << 20), 0x5A, kRoom * sizeof(int), rank.stream), "poison");

  if (rank.rank == 0) {
    auto numbers = rank.download<uint64_t>(counts.send, 32);
    spoil(numbers.data());
    copy(rank, counts.send, numbers.data(), numbers.size() * sizeof(uint64_t));
  }

  rank.settle(together);
  const symm_status_t called = counts.exchange(rank, rank.block + (32 << 20));
  // A rank that comes after rank 0 has noticed is refused with what rank 0 found.
  expect(called == SYMM_OK || (rank.rank != 0 && called == status),
      who(rank, "alltoallv_device returned " + std::to_string(called)));

  // The kernel must leave.
  rank.wait();
  if (rank.rank == 0) {
    const symm_failure_t health = rank.whole.status();
    expect(health.status == status,
        who(rank, std::string("the status of what is wrong: ") + health.message));
    expect(std::string(health.message).find(why) != std::string::npos, health.message);
    expect(std::string(health.message).find("has the tag \"counts\"") != std::string::npos,
        health.message);
  }

  together.arrive_and_wait();
  expect(rank.whole.status().status != SYMM_OK, who(rank, "hears of it"));
}

void aborted(Rank& rank, std::barrier<>& together) {
  const Counts counts(rank);
  counts.set(rank, 1);
  rank.settle(together);
  if (rank.rank != 0) symm(counts.exchange(rank, rank.block + (32 << 20)), "alltoallv_device");
  // The abort comes after the calls, which would be refused otherwise.
  together.arrive_and_wait();
  if (rank.rank == 0) symm(symm_group_abort(rank.group, "enough"), "abort");
  rank.wait();
  together.arrive_and_wait();
  expect(rank.whole.status().status == SYMM_ERR_ABORTED,
      who(rank, "all-to-all ends when the group is aborted"));
}

void factors_in_graphs(Rank& rank, std::barrier<>& together) {
  constexpr size_t kCount = 100'000;
  auto* factor = reinterpret_cast<float*>(rank.ordinary + (32 << 20));
  symm_collective_options_t options = SYMM_COLLECTIVE_OPTIONS_INIT;
  options.scale_position = SYMM_SCALE_BEFORE;
  options.scale_pointer = factor;

  const std::vector<float> ones(kCount, 1.0F);
  copy(rank, rank.block, ones.data(), kCount * sizeof(float));
  const Graph graph(rank, [&] {
    symm(symm_allreduce(rank.group, rank.block, rank.ordinary, kCount, SYMM_DTYPE_F32, SYMM_OP_SUM,
             &options, rank.stream),
        "scaled all-reduce in capture");
  });

  rank.settle(together);
  for (int round = 1; round < 6; ++round) {
    const auto mine = static_cast<float>(round * (rank.rank + 1));
    copy(rank, factor, &mine, sizeof mine);
    rank.settle(together);
    graph.replay();
    const auto want = static_cast<float>(round * rank.size * (rank.size + 1) / 2);
    expect(rank.download<float>(rank.ordinary, kCount) == std::vector<float>(kCount, want),
        who(rank, "a factor of the replay"));
  }

  rank.settle(together);
}

TEST(Pieces, AnyLayoutInAnyMemory) { run_ranks(machine().ranks, any_layout); }

TEST(Pieces, HaveTheBitsOfReduceScatter) { run_ranks(machine().ranks, same_bits); }

TEST(Pieces, OfCountsThatChangeFromReplayToReplay) {
  for (const bool is_private : {false, true}) {
    for (const int32_t max_blocks : {0, 1, 3}) {
      run_ranks(machine().ranks, [&](Rank& rank, auto& together) {
        counts_on_device(rank, together, is_private, max_blocks);
      });
    }
  }
}

TEST(Pieces, ThatDoNotFitAreAnErrorOfTheGroup) {
  const auto run = [](const std::function<void(uint64_t*)>& spoil, symm_status_t status,
                       const char* why) {
    run_ranks(
        machine().ranks,
        [&](Rank& rank, auto& together) { fails(rank, together, spoil, status, why); }, 3000);
  };
  run([](uint64_t* counts) { counts[0] = kRoom + 1; }, SYMM_ERR_INVALID_ARGUMENT,
      "send_counts[0]: 100001 elements");
  run([](uint64_t* counts) { counts[17] = kRoom; }, SYMM_ERR_INVALID_ARGUMENT,
      "recv_counts[1]: 100000 elements");
  run([](uint64_t* counts) { ++counts[1]; }, SYMM_ERR_MISMATCH, "rank 0 sends");
}

TEST(Pieces, EndWhenTheGroupIsAborted) { run_ranks(machine().ranks, aborted); }

TEST(Scaling, TakesTheFactorOfTheReplay) { run_ranks(machine().ranks, factors_in_graphs); }
}  // namespace
}  // namespace gpu
