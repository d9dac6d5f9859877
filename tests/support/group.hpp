// Groups of ranks that are threads or processes of a test, for tests
// that see the library as its users do: through symm.hpp and symm.h.
// A program that includes headers of core/ cannot include this.
#pragma once

#include "tests/support/footprint.hpp"
#include "tests/support/options.hpp"
#include <symm/symm.hpp>

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
inline Outcome outcome_of(const std::function<void()>& call) {
  try {
    call();
    return {};
  } catch (const Error& error) {
    return {error.status(), error.what(), error.rank(), error.pid()};
  }
}

inline void expect_ended(
    const Outcome& outcome, symm_status_t status, const std::vector<std::string>& words) {
  EXPECT_EQ(outcome.status, status) << outcome.message;
  for (const std::string& word : words) {
    EXPECT_NE(outcome.message.find(word), std::string::npos)
        << "'" << word << "' in: " << outcome.message;
  }
}
// Expects that `call` fails with `status` and a
// message with all of `words`; returns how it ended.
inline Outcome expect_failure(symm_status_t status, const std::vector<std::string>& words,
    const std::function<void()>& call) {
  Outcome outcome = outcome_of(call);
  expect_ended(outcome, status, words);
  return outcome;
}
// Expects that the last call of this thread to symm.h, which returned `got`, failed
// with `status` and a message with all of `words`.
inline void expect_failed(
    symm_status_t got, symm_status_t status, const std::vector<std::string>& words) {
  expect_ended({got, symm_last_error()}, status, words);
}

// The failure of the last call of this thread.
inline symm_failure_t last_failure() {
  symm_failure_t failure{};
  failure.struct_size = sizeof failure;
  check(symm_last_failure(&failure));
  return failure;
}

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
inline Group create(const Config& config, int rank, int size) {
  symm_group_config_t c = SYMM_GROUP_CONFIG_INIT;
  c.rank = rank;
  c.size = size;
  c.backend = config.backend;
  c.bootstrap = config.bootstrap.c_str();
  c.store = config.store;
  c.name = config.name.c_str();
  c.create_timeout_ms = config.create_timeout_ms;
  c.timeout_ms = config.timeout_ms;
  c.flags = config.flags;
  c.scratch_bytes = config.scratch_bytes;
  c.channels = config.channels;

  return Group::create(c);
}

// A group of one rank.
inline Group alone(const std::string& name = "alone") {
  return create({"thread://" + name, ""}, 0, 1);
}

// A bootstrap that no other test uses, for processes or for threads.
struct Bootstrap : TemporaryDirectory {
  Config processes() const { return {"dir://" + path(), ""}; }
  Config threads() const { return {"thread://" + path(), ""}; }
};

// A buffer, and the memory that the rendezvous made of it.
struct Block {
  Buffer buffer;
  Memory memory;
  template <class T>
  T* at(int rank) const {
    return memory.span<T>(rank).data();
  }
};
inline Block allocate(const Group& group, size_t bytes, uint64_t tag = 0) {
  Block block{group.allocate(bytes), {}};
  block.memory = group.rendezvous(block.buffer, tag);
  return block;
}

// A token for memory that processes share, where symm::Token, which allocates, cannot be.
struct Token {
  size_t size = 0;
  std::byte bytes[SYMM_IPC_TOKEN_MAX_BYTES] = {};
  operator symm::Span<const std::byte>() const { return {bytes, size}; }
};
inline Token make_token(
    const void* pointer, size_t bytes, const symm_ipc_export_options_t& options) {
  const symm::Token made =
      symm::ipc_export(symm::Span(static_cast<const std::byte*>(pointer), bytes), options);
  Token token{made.size(), {}};
  std::memcpy(token.bytes, made.data(), made.size());
  return token;
}
inline Token make_token(
    const void* pointer, size_t bytes, uint64_t hold_ms = 0, uint64_t hold_imports = 0) {
  symm_ipc_export_options_t options = SYMM_IPC_EXPORT_OPTIONS_INIT;
  options.hold_ms = hold_ms;
  options.hold_imports = hold_imports;
  return make_token(pointer, bytes, options);
}

// Runs `body` on ranks that are threads or processes, with a group made for them. A rank that
// throws aborts a group of threads. Processes may leave nothing where they met.
using GroupBody = std::function<void(int rank, const Group& group)>;
inline void as_threads(int size, const GroupBody& body, uint64_t flags = 0) {
  static std::atomic<int> count{0};
  Config config{"thread://test-" + std::to_string(getpid()) + "-" + std::to_string(count++), ""};
  config.flags = flags;

  as_threads(size, [&](int rank) {
    const Group group = create(config, rank, size);
    try {
      body(rank, group);
    } catch (...) {
      group.abort("a test failed on this rank");  // so that the others do not wait for it
      throw;
    }
  });
}
inline void as_processes(int size, const GroupBody& body) {
  const Bootstrap meeting;
  as_processes(size, [&](int rank) { body(rank, create(meeting.processes(), rank, size)); });
  expect_empty(meeting.path());
}

// All ranks of the group sum, rightly.
inline void expect_sum(const Group& group) {
  float value = 1;
  group.allreduce(symm::Span<const float>(&value, 1), symm::Span<float>(&value, 1), SYMM_OP_SUM);
  EXPECT_EQ(value, static_cast<float>(group.size()));
}
// The sum over all ranks.
inline symm_status_t allreduce(const Group& group, const float* send, float* recv, size_t count,
    symm_algorithm_t algorithm = SYMM_ALGORITHM_AUTO) {
  return symm_allreduce(
      group.get(), send, recv, count, SYMM_DTYPE_F32, SYMM_OP_SUM, forced(algorithm), nullptr);
}
}  // namespace support
