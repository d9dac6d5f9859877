// Reductions by an operation of the caller's: 2 x 2 matrices, whose product does not commute, must
// be multiplied in the order of the ranks, whoever does it.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/support/group.hpp"
#include "tests/support/machines.hpp"

namespace support {
namespace {
// Unsigned, since the numbers wrap.
struct Matrix {
  std::array<uint64_t, 4> at{1, 0, 0, 1};

  bool operator==(const Matrix&) const = default;
};

void multiply(Matrix& into, const Matrix& other) {
  const auto& a = into.at;
  const auto& b = other.at;
  into.at = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2],
      a[2] * b[1] + a[3] * b[3]};
}

Matrix operand(int rank, size_t i) {
  const auto r = static_cast<uint64_t>(rank);
  return {{2 * r + 3, i * 7 + r, r + 1, i * 13 + 5}};
}

// The product of ranks 0 .. ranks-1.
Matrix product(int ranks, size_t i) {
  Matrix all;
  for (int rank = 0; rank < ranks; ++rank) {
    multiply(all, operand(rank, i));
  }
  return all;
}

// Checks element i of recv for all i < count; `first` is the number of the first in the operands.
void expect_products(const std::vector<Matrix>& recv, int ranks, size_t first, size_t count,
    const std::string& what) {
  for (size_t i = 0; i < count; ++i) {
    ASSERT_EQ(recv[i], product(ranks, first + i)) << what << ", element " << i << " of " << count;
  }
}

void run_all(const Group& group, size_t count) {
  const int rank = group.rank();
  const int size = group.size();
  std::vector<Matrix> send(count * static_cast<size_t>(size));
  for (size_t i = 0; i < send.size(); ++i) {
    send[i] = operand(rank, i);
  }
  const symm::Span<const Matrix> some(send.data(), count);

  std::vector<Matrix> recv(count);
  const auto reduce = [&](symm_collective_t collective, int32_t root = 0) {
    const bool scatters = collective == SYMM_COLLECTIVE_REDUCE_SCATTER;
    recv.assign(count, Matrix{{9, 9, 9, 9}});
    group.reduce_by<Matrix>(
        collective, scatters ? symm::Span<const Matrix>(send) : some, recv, multiply, root);
  };
  reduce(SYMM_COLLECTIVE_ALLREDUCE);
  expect_products(recv, size, 0, count, "all-reduce");
  reduce(SYMM_COLLECTIVE_REDUCE, size - 1);
  if (rank == size - 1) expect_products(recv, size, 0, count, "reduce");
  reduce(SYMM_COLLECTIVE_REDUCE_SCATTER);
  expect_products(recv, size, static_cast<size_t>(rank) * count, count, "reduce-scatter");
  reduce(SYMM_COLLECTIVE_SCAN);
  expect_products(recv, rank + 1, 0, count, "scan");
  reduce(SYMM_COLLECTIVE_EXSCAN);
  if (rank > 0) expect_products(recv, rank, 0, count, "exscan");
  if (rank == 0) {
    EXPECT_EQ(recv, std::vector<Matrix>(count, Matrix{{9, 9, 9, 9}}));
  }

  for (const symm_collective_t collective : {SYMM_COLLECTIVE_ALLREDUCE, SYMM_COLLECTIVE_SCAN}) {
    std::copy_n(send.begin(), count, recv.begin());
    group.reduce_by<Matrix>(collective, recv, recv, multiply);
    expect_products(
        recv, collective == SYMM_COLLECTIVE_SCAN ? rank + 1 : size, 0, count, "in place");
  }
  std::vector<Matrix> both = send;
  const symm::Span<Matrix> own(both.data() + static_cast<size_t>(rank) * count, count);
  group.reduce_by<Matrix>(SYMM_COLLECTIVE_REDUCE_SCATTER, both, own, multiply);
  expect_products({own.begin(), own.end()}, size, static_cast<size_t>(rank) * count, count,
      "reduce-scatter in place");
}

