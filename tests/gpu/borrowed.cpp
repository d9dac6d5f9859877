// Memory of cudaMalloc that two processes share by tokens, on one GPU: many pieces in few
// allocations, what is refused, memory that is freed and allocated anew at its address, a maker
// that is killed, and free memory that stays the same. The times that it prints are those of one
// run.
#include "tests/gpu/world.hpp"
#include "tests/support/options.hpp"

namespace gpu {
namespace {
using support::eventually;
using Clock = std::chrono::steady_clock;

constexpr size_t kSegments = 32;
constexpr size_t kBytes = size_t{64} << 20;  // of a segment, as a caching allocator makes them
constexpr size_t kPieces = 700;
constexpr size_t kInEach = (kPieces + kSegments - 1) / kSegments;
constexpr size_t kApart = kBytes / kInEach / 256 * 256;
constexpr int kTurns = 20;
constexpr int kPatience = 60'000;  // milliseconds that a role waits for the other

// What the two processes share, beside the library.
struct Facts {
  std::atomic<int> step;
  size_t size;
  unsigned char token[SYMM_IPC_TOKEN_MAX_BYTES];
};

void await(const Facts& facts, int step) {
  if (!eventually([&] { return facts.step >= step; }, kPatience)) {
    give_up("nobody came to step " + std::to_string(step));
  }
}

cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  return stream;
}

std::byte* allocate(size_t bytes) {
  void* memory = nullptr;
  cuda(cudaMalloc(&memory, bytes), "cudaMalloc");
  return static_cast<std::byte*>(memory);
}

int value_at(const void* pointer, cudaStream_t stream) {
  int value = 0;
  cuda(cudaMemcpyAsync(&value, pointer, sizeof value, cudaMemcpyDeviceToHost, stream), "download");
  cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return value;
}

symm::Token token_of(const Facts& facts) {
  const auto* const start = reinterpret_cast<const std::byte*>(facts.token);
  return {start, start + facts.size};
}

void put(Facts& facts, const symm::Token& token) {
  std::memcpy(facts.token, token.data(), token.size());
  facts.size = token.size();
}

// Where piece `i` lies: they are spread over all segments.
std::byte* place_of(const std::vector<std::byte*>& segments, size_t i) {
  return segments[i / kInEach] + i % kInEach * kApart;
}

void expect_refusal(
    symm_status_t status, const std::string& what, const std::function<void()>& call) {
  try {
    call();
    expect(false, what + " is refused");
  } catch (const symm::Error& error) {
    expect(error.status() == status, what + ": " + error.what());
  }
}

void share_pieces(Facts& facts, const std::vector<std::byte*>& segments, cudaStream_t stream) {
  std::vector<symm_ipc_piece_t> pieces(kPieces, SYMM_IPC_PIECE_INIT);
  for (size_t i = 0; i < kPieces; ++i) {
    pieces[i].pointer = place_of(segments, i);
    pieces[i].bytes = kApart;
    cuda(cudaMemsetAsync(place_of(segments, i), static_cast<int>(i % 100), kApart, stream), "fill");
  }
  const Clock::time_point start = Clock::now();
  put(facts, symm::ipc_export_bundle(pieces, SYMM_IPC_EXPORT_OPTIONS_INIT, stream));
  std::printf("export of %zu pieces in %zu segments of cudaMalloc: %.2f ms\n", kPieces, kSegments,
      seconds_since(start) * 1e3);
  symm_ipc_export_options_t held = SYMM_IPC_EXPORT_OPTIONS_INIT;
  held.hold_ms = 1000;
  expect_refusal(
      SYMM_ERR_UNSUPPORTED, "a hold", [&] { symm::ipc_export_bundle(pieces, held, stream); });
}

int be_owner(Facts& facts) {
  cudaStream_t stream = new_stream();
  std::vector<std::byte*> segments;
  for (size_t i = 0; i < kSegments; ++i) {
    segments.push_back(allocate(kBytes));
  }
  share_pieces(facts, segments, stream);
  facts.step = 1;
  await(facts, 2);
  const symm::Span<const std::byte> first(segments[0], kBytes);
  expect(eventually([&] { return symm::ipc_holders(first).leases == 0; }), "nobody holds it");
  expect(value_at(segments[0], stream) == 0x11111111, "the other process has written here");
  for (std::byte* segment : segments) {
    symm::ipc_withdraw(symm::Span<const std::byte>(segment, kBytes));
  }

  // Freed and allocated anew, over and over: nothing of it stays on the GPU.
  for (std::byte* segment : segments) {
    cuda(cudaFree(segment), "cudaFree");
  }
  size_t before = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    std::byte* const memory = allocate(kBytes);
    cuda(cudaMemsetAsync(memory, turn, kBytes, stream), "fill");
    const symm::Span<const std::byte> all(memory, kBytes);
    put(facts, symm::ipc_export(all, SYMM_IPC_EXPORT_OPTIONS_INIT, stream));
    facts.step = 3 + 2 * turn;
    await(facts, 4 + 2 * turn);
    symm::ipc_withdraw(all);
    cuda(cudaFree(memory), "cudaFree");
    if (turn == 2) before = free_memory();
  }
  expect(eventually([&] { return free_memory() >= before; }), "the GPU has its memory again");

