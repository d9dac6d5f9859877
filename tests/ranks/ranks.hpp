// SPDX-License-Identifier: Apache-2.0
//
// Ranks for tests, as threads of this process or as processes of their own, and the C ABI with failures turned into exceptions.
// Tests in this room see the library as its users do: through symm.h.
#pragma once

#include <gtest/gtest.h>
#include <symm/symm.h>

#include <sys/mman.h>

#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace ranks {

// What an unexpected status becomes; what() is the library's message.
struct Failed : std::runtime_error {
  Failed(symm_status_t s, const std::string& message) : std::runtime_error(message), status(s) {}
  symm_status_t status;
};
void check(symm_status_t status);

struct Release {
  void operator()(symm_group_t* group) const { symm_group_release(group); }
  void operator()(symm_buffer_t* buffer) const { symm_buffer_release(buffer); }
  void operator()(symm_memory_t* memory) const { symm_memory_release(memory); }
};
using Group = std::unique_ptr<symm_group_t, Release>;
using Buffer = std::unique_ptr<symm_buffer_t, Release>;
using Memory = std::unique_ptr<symm_memory_t, Release>;

struct Config {
  std::string bootstrap;
  std::string name;
  uint64_t create_timeout_ms = 20'000;
  uint64_t timeout_ms = 20'000;
  uint64_t flags = 0;
};
Group create(const Config& config, int rank, int size);
Group split(const Group& group, int color, int key);  // null if color < 0

// A buffer and what it became in the rendezvous, with typed access.
struct Block {
  Buffer buffer;
  Memory memory;
  template <class T>
  T* at(int rank) const {
    return static_cast<T*>(pointer(rank));
  }
  void* pointer(int rank) const;
};
Block allocate(const Group& group, size_t bytes, uint64_t tag = 0);

int rank_of(const Group& group);
int size_of(const Group& group);
void barrier(const Group& group, int channel = 0, uint64_t timeout_ms = 0);

// A bootstrap that nobody else uses: a private directory under the temporary one, removed by the destructor; or a name for
// threads.
class BootstrapResult {
 public:
  BootstrapResult();
  ~BootstrapResult();
  BootstrapResult(const BootstrapResult&) = delete;
  BootstrapResult& operator=(const BootstrapResult&) = delete;
  const std::string& directory() const { return directory_; }
  Config processes() const;
  Config threads() const;

 private:
  std::string directory_;
};

// Run `body(rank)` on `size` threads; the first exception is rethrown here when all have ended.
void as_threads(int size, const std::function<void(int rank)>& body);
// The same with a group made for it.
void as_threads(int size, const std::function<void(int rank, const Group& group)>& body);

// Processes as ranks, forked from this one, which therefore must not run threads. A body that throws or fails a gtest expectation
// ends its process with status 1 and its message in `said`.
class Processes {
 public:
  Processes(int size, const std::function<void(int rank)>& body);
  ~Processes();  // kills and reaps what is left
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  int pid(int rank) const { return pids_[static_cast<size_t>(rank)]; }
  void kill(int rank, int signal);
  // Wait for one rank, at most `milliseconds`; kills it and fails if it takes longer. Returns the wait status.
  int wait(int rank, int milliseconds = 60'000);
  // The same without an opinion: false if it took longer and was killed.
  bool reap(int rank, int milliseconds);
  // What the rank wrote with say() and, at the end, why it failed.
  std::string said(int rank);
  // Wait until the rank has said `text`; false after `milliseconds`.
  bool hear(int rank, const std::string& text, int milliseconds = 60'000);
  // Expect every rank but those given to end with status 0.
  void expect_success(const std::vector<int>& except = {});

 private:
  std::vector<int> pids_;
  std::vector<int> statuses_;  // -1: not reaped yet
  std::vector<int> pipes_;
  std::vector<std::string> said_;
};
// From inside a body of Processes: a line for said().
void say(const std::string& line);
// From inside a body: block until the parent or nobody; used to hold a rank where it is.
[[noreturn]] void sleep_for_ever();

// A T that a Processes made later and its parent share, for what a test must know besides the library. Zeroed; not a class with a
// destructor.
template <class T>
class Shared {
 public:
  Shared() {
    void* memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    value_ = new (memory) T();
  }
  ~Shared() { munmap(value_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  T* operator->() const { return value_; }
  T& operator*() const { return *value_; }

 private:
  T* value_;
};

// Ask again and again until it is so; false after `milliseconds`, which are generous everywhere: they bound a failing test only.
bool eventually(const std::function<bool()>& so, int milliseconds = 30'000);

// What must be the same before and after: open descriptors, mappings of shared memory, threads, files of ours in the temporary
// directory.
struct Footprint {
  size_t descriptors = 0;
  size_t mappings = 0;
  size_t threads = 0;
  static Footprint now();
  // Once nothing changes any more: what was released last may still be in the monitor thread's hands.
  static Footprint settled();
  bool operator==(const Footprint&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Footprint& footprint);
// Shared memory of the whole machine in bytes (Shmem of /proc/meminfo).
size_t machine_shared_memory();

}  // namespace ranks
