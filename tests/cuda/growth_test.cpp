// Groups of GPUs that grow, on the fake driver: blocks, pads and tables stay where they are when a
// newcomer takes the place of a dead rank.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"
#include "tests/support/group.hpp"

namespace support {
namespace {
constexpr int kSize = 3;

// What the processes of a test share.
struct Meeting {
  std::atomic<size_t> ticket_bytes;
  std::byte ticket[SYMM_TICKET_MAX_BYTES];
  std::atomic<int> here;
  std::atomic<int> moved;

  void all_here(int turn) {
    ++here;
    EXPECT_TRUE(eventually([&] { return here >= turn * kSize; }));
  }
};

symm_group_config_t on_gpu(int device) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.flags = SYMM_GROUP_ON_DEVICE;
  config.device = device;
  config.create_timeout_ms = 20'000;
  return config;
}

Group create_on_gpu(const std::string& bootstrap, int rank, Meeting& shared) {
  symm_group_config_t config = on_gpu(rank);
  config.rank = rank;
  config.size = kSize;
  config.timeout_ms = 20'000;
  config.bootstrap = bootstrap.c_str();
  Group group = Group::create(config);
  if (rank == 0) {
    const symm::Ticket ticket = group.invite();
    std::copy(ticket.begin(), ticket.end(), shared.ticket);
    shared.ticket_bytes = ticket.size();
  }
  return group;
}

Group join_on_gpu(Meeting& shared, int device) {
  EXPECT_TRUE(eventually([&] { return shared.ticket_bytes != 0; }));
  return Group::join({shared.ticket, shared.ticket_bytes}, on_gpu(device));
}

// Sets what peers see in a block, and lets each rank signal each other.
void expect_works(const Group& group, const symm::Memory& memory, void* const* table) {
  const int me = group.rank();
  static_cast<int*>(table[me])[1] = 100 + me;
  for (int peer = 0; peer < kSize; ++peer) {
    memory.signal(peer, 1);
  }
  for (int peer = 0; peer < kSize; ++peer) {
    memory.wait_signal(peer, 1);
  }
  group.synchronize();
  for (int peer = 0; peer < kSize; ++peer) {
    EXPECT_EQ(static_cast<int*>(table[peer])[1], 100 + peer);
  }
}

bool has_lost(const Group& group) {
  return eventually([&] { return group.status().status == SYMM_ERR_PEER_FAILED; });
}

void replace_a_rank(int spares) {
  const TemporaryDirectory runtime;
  setenv("XDG_RUNTIME_DIR", runtime.path().c_str(), 1);
  const Bootstrap meeting;
  const Shared<Meeting> shared;
  constexpr int kDead = 1;
  Processes ranks(kSize + 1, [&](int who) {
    if (who == kSize) {
      const Group group = join_on_gpu(*shared, 3);
      EXPECT_EQ(group.rank(), kDead);
      EXPECT_EQ(group.info().backend, SYMM_BACKEND_CUDA);
      const symm::Memory memory = group.move_memory({});
      const symm::Heap heap = group.move_heap({});
      EXPECT_EQ(heap.info().pieces, 1U);
      expect_works(group, memory, memory.pointer_table());
      group.finalize();
      return;
    }

    const Group group = create_on_gpu(meeting.processes().bootstrap, who, *shared);
    if (spares != 0) group.keep_spares(spares);
    const symm::Memory memory = group.rendezvous(group.allocate(4096));
    const symm::Heap heap = group.heap(65'536);
    const auto piece = heap.allocate<std::byte>(100);
    void* const* const table = memory.pointer_table();
    void* const* const pads = memory.pad_table();
    const std::vector<void*> blocks_before(table, table + kSize);
    const std::vector<void*> pads_before(pads, pads + kSize);
    static_cast<int*>(table[who])[0] = 7 + who;
    expect_works(group, memory, table);
    shared->all_here(1);
    if (who == kDead) raise(SIGKILL);
    EXPECT_TRUE(has_lost(group));

    // What a kernel of the program does that is in a graph: it reads the table when it runs.
    int* const first_of_dead = static_cast<int*>(table[kDead]);
    fake_cuda::Graph graph{[&] {
      static_cast<int*>(table[kDead])[8 + who] = 1;
      return true;
    }};
    const Group whole = group.grow();
    EXPECT_EQ(whole.rank(), who);
    const symm::Memory moved = whole.move_memory(memory);
    const symm::Heap moved_heap = whole.move_heap(heap);

    EXPECT_EQ(moved.pointer_table(), table);
    EXPECT_EQ(moved.pad_table(), pads);
    for (int rank = 0; rank < kSize; ++rank) {
      const auto at = static_cast<size_t>(rank);
      EXPECT_EQ(pads[rank], pads_before[at]) << rank;
      EXPECT_EQ(table[rank] == blocks_before[at], rank != kDead) << rank;
    }
    EXPECT_EQ(static_cast<int*>(table[who])[0], 7 + who);
    EXPECT_EQ(moved_heap.info().pieces, 1U);
    EXPECT_EQ(moved_heap.allocate<std::byte>(1).offset(), 256U);

    void* const stream = reinterpret_cast<void*>(uintptr_t{0x100000});
    for (int replay = 0; replay < 1000; ++replay) {
      fake_cuda::replay(graph, stream);
    }
    EXPECT_EQ(static_cast<int*>(moved.pointer(kDead))[8 + who], 1);
    EXPECT_EQ(first_of_dead[8 + who], 0) << "what the dead rank had";
    expect_works(whole, moved, table);
    whole.finalize();
  });
  ranks.expect_success({kDead});
  unsetenv("XDG_RUNTIME_DIR");
}

TEST(CudaGrowth, BlocksPadsAndTablesStayWhereTheyAre) { replace_a_rank(0); }

TEST(CudaGrowth, ASpareTakesThePlaceAsWell) { replace_a_rank(1); }

TEST(CudaGrowth, ANewcomerHasTheBackEndOfTheGroup) {
  const TemporaryDirectory runtime;
  setenv("XDG_RUNTIME_DIR", runtime.path().c_str(), 1);
  const Group host = alone();
  const symm::Ticket ticket = host.invite();
  Process other([&] {
    expect_failure(SYMM_ERR_MISMATCH, {"config.backend: asks for the CUDA back end"},
        [&] { Group::join(ticket, on_gpu(0)); });
  });
  symm_grow_options_t options = SYMM_GROW_OPTIONS_INIT;
  options.mode = SYMM_GROW_APPEND;
  options.count = 1;
  options.timeout_ms = 5'000;
  expect_failure(SYMM_ERR_PEER_FAILED, {"newcomer"}, [&] { host.grow(options); });
  other.expect_success("newcomer");
  unsetenv("XDG_RUNTIME_DIR");
}

// While work is under way on the device, nothing moves, and nothing has changed.
TEST(CudaGrowth, MemoryMovesWhenTheDeviceHasNothingToDo) {
  const TemporaryDirectory runtime;
  setenv("XDG_RUNTIME_DIR", runtime.path().c_str(), 1);
  const Bootstrap meeting;
  const Shared<Meeting> shared;
  Processes ranks(kSize, [&](int who) {
    const Group group = create_on_gpu(meeting.processes().bootstrap, who, *shared);
    const symm::Memory memory = group.rendezvous(group.allocate(4096));
    void* const* const table = memory.pointer_table();
    group.synchronize();
    shared->all_here(1);
    if (who == 0) group.abort("enough");
    EXPECT_TRUE(eventually([&] { return group.status().status == SYMM_ERR_ABORTED; }));
    const Group again = group.grow();

    std::atomic<bool> goes_on = who == 2;
    fake_cuda::enqueue(
        reinterpret_cast<void*>(uintptr_t{0x200000}), [&goes_on] { return !goes_on.load(); });
    symm_call_options_t options = SYMM_CALL_OPTIONS_INIT;
    options.timeout_ms = 1'500;
    symm_memory_t* none = nullptr;
    EXPECT_EQ(symm_memory_move(memory.get(), again.get(), &options, &none), SYMM_ERR_TIMEOUT)
        << symm_last_error();
    goes_on = false;
    EXPECT_TRUE(eventually([&] { return again.status().status != SYMM_OK; }));
    shared->all_here(2);
    const Group last = again.grow();
    const symm::Memory moved = last.move_memory(memory);
    EXPECT_EQ(moved.pointer_table(), table);
    expect_works(last, moved, table);
    last.finalize();
  });
  ranks.expect_success();
  unsetenv("XDG_RUNTIME_DIR");
}
}  // namespace
}  // namespace support
