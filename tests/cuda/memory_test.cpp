// Blocks that are not device memory of symm_alloc(), on the fake
// driver: memory that is adopted from another library, and memory
// on a NUMA node of the host. Also their export as DMA-BUF, and memory that is suspended.
#include "core/group/memory.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backends.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/log.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "core/group/group.hpp"
#include "core/group/memory_pressure.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/compare.hpp"
#include "kernels/types.hpp"
#include "symm/symm.h"
#include "tests/cuda/foreign_memory.hpp"
#include "tests/cuda/group.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"

namespace symm {
namespace {
using namespace cuda;
using namespace support;

std::shared_ptr<Group> group_of(int rank, int size, const std::string& name, int device = -1) {
  return Group::create(config_of(rank, size, name, device));
}

constexpr Placement kOnHost{true};

Placement on_node(int node) { return {true, node}; }

using CudaAdopt = OnFakeDriver;
using CudaHostMemory = OnFakeDriver;
using CudaDmabuf = OnFakeDriver;
using CudaSuspend = OnFakeDriver;

// What a driver or a device lacks, and the reason that every refusal gives then.
struct Lacking {
  std::string name;
  void (*settle)(fake_cuda::Settings& settings);
  bool is_of_host;
  std::string reason;
};
std::ostream& operator<<(std::ostream& out, const Lacking& row) { return out << row.name; }

std::vector<Lacking> lacking() {
  return {{"NoCallForDmabuf",
              [](auto& settings) { settings.hidden.insert("cuMemGetHandleForAddressRange"); },
              false, "the CUDA driver has no cuMemGetHandleForAddressRange of CUDA 11.7"},
      {"NoDmabufOfTheDevice",
          [](auto& settings) { settings.attributes[CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED] = 0; },
          false, "the device has no DMA-BUF export"},
      {"NoHostMemory",
          [](auto& settings) {
            settings.attributes[CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] =
                0;
          },
          true,
          "the driver offers none that can be shared "
          "(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)"}};
}

class CudaWithout : public testing::TestWithParam<Lacking> {
 protected:
  static constexpr const char* kAnew = "SYMM_TEST_ANEW";

  static void expect_refusal(const Lacking& row) {
    row.settle(fake_cuda::settings());
    const auto group = group_of(0, 1, unique());
    const auto buffer = Buffer::allocate(*group, 4096);
    const Failure failure = failure_of([&] {
      if (row.is_of_host) {
        Buffer::allocate(*group, 64, kOnHost);
      } else {
        buffer->export_dmabuf(0, 4096);
      }
    });

    const std::string of = row.is_of_host ? "options.flags: no memory of the host: "
                                          : "buffer: cannot be exported as DMA-BUF: ";
    EXPECT_EQ(failure.status, Status::unavailable);
    EXPECT_EQ(failure.message, of + row.reason);
    const symm_device_info_t info = device_info(BackendKind::cuda, 0);
    EXPECT_EQ(row.is_of_host ? info.host_memory_reason : info.dmabuf_reason, row.reason);
  }
};

// A process asks the driver for its calls, and the devices for their attributes, only once, and
// another test of this program may have asked. So each row is a program that starts anew.
TEST_P(CudaWithout, TheRefusalNamesWhatIsLacking) {
  if (getenv(kAnew) != nullptr) return expect_refusal(GetParam());

  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  support::Process program([&] {
    setenv(kAnew, "1", 1);
    run_again({std::string("--gtest_filter=") + test.test_suite_name() + "." + test.name()});
  });
  program.expect_success("the program without what a driver or a device may lack");
}

INSTANTIATE_TEST_SUITE_P(Each, CudaWithout, testing::ValuesIn(lacking()),
    [](const auto& row) { return row.param.name; });

// Each row runs in a process of its own, of two ranks, since a process that has tried fabric
// handles once does not try again.
TEST(CudaFabric, HandlesAreUsedWherePossibleAndDescriptorsOtherwise) {
  static constexpr const char* kNoDevice = "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED";

  struct {
    const char* asked;
    bool device;
    bool create;
    bool import;
    long imports;
    const char* reason;
    bool logged;
  } constexpr kRows[] = {{"1", true, true, true, 4, "", false},
      {"1", true, false, true, 0, "cuMemCreate with a fabric handle", true},
      {"1", true, true, false, 0, "cuMemImportFromShareableHandle with a fabric handle", true},
      {"1", false, true, true, 0, kNoDevice, false},
      {"0", true, true, true, 0, "SYMM_FABRIC=0", false}};

  for (const auto& row : kRows) {
    support::Process process([&]() -> std::string {
      setenv("SYMM_FABRIC", row.asked, 1);
      fake_cuda::settings().attributes[cuda::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED] =
          row.device ? 1 : 0;
      fake_cuda::settings().fabric_create = row.create;
      fake_cuda::settings().fabric_import = row.import;

      static std::atomic<bool> logged{false};
      log::add_listener(
          [](void*, int32_t, const char* text) {
            logged = logged || std::strstr(text, "fabric handles") != nullptr;
          },
          nullptr, log::Level::info);

      std::atomic<uint32_t> sum{0};
      as_threads(2, [&](int rank) {
        const auto group = group_of(rank, 2, "fabric");
        const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 5000), 0);
        static std::barrier<> written(2);
        *reinterpret_cast<uint32_t*>(memory->pointer(1 - rank)) = 20 + static_cast<uint32_t>(rank);
        written.arrive_and_wait();
        sum += *reinterpret_cast<uint32_t*>(memory->pointer(rank));
        written.arrive_and_wait();
      });

      const symm_device_info_t info = device_info(BackendKind::cuda, 0);
      if (sum != 41 || logged != row.logged || (info.fabric != 0) != (*row.reason == 0) ||
          left_in_the_end() != kNothing) {
        return "not as it should";
      }

      if (std::strstr(info.fabric_reason, row.reason) == nullptr) return info.fabric_reason;
      return "imports " + std::to_string(fake_cuda::fabric_imports());
    });

