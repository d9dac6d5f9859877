// A thread that is cancelled in a call ends after
// it: nothing stays locked, and the process goes on.
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "symm/symm.h"
#include "tests/support/group.hpp"

namespace support {
namespace {
// Cancels a thread in `call`, which no other rank answers, and says how the call ended.
std::string status_when_cancelled(const std::function<symm_status_t()>& call) {
  struct Thread {
    const std::function<symm_status_t()>& call;
    std::atomic<int> status{1};
  } arguments{call};

  const auto run = [](void* of) -> void* {
    auto& thread = *static_cast<Thread*>(of);
    thread.status = thread.call();
    pthread_testcancel();
    return nullptr;
  };
  pthread_t thread{};
  EXPECT_EQ(pthread_create(&thread, nullptr, run, &arguments), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  pthread_cancel(thread);
  void* end = nullptr;
  pthread_join(thread, &end);
  return end == PTHREAD_CANCELED ? symm_status_string(arguments.status) : "it was not cancelled";
}

TEST(Cancelled, AThreadEndsWhenItsCallHasReturned) {
  const Bootstrap meeting;
  Config config = meeting.processes();
  config.timeout_ms = 400;
  Processes ranks(2, [&](int rank) {
    const Group group = create(config, rank, 2);
    Config alone = config;
    alone.name = std::to_string(rank);
    alone.create_timeout_ms = 400;
    float value = 1;
    std::string said =
        status_when_cancelled([&] { return outcome_of([&] { create(alone, 0, 2); }).status; });
    if (rank == 0) {
      said += status_when_cancelled([&] { return allreduce(group, &value, &value, 1); });
    }

    return said + (eventually([&] { return group.status().status == SYMM_ERR_TIMEOUT; })
                          ? ""
                          : ", nobody told the other");
  });

  const std::string timeout = symm_status_string(SYMM_ERR_TIMEOUT);
  EXPECT_EQ(ranks[0].result(), timeout + timeout);
  EXPECT_EQ(ranks[1].result(), timeout);
}
}  // namespace
}  // namespace support
