// symm hold: a process that keeps published versions when their makers are gone. A thread for each
// name, so that a maker that does not answer holds up only its own name.
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tools/commands.hpp"
#include "tools/hold/holder.hpp"
#include "tools/run/processes.hpp"

namespace symm::tool {
namespace {
// A version that lives for less is not held, and a maker's death is noticed within it.
constexpr std::chrono::milliseconds kPause(10);

bool is_told_to_end(const SignalQueue& signals) {
  constexpr int kSliceMs = 1000;
  pollfd readable{signals.fd(), POLLIN, 0};
  ::poll(&readable, 1, kSliceMs);
  const std::vector<int> taken = signals.take();
  return std::any_of(taken.begin(), taken.end(), asks_to_end);
}

int hold(const std::vector<std::string>& names, uint64_t keep) {
  const SignalQueue signals;  // before there are threads, which inherit what is blocked
  std::atomic<bool> is_over{false};
  std::mutex mutex;
  const auto say = [&](const std::string& text) {
    const std::lock_guard lock(mutex);
    std::fprintf(stdout, "symm hold: %s\n", text.c_str());
    std::fflush(stdout);
  };

  std::vector<std::thread> threads;
  for (const std::string& name : names) {
    threads.emplace_back([&, name] {
      Holder holder(name, keep, say);
      while (!is_over) {
        holder.look();
        std::this_thread::sleep_for(kPause);
      }
    });
  }

  while (!is_told_to_end(signals)) {
  }
  is_over = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  return 0;
}
}  // namespace

void add_hold(CLI::App& app, Action& action) {
  auto names = std::make_shared<std::vector<std::string>>();
  auto keep = std::make_shared<uint64_t>(1);
  CLI::App* command = app.add_subcommand(
      "hold", "Hold what is published under names, and give it again when its maker is gone");
  command->add_option("NAME", *names, "Name of published versions")->required();
  command->add_option("--keep", *keep, "Versions of each name that are held")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->callback(
      [&action, names, keep] { action = [names, keep] { return hold(*names, *keep); }; });
}
}  // namespace symm::tool