    EXPECT_EQ(process.result(), "imports " + std::to_string(row.imports)) << row.reason;
  }
}

TEST(CudaFabric, AValueThatIsNotKnownIsRefused) {
  support::Process process([] {
    setenv("SYMM_FABRIC", "no", 1);
    return support::outcome_of([] { return std::string(device_info(BackendKind::cuda, 0).name); });
  });
  EXPECT_NE(process.result().find("SYMM_FABRIC: 'no' is neither '0' nor '1'"), std::string::npos);
}

// ---- adopted memory

TEST_F(CudaAdopt, APieceIsLikeAnyBuffer) {
  as_groups(2, [](int rank, const auto& group) {
    ForeignMemory foreign(rank);
    // The piece begins at another place on each rank, and has a value in it.
    uint32_t* const theirs = foreign.words() + 1024 * (rank + 1);
    theirs[0] = 40 + static_cast<uint32_t>(rank);
    auto buffer = Buffer::adopt(*group, theirs, 5000);
    EXPECT_EQ(buffer->bytes(), 5000U);
    EXPECT_NE(static_cast<void*>(buffer->data()), static_cast<void*>(theirs));
    EXPECT_EQ(*reinterpret_cast<uint32_t*>(buffer->data()), 40U + static_cast<uint32_t>(rank));
    auto memory = Memory::rendezvous(group, buffer, 0);
    EXPECT_EQ(
        *reinterpret_cast<uint32_t*>(memory->pointer(1 - rank)), 41U - static_cast<uint32_t>(rank));
    memory->fill(1 - rank, 64, {7 + static_cast<uint32_t>(rank), 4, 1}, nullptr);
    static std::barrier<> written(2);
    written.arrive_and_wait();
    EXPECT_EQ(theirs[16], 8U - static_cast<uint32_t>(rank))
        << "a peer's store is where the owner has it";

    // The piece is found by its owner's addresses, by symm's own, and by the peer's.
    for (const std::byte* base :
        {reinterpret_cast<std::byte*>(theirs), buffer->data(), memory->pointer(1 - rank)}) {
      const auto found = group->addresses().find(base + 4999);
      EXPECT_EQ(found.memory, memory);
      EXPECT_EQ(found.offset, 4999U);
      EXPECT_EQ(found.rank, base == memory->pointer(1 - rank) ? 1 - rank : rank);
    }
    EXPECT_EQ(group->addresses().find(reinterpret_cast<std::byte*>(theirs) + 5000).memory, nullptr);
    EXPECT_EQ(group->addresses().find(reinterpret_cast<std::byte*>(theirs) - 1).memory, nullptr);

    // The owner frees the memory while symm still holds it.
    foreign.free();
    EXPECT_EQ(group->addresses().find(theirs).memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uint32_t*>(buffer->data())[16], 8U - static_cast<uint32_t>(rank));
    EXPECT_EQ(reinterpret_cast<uint32_t*>(memory->pointer(1 - rank))[16],
        7U + static_cast<uint32_t>(rank));
    written.arrive_and_wait();
  });
}

TEST_F(CudaAdopt, TheOwnersMappingIsNeverTouched) {
  ForeignMemory foreign(0);
  foreign.words()[0] = 5;
  const auto before = fake_cuda::live();
  {
    const auto group = group_of(0, 1, unique(), 0);
    const auto memory =
        Memory::rendezvous(group, Buffer::adopt(*group, foreign.words(), foreign.size), 0);
    *reinterpret_cast<uint32_t*>(memory->pointer(0)) = 6;
    // Pieces of it are buffers, too.
    for (uint32_t* const begin : {foreign.words(), foreign.words() + 1024}) {
      const auto piece = Buffer::adopt(*group, begin, 4096);
      EXPECT_EQ(Buffer::find(begin).buffer, piece);
      EXPECT_EQ(Buffer::find(begin + 1024).buffer.get(), memory->buffer()) << "behind the piece";
    }
    EXPECT_EQ(Buffer::find(foreign.words()).buffer.get(), memory->buffer()) << "the piece is gone";
  }

  EXPECT_EQ(fake_cuda::live(), before);
  EXPECT_EQ(foreign.words()[0], 6U);
}

