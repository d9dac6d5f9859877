// Puts and gets of many pieces on the fake driver, whose kernel copies them by memcpy: lists on the
// host and on the device, in the order of streams, with their signals, and what is refused.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/backend/backend.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "kernels/compare.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/piece_list.hpp"
#include "symm/symm.h"
#include "tests/cuda/group.hpp"
#include "tests/cuda/stream_block.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"
#include "tests/support/piece_lists.hpp"
#include "tests/support/sanitizers.hpp"

namespace symm {
namespace {
using namespace cuda;
using namespace support;

using CudaPieces = OnFakeDriver;
using Bytes = std::vector<std::byte>;

constexpr size_t kPieceBytes = 4096;
#if defined(SYMM_UNDER_TSAN) || defined(SYMM_UNDER_ASAN)
constexpr int kPieceLists = 5'000;
#else
constexpr int kPieceLists = 100'000;
#endif
const std::optional<OutgoingSignal> kNone;

StreamBlock block_of(std::shared_ptr<Group> group) {
  std::shared_ptr<Buffer> buffer = Buffer::allocate(*group, kPieceBytes);
  return {std::move(group), std::move(buffer)};
}

PieceList list_of(const std::vector<symm_piece_t>& pieces, bool on_device = false,
    const uint64_t* count_at = nullptr) {
  PieceList list{pieces.data(), pieces.size()};
  list.on_device = on_device;
  list.count_at = count_at;
  return list;
}

TEST_F(CudaPieces, PutAsMemcpyWould) {
  as_groups(2, [](int rank, const auto& group) {
    const StreamBlock block = block_of(group);
    // One rank writes, and the other one's block stays as it is but for that.
    if (rank == 0) {
      const Bytes source = distinct_bytes(kPieceBytes, 1);
      Bytes expected(kPieceBytes);
      PieceLists lists(1, kPieceBytes);
      for (int i = 0; i < kPieceLists; ++i) {
        const std::vector<symm_piece_t> pieces = lists.draw();
        block.memory->put_pieces(
            1, 0, {source.data(), kPieceBytes}, list_of(pieces, i % 2 == 1), kNone, block.stream);
        copy_as_said(expected.data(), source.data(), pieces);
        ASSERT_TRUE(block.bytes_of(1) == expected) << "list " << i;
      }
    }
    block.meet();
    EXPECT_TRUE(block.bytes_of(0) == Bytes(kPieceBytes));
    block.meet();
  });
}

TEST_F(CudaPieces, GetAsMemcpyWould) {
  as_groups(2, [](int rank, const auto& group) {
    const StreamBlock block = block_of(group);
    const Bytes there = distinct_bytes(kPieceBytes, 2);
    if (rank == 1) std::copy(there.begin(), there.end(), block.buffer->data());
    block.meet();
    if (rank == 0) {
      Bytes seen(kPieceBytes);
      Bytes expected(kPieceBytes);
      PieceLists lists(2, kPieceBytes);
      for (int i = 0; i < kPieceLists; ++i) {
        const std::vector<symm_piece_t> pieces = lists.draw();
        block.memory->get_pieces(
            1, 0, {seen.data(), kPieceBytes}, list_of(pieces, i % 2 == 1), kNone, block.stream);
        copy_as_said(expected.data(), there.data(), pieces);
        ASSERT_TRUE(seen == expected) << "list " << i;
      }
    }
    block.meet();
  });
}

// Lists of any length, also those that are too long to travel with the arguments of a kernel.
TEST_F(CudaPieces, PagesGoFromTableToTable) {
  as_groups(1, [](int, const auto& group) {
    const StreamBlock block = block_of(group);
    const Bytes source = distinct_bytes(kPieceBytes, 3);
    PieceLists lists(3, kPieceBytes);
    for (int i = 0; i < kPieceLists / 10; ++i) {
      const size_t page = 1 + lists.below(i % 2 == 0 ? 700 : 5);
      const size_t all = kPieceBytes / page;
      const size_t count = 1 + lists.below(all);
      const std::vector<uint64_t> from = lists.pages(count, all);
      const std::vector<uint64_t> to = lists.pages(count, all);
      PieceList list{nullptr, count, page, i % 3 != 1 ? from.data() : nullptr,
          i % 3 != 2 ? to.data() : nullptr};
      list.on_device = i % 5 == 0;
      std::fill_n(block.buffer->data(), kPieceBytes, std::byte{});
      block.memory->put_pieces(0, 0, {source.data(), kPieceBytes}, list, kNone, block.stream);

      Bytes expected(kPieceBytes);
      for (size_t n = 0; n < count; ++n) {
        copy_as_said(expected.data(), source.data(), list[n]);
      }
      ASSERT_TRUE(block.bytes_of(0) == expected) << "list " << i << " of pages of " << page;
    }
  });
}

// What the caller does with a list on the host behind the call changes nothing, however long the
// stream takes; a list on the device is read when the stream has come to it.
TEST_F(CudaPieces, ListsAreReadWhenTheyAreSaidToBe) {
  as_groups(1, [](int, const auto& group) {
    const StreamBlock block = block_of(group);
    const Bytes source = distinct_bytes(kPieceBytes, 4);
    for (const size_t count : {size_t{10}, size_t{200}}) {
      for (const bool on_device : {false, true}) {
        std::vector<symm_piece_t> pieces;
        for (uint64_t i = 0; i < count; ++i) {
          pieces.push_back({i * 16, i * 16, 1 + i % 16, 1, 0, 0});
        }
        uint64_t number = 0;
        std::vector<symm_piece_t> expected_pieces = pieces;
        std::fill_n(block.buffer->data(), kPieceBytes, std::byte{});

        bool may_go_on = false;
        fake_cuda::enqueue(block.stream, [&] { return may_go_on; });
        block.memory->put_pieces(0, 0, {source.data(), kPieceBytes},
            list_of(pieces, on_device, on_device ? &number : nullptr), OutgoingSignal{0},
            block.stream);
        // The next list needs a buffer of its own.
        block.memory->put_pieces(0, 2048 + 1024, {source.data(), kPieceBytes},
            list_of(std::vector<symm_piece_t>(60, {0, 0, 3, 1, 0, 0})), kNone, block.stream);
        number = count / 2;
        if (on_device) {
          expected_pieces.resize(count / 2);
        } else {
          std::fill(pieces.begin(), pieces.end(), symm_piece_t{});
        }
        EXPECT_TRUE(block.bytes_of(0) == Bytes(kPieceBytes));
        may_go_on = true;
        block.memory->wait_signal(0, 0, 20'000, block.stream);
        block.synchronize();

        Bytes expected(kPieceBytes);
        copy_as_said(expected.data(), source.data(), expected_pieces);
        // The second list came later.
        std::copy(&source[0], &source[3], &expected[3072]);
        EXPECT_TRUE(block.bytes_of(0) == expected) << count << (on_device ? " on the device" : "");
      }
    }
  });
}

// Signals come behind the pieces, in the kernel of the copy or in one of their own, and also where
// there is nothing to copy.
TEST_F(CudaPieces, AreThereWhenTheirSignalIs) {
  as_groups(2, [](int rank, const auto& group) {
    const StreamBlock block = block_of(group);
    for (uint64_t round = 1; round <= 300; ++round) {
      const size_t count = round % 3 == 0 ? 0 : 1 + round % 200;
      const std::vector<uint64_t> mine(count, round << 32);
      std::vector<symm_piece_t> pieces;
      for (uint64_t i = 0; i < count; ++i) {
        pieces.push_back({i * 8, i * 16, 8, 1, 0, 0});
      }
      block.memory->put_pieces(block.other(), 0, {mine.data(), count * 8}, list_of(pieces),
          OutgoingSignal{0, SignalOp::set, round << 32}, block.stream);
      block.memory->wait_signal_value(
          {block.other(), 0, Compare::eq, round << 32}, 20'000, nullptr, block.stream);
      block.synchronize();
      const auto* const words = reinterpret_cast<const uint64_t*>(block.memory->pointer(rank));
      for (uint64_t i = 0; i < count; ++i) {
        ASSERT_EQ(words[2 * i], round << 32) << "word " << i;
      }
      // A get signals that its rank may write again.
      std::vector<uint64_t> theirs(count);
      const symm_piece_t every = {0, 0, count == 0 ? 0 : 8UL, count, 16, 8};
      block.memory->get_pieces(block.other(), 0, {theirs.data(), count * 8}, {&every, 1},
          OutgoingSignal{2}, block.stream);
      block.memory->wait_signal(block.other(), 2, 20'000, block.stream);
      block.synchronize();
      EXPECT_TRUE(std::all_of(
          theirs.begin(), theirs.end(), [&](uint64_t word) { return word == round << 32; }));
    }
    block.meet();
  });
}

// Few bytes and their signal are one kernel; what many blocks copy is signalled behind them, and no
// kernel has more blocks than work.
TEST_F(CudaPieces, AreOneKernelAndASignal) {
  as_groups(1, [](int, const auto& group) {
    const StreamBlock block = block_of(group);
    const Bytes source = distinct_bytes(kPieceBytes, 4);
    fake_cuda::launches();
    const auto kernels_of = [&](const PieceList& list) {
      block.memory->put_pieces(
          0, 0, {source.data(), kPieceBytes}, list, OutgoingSignal{0}, block.stream);
      return launched();
    };
    using Kernels = std::map<std::string, int>;
    const std::vector<symm_piece_t> few(40, {0, 0, 100, 1, 0, 0});
    EXPECT_EQ(kernels_of(list_of(few)), (Kernels{{"symm_copy_pieces", 1}}));
    EXPECT_EQ(kernels_of(list_of({})), (Kernels{{"symm_write_word", 1}}));
    EXPECT_EQ(
        kernels_of(list_of(few, true)), (Kernels{{"symm_copy_pieces", 1}, {"symm_write_word", 1}}));

    const std::vector<symm_piece_t> many(20'000, {0, 0, 16, 1, 0, 0});
    block.memory->put_pieces(
        0, 0, {source.data(), kPieceBytes}, list_of(many), OutgoingSignal{0}, block.stream);
    const std::vector<fake_cuda::Launch> launches = fake_cuda::launches();
    ASSERT_EQ(launches.size(), 2U);
    EXPECT_EQ(launches[0].threads, kCopyThreads);
    EXPECT_GT(launches[0].blocks, 1U);
    block.memory->put_pieces(
        0, 0, {source.data(), kPieceBytes}, list_of(few), OutgoingSignal{0}, block.stream);
    EXPECT_EQ(fake_cuda::launches()[0].blocks, 1U);
    block.synchronize();
    EXPECT_EQ(block.signals_from(0), 5U);
  });
}

// A graph keeps a short list, and reads one on the device; a long one on the host would have to
// stay as long as the graph.
TEST_F(CudaPieces, AreCapturedUnlessTheListIsLong) {
  as_groups(1, [](int, const auto& group) {
    const StreamBlock block = block_of(group);
    const Bytes source = distinct_bytes(kPieceBytes, 4);
    const std::vector<symm_piece_t> pieces(49, {0, 0, 8, 1, 0, 0});
    const std::vector<uint64_t> table(145);
    fake_cuda::launches();
    fake_cuda::begin_capture(block.stream);
    const auto put = [&](const PieceList& list) {
      block.memory->put_pieces(
          0, 0, {source.data(), kPieceBytes}, list, OutgoingSignal{0}, block.stream);
    };
    put({pieces.data(), 48});
    put(list_of(pieces, true));
    put({nullptr, 144, 8, table.data(), table.data()});
    put({nullptr, 400, 8, nullptr, nullptr});
    EXPECT_EQ(launched()["symm_copy_pieces"], 4);

    for (const PieceList& list :
        {list_of(pieces), PieceList{nullptr, 145, 8, table.data(), table.data()}}) {
      expect_failure(Status::unsupported,
          {"call.count: " + std::to_string(list.count) + " pieces", "captured",
              "SYMM_PIECES_ON_DEVICE"},
          [&] { put(list); });
    }
    EXPECT_EQ(launched(), (std::map<std::string, int>{}));
    fake_cuda::end_capture(block.stream);
    put(list_of(pieces));
    block.synchronize();
    EXPECT_TRUE(fake_cuda::violations().empty());
  });
}

// A list on the host is checked before anything is done.
TEST_F(CudaPieces, RefusedListsHaveDoneNothing) {
  as_groups(2, [](int rank, const auto& group) {
    const StreamBlock block = block_of(group);
    const Bytes source = distinct_bytes(64, 5);
    std::vector<symm_piece_t> pieces(1000, {0, 0, 8, 1, 0, 0});
    pieces[777] = {57, 16, 8, 1, 0, 0};
    fake_cuda::launches();
    expect_failure(Status::invalid_argument,
        {"call.pieces[777].from: 8 bytes from byte 57 on go beyond the 64 bytes of source"}, [&] {
          block.memory->put_pieces(block.other(), 0, {source.data(), 64}, list_of(pieces),
              OutgoingSignal{0}, block.stream);
        });
    expect_failure(Status::invalid_argument, {"source: is NULL"}, [&] {
      block.memory->put_pieces(block.other(), 0, {nullptr, SIZE_MAX}, list_of(pieces, true),
          OutgoingSignal{0}, block.stream);
    });
    block.meet();
    EXPECT_TRUE(block.bytes_of(rank) == Bytes(kPieceBytes));
    EXPECT_EQ(block.signals_from(block.other()), 0U);
    block.meet();
  });
}

// Where kernels do not reach pageable memory, a call that names some is refused; on other machines
// it is like any memory.
TEST_F(CudaPieces, LieInMemoryThatKernelsReach) {
  fake_cuda::settings().attributes[CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS] = 0;
  as_groups(1, [](int, const auto& group) {
    const StreamBlock block = block_of(group);
    auto* const known = static_cast<std::byte*>(fake_cuda::ordinary_memory(4096));
    std::vector<symm_piece_t> pieces(2, {0, 0, 8, 1, 0, 0});
    Bytes pageable(64);
    fake_cuda::launches();

    expect_failure(Status::invalid_argument, {"source: lies in pageable memory"}, [&] {
      block.memory->put_pieces(0, 0, {pageable.data(), 64}, list_of(pieces), kNone, block.stream);
    });
    expect_failure(Status::invalid_argument, {"destination: lies in pageable memory"}, [&] {
      block.memory->get_pieces(0, 0, {pageable.data(), 64}, list_of(pieces), kNone, block.stream);
    });
    expect_failure(Status::invalid_argument, {"call.pieces: lies in pageable memory"}, [&] {
      block.memory->put_pieces(0, 0, {known, 64}, list_of(pieces, true), kNone, block.stream);
    });
    EXPECT_EQ(launched(), (std::map<std::string, int>{}));
    block.memory->put_pieces(0, 0, {known, 64}, list_of(pieces), kNone, block.stream);
    block.synchronize();
    fake_cuda::free_ordinary(known);
  });
  fake_cuda::settings().attributes.clear();
}

struct OnDevice {
  std::vector<symm_piece_t> pieces;
  std::vector<uint64_t> table;
  uint64_t count;
  const char* message;
};

// What the device finds wrong in a list that it reads is not copied and not signalled; the group
// fails, and all ranks hear which piece it was.
TEST_F(CudaPieces, ThatTheDeviceReadsAreChecked) {
  const std::vector<symm_piece_t> fine(3, {0, 0, 8, 1, 0, 0});
  const OnDevice cases[] = {
      {{{0, 64, 8, 1, 0, 0}, {60, 0, 8, 1, 0, 0}}, {}, 2,
          "call.pieces[1].from: 8 bytes from byte 60 on go beyond the 64 bytes of source"},
      {{{0, 4090, 2, 3, 8, 4}, {0, 64, 8, 1, 0, 0}}, {}, 2,
          "call.pieces[0].to: 10 bytes from byte 4090 on go beyond the 4096 bytes of the block"},
      {{{0, 64, 8, 1, 0, 0}, {0, 0, 8, 2, 8, 7}}, {}, 2,
          "call.pieces[1].to_stride: 7 is less than the 8 bytes of a row"},
      {fine, {}, 4, "call.device_count: there are 4 pieces, more than the 3 of call.count"},
      {{}, {8, 512}, 2,
          "call.to_table[1]: 8 bytes from byte 4096 on go beyond the 4096 bytes of the block"},
      {{}, {8, 1, 2, 3, 4, 5, 6, 7, 9}, 9,
          "call.count: page 8: 8 bytes from byte 64 on go beyond the 64 bytes of source"},
  };
  for (const OnDevice& one : cases) {
    SCOPED_TRACE(one.message);
    as_groups(2, [&](int rank, const auto& group) {
      const StreamBlock block = block_of(group);
      const Bytes source = distinct_bytes(64, 5);
      if (rank == 0) {
        PieceList list = list_of(one.pieces, true, &one.count);
        if (!one.table.empty()) {
          list = {nullptr, one.table.size(), 8, nullptr, one.table.data(), true, &one.count};
        }
        block.memory->put_pieces(1, 0, {source.data(), 64}, list, OutgoingSignal{0}, block.stream);
        const bool copies = one.count != 4;
        EXPECT_EQ(block.memory->pointer(1)[64], copies ? source[0] : std::byte{});
        EXPECT_EQ(
            reinterpret_cast<const std::atomic<uint64_t>*>(block.memory->pointer(1))->load(), 0U);
        expect_failure(Status::invalid_argument, {"put_pieces: ", one.message, "on the device"},
            [&] { block.synchronize(); });
      } else {
        EXPECT_TRUE(eventually([&] {
          return failure_of([&] { block.group->require_usable(); }).status ==
                 Status::invalid_argument;
        }));
        expect_failure(
            Status::invalid_argument, {one.message}, [&] { block.group->require_usable(); });
      }
    });
  }
}
}  // namespace
}  // namespace symm
