// The table of a group's flags: each with its opposites, and the field of GroupConfig
// that it sets.
#include "core/group/flags.hpp"

#include <cstdint>

#include "core/base/error.hpp"
#include "core/group/group.hpp"
#include "symm/symm.h"

namespace symm {
namespace {
struct Flag {
  uint64_t bit;
  const char* name;
  uint64_t opposites;
  bool GroupConfig::* field;
};

constexpr Flag kFlags[] = {
    {SYMM_GROUP_OVERLAPPING_DEVICES, "SYMM_GROUP_OVERLAPPING_DEVICES", 0,
        &GroupConfig::overlapping_devices},
    {SYMM_GROUP_CHECK, "SYMM_GROUP_CHECK", SYMM_GROUP_NO_CHECK, &GroupConfig::check},
    {SYMM_GROUP_MULTICAST, "SYMM_GROUP_MULTICAST", SYMM_GROUP_NO_MULTICAST,
        &GroupConfig::multicast},
    {SYMM_GROUP_SHARED_SCRATCH, "SYMM_GROUP_SHARED_SCRATCH", 0, &GroupConfig::shared_scratch},
    {SYMM_GROUP_ANY_ORDER, "SYMM_GROUP_ANY_ORDER", SYMM_GROUP_RANK_ORDER | SYMM_GROUP_TREE_ORDER,
        &GroupConfig::any_order},
    {SYMM_GROUP_SAME_OFFSETS, "SYMM_GROUP_SAME_OFFSETS", 0, &GroupConfig::same_offsets},
    {SYMM_GROUP_RANK_ORDER, "SYMM_GROUP_RANK_ORDER", SYMM_GROUP_ANY_ORDER | SYMM_GROUP_TREE_ORDER,
        &GroupConfig::rank_order},
    {SYMM_GROUP_NO_CHECK, "SYMM_GROUP_NO_CHECK", SYMM_GROUP_CHECK, &GroupConfig::no_check},
    {SYMM_GROUP_NO_MULTICAST, "SYMM_GROUP_NO_MULTICAST", SYMM_GROUP_MULTICAST,
        &GroupConfig::no_multicast},
    {SYMM_GROUP_TREE_ORDER, "SYMM_GROUP_TREE_ORDER", SYMM_GROUP_ANY_ORDER | SYMM_GROUP_RANK_ORDER,
        &GroupConfig::tree_order},
};
}  // namespace

uint64_t flags_of(const GroupConfig& config) noexcept {
  uint64_t flags = config.device >= 0 ? SYMM_GROUP_ON_DEVICE : 0;
  for (const Flag& flag : kFlags) {
    if (config.*flag.field) flags |= flag.bit;
  }
  return flags;
}

void set_flags(GroupConfig& config, uint64_t flags) noexcept {
  for (const Flag& flag : kFlags) {
    config.*flag.field = (flags & flag.bit) != 0;
  }
}

const char* flag_name(uint64_t bit) noexcept {
  for (const Flag& flag : kFlags) {
    if (flag.bit == bit) return flag.name;
  }
  return "SYMM_GROUP_ON_DEVICE";
}

void require_known_flags(uint64_t flags, const char* argument) {
  uint64_t known = SYMM_GROUP_ON_DEVICE | SYMM_GROUP_VARIABLES_AT_LOAD;
  for (const Flag& flag : kFlags) {
    known |= flag.bit;
  }
  if ((flags & ~known) != 0) {
    throw Error(Status::unsupported, format("%s: symm %d.%d does not know 0x%lx", argument,
                                         SYMM_VERSION_MAJOR, SYMM_VERSION_MINOR, flags & ~known));
  }
}

void require_flags(uint64_t flags, const char* argument) {
  require_known_flags(flags, argument);
  for (const Flag& flag : kFlags) {
    if ((flags & flag.bit) == 0) continue;
    for (const Flag& other : kFlags) {
      if ((flag.opposites & flags & other.bit) == 0) continue;
      throw Error(Status::invalid_argument,
          format("%s: %s and %s contradict each other", argument, flag.name, other.name));
    }
  }
}

uint64_t inherited_flags(uint64_t inherited, uint64_t added, uint64_t removed) noexcept {
  uint64_t flags = inherited & ~removed;
  for (const Flag& flag : kFlags) {
    if ((added & flag.bit) != 0) flags &= ~flag.opposites;
  }
  return flags | added;
}
}  // namespace symm
