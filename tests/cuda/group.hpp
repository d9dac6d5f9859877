// Groups of ranks that are threads, on the fake driver.
#pragma once

#include <algorithm>

#include "core/cuda/device.hpp"
#include "core/group/collective.hpp"
#include "core/group/memory.hpp"
#include "kernels/cuda/args.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"
#include "tests/support/core.hpp"

// The fake NVML lies beside a program that is linked with it, as the real one does beside a driver.
extern "C" int nvmlInit_v2();

namespace symm {
// The scratch is small, so that tests need little memory.
inline const bool small_scratch =
    setenv("SYMM_CUDA_TUNE",
        "chunk=65536,one_shot=4096,ll=1024,two_shot=16384,tile=1024,work_groups=2", 1) == 0;

// A name of a group that no other group has.
inline std::string unique() {
  static std::atomic<int> next{0};
  return "cuda" + std::to_string(next++);
}

inline GroupConfig config_of(int rank, int size, const std::string& name, int device = -1) {
  GroupConfig config;
  config.rank = rank;
  config.size = size;
  config.backend = BackendKind::cuda;
  config.device = device;
  config.bootstrap = "thread://" + name;
  config.create_timeout_ms = 20'000;
  config.timeout_ms = 20'000;
  return config;
}

// Runs `body` on ranks that are threads, each with its group.
inline void as_groups(int size,
    const std::function<void(int rank, std::shared_ptr<Group> group)>& body,
    const std::function<void(GroupConfig& config)>& configure = {}) {
  const std::string name = unique();
  support::as_threads(size, [&](int rank) {
    GroupConfig config = config_of(rank, size, name);
    if (configure) configure(config);
    body(rank, Group::create(config));
  });
}

inline CollectiveCall call_of(Collective collective, void* operand, size_t count, DType dtype) {
  CollectiveCall call;
  call.collective = collective;
  call.send = operand;
  call.recv = operand;
  call.count = count;
  call.dtype = dtype;
  return call;
}

// The process of `rank` is one of two on a host, whose GPUs have numbers of their own, as in one
// NVLink domain. Its program is linked with the fake NVML.
inline void enter_domain(int rank) {
  static_cast<void>(nvmlInit_v2());
  setenv("FAKE_NVML_MACHINE", "hgx_h100", 1);
  setenv("FAKE_NVML_DOMAIN", "c,5,3,0", 1);
  fake_cuda::settings().devices = {.count = 2, .first = rank / 2 * 2};
  fake_cuda::settings().fabric_create = true;
  fake_cuda::settings().fabric_import = true;
}

// The kernels that were launched since the launches were last asked for, and how often.
inline std::map<std::string, int> launched() {
  std::map<std::string, int> count;
  for (const auto& launch : fake_cuda::launches()) {
    ++count[launch.kernel];
  }
  return count;
}

// The work of a kernel that passes its deadline while it waits for `peer`.
inline std::function<bool()> gives_up_on(const cuda::DeviceComm& comm, int32_t peer) {
  return [comm, peer] {
    auto* const record = reinterpret_cast<cuda::ErrorRecord*>(comm.record);
    record->trouble = static_cast<uint32_t>(cuda::WaitError::timeout);
    record->operation = comm.operation;
    record->peer = peer;
    std::atomic_ref(record->state).store(1, std::memory_order_release);
    return true;
  };
}

// Objects that are left on the fake driver, by kind, at the end
// of a test. A thread that waits for the device releases what
// could not be released at once, so this waits for that thread.
inline std::map<std::string, long> left_in_the_end() {
  for (int i = 0; i < 5000 && fake_cuda::live()["context"] != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    cuda::Device::reclaim();
  }
  auto live = fake_cuda::live();
  std::erase_if(live, [](const auto& kind) { return kind.second == 0; });
  return live;
}

inline const std::map<std::string, long> kNothing;

struct OnFakeDriver : testing::Test {
  void TearDown() override { EXPECT_EQ(left_in_the_end(), kNothing); }
};

// The results of the steps of a rank. One of the steps may have been made to fail.
struct Outcome {
  Status create = Status::ok;
  Status make = Status::ok;  // of the buffer
  Status rendezvous = Status::ok;
  Status dmabuf = Status::ok;
  std::string message;
  // The driver call that was made to fail.
  std::string failed;
  // The reason why a group that asks for multicast has none.
  std::string without;
};

// Runs `steps`, which tells by `step` where it is. The
// n-th driver call runs out of memory, or none if n is 0.
inline Outcome outcome_of(
    int n, const std::function<void(Outcome& outcome, Status*& step)>& steps) {
  Outcome outcome;
  Status* step = &outcome.create;
  fake_cuda::fail_call(n, 2);
  const Failure failure = support::failure_of([&] { steps(outcome, step); });
  *step = failure.status;
  outcome.message = failure.message;
  outcome.failed = fake_cuda::failed_call();
  fake_cuda::fail_call(0, 0);
  return outcome;
}

// Expects that two ranks agree how an attempt ended in which a driver call of `culprit` failed, and
// that both name the call where its failure costs something.
inline void expect_agreement(const Outcome& failing, const Outcome& other, int culprit) {
  const std::string blamed = "rank " + std::to_string(culprit);
  EXPECT_EQ(other.without, failing.without);
  if (!failing.without.empty()) {
    EXPECT_NE(failing.without.find(failing.failed), std::string::npos);
    EXPECT_NE(failing.without.find(blamed), std::string::npos);
  }
  EXPECT_EQ(other.create, failing.create);

  const bool shared = failing.create != Status::ok || failing.rendezvous != Status::ok;
  const bool failed = shared || failing.make != Status::ok || failing.dmabuf != Status::ok;
  EXPECT_EQ(failed, !failing.message.empty());

  if (failed) {
    EXPECT_NE(failing.message.find(failing.failed), std::string::npos);
  }

  // To make a buffer is local, and the other rank hears that this one has left.
  EXPECT_EQ(
      other.rendezvous, failing.make == Status::ok ? failing.rendezvous : Status::peer_failed);

  if (shared) {
    EXPECT_NE(other.message.find(failing.failed), std::string::npos);
    EXPECT_NE(other.message.find(blamed), std::string::npos);
  }
}

// Makes each driver call of `culprit`, one of two ranks, in `attempt` fail in turn. The
// calls that fail must include the `expected` ones, where "without: " stands before a
// call whose failure costs nothing but multicast. Each time the ranks agree how the
// attempt ended, the call is named, and no object and no descriptor is left.
inline void any_call_may_fail(
    const std::function<Outcome(int rank, const std::string& name, int failing_call)>& attempt,
    const std::vector<std::string>& expected, int culprit = 1) {
  // A process asks its driver for some facts only once. It asks before, since such a
  // call would fail for both ranks, which are threads here.
  const std::string first = unique();
  support::as_threads(2, [&](int rank) { attempt(rank, first, 0); });
  const size_t descriptors = support::open_descriptors();
  std::set<std::string> calls;
  // The n-th call varies a little from one attempt to the next, so that a round can
  // miss a call that another round makes fail.
  const auto met = [&](const std::string& call) { return calls.contains(call); };
  int rounds = 1;
  for (int n = 1;; ++n) {
    ASSERT_LT(n, 1000);
    const std::string name = unique();
    Outcome outcomes[2];
    support::as_threads(
        2, [&](int rank) { outcomes[rank] = attempt(rank, name, rank == culprit ? n : 0); });

    const Outcome& failing = outcomes[culprit];
    const Outcome& other = outcomes[1 - culprit];
    SCOPED_TRACE("call " + std::to_string(n) + ", " + failing.failed + ": " + other.message +
                 " / " + failing.message);

    EXPECT_EQ(left_in_the_end(), kNothing);
    // No call failed, because there are fewer than n.
    if (failing.failed.empty()) {
      if (std::ranges::all_of(expected, met) || rounds++ == 5) break;
      n = 0;
      continue;
    }

    calls.insert((failing.without.empty() ? "" : "without: ") + failing.failed);
    expect_agreement(failing, other, culprit);
  }
  for (const std::string& call : expected) {
    EXPECT_TRUE(met(call)) << call << " was not made to fail";
  }
  // The mesh closes its sockets on the monitor's thread.
  EXPECT_TRUE(support::eventually([&] { return support::open_descriptors() <= descriptors; }))
      << descriptors << " were open";
}
}  // namespace symm
