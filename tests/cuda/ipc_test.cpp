// Memory of GPUs that is shared by tokens, on the fake driver:
// between processes, across masks of visible devices, in the
// order of streams, and with everything released at the end.
#include "core/ipc/ipc.hpp"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/cuda/driver.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "core/group/memory_pressure.hpp"
#include "core/ipc/export.hpp"
#include "core/ipc/held_lease.hpp"
#include "core/ipc/token.hpp"
#include "kernels/compare.hpp"
#include "kernels/piece_list.hpp"
#include "symm/symm.h"
#include "tests/cuda/foreign_memory.hpp"
#include "tests/cuda/group.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"

namespace symm::ipc {
namespace {
using support::eventually;
using support::expect_failure;
using support::Process;

// The two processes of a test share these facts beside the library.
struct Facts {
  std::atomic<int> step[8];
  size_t size;
  std::byte token[kMaxToken];
};

class CudaIpc : public testing::Test {
 protected:
  CudaIpc() { setenv("SYMM_IPC_DIRECTORY", directory.path().c_str(), 1); }

  ~CudaIpc() override { unsetenv("SYMM_IPC_DIRECTORY"); }

  void reach(int step) const { facts->step[step] = 1; }

  void put_token(const void* memory, size_t bytes, cuda::CUstream stream = nullptr) const {
    const std::vector<std::byte> token = export_memory(memory, bytes, {}, stream);
    std::copy(token.begin(), token.end(), facts->token);
    facts->size = token.size();
  }

  // Offers memory for import, and tells the other process that the token is there.
  void offer(const void* memory, size_t bytes, cuda::CUstream stream = nullptr) const {
    put_token(memory, bytes, stream);
    reach(0);
  }

  std::shared_ptr<HeldLease> import_offer(cuda::CUstream stream = nullptr, int device = -1) const {
    await(0);
    return import_memory({facts->token, facts->size}, {0, "", device}, stream);
  }

  void await(int step) const {
    if (!eventually([&] { return facts->step[step] >= 1; })) {
      throw std::runtime_error("nobody came to step " + std::to_string(step));
    }
  }

  void both(const std::function<void()>& exporting, const std::function<void()>& importing) const {
    for (auto& step : facts->step) {
      step = 0;
    }
    Process exporter(exporting);
    Process importer(importing);
    importer.expect_success("importer");
    exporter.expect_success("exporter");
  }

  support::TemporaryDirectory directory;
  support::Shared<Facts> facts;
};

struct Owned {
  explicit Owned(size_t bytes, int device = 0) {
    group = Group::create(config_of(0, 1, unique(), device));
    buffer = Buffer::allocate(*group, bytes);
  }

  std::shared_ptr<Group> group;
  std::shared_ptr<Buffer> buffer;

