// Keeps the links to ranks of a failed group that may still write, and asks whether they have
// died.
#include "core/group/stragglers.hpp"

#include <algorithm>
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
struct AllStragglers {
  std::mutex mutex;
  std::vector<std::weak_ptr<Stragglers>> of_groups;
};
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

  // First come the groups that some rank here knows to be revoked. Then those are struck out that
  // another rank here does not know to be.
  for (const bool is_revoked : {true, false}) {
    size_t count = 0;
    for (auto at = list.of_groups.rbegin(); at != list.of_groups.rend() && count < ids.size();
        ++at) {
      const auto one = at->lock();
      if (!one) continue;
      const std::lock_guard held(one->mutex_);
      if (one->group_ == nullptr || one->group_->revocation().revoked() != is_revoked) continue;
      if (is_revoked) {
        ids[count++] = one->id_;
      } else {
        std::replace(ids.begin(), ids.end(), one->id_, uint64_t{0});
      }
    }
  }
}

std::vector<Straggler> Stragglers::all() {
  const std::lock_guard lock(mutex_);
  if (group_ != nullptr) known_ = group_->stragglers();
  std::erase_if(known_, [this](const Straggler& one) {
    return one.link->is_dead() ||
           std::find(met_.begin(), met_.end(), one.identity.process) != met_.end();
  });
  return known_;
}

bool Stragglers::over() noexcept {
  const std::lock_guard lock(mutex_);
  return group_ == nullptr && known_.empty();
}

void Stragglers::group_goes() noexcept {
  const std::lock_guard lock(mutex_);
  try {
    known_ = group_->stragglers();
  } catch (const std::bad_alloc&) {
    // The stragglers that were known stay.
  }
  group_ = nullptr;
}
}  // namespace symm
