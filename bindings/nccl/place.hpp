// The places of communicators that go by symm in this process.
#pragma once

#include <optional>
#include <string>

namespace symm::nccl {
// One that a communicator has taken, and gives back with the object.
class Place {
 public:
  // None, if a communicator of this name has no place (may_take() in settings.hpp).
  static std::optional<Place> take(const std::string& name);

  Place(Place&& other) noexcept;
  Place& operator=(Place&& other) noexcept;
  ~Place();

 private:
  explicit Place(bool is_taken) : is_taken_(is_taken) {}

  bool is_taken_;
};
}  // namespace symm::nccl
