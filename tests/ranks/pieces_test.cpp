// The collectives whose blocks have lengths of their own, through the whole library.
#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "symm/symm.h"
#include "tests/support/machines.hpp"
#include "tests/support/pieces_calls.hpp"

namespace support {
namespace {
void run_all(const Group& group, const Block& block, unsigned seed, symm_algorithm_t algorithm) {
  std::vector<std::byte> own(PiecesMemory::kBytes);
  const PiecesMemory memory{
      block.at<std::byte>(group.rank()), own.data(), std::memcpy, [&](const auto& call) {
        const symm_status_t status = call();
        group.barrier();
        return status;
      }};
  run_drawn(group, memory, seed, algorithm);
}

#ifdef SYMM_UNDER_TSAN
constexpr unsigned kDrawn = 5;  // each takes twenty times as long
#else
constexpr unsigned kDrawn = 20;
#endif
TEST(Pieces, AnyLayoutInAnyMemory) {
  for (const int size : {1, 2, 3, 5}) {
    as_threads(size, [](int, const Group& group) {
      const Block block = allocate(group, PiecesMemory::kBytes);
      for (unsigned seed = 0; seed < kDrawn && !testing::Test::HasFailure(); ++seed) {
        run_all(group, block, seed, SYMM_ALGORITHM_AUTO);
      }
      for (unsigned seed = 0; seed < 4 && !testing::Test::HasFailure(); ++seed) {
        run_all(group, block, seed, SYMM_ALGORITHM_TWO_SHOT_STAGED);
      }
    });
  }
}

TEST(Pieces, BetweenProcesses) {
  as_processes(4, [](int, const Group& group) {
    const Block block = allocate(group, PiecesMemory::kBytes);
    for (unsigned seed = 100; seed < 110; ++seed) {
      run_all(group, block, seed, SYMM_ALGORITHM_AUTO);
    }
    group.barrier();
  });
}

TEST_F(Multinode, HasAllPieces) {
  setenv("SYMM_HOST_TUNE", "gather=64,slices=64K,round=32K", 1);
  expect_on_all_layouts([](int, const Group& group) {
    const Block block = allocate(group, PiecesMemory::kBytes);
    for (unsigned seed = 200; seed < 210; ++seed) {
      run_all(group, block, seed, SYMM_ALGORITHM_AUTO);
    }
  });
}

// Calls follow each other with nothing between them that would keep the ranks in step. Which rank
// is slow changes.
TEST(Pieces, BackToBack) {
  as_processes(3, [](int rank, const Group& group) {
    const Block block = allocate(group, PiecesMemory::kBytes);
    std::vector<int32_t> own(60'000);
    std::vector<int32_t> got(60'000);

    for (size_t call = 0; call < 600; ++call) {
      const size_t base = call % 5 == 0 ? 9000 : call % 7;
      Counts out;
      Counts in;
      for (size_t r = 0; r < 3; ++r) {
        out.push_back(base + static_cast<size_t>(rank) + 2 * r);
        in.push_back(base + r + 2 * static_cast<size_t>(rank));
      }
      int32_t* send =
          (call + static_cast<size_t>(rank)) % 3 == 0 ? own.data() : block.at<int32_t>(rank);
      std::fill_n(send, std::accumulate(out.begin(), out.end(), size_t{0}),
          rank + static_cast<int32_t>(call));
      check(symm_alltoallv(group.get(), send, out.data(), nullptr, got.data(), in.data(), nullptr,
          SYMM_DTYPE_I32, nullptr, nullptr));
      size_t i = 0;
      for (size_t r = 0; r < 3; ++r) {
        for (const size_t end = i + in[r]; i < end; ++i) {
          ASSERT_EQ(got[i], static_cast<int32_t>(r + call)) << i;
        }
      }
    }
  });
}

TEST(Pieces, CountsThatDisagreeNameBothRanks) {
  as_threads(2, [](int rank, const Group& group) {
    std::vector<int32_t> data(64);
    const Counts out = {4, 4};

    // Rank 1 expects 5 elements from rank 0, which sends 4.
    const Counts in = {rank == 1 ? size_t{5} : size_t{4}, 4};
    symm_status_t status = symm_alltoallv(group.get(), data.data(), out.data(), nullptr,
        data.data() + 32, in.data(), nullptr, SYMM_DTYPE_I32, nullptr, nullptr);

    // Nothing else was wrong, so rank 0 may have been through before rank 1 looked.
    if (status == SYMM_OK) {
      status = symm_barrier(group.get(), nullptr, 0, 0, within(10'000), nullptr);
    }

    expect_failed(
        status, SYMM_ERR_MISMATCH, {"rank 0 sends 4 elements to rank 1, which expects 5"});
  });
}

// The bytes of each root go to ranks with room for them, in one round or in several, and from
// symmetric or private memory. If a rank has too little room, all fail alike, and the group goes
// on.
void expect_bytes(int rank, const Group& group, const Block& block) {
  const auto size = static_cast<int32_t>(group.size());
  std::vector<std::byte> own(300'000);
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{100}, size_t{70'001}, size_t{300'000}}) {
    for (int32_t root = 0; root < size; ++root) {
      std::byte* const send = bytes % 2 == 0 ? block.at<std::byte>(rank) : own.data();
      const auto value = static_cast<std::byte>(bytes % 97 + 3 * static_cast<size_t>(root) + 1);
      std::fill_n(send, bytes, value);
      std::vector<std::byte> got(bytes + 5, kUntouched);
      const auto broadcast = [&](size_t capacity, size_t& out) {
        return symm_broadcast_bytes(group.get(), rank == root ? send : nullptr, bytes,
            rank == root ? nullptr : got.data(), capacity, root, nullptr, &out, nullptr);
      };

      size_t out = 7;
      const int32_t small = (root + 1) % size;
      if (size > 1 && bytes != 0) {
        expect_failed(broadcast(rank == small ? bytes - 1 : got.size(), out),
            SYMM_ERR_INVALID_ARGUMENT,
            {"recv_capacity", std::to_string(bytes - 1) + " bytes",
                "rank " + std::to_string(root) + " sends " + std::to_string(bytes)});
        EXPECT_EQ(out, bytes) << "is what the call needs";
        EXPECT_EQ(got, std::vector<std::byte>(bytes + 5, kUntouched));
      }

      check(broadcast(rank == small ? bytes : got.size(), out));
      EXPECT_EQ(out, bytes);
      std::vector<std::byte> wanted(bytes, rank == root ? kUntouched : value);
      wanted.resize(bytes + 5, kUntouched);
      EXPECT_EQ(got, wanted) << bytes << " bytes of rank " << root;
    }
  }
}

void expect_bytes_of_all(int rank, const Group& group) {
  const Block block = allocate(group, 300'000);
  expect_bytes(rank, group, block);
  group.barrier();
}

TEST(Pieces, BytesComeToRanksThatDoNotKnowHowManyThereAre) {
  for (const int size : {1, 2, 3, 5}) {
    as_threads(size, expect_bytes_of_all);
  }
}

TEST_F(Multinode, HasBytesOfAnyLength) {
  setenv("SYMM_HOST_TUNE", "gather=64,slices=64K,round=32K", 1);
  expect_on_all_layouts(expect_bytes_of_all);
}

TEST(Pieces, ARequestOfBytesHasTheirNumber) {
  as_threads(2, [](int rank, const Group& group) {
    std::vector<std::byte> data(100);
    symm_collective_options_t options = SYMM_COLLECTIVE_OPTIONS_INIT;
    const auto begin = [&](size_t capacity) {
      symm_request_t* request = nullptr;
      options.request = &request;
      check(symm_broadcast_bytes(
          group.get(), data.data(), 60, data.data(), capacity, 0, &options, nullptr, nullptr));
      return request;
    };

    symm_request_t* const whole = begin(60);
    symm_request_t* const cut = begin(59);
    check(symm_request_wait(whole, nullptr));
    symm_request_info_t info = SYMM_REQUEST_INFO_INIT;
    check(symm_request_info(whole, &info));
    EXPECT_EQ(info.value, 60U);
    EXPECT_STREQ(info.call, "broadcast_bytes");
    expect_failed(symm_request_wait(cut, nullptr), SYMM_ERR_INVALID_ARGUMENT,
        {"recv_capacity", "59 bytes", "rank 0 sends 60"});
    symm_request_release(whole);
    symm_request_release(cut);
    static_cast<void>(rank);
  });
}

// Rank 2 sends 5 elements to the root, which expects 4, and names both.
void expect_gatherv_to_disagree(int rank, const Group& group) {
  std::vector<int32_t> data(64);
  const Counts counts(static_cast<size_t>(group.size()), 4);
  symm_status_t status = symm_gatherv(group.get(), data.data(), rank == 2 ? 5 : 4, data.data() + 32,
      counts.data(), nullptr, SYMM_DTYPE_I32, 0, nullptr, nullptr);

  // Ranks that expect nothing may have been through before the root looked.
  if (status == SYMM_OK) {
    status = symm_barrier(group.get(), nullptr, 0, 0, within(10'000), nullptr);
  }
  expect_failed(
      status, SYMM_ERR_MISMATCH, {"gatherv: rank 2 sends 5 elements to rank 0, which expects 4"});
}

TEST(Pieces, AGatheredLengthThatDisagreesNamesBothRanks) {
  as_threads(3, expect_gatherv_to_disagree);
}

TEST_F(Multinode, NamesAGatheredLengthThatDisagrees) {
  expect_on_all_layouts(expect_gatherv_to_disagree);
}

// Ranks whose roots differ make different calls.
TEST(Pieces, RootsOfScattervMustAgree) {
  as_threads(2, [](int rank, const Group& group) {
    std::vector<int32_t> data(64);
    const Counts counts(2, 4);
    const symm_status_t status = symm_scatterv(group.get(), data.data(), counts.data(), nullptr,
        data.data() + 32, 4, SYMM_DTYPE_I32, rank, nullptr, nullptr);
    expect_failed(status, SYMM_ERR_MISMATCH, {"scatterv(i32, root 0)", "scatterv(i32, root 1)"});
  });
}

// Rank 1 has as many elements as the others, in rows of another length.
void expect_rows_to_disagree(int rank, const Group& group) {
  const size_t rows = rank == 1 ? 3 : 2;
  const size_t row = 6 / rows;
  const auto size = static_cast<size_t>(group.size());
  std::vector<int32_t> send(6 * size);
  std::vector<int32_t> recv(6);
  const symm_status_t status = symm_reduce_scatter_rows(group.get(), send.data(), recv.data(), rows,
      row, row * size, SYMM_DTYPE_I32, SYMM_OP_SUM, nullptr, nullptr);

  expect_failed(status, SYMM_ERR_MISMATCH,
      {"reduce_scatter_rows: rank ", " sends rows of ", " elements to rank "});
}

TEST(Pieces, RowsThatDisagreeAreNamed) { as_threads(3, expect_rows_to_disagree); }

TEST_F(Multinode, NamesRowsThatDisagree) { expect_on_all_layouts(expect_rows_to_disagree); }

// What the counts say in this call does not matter: a later call may use all of the capacity.
TEST(Pieces, OperandsAreAsLongAsTheirCapacities) {
  as_threads(2, [](int, const Group& group) {
    std::vector<int32_t> data(64);
    const uint64_t counts[] = {2, 2};
    const uint64_t none[] = {0, 0};
    const auto exchange = [&](const int32_t* send, size_t send_capacity, int32_t* recv,
                              size_t recv_capacity, const uint64_t* by) {
      return symm_alltoallv_device(group.get(), send, send_capacity, by, nullptr, recv,
          recv_capacity, by, nullptr, SYMM_DTYPE_I32, nullptr, nullptr);
    };

    int32_t* const recv = data.data() + 8;
    expect_failed(exchange(data.data(), SIZE_MAX, recv, 4, counts), SYMM_ERR_INVALID_ARGUMENT,
        {"send_capacity", "more than memory holds"});
    expect_failed(exchange(data.data(), 4, recv, SIZE_MAX / 2, counts), SYMM_ERR_INVALID_ARGUMENT,
        {"recv_capacity", "more than memory holds"});
    expect_failed(exchange(data.data(), 9, recv, 4, counts), SYMM_ERR_INVALID_ARGUMENT,
        {"recv", "overlaps send"});
    expect_failed(exchange(nullptr, 4, recv, 4, none), SYMM_ERR_INVALID_ARGUMENT, {"send", "NULL"});
    expect_failed(
        exchange(data.data(), 3, recv, 4, counts), SYMM_ERR_INVALID_ARGUMENT, {"send_counts[1]"});

    EXPECT_EQ(exchange(data.data(), 8, recv, 4, counts), SYMM_OK) << symm_last_error();
    EXPECT_EQ(exchange(nullptr, 0, nullptr, 0, none), SYMM_OK) << symm_last_error();
  });
}

TEST(Pieces, AlgorithmsThatCannot) {
  as_threads(2, [](int rank, const Group& group) {
    std::vector<int32_t> data(64);
    symm_group_t* g = group.get();
    const auto allgatherv = [&](const int32_t* send, const Counts& lengths,
                                symm_algorithm_t algorithm) {
      return symm_allgatherv(g, send, data.data(), lengths.data(), nullptr, SYMM_DTYPE_I32,
          forced(algorithm), nullptr);
    };

    for (const auto& [algorithm, why] : {std::pair(SYMM_ALGORITHM_TWO_SHOT, "symmetric memory"),
             {SYMM_ALGORITHM_LL, "ll does not do allgatherv"}}) {
      expect_failed(
          allgatherv(data.data() + 32, {4, 6}, algorithm), SYMM_ERR_INVALID_ARGUMENT, {why});
    }

    // Nothing was spoilt, nothing to move needs no memory,
    // and a rank with nothing to send may say NULL.
    check(symm_allgatherv(
        g, nullptr, nullptr, Counts{0, 0}.data(), nullptr, SYMM_DTYPE_I32, nullptr, nullptr));
    check(allgatherv(rank == 0 ? nullptr : data.data() + 32, {0, 6}, SYMM_ALGORITHM_AUTO));
  });
}

TEST(Pieces, ThePlanSaysHow) {
  as_threads(2, [](int rank, const Group& group) {
    const Block block = allocate(group, 4096);
    std::vector<int32_t> own(64);
    const Counts counts = {4, 6};
    const auto plan = [&](const void* send) {
      auto call = call_of(SYMM_COLLECTIVE_ALLGATHERV, send, own.data() + 32, 0, SYMM_DTYPE_I32);
      call.value.recv_counts = counts.data();
      symm_plan_info_t info;
      check(plan_of(group.get(), call, nullptr, info));
      return info;
    };

    EXPECT_EQ(plan(block.at<int32_t>(rank)).algorithm, SYMM_ALGORITHM_TWO_SHOT);
    EXPECT_EQ(plan(own.data()).algorithm, SYMM_ALGORITHM_TWO_SHOT_STAGED);
    EXPECT_GT(plan(own.data()).chunk_bytes, 0U);
    group.barrier();
  });
}
}  // namespace
}  // namespace support
