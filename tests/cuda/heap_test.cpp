// A heap of device memory, on the fake driver.
#include "core/group/heap.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "core/base/error.hpp"
#include "core/group/collective.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/compare.hpp"
#include "kernels/types.hpp"
#include "tests/cuda/group.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"

namespace symm {
namespace {
TEST(CudaHeap, PiecesAreDeviceMemory) {
  as_groups(2, [](int rank, const auto& group) {
    const auto heap = Heap::create(
        group, 1 << 20, {.placement = {.alignment = 1 << 16}, .name = "pieces", .timeout_ms = 0});
    const Heap::Piece first = heap->take(100, 0);
    const Heap::Piece second = heap->take(8192, 1 << 16);
    EXPECT_EQ(first.offset, 0U);
    EXPECT_EQ(second.offset, 1U << 16);
    EXPECT_EQ(group->addresses().find(second.pointer + 8191).offset, second.offset + 8191);

    Memory& memory = *heap->memory();
    const uint32_t sent = 40 + static_cast<uint32_t>(rank);
    void* const stream = reinterpret_cast<void*>(uintptr_t{70} + static_cast<uintptr_t>(rank));
    memory.put(1 - rank, second.offset + 8188, &sent, sizeof sent, stream);
    memory.send_signal(1 - rank, 3, SignalOp::add, 1, stream);
    memory.wait_signal(1 - rank, 3, 0, stream);
    group->synchronize(stream, 0);

    EXPECT_EQ(reinterpret_cast<uint32_t*>(second.pointer)[2047], 41U - static_cast<uint32_t>(rank));
    // A piece is given out again at once: the work of the next owner comes later on the stream.
    heap->give(second.pointer);
    EXPECT_EQ(heap->take(1, 1 << 16).offset, second.offset);

    support::expect_failure(Status::out_of_memory,
        {"pieces", "1048064 of 1048576", "largest free piece"}, [&] { heap->take(1 << 20, 0); });
    group->finalize(0);
  });
}

TEST(CudaHeap, ChecksCompareHeapCallsOfTheRanks) {
  std::array<std::vector<uint64_t>, 2> said;
  const auto body = [&](int rank, const std::shared_ptr<Group>& group) {
    const auto heap = Heap::create(group, 1 << 20, {});
    const auto ask = [&] {
      CollectiveCall call =
          call_of(Collective::allreduce, heap->memory()->pointer(rank), 64, DType::f32);
      call.op = Op::sum;
      call.timeout_ms = 1000;
      call.heaps = group->heap_history();
      said[static_cast<size_t>(rank)].push_back(call.packed());
      run_collective(*group, call);
    };

    ask();
    const Heap::Piece first = heap->take(4096, 0);
    const Heap::Piece second = heap->take(4096, 0);
    ask();
    heap->give((rank == 0 ? first : second).pointer);
    heap->give((rank == 0 ? second : first).pointer);
    ask();
    group->finalize(0);
  };

  as_groups(2, body, [](GroupConfig& config) { config.check = true; });
  EXPECT_EQ(said[0][0], said[1][0]);
  EXPECT_EQ(said[0][1], said[1][1]);
  EXPECT_NE(said[0][0], said[0][1]);
  EXPECT_NE(said[0][2], said[1][2]) << "the same pieces, given back in another order";

  std::multiset<uint64_t> compared;
  std::multiset<uint64_t> expected;
  for (const fake_cuda::Launch& launch : fake_cuda::launches()) {
    if (launch.kernel == "symm_check" && launch.detail != 0) compared.insert(launch.detail);
  }

  for (const auto& rank : said) {
    expected.insert(rank.begin(), rank.end());
  }
  EXPECT_EQ(compared, expected) << "what the kernel compares";
  EXPECT_NE(CallSignature::unpacked(said[1][2], 64)
                .text()
                .find("allreduce(f32, sum, count 64) after heap calls with hash "),
      std::string::npos);
}
}  // namespace
}  // namespace symm