TEST_F(CudaAdopt, OtherMemoryAtTheOwnersAddressIsNotSymmetric) {
  const auto group = group_of(0, 1, unique(), 0);
  ForeignMemory foreign(0);
  const auto memory = Memory::rendezvous(group, Buffer::adopt(*group, foreign.words(), 4096), 0);
  size_t offset = 0;
  EXPECT_NE(group->addresses().containing(foreign.words() + 4, 16, &offset), nullptr);
  EXPECT_EQ(offset, 16U);
  foreign.unmap();
  foreign.map();
  EXPECT_EQ(group->addresses().containing(foreign.words() + 4, 16, &offset), nullptr);
  EXPECT_NE(group->addresses().containing(memory->pointer(0) + 4, 16, &offset), nullptr);
}

// Results of other ranks come straight into recv if recv is symmetric.
TEST_F(CudaAdopt, CollectivesNeedNoCopyAtTheOwnersAddress) {
  ASSERT_TRUE(small_scratch);
  as_groups(2, [](int rank, const auto& group) {
    ForeignMemory foreign(rank);
    const auto memory =
        Memory::rendezvous(group, Buffer::adopt(*group, foreign.words(), foreign.size), 0);
    CollectiveCall call = call_of(Collective::allreduce, nullptr, 200'000, DType::bf16);
    static std::atomic<uint64_t> memories[2];
    static std::barrier<> turn(2);

    for (const bool symmetric : {false, true}) {
      std::vector<std::byte> ordinary(call.count * 2);
      call.recv = symmetric ? static_cast<void*>(foreign.words()) : ordinary.data();
      call.send = call.recv;
      turn.arrive_and_wait();
      if (rank == 0) fake_cuda::launches();
      turn.arrive_and_wait();

      run_collective(*group, call);
      turn.arrive_and_wait();
      if (rank == 0) {
        const auto launched = fake_cuda::launches();
        ASSERT_EQ(launched.size(), 2U);
        memories[symmetric ? 1 : 0] = launched[0].memory;
      }

      turn.arrive_and_wait();
    }

    EXPECT_EQ(memories[0], 0U);
    EXPECT_NE(memories[1], 0U);
  });
}

// Memory of one rank, which grew in place, and begins anywhere in its first piece.
struct Grown {
  size_t pieces;
  size_t piece_bytes;
  size_t offset;
};

// Ranks adopt the same number of bytes of memory that grew in pieces of different sizes: the
// allocator of one maps 2 MB at a time, for instance, and that of another one 20 MB.
void expect_one_buffer(const std::vector<Grown>& of_rank, size_t bytes) {
  const int size = static_cast<int>(of_rank.size());
  std::barrier<> turn(size);
  as_groups(size, [&](int rank, const std::shared_ptr<Group>& group) {
    const Grown& mine = of_rank[static_cast<size_t>(rank)];
    ForeignMemory foreign(rank, mine.pieces * mine.piece_bytes, mine.pieces);
    std::byte* const theirs = reinterpret_cast<std::byte*>(foreign.data()) + mine.offset;
    const auto buffer = Buffer::adopt(*group, theirs, bytes);
    const auto memory = Memory::rendezvous(group, buffer, 0);

    // The next rank writes a word everywhere, over the borders of its own pieces and of these.
    constexpr size_t kStep = size_t{256} << 10;
    const int next = (rank + 1) % size;
    for (size_t at = 0; at < bytes; at += kStep) {
      const uint64_t value = at * 8 + static_cast<uint64_t>(next);
      std::memcpy(memory->pointer(next) + at, &value, sizeof value);
    }
    turn.arrive_and_wait();

    for (size_t at = 0; at < bytes; at += kStep) {
      const uint64_t expected = at * 8 + static_cast<uint64_t>(rank);
      ASSERT_EQ(std::memcmp(theirs + at, &expected, sizeof expected), 0) << at;
      ASSERT_EQ(std::memcmp(memory->pointer(rank) + at, &expected, sizeof expected), 0) << at;

      const auto found = group->addresses().find(theirs + at);
      EXPECT_EQ(found.memory, memory);
      EXPECT_EQ(found.offset, at);
    }
    EXPECT_EQ(group->addresses().find(theirs + bytes).memory, nullptr);
    turn.arrive_and_wait();

    // The owner unmaps the last of these pieces: none of its addresses are symmetric now, and the
    // buffer stays.
    foreign.unmap((mine.offset + bytes - 1) / mine.piece_bytes);
    EXPECT_EQ(group->addresses().find(theirs).memory, nullptr);
    EXPECT_EQ(Buffer::find(theirs).buffer, nullptr);
    foreign.free();
    const size_t last = (bytes - 1) / kStep * kStep;
    const uint64_t expected = last * 8 + static_cast<uint64_t>(next);
    EXPECT_EQ(std::memcmp(memory->pointer(next) + last, &expected, sizeof expected), 0);
    turn.arrive_and_wait();
  });
}

TEST_F(CudaAdopt, MemoryThatGrewInPlaceIsOneBuffer) {
  constexpr size_t kUnit = ForeignMemory::kUnit;
  const std::vector<std::vector<Grown>> rows = {
      // Two pieces, the border in the middle; all of them; and of very different sizes.
      {{2, kUnit, kUnit / 2}, {2, kUnit, kUnit / 2}},
      {{2, kUnit, 0}, {2, kUnit, 16}, {1, 4 * kUnit, kUnit}},
      {{20, kUnit, 4096}, {2, 10 * kUnit, 9 * kUnit}, {1, 20 * kUnit, 0}, {5, 10 * kUnit, 0}},
      // More pieces than one message, or several full ones, have descriptors.
      {{5, kUnit, 16}, {6, kUnit, kUnit - 16}},
      {{61, kUnit, 0}, {1, 61 * kUnit, 0}},
  };
  const size_t bytes[] = {kUnit, 2 * kUnit - 16, 11 * kUnit, 4 * kUnit + 32, 61 * kUnit};

  for (size_t row = 0; row < rows.size(); ++row) {
    SCOPED_TRACE(row);
    expect_one_buffer(rows[row], bytes[row]);
  }
}

TEST_F(CudaAdopt, MemoryThatGrewInPlaceIsGivenBack) {
  ForeignMemory foreign(0, 6 * ForeignMemory::kUnit, 6);
  const auto before = fake_cuda::live();
  for (const size_t bytes : {foreign.size, foreign.size / 2, size_t{16}}) {
    const auto group = group_of(0, 1, unique(), 0);
    const auto buffer = Buffer::adopt(*group, foreign.words(), bytes);
    const auto memory = Memory::rendezvous(group, buffer, 0);
    EXPECT_EQ(buffer->block()->mapped(), std::max(bytes, ForeignMemory::kUnit));
  }
  EXPECT_EQ(fake_cuda::live(), before);
}

// A buffer keeps one descriptor open, however many allocations it lies in.
TEST_F(CudaAdopt, MemoryThatGrewInPlaceKeepsOneDescriptorOpen) {
  ForeignMemory foreign(0, 6 * ForeignMemory::kUnit, 6);
  const auto group = group_of(0, 1, unique(), 0);
  const auto kept_by = [&](size_t bytes) {
    const size_t before = support::open_descriptors();
    const auto buffer = Buffer::adopt(*group, foreign.words(), bytes);
    const auto memory = Memory::rendezvous(group, buffer, 0);
    return support::open_descriptors() - before;
  };

  kept_by(ForeignMemory::kUnit);
  EXPECT_EQ(kept_by(foreign.size), kept_by(ForeignMemory::kUnit));
}

TEST_F(CudaAdopt, ADmabufIsOfOneAllocation) {
  constexpr size_t kUnit = ForeignMemory::kUnit;
  const auto group = group_of(0, 1, unique(), 0);
  ForeignMemory foreign(0, 3 * kUnit, 3);
  const auto buffer = Buffer::adopt(*group, foreign.words() + 1024, 2 * kUnit);
  EXPECT_TRUE(buffer->export_dmabuf(0, kUnit - 4096));
  EXPECT_TRUE(buffer->export_dmabuf(kUnit - 4096, 4096));
  expect_failure(Status::unavailable, {"several adopted allocations of 2097152 bytes"},
      [&] { buffer->export_dmabuf(kUnit - 8192, 8192); });
}

TEST_F(CudaAdopt, MemoryThatGrewInPlaceHasAsManyPiecesAsAnInboxTakes) {
  const auto group = group_of(0, 1, unique(), 0);
  const size_t most = kMostParts * ForeignMemory::kUnit;
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_cur < 1024) GTEST_SKIP() << "RLIMIT_NOFILE is below 1024";

  ForeignMemory foreign(0, most + ForeignMemory::kUnit, kMostParts + 1);
  expect_failure(Status::invalid_argument, {"allocation 513, which is one too many"},
      [&] { Buffer::adopt(*group, foreign.words(), most + 16); });
  EXPECT_EQ(Buffer::adopt(*group, foreign.words(), most)->bytes(), most);
}

