// A heap as its users see it: pieces at the same offsets on all ranks, and whatever can be done with symmetric memory done with
// them.
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include "tests/support/group.hpp"
#include "tests/support/options.hpp"
#include "tests/support/sanitizers.hpp"

namespace support { namespace {
using symm::Heap;
using symm::Piece;
using symm::Span;

constexpr size_t kBytes = 1 << 20;

// As memory of a block they are used without a copy, and passed on by a token; what else can be done with them has the table of
// behaviours.
TEST(Heap, PiecesAreSymmetricMemory) {
  as_threads(2, [](int, const Group& group) {
    const Heap heap = group.heap(kBytes);
    const auto before = heap.allocate<uint32_t>(1000), piece = heap.allocate<uint32_t>(20000, 4096);
    const auto call = support::call_of(SYMM_COLLECTIVE_ALLREDUCE, piece.data(), piece.data(), 20000, SYMM_DTYPE_U32);
    symm_plan_info_t plan;
    check(plan_of(group.get(), call, nullptr, plan));
    EXPECT_EQ(plan.algorithm, SYMM_ALGORITHM_TWO_SHOT) << plan.reason;
    piece.span()[5] = 77;
    const symm::Import import(symm::ipc_export(piece.span()));
    EXPECT_EQ(import.span<uint32_t>().size(), 20000U);
    EXPECT_EQ(import.span<uint32_t>()[5], 77U);
    group.barrier();
  });
}

// On a thread that the kernel kills at its first system call.
TEST(Heap, NoCallAfterTheFirstAsksTheKernel) {
  SYMM_NOT_UNDER_TSAN("ThreadSanitizer itself asks the kernel");
  as_threads(1, [](int, const Group& group) {
    const Heap heap = group.heap(64 << 20);
    std::atomic<int> made{0};
    std::thread([&] {
      void* first = nullptr;
      check(symm_heap_alloc(heap.get(), 4096, 0, &first, nullptr));
      if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) {
        made = -1;
        return;
      }
      for (int i = 1; i < 10'000; ++i) {
        void* piece = nullptr;
        if (symm_heap_alloc(heap.get(), 4096, 0, &piece, nullptr) == SYMM_OK) ++made;
        if (i % 7 == 0) symm_heap_free(heap.get(), piece);
      }
      syscall(SYS_exit, 0);
    }).join();
    if (made < 0) GTEST_SKIP() << "no seccomp here";
    EXPECT_EQ(made, 9'999);
    const symm_heap_info_t info = heap.info();
    EXPECT_EQ(info.pieces, 10'000U - 9'999 / 7);
    EXPECT_EQ(info.peak_bytes, 4096 * info.pieces);
  });
}
}}  // namespace support
