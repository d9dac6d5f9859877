// A thread that is cancelled in a call ends after it: nothing stays locked, and the process goes on.
#include <pthread.h>
#include <atomic>
#include <thread>
#include "tests/support/group.hpp"

namespace support {
namespace {

// Cancels a thread in `call`, which nobody answers, and says how the call ended.
std::string status_when_cancelled(const std::function<symm_status_t()>& call) {
  struct Thread {
    const std::function<symm_status_t()>& call;
    std::atomic<int> status{1};
  } its{call};
  const auto run = [](void* of) -> void* {
    auto& thread = *static_cast<Thread*>(of);
    thread.status = thread.call();
    pthread_testcancel();
    return nullptr;
  };
  pthread_t thread{};
  if (pthread_create(&thread, nullptr, run, &its) != 0) return "no thread";
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  pthread_cancel(thread);
  void* end = nullptr;
  pthread_join(thread, &end);
  return end == PTHREAD_CANCELED ? symm_status_string(its.status) : "it was not cancelled";
}

TEST(Cancelled, AThreadEndsWhenItsCallHasReturned) {
  const std::string timeout = symm_status_string(SYMM_ERR_TIMEOUT);
  const Bootstrap meeting;
  Config config = meeting.processes();
  config.create_timeout_ms = 400;
  config.timeout_ms = 400;
  Process alone([&] { return status_when_cancelled([&] { return outcome_of([&] { create(config, 0, 2); }).status; }); });
  EXPECT_EQ(alone.result(), timeout);
  config.create_timeout_ms = 20'000;
  Processes ranks(2, [&](int rank) {
    const Group group = create(config, rank, 2);
    group.barrier();
    float value = 1;
    std::string said = timeout;
    if (rank == 0) said = status_when_cancelled([&] { return allreduce(group, &value, &value, 1); });
    EXPECT_TRUE(eventually([&] { return group.status().status == SYMM_ERR_TIMEOUT; }));
    return said + (symm_group_abort(group.get(), "once more") == SYMM_OK ? "" : " and locked");
  });
  for (Process& rank : ranks) EXPECT_EQ(rank.result(), timeout);
}

}  // namespace
}  // namespace support
