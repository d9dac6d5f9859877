// What a process holds and what it leaves in directories.
#pragma once

#include "tests/support/test.hpp"

namespace support {
size_t open_descriptors();
// Lets this process open so many more descriptors, whatever holes its starter left between those it has.
void leave_descriptors(int more);

// A limit of this process, which is at the end of a scope again what it was.
class Limit {
 public:
  explicit Limit(decltype(RLIMIT_NOFILE) resource) : resource_(resource) { getrlimit(resource, &former_); }
  ~Limit() { setrlimit(resource_, &former_); }
  Limit(Limit&&) = delete;
  void lower(uint64_t value) const;
 private:
  const decltype(RLIMIT_NOFILE) resource_;
  rlimit former_{};
};

// What must be the same before and after: open descriptors, mappings of shared memory, threads.
struct Footprint {
  size_t descriptors = 0;
  size_t mappings = 0;
  size_t threads = 0;
  static Footprint now();
  static Footprint settled();
  bool operator==(const Footprint&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Footprint& footprint);

// Shared memory of the whole machine in bytes (Shmem of /proc/meminfo).
size_t machine_shared_memory();

// A private directory under the temporary one, removed with all that is in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(TemporaryDirectory&&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
 private:
  std::string path_;
};

std::vector<std::string> entries(const std::string& directory);  // sorted
// Nothing is left of what ranks put there.
void expect_empty(const std::string& directory);
// What is not ours to change: the environment, and how signals are handled.
std::string variables_and_handlers();
}  // namespace support
