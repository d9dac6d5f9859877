// Memory that goes and comes back at its address, under graphs that were captured with it: a
// process's own, and what it has imported, in one version after the other; and versions that a
// holder gives again when their maker is killed: in several processes on one GPU.
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

std::vector<const std::byte*> starts_of(const std::vector<symm::Buffer>& buffers) {
  std::vector<const std::byte*> starts;
  for (const symm::Buffer& buffer : buffers) {
    starts.push_back(buffer.span().data());
  }
  return starts;
}

// A graph that copies the last word of each block to `seen`, which is pinned.
cudaGraphExec_t capture(
    const std::vector<const std::byte*>& blocks, int* seen, cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  for (size_t i = 0; i < blocks.size(); ++i) {
    const std::byte* const last = blocks[i] + kBytes - sizeof(int);
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

int* pinned_words() {
  int* words = nullptr;
  cuda(cudaMallocHost(reinterpret_cast<void**>(&words), kBlocks * sizeof(int)), "cudaMallocHost");
  return words;
}

void expect_replay(cudaGraphExec_t graph, const int* seen, int value, cudaStream_t stream,
    size_t blocks = kBlocks) {
  cuda(cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
  cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  for (size_t i = 0; i < blocks; ++i) {
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
  int* const seen = pinned_words();
  cudaGraphExec_t graph = capture(starts_of(buffers), seen, stream);
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

// Publishes a version, of which each byte is `value`, in so many blocks of its own.
std::vector<symm::Buffer> publish(const symm::Group& group, const char* name, uint64_t version,
    unsigned char value, size_t blocks, cudaStream_t stream) {
  std::vector<symm::Buffer> buffers;
  std::vector<std::string> names;
  std::vector<symm_ipc_piece_t> pieces(blocks, SYMM_IPC_PIECE_INIT);
  for (size_t i = 0; i < blocks; ++i) {
    buffers.push_back(group.allocate(kBytes));
    names.push_back("block " + std::to_string(i));
  }
  for (size_t i = 0; i < blocks; ++i) {
    pieces[i].pointer = buffers[i].span().data();
    pieces[i].bytes = kBytes;
    pieces[i].name = names[i].c_str();
  }
  write(buffers, value, stream);
  symm::ipc_publish(
      name, version, symm::ipc_export_bundle(pieces, SYMM_IPC_EXPORT_OPTIONS_INIT, stream));
  return buffers;
}

int be_maker(Facts& facts) {
  const symm::Group group = form(0, 1, 0, "thread://maker", 20'000);
  cudaStream_t stream = new_stream();
  const std::vector<symm::Buffer> buffers = publish(group, kName, 1, 7, kBlocks, stream);
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

// ---- a reader that goes from version to version

constexpr char kTurns[] = "turns";
constexpr size_t kTurned = 4;  // blocks of each version

int be_maker_of_turns(Facts& facts) {
  const symm::Group group = form(0, 1, 0, "thread://turns", 20'000);
  cudaStream_t stream = new_stream();
  const std::vector<symm::Buffer> first = publish(group, kTurns, 1, 1, kTurned, stream);
  const std::vector<symm::Buffer> second = publish(group, kTurns, 2, 2, kTurned, stream);
  facts.ready = 1;
  while (facts.done == 0) {
    usleep(1000);
  }
  for (const auto& buffers : {starts_of(first), starts_of(second)}) {
    const symm::Span<const std::byte> block(buffers[0], kBytes);
    expect(eventually([&] { return symm::ipc_holders(block).leases == 0; }), "nobody holds it");
  }
  return role_result();
}

int be_reader_of_turns(Facts& facts) {
  cuda(cudaFree(nullptr), "a context");
  cudaStream_t stream = new_stream();
  while (facts.ready == 0) {
    usleep(1000);
  }
  std::vector<symm::Token> tokens;
  for (const uint64_t version : {1, 2}) {
    tokens.push_back(symm::ipc_lookup(kTurns, SYMM_COMPARE_EQ, version).token);
  }

  symm_ipc_import_options_t reading = SYMM_IPC_IMPORT_OPTIONS_INIT;
  reading.flags = SYMM_IPC_READ_ONLY;
  symm::Import bundle(tokens[0], reading, stream);
  std::vector<const std::byte*> starts;
  for (size_t i = 0; i < kTurned; ++i) {
    starts.push_back(static_cast<const std::byte*>(bundle.bundle_piece(i).pointer));
  }
  int* const seen = pinned_words();
  cudaGraphExec_t graph = capture(starts, seen, stream);
  expect_replay(graph, seen, 0x01010101, stream, kTurned);

  constexpr int kReplays = 1000;
  const Clock::time_point start = Clock::now();
  for (int replay = 0; replay < kReplays; ++replay) {
    const size_t next = (static_cast<size_t>(replay) + 1) % 2;
    bundle.suspend();
    bundle.resume(tokens[next]);
    expect_replay(graph, seen, next == 0 ? 0x01010101 : 0x02020202, stream, kTurned);
    if (testing::Test::HasFailure()) break;
  }
  std::printf("suspend, resume as another version of %zu x %zu MB, replay: %.2f ms\n", kTurned,
      kBytes >> 20, seconds_since(start) * 1e3 / kReplays);
  for (size_t i = 0; i < kTurned; ++i) {
    expect(bundle.bundle_piece(i).pointer == starts[i], "the address is what it was");
  }
  bundle.reset();
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

TEST(Sleep, AGraphReadsOneVersionAfterTheOther) { run({"turns-maker", "turns-reader"}, -1); }

TEST(Sleep, AHolderGivesTheMemoryOfAKilledProcessAgain) { run({"maker", "holder", "reader"}, 0); }
}  // namespace

int role(const std::vector<std::string>& words) {
  const support::Shared<Facts> facts(words[1] + "/facts");
  if (words[0] == "asleep") return be_asleep();
  if (words[0] == "maker") return be_maker(*facts);
  if (words[0] == "holder") return be_holder(*facts);
  if (words[0] == "turns-maker") return be_maker_of_turns(*facts);
  if (words[0] == "turns-reader") return be_reader_of_turns(*facts);
  return be_reader(*facts);
}
}  // namespace gpu