TEST_F(CudaAdopt, RefusalsSayWhatIsWrongWithWhatFollows) {
  constexpr size_t kPiece = 2 * ForeignMemory::kUnit;
  const auto group = group_of(0, 1, unique(), 0);
  ForeignMemory foreign(
      0, 4 * kPiece, 4, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, ForeignMemory::kUnit);
  const auto refused = [&](size_t bytes, const std::string& why) {
    const auto with_memory = fake_cuda::live();
    expect_failure(Status::invalid_argument, {"bytes: ", "go beyond", why},
        [&] { Buffer::adopt(*group, foreign.words() + 4, bytes); });
    EXPECT_EQ(fake_cuda::live(), with_memory) << why;
  };

  refused(4 * kPiece, "16777200 more: then no memory of cuMemCreate is mapped");
  foreign.replace(2, 0, kPiece / 2);
  refused(3 * kPiece, "8388592 more: then is an allocation of 2097152 bytes");
  foreign.replace(2, 1, kPiece);
  refused(2 * kPiece + 16, "is memory of another device");
  foreign.replace(2, 0, kPiece, 0);
  refused(2 * kPiece + 16, "memory that cannot be shared");
  foreign.replace(2, -1, kPiece);
  refused(2 * kPiece + 16, "is memory of another device");
  foreign.unmap(2);
  refused(2 * kPiece, "no memory of cuMemCreate is mapped");
  EXPECT_EQ(Buffer::adopt(*group, foreign.words() + 4, kPiece)->bytes(), kPiece);
}

