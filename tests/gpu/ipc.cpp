// Memory of GPUs that two processes share by tokens, on one GPU and on two, under different
// masks of visible devices: the order of streams, killed importers and exporters, lost
// connections, allocations that symm did not make, and free memory that stays the same over
// cycles of export and import.
#include "tests/cuda/foreign_memory.hpp"
#include "tests/gpu/world.hpp"
#include "tests/support/options.hpp"

namespace gpu {
namespace {
using support::eventually;

// A file that both processes of a test map.
struct Facts {
  std::atomic<int> step[16];
  std::atomic<int> over;
  size_t size;
  unsigned char token[SYMM_IPC_TOKEN_MAX_BYTES];
};

Facts* facts = nullptr;
std::string title;

void reach(int step) { facts->step[step] = 1; }

void wait_for(int step) {
  if (!eventually([&] { return facts->step[step] != 0; })) {
    give_up(title + ": nobody came to step " + std::to_string(step));
  }
}

void check(bool ok, const std::string& what) {
  expect(ok, title + ": " + what + (ok ? "" : std::string(" (") + symm_last_error() + ")"));
}

// A buffer of a group of one rank. All buffers of this process share that group, and nobody
// releases it.
struct Owned {
  explicit Owned(size_t bytes) : buffer(group().allocate(bytes)), data(buffer.span().data()) {}

