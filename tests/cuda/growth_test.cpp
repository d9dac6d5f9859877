// Groups of GPUs that grow, on the fake driver: blocks, pads and tables stay where they are when a
// newcomer takes the place of a dead rank, and what was captured is right or fails.
#include "tests/ranks/growth.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"

namespace support {
namespace {
constexpr int kSize = 3;
constexpr int kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY

// The scratch is small, so that tests need little memory.
const bool small_scratch =
    setenv("SYMM_CUDA_TUNE",
        "chunk=65536,one_shot=4096,ll=1024,two_shot=16384,tile=1024,work_groups=2", 1) == 0;

void* const kStream = reinterpret_cast<void*>(uintptr_t{0x100000});

symm_group_config_t on_gpu(int device) {
  symm_group_config_t config = newcomer();
  config.flags = SYMM_GROUP_ON_DEVICE;
  config.device = device;
  return config;
}

Group create_on_gpu(const Scene& scene, int rank) {
  const std::string bootstrap = scene.meeting.processes().bootstrap;
  symm_group_config_t config = on_gpu(rank);
  config.rank = rank;
  config.size = kSize;
  config.timeout_ms = 20'000;
  config.bootstrap = bootstrap.c_str();
  Group group = Group::create(config);
  if (rank == 0) scene.ticket->set(group.invite());
  return group;
}

Group join_on_gpu(const Scene& scene, int device) {
  return Group::join(scene.ticket->await(), on_gpu(device));
}

bool eventually_is(const Group& group, symm_status_t status) {
  return eventually([&] { return group.status().status == status; });
}

// Stores into every block by the table, and signals every rank.
void expect_works(const Group& group, const Memory& memory, void* const* table) {
  const int me = group.rank();
  for (int peer = 0; peer < group.size(); ++peer) {
    static_cast<int*>(table[peer])[64 + me] = 100 * me + peer;
    memory.signal(peer, 1, {}, kStream);
  }
  for (int peer = 0; peer < group.size(); ++peer) {
    memory.wait_signal(peer, 1, {}, kStream);
  }
  group.synchronize(kStream);
  for (int peer = 0; peer < group.size(); ++peer) {
    EXPECT_EQ(static_cast<int*>(table[me])[64 + peer], 100 * peer + me);
  }
}

// All that a program may have kept of a memory.
struct Places {
  symm_memory_view_t view;
  std::vector<void*> blocks;
  std::vector<uint64_t*> pads;

