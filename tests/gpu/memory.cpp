// Blocks that are not device memory of symm_alloc(): memory that is adopted from another
// library, memory on a NUMA node of the host, and pieces of a heap. Also export as DMA-BUF.
#include "tests/cuda/foreign_memory.hpp"
#include "tests/gpu/world.hpp"
#include "tests/support/options.hpp"

namespace gpu {
namespace {
using ::symm::cuda::ForeignMemory;

std::string with_error(const std::string& what) { return what + " (" + symm_last_error() + ")"; }

int device_of(const Rank& rank) { return rank.whole.info().device; }

symm_device_info_t info_of(const Rank& rank) {
  return ::symm::device_info(SYMM_BACKEND_CUDA, device_of(rank));
}

// No sum of these values is exact, so that another order of summation would show.
std::vector<float> values_of(int rank, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = 1.0F / static_cast<float>(3 + (i * 7 + static_cast<size_t>(rank) * 11) % 1021);
  }
  return values;
}

void allreduce(const Rank& rank, void* operand, size_t count) {
  symm(symm_allreduce(
           rank.group, operand, operand, count, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, rank.stream),
      "symm_allreduce");
}

constexpr size_t kAllocation = size_t{80} << 20;
// A piece is as large as Rank::kBlock, which is enough for results to come straight into recv.
constexpr size_t kPiece = size_t{64} << 20;

// Calls of all sizes give the bits that they give in a block of symm's own, by the owner's
// addresses and by symm's.
void expect_equal_sums(Rank& rank, void* theirs, void* ours) {
  for (const size_t count : {size_t{1000}, size_t{1} << 20, kPiece / sizeof(float)}) {
    const std::vector<float> values = values_of(rank.rank, count);
    rank.upload(rank.block, values);
    allreduce(rank, rank.block, count);
    const std::vector<float> right = rank.download<float>(rank.block, count);
    for (void* operand : {theirs, ours}) {
      rank.upload(operand, values);
      allreduce(rank, operand, count);
      expect(rank.download<float>(operand, count) == right,
          who(rank, std::string("all-reduce of ") + std::to_string(count) +
                        (operand == ours ? ", symm's address" : ", owner's address")));
    }
  }
}

void adopted(Rank& rank, std::barrier<>& together, size_t pieces) {
  ForeignMemory foreign(device_of(rank), kAllocation, pieces);
  // The piece begins at another offset on each rank.
  char* const theirs = foreign.data() + 4096 * static_cast<size_t>(rank.rank + 1);
  ::symm::Buffer buffer = rank.whole.adopt(::symm::Span(theirs, kPiece));
  ::symm::Memory memory = rank.whole.rendezvous(buffer, 1);
  void* const ours = buffer.span().data();
  expect(ours != theirs, who(rank, "an address of its own"));

  const int next = rank.next();
  const int last = rank.last();
  const std::vector<float> mine = values_of(rank.rank, 1000);
  rank.upload(rank.ordinary, mine);
  memory.put_signal(next, 8192, ::symm::Span(rank.ordinary, 4000), 3, {}, rank.stream);
  memory.wait_signal(last, 3, 0, rank.stream);

  expect(rank.download<float>(theirs + 8192, 1000) == values_of(last, 1000),
      who(rank, "a put lands where the owner has it"));

  expect_equal_sums(rank, theirs, ours);

  {
    const auto place = rank.whole.find(theirs + 100);
    expect(place && place->memory && place->rank == rank.rank && place->offset == 100,
        who(rank, "found by the owner's address"));
  }

  // The owner frees the memory while symm still holds it.
  rank.settle(together);
  foreign.free();
  symm_memory_t* found = nullptr;
  expect(symm_memory_find(rank.group, theirs + 100, nullptr, &found, nullptr, nullptr) ==
             SYMM_ERR_NOT_FOUND,
      who(rank, "not found where the owner had it"));

  rank.upload(ours, mine);
  allreduce(rank, ours, mine.size());
  rank.upload(rank.block, mine);
  allreduce(rank, rank.block, mine.size());

  expect(rank.download<float>(ours, mine.size()) == rank.download<float>(rank.block, mine.size()),
      who(rank, "the owner is gone, the memory is not"));

  rank.settle(together);
  memory.reset();
  buffer.reset();
  together.arrive_and_wait();
}

void given_back(Rank& rank, std::barrier<>& together) {
  size_t before = 0;
  for (int i = 0; i < 4; ++i) {
    if (i == 1) {
      before = free_memory();
      together.arrive_and_wait();
    }
    // Memory of one allocation, and what has grown in place by 20 MB, by 2 MB and by 40 MB.
    constexpr size_t kPieces[] = {4, 40, 2};
    adopted(rank, together, i % 2 == 0 ? 1 : kPieces[rank.rank % 3]);
  }
  expect_free(before, size_t{32} << 20);
  together.arrive_and_wait();
}

void refused(Rank& rank, std::barrier<>&) {
  const auto refuses = [&](void* pointer, size_t bytes, const char* said) {
    symm_buffer_t* buffer = nullptr;
    const symm_status_t status = symm_buffer_adopt(rank.group, pointer, bytes, nullptr, &buffer);
    expect(status == SYMM_ERR_INVALID_ARGUMENT && buffer == nullptr &&
               std::strstr(symm_last_error(), said) != nullptr,
        who(rank, with_error(std::string("refused: ") + said)));
  };

  ForeignMemory closed(device_of(rank), ForeignMemory::kUnit, 1, 0);
  ForeignMemory good(device_of(rank), ForeignMemory::kUnit, 1,
      ::symm::cuda::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, ForeignMemory::kUnit);
  alignas(16) static char host[64];
  refuses(rank.ordinary, 4096, "cudaMalloc");
  refuses(host, 64, "not mapped memory of a device");
  refuses(closed.data(), 4096, "POSIX");
  refuses(good.data() + 8, 16, "multiple of 16");
  refuses(good.data() + 4096, size_t{2} << 20, "beyond its allocation");

  int devices = 0;
  cuda(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  if (devices > 1) {
    ForeignMemory other((device_of(rank) + 1) % devices);
    refuses(other.data(), 4096, "the group works on device");
  }
}

void dmabuf(Rank& rank, std::barrier<>&) {
  const symm_device_info_t info = info_of(rank);
  const ::symm::Buffer buffer = rank.whole.allocate(100'000);
  int32_t fd = -1;
  expect(symm_buffer_export_dmabuf(buffer.get(), 8, 8, nullptr, &fd) == SYMM_ERR_INVALID_ARGUMENT &&
             fd == -1,
      who(rank, "an offset inside a page"));

  const symm_status_t status = symm_buffer_export_dmabuf(buffer.get(), 8192, 50'000, nullptr, &fd);
  if (info.dmabuf == 0) {
    expect(status == SYMM_ERR_UNAVAILABLE &&
               std::strstr(symm_last_error(), info.dmabuf_reason) != nullptr,
        who(rank, with_error("no DMA-BUF, with the reason")));
  } else {
    expect(status == SYMM_OK, who(rank, with_error("export as DMA-BUF")));
    char name[256] = {};
    if (status == SYMM_OK &&
        readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof name - 1) > 0) {
      expect(std::strstr(name, "dmabuf") != nullptr, who(rank, std::string("it is one: ") + name));
    }
    expect((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0, who(rank, "closed on exec"));
    close(fd);
  }

  if (rank.rank == 0) std::printf("DMA-BUF: %s\n", status == SYMM_OK ? "yes" : symm_last_error());
}

void host_memory(Rank& rank, std::barrier<>& together) {
  const symm_device_info_t info = info_of(rank);
  constexpr size_t kBytes = size_t{4} << 20;
  symm_buffer_t* made = nullptr;
  const symm_status_t status =
      symm_alloc(rank.group, kBytes, support::placed(SYMM_ALLOC_HOST), &made);
  ::symm::Buffer buffer(made);

  if (rank.rank == 0) {
    std::printf("host memory: %s, NUMA node %d\n", status == SYMM_OK ? "yes" : symm_last_error(),
        info.numa_node);
  }

  if (info.host_memory == 0) {
    expect(status == SYMM_ERR_UNAVAILABLE &&
               std::strstr(symm_last_error(), info.host_memory_reason) != nullptr,
        who(rank, with_error("no memory of the host, with the reason")));
    return;
  }

  expect(status == SYMM_OK, who(rank, with_error("memory of the host")));
  if (status != SYMM_OK) return;

  ::symm::Memory memory = rank.whole.rendezvous(buffer, 2);
  auto* mine = buffer.span<float>().data();
  expect(mine[0] == 0 && mine[kBytes / 4 - 1] == 0, who(rank, "zeroed, and the host can look"));

  const size_t count = 100'000;
  const std::vector<float> values = values_of(rank.rank, count);
  std::copy(values.begin(), values.end(), mine);  // by the host
  together.arrive_and_wait();

  const int neighbour = rank.next();
  const auto* there = memory.span<float>(neighbour).data();
  const std::vector<float> theirs = values_of(neighbour, count);
  expect(std::memcmp(there, theirs.data(), count * sizeof(float)) == 0,
      who(rank, "the host sees a peer's block"));

  together.arrive_and_wait();
  rank.upload(rank.block, values);
  allreduce(rank, rank.block, count);

  const std::vector<float> right = rank.download<float>(rank.block, count);
  allreduce(rank, mine, count);
  rank.wait();
  expect(std::memcmp(mine, right.data(), count * sizeof(float)) == 0,
      who(rank, "all-reduce in memory of the host"));

  rank.settle(together);
  memory.reset();
  buffer.reset();
  together.arrive_and_wait();
}

void heap(Rank& rank, std::barrier<>& together) {
  constexpr size_t kCount = size_t{4} << 20;
  const int next = rank.next();
  const int last = rank.last();
  const ::symm::Heap pieces = rank.whole.heap(size_t{64} << 20);
  const ::symm::Memory memory = pieces.memory();

  for (int round = 0; round < 20; ++round) {
    // A piece that is freed is taken again by the next round while work on it is still under
    // way. The work of the next round comes after that work on the stream.
    const auto first = pieces.allocate<float>(1000);
    const auto large = pieces.allocate<float>(kCount, 4096);
    const auto inbox = pieces.allocate<float>(1000);
    expect(large.offset() == 4096 && inbox.offset() == 4096 + kCount * sizeof(float),
        who(rank, "offsets"));

    const std::vector<float> values = values_of(rank.rank, kCount);
    for (void* operand : {static_cast<void*>(large.data()), static_cast<void*>(rank.block)}) {
      rank.upload(operand, values);
      allreduce(rank, operand, kCount);
    }
    expect(rank.download<float>(large.data(), kCount) == rank.download<float>(rank.block, kCount),
        who(rank, "all-reduce in a piece"));
    expect(rank.whole.find(large.data() + kCount - 1).value().offset ==
               4096 + (kCount - 1) * sizeof(float),
        who(rank, "found"));

    rank.upload(first.data(), values_of(rank.rank, 1000));
    memory.put_signal(next, inbox.offset(), first.span(), 3, {}, rank.stream);
    memory.wait_signal(last, 3, 0, rank.stream);
    expect(rank.download<float>(inbox.data(), 1000) == values_of(last, 1000),
        who(rank, "a put into a piece"));

    rank.settle(together);
  }

  const symm_heap_info_t info = pieces.info();
  expect(info.pieces == 0 && info.free_pieces == 1, who(rank, "all pieces are back"));
  rank.settle(together);
}

TEST(Memory, IsGivenBack) { run_ranks(machine().ranks, given_back); }

TEST(Memory, ThatCannotBeAdoptedIsRefused) { run_ranks(machine().ranks, refused); }

TEST(Memory, IsExportedAsDmabuf) { run_ranks(machine().ranks, dmabuf); }

TEST(Memory, InPieces) { run_ranks(machine().ranks, heap); }

TEST(Memory, OnTheHost) { run_ranks(machine().ranks, host_memory); }
}  // namespace
}  // namespace gpu
