// The list of callbacks and the calls of them. No lock is held while a callback runs: it may call
// into the library, and wait for locks of the program's.
#include "core/group/memory_pressure.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/per_process.hpp"
#include "core/base/poll.hpp"
#include "core/base/wait.hpp"

namespace symm::memory_pressure {
// Not in the unnamed namespace, since Round::State has a field of them.
struct Entry {
  Callback callback = nullptr;
  void* user = nullptr;
  uint64_t id = 0;
  std::atomic<bool> removed{false};
  std::atomic<int> running{0};  // the number of threads that are inside the callback
};

namespace {
constexpr uint64_t kRemoveMs = 60'000;

struct Entries {
  std::mutex mutex;
  std::vector<std::shared_ptr<Entry>> list;
  uint64_t next = 1;
};

// The callback that the calling thread is inside.
thread_local const Entry* inside = nullptr;

std::vector<std::shared_ptr<Entry>> current_entries() {
  Entries* all = PerProcess<Entries>::existing();
  if (all == nullptr) return {};
  const std::lock_guard lock(all->mutex);
  return all->list;
}
}  // namespace

uint64_t add(Callback callback, void* user) {
  Entries& all = PerProcess<Entries>::current();
  auto entry = std::make_shared<Entry>();
  entry->callback = callback;
  entry->user = user;

  const std::lock_guard lock(all.mutex);
  entry->id = all.next++;
  all.list.push_back(entry);
  return entry->id;
}

void remove(uint64_t id) {
  Entries& all = PerProcess<Entries>::current();
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(all.mutex);
    const auto found = std::find_if(all.list.begin(), all.list.end(),
        [id](const std::shared_ptr<Entry>& each) { return each->id == id; });
    if (found == all.list.end()) {
      throw Error(Status::not_found, "no such callback for short memory");
    }
    entry = *found;
    all.list.erase(found);
  }

  entry->removed = true;
  const int own = inside == entry.get() ? 1 : 0;
  const auto is_over = [&] { return entry->running == own; };
  if (!retry_until(is_over, Deadline::after_ms(kRemoveMs))) {
    throw Error(Status::timeout, "the callback for short memory has not returned in 60 seconds");
  }
}

struct Round::State {
  int32_t backend = 0;
  int32_t device = 0;
  uint64_t bytes = 0;
  std::vector<std::shared_ptr<Entry>> entries;
  size_t next = 0;
};

Round::Round(BackendKind kind, int device, uint64_t bytes) : state_(std::make_unique<State>()) {
  state_->backend = static_cast<int32_t>(kind);
  state_->device = device;
  state_->bytes = bytes;
  if (inside == nullptr) state_->entries = current_entries();
}

Round::~Round() = default;

bool Round::relieve() {
  while (state_->next < state_->entries.size()) {
    const std::shared_ptr<Entry> entry = state_->entries[state_->next++];
    uint64_t given_back = 0;

    // remove() sets `removed` first and reads `running` afterwards, so one of the two sees the
    // other.
    ++entry->running;
    if (!entry->removed) {
      inside = entry.get();
      given_back = entry->callback(entry->user, state_->backend, state_->device, state_->bytes);
      inside = nullptr;
    }
    --entry->running;
    if (given_back != 0) return true;
  }
  return false;
}
}  // namespace symm::memory_pressure
