// Puts, gets, fills, values and signals between GPUs of machines that SYMM_MACHINE makes of this
// host. The driver and NCCL are fakes; UCX is the one that is installed here.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/cuda/driver.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "kernels/compare.hpp"
#include "tests/cuda/processes.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"

namespace symm {
namespace {
constexpr size_t kBlock = size_t{20} << 20;  // more bytes than may be in flight

// A rank with a memory of the group, and its neighbours on a ring.
struct Place {
  std::shared_ptr<Group> group;
  std::shared_ptr<Buffer> buffer = Buffer::allocate(*group, kBlock);
  std::shared_ptr<Memory> memory = Memory::rendezvous(group, buffer, 0);
  int me = group->rank();
  int next = (me + 1) % group->size();
  int last = (me + group->size() - 1) % group->size();

  void barrier() const { group->barrier({}, 0, 20'000, nullptr); }

  void synchronize(void* stream = nullptr) const { group->synchronize(stream, 20'000); }

  void expect(size_t offset, uint32_t value, size_t words = 1) const {
    const auto* const first = reinterpret_cast<const uint32_t*>(buffer->data() + offset);
    EXPECT_EQ(std::count(first, first + words, value), static_cast<long>(words))
        << "rank " << me << " at " << offset;
  }
};

void* stream_of_number(uintptr_t number) {
  return reinterpret_cast<void*>(number << 20);
}  // NOLINT(performance-no-int-to-ptr)

// Waits until the group has failed and its streams have run on. Returns the failure.
std::string failure_after(const std::shared_ptr<Group>& group) {
  EXPECT_TRUE(support::eventually(
      [&] { return fake_cuda::idle(nullptr) && group->revocation().revoked(); }));
  return support::outcome_of([&] {
    group->require_usable();
    return "";
  });
}

// Rank 1 releases its memory, and rank 0 makes `call` for it. Returns the failure of the group.
std::string failure_of_released(
    const std::shared_ptr<Group>& group, const std::function<void(Memory& memory)>& call) {
  Place here{group};
  here.barrier();
  here.synchronize();

  if (here.me == 1) {
    group->forget(*here.memory);
    here.memory.reset();
  }
  group->barrier({}, 1, 20'000, nullptr);
  if (here.me == 1) {
    here.synchronize();
  } else {
    call(*here.memory);
  }

  return failure_after(group);
}

const Setting kFails{.change = [](GroupConfig& config) { config.timeout_ms = 2'000; }};

class CudaOneSided : public ::testing::Test {
 protected:
  void SetUp() override {
    const Body write = [](const std::shared_ptr<Group>& group) {
      const Place here{group};
      return support::outcome_of([&] {
        here.memory->write_value(here.next, 0, 1, 8, nullptr);
        return "";
      });
    };
    const std::string said = on_machines("ab", write)[0];
    if (said.find("no engine") != std::string::npos) GTEST_SKIP() << said;
  }
};

TEST_F(CudaOneSided, CallsMeanWhatTheyMeanOnOneMachine) {
  const Body body = [](const std::shared_ptr<Group>& group) {
    const Place here{group};
    constexpr size_t kWords = (size_t{18} << 20) / 4;
    std::vector<uint32_t> mine(kWords);
    std::vector<uint32_t> got(kWords);
    for (uint32_t round = 1; round <= 3; ++round) {
      const auto from = [&](int rank) { return round * 100 + static_cast<uint32_t>(rank); };
      mine.assign(kWords, from(here.me));

      // A put, then signals on another stream, which waits for the stream of the put.
      here.memory->put(here.next, 4096, mine.data(), kWords * 4, nullptr);
      group->transport().stream_wait(stream_of_number(1), nullptr);
      here.memory->send_signal(here.next, 1, SignalOp::add, 1, stream_of_number(1));
      here.memory->send_signal(here.next, 2, SignalOp::set, from(here.me), stream_of_number(1));
      here.memory->wait_signal(here.last, 1, 20'000, nullptr);
      here.memory->wait_signal_value(
          {here.last, 2, Compare::eq, from(here.last)}, 20'000, nullptr, nullptr);
      here.synchronize();
      here.expect(4096, from(here.last), kWords);
      EXPECT_EQ(here.memory->look_at_signal(here.last, 1).value, round);

      // A barrier, too, makes the stores before it visible.
      here.memory->fill(here.next, 0, {from(here.me) + 7, 4, 100}, nullptr);
      here.memory->fill(here.next, 416, {0xA5, 1, 8}, nullptr);
      here.memory->fill(here.next, 424, {0xB6C7, 2, 4}, nullptr);
      here.memory->fill(here.next, 432, {(uint64_t{round} << 32) + 9, 8, 3}, nullptr);
      here.memory->write_value(here.next, 400, from(here.me) + 8, 4, nullptr);
      here.memory->write_value(here.next, 408, (uint64_t{round} << 32) + 9, 8, nullptr);
      here.barrier();
      here.memory->get(here.next, 4096, got.data(), kWords * 4, nullptr);
      here.synchronize();
      here.expect(0, from(here.last) + 7, 100);
      here.expect(400, from(here.last) + 8);
      here.expect(408, 9);
      here.expect(412, round);
      here.expect(416, 0xA5A5A5A5, 2);
      here.expect(424, 0xB6C7B6C7, 2);
      for (size_t i = 0; i < 3; ++i) {
        here.expect(432 + 8 * i, 9);
        here.expect(436 + 8 * i, round);
      }
      here.expect(456, 0);
      EXPECT_EQ(got, mine);

      here.barrier();
      here.synchronize();
    }
  };
  for (const char* layout : {"ab", "aab"}) {
    expect_well(on_machines(layout, body));
  }
}

// A stream that waits holds up only its own calls, not those of other streams.
TEST_F(CudaOneSided, CallsKeepTheOrderOfTheirStreams) {
  expect_well(on_machines("ab", [](const std::shared_ptr<Group>& group) {
    const Place here{group};
    const uint32_t value = 5;
    // Stream 1 waits for a value that the other rank writes only further below.
    here.memory->wait_value(8, 8, Compare::eq, 1, 20'000, stream_of_number(1));
    for (uint32_t i = 1; i <= 500; ++i) {
      here.memory->write_value(here.next, 16, i, 4, stream_of_number(1));
    }
    here.memory->put(here.next, 24, &value, 4, nullptr);
    here.memory->send_signal(here.next, 0, SignalOp::add, 1, nullptr);
    here.memory->wait_signal(here.last, 0, 20'000, nullptr);
    here.synchronize();
    here.expect(16, 0);
    here.expect(24, value);

    here.barrier();
    here.memory->write_value(here.next, 8, 1, 8, nullptr);
    here.barrier();
    here.synchronize(stream_of_number(1));
    here.barrier();
    here.synchronize();
    here.expect(16, 500);

    // No call of the host waits for a stream, by which such a word comes.
    support::expect_failure(Status::unsupported, {"read_value: rank", "on another machine"},
        [&] { here.memory->read_value(here.next, 0, 8); });
    here.memory->change_value(here.me, 32, {AtomicOp::add, 8, 6}, nullptr, nullptr);
    here.synchronize();
    EXPECT_EQ(here.memory->read_value(here.me, 32, 8), 6U);

    // A put or an atomic to another machine cannot be captured.
    fake_cuda::begin_capture(stream_of_number(2));
    support::expect_failure(Status::unsupported, {"put: rank", "captured graph"},
        [&] { here.memory->put(here.next, 0, &value, 4, stream_of_number(2)); });
    support::expect_failure(Status::unsupported, {"atomic: rank", "captured graph"}, [&] {
      here.memory->change_value(here.next, 0, {AtomicOp::add, 8, 1}, nullptr, stream_of_number(2));
    });
    here.memory->write_value(here.next, 0, 1, 8, nullptr);
    group->barrier({}, 0, 20'000, stream_of_number(2));
    EXPECT_TRUE(fake_cuda::violations().empty());
    fake_cuda::end_capture(stream_of_number(2));
  }));
}

// Additions of all ranks, near and far, fetch each value once. Those of which nobody wants to know
// are done before what comes after a barrier.
void expect_additions_once(const Place& here, uint64_t ranks) {
  constexpr uint64_t kAdds = 100;
  std::vector<uint64_t> fetched(kAdds);
  for (uint64_t& before : fetched) {
    here.memory->change_value(0, 8, {AtomicOp::add, 8, 1}, &before, nullptr);
    here.memory->change_value(0, 16, {AtomicOp::add, 4, 1}, nullptr, nullptr);
  }
  here.barrier();
  here.synchronize();
  EXPECT_TRUE(std::is_sorted(fetched.begin(), fetched.end()));

  here.memory->put(
      0, 4096 + static_cast<size_t>(here.me) * kAdds * 8, fetched.data(), kAdds * 8, nullptr);
  here.barrier();
  here.synchronize();
  if (here.me != 0) return;

  const auto* const words = reinterpret_cast<const uint64_t*>(here.buffer->data());
  EXPECT_EQ(words[1], ranks * kAdds);
  here.expect(16, static_cast<uint32_t>(ranks * kAdds));
  here.expect(20, 0);
  std::vector<uint64_t> all(words + 512, words + 512 + ranks * kAdds);
  std::sort(all.begin(), all.end());
  for (uint64_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i], i);
  }
}

// All operations, on words of both sizes, of the neighbour. What is fetched can be used by what
// comes next on the stream.
void expect_all_operations(const Place& here) {
  const auto change = [&](AtomicOp op, uint32_t value, uint32_t compare = 0) {
    uint32_t narrow[2] = {0, 77};
    uint64_t wide = 0;
    here.memory->change_value(here.next, 100, {op, 4, value, compare}, narrow, nullptr);
    here.memory->change_value(
        here.next, 104, {op, 8, uint64_t{value} << 32, uint64_t{compare} << 32}, &wide, nullptr);
    here.synchronize();
    EXPECT_EQ(wide, uint64_t{narrow[0]} << 32) << static_cast<int>(op);
    EXPECT_EQ(narrow[1], 77U);
    return narrow[0];
  };
  EXPECT_EQ(change(AtomicOp::swap, 12), 0U);
  EXPECT_EQ(change(AtomicOp::add, 3), 12U);
  EXPECT_EQ(change(AtomicOp::band, 13), 15U);
  EXPECT_EQ(change(AtomicOp::bor, 2), 13U);
  EXPECT_EQ(change(AtomicOp::bxor, 6), 15U);
  EXPECT_EQ(change(AtomicOp::compare_swap, 5, 8), 9U);
  EXPECT_EQ(change(AtomicOp::compare_swap, 5, 9), 9U);
  EXPECT_EQ(change(AtomicOp::fetch, 0), 5U);
  here.expect(96, 0);
}

void expect_order_of_stream(const Place& here) {
  // Each comparison holds only if the one before it on the stream has come first.
  for (uint32_t i = 0; i < 200; ++i) {
    here.memory->change_value(
        here.next, 200, {AtomicOp::compare_swap, 4, i + 1, i}, nullptr, nullptr);
  }

  // An atomic is behind the put before it, and a wait for the word is behind both.
  const std::vector<uint32_t> data(1000, 9);
  here.memory->put(here.next, 8'192'000, data.data(), 4000, nullptr);
  here.memory->change_value(here.next, 208, {AtomicOp::add, 8, 1}, nullptr, nullptr);
  here.memory->wait_value(208, 8, Compare::ge, 1, 20'000, nullptr);
  here.synchronize();
  here.expect(8'192'000, 9, 1000);
  here.expect(200, 200);
}

// Words of a rank on another machine are changed by a kernel there, in the order of the stream.
TEST_F(CudaOneSided, WordsAreChangedOnOtherMachines) {
  const Body body = [](const std::shared_ptr<Group>& group) {
    const Place here{group};
    expect_additions_once(here, static_cast<uint64_t>(group->size()));
    expect_all_operations(here);
    expect_order_of_stream(here);
    here.barrier();
    here.synchronize();
  };
  for (const char* layout : {"ab", "aab"}) {
    expect_well(on_machines(layout, body));
  }
}

// A rank dies that has a request and has sent no reply; or it has released the memory.
TEST_F(CudaOneSided, AnAtomicWithoutAReplyFails) {
  const Body body = [](const std::shared_ptr<Group>& group) {
    const Place here{group};
    support::tell();
    if (here.me == 1) support::sleep_for_ever();
    usleep(500'000);  // rank 1 has stopped
    uint64_t before = 0;
    const std::string said = support::outcome_of([&]() -> std::string {
      here.memory->change_value(1, 0, {AtomicOp::add, 8, 1}, &before, nullptr);
      support::tell();
      group->synchronize(nullptr, 60'000);
      return "nothing failed";
    });
    EXPECT_TRUE(support::eventually([] { return fake_cuda::idle(nullptr); }));
    return said;
  };
  const support::TemporaryDirectory where;
  const auto ranks = start("ab", body, kFails, where.path());
  for (support::Process& rank : *ranks) {
    ASSERT_TRUE(rank.told()) << rank.said();
  }
  (*ranks)[1].kill(SIGSTOP);
  ASSERT_TRUE((*ranks)[0].told()) << (*ranks)[0].said();
  (*ranks)[1].kill(SIGKILL);
  expect_all({(*ranks)[0].result()}, {"peer failed: ", "rank 1"});

  const Body releases = [](const std::shared_ptr<Group>& group) {
    uint64_t before = 0;
    return failure_of_released(group, [&](Memory& memory) {
      memory.change_value(1, 0, {AtomicOp::add, 8, 1}, &before, nullptr);
    });
  };
  expect_all(on_machines("ab", releases, kFails),
      {"unavailable: ", "atomic: rank 1 has released the memory"});
}

// The link from a GPU to its host carries no atomic operations, so words in memory of the host are
// not changed by kernels: neither those of this machine's ranks nor for those of another.
TEST_F(CudaOneSided, WordsOfTheHostAreChangedWhereTheLinkAllows) {
  const Setting without{
      .before =
          [](int) {
            fake_cuda::settings()
                .attributes[cuda::CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED] = 0;
          },
      .change = kFails.change};
  const Body body = [](const std::shared_ptr<Group>& group) {
    const auto buffer = Buffer::allocate(*group, 4096, {.on_host = true});
    const auto memory = Memory::rendezvous(group, buffer, 0);
    const int me = group->rank();
    support::expect_failure(Status::unsupported, {"atomic", "the host", "PCIe"},
        [&] { memory->change_value(me, 0, {AtomicOp::add, 8, 1}, nullptr, nullptr); });
    group->barrier({}, 0, 20'000, nullptr);
    group->synchronize(nullptr, 20'000);
    if (me == 0) memory->change_value(1, 0, {AtomicOp::add, 8, 1}, nullptr, nullptr);
    return failure_after(group);
  };
  expect_all(on_machines("ab", body, without),
      {"unsupported: ", "rank 0 changes a word in the block of rank 1", "memory of the host"});
}

// The calls on a rank's streams are carried out even if the rank has meanwhile released the group
// without finalising it.
TEST_F(CudaOneSided, CallsGoOnBeyondTheGroup) {
  const Body body = [](const std::shared_ptr<Group>& of_all) {
    std::shared_ptr<Group> group = of_all->split(0, of_all->rank());
    std::atomic<bool> go = false;
    {
      const Place here{std::exchange(group, nullptr)};
      fake_cuda::enqueue(nullptr, [&] { return go.load(); });
      here.memory->write_value(here.next, 0, 9, 8, nullptr);
      here.memory->wait_value(0, 8, Compare::eq, 9, 20'000, stream_of_number(1));
      if (here.me == 1) here.synchronize(stream_of_number(1));
    }

    go = true;
    EXPECT_TRUE(support::eventually([] { return fake_cuda::idle(nullptr); }));
  };
  expect_well(on_machines("ab", body, {.finalizes = false}));
}

TEST_F(CudaOneSided, ARankThatDiesOrStopsIsNamed) {
  const Body body = [](const std::shared_ptr<Group>& group) {
    const Place here{group};
    support::tell();
    if (here.me == 1) support::sleep_for_ever();
    const std::vector<std::byte> data(kBlock);
    const std::string said = support::outcome_of([&]() -> std::string {
      for (;; group->synchronize(nullptr, 60'000)) {
        here.memory->put(1, 0, data.data(), data.size(), nullptr);
      }
    });
    // The streams run on after the failure.
    EXPECT_TRUE(support::eventually([] { return fake_cuda::idle(nullptr); }));
    return said;
  };

  for (const auto& [signal, words] :
      {std::pair(SIGKILL, "peer failed: "), std::pair(SIGSTOP, "timed out: put: ")}) {
    const support::TemporaryDirectory where;
    const auto ranks = start("ab", body, kFails, where.path());
    for (support::Process& rank : *ranks) {
      ASSERT_TRUE(rank.told()) << rank.said();
    }
    (*ranks)[1].kill(signal);
    expect_all({(*ranks)[0].result()}, {words, "rank 1"});
  }
}

// Each call waits for a silent rank for as long as it was told, not for as long as the group would.
TEST_F(CudaOneSided, ACallHasADeadlineOfItsOwn) {
  for (const bool gets : {false, true}) {
    const Body body = [gets](const std::shared_ptr<Group>& group) {
      const Place here{group};
      support::tell();
      if (here.me == 1) support::sleep_for_ever();
      std::vector<std::byte> data(kBlock);
      const std::string said = support::outcome_of([&]() -> std::string {
        for (;; group->synchronize(nullptr, 60'000)) {
          if (gets) {
            here.memory->get(1, 0, data.data(), data.size(), nullptr, 300);
          } else {
            here.memory->put(1, 0, data.data(), data.size(), nullptr, 300);
          }
        }
      });
      // The streams run on after the failure.
      EXPECT_TRUE(support::eventually([] { return fake_cuda::idle(nullptr); }));
      return said;
    };

    const Setting patient{.change = [](GroupConfig& config) { config.timeout_ms = 60'000; }};
    const support::TemporaryDirectory where;
    const auto ranks = start("ab", body, patient, where.path());
    for (support::Process& rank : *ranks) {
      ASSERT_TRUE(rank.told()) << rank.said();
    }
    (*ranks)[1].kill(SIGSTOP);
    const auto begin = std::chrono::steady_clock::now();
    expect_all({(*ranks)[0].result()}, {gets ? "timed out: get: " : "timed out: put: ", "rank 1"});
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  }
}

// The owner of a block refuses what goes beyond the block, even if the sender did not check it.
TEST_F(CudaOneSided, NothingIsWrittenOutsideOfABlock) {
  const Body body = [](const std::shared_ptr<Group>& group) {
    const Place here{group};
    uint64_t word = 7;
    const MemoryView& view = here.memory->view();
    Transport& transport = group->transport();
    if (here.me == 0) {
      // The owner drops each of the calls up to the signal.
      transport.write_value(view, 1, kBlock, 1, 8, 20'000, nullptr);
      transport.write_value(view, 1, 4, 1, 8, 20'000, nullptr);
      transport.fill(view, 1, 4, {1, 4, kBlock / 4}, 20'000, nullptr);
      transport.fill(view, 1, 4, {1, 4, (size_t{1} << 62) + 1}, 20'000, nullptr);
      transport.change_value(view, 1, kBlock, {AtomicOp::add, 8, 1}, nullptr, 20'000, nullptr);
      transport.change_value(view, 1, 4, {AtomicOp::add, 8, 1}, nullptr, 20'000, nullptr);
      transport.send_signal(view, 1, view.channels, SignalOp::set, 1, 20'000, nullptr);

      here.memory->send_signal(1, 0, SignalOp::set, 1, nullptr);
      here.memory->wait_signal(1, 0, 20'000, nullptr);
      transport.put(view, 1, kBlock - 4, &word, 8, 20'000, nullptr);
      here.synchronize();
      support::eventually([&] { return group->revocation().revoked(); });
      return std::string("protocol");
    }

    here.memory->wait_signal(0, 0, 20'000, nullptr);
    here.synchronize();
    here.expect(0, 0, kBlock / 4);
    here.memory->send_signal(0, 0, SignalOp::set, 1, nullptr);
    return support::outcome_of([&]() -> std::string {
      for (;; here.synchronize()) {
        here.memory->get(0, 0, &word, 8, nullptr);
      }
    });
  };
  expect_all(on_machines("ab", body, kFails), {"protocol"});
}

TEST_F(CudaOneSided, AGetFromAReleasedMemoryFails) {
  const Body body = [](const std::shared_ptr<Group>& group) {
    uint64_t got = 0;
    return failure_of_released(group, [&](Memory& memory) { memory.get(1, 0, &got, 8, nullptr); });
  };
  expect_all(
      on_machines("ab", body, kFails), {"unavailable: ", "get: rank 1 has released the memory"});
}

TEST(CudaOneSidedWithout, AnEngineCallsSayWhatIsMissing) {
  for (const int without : {1, 2}) {  // the number of ranks without UCX
    const auto has_none = [without](int rank) { return rank == 1 || without == 2; };
    const Body body = [&](const std::shared_ptr<Group>& group) {
      const Place here{group};
      const std::vector<std::string> none{"no engine", "/nowhere/libucp.so.0", "SYMM_UCX"};
      const std::vector<std::string> other{"rank 1", "it has no UCX"};

      uint64_t word = 0;
      const std::function<void()> calls[] = {
          [&] { here.memory->put(here.next, 0, &word, 8, nullptr); },
          [&] { here.memory->get(here.next, 0, &word, 8, nullptr); },
          [&] { here.memory->fill(here.next, 0, {1, 4, 1}, nullptr); },
          [&] { here.memory->change_value(here.next, 0, {AtomicOp::add, 8, 1}, &word, nullptr); },
          [&] { here.memory->send_signal(here.next, 0, SignalOp::add, 1, nullptr); },
          [&] { here.memory->wait_signal(here.next, 0, 20'000, nullptr); }};
      for (const auto& call : calls) {
        support::expect_failure(Status::unsupported, has_none(here.me) ? none : other, call);
      }

      // A rank needs no engine for its own memory and for barriers.
      here.memory->put(here.me, 0, &word, 8, nullptr);
      here.barrier();
      here.synchronize();
    };
    expect_well(on_machines("ab", body, {.before = [&](int rank) {
      if (has_none(rank)) setenv("SYMM_UCX", "/nowhere/libucp.so.0", 1);
    }}));
  }
}
}  // namespace
}  // namespace symm
