#include "bindings/nccl/place.hpp"

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "bindings/nccl/settings.hpp"

namespace symm::nccl {
namespace {
std::mutex mutex;
int taken = 0;
}  // namespace

std::optional<Place> Place::take(const std::string& name) {
  const std::lock_guard lock(mutex);
  if (!may_take(name, taken)) return std::nullopt;
  ++taken;
  return Place(true);
}

Place::Place(Place&& other) noexcept : is_taken_(std::exchange(other.is_taken_, false)) {}

Place& Place::operator=(Place&& other) noexcept {
  std::swap(is_taken_, other.is_taken_);
  return *this;
}

Place::~Place() {
  if (!is_taken_) return;
  const std::lock_guard lock(mutex);
  --taken;
}
}  // namespace symm::nccl
