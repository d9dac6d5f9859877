// Memory that goes and comes back at its address, under graphs that were captured with it, and
// versions that a holder gives again when their maker is killed: in several processes on one GPU.
// The times that it prints are those of one run.
#include "tests/gpu/world.hpp"
#include "tests/support/options.hpp"
#include "tools/hold/holder.hpp"

namespace gpu {
namespace {
using support::eventually;
using Clock = std::chrono::steady_clock;

constexpr size_t kBlocks = 16;
constexpr size_t kBytes = size_t{256} << 20;  // of a block
constexpr char kName[] = "weights";
constexpr int kPatience = 60'000;  // milliseconds that a role waits for another

// What the processes of a test share, beside the library.
struct Facts {
  std::atomic<int> held;
  std::atomic<int> ready;
  std::atomic<int64_t> killed_ns;
  std::atomic<int> done;
};

// Ends a role that another one keeps waiting, and says for what.
void await(const std::function<bool()>& has_come, const std::string& what) {
  if (!eventually(has_come, kPatience)) give_up("waited in vain until " + what);
}

cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  return stream;
}

void report(const char* what, Clock::time_point start, size_t bytes) {
  const double seconds = seconds_since(start);
  std::printf(
      "%s: %.1f ms, %.1f GB/s\n", what, seconds * 1e3, static_cast<double>(bytes) / seconds / 1e9);
}

// A graph that copies one word of each block to `seen`, which is pinned.
cudaGraphExec_t capture(const std::vector<symm::Buffer>& buffers, int* seen, cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  for (size_t i = 0; i < buffers.size(); ++i) {
    const std::byte* const last = buffers[i].span().data() + kBytes - sizeof(int);
    cuda(cudaMemcpyAsync(seen + i, last, sizeof(int), cudaMemcpyDeviceToHost, stream), "download");
  }
  cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  cudaGraphExec_t ready = nullptr;
  cuda(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
  return ready;
}

void write(const std::vector<symm::Buffer>& buffers, unsigned char value, cudaStream_t stream) {
  for (const symm::Buffer& buffer : buffers) {
    cuda(cudaMemsetAsync(buffer.span().data(), value, kBytes, stream), "cudaMemsetAsync");
  }
}

void expect_replay(cudaGraphExec_t graph, const int* seen, int value, cudaStream_t stream) {
  cuda(cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
  cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  for (size_t i = 0; i < kBlocks; ++i) {
    ASSERT_EQ(seen[i], value) << "block " << i;
  }
}

void suspend_all(const std::vector<symm::Buffer>& buffers, uint64_t flags, cudaStream_t stream) {
  for (const symm::Buffer& buffer : buffers) {
    buffer.suspend(flags, stream);
  }
}

void resume_all(const std::vector<symm::Buffer>& buffers, cudaStream_t stream) {
  for (const symm::Buffer& buffer : buffers) {
    buffer.resume(stream);
  }
}

int be_asleep() {
  constexpr size_t kAll = kBlocks * kBytes;
  const symm::Group group = form(0, 1, 0, "thread://sleep", 20'000);
  cudaStream_t stream = new_stream();
  std::vector<symm::Buffer> buffers;
  for (size_t i = 0; i < kBlocks; ++i) {
    buffers.push_back(group.allocate(kBytes));
  }
  int* seen = nullptr;
  cuda(cudaMallocHost(reinterpret_cast<void**>(&seen), kBlocks * sizeof(int)), "cudaMallocHost");
  cudaGraphExec_t graph = capture(buffers, seen, stream);
  write(buffers, 1, stream);
  expect_replay(graph, seen, 0x01010101, stream);

  for (const uint64_t flags : {uint64_t{0}, SYMM_SUSPEND_KEEP}) {
    const bool keeps = flags != 0;
    write(buffers, 2, stream);
    const size_t free_before = free_memory();
    Clock::time_point start = Clock::now();
    suspend_all(buffers, flags, stream);
    report(keeps ? "suspend, kept on the host" : "suspend, discarded", start, kAll);
    // Tables through which the GPU reaches what the host keeps take memory of the GPU.
    const size_t tables = keeps ? kAll / 128 : 0;
    EXPECT_GE(free_memory() + tables, free_before + kAll);
    start = Clock::now();
    resume_all(buffers, stream);
    report(keeps ? "resume, kept on the host" : "resume, discarded", start, kAll);
    expect_replay(graph, seen, keeps ? 0x02020202 : 0, stream);
  }

  // One block goes and comes back before each replay, with other contents.
  for (int replay = 0; replay < 1000; ++replay) {
    const symm::Buffer& one = buffers[static_cast<size_t>(replay) % kBlocks];
    one.suspend(0, stream);
    one.resume(stream);
    const auto value = static_cast<unsigned char>(replay % 100);
    write(buffers, value, stream);
    expect_replay(graph, seen, value * 0x01010101, stream);
    if (testing::Test::HasFailure()) break;
  }
  return role_result();
}

int be_maker(Facts& facts) {
  const symm::Group group = form(0, 1, 0, "thread://maker", 20'000);
  cudaStream_t stream = new_stream();
  std::vector<symm::Buffer> buffers;
  std::vector<std::string> names;
  std::vector<symm_ipc_piece_t> pieces(kBlocks, SYMM_IPC_PIECE_INIT);
  for (size_t i = 0; i < kBlocks; ++i) {
    buffers.push_back(group.allocate(kBytes));
    names.push_back("block " + std::to_string(i));
  }
  for (size_t i = 0; i < kBlocks; ++i) {
    pieces[i].pointer = buffers[i].span().data();
    pieces[i].bytes = kBytes;
    pieces[i].name = names[i].c_str();
  }
  write(buffers, 7, stream);
  symm::ipc_publish(
      kName, 1, symm::ipc_export_bundle(pieces, SYMM_IPC_EXPORT_OPTIONS_INIT, stream));
  expect(eventually([&] { return symm::ipc_holders(buffers[0].span()).leases != 0; }),
      "the holder has it");
  facts.held = 1;
  await([&] { return facts.ready != 0; }, "the reader is ready");
  facts.killed_ns = support::now_ns();
  raise(SIGKILL);
  return 1;
}

int be_holder(const Facts& facts) {
  symm::tool::Holder holder(kName, 1, [](const std::string& text) { std::puts(text.c_str()); });
  const auto has_read = [&] {
    holder.look();
    return facts.done != 0;
  };
  await(has_read, "the reader has read");
  return role_result();
}

// Has its context before the maker dies, as an engine in reserve has.
int be_reader(Facts& facts) {
  cuda(cudaFree(nullptr), "a context");
  cudaStream_t stream = new_stream();
  await([&] { return facts.held != 0; }, "the holder has the version");
  facts.ready = 1;
  await([&] { return facts.killed_ns != 0; }, "the maker dies");

  symm_ipc_import_options_t reading = SYMM_IPC_IMPORT_OPTIONS_INIT;
  reading.flags = SYMM_IPC_READ_ONLY;
  symm::Import bundle;
  std::string refusal;
  const auto is_there = [&] {
    try {
      const symm::PublishedVersion found = symm::ipc_lookup(kName);
      bundle = symm::Import(found.token, reading, stream);
    } catch (const symm::Error& error) {
      if (error.status() != SYMM_ERR_PEER_FAILED) throw;  // the maker's, which is just dying
      refusal = error.what();
    }
    return static_cast<bool>(bundle);
  };
  if (!eventually(is_there, kPatience)) give_up("the version does not come again: " + refusal);
  for (size_t i = 0; i < kBlocks; ++i) {
    int value = 0;
    const auto* const at = static_cast<const std::byte*>(bundle.bundle_piece(i).pointer);
    cuda(cudaMemcpyAsync(
             &value, at + kBytes - sizeof value, sizeof value, cudaMemcpyDeviceToHost, stream),
        "download");
    cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    expect(value == 0x07070707, "what the maker wrote is there");
  }
  std::printf("usable after the kill: %.1f ms\n",
      static_cast<double>(support::now_ns() - facts.killed_ns) / 1e6);
  expect(bundle.info().exporter_pid != 0, "from the holder");
  facts.done = 1;
  return role_result();
}

void run(const std::vector<std::string>& roles, int gone) {
  const support::TemporaryDirectory directory;
  run_roles(
      static_cast<int>(roles.size()),
      [&](int i) {
        setenv("SYMM_IPC_DIRECTORY", directory.path().c_str(), 1);
        return std::vector<std::string>{roles[static_cast<size_t>(i)], directory.path()};
      },
      gone);
}

TEST(Sleep, GraphsAreRightAgainAtTheSameAddress) { run({"asleep"}, -1); }

TEST(Sleep, AHolderGivesTheMemoryOfAKilledProcessAgain) { run({"maker", "holder", "reader"}, 0); }
}  // namespace

int role(const std::vector<std::string>& words) {
  const support::Shared<Facts> facts(words[1] + "/facts");
  if (words[0] == "asleep") return be_asleep();
  if (words[0] == "maker") return be_maker(*facts);
  if (words[0] == "holder") return be_holder(*facts);
  return be_reader(*facts);
}
}  // namespace gpu
