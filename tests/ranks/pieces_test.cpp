// SPDX-License-Identifier: Apache-2.0
//
// The collectives whose blocks have lengths of their own, through the whole library: layouts drawn at random, alike on all ranks,
// in symmetric and private memory in any mixture, in place, with empty blocks; every element that may be written is compared, and
// those that may not be.
#include <algorithm>
#include <numeric>
#include <random>

#include "tests/support/group.hpp"

namespace support {
namespace {

using Counts = std::vector<size_t>;
constexpr int32_t kUntouched = -7;

// Element i of what rank `from` sends to rank `to`: small, so that f32 could hold sums of it too.
int32_t value(int from, int to, size_t i) {
  return static_cast<int32_t>((i * 13 + static_cast<size_t>(from * 31 + to * 7)) % 997);
}

struct Layout {
  Counts counts, at;
  bool packed;  // one behind the other: NULL says so, too
  size_t end() const {
    size_t end = 0;
    for (size_t r = 0; r < counts.size(); ++r) end = std::max(end, counts[r] == 0 ? 0 : at[r] + counts[r]);
    return end;
  }
  const size_t* displacements() const { return packed ? nullptr : at.data(); }
};

Layout lay(Counts counts, std::mt19937& random) {
  Layout layout{std::move(counts), {}, random() % 3 == 0};
  std::vector<size_t> order(layout.counts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (!layout.packed) std::shuffle(order.begin(), order.end(), random);
  layout.at.resize(order.size());
  size_t next = layout.packed ? 0 : random() % 5;
  for (const size_t r : order) {
    layout.at[r] = next;
    next += layout.counts[r] + (layout.packed ? 0 : random() % 4);
  }
  return layout;
}

// Counts from each rank to each, and what is private: drawn from one seed on all ranks.
class Drawn {
 public:
  Drawn(const Group& group, const Block& block, unsigned seed, symm_algorithm_t algorithm)
      : group_(group), rank_(group.rank()), size_(group.size()), n_(static_cast<size_t>(size_)), random_(seed) {
    options_.algorithm = algorithm;
    const size_t most[] = {3, 40, 3000, 20'000};
    const size_t scale = most[random_() % 4];
    for (size_t from = 0; from < n_; ++from) {
      matrix_.emplace_back();
      for (size_t to = 0; to < n_; ++to) matrix_[from].push_back(random_() % 4 == 0 ? 0 : random_() % (scale + 1));
    }
    for (int r = 0; r < size_; ++r) {
      const bool is_private = algorithm != SYMM_ALGORITHM_TWO_SHOT && random_() % 3 == 0;
      if (r == rank_) private_ = is_private;
    }
    in_place_ = random_() % 3 == 0;
    if (private_) own_.assign(2 * kHalf, 0);
    send_ = private_ ? own_.data() : block.at<int32_t>(rank_);
    recv_ = send_ + kHalf;
    std::fill_n(send_, 2 * kHalf, kUntouched);
    expected_.assign(kHalf, kUntouched);
  }

  void alltoallv() {
    Counts from_me = matrix_[me()];
    Counts to_me;
    for (size_t r = 0; r < n_; ++r) to_me.push_back(matrix_[r][me()]);
    if (in_place_) from_me = to_me = symmetric_counts();
    const Layout out = lay(from_me, random_);
    const Layout in = in_place_ ? out : lay(to_me, random_);
    if (in_place_) send_ = recv_;
    for (int r = 0; r < size_; ++r) put(send_, out, r, [&](size_t i) { return value(rank_, r, i); });
    for (int r = 0; r < size_; ++r) expect(in, r, [&](size_t i) { return value(r, rank_, i); });
    finish("alltoallv", symm_alltoallv(group_.get(), send_, out.counts.data(), out.displacements(), recv_, in.counts.data(),
                                       in.displacements(), SYMM_DTYPE_I32, &options_, nullptr));
  }

  void allgatherv() {
    const Layout in = lay(matrix_[0], random_);
    if (in_place_) send_ = recv_ + in.at[me()];
    for (size_t i = 0; i < in.counts[me()]; ++i) send_[i] = value(rank_, 0, i);
    for (int r = 0; r < size_; ++r) expect(in, r, [&](size_t i) { return value(r, 0, i); });
    finish("allgatherv",
           symm_allgatherv(group_.get(), send_, recv_, in.counts.data(), in.displacements(), SYMM_DTYPE_I32, &options_, nullptr));
  }

  void reduce_scatterv() {
    const Layout out = lay(matrix_[0], random_);
    for (int r = 0; r < size_; ++r) put(send_, out, r, [&](size_t i) { return value(rank_, r, i); });
    if (in_place_) {
      std::copy_n(send_, kHalf, recv_);
      send_ = recv_;
      std::copy_n(send_, kHalf, expected_.data());
    }
    int32_t* to = recv_ + (in_place_ ? out.at[me()] : 0);
    for (size_t i = 0; i < out.counts[me()]; ++i) {
      int32_t sum = 0;
      for (int r = 0; r < size_; ++r) sum += value(r, rank_, i);
      expected_[static_cast<size_t>(to - recv_) + i] = sum;
    }
    finish("reduce_scatterv", symm_reduce_scatterv(group_.get(), send_, out.counts.data(), out.displacements(), to,
                                                   SYMM_DTYPE_I32, SYMM_OP_SUM, &options_, nullptr));
  }

  void gather_and_scatter() {
    const size_t count = matrix_[0][0];
    const int root = static_cast<int>(random_() % n_);
    const Layout whole = lay_equal(count);
    const bool am_root = rank_ == root;
    int32_t* from = am_root && in_place_ ? recv_ + static_cast<size_t>(root) * count : send_;
    for (size_t i = 0; i < count; ++i) from[i] = value(rank_, root, i);
    for (int r = 0; am_root && r < size_; ++r) expect(whole, r, [&](size_t i) { return value(r, root, i); });
    finish("gather", symm_gather(group_.get(), from, am_root ? recv_ : nullptr, count, SYMM_DTYPE_I32, root, &options_, nullptr));
    group_.barrier();

    std::fill_n(expected_.data(), kHalf, kUntouched);
    std::fill_n(recv_, kHalf, kUntouched);
    for (int r = 0; r < size_; ++r) put(send_, whole, r, [&](size_t i) { return value(root, r, i); });
    for (size_t i = 0; i < count; ++i) expected_[i] = value(root, rank_, i);
    int32_t* to = am_root && in_place_ ? send_ + static_cast<size_t>(root) * count : recv_;
    if (to != recv_) std::fill_n(expected_.data(), kHalf, kUntouched);
    finish("scatter", symm_scatter(group_.get(), am_root ? send_ : nullptr, to, count, SYMM_DTYPE_I32, root, &options_, nullptr));
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(to[i], value(root, rank_, i));
  }

  void allgather_rows() {
    const size_t rows = random_() % 5;
    const size_t row_count = matrix_[0][0] % 3001;
    const size_t stride = n_ * row_count + random_() % 7;
    for (size_t i = 0; i < rows * row_count; ++i) send_[i] = value(rank_, 0, i);
    for (size_t row = 0; row < rows; ++row) {
      for (int r = 0; r < size_; ++r) {
        for (size_t i = 0; i < row_count; ++i)
          expected_[row * stride + static_cast<size_t>(r) * row_count + i] = value(r, 0, row * row_count + i);
      }
    }
    finish("allgather_rows",
           symm_allgather_rows(group_.get(), send_, recv_, rows, row_count, stride, SYMM_DTYPE_I32, &options_, nullptr));
  }

 private:
  static constexpr size_t kHalf = size_t{1} << 17;  // elements

  size_t me() const { return static_cast<size_t>(rank_); }
  // What an all-to-all in place needs: as much from me to r as from r to me.
  Counts symmetric_counts() const {
    Counts counts;
    for (size_t r = 0; r < n_; ++r) counts.push_back(matrix_[std::min(r, me())][std::max(r, me())]);
    return counts;
  }
  Layout lay_equal(size_t count) const {
    Layout layout{Counts(n_, count), {}, true};
    for (size_t r = 0; r < n_; ++r) layout.at.push_back(r * count);
    return layout;
  }
  template <class Element>
  void put(int32_t* operand, const Layout& layout, int r, const Element& element) {
    const auto b = static_cast<size_t>(r);
    for (size_t i = 0; i < layout.counts[b]; ++i) operand[layout.at[b] + i] = element(i);
  }
  template <class Element>
  void expect(const Layout& layout, int r, const Element& element) {
    put(expected_.data(), layout, r, element);
  }
  void finish(const char* what, symm_status_t status) {
    check(status);
    const auto [wanted, got] = std::mismatch(expected_.begin(), expected_.end(), recv_);
    if (wanted == expected_.end()) return;
    FAIL() << what << " on rank " << rank_ << " of " << size_ << (private_ ? ", private" : "") << (in_place_ ? ", in place" : "")
           << ": at " << wanted - expected_.begin() << " is " << *got << ", not " << *wanted;
  }

  const Group& group_;
  const int rank_, size_;
  const size_t n_;
  std::mt19937 random_;
  symm_collective_options_t options_ = SYMM_COLLECTIVE_OPTIONS_INIT;
  std::vector<Counts> matrix_;
  bool private_ = false, in_place_ = false;
  std::vector<int32_t> own_, expected_;
  int32_t *send_ = nullptr, *recv_ = nullptr;
};

void run_all(const Group& group, const Block& block, unsigned seed, symm_algorithm_t algorithm) {
  SCOPED_TRACE("seed " + std::to_string(seed) + ", algorithm " + std::to_string(algorithm));
  for (const auto call :
       {&Drawn::alltoallv, &Drawn::allgatherv, &Drawn::reduce_scatterv, &Drawn::gather_and_scatter, &Drawn::allgather_rows}) {
    Drawn one(group, block, seed, algorithm);
    (one.*call)();
    group.barrier();
  }
}

TEST(Pieces, AnyLayoutInAnyMemory) {
  for (const int size : {1, 2, 3, 5}) {
    as_threads(size, [](int, const Group& group) {
      const Block block = allocate(group, size_t{1} << 20);
      for (unsigned seed = 0; seed < 20 && !testing::Test::HasFailure(); ++seed) run_all(group, block, seed, SYMM_ALGORITHM_AUTO);
      for (unsigned seed = 0; seed < 4 && !testing::Test::HasFailure(); ++seed)
        run_all(group, block, seed, SYMM_ALGORITHM_TWO_SHOT_STAGED);
    });
  }
}

TEST(Pieces, BetweenProcesses) {
  as_processes(4, [](int, const Group& group) {
    const Block block = allocate(group, size_t{1} << 20);
    for (unsigned seed = 100; seed < 110; ++seed) run_all(group, block, seed, SYMM_ALGORITHM_AUTO);
    group.barrier();
  });
}

// One behind the other, without anything between the calls but what they do themselves; who is slow changes.
TEST(Pieces, BackToBack) {
  as_processes(3, [](int rank, const Group& group) {
    const Block block = allocate(group, size_t{1} << 20);
    std::vector<int32_t> own(60'000), got(60'000);
    for (size_t call = 0; call < 600; ++call) {
      const size_t base = call % 5 == 0 ? 9000 : call % 7;
      Counts out, in;
      for (size_t r = 0; r < 3; ++r) {
        out.push_back(base + static_cast<size_t>(rank) + 2 * r);
        in.push_back(base + r + 2 * static_cast<size_t>(rank));
      }
      int32_t* send = (call + static_cast<size_t>(rank)) % 3 == 0 ? own.data() : block.at<int32_t>(rank);
      std::fill_n(send, std::accumulate(out.begin(), out.end(), size_t{0}), rank + static_cast<int32_t>(call));
      check(symm_alltoallv(group.get(), send, out.data(), nullptr, got.data(), in.data(), nullptr, SYMM_DTYPE_I32, nullptr,
                           nullptr));
      size_t i = 0;
      for (size_t r = 0; r < 3; ++r) {
        for (const size_t end = i + in[r]; i < end; ++i) ASSERT_EQ(got[i], static_cast<int32_t>(r + call)) << i;
      }
    }
  });
}

TEST(Pieces, CountsThatDisagreeNameBothRanks) {
  as_threads(2, [](int rank, const Group& group) {
    std::vector<int32_t> data(64);
    const Counts out = {4, 4};
    const Counts in = {rank == 1 ? size_t{5} : size_t{4}, 4};  // rank 1 expects 5 of rank 0, which sends 4
    symm_status_t status = symm_alltoallv(group.get(), data.data(), out.data(), nullptr, data.data() + 32, in.data(), nullptr,
                                          SYMM_DTYPE_I32, nullptr, nullptr);
    // Nothing else was wrong, so rank 0 may have been through before rank 1 looked.
    if (status == SYMM_OK) status = symm_barrier(group.get(), nullptr, 0, 0, within(10'000), nullptr);
    EXPECT_EQ(status, SYMM_ERR_MISMATCH) << symm_last_error();
    EXPECT_NE(std::string(symm_last_error()).find("rank 0 sends 4 elements to rank 1, which expects 5"), std::string::npos)
        << symm_last_error();
  });
}

TEST(Pieces, ArgumentsThatMakeNoSense) {
  as_threads(2, [](int rank, const Group& group) {
    std::vector<int32_t> data(64);
    symm_group_t* g = group.get();
    const Counts counts = {4, 6};
    const auto refused = [](symm_status_t status, const char* why) {
      EXPECT_EQ(status, SYMM_ERR_INVALID_ARGUMENT);
      EXPECT_NE(std::string(symm_last_error()).find(why), std::string::npos) << symm_last_error();
    };
    const auto allgatherv = [&](const int32_t* send, const Counts& lengths, const size_t* at, symm_algorithm_t algorithm) {
      symm_collective_options_t options = SYMM_COLLECTIVE_OPTIONS_INIT;
      options.algorithm = algorithm;
      return symm_allgatherv(g, send, data.data(), lengths.data(), at, SYMM_DTYPE_I32, &options, nullptr);
    };
    const auto automatic = SYMM_ALGORITHM_AUTO;
    refused(allgatherv(data.data() + 32, counts, Counts{0, 3}.data(), automatic), "recv_displacements[1]: the block of rank 1");
    refused(allgatherv(data.data() + 32, {SIZE_MAX / 2, 1}, nullptr, automatic), "recv_counts[0]: 9223372036854775807 elements");
    refused(allgatherv(data.data() + 2, counts, nullptr, automatic), "recv: overlaps send");
    refused(allgatherv(nullptr, counts, nullptr, automatic), "send: is NULL");
    refused(allgatherv(data.data() + 32, counts, nullptr, SYMM_ALGORITHM_TWO_SHOT), "symmetric memory");
    refused(allgatherv(data.data() + 32, counts, nullptr, SYMM_ALGORITHM_LL), "ll does not do allgatherv");
    refused(symm_alltoallv(g, data.data(), counts.data(), nullptr, data.data(), Counts{6, 4}.data(), nullptr, SYMM_DTYPE_I32,
                           nullptr, nullptr),
            "in-place form");
    refused(symm_reduce_scatterv(g, data.data(), counts.data(), Counts{0, 0}.data(), data.data(), SYMM_DTYPE_I32, SYMM_OP_SUM,
                                 nullptr, nullptr),
            "send_displacements[1]: the block of rank 1");
    refused(symm_allgather_rows(g, data.data() + 32, data.data(), 2, 4, 7, SYMM_DTYPE_I32, nullptr, nullptr),
            "recv_stride: 7 is less than the 8");
    // Nothing was spoilt, nothing to move needs no memory, and a rank with nothing to send may say NULL.
    check(symm_allgatherv(g, nullptr, nullptr, Counts{0, 0}.data(), nullptr, SYMM_DTYPE_I32, nullptr, nullptr));
    check(allgatherv(rank == 0 ? nullptr : data.data() + 32, {0, 6}, nullptr, automatic));
  });
}

TEST(Pieces, ThePlanSaysHow) {
  as_threads(2, [](int rank, const Group& group) {
    const Block block = allocate(group, 4096);
    std::vector<int32_t> own(64);
    const Counts counts = {4, 6};
    const auto plan = [&](const void* send) {
      symm_collective_call_t call{};
      call.struct_size = sizeof call;
      call.collective = SYMM_COLLECTIVE_ALLGATHERV;
      call.send = send;
      call.recv = own.data() + 32;
      call.dtype = SYMM_DTYPE_I32;
      call.recv_counts = counts.data();
      symm_plan_info_t info{};
      info.struct_size = sizeof info;
      check(symm_collective_plan(group.get(), &call, nullptr, &info));
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
