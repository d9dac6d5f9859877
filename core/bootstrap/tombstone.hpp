// The tombstone that a failed attempt to meet leaves in its directory for the ranks that come
// too late for it: why it failed, and which ranks know. It is a note (directory.hpp) beside the
// attempt, whose own directory goes with the last rank that was in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"

namespace symm {
struct Tombstone {
  Failure failure;
  std::vector<bool> know;  // by rank: a process of that rank was in the attempt, or has read this
  // By process::boot_time_ns(). A process that began after the first time may belong to another
  // launch; until the second, the tombstone is kept.
  uint64_t failed_ns = 0;
  uint64_t until_ns = 0;

  bool is_known_to(int rank) const {
    return static_cast<size_t>(rank) < know.size() && know[static_cast<size_t>(rank)];
  }
};

// The name of the tombstone of an attempt.
std::string name_of_tombstone(const std::string& attempt);
// Sets the tombstone, unless all ranks know. False: another rank has set one. If it cannot be set
// for another reason, the deadlines of the ranks that come remain. Needs no descriptor.
bool set_tombstone(const std::string& path, const Tombstone& tombstone);
// Nothing if there is none, or it has expired.
std::optional<Tombstone> read_tombstone(const std::string& path);
// From now on the rank knows, which has `seen` the tombstone. When all ranks know, it is gone.
// Ranks take turns, and each holds the tombstone for some microseconds; if one dies meanwhile, the
// deadlines of the ranks that come remain.
void note_reader(const std::string& path, const Tombstone& seen, int rank);
}  // namespace symm
