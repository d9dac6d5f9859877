// Groups of ranks that are threads, on the fake driver.
#pragma once

#include "core/cuda/device.hpp"
#include "core/group/collective.hpp"
#include "core/group/memory.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"
#include "tests/support/core.hpp"

namespace symm {
// A name that no other group has.
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
  config.create_timeout_ms = config.timeout_ms = 20'000;
  return config;
}

inline CollectiveCall call_of(Collective collective, void* operand, size_t count, DType dtype) {
  CollectiveCall call;
  call.collective = collective;
  call.send = call.recv = operand;
  call.count = count;
  call.dtype = dtype;
  return call;
}

// What is left on the fake driver where nothing should be. What could not be released at once is by a thread that waits for the
// device.
inline std::map<std::string, long> left_in_the_end() {
  for (int i = 0; i < 5000 && fake_cuda::live()["context"] != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    cuda::Device::reclaim();
  }
  return fake_cuda::live();
}

// How the steps of a rank ended, of which one may have failed by order.
struct Outcome {
  Status create = Status::ok;
  Status make = Status::ok;  // the buffer
  Status rendezvous = Status::ok;
  Status dmabuf = Status::ok;
  std::string message;
  std::string failed;  // the driver call
};

// The n-th driver call of `steps`, which says in which it is, runs out of memory; none if n is 0.
inline Outcome outcome_of(int n, const std::function<void(Outcome& outcome, Status*& step)>& steps) {
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
}  // namespace symm
