// Kernels and host calls count signals on the same words. libsymm runs on the fake
// driver, which carries out the kernels of host signals. The functions of
// symm/device.cuh stand for a kernel of the user's.
#include "tests/fake_cuda/fake_cuda.hpp"
#include "tests/support/group.hpp"
#include <symm/exchange.cuh>

extern "C" int cuStreamCreate(void** stream, unsigned flags);
extern "C" int cuStreamDestroy(void* stream);

namespace {
using namespace symm::device;

// The scratch is small, so that tests need little memory.
const bool small_scratch =
    setenv("SYMM_CUDA_TUNE", "chunk=65536,one_shot=4096,ll=1024,tile=1024,work_groups=2", 1) == 0;

struct Rank {
  symm::Group group;
  symm::Memory memory;
  void* stream = nullptr;
  Memory view{};
};

void on_ranks(int size, const char* name, const std::function<void(int, Rank&)>& body) {
  ASSERT_TRUE(small_scratch);
  support::as_threads(size, [&](int r) {
    Rank rank;
    rank.group = support::create(
        {.bootstrap = std::string("thread://") + name, .backend = SYMM_BACKEND_CUDA}, r, size);
    rank.memory = rank.group.rendezvous(rank.group.allocate(4096));
    EXPECT_EQ(cuStreamCreate(&rank.stream, 1), 0);
    EXPECT_EQ(describe(rank.memory.get(), 20'000, nullptr, &rank.view), SYMM_OK)
        << symm_last_error();

    body(r, rank);
    rank.memory.reset();
    rank.group.reset();
    cuStreamDestroy(rank.stream);
  });
}

TEST(DeviceMixed, AViewIsWhatTheHostCallsSay) {
  on_ranks(3, "view", [](int r, Rank& rank) {
    EXPECT_EQ(rank.view.rank, r);
    EXPECT_EQ(rank.view.size, 3);
    EXPECT_EQ(rank.view.timeout_ns, 20'000'000'000ULL);
    for (int peer = 0; peer < 3; ++peer) {
      EXPECT_EQ(pointer<std::byte>(rank.view, peer), rank.memory.span(peer).data());
      EXPECT_EQ(static_cast<void*>(signal_word(rank.view, peer, 0, 0)),
          rank.memory.signal_pad(peer).data());
    }
  });
}

TEST(DeviceMixed, PutsAndWaitsOfKernelsAndHostGoTogether) {
  std::barrier<> together(2);
  on_ranks(2, "mixed", [&](int r, Rank& rank) {
    const int peer = 1 - r;
    for (const int channel : {0, 5, 63}) {
      // A stream waits for a signal that a kernel puts.
      rank.memory.wait_signal(peer, channel, 0, rank.stream);
      EXPECT_FALSE(fake_cuda::idle(rank.stream)) << "nobody has put a signal yet";
      together.arrive_and_wait();
      signal(rank.view, peer, channel);
      together.arrive_and_wait();
      EXPECT_TRUE(fake_cuda::idle(rank.stream));
      EXPECT_EQ(test_signal(rank.view, peer, channel), 0U);
      together.arrive_and_wait();

      // Kernels and streams wait by turns for signals that the host and kernels put.
      for (int i = 0; i < 2; ++i) {
        rank.memory.signal(peer, channel, {}, rank.stream);
        signal(rank.view, peer, channel);
      }
      EXPECT_TRUE(await_signal(rank.view, peer, channel, 4));
      EXPECT_TRUE(wait_signal(rank.view, peer, channel));
      rank.memory.wait_signal(peer, channel, 0, rank.stream);
      EXPECT_TRUE(fake_cuda::idle(rank.stream));
      take_signals(rank.view, peer, channel);
      EXPECT_EQ(test_signal(rank.view, peer, channel), 1U);
      EXPECT_TRUE(wait_signal(rank.view, peer, channel));
      EXPECT_EQ(load_relaxed(taken_word(rank.view, channel, peer)), 5U);
      EXPECT_EQ(load_relaxed(taken_word(rank.view, channel, r)), 0U);
      together.arrive_and_wait();
    }
  });
}

// Long, since it is one story of two ranks: each step begins with the signals that the step before
// it left.
TEST(DeviceMixed, ValuesAndTestsOfKernelsAndHostGoTogether) {
  std::barrier<> together(2);
  on_ranks(2, "values", [&](int r, Rank& rank) {
    const int peer = 1 - r;
    const auto pending = [&] { return rank.memory.test_signal(peer, 1); };

    signal(rank.view, peer, 1);
    rank.memory.signal_value(peer, 1, SYMM_SIGNAL_ADD, 2, {}, rank.stream);
    together.arrive_and_wait();
    EXPECT_EQ(pending(), 3U);
    EXPECT_TRUE(wait_signal(rank.view, peer, 1));
    EXPECT_EQ(pending(), 2U);

    // Two streams take the two signals that are left. A third wait has a claim on the next one,
    // which is not there yet.
    void* other = nullptr;
    ASSERT_EQ(cuStreamCreate(&other, 1), 0);
    for (void* stream : {rank.stream, other, rank.stream}) {
      rank.memory.wait_signal(peer, 1, 0, stream);
    }
    EXPECT_TRUE(fake_cuda::idle(other));
    EXPECT_FALSE(fake_cuda::idle(rank.stream));
    EXPECT_EQ(pending(), 0U);

    together.arrive_and_wait();
    signal(rank.view, peer, 1);
    together.arrive_and_wait();
    EXPECT_TRUE(fake_cuda::idle(rank.stream));

    // Waits for values, one and several, and for words of the block.
    const symm_signal_wait_t waits[] = {{sizeof(symm_signal_wait_t), peer, 2, SYMM_COMPARE_GE, 7},
        {sizeof(symm_signal_wait_t), peer, 3, SYMM_COMPARE_EQ, uint64_t{1} << 40}};
    rank.memory.wait_any(waits, 0, rank.stream);
    rank.memory.wait_all(waits, 0, other);

    together.arrive_and_wait();
    signal_value(rank.view, peer, 3, SignalOp::set, 1ULL << 40);
    together.arrive_and_wait();
    EXPECT_TRUE(fake_cuda::idle(rank.stream));
    EXPECT_FALSE(fake_cuda::idle(other));
    together.arrive_and_wait();

    rank.memory.signal_value(peer, 2, SYMM_SIGNAL_SET, 8, {}, rank.stream);
    together.arrive_and_wait();
    EXPECT_TRUE(fake_cuda::idle(other));
    EXPECT_TRUE(wait_signal_value(rank.view, peer, 2, Compare::gt, 7));

    uint64_t value = rank.memory.test_signal_value(peer, 2);
    EXPECT_EQ(value, 8U);
    EXPECT_EQ(symm_wait_signal_value(
                  rank.memory.get(), peer, 2, SYMM_COMPARE_LT, 9, nullptr, &value, rank.stream),
        SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(symm_last_error()).find("out_seen"), std::string::npos)
        << symm_last_error();

    rank.memory.wait_value32(64, SYMM_COMPARE_EQ, 5, 0, rank.stream);
    rank.memory.wait_value64(72, SYMM_COMPARE_NE, 0, 0, rank.stream);
    together.arrive_and_wait();
    EXPECT_FALSE(fake_cuda::idle(rank.stream));
    together.arrive_and_wait();

    rank.memory.write_value32(peer, 64, 5, {}, other);
    rank.memory.write_value64(peer, 72, uint64_t{1} << 50, {}, other);
    together.arrive_and_wait();
    EXPECT_TRUE(fake_cuda::idle(rank.stream));
    cuStreamDestroy(other);
  });
}

TEST(DeviceMixed, AnExchangeIsMadeForAMessage) {
  on_ranks(3, "exchange", [](int r, Rank& rank) {
    const symm::Exchange scratch(rank.group, 100);
    const Exchange given = scratch.device(5'000);
    EXPECT_EQ(given.packs, 7U);
    EXPECT_EQ(given.memory.timeout_ns, 5'000'000'000ULL);
    for (unsigned turn = 0; turn < 4; ++turn) {
      Pack pack = {0, 0, 0, exchange::to_bits(static_cast<float>(r + 1))};
      ASSERT_TRUE(exchange::all_reduce_sum<exchange::f32>(given, 6, pack));
      EXPECT_EQ(exchange::to_float(pack.w), 6.0F);
    }
  });

  const symm::Exchange of_the_host(support::create({"thread://host exchange"}, 0, 1), 16);
  EXPECT_THROW(of_the_host.device(), symm::Error);
}

TEST(DeviceMixed, ADescriptionFailsCleanly) {
  const Memory untouched = {7, 7, 7, 7, 7, nullptr, nullptr, nullptr, 7, nullptr};
  Memory view = untouched;
  {
    const symm::Group group = support::create({"thread://host"}, 0, 1);
    const symm::Memory memory = group.rendezvous(group.allocate(4096));
    EXPECT_EQ(describe(memory.get(), 1, nullptr, &view), SYMM_ERR_UNSUPPORTED);
    EXPECT_EQ(describe(nullptr, 1, nullptr, &view), SYMM_ERR_INVALID_HANDLE);
    EXPECT_EQ(std::memcmp(&view, &untouched, sizeof view), 0);
  }

  on_ranks(1, "no memory", [&](int, Rank& rank) {
    EXPECT_EQ(describe(rank.memory.get(), SYMM_TIMEOUT_INFINITE, nullptr, &view), SYMM_OK);
    EXPECT_EQ(view.timeout_ns, ~0ULL);
    EXPECT_EQ(view.layout, kLayout);
    EXPECT_EQ(view.channels, 64);
    EXPECT_EQ(describe(rank.memory.get(), 0, nullptr, &view), SYMM_OK);
    EXPECT_EQ(view.timeout_ns, 20'000'000'000ULL) << "the group's";
  });
}
}  // namespace
