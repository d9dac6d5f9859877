// Whether a group's memories are given multicast addresses: off unless asked for, and
// refused on all ranks for any reason that one of them has. A pure function of what the
// ranks tell each other when the group is formed.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/base/environment.hpp"
#include "core/cuda/device.hpp"

namespace symm::cuda {
// The facts of one rank that bear on the choice. They travel to all other ranks, so
// they are plain data.
struct MulticastFacts {
  Uuid device{};
  // Asked for by the group's configuration, to which Group::create() adds SYMM_MULTICAST=1.
  int32_t asked = 0;
  // Forbidden by the environment: 1 + the place of the variable in the list of
  // multicast_choice.cpp, or by the configuration: one more than there are variables; 0: by none.
  int32_t forbidden = 0;
  // The driver has the calls, and the device supports it.
  int32_t has_calls = 0;
  int32_t supported = 0;
};

// Reads an environment variable, as environment() does.
using ReadVariable = std::function<const char*(Variable)>;

// The wish for multicast in a group's configuration.
enum class MulticastWish { none, yes, no };

// Finds `asked` and `forbidden`. A variable that cannot be understood counts as a no.
MulticastFacts read_wish(MulticastWish config, const ReadVariable& read);

MulticastFacts multicast_facts(
    const Device& device, MulticastWish config, const ReadVariable& read);

// The reason why there is no multicast, such as "rank 2: NCCL_NVLS_ENABLE=0 is set"; "" if
// there is multicast. Equal on all ranks.
std::string why_no_multicast(std::span<const MulticastFacts> ranks);

// Why there would be none on one rank, even if it were asked for.
std::string why_no_multicast(const MulticastFacts& facts);
}  // namespace symm::cuda