TEST_F(CudaAdopt, RefusalsSayWhatIsWrongWithTheMemory) {
  const auto group = group_of(0, 1, unique(), 0);
  const auto before = fake_cuda::live();
  ForeignMemory good(0);
  ForeignMemory ended(
      0, ForeignMemory::kUnit, 1, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, ForeignMemory::kUnit);
  ForeignMemory other(1);
  ForeignMemory of_host(-1);
  ForeignMemory closed(0, ForeignMemory::kUnit, 1, 0);
  ForeignMemory grown(0, 2 * ForeignMemory::kUnit, 2);
  void* const ordinary = fake_cuda::ordinary_memory(4096);

  alignas(16) uint32_t own[4] = {};
  const auto with_memory = fake_cuda::live();

  const struct {
    const void* pointer;
    size_t bytes;
    const char* said;
  } rows[] = {{nullptr, 16, "pointer: is NULL"},
      {good.words(), 0, "bytes: must be at least 1 byte"},
      {good.words() + 1, 16, "is not a multiple of 16"},
      {ended.words() + 4, ended.size, "go beyond its allocation"},
      {ended.words(), SIZE_MAX, "go beyond its allocation"},
      {other.words(), 16, "lies on device 1, the group works on device 0"},
      {closed.words(), 16, "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR"},
      {of_host.words(), 16, "does not lie on a device"}, {ordinary, 16, "allocated by cudaMalloc"},
      {own, 16, "is not mapped memory of a device"}};

  for (const auto& row : rows) {
    expect_failure(Status::invalid_argument, {row.said},
        [&] { Buffer::adopt(*group, row.pointer, row.bytes); });
    EXPECT_EQ(fake_cuda::live(), with_memory) << row.said;
  }
  expect_failure(Status::unsupported, {"options.fd: 5", "by its address"},
      [&] { Buffer::adopt(*group, 5, 0, 64); });

  // The second piece of memory that grew in place can be adopted.
  EXPECT_EQ(failure_of([&] {
    Buffer::adopt(*group, grown.words() + grown.size / 8, grown.size / 2);
  }).status,
      Status::ok);

  // If the driver does not tell the pieces apart, none of them can be adopted.
  fake_cuda::settings().ranges_are_reservations = true;
  for (const size_t piece : {size_t{0}, size_t{1}}) {
    expect_failure(Status::invalid_argument, {"several allocations"},
        [&] { Buffer::adopt(*group, grown.words() + piece * grown.size / 8, 4096); });
  }

  EXPECT_EQ(failure_of([&] { Buffer::adopt(*group, good.words(), good.size); }).status, Status::ok);
  fake_cuda::settings().ranges_are_reservations = false;
  fake_cuda::free_ordinary(ordinary);
  for (ForeignMemory* one : {&good, &ended, &other, &closed, &of_host, &grown}) {
    one->free();
  }

  EXPECT_EQ(fake_cuda::live(), before);
}

// ---- alignment, pages, channels

