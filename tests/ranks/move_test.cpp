// Memories and heaps that move to a group that has grown: what survivors have stays where it is,
// newcomers get their part, and whoever dies meanwhile, all that live have the same.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/ranks/failure.hpp"
#include "tests/ranks/growth.hpp"

namespace support {
namespace {
using Memory = symm::Memory;
using Heap = symm::Heap;

// Where a memory lies in a process, as far as programs can keep it.
struct Places {
  std::vector<std::byte*> blocks;
  std::vector<uint64_t*> pads;
  void* const* pointer_table = nullptr;
  uint64_t* const* pad_table = nullptr;

  Places(const Memory& memory, int size)
      : pointer_table(memory.pointer_table()), pad_table(memory.signal_pad_table()) {
    for (int rank = 0; rank < size; ++rank) {
      blocks.push_back(memory.span(rank).data());
      pads.push_back(memory.signal_pad(rank).data());
    }
  }
};

void expect_tables(const Memory& memory, int size) {
  const Places there(memory, size);
  for (int rank = 0; rank < size; ++rank) {
    const auto at = static_cast<size_t>(rank);
    EXPECT_EQ(there.pointer_table[at], there.blocks[at]) << rank;
    EXPECT_EQ(there.pad_table[at], there.pads[at]) << rank;
  }
}

void expect_pads_of_zeros(const Memory& memory, int size) {
  for (int rank = 0; rank < size; ++rank) {
    const auto pad = memory.signal_pad(rank);
    EXPECT_TRUE(std::all_of(pad.begin(), pad.end(), [](uint64_t word) { return word == 0; }));
  }
}

// Every rank signals and hears every rank, and writes to every block by the table of addresses.
void expect_works(const Group& group, const Memory& memory, void* const* table) {
  const int size = group.size();
  group.barrier();
  for (int rank = 0; rank < size; ++rank) {
    static_cast<int*>(table[rank])[64 + group.rank()] = 100 * group.rank() + rank;
    memory.signal(rank, 1);
  }
  for (int rank = 0; rank < size; ++rank) {
    memory.wait_signal(rank, 1);
    EXPECT_EQ(memory.span<int>()[static_cast<size_t>(64 + rank)], 100 * rank + group.rank());
  }
  expect_sum(group);
}

TEST(Move, BlocksPadsAndTablesStayWhereTheyAre) {
  const Scene scene;
  constexpr int kSize = 4;
  constexpr int kDead = 1;
  Processes ranks(kSize + 1, [&](int who) {
    if (who == kSize) {
      const Group group = Group::join(scene.ticket->await(), newcomer());
      const Memory memory = group.move_memory({});
      EXPECT_EQ(memory.info().bytes, 8192U);
      EXPECT_EQ(memory.info().channels, 5);
      const auto mine = memory.span<int>();
      EXPECT_TRUE(std::all_of(mine.begin(), mine.end(), [](int word) { return word == 0; }));
      expect_pads_of_zeros(memory, kSize);
      expect_tables(memory, kSize);
      EXPECT_EQ(memory.span<int>(0)[0], 1000);
      expect_works(group, memory, memory.pointer_table());
      group.finalize();
      return;
    }

    Config config = scene.meeting.processes();
    config.channels = 5;
    const Group group = create(config, who, kSize);
    if (who == 0) scene.ticket->set(group.invite());
    const symm::Buffer buffer = group.allocate(8192);
    const Memory memory = group.rendezvous(buffer);
    memory.span<int>()[0] = 1000 + who;
    for (int rank = 0; rank < kSize; ++rank) {
      memory.signal(rank, 1);  // nobody takes it: it is void after the move
    }
    group.barrier();
    const Places before(memory, kSize);
    all_there(*scene.facts, kSize);
    if (who == kDead) raise(SIGKILL);
    EXPECT_EQ(until_failure([&] { group.barrier({}, 1); }), SYMM_ERR_PEER_FAILED);

    const Group whole = group.grow(filling());
    const Memory moved = whole.move_memory(memory);
    const Places after(moved, kSize);
    EXPECT_EQ(after.pointer_table, before.pointer_table);
    EXPECT_EQ(after.pad_table, before.pad_table);
    EXPECT_EQ(after.pads, before.pads);
    for (size_t rank = 0; rank < kSize; ++rank) {
      EXPECT_EQ(after.blocks[rank] == before.blocks[rank], rank != kDead) << rank;
    }
    expect_tables(moved, kSize);
    EXPECT_EQ(memory.pointer_table()[kDead], moved.span(kDead).data());
    EXPECT_EQ(memory.span<int>(kDead)[0], 1000 + kDead) << "the block of the dead";
    for (const int rank : {0, 2, 3}) {
      EXPECT_EQ(moved.span<int>(rank)[0], 1000 + rank);
    }
    expect_works(whole, moved, before.pointer_table);

    EXPECT_EQ(whole.memory_of(buffer).info().id, moved.info().id);
    whole.finalize();
  });
  ranks.expect_success({kDead});
}

TEST(Move, SignalsAreThoseOfTheNewMemory) {
  as_threads(2, [](int rank, const Group& group) {
    const Memory memory = group.rendezvous(group.allocate(4096));
    memory.signal(1 - rank, 0);
    group.barrier();
    const Group other = group.grow();
    const Memory moved = other.move_memory(memory);
    EXPECT_EQ(moved.span(1 - rank).data(), memory.span(1 - rank).data());
    symm_call_options_t now = SYMM_CALL_OPTIONS_INIT;
    now.timeout_ms = SYMM_TIMEOUT_NOW;
    EXPECT_EQ(symm_wait_signal(moved.get(), 1 - rank, 0, &now, nullptr), SYMM_ERR_TIMEOUT)
        << "a signal from before";
    other.barrier();

    const std::initializer_list<std::string> words = {"memory", "has moved"};
    expect_failure(SYMM_ERR_INVALID_HANDLE, words, [&] { memory.signal(1 - rank, 0); });
    expect_failure(SYMM_ERR_INVALID_HANDLE, words, [&] { memory.wait_signal(1 - rank, 0); });
    expect_failure(SYMM_ERR_INVALID_HANDLE, words, [&] { other.move_memory(memory); });
    expect_works(other, moved, moved.pointer_table());
    group.barrier();  // the old group goes on
  });
}

// Takes and frees pieces, the same on all ranks; returns where they lie.
std::vector<size_t> use_heap(const Heap& heap, uint64_t seed, std::vector<void*>& pieces) {
  std::mt19937_64 random(seed);
  std::vector<size_t> offsets;
  for (int call = 0; call < 400; ++call) {
    if (pieces.size() > 3 && random() % 100 < 45) {
      const size_t at = random() % pieces.size();
      symm::check(symm_heap_free(heap.get(), pieces[at], nullptr), "symm_heap_free");
      pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(at));
      continue;
    }
    void* piece = nullptr;
    size_t offset = 0;
    const size_t bytes = 1 + random() % 9000;
    const size_t alignment = size_t{256} << random() % 4;
    const symm_status_t status =
        symm_heap_alloc(heap.get(), bytes, alignment, nullptr, &piece, &offset);
    offsets.push_back(status == SYMM_OK ? offset : SIZE_MAX);
    if (status == SYMM_OK) pieces.push_back(piece);
  }
  return offsets;
}

uint64_t sum_of(const std::vector<size_t>& offsets) {
  uint64_t sum = 0;
  for (const size_t offset : offsets) {
    sum = sum * 31 + offset;
  }
  return sum;
}

TEST(Move, AHeapGoesOnAndNewcomersKnowItsPieces) {
  const Scene scene;
  constexpr int kSize = 3;
  const Shared<std::array<std::atomic<uint64_t>, kSize>> sums;
  Processes ranks(kSize + 1, [&](int who) {
    Group group;
    Heap heap;
    std::vector<void*> pieces;
    if (who == kSize) {
      symm_group_config_t checks = newcomer();
      checks.flags = SYMM_GROUP_CHECK;
      group = Group::join(scene.ticket->await(), checks);
      heap = group.move_heap({});
      // What is in use on the others is so here, too, at the same offsets.
      const symm_heap_info_t info = heap.info();
      auto* const start = heap.memory().span().data();
      for (size_t offset = 0; offset < info.bytes; offset += 256) {
        void* piece = nullptr;
        size_t bytes = 0;
        if (symm_heap_find(heap.get(), start + offset, nullptr, &piece, &bytes) != SYMM_OK)
          continue;
        if (piece == start + offset) pieces.push_back(piece);
      }
      EXPECT_EQ(info.pieces, pieces.size());
    } else {
      Config config = scene.meeting.processes();
      config.flags |= SYMM_GROUP_CHECK;
      const Group old = create(config, who, kSize);
      if (who == 0) scene.ticket->set(old.invite());
      const Heap before = old.heap(300'000);
      use_heap(before, 11, pieces);
      auto* const start = before.memory().span().data();
      old.barrier();
      all_there(*scene.facts, kSize);
      if (who == 2) raise(SIGKILL);
      EXPECT_EQ(until_failure([&] { old.barrier({}, 1); }), SYMM_ERR_PEER_FAILED);
      group = old.grow(filling());
      heap = group.move_heap(before);
      EXPECT_EQ(heap.memory().span().data(), start);
      std::sort(pieces.begin(), pieces.end());
      expect_failure(SYMM_ERR_PEER_FAILED, {}, [&] { before.allocate<float>(8); });
    }

    const size_t there = pieces.size();
    EXPECT_GT(there, 3U);
    (*sums)[static_cast<size_t>(group.rank())] = sum_of(use_heap(heap, 12, pieces));
    expect_sum(group);  // compares the calls of heaps
    for (const auto& sum : *sums) {
      EXPECT_EQ(sum, (*sums)[0]);
    }
    group.finalize();
  });
  ranks.expect_success({2});
}

TEST(Move, ToAGroupOfOtherRanksBlocksAndOffsetsStay) {
  const auto body = [](int who, const Config& config, Facts& facts) {
    const Group group = create(config, who, 3);
    const Memory memory = group.rendezvous(group.allocate(4096));
    const Heap heap = group.heap(65'536);
    void* piece = nullptr;
    size_t offset = 0;
    symm::check(symm_heap_alloc(heap.get(), 100, 0, nullptr, &piece, &offset), "symm_heap_alloc");
    memory.span<int>()[0] = who;
    group.barrier();
    all_there(facts, 3);
    if (who == 0) raise(SIGKILL);
    EXPECT_EQ(until_failure([&] { group.barrier({}, 1); }), SYMM_ERR_PEER_FAILED);

    const Group rest = group.shrink();
    const Memory moved = rest.move_memory(memory);
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(moved.span(rank).data(), memory.span(rank + 1).data());
      EXPECT_EQ(moved.span<int>(rank)[0], rank + 1);
    }
    expect_tables(moved, 2);
    expect_pads_of_zeros(moved, 2);
    expect_works(rest, moved, moved.pointer_table());

    const Heap same = rest.move_heap(heap);
    EXPECT_EQ(same.info().pieces, 1U);
    // The piece is the new heap's, whichever handle frees it.
    symm::check(symm_heap_free(heap.get(), piece, nullptr), "symm_heap_free");
    EXPECT_EQ(same.info().pieces, 0U);
    rest.finalize();
  };
  as_ranks(3, body, {.die = {0}});
}

TEST(Move, WhatRanksBringIsCompared) {
  as_threads(2, [](int rank, const Group& group) {
    const Memory one = group.rendezvous(group.allocate(4096));
    const Memory two = group.rendezvous(group.allocate(4096));
    const Heap heap = group.heap(4096);
    const Group other = group.grow();
    expect_failure(
        SYMM_ERR_MISMATCH, {"memory", "rank 1"}, [&] { other.move_memory(rank == 0 ? one : two); });
    expect_failure(SYMM_ERR_INVALID_ARGUMENT, {"NULL on all"}, [&] { other.move_memory({}); });
    expect_failure(SYMM_ERR_INVALID_ARGUMENT, {"new_group"}, [&] { group.move_memory(one); });
    if (rank == 1) heap.allocate<float>(8);
    expect_failure(SYMM_ERR_MISMATCH, {"heap", "different calls"}, [&] { other.move_heap(heap); });
    expect_works(other, other.move_memory(one), one.pointer_table());
    expect_failure(SYMM_ERR_MISMATCH, {"makes memory_move", "makes heap_move"}, [&] {
      if (rank == 0) other.move_memory(two);
      if (rank == 1) other.move_heap(heap);
    });
  });
}

TEST(Move, ARankInAnotherCallIsNamedLongBeforeTheDeadline) {
  as_threads(2, [](int rank, const Group& group) {
    const Memory memory = group.rendezvous(group.allocate(4096));
    const Group other = group.grow();
    const auto began = std::chrono::steady_clock::now();
    expect_failure(SYMM_ERR_MISMATCH, {"rank 0", "rank 1"}, [&] {
      if (rank == 0) other.move_memory(memory);
      if (rank == 1) other.barrier();
    });
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(8));
  });
}

// What a process holds, and what its moves ended with.
struct Held {
  Memory memory;
  Heap heap;
};
struct Ends {
  std::atomic<int> of_memory;
  std::atomic<int> of_heap;
};

void try_to_move(const Group& group, Held& held, Ends& ends) {
  const Outcome of_memory = outcome_of([&] { held.memory = group.move_memory(held.memory); });
  const Outcome of_heap = outcome_of([&] { held.heap = group.move_heap(held.heap); });
  for (const Outcome& one : {of_memory, of_heap}) {
    EXPECT_TRUE(one.status == SYMM_OK || one.status == SYMM_ERR_PEER_FAILED) << one.message;
  }
  ends.of_memory = of_memory.status + 1000;
  ends.of_heap = of_heap.status + 1000;
}

// A member or a newcomer is killed while a memory and a heap move, at any moment. All that live
// have what they move on the new group, or none has, and then they move it to the next group.
TEST(Move, WhoeverDiesMeanwhileAllThatLiveHaveTheSame) {
  const char* const asked = std::getenv("SYMM_TEST_GROWTHS");
  const int trials = asked != nullptr ? std::atoi(asked) : 20;
  std::mt19937 random(815);  // NOLINT(bugprone-random-generator-seed,cert-msc32-c,cert-msc51-cpp)
  constexpr int kSize = 3;
  constexpr int kDead = 2;  // before the group grows; its number goes to the first newcomer

  for (int trial = 0; trial < trials; ++trial) {
    const Scene scene;
    const Shared<std::array<Ends, kSize + 1>> ends;
    const int victim = std::array{0, 1, kSize}[random() % 3];
    const auto delay = std::chrono::microseconds(random() % 4'000);

    Processes ranks(kSize + 2, [&](int who) {
      Held held;
      std::vector<void*> pieces;
      if (who == kSize + 1) {
        // It comes when the first newcomer has its rank.
        EXPECT_TRUE(eventually([&] { return scene.facts->ready != 0; }));
        const Group last = Group::join(scene.ticket->await(), newcomer());
        held = {last.move_memory({}), last.move_heap({})};
        expect_works(last, held.memory, held.memory.pointer_table());
        return last.finalize();
      }

      Group whole;
      void* const* table = nullptr;
      if (who == kSize) {
        whole = Group::join(scene.ticket->await(), newcomer());
        ++scene.facts->ready;
      } else {
        const Group group = create(scene.meeting.processes(), who, kSize);
        if (who == 0) scene.ticket->set(group.invite());
        held = {group.rendezvous(group.allocate(4096)), group.heap(65'536)};
        use_heap(held.heap, 5, pieces);
        table = held.memory.pointer_table();
        held.memory.span<int>()[0] = who;
        all_there(*scene.facts, kSize);
        if (who == kDead) raise(SIGKILL);
        until_failure([&] { group.barrier({}, 1); });
        whole = group.grow(filling());
      }

      if (who == victim) die_soon(delay);
      try_to_move(whole, held, (*ends)[static_cast<size_t>(who)]);
      until_failure([&] { whole.barrier({}, 1); });
      const Group last = whole.grow(filling());
      held = {last.move_memory(held.memory), last.move_heap(held.heap)};
      if (table != nullptr) {
        EXPECT_EQ(held.memory.pointer_table(), table);
        EXPECT_EQ(held.memory.span<int>(who)[0], who);
        EXPECT_EQ(held.heap.info().pieces, pieces.size());
      }
      expect_works(last, held.memory, held.memory.pointer_table());
      last.finalize();
    });

    int first = -1;
    for (int who = 0; who < kSize + 2; ++who) {
      if (who == kDead || who == victim) {
        ranks[who].wait();
        continue;
      }
      ranks[who].expect_success(std::to_string(who));
      if (who > kSize) continue;
      if (first < 0) first = who;
      const Ends& one = (*ends)[static_cast<size_t>(who)];
      const Ends& other = (*ends)[static_cast<size_t>(first)];
      EXPECT_EQ(one.of_memory, other.of_memory) << "trial " << trial;
      EXPECT_EQ(one.of_heap, other.of_heap) << "trial " << trial;
    }
    as_processes(1, [&](int) { create(scene.meeting.processes(), 0, 1).grow(); });
    if (testing::Test::HasFailure()) return;
  }
}
}  // namespace
}  // namespace support
