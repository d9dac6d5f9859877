// The count of objects that exist, the list of calls
// in a wrong order, and calls that are made to fail.
#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/cuda/driver.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"
#include "tests/fake_cuda/state.hpp"

namespace fake_cuda {
namespace {
thread_local int calls_until_failure = 0;
thread_local CUresult failure = 0;
thread_local std::string failed;
}  // namespace

State& state() {
  static auto* instance = new State;
  return *instance;
}

Settings& settings() { return state(); }

void* fresh() { return reinterpret_cast<void*>(++state().next * 64); }

std::optional<CUresult> fails(const char* name) {
  if (calls_until_failure == 0 || --calls_until_failure != 0) return std::nullopt;
  failed = name;
  return failure;
}

CUresult violation(const std::string& what) {
  state().violations.push_back(what);
  return CUDA_ERROR_INVALID_VALUE;
}

std::map<std::string, long> live() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto count = [](const auto& of) { return static_cast<long>(of.size()); };
  const long handles = std::count_if(s.memories.begin(), s.memories.end(),
      [](const auto& m) { return m.second.references != 0 || m.second.team != nullptr; });
  std::map<std::string, long> all = {{"handle", handles}, {"reservation", count(s.reservations)},
      {"mapping", count(s.mappings)}, {"stream", count(s.streams)}, {"event", count(s.events)},
      {"graph", count(s.graphs)}, {"host", count(s.host) + count(s.registered)},
      {"context", s.contexts}, {"pushed", static_cast<long>(contexts_pushed())}};

  for (const auto& [address, memory] : s.ordinary) {
    if (memory.opened != 0) ++all["opened"];
  }
  for (const auto& [handle, object] : s.memories) {
    if (!object.bound.empty()) all["binding"] += count(object.bound);
  }
  return all;
}

size_t bytes_in_use() {
  const std::lock_guard lock(state().mutex);
  size_t bytes = 0;
  for (const auto& [handle, memory] : state().memories) {
    if (memory.team == nullptr) bytes += memory.bytes;
  }
  return bytes;
}

std::vector<std::string> violations() {
  const std::lock_guard lock(state().mutex);
  return state().violations;
}

void fail_call(int n, int result) {
  calls_until_failure = n;
  failure = result;
  failed.clear();
}

std::string failed_call() { return failed; }
}  // namespace fake_cuda
