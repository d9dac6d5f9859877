#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/support/group.hpp"

namespace support {
namespace {
TEST(Memory, TablesAndPads) {
  as_threads(3, [](int, const Group& group) {
    const Block block = allocate(group, 12345);
    EXPECT_EQ(block.memory.info().signal_pad_bytes, 64U * 3 * 8);
    void* const* pointers = nullptr;
    void* const* pads = nullptr;
    check(symm_memory_pointer_table(block.memory.get(), &pointers));
    check(symm_memory_signal_pad_table(block.memory.get(), &pads));

    for (int peer = 0; peer < 3; ++peer) {
      EXPECT_EQ(pointers[peer], block.at<char>(peer));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(pointers[peer]) % 4096, 0U);
      EXPECT_EQ(pads[peer], block.memory.signal_pad(peer).data());
    }

    group.barrier();
  });
}

uint64_t resident_shared_memory() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    uint64_t kilobytes = 0;
    if (word == "RssShmem:" && file >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

// What the process may do at an address, as "rw-s".
std::string permissions_at(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t start = 0;
    uintptr_t end = 0;
    char permissions[5] = "";
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &start, &end, permissions) != 3) continue;
    const auto at = reinterpret_cast<uintptr_t>(address);
    if (at >= start && at < end) return permissions;
  }
  return "";
}

