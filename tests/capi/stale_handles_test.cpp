// Numbers of handles that are kept past the life of the object, as a compiled program or another
// language may keep them. In whatever order objects come and go, such a number is refused and never
// means another object.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <ostream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "symm/symm.h"
#include "tests/support/group.hpp"
#include <symm/symm.hpp>

namespace support::stale_handles {
namespace {
void expect_stale(symm_group_t* group) {
  int32_t size = 0;
  float x = 1;
  EXPECT_EQ(symm_group_size(group, &size), SYMM_ERR_INVALID_HANDLE);
  EXPECT_EQ(symm_group_retain(group), SYMM_ERR_INVALID_HANDLE);
  EXPECT_EQ(symm_allreduce(group, &x, &x, 1, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, nullptr),
      SYMM_ERR_INVALID_HANDLE);
  symm_group_release(group);
}

void expect_stale(symm_buffer_t* buffer) {
  void* pointer = nullptr;
  EXPECT_EQ(symm_buffer_pointer(buffer, &pointer), SYMM_ERR_INVALID_HANDLE);
  EXPECT_EQ(symm_buffer_retain(buffer), SYMM_ERR_INVALID_HANDLE);
  symm_buffer_release(buffer);
}

void expect_stale(symm_memory_t* memory) {
  void* pointer = nullptr;
  EXPECT_EQ(symm_memory_pointer(memory, 0, &pointer), SYMM_ERR_INVALID_HANDLE);
  EXPECT_EQ(symm_memory_retain(memory), SYMM_ERR_INVALID_HANDLE);
  symm_memory_release(memory);
}

void many_groups_at_once() {
  std::vector<symm_group_t*> stale;
  for (int round = 0; round < 3; ++round) {
    std::vector<Group> groups;
    for (int i = 0; i < 16; ++i) {
      groups.push_back(alone("many" + std::to_string(i)));
      for (symm_group_t* const former : stale) {
        EXPECT_NE(groups.back().get(), former);
      }
    }
    for (symm_group_t* const former : stale) {
      expect_stale(former);
    }
    for (const Group& group : groups) {
      expect_sum(group);
      stale.push_back(group.get());
    }
  }
}

void buffers_of_many_threads() {
  const Group group = alone("threads");
  std::mutex mutex;
  std::set<symm_buffer_t*> numbers;
  as_threads(8, [&](int) {
    for (int i = 0; i < 500; ++i) {
      const Buffer buffer = group.allocate(64);
      const std::lock_guard lock(mutex);
      EXPECT_TRUE(numbers.insert(buffer.get()).second) << "given out twice";
    }
  });
  for (symm_buffer_t* const buffer : numbers) {
    expect_stale(buffer);
  }
}

void memory_that_meets_again() {
  const Group group = alone("memory");
  Block first = allocate(group, 4096);
  symm_memory_t* const stale = first.memory.get();
  symm_buffer_t* const stale_buffer = first.buffer.get();
  first = {};
  const Block second = allocate(group, 4096);
  expect_stale(stale);
  expect_stale(stale_buffer);
  const int one = 1;
  EXPECT_EQ(symm_put(stale, 0, 0, &one, sizeof one, nullptr, nullptr), SYMM_ERR_INVALID_HANDLE);
  EXPECT_EQ(second.at<int>(0)[0], 0);
}

void a_buffer_that_a_rendezvous_is_given() {
  const Group group = alone("rendezvous");
  Buffer buffer = group.allocate(4096);
  symm_buffer_t* const stale = buffer.get();
  buffer = {};
  const Buffer next = group.allocate(4096);
  symm_memory_t* memory = nullptr;
  EXPECT_EQ(symm_rendezvous(group.get(), stale, nullptr, &memory), SYMM_ERR_INVALID_HANDLE);
  EXPECT_EQ(memory, nullptr);
}

void heaps() {
  const Group group = alone("heaps");
  symm::Heap heap = group.heap(1 << 16);
  symm_heap_t* const stale = heap.get();
  heap = {};
  const symm::Heap next = group.heap(1 << 16);
  void* pointer = nullptr;
  EXPECT_EQ(symm_heap_alloc(stale, 64, 0, nullptr, &pointer, nullptr), SYMM_ERR_INVALID_HANDLE);
  symm_heap_release(stale);
  EXPECT_EQ(next.allocate<std::byte>(64).size(), 64U);
}

void exchanges() {
  const Group group = alone("exchanges");
  symm::NeighborExchange exchange = group.exchange({});
  symm_exchange_t* const stale = exchange.get();
  exchange = {};
  const symm::NeighborExchange next = group.exchange({});
  EXPECT_EQ(symm_exchange_start(stale, nullptr, nullptr), SYMM_ERR_INVALID_HANDLE);
  symm_exchange_release(stale);
  next.start();
  next.finish();
}

void imports() {
  const Group group = alone("imports");
  const Block block = allocate(group, 4096);
  const Token token = make_token(block.at<std::byte>(0), 4096);
  symm::Import import(token);
  symm_ipc_t* const stale = import.get();
  import = symm::Import();
  const symm::Import next(token);
  EXPECT_NE(next.get(), stale);
  EXPECT_EQ(symm_ipc_retain(stale), SYMM_ERR_INVALID_HANDLE);
  symm_ipc_release(stale, nullptr);
  EXPECT_EQ(symm_ipc_retain(next.get()), SYMM_OK);
  symm_ipc_release(next.get(), nullptr);
}

// The number of a released group of one never stands for a later group of two.
void parts_of_a_group() {
  as_threads(2, [](int rank, const Group& group) {
    Group part = group.split(rank);
    symm_group_t* const stale = part.get();
    part = {};
    const Group pair = group.split(0);
    expect_stale(stale);
    expect_sum(pair);
  });
}

void survivors() {
  as_threads(2, [](int rank, const Group& group) {
    Group pair = group.split(0);
    symm_group_t* const stale = pair.get();
    group.barrier();
    if (rank == 0) pair.abort("of a test");
    EXPECT_TRUE(eventually([&] { return pair.status().status == SYMM_ERR_ABORTED; }));
    Group next = pair.shrink();
    pair = {};
    expect_stale(stale);
    expect_sum(next);
  });
}

void released_too_often() {
  Group first = alone("often");
  symm_group_t* const stale = first.get();
  first = {};
  const Group second = alone("often");
  for (int i = 0; i < 5; ++i) {
    symm_group_release(stale);
  }
  expect_sum(second);
}

// While one thread uses a number, another one releases the group and makes other groups.
void released_under_a_call() {
  for (int round = 0; round < 5; ++round) {
    symm_group_t* const number = alone("under").detach();
    std::atomic<bool> has_begun{false};
    std::thread user([&] {
      for (;;) {
        int32_t size = 0;
        const symm_status_t status = symm_group_size(number, &size);
        has_begun = true;
        if (status == SYMM_ERR_INVALID_HANDLE) return;
        EXPECT_EQ(size, 1) << "of another group";
      }
    });
    EXPECT_TRUE(eventually([&] { return has_begun.load(); }));
    symm_group_release(number);
    as_threads(2, [](int, const Group& group) { expect_sum(group); });
    user.join();
  }
}

// A child has none of its parent's objects, and may make its own.
void in_a_child() {
  const Group group = alone("parent");
  const Block block = allocate(group, 4096);
  Process child([&] {
    std::vector<Group> groups;
    std::vector<Block> blocks;
    for (int i = 0; i < 8; ++i) {
      groups.push_back(alone("child" + std::to_string(i)));
      blocks.push_back(allocate(groups.back(), 4096));
      EXPECT_NE(groups.back().get(), group.get()) << "the parent's number";
      EXPECT_NE(blocks.back().buffer.get(), block.buffer.get()) << "the parent's number";
    }
    expect_stale(group.get());
    expect_stale(block.buffer.get());
    expect_stale(block.memory.get());
    for (const Group& own : groups) {
      expect_sum(own);
    }
    return "";
  });
  EXPECT_EQ(child.result(), "");
}

struct Order {
  std::string name;
  void (*use)();
};
std::ostream& operator<<(std::ostream& out, const Order& order) { return out << order.name; }

class StaleHandles : public testing::TestWithParam<Order> {};

TEST_P(StaleHandles, AreRefusedInEveryOrder) { GetParam().use(); }

INSTANTIATE_TEST_SUITE_P(Each, StaleHandles,
    testing::Values(Order{"ManyGroupsAtOnce", many_groups_at_once},
        Order{"BuffersOfManyThreads", buffers_of_many_threads},
        Order{"MemoryThatMeetsAgain", memory_that_meets_again},
        Order{"ABufferThatARendezvousIsGiven", a_buffer_that_a_rendezvous_is_given},
        Order{"Heaps", heaps}, Order{"Exchanges", exchanges}, Order{"Imports", imports},
        Order{"PartsOfAGroup", parts_of_a_group}, Order{"Survivors", survivors},
        Order{"ReleasedTooOften", released_too_often},
        Order{"ReleasedUnderACall", released_under_a_call}, Order{"InAChild", in_a_child}),
    [](const auto& order) { return order.param.name; });
}  // namespace
}  // namespace support::stale_handles