  uint32_t& word(size_t index) const { return reinterpret_cast<uint32_t*>(buffer->data())[index]; }
};

uint32_t& word(const std::shared_ptr<HeldLease>& import, size_t index) {
  return reinterpret_cast<uint32_t*>(import->data())[index];
}

cuda::CUstream make_stream() {
  cuda::CUstream stream = nullptr;
  cuda::driver().require(cuda::driver().cuStreamCreate(&stream, 1), "cuStreamCreate");
  return stream;
}

TEST_F(CudaIpc, AcrossMasksOfVisibleDevices) {
  const auto exporting = [&] {
    const Owned owned(5'000'000, 2);  // the process sees devices 0 .. 3
    owned.word(1000) = 41;
    offer(&owned.word(1000), 400);
    await(1);
    ASSERT_TRUE(owned.word(1001) == 42);
    ASSERT_TRUE(eventually([] { return stats().leases == 0; }));
  };

  const auto importing = [&] {
    fake_cuda::settings().devices = {2, 1};  // devices 1 and 2 of the machine are 0 and 1 here
    {
      const auto import = import_offer();
      ASSERT_TRUE(import->info().device == 1);
      ASSERT_TRUE(import->info().backend == SYMM_BACKEND_CUDA);
      ASSERT_TRUE(import->info().offset == 4000 && import->bytes() == 400);
      ASSERT_TRUE(word(import, 0) == 41);
      word(import, 1) = 42;
      const auto again = import_offer();
      ASSERT_TRUE(again->data() == import->data());
      // A mapping for another device is a mapping of its own.
      const auto peer = import_offer(nullptr, 0);
      ASSERT_TRUE(peer->data() != import->data() && word(peer, 0) == 41);
    }

    reach(1);
  };

  both(exporting, importing);
}

// A store by an importer that reads only ends the process, as it ends the kernel on a device.
TEST_F(CudaIpc, ForReadingOnlyIsMappedSo) {
  const auto exporting = [&] {
    const Owned owned(4096);
    owned.word(0) = 41;
    offer(owned.buffer->data(), 4096);
    const auto own =
        import_memory({facts->token, facts->size}, {0, "", -1, Access::read_only}, nullptr);
    ASSERT_TRUE(own->data() != owned.buffer->data() && word(own, 0) == 41);
    ASSERT_TRUE(own->info().flags == SYMM_IPC_READ_ONLY);
    await(1);
    ASSERT_TRUE(owned.word(1) == 42);
  };

  const auto importing = [&] {
    const auto writing = import_offer();
    const auto reading =
        import_memory({facts->token, facts->size}, {0, "", -1, Access::read_only}, nullptr);
    ASSERT_TRUE(reading->data() != writing->data() && word(reading, 0) == 41);
    Process storing([&] {
      signal(SIGSEGV, SIG_DFL);
      word(reading, 1) = 1;
    });
    ASSERT_TRUE(storing.reap(20'000));
    word(writing, 1) = 42;
    ASSERT_TRUE(word(reading, 1) == 42);
    reach(1);
  };

  both(exporting, importing);
}

// A bundle over several allocations of a device, imported in the order of streams.
TEST_F(CudaIpc, ABundleOfSeveralBlocks) {
  const auto exporting = [&] {
    std::vector<std::unique_ptr<Owned>> owned;
    std::vector<symm_ipc_piece_t> pieces;
    const cuda::CUstream stream = make_stream();
    for (uint32_t i = 0; i < 6; ++i) {
      owned.push_back(std::make_unique<Owned>(4096));
      uint32_t* const word = &owned.back()->word(i);
      fake_cuda::enqueue(stream, [word, i] {
        *word = i;
        return true;
      });
      pieces.push_back({sizeof(symm_ipc_piece_t), word, 4, nullptr, nullptr, 0});
    }
    pieces[5].name = "last";
    const std::vector<std::byte> token = export_bundle(pieces, {}, stream);
    std::copy(token.begin(), token.end(), facts->token);
    facts->size = token.size();

    const Owned elsewhere(4096, 1);
    pieces.push_back({sizeof(symm_ipc_piece_t), elsewhere.buffer->data(), 4, nullptr, nullptr, 0});
    expect_failure(Status::invalid_argument, {"pieces[6].pointer", "another device"},
        [&] { export_bundle(pieces, {}, stream); });
    reach(0);
    await(1);
    ASSERT_TRUE(stats().leases == 1);
    const symm_ipc_holders_t held = holders(&owned[3]->word(3), 4);
    ASSERT_TRUE(held.leases == 1 && held.processes == 1);
    reach(2);
    withdraw(&owned[3]->word(3), 4, 20'000);
    ASSERT_TRUE(stats().leases == 0);
  };

  const auto importing = [&] {
    const cuda::CUstream stream = make_stream();
    const auto bundle = [&] {
      await(0);
      return import_memory({facts->token, facts->size}, {0, "", -1, Access::read_only}, stream);
    }();
    ASSERT_TRUE(eventually([&] { return fake_cuda::idle(stream); }));
    ASSERT_TRUE(bundle->bundle()->pieces() == 6 && bundle->bundle()->find("last") == 5);
    for (uint32_t i = 0; i < 6; ++i) {
      ASSERT_TRUE(*static_cast<uint32_t*>(bundle->piece(i).pointer) == i);
    }
    ASSERT_TRUE(bundle->info().backend == SYMM_BACKEND_CUDA && stats().imported_blocks == 6);
    reach(1);
    await(2);
  };

  both(exporting, importing);
}

// A reader of a bundle of two blocks goes on with other versions at the addresses of the first,
// under a graph that reads there.
TEST_F(CudaIpc, AGraphReadsEachVersionAtTheSameAddress) {
  constexpr uint32_t kVersions = 1000;
  const auto exporting = [&] {
    struct Version {
      Owned first{4096};
      Owned second{4096};
    } versions[2];
    for (uint32_t i = 0; i < kVersions; ++i) {
      const Version& next = versions[i % 2];
      next.first.word(1) = i;
      next.second.word(0) = i + 1;
      const std::vector<symm_ipc_piece_t> pieces = {
          {sizeof(symm_ipc_piece_t), &next.first.word(1), 4, "first", nullptr, 0},
          {sizeof(symm_ipc_piece_t), &next.second.word(0), 4, "second", nullptr, 0}};
      const std::vector<std::byte> token = export_bundle(pieces, {}, nullptr);
      std::copy(token.begin(), token.end(), facts->token);
      facts->size = token.size();
      facts->step[0] = static_cast<int>(i + 1);
      ASSERT_TRUE(eventually([&] { return facts->step[1] == static_cast<int>(i + 1); }));
      withdraw(&next.first.word(1), 4, 20'000);
    }
  };

  const auto importing = [&] {
    const cuda::CUstream stream = make_stream();
    std::shared_ptr<HeldLease> bundle;
    uint32_t seen[2] = {};
    fake_cuda::Graph graph;
    std::map<std::string, long> asleep;
    for (uint32_t i = 0; i < kVersions; ++i) {
      ASSERT_TRUE(eventually([&] { return facts->step[0] == static_cast<int>(i + 1); }));
      const std::span<const std::byte> token(facts->token, facts->size);
      if (i == 0) {
        bundle = import_memory(token, {0, "", -1, Access::read_only}, stream);
        const auto* const first = static_cast<const uint32_t*>(bundle->piece(0).pointer);
        const auto* const second = static_cast<const uint32_t*>(bundle->piece(1).pointer);
        graph.emplace_back([&seen, first, second] {
          seen[0] = *first;
          seen[1] = *second;
          return true;
        });
      } else {
        resume_import(*bundle, token, {}, stream);
      }
      fake_cuda::replay(graph, stream);
      bundle->suspend(stream);  // waits for the graph
      ASSERT_TRUE(seen[0] == i && seen[1] == i + 1);
      ASSERT_TRUE(bundle->info().flags == (SYMM_IPC_READ_ONLY | SYMM_IPC_SUSPENDED));
      if (i == 2) asleep = fake_cuda::live();
      facts->step[1] = static_cast<int>(i + 1);
    }
    ASSERT_TRUE(eventually([&] { return fake_cuda::live() == asleep; }));
    ASSERT_TRUE(stats().imported_blocks == 0 && fake_cuda::violations().empty());
    bundle.reset();
    ASSERT_TRUE(eventually([&] {
      collect();
      return fake_cuda::live()["reservation"] + 2 == asleep["reservation"];
    }));
  };

  both(exporting, importing);
}

// The memory goes when what was issued on the stream, and what was recorded, is over.
TEST_F(CudaIpc, ASuspensionWaitsForWhatUsesTheImport) {
  const auto exporting = [&] {
    const Owned owned(4096);
    offer(owned.buffer->data(), 4096);
    await(1);
    ASSERT_TRUE(stats().leases == 0);
  };

  const auto importing = [&] {
    const auto import = import_offer();
    const cuda::CUstream stream = make_stream();
    const cuda::CUstream recorded = make_stream();
    for (cuda::CUstream const busy : {recorded, stream}) {
      std::atomic<bool> is_over{false};
      volatile const uint32_t* const at = &word(import, 0);
      fake_cuda::enqueue(busy, [&is_over, at, looks = 0]() mutable {
        (void)*at;  // it is still mapped
        if (++looks < 5) return false;
        is_over = true;
        return true;
      });
      if (busy == recorded) import->record_use(recorded);
      import->suspend(stream);
      ASSERT_TRUE(is_over);
      resume_import(*import, {}, {}, stream);
    }
    import->suspend(kAllStreams);
    resume_import(*import, {}, {}, stream);
    const Owned group(4096);
    expect_failure(Status::invalid_argument, {"token", "of this process"}, [&] {
      import->suspend(stream);
      resume_import(*import, export_memory(group.buffer->data(), 4096, {}, nullptr), {}, stream);
    });
    fake_cuda::begin_capture(stream);
    expect_failure(Status::invalid_argument, {"stream", "captured"},
        [&] { resume_import(*import, {}, {}, stream); });
    fake_cuda::end_capture(stream);
    reach(1);
  };

  both(exporting, importing);
}

// Whatever fails in a resumption, the import stays suspended, and nothing is mapped.
TEST_F(CudaIpc, AnyDriverCallMayFailInAResumption) {
  const auto exporting = [&] {
    const Owned owned(4096);
    owned.word(0) = 41;
    offer(owned.buffer->data(), 4096);
    await(1);
  };

  const auto importing = [&] {
    const auto import = import_offer();
    import->suspend(nullptr);
    const std::map<std::string, long> before = fake_cuda::live();
    std::set<std::string> failed;
    for (int n = 1; (import->info().flags & SYMM_IPC_SUSPENDED) != 0; ++n) {
      ASSERT_TRUE(n < 50);
      fake_cuda::fail_call(n, 999);
      support::failure_of([&] { resume_import(*import, {}, {}, nullptr); });
      failed.insert(fake_cuda::failed_call());
      fake_cuda::fail_call(0, 0);
      const bool is_asleep = (import->info().flags & SYMM_IPC_SUSPENDED) != 0;
      ASSERT_TRUE(!is_asleep || fake_cuda::live() == before);
    }
    ASSERT_TRUE(word(import, 0) == 41);
    for (const char* call : {"cuMemImportFromShareableHandle", "cuMemMap", "cuMemSetAccess"}) {
      ASSERT_TRUE(failed.contains(call));
    }
    reach(1);
  };

  both(exporting, importing);
}

TEST_F(CudaIpc, AGpuThatIsNotVisible) {
  const auto exporting = [&] {
    const Owned owned(4096, 3);
    offer(owned.buffer->data(), 4);
    await(1);
  };

  const auto importing = [&] {
    fake_cuda::settings().devices = {2, 0};
    expect_failure(Status::unavailable, {"not visible"}, [&] { import_offer(); });
    expect_failure(Status::invalid_argument, {}, [&] { import_offer(nullptr, 2); });
    ASSERT_TRUE(import_offer(nullptr, 1)->info().device == 1);
    reach(1);
  };

  both(exporting, importing);
}

TEST_F(CudaIpc, TheImportersStreamWaitsForTheProducers) {
  const auto exporting = [&] {
    const Owned owned(4096);
    const cuda::CUstream stream = make_stream();
    uint32_t* data = &owned.word(0);
    fake_cuda::enqueue(stream, [&] { return facts->step[2] == 1; });  // a long kernel
    fake_cuda::enqueue(stream, [data] {
      *data = 7;
      return true;
    });

    put_token(data, 4, stream);
    // Importers do not wait for work that comes after the export.
    fake_cuda::enqueue(stream, [&] { return facts->step[5] == 1; });
    reach(0);
    await(2);

    while (!fake_cuda::idle(stream) && facts->step[3] == 0) {
      usleep(1000);
    }

    await(3);
    reach(5);
    ASSERT_TRUE(eventually([&] { return fake_cuda::idle(stream); }));
  };

  const auto importing = [&] {
    const cuda::CUstream stream = make_stream();
    const auto import = import_offer(stream);
    uint32_t seen = 0;
    fake_cuda::enqueue(stream, [&] {
      seen = word(import, 0);
      return true;
    });

    usleep(20'000);
    ASSERT_TRUE(!fake_cuda::idle(stream));
    ASSERT_TRUE(seen == 0);

    reach(2);
    ASSERT_TRUE(eventually([&] { return fake_cuda::idle(stream); }));
    ASSERT_TRUE(seen == 7);

    // The producer is past that point, so that there is nothing to wait for.
    const auto late = import_offer(stream);
    ASSERT_TRUE(fake_cuda::idle(stream));
    reach(3);
  };

  both(exporting, importing);
}

TEST_F(CudaIpc, ALeaseEndsWhenTheImportersStreamIsThere) {
  const auto exporting = [&] {
    const Owned owned(4096);
    offer(owned.buffer->data(), 4);
    await(1);
    // The holder has released the import, but its stream is not there yet.
    ASSERT_TRUE(stats().leases == 1);
    expect_failure(Status::timeout, {}, [&] { withdraw(owned.buffer->data(), 4096, 30); });
    reach(2);
    withdraw(owned.buffer->data(), 4096, 20'000);
    ASSERT_TRUE(stats().leases == 0 && stats().quarantined_blocks == 0);
    reach(3);
  };

  const auto importing = [&] {
    const cuda::CUstream stream = make_stream();
    auto import = import_offer(stream);
    fake_cuda::enqueue(stream, [&] { return facts->step[2] == 1; });
    import->release_after(stream);
    import.reset();
    reach(1);
    ASSERT_TRUE(eventually([&] { return fake_cuda::idle(stream); }));
    await(3);
  };

  both(exporting, importing);
}

// A holder that releases an import may have recorded uses on other streams, or may not
// know on which streams the import was used and then names all of them.
TEST_F(CudaIpc, ALeaseEndsAfterUsesOnOtherStreams) {
  for (const bool recorded : {false, true}) {
    const auto exporting = [&] {
      const Owned owned(4096);
      offer(&owned.word(0), 400);
      await(1);
      collect();
      ASSERT_TRUE(stats().leases == 1);
      reach(2);
      ASSERT_TRUE(eventually([] {
        collect();
        return stats().leases == 0;
      }));
      reach(3);
    };

    const auto importing = [&] {
      cuda::CUstream known = make_stream();
      cuda::CUstream other = make_stream();
      std::shared_ptr<HeldLease> import = import_offer(known);
      bool done = false;

      fake_cuda::enqueue(other, [&] { return done; });
      if (recorded) import->record_use(other);

      import->let_wait(other);
      import->release_after(recorded ? known : kAllStreams);
      import.reset();
      reach(1);
      await(2);

      ASSERT_TRUE(!fake_cuda::idle(other));
      done = true;
      ASSERT_TRUE(fake_cuda::idle(other));
      await(3);
    };

    both(exporting, importing);
  }
}

TEST_F(CudaIpc, AStreamIsNotLeftWaitingForADeadProducer) {
  Process exporter([&] {
    const Owned owned(4096);
    const cuda::CUstream stream = make_stream();
    // The stream never comes to the point of the export.
    fake_cuda::enqueue(stream, [] { return false; });
    offer(owned.buffer->data(), 4, stream);
    pause();
  });

  Process importer([&] {
    const cuda::CUstream stream = make_stream();
    const auto import = import_offer(stream);
    usleep(5000);
    ASSERT_TRUE(!fake_cuda::idle(stream));
    reach(1);
    ASSERT_TRUE(eventually([&] { return fake_cuda::idle(stream); }));
    ASSERT_TRUE(import->info().exporter_alive == 0);
    word(import, 0) = 1;  // still mapped
  });

  await(1);
  exporter.kill(SIGKILL);
  importer.expect_success("importer");
}

TEST_F(CudaIpc, MemoryOfAKilledHolderIsFreedButNotUsedAgain) {
  Process exporter([&] {
    Owned owned(4096);
    offer(owned.buffer->data(), 4);
    ASSERT_TRUE(eventually([] { return stats().written_off_leases == 1; }));
    ASSERT_TRUE(stats().quarantined_blocks == 1);
    expect_failure(Status::peer_failed, {}, [&] { withdraw(owned.buffer->data(), 4096, 20'000); });
    owned.buffer.reset();
    ASSERT_TRUE(stats().quarantined_blocks == 0 && stats().limbo_blocks == 0);
    ASSERT_TRUE(collect().freed_blocks == 1);
  });

  Process importer([&] {
    const auto import = import_offer();
    reach(1);
    pause();
  });

  await(1);
  importer.kill(SIGKILL);
  exporter.expect_success("exporter");
}

using cuda::ForeignMemory;

// The driver exports nothing of what was imported, so the importer keeps the descriptor by which it
// came.
TEST_F(CudaIpc, MemoryOfADeadMakerIsHandedOn) {
  const auto exporting = [&] {
    const Owned owned(5'000'000);
    owned.word(1000) = 41;
    offer(&owned.word(1000), 400);
    pause();
  };

  const auto handing_on = [&] {
    const auto import = import_offer();
    reach(1);
    ASSERT_TRUE(eventually([&] { return import->info().exporter_alive == 0; }));
    put_token(import->data(), import->bytes());
    reach(2);
    await(3);
  };

  const auto importing = [&] {
    await(2);
    const auto import = import_offer();
    ASSERT_TRUE(word(import, 0) == 41);
    reach(3);
  };

  Process exporter(exporting);
  Process holder(handing_on);
  Process importer(importing);
  await(1);
  exporter.kill(SIGKILL);
  importer.expect_success("importer");
  holder.expect_success("holder");
}

TEST_F(CudaIpc, ADriverThatIsHeldUpHidesNoDeath) {
  const auto exporting = [&] {
    const Owned owned(4096);
    offer(owned.buffer->data(), 4);
    await(1);
  };

  const auto importing = [&] {
    // The import is released at once, but stays mapped for the next one.
    import_offer();
    fake_cuda::settings().held = true;
    reach(1);
    const bool heard = eventually([] { return stats().exporters == 0; });
    fake_cuda::settings().held = false;
    ASSERT_TRUE(heard);
  };

  both(exporting, importing);
}

// The token of an adopted buffer is for the allocation
// that the piece lies in, and ends with the buffer.
TEST_F(CudaIpc, APieceOfAnAdoptedBuffer) {
  const auto exporting = [&] {
    Owned owned(4096, 1);
    ForeignMemory foreign;
    owned.buffer = Buffer::adopt(*owned.group, foreign.words() + 1024, 8192);
    owned.word(10) = 8;
    put_token(&owned.word(10), 4);
    foreign.free();
    reach(0);
    await(1);

    ASSERT_TRUE(stats().exported_blocks == 1);
    owned.buffer.reset();
    ASSERT_TRUE(collect().limbo_blocks == 1 && stats().exported_blocks == 0);

    reach(2);
    ASSERT_TRUE(eventually([] { return collect().limbo_blocks == 0; }));
  };

  const auto importing = [&] {
    const auto import = import_offer();
    ASSERT_TRUE(word(import, 0) == 8 && import->info().offset == 4096 + 40);
    reach(1);
    await(2);
    ASSERT_TRUE(word(import, 0) == 8);
  };

  both(exporting, importing);
}

// A token names one allocation: a buffer that lies in several has one for each of them.
TEST_F(CudaIpc, AnAdoptedBufferOfSeveralAllocations) {
  const auto exporting = [&] {
    Owned owned(4096, 1);
    ForeignMemory foreign(1, 2 * ForeignMemory::kUnit, 2);
    owned.buffer = Buffer::adopt(*owned.group, foreign.words(), foreign.size);
    const size_t second = ForeignMemory::kUnit / sizeof(uint32_t);
    expect_failure(Status::invalid_argument, {"go beyond the memory of 2097152 bytes"},
        [&] { export_memory(&owned.word(second - 1), 8, {}, nullptr); });

    owned.word(second - 1) = 7;
    owned.word(second + 3) = 8;
    put_token(&owned.word(second - 1), 4);
    reach(0);
    await(1);
    put_token(&owned.word(second), 64);
    reach(2);
    await(3);
  };

  const auto importing = [&] {
    ASSERT_TRUE(word(import_offer(), 0) == 7);
    reach(1);
    await(2);
    ASSERT_TRUE(word(import_offer(), 3) == 8);
    reach(3);
  };

  both(exporting, importing);
}

TEST_F(CudaIpc, AnAllocationThatSymmDidNotMake) {
  const auto exporting = [&] {
    ForeignMemory foreign;
    foreign.words()[256] = 5;
    for (int i = 0; i < 2; ++i) {
      put_token(foreign.words() + 256, 4);
    }
    ASSERT_TRUE(stats().exported_blocks == 1);

    reach(0);
    await(1);

    // The owner frees without telling symm, which still holds the memory.
    foreign.free();
    ASSERT_TRUE(fake_cuda::live()["handle"] == 1);

    ForeignMemory next;  // may lie at the same address
    const auto again = export_memory(next.words(), 4, {}, nullptr);
    withdraw(next.words(), next.size, 20'000);
    next.free();
    reach(2);
    ASSERT_TRUE(eventually([] { return collect().limbo_blocks == 0; }));

    ForeignMemory closed(1, ForeignMemory::kUnit, 1, 0);
    const auto refused = [](const void* memory, const char* why) {
      expect_failure(
          Status::invalid_argument, {why}, [&] { export_memory(memory, 4, {}, nullptr); });
    };

    refused(closed.words(), "POSIX_FILE_DESCRIPTOR");
    closed.free();

    ForeignMemory grown(1, 2 * ForeignMemory::kUnit, 2);
    // If the driver gives the whole reservation, nobody can say where the second piece begins.
    fake_cuda::settings().ranges_are_reservations = true;
    refused(grown.words() + grown.size / 8, "several allocations");
    grown.free();

    uint32_t ordinary = 0;
    refused(&ordinary, "");
  };

  const auto importing = [&] {
    const auto import = import_offer();
    ASSERT_TRUE(
        word(import, 0) == 5 && import->info().device == 1 && import->info().offset == 1024);
    reach(1);
    await(2);
    ASSERT_TRUE(word(import, 0) == 5);
  };

  both(exporting, importing);
}

// Makes each driver call of `body` fail in turn, and returns the names of those calls.
std::set<std::string> each_call_fails(
    const std::function<void()>& body, const std::function<void(const std::string&)>& then = {}) {
  std::set<std::string> calls;
  for (int n = 1; n < 50; ++n) {
    const Outcome ended = outcome_of(n, [&](Outcome&, Status*&) { body(); });
    if (ended.failed.empty()) return calls;
    calls.insert(ended.failed);
    EXPECT_TRUE(ended.message.empty() || ended.message.find(ended.failed) != std::string::npos);
    if (then) then(ended.failed);
  }
  throw std::runtime_error("there is no end of calls that fail");
}

// Memory of cudaMalloc, which goes when its owner says so.
struct Ordinary {
  explicit Ordinary(size_t bytes, int device = 0, bool has_handle = true)
      : size(bytes), memory(fake_cuda::ordinary_memory(bytes, device, has_handle)) {}
  ~Ordinary() { free(); }
  Ordinary(Ordinary&&) = delete;

  void free() { fake_cuda::free_ordinary(std::exchange(memory, nullptr)); }
  uint32_t* words() const { return static_cast<uint32_t*>(memory); }

  size_t size;
  void* memory;
};

std::vector<symm_ipc_piece_t> pieces_of(
    const std::vector<std::unique_ptr<Ordinary>>& segments, uint32_t each) {
  std::vector<symm_ipc_piece_t> pieces;
  for (uint32_t i = 0; i < segments.size() * each; ++i) {
    uint32_t* const word = segments[i % segments.size()]->words() + i;
    *word = i;
    pieces.push_back({sizeof(symm_ipc_piece_t), word, 4, nullptr, nullptr, 0});
  }
  return pieces;
}

constexpr size_t kSegment = size_t{2} << 20;

TEST_F(CudaIpc, APieceOfMemoryOfCudaMalloc) {
  const auto exporting = [&] {
    const Ordinary owned(kSegment, 1);
    owned.words()[256] = 5;
    for (int i = 0; i < 2; ++i) {
      put_token(owned.words() + 256, 400);
    }
    ASSERT_TRUE(stats().exported_blocks == 1);
    const std::span<const std::byte> token(facts->token, facts->size);
    const auto own = import_memory(token, {}, nullptr);
    ASSERT_TRUE(own->data() == reinterpret_cast<std::byte*>(owned.words() + 256));
    ASSERT_TRUE(own->info().flags == SYMM_IPC_DIES_WITH_MAKER);
    expect_failure(Status::unsupported, {"options.flags", "cudaMalloc"},
        [&] { import_memory(token, {0, "", -1, Access::read_only}, nullptr); });
    reach(0);
    await(1);
    ASSERT_TRUE(owned.words()[257] == 6);
    ASSERT_TRUE(holders(owned.words() + 300, 4).processes == 2);
    reach(2);
    await(3);
    withdraw(owned.memory, 4, 20'000);  // of another piece
  };

  const auto importing = [&] {
    {
      const auto import = import_offer();
      ASSERT_TRUE(std::exchange(word(import, 1), 6) == 0 && word(import, 0) == 5);
      const symm_ipc_info_t info = import->info();
      ASSERT_TRUE(info.device == 1 && info.offset == 1024 && info.block_bytes == kSegment);
      ASSERT_TRUE(info.flags == SYMM_IPC_DIES_WITH_MAKER && info.host_memory == 0);

      const auto again = import_offer();
      ASSERT_TRUE(again->data() == import->data() && fake_cuda::live()["opened"] == 1);
      expect_failure(Status::unsupported, {"options.flags", "cudaMalloc"}, [&] {
        import_memory({facts->token, facts->size}, {0, "", -1, Access::read_only}, nullptr);
      });
      const auto single = import_offer(nullptr, 0);
      expect_failure(Status::unsupported, {"ipc", "cudaMalloc"}, [&] { single->suspend(nullptr); });
      ASSERT_TRUE(word(single, 1) == 6);
      reach(1);
      await(2);
    }
    // It is not kept for a next import, since its owner may free it.
    ASSERT_TRUE(fake_cuda::live()["opened"] == 0 && stats().imported_blocks == 0);
    ASSERT_TRUE(word(import_offer(), 1) == 6);
    reach(3);
  };

  both(exporting, importing);
}

// The driver numbers allocations: a token is not one of what lies at the address later.
TEST_F(CudaIpc, ATokenOfFreedMemoryOfCudaMalloc) {
  const auto exporting = [&] {
    Ordinary owned(kSegment);
    void* const there = owned.memory;
    offer(owned.words(), 4);
    await(1);
    owned.free();
    const Ordinary next(kSegment);
    ASSERT_TRUE(next.memory == there);
    reach(2);
    await(3);
    next.words()[0] = 7;
    put_token(next.words(), 4);
    ASSERT_TRUE(stats().exported_blocks == 1);
    reach(4);
    await(5);
  };

  const auto importing = [&] {
    const auto import = import_offer();
    reach(1);
    await(2);
    for (const Access access : {Access::read_write, Access::read_only}) {
      expect_failure(Status::invalid_handle, {"token", "released by its owner"},
          [&] { import_memory({facts->token, facts->size}, {0, "", -1, access}, nullptr); });
    }
    reach(3);
    await(4);
    const auto next = import_offer();
    ASSERT_TRUE(word(next, 0) == 7 && next->data() != import->data());
    reach(5);
  };

  both(exporting, importing);
}

// Tensors of a caching allocator: many pieces in few allocations, each of which is opened once.
TEST_F(CudaIpc, ABundleInMemoryOfCudaMalloc) {
  constexpr uint32_t kSegments = 3;
  constexpr uint32_t kEach = 100;
  const auto exporting = [&] {
    std::vector<std::unique_ptr<Ordinary>> segments;
    for (uint32_t i = 0; i < kSegments; ++i) {
      segments.push_back(std::make_unique<Ordinary>(kSegment));
    }
    const Owned symmetric(4096);
    symmetric.word(0) = kSegments * kEach;
    std::vector<symm_ipc_piece_t> pieces = pieces_of(segments, kEach);
    pieces.push_back({sizeof(symm_ipc_piece_t), &symmetric.word(0), 4, nullptr, nullptr, 0});
    std::vector<std::byte> token;
    const std::map<std::string, long> calls =
        fake_cuda::calls_of([&] { token = export_bundle(pieces, {}, nullptr); });
    ASSERT_TRUE(calls.at("cuIpcGetMemHandle") == kSegments);
    std::copy(token.begin(), token.end(), facts->token);
    facts->size = token.size();
    reach(0);
    await(1);
    segments[1]->free();
    reach(2);
    await(3);
  };

  const auto importing = [&] {
    {
      const auto bundle = import_offer();
      for (uint32_t i = 0; i <= kSegments * kEach; ++i) {
        ASSERT_TRUE(*static_cast<uint32_t*>(bundle->piece(i).pointer) == i);
      }
      ASSERT_TRUE(bundle->info().flags == SYMM_IPC_DIES_WITH_MAKER);
      ASSERT_TRUE(fake_cuda::live()["opened"] == kSegments);
      expect_failure(Status::unsupported, {"ipc", "cudaMalloc"}, [&] { bundle->suspend(nullptr); });
    }
    ASSERT_TRUE(fake_cuda::live()["opened"] == 0);
    reach(1);
    await(2);
    expect_failure(
        Status::invalid_handle, {"token", "released by its owner"}, [&] { import_offer(); });
    ASSERT_TRUE(fake_cuda::live()["opened"] == 0);
    reach(3);
  };

  both(exporting, importing);
}

TEST_F(CudaIpc, MemoryOfCudaMallocIsMappedAtNoKeptAddress) {
  const auto exporting = [&] {
    const Owned owned(kSegment);
    const Ordinary ordinary(kSegment);
    offer(owned.buffer->data(), 4);
    await(1);
    put_token(ordinary.memory, 4);
    reach(2);
    await(3);
  };

  const auto importing = [&] {
    const auto import = import_offer();
    import->suspend(nullptr);
    reach(1);
    await(2);
    const std::map<std::string, long> before = fake_cuda::live();
    expect_failure(Status::unsupported, {"token", "cudaMalloc"},
        [&] { resume_import(*import, {facts->token, facts->size}, {}, nullptr); });
    ASSERT_TRUE(fake_cuda::live() == before);
    ASSERT_TRUE(import->info().flags == SYMM_IPC_SUSPENDED);
    reach(3);
  };

  both(exporting, importing);
}

TEST_F(CudaIpc, MemoryOfCudaMallocDiesWithItsMaker) {
  const auto exporting = [&] {
    const Ordinary owned(kSegment);
    offer(owned.words(), 4096);
    pause();
  };

  const auto importing = [&] {
    auto import = import_offer();
    reach(1);
    ASSERT_TRUE(eventually([&] { return import->info().exporter_alive == 0; }));
    ASSERT_TRUE(import->info().flags == SYMM_IPC_DIES_WITH_MAKER);
    const auto is_gone = [](const std::function<void()>& call) {
      expect_failure(Status::peer_failed, {"is gone"}, call);
    };
    is_gone([&] { import->let_wait(nullptr); });
    is_gone([&] { export_memory(import->data(), import->bytes(), {}, nullptr); });
    is_gone([&] { import_offer(); });
    import.reset();
    ASSERT_TRUE(fake_cuda::live()["opened"] == 0);
  };

  Process exporter(exporting);
  Process importer(importing);
  await(1);
  exporter.kill(SIGKILL);
  importer.expect_success("importer");
}

TEST_F(CudaIpc, WhatCannotBePromisedOfMemoryOfCudaMalloc) {
  Process([&] {
    const Ordinary owned(kSegment);
    const std::vector<symm_ipc_piece_t> pieces = {
        {sizeof(symm_ipc_piece_t), owned.memory, 4, nullptr, nullptr, 0}};
    const auto both_refuse = [&](const ExportOptions& options) {
      for (const bool is_bundle : {false, true}) {
        expect_failure(Status::unsupported, {"options.hold_ms", "cudaMalloc"}, [&] {
          is_bundle ? export_bundle(pieces, options, nullptr)
                    : export_memory(owned.memory, 4, options, nullptr);
        });
      }
    };
    both_refuse({.hold_ms = 1000});
    setenv("SYMM_IPC_HOLD_MS", "1000", 1);
    both_refuse({.hold_imports = 1});
    export_bundle(pieces, {}, nullptr);
    export_memory(owned.memory, 4, {}, nullptr);

    const Ordinary pool(kSegment, 0, false);
    expect_failure(Status::invalid_argument, {"pointer", "cudaMallocAsync", "cuIpcGetMemHandle"},
        [&] { export_memory(pool.memory, 4, {}, nullptr); });
    expect_failure(Status::invalid_argument, {"bytes", "go beyond"},
        [&] { export_memory(owned.words() + 1, kSegment, {}, nullptr); });
  }).expect_success("the owner");
}

TEST_F(CudaIpc, ChannelsAndPiecesAreRefusedForMemoryOfAGpu) {
  Process([&] {
    const Ordinary owned(kSegment);
    expect_failure(Status::unsupported, {"options.channels", "memory of a GPU"},
        [&] { export_memory(owned.memory, 4, {.channels = 1}, nullptr); });

    const auto import = import_memory(export_memory(owned.memory, 4, {}, nullptr), {}, nullptr);
    const symm_piece_t piece{0, 0, 4, 1, 0, 0};
    const PieceList list{.pieces = &piece, .count = 1};
    uint32_t word = 7;
    expect_failure(Status::unsupported, {"GPU", "within groups only"},
        [&] { import->put_pieces(0, {&word, 4}, list, std::nullopt, 0, 1'000, nullptr); });
    expect_failure(Status::unsupported, {"GPU", "within groups only"},
        [&] { import->get_pieces(0, {&word, 4}, list, std::nullopt, nullptr); });
    expect_failure(Status::invalid_argument, {"made without channels"},
        [&] { import->signal_value({0, SignalOp::add, 1}, nullptr); });
  }).expect_success("the owner");
}

TEST_F(CudaIpc, ADriverWithoutHandlesOfMemoryOfCudaMalloc) {
  Process([&] {
    fake_cuda::settings().hidden = {"cuIpcCloseMemHandle"};
    const Ordinary owned(kSegment);
    expect_failure(Status::unavailable, {"cudaMalloc", "no cuIpcCloseMemHandle of CUDA 4.1"},
        [&] { export_memory(owned.memory, 4, {}, nullptr); });
    const Owned symmetric(4096);
    export_memory(symmetric.buffer->data(), 4, {}, nullptr);
  }).expect_success("the owner");
}

TEST_F(CudaIpc, AnyDriverCallMayFailWithMemoryOfCudaMalloc) {
  const auto exporting = [&] {
    const Ordinary owned(kSegment);
    put_token(owned.memory, 4);
    const auto calls = each_call_fails([&] { export_memory(owned.memory, 4, {}, nullptr); });
    ASSERT_TRUE(calls.contains("cuIpcGetMemHandle") && calls.contains("cuPointerGetAttribute"));
    offer(owned.memory, 4);  // the token before ends if the driver does not know the memory
    await(1);
    ASSERT_TRUE(eventually([] { return stats().leases == 0; }));
  };

  const auto importing = [&] {
    import_offer();
    // If the device could not be asked at a release, a thread waits for it.
    const auto nothing_is_open = [](const std::string& failed) {
      const bool is_closed = eventually([] {
        collect();
        return fake_cuda::live()["opened"] == 0;
      });
      if (is_closed) return;
      throw std::runtime_error("something is left after " + failed);
    };
    const auto calls = each_call_fails([&] { import_offer(); }, nothing_is_open);
    ASSERT_TRUE(calls.contains("cuIpcOpenMemHandle"));
    reach(1);
  };

  both(exporting, importing);
}

// Memory is mapped by a fabric handle where both processes can do so, and by a
// descriptor otherwise. Memory of the host is memory of the host at the importer, too.
TEST_F(CudaIpc, MapsByFabricHandleOrDescriptor) {
  struct {
    bool on_host;
    bool create;
    bool import;
    long by_fabric;
  } constexpr kRows[] = {{false, true, true, 1}, {false, true, false, 0}, {false, false, true, 0},
      {true, true, true, 0}};

  for (const auto& row : kRows) {
    const auto exporting = [&] {
      fake_cuda::settings().fabric_create = row.create;
      Owned owned(64);
      if (row.on_host) owned.buffer = Buffer::allocate(*owned.group, 4096, {true});
      owned.word(0) = 41;
      offer(&owned.word(0), 4);
      await(1);
      ASSERT_TRUE(owned.word(0) == 42);
    };

    const auto importing = [&] {
      fake_cuda::settings().fabric_create = row.import;
      fake_cuda::settings().fabric_import = row.import;
      const auto import = import_offer();
      ASSERT_TRUE(fake_cuda::fabric_imports() == row.by_fabric);
      ASSERT_TRUE((import->info().host_memory != 0) == row.on_host);
      ASSERT_TRUE(fake_cuda::access(import->data()).size() == (row.on_host ? 2 : 1));
      ASSERT_TRUE(std::exchange(word(import, 0), 42) == 41);
      reach(1);
    };

    both(exporting, importing);
  }
}

// Where there are several references, the lease ends after the stream of each release.
TEST_F(CudaIpc, EachReferenceIsReleasedOnItsStream) {
  const Owned owned(4096);
  const cuda::CUstream first = make_stream();
  const cuda::CUstream last = make_stream();
  bool done = false;
  auto import = import_memory(export_memory(owned.buffer->data(), 4, {}, nullptr), {}, last);

  fake_cuda::enqueue(first, [&] { return done; });
  import->note_release(first);
  import->release_after(last);
  import.reset();

  EXPECT_EQ(holders(owned.buffer->data(), 4).leases, 1U);
  done = true;
  EXPECT_TRUE(fake_cuda::idle(first));
  EXPECT_EQ(holders(owned.buffer->data(), 4).leases, 0U);
}

TEST_F(CudaIpc, CyclesGiveEverythingBack) {
  constexpr int kCycles = 200;
  // Each process has its own copy of this.
  std::map<std::string, long> before;
  const auto nothing_added = [&](int i) {
    if (i == 2) before = support::settled(fake_cuda::live);
    // The monitor's thread releases the last objects, so this waits for it.
    if (i > 2 && !eventually([&] { return fake_cuda::live() == before; })) {
      throw std::runtime_error("something was added in cycle " + std::to_string(i));
    }
  };

  const auto exporting = [&] {
    const cuda::CUstream stream = make_stream();
    for (int i = 0; i < kCycles; ++i) {
      Owned owned(4096);
      owned.word(0) = static_cast<uint32_t>(i);
      put_token(&owned.word(0), 4, stream);
      facts->step[0] = i + 1;
      ASSERT_TRUE(eventually([&] { return facts->step[1] == i + 1; }));
      owned.buffer.reset();
      owned.group.reset();
      ASSERT_TRUE(eventually([] { return collect().limbo_blocks == 0; }));
      nothing_added(i);
    }
  };

  const auto importing = [&] {
    const cuda::CUstream stream = make_stream();
    for (int i = 0; i < kCycles; ++i) {
      ASSERT_TRUE(eventually([&] { return facts->step[0] == i + 1; }));
      {
        const auto import = import_offer(stream);
        ASSERT_TRUE(word(import, 0) == static_cast<uint32_t>(i));
        import->release_after(stream);
      }
      facts->step[1] = i + 1;
      ASSERT_TRUE(eventually([] { return stats().imported_blocks == 0; }));
      nothing_added(i);
    }
  };

  both(exporting, importing);
}

// A driver call that fails in an export or an import is named, and nothing is left.
TEST_F(CudaIpc, AnyDriverCallMayFail) {
  const auto exporting = [&] {
    const Owned owned(4096);
    put_token(owned.buffer->data(), 4);
    each_call_fails([&] { export_memory(owned.buffer->data(), 4, {}, nullptr); });
    reach(0);
    await(1);
    ASSERT_TRUE(eventually([] { return stats().leases == 0; }));
  };

  const auto importing = [&] {
    const cuda::CUstream stream = make_stream();
    // A process asks its driver for some facts only once, and does so here.
    import_offer(stream);

    std::map<std::string, long> before;
    const auto nothing_mapped = [&](const std::string& failed) {
      // Connections end, too.
      collect();
      if (!failed.empty() && fake_cuda::live() != before) {
        throw std::runtime_error("something is left after " + failed);
      }
      before = fake_cuda::live();
    };

    nothing_mapped("");
    const auto calls = each_call_fails([&] { import_offer(stream); }, nothing_mapped);
    for (const char* call :
        {"cuMemImportFromShareableHandle", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"}) {
      if (!calls.contains(call)) {
        throw std::runtime_error(std::string(call) + " was not made to fail");
      }
    }

    reach(1);
  };

  both(exporting, importing);
}

// The library gives back what a token has kept, once its time is over, before it asks the program.
// So an allocation fails first and succeeds then.
TEST(CudaShortMemory, WhatATokenKeptGoesFirst) {
  Process([] {
    constexpr size_t kBytes = size_t{2} << 20;
    const auto group = Group::create(config_of(0, 1, unique(), 0));
    fake_cuda::settings().memory_bytes = fake_cuda::bytes_in_use() + kBytes;
    auto kept = Buffer::allocate(*group, kBytes);
    ipc::export_memory(kept->data(), kBytes, {.hold_ms = 200}, nullptr);
    kept.reset();

    int asked = 0;
    const auto ask = [](void* user, int32_t, int32_t, uint64_t) -> uint64_t {
      ++*static_cast<int*>(user);
      return 0;
    };
    memory_pressure::add(ask, &asked);
    std::shared_ptr<Buffer> block;
    const auto allocate = [&] { block = Buffer::allocate(*group, kBytes); };
    expect_failure(Status::out_of_memory, {}, allocate);
    EXPECT_EQ(asked, 1);

    EXPECT_TRUE(eventually([&] {
      const int before = asked;
      const bool is_there = support::failure_of(allocate).status == Status::ok;
      EXPECT_EQ(asked, is_there ? before : before + 1);
      return is_there;
    }));
    EXPECT_NE(block, nullptr);
  }).expect_success("the rank");
}
}  // namespace
}  // namespace symm::ipc
