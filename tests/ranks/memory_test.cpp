// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <thread>

#include "tests/ranks/ranks.hpp"

namespace ranks {
namespace {

TEST(Memory, EveryRankSeesEveryBlock) {
  const BootstrapResult meeting;
  Processes processes(4, [&](int rank) {
    const Group group = create(meeting.processes(), rank, 4);
    const Block block = allocate(group, 1000);
    auto* mine = block.at<uint32_t>(rank);
    for (uint32_t i = 0; i < 250; ++i) EXPECT_EQ(mine[i], 0U) << "fresh memory is zero";
    barrier(group);  // or a quick peer writes before this rank has looked
    for (int peer = 0; peer < 4; ++peer) block.at<uint32_t>(peer)[rank] = static_cast<uint32_t>(100 * peer + rank);
    barrier(group);
    for (uint32_t source = 0; source < 4; ++source) EXPECT_EQ(mine[source], 100U * static_cast<uint32_t>(rank) + source);
    barrier(group);
  });
  processes.expect_success();
}

TEST(Memory, InfoTablesAndPads) {
  as_threads(3, [](int rank, const Group& group) {
    const Block block = allocate(group, 12345);
    symm_memory_info_t info{};
    info.struct_size = sizeof info;
    check(symm_memory_info(block.memory.get(), &info));
    EXPECT_EQ(info.rank, rank);
    EXPECT_EQ(info.size, 3);
    EXPECT_EQ(info.bytes, 12345U);
    EXPECT_EQ(info.channels, 64);
    EXPECT_EQ(info.signal_pad_bytes, 64 * 3 * 4);
    void* const* pointers = nullptr;
    void* const* pads = nullptr;
    check(symm_memory_pointer_table(block.memory.get(), &pointers));
    check(symm_memory_signal_pad_table(block.memory.get(), &pads));
    for (int peer = 0; peer < 3; ++peer) {
      EXPECT_EQ(pointers[peer], block.pointer(peer));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(pointers[peer]) % 4096, 0U);
      void* pad = nullptr;
      check(symm_memory_signal_pad(block.memory.get(), peer, &pad));
      EXPECT_EQ(pads[peer], pad);
    }
    void* none = nullptr;
    EXPECT_EQ(symm_memory_pointer(block.memory.get(), 3, &none), SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(symm_memory_pointer(block.memory.get(), -1, &none), SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(none, nullptr);
    barrier(group);
  });
}

TEST(Memory, FindsAnyInteriorPointer) {
  as_threads(3, [](int rank, const Group& group) {
    const Block first = allocate(group, 5000);
    const Block second = allocate(group, 7000);
    for (const Block* block : {&first, &second}) {
      const size_t bytes = block == &first ? 5000 : 7000;
      for (int peer = 0; peer < 3; ++peer) {
        for (const size_t offset : {size_t{0}, size_t{1}, size_t{4097}, bytes - 1}) {
          symm_memory_t* found = nullptr;
          int32_t owner = -1;
          size_t at = 0;
          check(symm_memory_find(group.get(), block->at<char>(peer) + offset, &found, &owner, &at));
          const Memory keep(found);
          EXPECT_EQ(owner, peer);
          EXPECT_EQ(at, offset);
          void* start = nullptr;
          check(symm_memory_pointer(found, peer, &start));
          EXPECT_EQ(start, block->pointer(peer));
        }
        EXPECT_EQ(symm_memory_find(group.get(), block->at<char>(peer) + bytes, nullptr, nullptr, nullptr),
                  SYMM_ERR_INVALID_ARGUMENT);
      }
    }
    EXPECT_EQ(symm_memory_find(group.get(), &rank, nullptr, nullptr, nullptr), SYMM_ERR_INVALID_ARGUMENT);
    barrier(group);
  });
}

TEST(Memory, ForgetsReleasedMemory) {
  as_threads(2, [](int rank, const Group& group) {
    Block block = allocate(group, 64);
    void* mine = block.pointer(rank);
    barrier(group);
    block.memory.reset();
    EXPECT_EQ(symm_memory_find(group.get(), mine, nullptr, nullptr, nullptr), SYMM_ERR_INVALID_ARGUMENT);
    void* still = nullptr;
    check(symm_buffer_pointer(block.buffer.get(), &still));
    EXPECT_EQ(still, mine) << "the buffer is another handle";
    barrier(group);
  });
}

TEST(Memory, OneBufferOnSeveralGroups) {
  const BootstrapResult meeting;
  Processes processes(4, [&](int rank) {
    const Group group = create(meeting.processes(), rank, 4);
    const Group pair = split(group, rank / 2, rank);
    const Block whole = allocate(group, 4096);
    symm_memory_t* raw = nullptr;
    check(symm_rendezvous(pair.get(), whole.buffer.get(), 0, &raw));
    const Memory both(raw);
    const int neighbour = rank % 2 == 0 ? 1 : 0;
    void* through_pair = nullptr;
    check(symm_memory_pointer(both.get(), neighbour, &through_pair));
    EXPECT_EQ(through_pair, whole.pointer(rank / 2 * 2 + neighbour)) << "a process maps a block once";
    static_cast<int*>(through_pair)[7] = 70 + rank;
    barrier(group);
    EXPECT_EQ(whole.at<int>(rank)[7], 70 + rank / 2 * 2 + neighbour);
    barrier(group);
  });
  processes.expect_success();
}

TEST(Memory, OutlivesGroupHandleBufferHandleAndPeers) {
  const BootstrapResult meeting;
  Processes processes(2, [&](int rank) {
    Group group = create(meeting.processes(), rank, 2);
    Block block = allocate(group, 4096);
    block.at<int>(rank)[0] = 42 + rank;
    barrier(group);
    if (rank == 1) return;  // leaves in good order
    group.reset();
    block.buffer.reset();
    usleep(100'000);
    EXPECT_EQ(block.at<int>(1)[0], 43) << "a mapped block stays while somebody maps it";
  });
  processes.expect_success();
}

TEST(Memory, SizesMustAgree) {
  as_threads(3, [](int rank, const Group& group) {
    symm_buffer_t* raw = nullptr;
    check(symm_alloc(group.get(), rank == 2 ? 200 : 100, 0, &raw));
    const Buffer buffer(raw);
    symm_memory_t* memory = nullptr;
    EXPECT_EQ(symm_rendezvous(group.get(), raw, 0, &memory), SYMM_ERR_MISMATCH);
    EXPECT_EQ(memory, nullptr);
    EXPECT_NE(std::string(symm_last_error()).find("rank 2 brings 200"), std::string::npos) << symm_last_error();
    const Block good = allocate(group, 100);  // the group is none the worse for it
    barrier(group);
  });
}

TEST(Memory, TooLargeAnAllocationNamesTheLimit) {
  as_threads(1, [](int, const Group& group) {
    symm_buffer_t* buffer = nullptr;
    EXPECT_EQ(symm_alloc(group.get(), size_t{1} << 60, 0, &buffer), SYMM_ERR_OUT_OF_MEMORY) << symm_last_error();
    EXPECT_EQ(symm_alloc(group.get(), SIZE_MAX, 0, &buffer), SYMM_ERR_OUT_OF_MEMORY) << symm_last_error();
    EXPECT_EQ(symm_alloc(group.get(), 0, 0, &buffer), SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(buffer, nullptr);
  });
}

// Node 0 is there wherever there are nodes; a sandbox may forbid to bind memory.
TEST(Memory, OnANodeThatIsNamed) {
  as_threads(2, [](int rank, const Group& group) {
    const auto flags = SYMM_ALLOC_HOST | uint64_t{0 + 1} << SYMM_ALLOC_NODE_SHIFT;
    symm_buffer_t* raw = nullptr;
    const symm_status_t status = symm_alloc(group.get(), 10'000, flags, &raw);
    if (status != SYMM_OK) {
      EXPECT_EQ(status, SYMM_ERR_UNAVAILABLE) << symm_last_error();
      EXPECT_NE(std::string(symm_last_error()).find("mbind"), std::string::npos) << symm_last_error();
      check(symm_alloc(group.get(), 10'000, SYMM_ALLOC_HOST, &raw));
    }
    Block block;
    block.buffer.reset(raw);
    symm_memory_t* memory = nullptr;
    check(symm_rendezvous(group.get(), raw, 0, &memory));
    block.memory.reset(memory);
    block.at<int>(1 - rank)[2000] = 5 + rank;
    barrier(group);
    EXPECT_EQ(block.at<int>(rank)[2000], 6 - rank);
    barrier(group);
  });
}

TEST(Memory, ManyThreadsRendezvousAtOnceOnOneGroup) {
  const BootstrapResult meeting;
  Processes processes(3, [&](int rank) {
    const Group group = create(meeting.processes(), rank, 3);
    std::vector<std::thread> threads;
    for (uint64_t tag = 1; tag <= 8; ++tag) {
      threads.emplace_back([&, tag] {
        for (int round = 0; round < 20; ++round) {
          const Block block = allocate(group, 64 * tag, tag);
          block.at<uint64_t>((rank + 1) % 3)[0] = tag * 1000 + static_cast<uint64_t>(round);
          check(symm_put_signal(block.memory.get(), (rank + 1) % 3, 0, nullptr));
          check(symm_wait_signal(block.memory.get(), (rank + 2) % 3, 0, 0, nullptr));
          EXPECT_EQ(block.at<uint64_t>(rank)[0], tag * 1000 + static_cast<uint64_t>(round));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    barrier(group);
  });
  processes.expect_success();
}

TEST(Data, PutGetFillWrite) {
  const BootstrapResult meeting;
  Processes processes(2, [&](int rank) {
    const Group group = create(meeting.processes(), rank, 2);
    const size_t bytes = size_t{1} << 20;
    const Block block = allocate(group, bytes);
    const int peer = 1 - rank;
    symm_memory_t* memory = block.memory.get();
    std::vector<unsigned char> pattern(bytes);
    for (size_t i = 0; i < bytes; ++i) pattern[i] = static_cast<unsigned char>(i * 7 + static_cast<size_t>(rank));
    for (const size_t size : {size_t{0}, size_t{1}, size_t{3}, size_t{64}, size_t{1001}, bytes - 5}) {
      check(symm_put_with_signal(memory, peer, 5, pattern.data(), size, 3, nullptr));
      check(symm_wait_signal(memory, peer, 3, 0, nullptr));
      for (size_t i = 0; i < size; ++i) {
        ASSERT_EQ(block.at<unsigned char>(rank)[5 + i], static_cast<unsigned char>(i * 7 + static_cast<size_t>(peer)))
            << size << " at " << i;
      }
      std::vector<unsigned char> back(size + 1, 0xEE);
      check(symm_get(memory, peer, 5, back.data(), size, nullptr));
      barrier(group);
      EXPECT_EQ(std::memcmp(back.data(), pattern.data(), size), 0);
      EXPECT_EQ(back[size], 0xEE);
    }
    check(symm_fill32(memory, peer, 8, 0xDEADBEEF, 1000, nullptr));
    check(symm_write_value32(memory, peer, 4, 17, nullptr));
    barrier(group);
    EXPECT_EQ(block.at<uint32_t>(rank)[1], 17U);
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(block.at<uint32_t>(rank)[2 + i], 0xDEADBEEFU);
    EXPECT_NE(block.at<uint32_t>(rank)[1002], 0xDEADBEEFU);

    EXPECT_EQ(symm_put(memory, peer, bytes - 3, pattern.data(), 4, nullptr), SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(symm_put(memory, peer, SIZE_MAX, pattern.data(), 2, nullptr), SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(symm_get(memory, 2, 0, pattern.data(), 4, nullptr), SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(symm_fill32(memory, peer, 2, 0, 1, nullptr), SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(symm_fill32(memory, peer, 0, 0, SIZE_MAX / 2, nullptr), SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(symm_write_value32(memory, peer, bytes, 0, nullptr), SYMM_ERR_INVALID_ARGUMENT);
    int stream = 0;
    EXPECT_EQ(symm_put(memory, peer, 0, pattern.data(), 4, &stream), SYMM_ERR_INVALID_ARGUMENT);
    barrier(group);
  });
  processes.expect_success();
}

}  // namespace
}  // namespace ranks
