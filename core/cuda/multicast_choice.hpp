// Whether a group's memories are given multicast addresses: off unless asked for, and refused on all ranks for any reason that
// one of them has. A pure function of what the ranks tell each other when the group is formed.
#pragma once

#include <span>
#include "core/base/environment.hpp"
#include "core/cuda/device.hpp"

namespace symm::cuda {
// What bears on it on one rank. Travels to all others, so plain data.
struct MulticastFacts {
  Uuid device{};
  int32_t asked = 0;      // by the group's configuration or SYMM_MULTICAST=1
  int32_t forbidden = 0;  // by the environment: 1 + the place of the variable in the list of multicast_choice.cpp; 0: by none
  int32_t has_calls = 0;  // the driver knows multicast
  int32_t supported = 0;  // and the device
};

using ReadVariable = std::function<const char*(Variable)>;  // environment()

// `asked` and `forbidden`. A variable that cannot be understood counts as a no.
MulticastFacts read_wish(bool config, const ReadVariable& read);
MulticastFacts multicast_facts(const Device& device, bool config, const ReadVariable& read);

// "": yes. Otherwise why not, the same for all ranks: "rank 2: NCCL_NVLS_ENABLE=0 is set".
std::string why_no_multicast(std::span<const MulticastFacts> ranks);
// Why a device would not, whoever asks.
std::string why_no_multicast(const MulticastFacts& facts);
}  // namespace symm::cuda
