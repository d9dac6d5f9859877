// Keeps the links to ranks of a failed group that may still write, and checks whether they have
// died, or left the group after this rank.
#include "core/group/stragglers.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "core/base/per_process.hpp"
#include "core/group/group.hpp"
#include "core/mesh/peer_link.hpp"

namespace symm {
namespace {
// A group that a rank of this process has left. Its id outlives its Stragglers, which go with the
// last buffer that met on the group.
struct LeftGroup {
  uint64_t id = 0;  // 0: none
  bool was_revoked = false;
};

struct AllStragglers {
  std::mutex mutex;
  std::vector<std::weak_ptr<Stragglers>> of_groups;
  // The latest groups that were left; `left_count` of them so far.
  std::array<LeftGroup, 64> left;
  size_t left_count = 0;
};

// Calls `each` with the groups that were left, the latest first, as long as it returns true.
template <class Each>
void for_left(const AllStragglers& list, const Each& each) {
  const size_t known = std::min(list.left_count, list.left.size());
  for (size_t i = 1; i <= known; ++i) {
    if (!each(list.left[(list.left_count - i) % list.left.size()])) return;
  }
}
}  // namespace

std::shared_ptr<Stragglers> Stragglers::of(Group& group) {
  auto made = std::make_shared<Stragglers>();
  made->group_ = &group;
  made->id_ = group.id();

  AllStragglers& list = PerProcess<AllStragglers>::current();
  const std::lock_guard lock(list.mutex);
  std::erase_if(list.of_groups, [](const auto& gone) { return gone.expired(); });
  list.of_groups.push_back(made);
  return made;
}

void Stragglers::met(const Group& group) noexcept {
  try {
    std::vector<std::shared_ptr<Stragglers>> others;
    {
      AllStragglers& list = PerProcess<AllStragglers>::current();
      const std::lock_guard lock(list.mutex);
      for (const auto& of_group : list.of_groups) {
        if (auto other = of_group.lock()) others.push_back(std::move(other));
      }
    }

    for (const auto& other : others) {
      const std::lock_guard lock(other->mutex_);
      for (int rank = 0; rank < group.size(); ++rank) {
        const auto& revoked = group.facts(rank).revoked;
        if (std::find(std::begin(revoked), std::end(revoked), other->id_) != std::end(revoked)) {
          other->met_.push_back(group.identity(rank).process);
        }
      }
    }
  } catch (const std::bad_alloc&) {
    return;  // the ranks stay stragglers until they are dead
  }
}

void Stragglers::name_revoked(std::span<uint64_t> ids) noexcept {
  AllStragglers& list = PerProcess<AllStragglers>::current();
  const std::lock_guard lock(list.mutex);

  // First come the groups that some rank here knows to be revoked, then those that some rank
  // here has left, the failed ones before the others. A rank that has left a group makes no
  // call in it any more, whether it knew of the failure or not.
  size_t count = 0;
  const auto add = [&](uint64_t id) {
    if (count < ids.size()) ids[count++] = id;
  };
  const auto for_living = [&](bool is_revoked, const auto& each) {
    for (auto at = list.of_groups.rbegin(); at != list.of_groups.rend(); ++at) {
      const auto one = at->lock();
      if (!one) continue;
      const std::lock_guard held(one->mutex_);
      if (one->group_ == nullptr || one->group_->revocation().revoked() != is_revoked) continue;
      each(one->id_);
    }
  };

  for_living(true, add);
  for (const bool was_revoked : {true, false}) {
    for_left(list, [&](const LeftGroup& group) {
      if (group.was_revoked == was_revoked) add(group.id);
      return count < ids.size();
    });
  }

  // The groups in which another rank of this process is, without knowing of a
  // failure, are struck out.
  for_living(false, [&](uint64_t id) { std::replace(ids.begin(), ids.end(), id, uint64_t{0}); });
}

std::vector<Straggler> Stragglers::all() {
  const std::lock_guard lock(mutex_);
  if (group_ != nullptr) known_ = group_->stragglers();
  std::erase_if(known_, [this](const Straggler& one) {
    return one.link->is_dead() || (followed_ && followed_->has_left(one.member)) ||
           std::find(met_.begin(), met_.end(), one.identity.process) != met_.end();
  });
  if (known_.empty()) followed_.reset();
  return known_;
}

bool Stragglers::over() noexcept {
  const std::lock_guard lock(mutex_);
  return group_ == nullptr && known_.empty();
}

void Stragglers::group_goes() noexcept {
  {
    AllStragglers& list = PerProcess<AllStragglers>::current();
    const std::lock_guard lock(list.mutex);
    list.left[list.left_count % list.left.size()] = {id_, group_->revocation().revoked()};
    ++list.left_count;
  }

  const std::lock_guard lock(mutex_);
  try {
    known_ = group_->stragglers();
    if (!known_.empty()) followed_ = group_->follow();
  } catch (const std::bad_alloc&) {
    // The known stragglers stay, until they are dead.
  }
  group_ = nullptr;
}
}  // namespace symm
