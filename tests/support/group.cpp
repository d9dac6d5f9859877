#include "tests/support/group.hpp"
#include "tests/support/options.hpp"

namespace support {
Outcome outcome_of(const std::function<void()>& call) {
  try {
    call();
    return {};
  } catch (const Error& error) { return {error.status(), error.what(), error.rank(), error.pid()}; }
}

namespace {
void expect_ended(const Outcome& outcome, symm_status_t status, const std::vector<std::string>& words) {
  EXPECT_EQ(outcome.status, status) << outcome.message;
  for (const std::string& word : words)
    EXPECT_NE(outcome.message.find(word), std::string::npos) << "'" << word << "' in: " << outcome.message;
}
}  // namespace

Outcome expect_failure(symm_status_t status, const std::vector<std::string>& words, const std::function<void()>& call) {
  Outcome outcome = outcome_of(call);
  expect_ended(outcome, status, words);
  return outcome;
}
void expect_failed(symm_status_t got, symm_status_t status, const std::vector<std::string>& words) {
  expect_ended({got, symm_last_error()}, status, words);
}

symm_failure_t last_failure() {
  symm_failure_t failure{};
  failure.struct_size = sizeof failure;
  check(symm_last_failure(&failure));
  return failure;
}

Group create(const Config& config, int rank, int size) {
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

Config Bootstrap::processes() const { return {"dir://" + path(), ""}; }
Config Bootstrap::threads() const { return {"thread://" + path(), ""}; }

Block allocate(const Group& group, size_t bytes, uint64_t tag) {
  Block block{group.allocate(bytes), {}};
  block.memory = group.rendezvous(block.buffer, tag);
  return block;
}

Token make_token(const void* pointer, size_t bytes, uint64_t hold_ms, uint64_t hold_imports) {
  const symm_ipc_export_options_t options{sizeof options, hold_ms, hold_imports, nullptr};
  const symm::Token made = symm::ipc_export(symm::Span(static_cast<const std::byte*>(pointer), bytes), options);
  Token token{made.size(), {}};
  std::memcpy(token.bytes, made.data(), made.size());
  return token;
}

void as_processes(int size, const GroupBody& body) {
  const Bootstrap meeting;
  as_processes(size, [&](int rank) { body(rank, create(meeting.processes(), rank, size)); });
  expect_empty(meeting.path());
}

void as_threads(int size, const GroupBody& body, uint64_t flags) {
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

void expect_sum(const Group& group) {
  float value = 1;
  group.allreduce(symm::Span<const float>(&value, 1), symm::Span<float>(&value, 1), SYMM_OP_SUM);
  EXPECT_EQ(value, static_cast<float>(group.size()));
}

symm_status_t allreduce(const Group& group, const float* send, float* recv, size_t count, symm_algorithm_t algorithm) {
  return symm_allreduce(group.get(), send, recv, count, SYMM_DTYPE_F32, SYMM_OP_SUM, forced(algorithm), nullptr);
}
}  // namespace support
