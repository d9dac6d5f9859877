// SPDX-License-Identifier: Apache-2.0
//
// Calls of the collectives whose blocks have lengths of their own, drawn at random, alike on all ranks: in symmetric and private
// memory in any mixture, in place, with empty blocks, with counts that are read when they run; every element that may be written
// is compared, and those that may not be.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "tests/support/group.hpp"

namespace support {

using Counts = std::vector<size_t>;
inline constexpr int32_t kUntouched = -7;

// Element i of what rank `from` sends to rank `to`: small, so that f32 could hold sums of it too.
inline int32_t value(int from, int to, size_t i) {
  return static_cast<int32_t>((i * 13 + static_cast<size_t>(from * 31 + to * 7)) % 997);
}

struct Layout {
  Counts counts, at;
  bool packed;  // one behind the other: NULL says so, too
  const size_t* displacements() const { return packed ? nullptr : at.data(); }
};

inline Layout lay(Counts counts, std::mt19937& random) {
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

// Where the operands of one rank may lie, kBytes each, and how bytes come there and back. `run` makes a call and waits for it.
struct PiecesMemory {
  static constexpr size_t kHalf = size_t{1} << 17;  // elements
  static constexpr size_t kBytes = 8 * kHalf + 1024;
  std::byte *symmetric, *ordinary;
  std::function<void(void* to, const void* from, size_t bytes)> copy;
  std::function<symm_status_t(const std::function<symm_status_t()>& call)> run;
  void* stream = nullptr;
};

// Counts from each rank to each, and what is private: drawn from one seed on all ranks.
class Drawn {
 public:
  Drawn(const Group& group, const PiecesMemory& memory, unsigned seed, symm_algorithm_t algorithm)
      : memory_(memory),
        group_(group.get()),
        rank_(group.rank()),
        size_(group.size()),
        n_(static_cast<size_t>(size_)),
        random_(seed) {
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
    image_.assign(2 * kHalf, kUntouched);
    send_ = image_.data();
    recv_ = send_ + kHalf;
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
    if (in_place_ || random_() % 2 == 0) {
      return finish("alltoallv", [&] {
        return symm_alltoallv(group_, real(send_), out.counts.data(), out.displacements(), real(recv_), in.counts.data(),
                              in.displacements(), SYMM_DTYPE_I32, &options_, memory_.stream);
      });
    }
    uint64_t* lists[4] = {};
    const Counts* const given[] = {&out.counts, out.packed ? nullptr : &out.at, &in.counts, in.packed ? nullptr : &in.at};
    for (size_t i = 0; i < 4; ++i) {
      if (given[i] == nullptr) continue;
      lists[i] = reinterpret_cast<uint64_t*>(base() + 8 * kHalf) + i * n_;
      memory_.copy(lists[i], given[i]->data(), n_ * sizeof(uint64_t));
    }
    finish("alltoallv_device", [&] {
      return symm_alltoallv_device(group_, real(send_), kHalf, lists[0], lists[1], real(recv_), kHalf, lists[2], lists[3],
                                   SYMM_DTYPE_I32, &options_, memory_.stream);
    });
  }

  void allgatherv() {
    const Layout in = lay(matrix_[0], random_);
    if (in_place_) send_ = recv_ + in.at[me()];
    for (size_t i = 0; i < in.counts[me()]; ++i) send_[i] = value(rank_, 0, i);
    for (int r = 0; r < size_; ++r) expect(in, r, [&](size_t i) { return value(r, 0, i); });
    finish("allgatherv", [&] {
      return symm_allgatherv(group_, real(send_), real(recv_), in.counts.data(), in.displacements(), SYMM_DTYPE_I32, &options_,
                             memory_.stream);
    });
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
    finish("reduce_scatterv", [&] {
      return symm_reduce_scatterv(group_, real(send_), out.counts.data(), out.displacements(), real(to), SYMM_DTYPE_I32,
                                  SYMM_OP_SUM, &options_, memory_.stream);
    });
  }

  void gather_and_scatter() {
    const size_t count = matrix_[0][0];
    const int root = static_cast<int>(random_() % n_);
    const Layout whole = lay_equal(count);
    const bool am_root = rank_ == root;
    int32_t* from = am_root && in_place_ ? recv_ + static_cast<size_t>(root) * count : send_;
    for (size_t i = 0; i < count; ++i) from[i] = value(rank_, root, i);
    for (int r = 0; am_root && r < size_; ++r) expect(whole, r, [&](size_t i) { return value(r, root, i); });
    finish("gather", [&] {
      return symm_gather(group_, real(from), am_root ? real(recv_) : nullptr, count, SYMM_DTYPE_I32, root, &options_,
                         memory_.stream);
    });

    std::fill_n(expected_.data(), kHalf, kUntouched);
    std::fill_n(recv_, kHalf, kUntouched);
    for (int r = 0; r < size_; ++r) put(send_, whole, r, [&](size_t i) { return value(root, r, i); });
    for (size_t i = 0; i < count; ++i) expected_[i] = value(root, rank_, i);
    int32_t* to = am_root && in_place_ ? send_ + static_cast<size_t>(root) * count : recv_;
    if (to != recv_) std::fill_n(expected_.data(), kHalf, kUntouched);
    finish("scatter", [&] {
      return symm_scatter(group_, am_root ? real(send_) : nullptr, real(to), count, SYMM_DTYPE_I32, root, &options_,
                          memory_.stream);
    });
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
    finish("allgather_rows", [&] {
      return symm_allgather_rows(group_, real(send_), real(recv_), rows, row_count, stride, SYMM_DTYPE_I32, &options_,
                                 memory_.stream);
    });
  }

 private:
  static constexpr size_t kHalf = PiecesMemory::kHalf;

  std::byte* base() const { return private_ ? memory_.ordinary : memory_.symmetric; }
  int32_t* real(const int32_t* image) const { return reinterpret_cast<int32_t*>(base()) + (image - image_.data()); }
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
  void finish(const char* what, const std::function<symm_status_t()>& call) {
    memory_.copy(base(), image_.data(), 8 * kHalf);
    check(memory_.run(call));
    memory_.copy(image_.data(), base(), 8 * kHalf);
    const auto [wanted, got] = std::mismatch(expected_.begin(), expected_.end(), recv_);
    if (wanted == expected_.end()) return;
    FAIL() << what << " on rank " << rank_ << " of " << size_ << (private_ ? ", private" : "") << (in_place_ ? ", in place" : "")
           << ": at " << wanted - expected_.begin() << " is " << *got << ", not " << *wanted;
  }

  const PiecesMemory& memory_;
  symm_group_t* const group_;
  const int rank_, size_;
  const size_t n_;
  std::mt19937 random_;
  symm_collective_options_t options_ = SYMM_COLLECTIVE_OPTIONS_INIT;
  std::vector<Counts> matrix_;
  bool private_ = false, in_place_ = false;
  std::vector<int32_t> image_, expected_;
  int32_t *send_ = nullptr, *recv_ = nullptr;
};

inline void run_drawn(const Group& group, const PiecesMemory& memory, unsigned seed, symm_algorithm_t algorithm) {
  SCOPED_TRACE("seed " + std::to_string(seed) + ", algorithm " + std::to_string(algorithm));
  for (const auto call :
       {&Drawn::alltoallv, &Drawn::allgatherv, &Drawn::reduce_scatterv, &Drawn::gather_and_scatter, &Drawn::allgather_rows}) {
    Drawn one(group, memory, seed, algorithm);
    (one.*call)();
  }
}

}  // namespace support
