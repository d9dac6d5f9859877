// The resources that a process holds, and the files that it leaves in directories.
#pragma once

#include "tests/support/process.hpp"

namespace support {
// The names in a directory, sorted.
inline std::vector<std::string> entries(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline size_t open_descriptors() { return entries("/proc/self/fd").size(); }
// Lets this process open so many more descriptors, even if
// there are gaps between the numbers of those that it has.
inline void leave_descriptors(int more) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  // The number that one too many would get: poll() takes no more entries than the limit.
  limit.rlim_cur = 0;
  while (fcntl(static_cast<int>(limit.rlim_cur), F_GETFD) >= 0 || more-- > 0) {
    ++limit.rlim_cur;
  }
  setrlimit(RLIMIT_NOFILE, &limit);
}

// A limit of this process, which is restored at the end of a scope.
class Limit {
 public:
  explicit Limit(decltype(RLIMIT_NOFILE) resource) : resource_(resource) {
    getrlimit(resource, &former_);
  }
  ~Limit() { setrlimit(resource_, &former_); }
  Limit(Limit&&) = delete;
  void lower(uint64_t value) const { set(value); }
  // Raises it to the hard limit, which is returned.
  uint64_t raise() const {
    set(former_.rlim_max);
    return former_.rlim_max;
  }

 private:
  void set(uint64_t value) const {
    const rlimit limit{value, former_.rlim_max};
    if (setrlimit(resource_, &limit) != 0) throw std::runtime_error("setrlimit");
  }

  const decltype(RLIMIT_NOFILE) resource_;
  rlimit former_{};
};

// The resources that must be equal before and after:
// descriptors, mappings of shared memory, threads.
struct Footprint {
  size_t descriptors = 0;
  size_t mappings = 0;
  size_t threads = 0;
  static Footprint now() {
    Footprint footprint{open_descriptors(), 0, entries("/proc/self/task").size()};
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find("memfd:symm") != std::string::npos) ++footprint.mappings;
    }
    return footprint;
  }
  static Footprint settled() { return support::settled(now); }
  bool operator==(const Footprint&) const = default;
  // For what a thread gives back that no call waits for: on a busy machine `before` may count some
  // of that still.
  bool has_no_more_than(const Footprint& before) const {
    return descriptors <= before.descriptors && mappings <= before.mappings &&
           threads <= before.threads;
  }
};
inline std::ostream& operator<<(std::ostream& out, const Footprint& f) {
  return out << f.descriptors << " descriptors, " << f.mappings << " mappings, " << f.threads
             << " threads";
}

// Shared memory of the whole machine in bytes (Shmem of /proc/meminfo).
inline size_t machine_shared_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    size_t kilobytes = 0;
    if (word == "Shmem:" && file >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

// A private directory under the temporary one, removed with all that is in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "symm-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(TemporaryDirectory&&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Expects that ranks have left nothing in a directory.
inline void expect_empty(const std::string& directory) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    ADD_FAILURE() << "left behind: " << entry.path();
  }
}
// What the library must not change: the environment, and how signals are handled.
inline std::string variables_and_handlers() {
  std::string all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    all += std::string(*entry) + "\n";
  }
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action{};
    sigaction(number, nullptr, &action);
    all += std::to_string(reinterpret_cast<uintptr_t>(action.sa_handler)) + " ";
  }
  return all;
}
}  // namespace support
