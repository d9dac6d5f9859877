// Words of blocks on the fake driver: changes in one step, which kernels do and whose launches the
// driver carries out, reads beside all streams, and copies of a value.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/backend/backend.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "kernels/compare.hpp"
#include "tests/cuda/group.hpp"
#include "tests/cuda/stream_block.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"

namespace symm {
namespace {
using namespace cuda;
using namespace support;

using CudaWords = OnFakeDriver;

TEST_F(CudaWords, AreChangedInTheOrderOfTheStream) {
  as_groups(2, [](int rank, const auto& group) {
    constexpr uint64_t kAdds = 500;
    const StreamBlock block{group};
    std::vector<uint64_t> fetched(kAdds);
    for (uint64_t& before : fetched) {
      block.memory->change_value(0, 8, {AtomicOp::add, 8, 1}, &before, block.stream);
    }
    // Nobody wants to know what this word was.
    block.memory->change_value(
        1, 4, {AtomicOp::bor, 4, uint64_t{1} << rank}, nullptr, block.stream);
    block.synchronize();
    EXPECT_TRUE(std::is_sorted(fetched.begin(), fetched.end()));
    EXPECT_EQ(std::adjacent_find(fetched.begin(), fetched.end()), fetched.end());

    // What ranks put with a signal is there when it is waited for.
    block.memory->put(1 - rank, 1024, fetched.data(), kAdds * 8, block.stream);
    block.memory->send_signal(1 - rank, 0, SignalOp::add, 1, block.stream);
    block.memory->wait_signal(1 - rank, 0, 20'000, block.stream);
    block.synchronize();
    std::vector<uint64_t> all(fetched);
    all.insert(
        all.end(), block.template at<uint64_t>(1024), block.template at<uint64_t>(1024) + kAdds);
    std::sort(all.begin(), all.end());
    for (uint64_t i = 0; i < 2 * kAdds; ++i) {
      ASSERT_EQ(all[i], i) << "both ranks together have fetched each value once";
    }

    EXPECT_EQ(block.memory->read_value(0, 8, 8), 2 * kAdds);
    EXPECT_EQ(block.memory->read_value(1, 4, 4), 3U);
    EXPECT_EQ(block.memory->read_value(1, 0, 8), uint64_t{3} << 32);
    block.meet();
  });
}

// By a link without atomic operations, others could come between the read and the write of a
// change. Nothing is refused on the device itself.
TEST_F(CudaWords, AreNotChangedOverLinksWithoutAtomics) {
  fake_cuda::settings().native_atomics = false;
  as_groups(2, [](int rank, const auto& group) {
    const StreamBlock block{group};
    uint64_t fetched = 7;
    expect_failure(Status::unsupported,
        {"atomic: the word is in the block of rank " + std::to_string(1 - rank), "PCIe"}, [&] {
          block.memory->change_value(1 - rank, 8, {AtomicOp::add, 8, 1}, &fetched, block.stream);
        });
    block.memory->change_value(rank, 8, {AtomicOp::add, 8, 4}, &fetched, block.stream);
    // Stores and reads need no such link.
    block.memory->write_value(1 - rank, 16, 3, 8, block.stream);
    block.meet();
    EXPECT_EQ(fetched, 0U);
    EXPECT_EQ(block.memory->read_value(1 - rank, 8, 8), 4U);
    EXPECT_EQ(block.memory->read_value(rank, 16, 8), 3U);
    block.meet();
  });

  // Ranks that share a device need no link.
  as_groups(
      2,
      [](int rank, const auto& group) {
        const StreamBlock block{group};
        block.memory->change_value(1 - rank, 8, {AtomicOp::add, 8, 4}, nullptr, block.stream);
        block.meet();
        EXPECT_EQ(block.memory->read_value(rank, 8, 8), 4U);
        block.meet();
      },
      [](GroupConfig& config) {
        config.device = 0;
        config.overlapping_devices = true;
      });
  fake_cuda::settings().native_atomics = true;
}

// A word is read while a stream waits, and in the middle of a capture.
TEST_F(CudaWords, AreReadBesideAllStreams) {
  as_groups(1, [](int, const auto& group) {
    const StreamBlock block{group};
    void* const other = stream_of_number(77);
    block.memory->write_value(0, 16, 5, 8, block.stream);
    block.synchronize();
    block.memory->wait_value(24, 8, Compare::eq, 1, 20'000, block.stream);
    fake_cuda::begin_capture(other);
    EXPECT_EQ(block.memory->read_value(0, 16, 8), 5U);
    EXPECT_EQ(block.memory->read_value(0, 16, 4), 5U);
    EXPECT_TRUE(fake_cuda::violations().empty());
    fake_cuda::end_capture(other);
    block.memory->change_value(0, 24, {AtomicOp::add, 8, 1}, nullptr, stream_of_number(78));
    block.synchronize();
  });
}

TEST_F(CudaWords, HoldCopiesOfAValueOfAnySize) {
  as_groups(2, [](int rank, const auto& group) {
    const StreamBlock block{group};
    const auto expect_filled = [&](uint64_t value, size_t bytes) {
      constexpr size_t kCount = 100;
      block.memory->fill(1 - rank, 16, {value, bytes, kCount}, block.stream);
      block.memory->fill(1 - rank, 8, {value, bytes, 0}, block.stream);
      block.meet();
      const uint8_t* const at = block.template at<uint8_t>(0);
      EXPECT_EQ(at[15], 0U) << bytes;
      for (size_t i = 0; i < bytes * kCount; ++i) {
        ASSERT_EQ(at[16 + i], value >> i % bytes * 8 & 0xFFU) << bytes << " bytes, byte " << i;
      }
      block.meet();
    };
    expect_filled(0xA5, 1);
    expect_filled(0xA5B6, 2);
    expect_filled(0xA5B6C7D8, 4);
    expect_filled(0x0102030405060708, 8);
    // The halves of the value are alike, for which the driver has one call.
    expect_filled(0x0102030401020304, 8);
  });
}
}  // namespace
}  // namespace symm