TEST_F(CudaHostMemory, LiesAsAskedForOrNotAtAll) {
  const auto group = group_of(0, 1, unique(), 0);
  for (const bool on_host : {false, true}) {
    Placement placement{on_host};
    placement.page_bytes = size_t{2} << 20;
    for (const size_t alignment : {size_t{64}, size_t{1} << 24, size_t{1} << 32}) {
      placement.alignment = alignment;
      const auto buffer = Buffer::allocate(*group, 5000, placement);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % alignment, 0U);
      EXPECT_EQ(buffer->block()->page_bytes(), size_t{2} << 20);
    }

    placement.page_bytes = size_t{1} << 30;
    expect_failure(Status::unavailable, {"options.page_bytes", "2097152"},
        [&] { Buffer::allocate(*group, 5000, placement); });

    placement.page_bytes = 3;
    expect_failure(Status::invalid_argument, {"options.page_bytes: 3"},
        [&] { Buffer::allocate(*group, 5000, placement); });
  }
}

TEST_F(CudaHostMemory, ChannelsAndScratchAsConfigured) {
  const auto body = [](int rank, const std::shared_ptr<Group>& group) {
    EXPECT_LE(group->transport().scratch_bytes(), 300'000U);
    group->barrier({}, 255, 0, nullptr);
    const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 64), 0, 0, 200);
    memory->send_signal(1 - rank, 199, SignalOp::add, 1, nullptr);
    expect_failure(Status::invalid_argument, {"channel: 200"},
        [&] { memory->send_signal(1 - rank, 200, SignalOp::add, 1, nullptr); });
    static std::barrier<> sent(2);
    sent.arrive_and_wait();
    EXPECT_EQ(memory->look_at_signal(1 - rank, 199).value, 1U);
    sent.arrive_and_wait();
  };

  as_groups(2, body, [](GroupConfig& config) {
    config.channels = 256;
    config.scratch_bytes = 300'000;
  });

  GroupConfig config = config_of(0, 1, unique());
  config.scratch_bytes = 100;
  expect_failure(Status::invalid_argument, {"config.scratch_bytes: 100", "at least"},
      [&] { Group::create(config); });
}

// ---- memory of the host

TEST_F(CudaHostMemory, IsForAllDevicesAndTheHost) {
  as_groups(4, [](int rank, const auto& group) {
    // Odd ranks ask for the node nearest to the device, and even ranks name another one.
    const bool named = rank % 2 == 0;
    const int node = named ? 1 - rank / 2 : rank / 2;
    const auto buffer = Buffer::allocate(*group, 5000, named ? on_node(node) : kOnHost);
    EXPECT_EQ(fake_cuda::location(buffer->data()), std::pair(CU_MEM_LOCATION_TYPE_HOST_NUMA, node));

    const auto memory = Memory::rendezvous(group, buffer, 0);
    using Access = std::vector<std::pair<int, int>>;
    for (int peer = 0; peer < 4; ++peer) {
      EXPECT_EQ(fake_cuda::access(memory->pointer(peer)),
          (Access{{CU_MEM_LOCATION_TYPE_DEVICE, rank}, {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}}))
          << peer;
    }

    EXPECT_EQ(fake_cuda::access(memory->pad(rank)), (Access{{CU_MEM_LOCATION_TYPE_DEVICE, rank}}))
        << "pads stay on the device";

    auto* word = reinterpret_cast<uint32_t*>(memory->pointer((rank + 1) % 4));
    EXPECT_EQ(*word, 0U);

    *word = 70 + static_cast<uint32_t>(rank);
    static std::barrier<> written(4);
    written.arrive_and_wait();
    EXPECT_EQ(
        *reinterpret_cast<uint32_t*>(buffer->data()), 70U + static_cast<uint32_t>((rank + 3) % 4));

    written.arrive_and_wait();
  });
}

TEST_F(CudaHostMemory, SaysWhyItIsUnavailable) {
  const auto group = group_of(0, 1, unique(), 0);
  EXPECT_STREQ(device_info(BackendKind::cuda, 0).host_memory_reason, "");
  EXPECT_EQ(device_info(BackendKind::cuda, 3).numa_node, 1);
  expect_failure(Status::cuda, {"NUMA node 7"}, [&] { Buffer::allocate(*group, 64, on_node(7)); });
}

// ---- DMA-BUF

