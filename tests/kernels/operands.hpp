// The operands of one test case on all ranks, what the results must be, and whether anything else was written.
#pragma once

#include "tests/kernels/values.hpp"
#include "tests/kernels/world.hpp"
#include "tests/support/test.hpp"

namespace symm::testing {
class Operands {
 public:
  Operands(const Case& c, int size, unsigned seed) : case_(c), size_(size), element_(size_of(c.dtype)) {
    const auto n = static_cast<size_t>(size);
    Values values(c.dtype, c.op, seed);
    const size_t send_count = its_.send_per_rank ? c.count * n : c.count;
    const size_t recv_count = its_.recv_per_rank ? c.count * n : c.count;
    for (size_t rank = 0; rank < n; ++rank) {
      inputs_.push_back(values.make(send_count));
      memory_.emplace_back(2 * (kGuard + 8 * n + 64) + (send_count + recv_count) * element_ + 256, kFill);
    }
    for (size_t rank = 0; rank < n; ++rank) place(rank, send_count * element_, recv_count * element_);
    expect();
  }

  const std::byte* send(int rank) const { return sends_[static_cast<size_t>(rank)]; }
  std::byte* recv(int rank) const { return recvs_[static_cast<size_t>(rank)]; }
  const std::byte* const* sends() const { return sends_.data(); }
  std::byte* const* recvs() const { return recvs_.data(); }
  bool all_direct() const { return case_.all_direct(); }

  void check(int rank_number) const {
    const auto rank = static_cast<size_t>(rank_number);
    // What was written, and then that everything else is as it was.
    const Bytes &result = results_[rank], &memory = memory_[rank];
    Bytes expected = before_[rank];
    if (!result.empty()) {
      ASSERT_EQ(reference::difference(case_.dtype, recvs_[rank], result.data(), result.size() / element_), "")
          << describe(case_, size_) << " rank " << rank;
      std::memcpy(expected.data() + (recvs_[rank] - memory.data()), recvs_[rank], result.size());
    }
    ASSERT_TRUE(expected == memory) << describe(case_, size_) << " rank " << rank << " wrote beside its result";
  }

  // The caller uses its memory again; a rank that writes there afterwards is noticed by check_scribbles(), one that reads it has
  // wrong results.
  void scribble(int rank) const { std::memset(memory_of(rank).data(), 0x5A, memory_of(rank).size()); }
  void check_scribbles() const {
    for (int rank = 0; rank < size_; ++rank)
      for (const std::byte byte : memory_of(rank))
        ASSERT_EQ(byte, std::byte{0x5A}) << describe(case_, size_) << " wrote after its end";
  }
 private:
  static constexpr size_t kGuard = 64;
  static constexpr std::byte kFill{0xC3};

  bool is_root(size_t rank) const { return rank == static_cast<size_t>(case_.root); }
  bool gives_operand(size_t rank) const { return !its_.from_root || is_root(rank); }
  bool gets_result(size_t rank) const { return !its_.to_root || is_root(rank); }
  bool is_in_place(size_t rank) const {
    return case_.place == Case::Place::in || (case_.place == Case::Place::mixed && rank % 2 == 0);
  }
  std::vector<std::byte>& memory_of(int rank) const { return memory_[static_cast<size_t>(rank)]; }

  void place(size_t rank, size_t send_bytes, size_t recv_bytes) {
    std::vector<std::byte>& memory = memory_[rank];
    const size_t shift = case_.misalignment == 0 ? 0 : case_.misalignment + rank;
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    const size_t first = kGuard + (64 - address % 64) % 64 + shift % 64;
    std::byte* recv = memory.data() + first;
    std::byte* send = recv + (recv_bytes + kGuard + 63) / 64 * 64 + 2 * shift % 64;
    if (is_in_place(rank) && gives_operand(rank) && gets_result(rank)) {
      if (case_.collective == Collective::reduce_scatter) {
        send = recv;
        recv = send + rank * recv_bytes;
      } else if (case_.collective == Collective::allgather) {
        send = recv + rank * send_bytes;
      } else {
        send = recv;
      }
    }
    if (gives_operand(rank) && send_bytes > 0) std::memcpy(send, inputs_[rank].data(), send_bytes);
    sends_.push_back(gives_operand(rank) && send_bytes > 0 ? send : nullptr);
    recvs_.push_back(gets_result(rank) && recv_bytes > 0 ? recv : nullptr);
    before_.push_back(memory);
  }

  void expect() {
    // One rank alone copies, so f8 infinities do not saturate; but a bool is 0 or 1.
    const bool copies = size_ == 1 && case_.dtype != DType::boolean;
    const auto combine = [&](const std::vector<uint64_t>& bits) {
      return copies ? bits[0] : reference::reduce(case_.dtype, case_.op, bits);
    };
    std::map<size_t, Bytes> made;  // by where they begin
    const auto reduced = [&](size_t at) {
      if (!made.contains(at)) made[at] = reference::combined(case_.dtype, inputs_, at, case_.count, case_.dtype, combine);
      return made[at];
    };
    for (int rank = 0; rank < size_; ++rank)
      results_.push_back(reference::result_of(case_.collective, inputs_, case_.count * element_, rank, case_.root, reduced));
  }

  using Bytes = reference::Bytes;
  const Case case_;
  const CollectiveTraits its_ = traits(case_.collective);
  const int size_;
  const size_t element_;
  std::vector<Bytes> inputs_;
  mutable std::vector<Bytes> memory_;
  std::vector<Bytes> before_, results_;
  std::vector<const std::byte*> sends_;
  std::vector<std::byte*> recvs_;
};
}  // namespace symm::testing