  static const symm::Group& group() {
    static const auto* made = new symm::Group(form(0, 1, 0, "thread://ipc", 20'000));
    return *made;
  }

  symm::Buffer buffer;
  void* data;
};

void export_it(const void* data, size_t bytes, cudaStream_t stream) {
  symm(symm_ipc_export(
           data, bytes, nullptr, facts->token, sizeof facts->token, &facts->size, stream),
      "symm_ipc_export");
}

// The import is released on `stream`.
symm::Import import_it(cudaStream_t stream, int device) {
  symm_ipc_import_options_t options = SYMM_IPC_IMPORT_OPTIONS_INIT;
  if (device >= 0) options.flags = SYMM_IPC_ON_DEVICE;
  options.device = std::max(device, 0);
  options.timeout_ms = 20000;
  return symm::Import(
      {reinterpret_cast<const std::byte*>(facts->token), facts->size}, options, stream);
}

int first_of(const void* data, cudaStream_t stream) {
  int value = -1;
  cuda(cudaMemcpyAsync(&value, data, sizeof value, cudaMemcpyDeviceToHost, stream), "download");
  cuda(cudaStreamSynchronize(stream), "synchronise");
  return value;
}

void fill(void* data, unsigned char value, size_t bytes, cudaStream_t stream) {
  cuda(cudaMemsetAsync(data, value, bytes, stream), "cudaMemsetAsync");
}

// Delays the work that follows on the stream by `milliseconds`.
void delay(cudaStream_t stream, long milliseconds) {
  cuda(cudaLaunchHostFunc(
           stream,
           [](void* ms) { usleep(static_cast<useconds_t>(reinterpret_cast<long>(ms)) * 1000); },
           reinterpret_cast<void*>(milliseconds)),
      "cudaLaunchHostFunc");
}

constexpr size_t kBytes = size_t{8} << 20;

// ---- the tests, as each of the two processes runs them. The importer maps for `device`.

void order(bool exporter, cudaStream_t stream, int device) {
  if (exporter) {
    const Owned owned(kBytes);
    delay(stream, 300);
    fill(owned.data, 1, kBytes, stream);
    export_it(owned.data, kBytes, stream);

    check(cudaStreamQuery(stream) == cudaErrorNotReady, "the producer is not done when it exports");
    reach(0);
    wait_for(1);

    const symm_status_t status = symm_ipc_withdraw(owned.data, kBytes, support::within(20000));
    check(status == SYMM_OK, std::string("withdraw: ") + symm_status_string(status));
    check(facts->over == 1, "the lease ended when the importer's stream was done, not before");
    check(first_of(owned.data, stream) == 0x02020202, "what the importer wrote is there");
    check(symm::ipc_stats().quarantined_blocks == 0, "nothing in quarantine");

    reach(2);
  } else {
    wait_for(0);
    symm::Import import = import_it(stream, device);
    check(first_of(import.span().data(), stream) == 0x01010101,
        "what the producer's stream wrote is there");
    delay(stream, 300);
    fill(import.span().data(), 2, kBytes, stream);
    cuda(cudaLaunchHostFunc(stream, [](void*) { facts->over = 1; }, nullptr), "cudaLaunchHostFunc");
    import.reset();
    check(facts->over == 0, "release does not wait");
    reach(1);
    wait_for(2);
  }
}

void importer_killed(bool exporter, cudaStream_t stream, int device) {
  if (exporter) {
    size_t before = 0;
    {
      const Owned owned(kBytes * 8);
      before = free_memory();
      export_it(owned.data, kBytes, stream);
      reach(0);

      check(eventually([] { return symm::ipc_stats().written_off_leases == 1; }),
          "the dead importer's lease is written off");
      check(
          symm_ipc_withdraw(owned.data, kBytes * 8, support::within(20000)) == SYMM_ERR_PEER_FAILED,
          "its memory is not to be used again");

      // Work that the dead importer had begun may still write into the memory that it imported, so
      // other memory is used here.
      const Owned other(kBytes);
      fill(other.data, 3, kBytes, stream);
      check(first_of(other.data, stream) == 0x03030303, "the exporter's context goes on");
    }

    check(eventually([&] {
      symm_ipc_collect(nullptr, nullptr);
      return free_memory() >= before + kBytes * 8;
    }),
        "the memory came back");
    check(symm::ipc_stats().limbo_blocks == 0 && symm::ipc_stats().quarantined_blocks == 0,
        "nothing is left");
  } else {
    wait_for(0);
    const symm::Import import = import_it(stream, device);
    // The importer dies in the middle of its work.
    for (int i = 0; i < 200; ++i) {
      fill(import.span().data(), 9, kBytes, stream);
    }
    raise(SIGKILL);
  }
}

// The exporter lives when its connection is lost. The streams of all its importers that wait
// for it go on waiting: only its death would let them go.
void connection_lost(bool exporter, cudaStream_t stream, int device) {
  if (exporter) {
    const Owned owned(kBytes);
    fill(owned.data, 7, kBytes, stream);
    delay(stream, 2'000);
    fill(owned.data, 8, kBytes, stream);
    export_it(owned.data, kBytes, stream);
    reach(0);
    wait_for(1);
    return;
  }

  wait_for(0);
  const symm::Import import = import_it(stream, device);
  for (int fd = 0; fd < 1024; ++fd) {
    int type = 0;
    socklen_t size = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET) {
      shutdown(fd, SHUT_RDWR);
    }
  }

  check(eventually([&] { return import.info().exporter_alive == 0; }),
      "it hears nothing of the exporter any more");

  usleep(100'000);
  check(cudaStreamQuery(stream) == cudaErrorNotReady, "the stream still waits for the producer");
  check(first_of(import.span().data(), stream) == 0x08080808,
      "what the producer's stream wrote is there");

  reach(1);
}

void exporter_killed(bool exporter, cudaStream_t stream, int device) {
  if (exporter) {
    static const Owned owned(kBytes);
    fill(owned.data, 4, kBytes, stream);
    cuda(cudaStreamSynchronize(stream), "synchronise");
    export_it(owned.data, kBytes, stream);
    reach(0);
    wait_for(1);

    // The stream never comes to the point at which this export is ready.
    delay(stream, 100'000);
    export_it(owned.data, kBytes, stream);
    reach(2);
    wait_for(3);
    raise(SIGKILL);
  } else {
    wait_for(0);
    symm::Import import = import_it(stream, device);
    check(first_of(import.span().data(), stream) == 0x04040404, "the data");
    reach(1);
    wait_for(2);

    symm::Import waiting = import_it(stream, device);
    usleep(20'000);
    check(cudaStreamQuery(stream) == cudaErrorNotReady, "the stream waits for the producer");

    reach(3);
    check(eventually([&] { return cudaStreamQuery(stream) == cudaSuccess; }),
        "the stream is not left waiting for the dead");
    check(first_of(import.span().data(), stream) == 0x04040404, "the dead exporter's data stays");
    check(import.info().exporter_alive == 0, "its death is known");

    import.reset();
    waiting.reset();
    cuda(cudaStreamSynchronize(stream), "synchronise");
  }
}

void cycles(bool exporter, cudaStream_t stream, int device) {
  constexpr int kCycles = 500;
  size_t before = 0;
  for (int i = 1; i <= kCycles; ++i) {
    if (exporter) {
      const Owned owned(kBytes);
      fill(owned.data, static_cast<unsigned char>(i % 100), kBytes, stream);
      export_it(owned.data, kBytes, stream);
      facts->step[0] = i;
      if (!eventually([&] { return facts->step[1] == i; })) {
        give_up(title + ": the importer does not come");
      }
    } else {
      if (!eventually([&] { return facts->step[0] == i; })) {
        give_up(title + ": the exporter does not come");
      }
      symm::Import import = import_it(stream, device);
      const int value = first_of(import.span().data(), stream);
      if (value != i % 100 * 0x01010101) give_up(title + ": wrong data");
      import.reset();
      facts->step[1] = i;
    }

    if (i == kCycles / 10) before = free_memory();
  }

  // The other process may hold memory that is in flight.
  constexpr size_t kSlack = size_t{16} << 20;
  check(eventually([&] {
    symm_ipc_collect(nullptr, nullptr);
    const symm_ipc_stats_t now = symm::ipc_stats();
    return now.limbo_blocks == 0 && now.leases == 0 && now.imported_blocks == 0 &&
           free_memory() + kSlack >= before;
  }),
      "free memory is what it was: " + std::to_string(before) + ", now " +
          std::to_string(free_memory()));

  reach(exporter ? 2 : 3);
  wait_for(exporter ? 3 : 2);
}

// A framework has allocated the memory, without symm.
void foreign_memory(bool exporter, cudaStream_t stream, int device) {
  if (!exporter) {
    wait_for(0);
    symm::Import import = import_it(stream, device);
    check(first_of(import.span().data(), stream) == 0x05050505,
        "an interior piece of a foreign allocation");
    import.reset();
    reach(1);
    wait_for(2);
    return;
  }

  const ::symm::cuda::ForeignMemory foreign(0, kBytes);
  char* const data = foreign.data();
  fill(data + 4096, 5, 4096, stream);
  export_it(data + 4096, 4096, stream);
  export_it(data + 4096, 4096, stream);

  check(symm::ipc_stats().exported_blocks == 1, "one allocation, exported twice");
  reach(0);
  wait_for(1);
  check(symm_ipc_withdraw(data, kBytes, support::within(20000)) == SYMM_OK, "withdraw ends it");
  check(symm::ipc_stats().exported_blocks == 0, "and gives up the reference");

  reach(2);
}

// Memory of the host, where the driver offers it, is reached by the CPUs and GPUs of both
// processes.
void host_memory(bool exporter, cudaStream_t stream, int device) {
  if (exporter) {
    symm_buffer_t* made = nullptr;
    facts->over =
        symm_alloc(Owned::group().get(), kBytes, support::placed(SYMM_ALLOC_HOST), &made) == SYMM_OK
            ? 0
            : 1;

    const symm::Buffer buffer(made);
    if (facts->over == 0) {
      *buffer.span<int>().data() = 11;
      export_it(buffer.span().data(), kBytes, stream);
    }

    reach(0);
    wait_for(1);
    check(facts->over == 1 || *buffer.span<int>().data() == 12,
        "what the importer's host wrote is there");
    return;
  }

  wait_for(0);
  if (facts->over == 0) {
    const symm::Import import = import_it(stream, device);
    int* const word = import.span<int>().data();
    check(import.info().host_memory == 1 && *word == 11, "the importer's host reads it");
    check(first_of(word, stream) == 11, "and its GPU");
    *word = 12;
  }

  reach(1);
}

struct Test {
  const char* name;
  void (*body)(bool exporter, cudaStream_t stream, int device);
  // The process that is killed: 0, the exporter; 1, the importer; or -1, none.
  int dies = -1;
};

constexpr Test kTests[] = {{"order", order}, {"importer killed", importer_killed, 1},
    {"exporter killed", exporter_killed, 0}, {"connection lost", connection_lost},
    {"cycles", cycles}, {"foreign allocation", foreign_memory},
    {"memory of the host", host_memory}};

// The GPUs that each of two processes sees.
struct View {
  const char* name;
  const char* exporter;
  const char* importer;
  // The device for which the importer maps; kOfTheMemory: it names none.
  int device;
  int gpus;
};

constexpr int kOfTheMemory = -1;

constexpr View kViews[] = {{"one GPU", "0", "0", kOfTheMemory, 1},
    {"two GPUs, seen in another order", "0,1", "1,0", kOfTheMemory, 2},
    {"two GPUs, the memory's not visible", "0", "1", 0, 2}};

class Ipc : public testing::TestWithParam<std::tuple<size_t, size_t>> {};

TEST_P(Ipc, BetweenTwoProcesses) {
  const size_t view = std::get<0>(GetParam());
  const size_t test = std::get<1>(GetParam());
  if (kViews[view].gpus > machine().devices) {
    GTEST_SKIP() << kViews[view].name << " needs " << kViews[view].gpus << " GPUs";
  }

  SCOPED_TRACE(std::string(kViews[view].name) + ", " + kTests[test].name);
  const support::TemporaryDirectory directory;
  const auto prepare = [&](int i) {
    setenv("CUDA_VISIBLE_DEVICES", i == 0 ? kViews[view].exporter : kViews[view].importer, 1);
    setenv("SYMM_IPC_DIRECTORY", directory.path().c_str(), 1);
    return std::vector<std::string>{
        std::to_string(view), std::to_string(test), std::to_string(i), directory.path()};
  };

  run_roles(2, prepare, kTests[test].dies);
}

INSTANTIATE_TEST_SUITE_P(Views, Ipc,
    testing::Combine(testing::Range(size_t{0}, std::size(kViews)),
        testing::Range(size_t{0}, std::size(kTests))));
}  // namespace

int role(const std::vector<std::string>& words) {
  const size_t view = std::stoul(words[0]);
  const size_t test = std::stoul(words[1]);
  const bool exporter = words[2] == "0";
  title = std::string(kViews[view].name) + ", " + kTests[test].name +
          (exporter ? ", exporter" : ", importer");

  const support::Shared<Facts> shared(words[3] + "/facts");
  facts = &*shared;
  // Where the importer does not name a device, it works on the second GPU, if there is one.
  const bool on_second = !exporter && kViews[view].device == kOfTheMemory && kViews[view].gpus != 1;
  cuda(cudaSetDevice(on_second ? 1 : 0), "cudaSetDevice");

  cudaStream_t stream = nullptr;
  cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  if (!exporter && kViews[view].gpus == 2 && kViews[view].device != kOfTheMemory &&
      kTests[test].body == order) {
    wait_for(0);
    symm_ipc_t* ipc = nullptr;
    check(symm_ipc_import(facts->token, facts->size, nullptr, &ipc, stream) == SYMM_ERR_UNAVAILABLE,
        "a GPU that is not visible is not chosen silently");
  }

  kTests[test].body(exporter, stream, kViews[view].device);
  cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return role_result();
}
}  // namespace gpu