TEST(Memory, ASuspendedBufferHasAnAddressAndNoMemory) {
  as_threads(1, [](int, const Group& group) {
    constexpr size_t kBytes = size_t{64} << 20;
    const Buffer buffer = group.allocate(kBytes);
    const symm::Span<unsigned char> bytes = buffer.span<unsigned char>();
    const auto all_are = [&](unsigned char value) {
      return std::all_of(bytes.begin(), bytes.end(), [=](auto byte) { return byte == value; });
    };
    std::fill(bytes.begin(), bytes.end(), 7);
    const Token token = make_token(bytes.data(), kBytes);
    const uint64_t before = resident_shared_memory();

    buffer.suspend();
    EXPECT_LT(resident_shared_memory() + kBytes / 2, before);
    EXPECT_EQ(permissions_at(bytes.data() + kBytes - 1), "---p");
    EXPECT_EQ(buffer.span<unsigned char>().data(), bytes.data());
    EXPECT_NE(buffer.info().flags & SYMM_BUFFER_SUSPENDED, 0U);
    expect_failed(symm_buffer_suspend(buffer.get(), 0, nullptr, nullptr), SYMM_ERR_INVALID_ARGUMENT,
        {"buffer: is suspended"});
    EXPECT_EQ(outcome_of([&] { make_token(bytes.data(), 4); }).status, SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_NE(outcome_of([&] { group.rendezvous(buffer); }).message.find("is suspended"),
        std::string::npos);
    EXPECT_EQ(outcome_of([&] { symm::Import{token}; }).status, SYMM_ERR_INVALID_HANDLE);

    buffer.resume();
    EXPECT_TRUE(all_are(0));
    EXPECT_EQ(buffer.info().flags & SYMM_BUFFER_SUSPENDED, 0U);
    std::fill(bytes.begin(), bytes.end(), 9);
    buffer.suspend(SYMM_SUSPEND_KEEP);
    EXPECT_EQ(permissions_at(bytes.data()), "---p");
    buffer.resume();
    EXPECT_TRUE(all_are(9));

    {
      const symm::Import own(make_token(bytes.data(), kBytes));
      expect_failed(symm_buffer_suspend(buffer.get(), 0, nullptr, nullptr),
          SYMM_ERR_INVALID_ARGUMENT, {"buffer: this process has imported"});
      EXPECT_TRUE(all_are(9));
    }
    const Memory memory = group.rendezvous(buffer);
    expect_failed(symm_buffer_suspend(buffer.get(), 0, nullptr, nullptr), SYMM_ERR_INVALID_ARGUMENT,
        {"buffer: has met on 1 groups"});
    EXPECT_EQ(memory.span<unsigned char>(0)[kBytes - 1], 9);
  });
}

// Whatever was released in between, the second rendezvous is local on all ranks alike,
// for as long as somebody can make it.
TEST(Memory, ABufferMeetsOnceOnAGroup) {
  as_threads(2, [](int rank, const Group& group) {
    Block block = allocate(group, 64);
    const uint64_t id = block.memory.info().id;
    EXPECT_EQ(group.memory_of(block.buffer).get(), block.memory.get());
    group.barrier();
    if (rank == 0) block.memory.reset();  // as a garbage collector might on one rank
    const Memory again = group.rendezvous(block.buffer, 5);
    EXPECT_EQ(again.info().id, id);
    if (rank == 1) {
      EXPECT_EQ(again.get(), block.memory.get());
    }

    EXPECT_EQ(block.buffer.info().memories, 1);
    group.barrier();
  });
}

TEST(Memory, ForgetsWhatWasReleasedWithItsBuffer) {
  as_threads(2, [](int rank, const Group& group) {
    Block block = allocate(group, 64);
    const char* mine = block.at<char>(rank);
    EXPECT_EQ(symm::find_buffer(mine + 63).value().offset, 63U);
    EXPECT_FALSE(symm::find_buffer(mine + 64));
    group.barrier();
    block.memory.reset();
    EXPECT_TRUE(group.find(mine)) << "it is kept for the next rendezvous";
    block.buffer.reset();
    EXPECT_FALSE(group.find(mine));
    EXPECT_FALSE(symm::find_buffer(mine));
    group.barrier();
  });
}

TEST(Memory, InfoOfABuffer) {
  as_threads(2, [](int, const Group& group) {
    symm_alloc_options_t options = SYMM_ALLOC_OPTIONS_INIT;
    options.name = "weights";

    const symm::Buffer buffer = group.allocate(5000, options);
    const symm_buffer_info_t info = buffer.info();

    EXPECT_EQ(info.backend, SYMM_BACKEND_HOST);
    EXPECT_EQ(info.bytes, 5000U);
    EXPECT_EQ(info.mapped_bytes, 8192U);
    EXPECT_EQ(info.flags, SYMM_BUFFER_HOST + 0U);
    EXPECT_EQ(info.numa_node, -1);
    EXPECT_EQ(info.memories, 0);
    EXPECT_EQ(info.pointer, buffer.span().data());
    EXPECT_STREQ(info.name, "weights");

    EXPECT_FALSE(group.memory_of(buffer));
    group.barrier();
  });
}

TEST(Memory, AlignedAsAskedFor) {
  as_threads(2, [](int, const Group& group) {
    for (const uint64_t alignment :
        {uint64_t{1}, uint64_t{1} << 16, uint64_t{1} << 24, uint64_t{1} << 32}) {
      symm_alloc_options_t options = SYMM_ALLOC_OPTIONS_INIT;
      options.alignment = alignment;
      const Memory memory = group.rendezvous(group.allocate(5000, options));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.span().data()) % alignment, 0U);
      group.barrier();
    }
    symm_alloc_options_t impossible = SYMM_ALLOC_OPTIONS_INIT;
    impossible.alignment = uint64_t{1} << 63;
    expect_failure(SYMM_ERR_OUT_OF_MEMORY, {}, [&] { group.allocate(64, impossible); });
  });
}