// Nothing, whole slices and others, few elements, and more than are combined at a time.
constexpr std::array<size_t, 5> kLengths = {0, 1, 7, 1000, 50'001};

TEST(UserOperation, CombinesInTheOrderOfTheRanks) {
  for (const int size : {1, 2, 3, 5}) {
    as_threads(size, [](int, const Group& group) {
      for (const size_t count : kLengths) {
        run_all(group, count);
      }
    });
  }
}

TEST_F(Multinode, CombinesByAUsersOperation) {
  expect_on_all_layouts([](int, const Group& group) {
    for (const size_t count : {size_t{1}, size_t{1001}}) {
      run_all(group, count);
    }
  });
}

// Elements of any size keep their alignment, and of the largest one at a time is combined.
TEST(UserOperation, TakesElementsOfAnySize) {
  as_threads(3, [](int rank, const Group& group) {
    const auto last = [](void*, void* into, const void* other, size_t count) -> int32_t {
      const auto* const from = static_cast<const unsigned char*>(other);
      std::copy_n(from, count, static_cast<unsigned char*>(into));
      return 0;
    };
    for (const size_t bytes : {size_t{1}, size_t{3}, size_t{12}, size_t{1} << 20}) {
      std::vector<unsigned char> data(5 * bytes, static_cast<unsigned char>(rank + 1));
      // The operation takes the first `count` bytes of all elements only.
      ASSERT_EQ(symm_reduce_by(group.get(), SYMM_COLLECTIVE_ALLREDUCE, data.data(), data.data(), 5,
                    bytes, last, nullptr, 0, nullptr),
          SYMM_OK);
      EXPECT_EQ(data[0], 3) << bytes;
    }
  });
}

// What an operation throws goes to its caller, and fails the others by name.
TEST(UserOperation, ThatThrowsAbortsTheGroup) {
  as_threads(3, [](int rank, const Group& group) {
    std::vector<Matrix> data(1000);
    const auto by = [rank](Matrix& into, const Matrix& other) {
      if (rank == 1) throw std::domain_error("not a rotation");
      multiply(into, other);
    };
    if (rank == 1) {
      EXPECT_THROW(
          group.reduce_by<Matrix>(SYMM_COLLECTIVE_ALLREDUCE, data, data, by), std::domain_error);
      EXPECT_EQ(group.status().status, SYMM_ERR_ABORTED);
      return;
    }
    try {
      group.reduce_by<Matrix>(SYMM_COLLECTIVE_ALLREDUCE, data, data, by);
      ADD_FAILURE() << "the call has succeeded";
    } catch (const symm::Error& error) {
      EXPECT_EQ(error.status(), SYMM_ERR_ABORTED);
      EXPECT_NE(std::string(error.what()).find("rank 1 aborted the group: reduce_by: combine"),
          std::string::npos)
          << error.what();
    }
  });
}

// Reductions that differ move the same bytes: 4 elements of 8 bytes are as long as 2 of 16.
struct Reduction {
  symm_collective_t collective;
  size_t count;
  size_t element_bytes;
  int32_t root;
};

symm_status_t reduce(const Group& group, const Reduction& r, std::vector<uint64_t>& data) {
  const auto keep = [](void*, void*, const void*, size_t) -> int32_t { return 0; };
  return symm_reduce_by(group.get(), r.collective, data.data(), data.data(), r.count,
      r.element_bytes, keep, nullptr, r.root, nullptr);
}

constexpr Reduction kOnEvenRanks{SYMM_COLLECTIVE_ALLREDUCE, 4, 8, 0};

TEST(UserOperation, ThatDiffersFromRankToRankIsAMismatch) {
  constexpr Reduction kToRoot{SYMM_COLLECTIVE_REDUCE, 4, 8, 0};
  const std::vector<std::pair<Reduction, Reduction>> pairs = {
      {kOnEvenRanks, {SYMM_COLLECTIVE_SCAN, 4, 8, 0}},
      {kOnEvenRanks, {SYMM_COLLECTIVE_ALLREDUCE, 2, 16, 0}},
      {kOnEvenRanks, kToRoot},
      {kToRoot, {SYMM_COLLECTIVE_REDUCE, 4, 8, 1}},
      // The first step of both moves as much as there is room for.
      {{SYMM_COLLECTIVE_SCAN, size_t{1} << 19, 8, 0}, {SYMM_COLLECTIVE_SCAN, 600'000, 8, 0}},
  };
  for (const auto& [first, second] : pairs) {
    as_threads(2, [&first = first, &second = second](int rank, const Group& group) {
      std::vector<uint64_t> data(600'000);
      expect_failed(reduce(group, rank == 0 ? first : second, data), SYMM_ERR_MISMATCH,
          {"rank 0", "of reduce_by(", ") with hash"});
    });
  }
}

TEST(UserOperation, IsNoCallThatMovesAsManyBytes) {
  as_threads(2, [](int rank, const Group& group) {
    std::vector<uint64_t> data(4);
    std::vector<uint64_t> all(8);
    const symm_status_t got = rank == 0 ? reduce(group, kOnEvenRanks, data)
                                        : symm_allgather(group.get(), data.data(), all.data(), 32,
                                              SYMM_DTYPE_U8, nullptr, nullptr);
    expect_failed(got, SYMM_ERR_MISMATCH,
        {"allgather(u8, count 32, of reduce_by(allreduce) with hash", "allgather(u8, count 32)"});
  });
}

// Between machines the calls travel packed. The last 8 bits of a hash go with the signature, and
// the others with the count: the two long reductions differ in the latter alone.
TEST_F(Multinode, ComparesUsersOperations) {
  const std::vector<std::pair<Reduction, Reduction>> pairs = {
      {kOnEvenRanks, {SYMM_COLLECTIVE_SCAN, 4, 8, 0}},
      {kOnEvenRanks, {SYMM_COLLECTIVE_ALLREDUCE, 2, 16, 0}},
      {{SYMM_COLLECTIVE_REDUCE, 4, 8, 0}, {SYMM_COLLECTIVE_REDUCE, 4, 8, 1}},
      {{SYMM_COLLECTIVE_SCAN, size_t{1} << 19, 8, 0}, {SYMM_COLLECTIVE_SCAN, 600'681, 8, 0}},
  };
  for (const auto& [first, second] : pairs) {
    expect_on_machines("ab", [&first = first, &second = second](int rank, const Group& group) {
      std::vector<uint64_t> data(600'681);
      const symm_status_t got = reduce(group, rank == 0 ? first : second, data);
      expect_failed(got, SYMM_ERR_MISMATCH, {"rank 0", "rank 1", "of reduce_by(", ") with hash"});
    });
  }
}

TEST(UserOperation, NamesTheRankThatDoesNotCome) {
  as_threads(3, [](int rank, const Group& group) {
    group.barrier();
    if (rank == 1) {
      EXPECT_TRUE(eventually([&] { return group.status().status == SYMM_ERR_TIMEOUT; }));
      return;
    }
    std::vector<Matrix> data(1000);
    try {
      group.reduce_by<Matrix>(SYMM_COLLECTIVE_SCAN, data, data, multiply, 0, 2000);
      ADD_FAILURE() << "the call has succeeded";
    } catch (const symm::Error& error) {
      EXPECT_EQ(error.status(), SYMM_ERR_TIMEOUT);
      EXPECT_NE(std::string(error.what()).find("rank 1"), std::string::npos) << error.what();
    }
  });
}
}  // namespace
}  // namespace support
