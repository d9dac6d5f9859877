// The places of communicators that go by symm in this process.
#pragma once

#include <optional>
#include <string>

#include "bindings/nccl/meeting.hpp"
#include "bindings/nccl/settings.hpp"

namespace symm::nccl {
// One that a rank of a communicator has taken, and gives back with the object. Ranks of one
// communicator, which are devices of one process, share a place.
class Place {
 public:
  // Returns nothing if a communicator of this name has no place (may_take() in settings.hpp, which
  // has `most`, too).
  static std::optional<Place> take(
      const std::string& name, const Meeting& communicator, int most = kTakenByDefault);

  Place(Place&& other) noexcept;
  Place& operator=(Place&& other) noexcept;
  ~Place();

 private:
  explicit Place(const Meeting& communicator) : communicator_(communicator) {}

  // No value: the object was moved from.
  std::optional<Meeting> communicator_;
};
}  // namespace symm::nccl