TEST_F(CudaDmabuf, IsTheMemorysAndClosedOnExec) {
  const auto group = group_of(0, 1, unique(), 0);
  const auto buffer = Buffer::allocate(*group, 10'000);
  ForeignMemory foreign(0);

  // The adopted buffer begins at byte 1024.
  const auto adopted = Buffer::adopt(*group, foreign.words() + 256, 8000);
  const size_t before = support::open_descriptors();
  {
    const Fd whole = buffer->export_dmabuf(0, 10'000);
    EXPECT_NE(fcntl(whole.get(), F_GETFD) & FD_CLOEXEC, 0);
    uint32_t word = 3;
    *reinterpret_cast<uint32_t*>(buffer->data()) = 77;
    EXPECT_EQ(pread(whole.get(), &word, sizeof word, 0), 4);
    EXPECT_EQ(word, 77U);
    EXPECT_TRUE(buffer->export_dmabuf(8192, 1808));
    EXPECT_TRUE(adopted->export_dmabuf(3072, 1));
  }

  EXPECT_EQ(support::open_descriptors(), before);

  const struct {
    const Buffer& of;
    size_t offset;
    size_t bytes;
    const char* said;
  } rows[] = {{*buffer, 0, 0, "bytes: must be"}, {*buffer, 0, 10'001, "go beyond"},
      {*buffer, 4096, SIZE_MAX, "go beyond"}, {*buffer, 10'001, 1, "go beyond"},
      {*buffer, 1, 1, "page size"}, {*adopted, 0, 4096, "page size"},
      {*adopted, 3072, 4929, "go beyond"}};

  for (const auto& row : rows) {
    expect_failure(
        Status::invalid_argument, {row.said}, [&] { row.of.export_dmabuf(row.offset, row.bytes); });
  }

  // The driver has the call, but refuses it for memory of the host.
  const auto of_host = Buffer::allocate(*group, 4096, kOnHost);
  const size_t with_host = support::open_descriptors();  // memory of the fake driver is a file
  expect_failure(Status::unavailable, {"cuMemGetHandleForAddressRange"},
      [&] { of_host->export_dmabuf(0, 4096); });
  EXPECT_EQ(support::open_descriptors(), with_host);
}

// ---- failures

using Make = std::shared_ptr<Buffer> (*)(Group& group, ForeignMemory& foreign);

void any_call_may_fail_for(
    Make make, bool with_dmabuf, const std::vector<std::string>& expected, size_t pieces = 1) {
  ASSERT_TRUE(small_scratch);
  const auto attempt = [&](int rank, const std::string& name, int failing_call) {
    const auto group = group_of(rank, 2, name);
    ForeignMemory foreign(rank, pieces * ForeignMemory::kUnit, pieces);
    return outcome_of(failing_call, [&](Outcome& outcome, Status*& step) {
      step = &outcome.make;
      const auto buffer = make(*group, foreign);
      step = &outcome.rendezvous;
      const auto memory = Memory::rendezvous(group, buffer, 0);
      step = &outcome.dmabuf;
      if (with_dmabuf) buffer->export_dmabuf(0, 4096);
    });
  };

  any_call_may_fail(attempt, expected);
}

TEST_F(CudaAdopt, AnyDriverCallMayFailOnOneRank) {
  any_call_may_fail_for(
      [](Group& group, ForeignMemory& foreign) {
        return Buffer::adopt(group, foreign.words() + 1024, 8192);
      },
      true,
      {"cuMemRetainAllocationHandle", "cuMemGetAllocationPropertiesFromHandle",
          "cuMemGetAddressRange", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess",
          "cuMemExportToShareableHandle", "cuMemImportFromShareableHandle",
          "cuMemGetHandleForAddressRange"});
}

TEST_F(CudaAdopt, AnyDriverCallMayFailOnOneRankForMemoryThatGrewInPlace) {
  any_call_may_fail_for(
      [](Group& group, ForeignMemory& foreign) {
        return Buffer::adopt(group, foreign.words(), foreign.size);
      },
      false,
      {"cuMemRetainAllocationHandle", "cuMemGetAllocationPropertiesFromHandle",
          "cuMemGetAddressRange", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess",
          "cuMemExportToShareableHandle", "cuMemImportFromShareableHandle"},
      3);
}

TEST_F(CudaHostMemory, AnyDriverCallMayFailOnOneRank) {
  any_call_may_fail_for(
      [](Group& group, ForeignMemory&) { return Buffer::allocate(group, 5000, on_node(1)); }, false,
      {"cuMemGetAllocationGranularity", "cuMemCreate", "cuMemAddressReserve", "cuMemMap",
          "cuMemSetAccess", "cuMemsetD32Async", "cuMemExportToShareableHandle",
          "cuMemImportFromShareableHandle"});
}

// ---- memory that is short

// As little memory as is in use now, and a block.
class CudaShortMemory : public OnFakeDriver {
 protected:
  static constexpr size_t kBytes = size_t{2} << 20;
  static void limit_to_one_block() {
    fake_cuda::settings().memory_bytes = fake_cuda::bytes_in_use() + kBytes;
  }
  static void expect_none(Group& group) {
    expect_failure(Status::out_of_memory, {}, [&] { Buffer::allocate(group, kBytes); });
  }
  ~CudaShortMemory() override { fake_cuda::settings().memory_bytes = 0; }
};

struct Cache {
  std::shared_ptr<Buffer> block;
  int asked = 0;
  int device = -1;
  uint64_t wanted = 0;
  static uint64_t give_back(void* user, int32_t backend, int32_t device, uint64_t bytes) {
    auto& cache = *static_cast<Cache*>(user);
    ++cache.asked;
    cache.device = backend == SYMM_BACKEND_CUDA ? device : -1;
    cache.wanted = bytes;
    const uint64_t given_back = cache.block ? cache.block->bytes() : 0;
    cache.block.reset();
    return given_back;
  }
};

TEST_F(CudaShortMemory, ACallbackGivesBackAndTheAllocationSucceeds) {
  const auto group = group_of(0, 1, unique(), 2);
  limit_to_one_block();
  Cache cache{Buffer::allocate(*group, kBytes)};
  expect_none(*group);

  const uint64_t id = memory_pressure::add(Cache::give_back, &cache);
  const auto block = Buffer::allocate(*group, kBytes);
  EXPECT_EQ(cache.asked, 1);
  EXPECT_EQ(cache.device, 2);
  EXPECT_EQ(cache.wanted, kBytes);

  expect_none(*group);  // the cache is empty
  EXPECT_EQ(cache.asked, 2);
  memory_pressure::remove(id);
  expect_none(*group);
  EXPECT_EQ(cache.asked, 2);
}
// ---- suspended buffers

constexpr size_t kAsleep = size_t{4} << 20;

bool all_are(const Buffer& buffer, std::byte value) {
  return std::all_of(buffer.data(), buffer.data() + buffer.bytes(),
      [value](std::byte byte) { return byte == value; });
}

TEST_F(CudaSuspend, MemoryGoesAndComesBackAtItsAddress) {
  const auto group = group_of(0, 1, unique());
  const auto buffer = Buffer::allocate(*group, kAsleep);
  const std::byte* const at = buffer->data();
  const size_t used = fake_cuda::bytes_in_use();
  std::fill_n(buffer->data(), kAsleep, std::byte{7});

  buffer->suspend(true, nullptr);
  EXPECT_TRUE(buffer->is_suspended());
  EXPECT_EQ(fake_cuda::bytes_in_use() + kAsleep, used);
  EXPECT_EQ(failure_of([&] { buffer->suspend(true, nullptr); }).status, Status::invalid_argument);
  EXPECT_EQ(failure_of([&] { buffer->export_dmabuf(0, 4096); }).status, Status::invalid_argument);

  buffer->resume(nullptr);
  EXPECT_EQ(buffer->data(), at);
  EXPECT_EQ(fake_cuda::bytes_in_use(), used);
  EXPECT_TRUE(all_are(*buffer, std::byte{7}));
  EXPECT_EQ(failure_of([&] { buffer->resume(nullptr); }).status, Status::invalid_argument);

  buffer->suspend(false, nullptr);
  EXPECT_EQ(fake_cuda::bytes_in_use() + kAsleep, used);
  buffer->resume(nullptr);
  EXPECT_TRUE(all_are(*buffer, std::byte{0}));
}

TEST_F(CudaSuspend, OneThatIsDroppedLeavesNothing) {
  const auto group = group_of(0, 1, unique());
  const auto before = fake_cuda::live();
  for (const bool keep : {false, true}) {
    auto buffer = Buffer::allocate(*group, kAsleep);
    buffer->suspend(keep, nullptr);
    buffer.reset();
    EXPECT_TRUE(eventually([&] {
      cuda::Device::reclaim();
      return fake_cuda::live() == before;
    }));
  }
}

// Makes each call of the driver in `step` fail, one at a time, until it succeeds.
template <class Step, class Check>
void each_call_fails(const Step& step, const Check& unchanged) {
  constexpr int kUnknown = 999;
  for (int n = 1;; ++n) {
    ASSERT_LT(n, 100) << "it never succeeds";
    fake_cuda::fail_call(n, kUnknown);
    const Failure failure = failure_of(step);
    fake_cuda::fail_call(0, 0);
    if (failure.status == Status::ok) return;
    SCOPED_TRACE(failure.message);
    unchanged();
  }
}

TEST_F(CudaSuspend, AnyDriverCallMayFail) {
  const auto group = group_of(0, 1, unique());
  const auto buffer = Buffer::allocate(*group, kAsleep);
  std::fill_n(buffer->data(), kAsleep, std::byte{7});
  const auto awake = fake_cuda::live();
  each_call_fails([&] { buffer->suspend(true, nullptr); },
      [&] {
        EXPECT_FALSE(buffer->is_suspended());
        EXPECT_EQ(fake_cuda::live(), awake);
        EXPECT_TRUE(all_are(*buffer, std::byte{7}));
      });

  const auto asleep = fake_cuda::live();
  each_call_fails([&] { buffer->resume(nullptr); },
      [&] {
        EXPECT_TRUE(buffer->is_suspended());
        EXPECT_EQ(fake_cuda::live(), asleep);
      });
  EXPECT_TRUE(all_are(*buffer, std::byte{7}));
  EXPECT_EQ(fake_cuda::live(), awake);
}
}  // namespace
}  // namespace symm
