// Importers killed at random times within the driver's calls: nothing of the exporter's is lost or stays taken.
#include "bench/experiments/experiment.hpp"

namespace experiments {
namespace {
constexpr size_t kBytes = size_t{64} << 20;
constexpr size_t kCount = kBytes / sizeof(unsigned);
constexpr unsigned kPattern = 0xC0FFEE00U;
constexpr int kKills = 24;  // each takes a second or two, most of it for a context to come and go
constexpr int kThreads = 8;

constexpr const char* kSteps[] = {
    "cuMemImportFromShareableHandle", "cuMemMap with its reservation", "cuMemSetAccess", "unmapping", "cuMemRelease"};
struct Progress {  // in memory of both processes
  std::atomic<unsigned> step;
  std::atomic<unsigned> cycles;
};

Progress* map_progress(int fd) {
  void* const memory = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) gpu::give_up("mmap");
  return static_cast<Progress*>(memory);
}
}  // namespace

void importer_role(long device) {
  use_device(static_cast<int>(device));
  send_message(kSocket);
  Progress* const progress = map_progress(expect_message(kSocket, "the progress").get());
  const symm::Fd memory = expect_message(kSocket, "the memory");
  const auto end = Clock::now() + std::chrono::seconds(20);
  while (Clock::now() < end) {
    progress->step = 0;
    const CUmemGenericAllocationHandle handle = SharedMemory::import_handle(memory.get());
    progress->step = 1;
    const CUdeviceptr address = SharedMemory::map(handle, kBytes);
    progress->step = 2;
    SharedMemory::allow(address, kBytes);
    progress->step = 3;
    SharedMemory::unmap(address, kBytes);
    progress->step = 4;
    ANSWERS_CALL(cuMemRelease, handle);
    ++progress->cycles;
  }
}

namespace {
struct Killed {
  std::array<std::atomic<int>, std::size(kSteps)> in{};
  std::atomic<int> all{0};
  std::atomic<unsigned> cycles{0};
};

void kill_some(const SharedMemory& memory, int device, unsigned seed, int kills, Killed& killed) {
  gpu::cuda(cudaSetDevice(0), "cudaSetDevice");
  std::mt19937 random(seed);
  for (int i = 0; i < kills; ++i) {
    const symm::Fd file(memfd_create("answers", MFD_CLOEXEC));
    if (file.get() < 0 || ftruncate(file.get(), sizeof(Progress)) != 0) gpu::give_up("memfd_create");
    Progress* const progress = map_progress(file.get());
    const Child child("importer", device);
    expect_message(child.socket(), "its context");
    send_message(child.socket(), file.get());
    send_message(child.socket(), memory.exported().get());
    if (!eventually([&] { return progress->cycles > 1; })) gpu::give_up("an importer does not import");
    usleep(static_cast<useconds_t>(random() % 5000));
    child.kill();
    child.await_death();
    ++killed.in.at(progress->step);
    ++killed.all;
    killed.cycles += progress->cycles;
    munmap(progress, sizeof *progress);
  }
}
}  // namespace

void killed_imports(int gpus) {
  use_device(0);
  const size_t free_at_first = settled_free_memory();
  {
    const SharedMemory memory(kBytes);
    ANSWERS_CALL(cuMemsetD32, memory.address(), kPattern, kCount);
    Killed first;
    kill_some(memory, 0, 0, 1, first);  // what the first one of all costs
    const size_t before = settled_free_memory();
    const size_t descriptors = support::open_descriptors();
    Killed killed;
    support::as_threads(
        kThreads, [&](int t) { kill_some(memory, t % gpus, static_cast<unsigned>(t) + 1, kKills / kThreads, killed); });
    gpu::expect(killed.all == kKills, "as many importers were killed as should be");
    const size_t after = support::open_descriptors();
    gpu::expect(after == descriptors,
        "descriptors: " + std::to_string(descriptors) + " before the kills, " + std::to_string(after) + " after");
    gpu::expect(memory_comes_back(before), "memory is free again after importers were killed");
    const size_t now = settled_free_memory();
    std::vector<unsigned> words(kCount);
    gpu::cuda(cudaMemcpy(words.data(), memory.words(), kBytes, cudaMemcpyDeviceToHost), "download");
    gpu::expect(std::all_of(words.begin(), words.end(), [](unsigned word) { return word == kPattern; }),
        "the exporter's data is intact after its importers were killed");
    std::string where;
    for (size_t i = 0; i < std::size(kSteps); ++i)
      where += (i == 0 ? "" : ", ") + std::to_string(killed.in[i]) + " in " + kSteps[i];
    answer("importers killed: within", where + " (" + std::to_string(killed.cycles) + " cycles)");
    answer("importers killed: free memory, after minus before",
        text_of((static_cast<double>(now) - static_cast<double>(before)) / 1048576) + " MiB");
    answer("importers killed: descriptors, after minus before",
        std::to_string(static_cast<long>(after) - static_cast<long>(descriptors)));
  }
  gpu::expect(memory_comes_back(free_at_first), "the memory that dead importers had mapped is given back by its owner");
}
}  // namespace experiments
