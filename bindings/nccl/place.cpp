#include "bindings/nccl/place.hpp"

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "bindings/nccl/meeting.hpp"
#include "bindings/nccl/settings.hpp"

namespace symm::nccl {
namespace {
std::mutex mutex;

// The ranks that share the place of a communicator.
std::map<Meeting, int>& taken() {
  static auto* const all = new std::map<Meeting, int>;
  return *all;
}
}  // namespace

std::optional<Place> Place::take(const std::string& name, const Meeting& communicator, int most) {
  const std::lock_guard lock(mutex);
  const auto others = static_cast<int>(taken().size() - taken().count(communicator));
  if (!may_take(name, others, most)) return std::nullopt;
  ++taken()[communicator];
  return Place(communicator);
}

Place::Place(Place&& other) noexcept
    : communicator_(std::exchange(other.communicator_, std::nullopt)) {}

Place& Place::operator=(Place&& other) noexcept {
  communicator_.swap(other.communicator_);
  return *this;
}

Place::~Place() {
  if (!communicator_) return;
  const std::lock_guard lock(mutex);
  const auto found = taken().find(*communicator_);
  if (--found->second == 0) taken().erase(found);
}
}  // namespace symm::nccl
