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
struct Room {
  explicit Room(int size) : here(static_cast<size_t>(size), false) {}

  std::vector<bool> here;
  bool complete = false;
  std::optional<Failure> failure;  // why it will never be complete
  int failed_rank = -1;            // left while an exception passed through
  std::map<std::string, Bytes> values;
};

// Rooms that wait for ranks. A complete one is known to its stores only.
struct Registry {
  std::mutex mutex;  // of all rooms
  std::map<std::string, std::shared_ptr<Room>> open;
};

Registry& registry() { return PerProcess<Registry>::current(); }

class ThreadStore final : public Store {
 public:
  ThreadStore(std::shared_ptr<Room> room, std::string description, int rank)
      : room_(std::move(room)),
        description_(std::move(description)),
        rank_(rank),
        exceptions_(std::uncaught_exceptions()) {}

  ~ThreadStore() override {
    if (std::uncaught_exceptions() <= exceptions_) return;
    const std::lock_guard lock(registry().mutex);
    if (room_->failed_rank < 0) room_->failed_rank = rank_;
  }

  void set(const std::string& key, const Bytes& value, Deadline) override {
    const std::lock_guard lock(registry().mutex);
    if (!room_->values.emplace(key, value).second) {
      throw Error(Status::mismatch, "the key \"" + key + "\" was set twice in " + description_);
    }
  }

  Bytes get(const std::string& key, Deadline deadline) override {
    Bytes value;
    const auto look = [&] {
      const std::lock_guard lock(registry().mutex);
      const auto found = room_->values.find(key);
      if (found != room_->values.end()) {
        value = found->second;
        return true;
      }
      if (room_->failed_rank >= 0) {
        throw Error(Failure{Status::peer_failed, room_->failed_rank, getpid(),
            format("rank %d of %s gave up while the group was being formed", room_->failed_rank,
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
  std::shared_ptr<Room> room_;
  std::string description_;
  int rank_;
  int exceptions_;
};

// The room is closed to newcomers and everybody in it fails alike. The mutex is held.
[[noreturn]] void fail(const std::string& name, Room& room, Failure failure) {
  const auto found = registry().open.find(name);
  if (found != registry().open.end() && found->second.get() == &room) registry().open.erase(found);
  room.failure = failure;
  throw Error(std::move(failure));
}

std::shared_ptr<Room> come_in(
    const std::string& name, const std::string& description, int rank, int size) {
  const std::lock_guard lock(registry().mutex);
  auto& entry = registry().open[name];
  if (!entry) entry = std::make_shared<Room>(size);
  const std::shared_ptr<Room> room = entry;
  if (room->here.size() != static_cast<size_t>(size)) {
    fail(name, *room,
        {Status::mismatch, rank, getpid(),
            format("rank %d of %s was told that there are %d ranks, others that there are %zu",
                rank, description.c_str(), size, room->here.size())});
  }
  if (room->here[static_cast<size_t>(rank)]) {
    fail(name, *room,
        {Status::mismatch, rank, getpid(),
            format("rank %d of %s is claimed by two threads", rank, description.c_str())});
  }
  room->here[static_cast<size_t>(rank)] = true;
  room->complete = std::find(room->here.begin(), room->here.end(), false) == room->here.end();
  if (room->complete) registry().open.erase(name);
  return room;
}

// After a deadline. Throws unless the room was completed at the last moment.
void give_up(
    const std::string& name, const std::string& description, const std::shared_ptr<Room>& room) {
  const std::lock_guard lock(registry().mutex);
  if (room->complete) return;
  if (room->failure) throw Error(*room->failure);
  fail(name, *room, missing_ranks(room->here, description));
}
}  // namespace

Failure missing_ranks(const std::vector<bool>& came, const std::string& place) {
  constexpr int kNamed = 8;
  std::string list;
  int first = -1;
  int count = 0;
  for (size_t rank = 0; rank < came.size(); ++rank) {
    if (came[rank]) continue;
    if (++count == 1) first = static_cast<int>(rank);
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
  const std::shared_ptr<Room> room = come_in(name, description, rank, size);
  const auto complete = [&] {
    const std::lock_guard lock(registry().mutex);
    if (room->failure) throw Error(*room->failure);
    return room->complete;
  };
  if (!retry_until(complete, deadline)) give_up(name, description, room);
  return std::make_unique<ThreadStore>(room, description, rank);
}
}  // namespace symm
