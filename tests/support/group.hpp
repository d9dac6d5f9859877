// Groups of ranks that are threads or processes of a test, for tests that see the library as its users do: through symm.hpp and
// symm.h. A program that includes headers of core/ cannot include this.
#pragma once

#include <symm/symm.hpp>
#include "tests/support/footprint.hpp"
#include "tests/support/process.hpp"

namespace support {
using symm::Buffer;
using symm::Error;
using symm::Group;
using symm::Memory;

inline void check(symm_status_t status) { symm::check(status, "a call of the library"); }

// How a call ended; without a message if well.
struct Outcome {
  symm_status_t status = SYMM_OK;
  std::string message;
  int32_t rank = -1;  // to blame
  int64_t pid = 0;
};
Outcome outcome_of(const std::function<void()>& call);

// `call` fails with `status`, and its message has all of `words`; how it ended.
Outcome expect_failure(symm_status_t status, const std::vector<std::string>& words, const std::function<void()>& call);
// The same of a call of symm.h, the last of this thread.
void expect_failed(symm_status_t got, symm_status_t status, const std::vector<std::string>& words);
symm_failure_t last_failure();  // of this thread

struct Config {
  std::string bootstrap = {};
  std::string name = {};
  uint64_t create_timeout_ms = 20'000;
  uint64_t timeout_ms = 20'000;
  uint64_t flags = 0;
  uint64_t scratch_bytes = 0;
  int32_t channels = 0;
  const symm_store_t* store = nullptr;
  symm_backend_t backend = SYMM_BACKEND_HOST;
};
Group create(const Config& config, int rank, int size);

// A bootstrap that nobody else uses, for processes or for threads.
struct Bootstrap : TemporaryDirectory {
  Config processes() const;
  Config threads() const;
};

// A buffer and what it became in the rendezvous.
struct Block {
  Buffer buffer;
  Memory memory;
  template <class T> T* at(int rank) const { return memory.span<T>(rank).data(); }
};
Block allocate(const Group& group, size_t bytes, uint64_t tag = 0);

// In memory that processes share, where symm::Token cannot be.
struct Token {
  size_t size = 0;
  std::byte bytes[SYMM_IPC_TOKEN_MAX_SIZE] = {};
  operator symm::Span<const std::byte>() const { return {bytes, size}; }
};
Token make_token(const void* pointer, size_t bytes, uint64_t hold_ms = 0, uint64_t hold_imports = 0);

// Threads or processes as above, with a group made for them. That of threads is aborted by a rank that throws; processes may
// leave nothing where they met.
using GroupBody = std::function<void(int rank, const Group& group)>;
void as_threads(int size, const GroupBody& body, uint64_t flags = 0);
void as_processes(int size, const GroupBody& body);

// All ranks of the group sum, rightly.
void expect_sum(const Group& group);
// The sum over all ranks.
symm_status_t allreduce(
    const Group& group, const float* send, float* recv, size_t count, symm_algorithm_t algorithm = SYMM_ALGORITHM_AUTO);
}  // namespace support
