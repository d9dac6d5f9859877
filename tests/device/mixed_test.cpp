// SPDX-License-Identifier: Apache-2.0
//
// Kernels and host calls count signals on the same words. libsymm with its real kernels, on the fake driver, which carries out
// the two kernels of host signals; the functions of symm/device.cuh stand for a kernel of the user's.
#include <symm/device.cuh>
#include <symm/symm.hpp>

#include <gtest/gtest.h>

#include <barrier>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "tests/fake_cuda/fake_cuda.hpp"
#include "tests/support/process.hpp"

extern "C" int cuStreamCreate(void** stream, unsigned flags);
extern "C" int cuStreamDestroy(void* stream);

namespace {

using namespace symm::device;

// Scratch of a size that a test can do without.
const bool small_scratch = setenv("SYMM_CUDA_TUNE", "chunk=65536,one_shot=4096,ll=1024,tile=1024,stripes=2", 1) == 0;

struct Rank {
  symm::Group group;
  symm::Memory memory;
  void* stream = nullptr;
  Memory view{};
};

symm::Group group_of(int rank, int size, symm_backend_t backend, const char* name) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  const std::string bootstrap = std::string("thread://") + name;
  config.rank = rank;
  config.size = size;
  config.backend = backend;
  config.bootstrap = bootstrap.c_str();
  config.timeout_ms = config.create_timeout_ms = 20'000;
  return symm::Group::create(config);
}

void on_ranks(int size, const char* name, const std::function<void(int, Rank&)>& body) {
  ASSERT_TRUE(small_scratch);
  support::as_threads(size, [&](int r) {
    Rank rank;
    rank.group = group_of(r, size, SYMM_BACKEND_CUDA, name);
    rank.memory = rank.group.rendezvous(rank.group.allocate(4096));
    EXPECT_EQ(cuStreamCreate(&rank.stream, 1), 0);
    EXPECT_EQ(describe(rank.group.get(), rank.memory.get(), 20'000, nullptr, &rank.view), SYMM_OK) << symm_last_error();
    body(r, rank);
    rank.memory.reset();
    rank.group.reset();
    cuStreamDestroy(rank.stream);
  });
}

TEST(DeviceMixed, a_view_is_what_the_host_calls_say) {
  on_ranks(3, "view", [](int r, Rank& rank) {
    EXPECT_EQ(rank.view.rank, r);
    EXPECT_EQ(rank.view.size, 3);
    EXPECT_EQ(rank.view.timeout_ns, 20'000'000'000ULL);
    for (int peer = 0; peer < 3; ++peer) {
      EXPECT_EQ(pointer<std::byte>(rank.view, peer), rank.memory.span(peer).data());
      EXPECT_EQ(signal_word(rank.view, peer, 0, 0), rank.memory.signal_pad(peer).data());
    }
  });
}

TEST(DeviceMixed, puts_and_waits_of_kernels_and_host_go_together) {
  std::barrier<> together(2);
  on_ranks(2, "mixed", [&](int r, Rank& rank) {
    const int peer = 1 - r;
    for (const int channel : {0, 5, 63}) {
      // The host waits for what a kernel puts.
      ASSERT_EQ(symm_wait_signal(rank.memory.get(), peer, channel, nullptr, rank.stream), SYMM_OK) << symm_last_error();
      EXPECT_FALSE(fake_cuda::idle(rank.stream)) << "nobody has put a signal yet";
      together.arrive_and_wait();
      put_signal(rank.view, peer, channel);
      together.arrive_and_wait();
      EXPECT_TRUE(fake_cuda::idle(rank.stream));
      EXPECT_EQ(signals_there(rank.view, peer, channel), 0U);
      together.arrive_and_wait();
      // Kernels wait for what the host puts, and everything by turns.
      for (int i = 0; i < 2; ++i) {
        ASSERT_EQ(symm_signal(rank.memory.get(), peer, channel, rank.stream), SYMM_OK) << symm_last_error();
        put_signal(rank.view, peer, channel);
      }
      EXPECT_TRUE(await_signal(rank.view, peer, channel, 4));
      EXPECT_TRUE(wait_signal(rank.view, peer, channel));
      ASSERT_EQ(symm_wait_signal(rank.memory.get(), peer, channel, nullptr, rank.stream), SYMM_OK) << symm_last_error();
      EXPECT_TRUE(fake_cuda::idle(rank.stream));
      take_signals(rank.view, peer, channel);
      EXPECT_EQ(signals_there(rank.view, peer, channel), 1U);
      EXPECT_TRUE(wait_signal(rank.view, peer, channel));
      EXPECT_EQ(load_relaxed(taken_word(rank.view, channel, peer)), 5U);
      EXPECT_EQ(load_relaxed(taken_word(rank.view, channel, r)), 0U);
      together.arrive_and_wait();
    }
  });
}

TEST(DeviceMixed, a_description_fails_cleanly) {
  const Memory untouched = {7, 7, nullptr, nullptr, nullptr, 7, nullptr};
  Memory view = untouched;
  {
    const symm::Group group = group_of(0, 1, SYMM_BACKEND_HOST, "host");
    const symm::Memory memory = group.rendezvous(group.allocate(4096));
    EXPECT_EQ(describe(group.get(), memory.get(), 1, nullptr, &view), SYMM_ERR_UNSUPPORTED);
    EXPECT_EQ(describe(nullptr, memory.get(), 1, nullptr, &view), SYMM_ERR_INVALID_HANDLE);
    EXPECT_EQ(describe(group.get(), nullptr, 1, nullptr, &view), SYMM_ERR_UNSUPPORTED);
    EXPECT_EQ(std::memcmp(&view, &untouched, sizeof view), 0);
  }
  on_ranks(1, "no memory", [&](int, Rank& rank) {
    EXPECT_EQ(describe(rank.group.get(), nullptr, 1, nullptr, &view), SYMM_ERR_INVALID_HANDLE);
    EXPECT_EQ(std::memcmp(&view, &untouched, sizeof view), 0);
    EXPECT_EQ(describe(rank.group.get(), rank.memory.get(), SYMM_TIMEOUT_INFINITE, nullptr, &view), SYMM_OK);
    EXPECT_EQ(view.timeout_ns, ~0ULL);
  });
}

}  // namespace
