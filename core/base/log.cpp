// SPDX-License-Identifier: Apache-2.0
#include "core/base/log.hpp"

#include <unistd.h>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <shared_mutex>

#include "core/base/environment.hpp"

namespace symm::log {
namespace {

struct Sink {
  Callback callback = nullptr;
  void* user = nullptr;
};

// Shared while a message is delivered, exclusive while the sink changes: so set_callback() returns only when the former callback
// is not running. Leaked, because the monitor thread may log while static objects are destroyed.
std::shared_mutex& mutex() {
  static auto* instance = new std::shared_mutex;
  return *instance;
}
Sink sink;

int level_of_environment() {
  const char* name = environment("SYMM_LOG");
  const char* names[] = {"error", "warning", "info", "debug"};
  for (int i = 0; i < 4; ++i) {
    if (std::strcmp(name, names[i]) == 0) return i + 1;
  }
  return 0;
}

std::atomic<int>& threshold() {
  static std::atomic<int> value{level_of_environment()};
  return value;
}

}  // namespace

void set_callback(Callback callback, void* user, Level level) {
  const std::unique_lock lock(mutex());
  sink = {callback, user};
  threshold() = callback != nullptr ? static_cast<int>(level) : level_of_environment();
}

bool enabled(Level level) noexcept { return static_cast<int>(level) <= threshold().load(std::memory_order_relaxed); }

void write(Level level, const char* pattern, ...) noexcept {
  if (!enabled(level)) return;
  char message[512];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(message, sizeof message, pattern, arguments);
  va_end(arguments);
  const std::shared_lock lock(mutex());
  if (sink.callback != nullptr) {
    sink.callback(sink.user, static_cast<int32_t>(level), message);
    return;
  }
  // Only when the user asked for it with SYMM_LOG. One write() so that lines of several ranks do not mix.
  char line[544];
  const int length = std::snprintf(line, sizeof line, "symm: %s\n", message);
  if (length > 0 && ::write(STDERR_FILENO, line, static_cast<size_t>(length)) < 0) return;
}

}  // namespace symm::log