  explicit Places(const Memory& memory) : view(memory.device_view()) {
    blocks.assign(view.blocks, view.blocks + view.size);
    pads.assign(view.pads, view.pads + view.size);
  }
};

void expect_in_place(const Places& before, const Places& after, int replaced) {
  EXPECT_EQ(after.view.blocks, before.view.blocks);
  EXPECT_EQ(after.view.pads, before.view.pads);
  EXPECT_EQ(after.view.taken, before.view.taken);
  EXPECT_EQ(after.pads, before.pads);
  for (int rank = 0; rank < kSize; ++rank) {
    const auto at = static_cast<size_t>(rank);
    EXPECT_EQ(after.blocks[at] == before.blocks[at], rank != replaced) << rank;
  }
}

// Waits until this process, which has no group any more, has nothing left on the driver.
void expect_nothing_left() {
  const auto is_clean = [] {
    symm_ipc_collect(nullptr, nullptr);  // does what releases have put off
    const auto live = fake_cuda::live();
    return std::all_of(live.begin(), live.end(), [](const auto& kind) { return kind.second == 0; });
  };
  if (eventually(is_clean, 10'000)) return;
  for (const auto& [kind, count] : fake_cuda::live()) {
    EXPECT_EQ(count, 0) << kind;
  }
}

// Rank 1 is killed, and a newcomer takes its place, who is a spare if there is one.
void replace_a_rank(int spares) {
  const Scene scene;
  constexpr int kDead = 1;
  const auto live = [&](int who) {
    if (who == kSize) {
      const Group group = join_on_gpu(scene, 3);
      EXPECT_EQ(group.rank(), kDead);
      EXPECT_EQ(group.info().backend, SYMM_BACKEND_CUDA);
      EXPECT_EQ(group.info().device, 3);
      const Memory memory = group.move_memory({});
      const symm::Heap heap = group.move_heap({});
      EXPECT_EQ(heap.info().pieces, 1U);
      EXPECT_EQ(heap.allocate<std::byte>(1).offset(), 256U);
      expect_works(group, memory, memory.pointer_table());
      group.finalize();
      return;
    }

    const Group group = create_on_gpu(scene, who);
    if (spares != 0) group.keep_spares(spares, 20'000);
    const Memory memory = group.rendezvous(group.allocate(4096));
    const symm::Heap heap = group.heap(65'536);
    const auto piece = heap.allocate<std::byte>(100);
    const Places before(memory);
    void* const* const table = before.view.blocks;
    static_cast<int*>(table[who])[0] = 7 + who;
    expect_works(group, memory, table);
    // What a kernel of the program does that is in a graph: it reads the table when it runs.
    int* const words_of_dead = static_cast<int*>(table[kDead]);
    const fake_cuda::Graph graph{[&] {
      ++static_cast<int*>(table[kDead])[8 + who];
      return true;
    }};
    all_there(*scene.facts, kSize);
    if (who == kDead) raise(SIGKILL);
    EXPECT_TRUE(eventually_is(group, SYMM_ERR_PEER_FAILED));

    const Group whole = group.grow(filling());
    EXPECT_EQ(whole.rank(), who);
    const Memory moved = whole.move_memory(memory);
    const symm::Heap moved_heap = whole.move_heap(heap);
    expect_in_place(before, Places(moved), kDead);
    EXPECT_EQ(static_cast<int*>(table[who])[0], 7 + who);
    EXPECT_EQ(moved_heap.allocate<std::byte>(1).offset(), 256U);

    for (int replay = 0; replay < 1000; ++replay) {
      fake_cuda::replay(graph, kStream);
    }
    EXPECT_EQ(static_cast<int*>(table[kDead])[8 + who], 1000);
    EXPECT_EQ(words_of_dead[8 + who], 0) << "what the dead rank had";
    expect_works(whole, moved, table);
    EXPECT_EQ(fake_cuda::violations(), std::vector<std::string>());
    whole.finalize();
  };
  Processes ranks(kSize + 1, [&](int who) {
    live(who);
    expect_nothing_left();
  });
  ranks.expect_success({kDead});
}

TEST(CudaGrowth, BlocksPadsAndTablesStayWhereTheyAre) { replace_a_rank(0); }

TEST(CudaGrowth, ASpareTakesThePlaceAsWell) { replace_a_rank(1); }

TEST(CudaGrowth, NewcomersThatFollowTheLivingMakeTheGroupLarger) {
  const Scene scene;
  Processes ranks(kSize + 1, [&](int who) {
    if (who == kSize) {
      const Group group = join_on_gpu(scene, 3);
      EXPECT_EQ(group.rank(), kSize);
      const Memory memory = group.move_memory({});
      expect_works(group, memory, memory.pointer_table());
      group.finalize();
      return;
    }
    const Group group = create_on_gpu(scene, who);
    const Memory memory = group.rendezvous(group.allocate(4096));
    const Places before(memory);
    const Group larger = group.grow(appending(1));
    const Memory moved = larger.move_memory(memory);
    const Places after(moved);
    EXPECT_EQ(after.view.size, kSize + 1);
    for (size_t rank = 0; rank < kSize; ++rank) {
      EXPECT_EQ(after.blocks[rank], before.blocks[rank]) << rank;
    }
    expect_works(larger, moved, after.view.blocks);
    // The old group has not failed, and goes on.
    group.barrier({}, 0, {}, kStream);
    group.synchronize(kStream);
    larger.finalize();
  });
  ranks.expect_success();
}

TEST(CudaGrowth, ANewcomerHasTheBackEndOfTheGroup) {
  const Scene scene;
  Process other([&] {
    expect_failure(
        SYMM_ERR_MISMATCH, {"config.backend", "CUDA", "host"}, [&] { join_on_gpu(scene, 0); });
  });
  Process host([&] {
    const Group group = alone();
    scene.ticket->set(group.invite());
    expect_failure(SYMM_ERR_PEER_FAILED, {"newcomer"}, [&] { group.grow(appending(1, 10'000)); });
  });
  host.expect_success("host");
  other.expect_success("newcomer");
}

// A graph of symm's own calls ends with the failure of its group, and touches no pad that has been
// mapped anew.
void replay_signals_after_a_move(bool is_killed) {
  const Scene scene;
  constexpr int kDead = 2;
  Processes ranks(kSize + 1, [&](int who) {
    if (who == kSize) {
      const Group group = join_on_gpu(scene, 3);
      const Memory memory = group.move_memory({});
      all_there(*scene.facts, kSize);
      EXPECT_EQ(memory.signal_pad(kDead)[kSize], 0U);
      all_there(*scene.facts, kSize);
      expect_works(group, memory, memory.pointer_table());
      group.finalize();
      return;
    }
    const Group group = create_on_gpu(scene, who);
    const Memory memory = group.rendezvous(group.allocate(4096));
    const fake_cuda::Graph graph = fake_cuda::graph_of(kStream, [&] {
      for (int peer = 0; peer < kSize; ++peer) {
        memory.signal(peer, 1, {}, kStream);
      }
      for (int peer = 0; peer < kSize; ++peer) {
        memory.wait_signal(peer, 1, {}, kStream);
      }
    });
    EXPECT_EQ(graph.size(), static_cast<size_t>(2 * kSize));
    fake_cuda::replay(graph, kStream);
    group.synchronize(kStream);
    all_there(*scene.facts, kSize);
    if (who == kDead && is_killed) raise(SIGKILL);
    if (who == kDead) return;

    const Group whole = group.grow(filling());
    const Memory moved = whole.move_memory(memory);
    fake_cuda::replay(graph, kStream);
    EXPECT_TRUE(fake_cuda::idle(kStream)) << "it waits for signals";
    EXPECT_EQ(group.status().status, SYMM_ERR_PEER_FAILED);
    all_there(*scene.facts, kSize);
    for (int rank = 0; rank < kSize; ++rank) {
      for (const uint64_t word : moved.signal_pad(rank)) {
        EXPECT_EQ(word, 0U) << rank;
      }
    }
    all_there(*scene.facts, kSize);
    expect_works(whole, moved, moved.pointer_table());
    whole.finalize();
  });
  ranks.expect_success(is_killed ? std::vector{kDead} : std::vector<int>());
}

TEST(CudaGrowth, SignalsThatWereCapturedBeforeAreNeitherSentNorTaken) {
  replay_signals_after_a_move(true);
}

// Such a group has not failed before the memory moves.
TEST(CudaGrowth, NorAreTheyAfterARankHasLeft) { replay_signals_after_a_move(false); }

// While a device is at work, nothing moves, and afterwards the memory is where it was.
TEST(CudaGrowth, MemoryMovesWhenTheDeviceHasNothingToDo) {
  const Scene scene;
  Processes ranks(kSize, [&](int who) {
    const Group group = create_on_gpu(scene, who);
    const Memory memory = group.rendezvous(group.allocate(4096));
    const Places before(memory);
    expect_works(group, memory, before.view.blocks);
    all_there(*scene.facts, kSize);
    const Group again = group.grow(filling());

    std::atomic<bool> goes_on{who == 2};
    fake_cuda::enqueue(
        reinterpret_cast<void*>(uintptr_t{0x200000}), [&goes_on] { return !goes_on.load(); });
    symm_call_options_t options = SYMM_CALL_OPTIONS_INIT;
    options.timeout_ms = 1'000;
    symm_memory_t* none = nullptr;
    expect_failed(symm_memory_move(memory.get(), again.get(), &options, &none), SYMM_ERR_TIMEOUT,
        {"memory_move", "device 2"});
    goes_on = false;
    EXPECT_TRUE(eventually_is(again, SYMM_ERR_TIMEOUT));
    expect_in_place(before, Places(memory), -1);
    expect_works(group, memory, before.view.blocks);
    all_there(*scene.facts, kSize);

    const Group last = again.grow(filling());
    const Memory moved = last.move_memory(memory);
    expect_in_place(before, Places(moved), -1);
    expect_works(last, moved, before.view.blocks);
    last.finalize();
  });
  ranks.expect_success();
}

// Each call of the driver of rank 1 runs out of memory in a move. Before the ranks have agreed, all
// have the failure, and the memory is where it was. Afterwards it is that of rank 1 alone: the new
// group fails, the others move what they have got to the next one, and rank 1 begins anew there.
TEST(CudaGrowth, AnyCallOfTheDriverMayFail) {
  constexpr int kFails = 1;
  constexpr int kMostCalls = 200;
  const Scene scene;
  const Shared<std::atomic<int>> is_late;
  const Shared<std::atomic<int>> is_over;
  const auto live = [&](int who) {
    Group group = create_on_gpu(scene, who);
    Memory memory = group.rendezvous(group.allocate(4096));
    Places before(memory);
    std::set<std::string> early;
    std::set<std::string> late;
    for (int n = 1; *is_over == 0; ++n) {
      Group next = group.grow(filling());
      Memory moved;
      if (who == kFails) fake_cuda::fail_call(n, kOutOfMemory);
      const Outcome outcome = outcome_of([&] { moved = next.move_memory(memory); });
      const std::string call = who == kFails ? fake_cuda::failed_call() : "";
      fake_cuda::fail_call(0, 0);
      SCOPED_TRACE("call " + std::to_string(n) + " " + call + ": " + outcome.message);
      if (who == kFails) {
        *is_late = next.status().status == SYMM_OK ? 0 : 1;
        *is_over = call.empty() || n == kMostCalls ? 1 : 0;
      }
      all_there(*scene.facts, kSize);

      if (*is_late == 0) {
        // Some calls are made again, or are not needed.
        EXPECT_TRUE(outcome.status == SYMM_OK || outcome.status == SYMM_ERR_OUT_OF_MEMORY);
        EXPECT_EQ(next.status().status, SYMM_OK);
        if (outcome.status == SYMM_OK) memory = std::move(moved);
        expect_in_place(before, Places(memory), -1);
        if (outcome.status != SYMM_OK) early.insert(call);
        group = std::move(next);
      } else {
        EXPECT_EQ(outcome.status, who == kFails ? SYMM_ERR_OUT_OF_MEMORY : SYMM_OK);
        EXPECT_TRUE(eventually_is(next, SYMM_ERR_OUT_OF_MEMORY));
        // The tables lie in the pad of rank 1, which is mapped still.
        EXPECT_EQ(before.view.blocks[who], before.blocks[static_cast<size_t>(who)]);
        late.insert(call);
        group = next.grow(filling());
        memory = group.move_memory(who == kFails ? Memory() : moved);
        EXPECT_EQ(memory.pointer_table() == before.view.blocks, who != kFails);
        before = Places(memory);
        expect_works(group, memory, before.view.blocks);
      }
      all_there(*scene.facts, kSize);
    }

    if (who == kFails) {
      for (const char* const call :
          {"cuMemCreate", "cuMemMap", "cuMemImportFromShareableHandle", "cuMemcpyAsync"}) {
        EXPECT_TRUE(early.contains(call)) << call;
      }
      for (const char* const call : {"cuMemRetainAllocationHandle", "cuMemMap", "cuMemSetAccess"}) {
        EXPECT_TRUE(late.contains(call)) << call;
      }
    }
    EXPECT_EQ(fake_cuda::violations(), std::vector<std::string>());
    group.finalize();
  };
  Processes ranks(kSize, [&](int who) {
    live(who);
    expect_nothing_left();
  });
  ranks.expect_success();
}
}  // namespace
}  // namespace support
