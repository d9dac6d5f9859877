// A store for ranks that are threads of one process: a map behind a mutex, for each creation by
// name.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/per_process.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/store.hpp"

namespace symm {
namespace {
// The ranks of one creation, and the values that they set.
struct ThreadMeeting {
  explicit ThreadMeeting(int size) : came(static_cast<size_t>(size), false) {}

  std::vector<bool> came;
  bool complete = false;
  std::optional<Failure> failure;  // why it will never be complete
  int failed_rank = -1;            // the first rank whose store was destroyed by an exception
  std::map<std::string, Bytes> values;
};

// The meetings that wait for ranks. Only its stores hold a complete one.
struct Registry {
  std::mutex mutex;  // guards all meetings, too
  std::map<std::string, std::shared_ptr<ThreadMeeting>> open;
};

Registry& registry() { return PerProcess<Registry>::current(); }

class ThreadStore final : public Store {
 public:
  ThreadStore(std::shared_ptr<ThreadMeeting> meeting, std::string description, int rank)
      : meeting_(std::move(meeting)),
        description_(std::move(description)),
        rank_(rank),
        exceptions_(std::uncaught_exceptions()) {}

  ~ThreadStore() override {
    if (std::uncaught_exceptions() <= exceptions_) return;
    const std::lock_guard lock(registry().mutex);
    if (meeting_->failed_rank < 0) meeting_->failed_rank = rank_;
  }

  void set(const std::string& key, const Bytes& value, Deadline) override {
    const std::lock_guard lock(registry().mutex);
    if (!meeting_->values.emplace(key, value).second) {
      throw Error(Status::mismatch, "the key \"" + key + "\" was set twice in " + description_);
    }
  }

  Bytes get(const std::string& key, Deadline deadline) override {
    Bytes value;

    const auto look = [&] {
      const std::lock_guard lock(registry().mutex);
      const auto found = meeting_->values.find(key);
      if (found != meeting_->values.end()) {
        value = found->second;
        return true;
      }

      if (meeting_->failed_rank >= 0) {
        throw Error(Failure{Status::peer_failed, meeting_->failed_rank, getpid(),
            format("rank %d of %s gave up while the group was being formed", meeting_->failed_rank,
                description_.c_str())});
      }
      return false;
    };

    if (!retry_until(look, deadline)) {
      throw Error(Status::timeout,
          "the key \"" + key + "\" did not appear in " + description_ + " before the deadline");
    }
    return value;
  }

 private:
  std::shared_ptr<ThreadMeeting> meeting_;
  std::string description_;
  int rank_;
  int exceptions_;
};

// Closes the meeting to newcomers, and makes all ranks in it fail alike. With the mutex.
[[noreturn]] void fail(const std::string& name, ThreadMeeting& meeting, Failure failure) {
  const auto found = registry().open.find(name);
  if (found != registry().open.end() && found->second.get() == &meeting) {
    registry().open.erase(found);
  }
  meeting.failure = failure;
  throw Error(std::move(failure));
}

std::shared_ptr<ThreadMeeting> join(
    const std::string& name, const std::string& description, int rank, int size) {
  const std::lock_guard lock(registry().mutex);
  auto& found = registry().open[name];
  if (!found) found = std::make_shared<ThreadMeeting>(size);
  const std::shared_ptr<ThreadMeeting> meeting = found;

  if (meeting->came.size() != static_cast<size_t>(size)) {
    fail(name, *meeting,
        {Status::mismatch, rank, getpid(),
            format("rank %d of %s was told that there are %d ranks, others that there are %zu",
                rank, description.c_str(), size, meeting->came.size())});
  }
  if (meeting->came[static_cast<size_t>(rank)]) {
    fail(name, *meeting,
        {Status::mismatch, rank, getpid(),
            format("rank %d of %s is claimed by two threads", rank, description.c_str())});
  }

  meeting->came[static_cast<size_t>(rank)] = true;
  meeting->complete =
      std::find(meeting->came.begin(), meeting->came.end(), false) == meeting->came.end();
  if (meeting->complete) registry().open.erase(name);
  return meeting;
}

// Called after a deadline. Throws unless the meeting was completed at the last moment.
void give_up(const std::string& name, const std::string& description,
    const std::shared_ptr<ThreadMeeting>& meeting) {
  const std::lock_guard lock(registry().mutex);
  if (meeting->complete) return;
  if (meeting->failure) throw Error(*meeting->failure);
  fail(name, *meeting, missing_ranks(meeting->came, description));
}
}  // namespace

Failure missing_ranks(const std::vector<bool>& came, const std::string& place) {
  constexpr int kNamed = 8;
  std::string list;
  int first = -1;
  int count = 0;
  for (size_t rank = 0; rank < came.size(); ++rank) {
    if (came[rank]) continue;
    ++count;
    if (count == 1) first = static_cast<int>(rank);
    if (count <= kNamed) list += (count == 1 ? "" : ", ") + std::to_string(rank);
  }
  if (count > kNamed) list += format(" and %d more", count - kNamed);

  return {Status::timeout, first, 0,
      format("%s %s of %zu did not come to %s before the deadline", count == 1 ? "rank" : "ranks",
          list.c_str(), came.size(), place.c_str())};
}

std::unique_ptr<Store> open_thread_store(
    const std::string& name, int rank, int size, Deadline deadline) {
  const std::string description = "thread://" + name;
  const std::shared_ptr<ThreadMeeting> meeting = join(name, description, rank, size);
  const auto complete = [&] {
    const std::lock_guard lock(registry().mutex);
    if (meeting->failure) throw Error(*meeting->failure);
    return meeting->complete;
  };
  if (!retry_until(complete, deadline)) give_up(name, description, meeting);
  return std::make_unique<ThreadStore>(meeting, description, rank);
}
}  // namespace symm
