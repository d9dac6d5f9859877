// Decides how long waits look before they sleep, from the processors and the ranks that share
// them.
#include "core/base/spin_policy.hpp"

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <thread>

#include "core/base/environment.hpp"
#include "core/base/file_text.hpp"

namespace symm {
namespace {
// The processors that the control group (version 2) lets this process use at a time; 0 if the
// group sets no limit.
int processor_quota() {
  std::istringstream file = text_of_file("/sys/fs/cgroup/cpu.max");
  int64_t quota = 0;
  int64_t period = 0;
  if (!(file >> quota >> period) || quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::clamp<int64_t>(quota / period, 1, CPU_SETSIZE));
}
}  // namespace

Processors usable_processors() {
  Processors processors;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  const bool known = sched_getaffinity(0, sizeof mask, &mask) == 0;
  const size_t count =
      known ? CPU_SETSIZE : std::clamp<size_t>(std::thread::hardware_concurrency(), 1, CPU_SETSIZE);

  for (size_t i = 0; i < count; ++i) {
    processors[i] = !known || CPU_ISSET(i, &mask);
  }
  return processors;
}

SpinPolicy SpinPolicy::for_ranks(int ranks, const Processors& processors, bool remote) {
  if (const auto spins = number("SYMM_SPIN")) return {*spins, 0};

  auto usable = static_cast<int>(processors.count());
  if (const int quota = processor_quota(); quota != 0) usable = std::min(usable, quota);

  // A look at other machines costs a system call, and a thousand of them cost far more than a
  // wake-up. The numbers were measured with 1 and 2 ranks.
  if (remote) return {ranks == 1 ? 1'000U : 300U, 0};

  // With a processor each, a wake-up through the kernel (tens of microseconds) is worth spinning
  // through.
  if (ranks <= usable) return {20'000, 0};

  // With more ranks than processors, the rank that this one waits for may need its processor. So
  // the wait takes a few looks, in case the word is already on its way, and then yields, which
  // costs a fifth of a sleep and a wake-up. It does not yield for long: the other threads may be
  // of programs that have better things to do than to take turns with this one.
  return {50, 200};
}
}  // namespace symm
