// A work queue: ranks take the next task by fetch-and-add on a word that all of them reach.
//   symm run -n 3 -- symm_work_queue
//
// Tasks take different times, so nobody is told beforehand which ones to do. The word lies in rank
// 0's block. Rank 0 works as the others do, and needs no thread that serves the queue.
#include <array>
#include <cstdint>
#include <cstdio>

#include <symm/symm.h>
#include <symm/symm.hpp>

namespace {
constexpr uint64_t kTasks = 200;
constexpr uint64_t kNumbers = 1000;  // that a task looks at

bool is_prime(uint64_t number) {
  if (number < 2) return false;
  for (uint64_t divisor = 2; divisor * divisor <= number; ++divisor) {
    if (number % divisor == 0) return false;
  }
  return true;
}

// A task: counts the primes among the numbers from kNumbers * task on.
uint64_t work(uint64_t task) {
  uint64_t primes = 0;
  for (uint64_t number = kNumbers * task; number < kNumbers * (task + 1); ++number) {
    primes += is_prime(number) ? 1 : 0;
  }
  return primes;
}

// Takes the number that no other rank gets.
uint64_t next(const symm::Memory& queue) {
  uint64_t task = 0;
  queue.atomic64(0, 0, SYMM_ATOMIC_ADD, 1, 0, &task);
  return task;
}
}  // namespace

int main() try {
  const symm::Group group = symm::Group::create();
  const symm::Memory queue = group.rendezvous(group.allocate(sizeof(uint64_t)));  // holds 0

  std::array<uint64_t, 2> tasks_and_primes{};
  for (uint64_t task = next(queue); task < kTasks; task = next(queue)) {
    tasks_and_primes[0] += 1;
    tasks_and_primes[1] += work(task);
  }

  group.allreduce(tasks_and_primes, tasks_and_primes, SYMM_OP_SUM);
  if (group.rank() == 0) {
    std::printf("%llu tasks found %llu primes\n",
        static_cast<unsigned long long>(tasks_and_primes[0]),
        static_cast<unsigned long long>(tasks_and_primes[1]));
  }
  group.finalize();
} catch (const symm::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