// Huge pages are used where an administrator has set some aside. Otherwise the message says that
// there are none, and no other pages are used instead.
TEST(Memory, OfHugePagesOrNotAtAll) {
  as_processes(2, [](int rank, const Group& group) {
    symm_alloc_options_t options = SYMM_ALLOC_OPTIONS_INIT;
    options.page_bytes = 4096;
    EXPECT_EQ(group.allocate(64, options).info().page_bytes, 4096U);

    for (const uint64_t page : {uint64_t{2} << 20, uint64_t{1} << 30, uint64_t{1} << 40}) {
      options.page_bytes = page;
      Buffer buffer;
      const Outcome outcome = outcome_of([&] { buffer = group.allocate(5000, options); });
      int32_t has = buffer ? 1 : 0;
      int32_t all = 0;
      group.allreduce(symm::Span(&has, 1), symm::Span(&all, 1), SYMM_OP_MIN);
      if (all != 0) {
        const Memory memory = group.rendezvous(buffer);
        EXPECT_EQ(buffer.info().page_bytes, page);
        EXPECT_EQ(buffer.info().mapped_bytes, page);
        memory.span<int>(1 - rank)[1200] = 7 + rank;
        group.barrier();
        EXPECT_EQ(memory.span<int>()[1200], 8 - rank);
      } else if (has == 0) {
        EXPECT_TRUE(
            outcome.status == SYMM_ERR_OUT_OF_MEMORY || outcome.status == SYMM_ERR_UNAVAILABLE)
            << outcome.message;
        EXPECT_NE(outcome.message.find("options.page_bytes"), std::string::npos) << outcome.message;
      }
      group.barrier();
    }
  });
}