  std::byte* const freed = allocate(kBytes);
  put(facts, symm::ipc_export(symm::Span<const std::byte>(freed, kBytes)));
  cuda(cudaFree(freed), "cudaFree");
  std::byte* const next = allocate(kBytes);
  std::printf("an allocation lies %s address of the one before\n",
      next == freed ? "at the" : "at another than the");
  facts.step = 100;
  await(facts, 101);

  put(facts, symm::ipc_export(symm::Span<const std::byte>(next, kBytes)));
  facts.step = 102;
  await(facts, 103);
  if (role_result() != 0) return 1;
  raise(SIGKILL);
  return 1;
}

void look_at_pieces(const Facts& facts, cudaStream_t stream) {
  const Clock::time_point start = Clock::now();
  symm::Import bundle(token_of(facts), SYMM_IPC_IMPORT_OPTIONS_INIT, stream);
  for (size_t i = 0; i < kPieces; ++i) {
    (void)bundle.bundle_piece(i);
  }
  std::printf("import of them: %.2f ms\n", seconds_since(start) * 1e3);
  expect(bundle.info().flags == SYMM_IPC_DIES_WITH_MAKER, "the import says what is not promised");
  for (size_t i = 1; i < kPieces; ++i) {
    const int value = value_at(bundle.bundle_piece(i).pointer, stream);
    const auto wanted = static_cast<int>(i % 100) * 0x01010101;
    if (value != wanted) return expect(false, "piece " + std::to_string(i) + " is right");
  }

  symm_ipc_import_options_t reading = SYMM_IPC_IMPORT_OPTIONS_INIT;
  reading.flags = SYMM_IPC_READ_ONLY;
  expect_refusal(SYMM_ERR_UNSUPPORTED, "reading only",
      [&] { symm::Import(token_of(facts), reading, stream); });
  expect_refusal(SYMM_ERR_UNSUPPORTED, "a suspension", [&] { bundle.suspend(); });
  void* const first = const_cast<void*>(bundle.bundle_piece(0).pointer);
  cuda(cudaMemsetAsync(first, 0x11, kApart, stream), "fill");
  bundle.reset();
  cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

int be_importer(Facts& facts) {
  cuda(cudaFree(nullptr), "a context");
  cudaStream_t stream = new_stream();
  await(facts, 1);
  look_at_pieces(facts, stream);
  facts.step = 2;

  for (int turn = 0; turn < kTurns; ++turn) {
    await(facts, 3 + 2 * turn);
    const symm::Import import(token_of(facts), SYMM_IPC_IMPORT_OPTIONS_INIT, stream);
    const auto all = import.span<std::byte>();
    expect(value_at(all.data() + kBytes - 4, stream) == turn * 0x01010101, "each turn is seen");
    facts.step = 4 + 2 * turn;
  }

  await(facts, 100);
  expect_refusal(
      SYMM_ERR_INVALID_HANDLE, "a token of freed memory", [&] { symm::Import(token_of(facts)); });
  facts.step = 101;

  await(facts, 102);
  const symm::Import last(token_of(facts));
  facts.step = 103;
  expect(eventually([&] { return last.info().exporter_alive == 0; }), "the death is noticed");
  expect_refusal(
      SYMM_ERR_PEER_FAILED, "a token of a dead maker", [&] { symm::Import(token_of(facts)); });
  expect_refusal(
      SYMM_ERR_PEER_FAILED, "to give it again", [&] { symm::ipc_export(last.span<std::byte>()); });
  return role_result();
}

TEST(Borrowed, MemoryOfCudaMallocGoesByTokens) {
  const support::TemporaryDirectory directory;
  const std::vector<std::string> roles = {"owner", "importer"};
  run_roles(
      2,
      [&](int i) {
        setenv("SYMM_IPC_DIRECTORY", directory.path().c_str(), 1);
        return std::vector<std::string>{roles[static_cast<size_t>(i)], directory.path()};
      },
      0);
}
}  // namespace

int role(const std::vector<std::string>& words) {
  const support::Shared<Facts> facts(words[1] + "/facts");
  return words[0] == "owner" ? be_owner(*facts) : be_importer(*facts);
}
}  // namespace gpu
