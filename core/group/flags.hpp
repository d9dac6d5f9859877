// The flags of a group as symm.h has them, and as the fields of a configuration.
#pragma once

#include <cstdint>

#include "core/group/group.hpp"
#include "symm/symm.h"

namespace symm {
// The flags that may differ between ranks: each rank numbers its devices for itself, any rank
// may ask for checks, and multicast is left out unless all ranks ask for it.
inline constexpr uint64_t kOwnFlags = SYMM_GROUP_ON_DEVICE | SYMM_GROUP_OVERLAPPING_DEVICES |
                                      SYMM_GROUP_CHECK | SYMM_GROUP_NO_CHECK |
                                      SYMM_GROUP_MULTICAST | SYMM_GROUP_NO_MULTICAST;

// The bits SYMM_GROUP_* of a configuration.
uint64_t flags_of(const GroupConfig& config) noexcept;

// Sets the fields of a configuration to what the bits say, except for SYMM_GROUP_ON_DEVICE,
// whose device is a field of its own, and SYMM_GROUP_VARIABLES_AT_LOAD, which is for one call.
void set_flags(GroupConfig& config, uint64_t flags) noexcept;

// The name of one bit, for messages.
const char* flag_name(uint64_t bit) noexcept;

// Throws Error(unsupported) if a bit is not known.
void require_known_flags(uint64_t flags, const char* argument);

// Throws Error(unsupported) if a bit is not known, and Error(invalid_argument) if two
// bits contradict each other.
void require_flags(uint64_t flags, const char* argument);

// The flags of a group that is made of one with the flags `inherited`. A flag that is added takes
// the place of its opposites.
uint64_t inherited_flags(uint64_t inherited, uint64_t added, uint64_t removed) noexcept;
}  // namespace symm