// A memfd of somebody else's.
struct Foreign {
  explicit Foreign(int seals = F_SEAL_SHRINK, off_t bytes = 20'000)
      : fd(memfd_create("theirs", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    EXPECT_EQ(ftruncate(fd, bytes), 0);
    EXPECT_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
  }

  ~Foreign() { close(fd); }

  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;
  const int fd;
};

// At another place on each rank, with something in it, and beside a block that symm has made.
TEST(Memory, AdoptedByDescriptor) {
  as_processes(3, [](int rank, const Group& group) {
    const Foreign foreign(rank == 0 ? F_SEAL_SHRINK : F_SEAL_SHRINK | F_SEAL_GROW);
    const uint32_t given = 40 + static_cast<uint32_t>(rank);
    const off_t offset = 4000 + 16 * rank;
    EXPECT_EQ(pwrite(foreign.fd, &given, sizeof given, offset), ssize_t{sizeof given});
    const Buffer buffer = rank == 2
                              ? group.allocate(5000)
                              : group.adopt_fd(foreign.fd, static_cast<uint64_t>(offset), 5000);
    if (rank == 2) *buffer.span<uint32_t>().data() = given;
    const Buffer part = rank == 2 ? group.allocate(100)
                                  : group.adopt_fd(foreign.fd, static_cast<uint64_t>(offset), 100);
    const Memory of_part = group.rendezvous(part);
    const Memory memory = group.rendezvous(buffer);
    EXPECT_EQ(group.rendezvous(part).get(), of_part.get())
        << "a buffer of its own, though the bytes are another's too";
    EXPECT_EQ(group.rendezvous(buffer).get(), memory.get());
    group.barrier();

    for (int peer = 0; peer < 3; ++peer) {
      EXPECT_EQ(memory.span<uint32_t>(peer)[0], 40U + static_cast<uint32_t>(peer));
    }

    memory.span<uint32_t>((rank + 1) % 3)[1249] = given;
    group.barrier();
    EXPECT_EQ(memory.span<uint32_t>()[1249], 40U + static_cast<uint32_t>((rank + 2) % 3));
    if (rank == 2) return group.barrier();
    uint32_t seen = 0;
    EXPECT_EQ(pread(foreign.fd, &seen, sizeof seen, offset + 4996), ssize_t{sizeof seen});
    EXPECT_EQ(seen, memory.span<uint32_t>()[1249]) << "the owner's descriptor is of the same pages";
    const symm_buffer_info_t info = buffer.info();
    EXPECT_EQ(info.flags, SYMM_BUFFER_HOST | SYMM_BUFFER_ADOPTED);
    EXPECT_EQ(info.mapped_bytes, 12288U) << "the pages of the piece";
    group.barrier();
  });
}

TEST(Memory, WhatCannotBeAdoptedByDescriptor) {
  as_threads(1, [](int, const Group& group) {
    const Foreign good;
    const Foreign can_shrink(F_SEAL_GROW);
    const Foreign read_only(F_SEAL_SHRINK | F_SEAL_WRITE);
    const TemporaryDirectory directory;
    const int file = open((directory.path() + "/file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const int reader =
        open(("/proc/self/fd/" + std::to_string(good.fd)).c_str(), O_RDONLY | O_CLOEXEC);
    struct {
      int fd;
      uint64_t offset;
      uint64_t bytes;
      const char* said;
    } const rows[] = {{good.fd, 8, 64, "multiple of 16"}, {good.fd, 16, 19'985, "go beyond"},
        {good.fd, 1 << 20, 16, "go beyond"}, {can_shrink.fd, 0, 64, "F_SEAL_SHRINK"},
        {read_only.fd, 0, 64, "be written"}, {reader, 0, 64, "be written"},
        {file, 0, 64, "not a memfd"}, {12'345, 0, 64, "not an open descriptor"},
        {good.fd, 0, 0, "at least 1 byte"}};

    for (const auto& row : rows) {
      expect_failure(SYMM_ERR_INVALID_ARGUMENT, {row.said},
          [&] { group.adopt_fd(row.fd, row.offset, row.bytes); });
    }

    close(file);
    close(reader);
    group.finalize();
    symm_buffer_t* none = nullptr;
    EXPECT_EQ(symm_buffer_adopt(group.get(), &none, 64, nullptr, &none), SYMM_ERR_INVALID_HANDLE);
  });
}

TEST(Memory, OneBufferOnSeveralGroups) {
  as_processes(4, [](int rank, const Group& group) {
    const Group pair = group.split(rank / 2, rank);
    const Block whole = allocate(group, 4096);
    const Memory both = pair.rendezvous(whole.buffer);
    const int neighbour = rank % 2 == 0 ? 1 : 0;
    int* through_pair = both.span<int>(neighbour).data();
    EXPECT_EQ(through_pair, whole.at<int>(rank / 2 * 2 + neighbour))
        << "a process maps a block once";
    through_pair[7] = 70 + rank;
    group.barrier();
    EXPECT_EQ(whole.at<int>(rank)[7], 70 + rank / 2 * 2 + neighbour);
    group.barrier();
  });
}

// Node 0 is there wherever there are nodes; a sandbox may forbid to bind memory.
TEST(Memory, OnANodeThatIsNamed) {
  as_threads(2, [](int rank, const Group& group) {
    symm_buffer_t* raw = nullptr;
    const symm_status_t status = symm_alloc(
        group.get(), 10'000, support::placed(SYMM_ALLOC_HOST | SYMM_ALLOC_ON_NODE, 0), &raw);

    if (status != SYMM_OK) {
      expect_failed(status, SYMM_ERR_UNAVAILABLE, {"mbind"});
      check(symm_alloc(group.get(), 10'000, support::placed(SYMM_ALLOC_HOST), &raw));
    }

    Block block{Buffer(raw), {}};
    block.memory = group.rendezvous(block.buffer);
    block.at<int>(1 - rank)[2000] = 5 + rank;
    group.barrier();
    EXPECT_EQ(block.at<int>(rank)[2000], 6 - rank);
    group.barrier();
  });
}

// ---- heaps: pieces at the same offsets on all ranks

// Pieces are used without a copy and exported by a token, like a block. The table of behaviours
// has whatever else can be done with them.
TEST(Heap, PiecesAreSymmetricMemory) {
  as_threads(2, [](int rank, const Group& group) {
    symm_heap_options_t wrong = SYMM_HEAP_OPTIONS_INIT;
    if (rank == 1) wrong.alignment = 3;
    expect_failure(SYMM_ERR_INVALID_ARGUMENT, {"rank 1: options.alignment"},
        [&] { group.heap(1 << 20, wrong); });

    const symm::Heap heap = group.heap(1 << 20);
    const auto before = heap.allocate<uint32_t>(1000);
    const auto piece = heap.allocate<uint32_t>(20000, 4096);

    const auto call = support::call_of(
        SYMM_COLLECTIVE_ALLREDUCE, piece.data(), piece.data(), 20000, SYMM_DTYPE_U32);
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
    const symm::Heap heap = group.heap(64 << 20);
    std::atomic<int> made{0};

    std::thread([&] {
      void* first = nullptr;
      check(symm_heap_alloc(heap.get(), 4096, 0, nullptr, &first, nullptr));
      if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) {
        made = -1;
        return;
      }
      for (int i = 1; i < 10'000; ++i) {
        void* piece = nullptr;
        if (symm_heap_alloc(heap.get(), 4096, 0, nullptr, &piece, nullptr) == SYMM_OK) ++made;
        if (i % 7 == 0) symm_heap_free(heap.get(), piece, nullptr);
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

// ---- memory that is short

struct Cache {
  Buffer block;
  int asked = 0;
  static uint64_t give_back(void* user, symm_backend_t, int32_t, uint64_t) {
    auto& cache = *static_cast<Cache*>(user);
    ++cache.asked;
    const uint64_t given_back = cache.block ? 64 << 20 : 0;
    cache.block = {};
    return given_back;
  }
};

// A process that may map half a block more than it has.
TEST(ShortMemory, ACallbackGivesBackAndTheAllocationSucceeds) {
  SYMM_NOT_UNDER_ASAN("it maps terabytes for itself");
  SYMM_NOT_UNDER_TSAN("it maps terabytes for itself");
  as_processes(1, [](int) {
    constexpr size_t kBytes = 64 << 20;
    const Group group = create({.bootstrap = "thread://short"}, 0, 1);
    Cache cache{group.allocate(kBytes)};

    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit limit{};
    ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = pages * static_cast<size_t>(getpagesize()) + kBytes / 2;
    ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    expect_failure(SYMM_ERR_OUT_OF_MEMORY, {}, [&] { group.allocate(kBytes); });

    const symm::MemoryPressureListener listener(Cache::give_back, &cache);
    const Buffer block = group.allocate(kBytes);
    EXPECT_EQ(cache.asked, 1);
    expect_failure(SYMM_ERR_OUT_OF_MEMORY, {}, [&] { group.allocate(kBytes); });
    EXPECT_EQ(cache.asked, 2);
  });
}

// No machine has so much, so each callback is asked, in its turn.
TEST(ShortMemory, EachCallbackIsAskedInItsTurnAndNotFromWithinOne) {
  constexpr size_t kTooMuch = size_t{1} << 50;
  static std::string order;
  static const Group* group_of_callback = nullptr;
  as_threads(1, [&](int, const Group& group) {
    group_of_callback = &group;
    const auto first = [](void*, symm_backend_t, int32_t, uint64_t bytes) -> uint64_t {
      order += "a";
      symm_buffer_t* none = nullptr;
      EXPECT_EQ(
          symm_alloc(group_of_callback->get(), bytes, nullptr, &none), SYMM_ERR_OUT_OF_MEMORY);
      return 1;
    };
    const auto second = [](void* user, symm_backend_t, int32_t, uint64_t) -> uint64_t {
      order += "b";
      check(symm_memory_pressure_remove_listener(*static_cast<uint64_t*>(user)));
      return 0;
    };
    uint64_t ids[2] = {};
    check(symm_memory_pressure_add_listener(first, nullptr, &ids[0]));
    check(symm_memory_pressure_add_listener(second, &ids[1], &ids[1]));

    expect_failure(SYMM_ERR_OUT_OF_MEMORY, {}, [&] { group.allocate(kTooMuch); });
    EXPECT_EQ(order, "ab");
    expect_failure(SYMM_ERR_OUT_OF_MEMORY, {}, [&] { group.allocate(kTooMuch); });
    EXPECT_EQ(order, "aba");
    check(symm_memory_pressure_remove_listener(ids[0]));
    expect_failure(SYMM_ERR_OUT_OF_MEMORY, {}, [&] { group.allocate(kTooMuch); });
    EXPECT_EQ(order, "aba");
    for (const uint64_t id : ids) {
      expect_failed(symm_memory_pressure_remove_listener(id), SYMM_ERR_NOT_FOUND, {"callback"});
    }
  });
}
}  // namespace
}  // namespace support
