#include "tests/capi/ipc/sharing.hpp"

namespace support {
Directory::Directory() { setenv("SYMM_IPC_DIRECTORY", path().c_str(), 1); }

Directory::~Directory() {
  // A killed exporter leaves a directory behind, which the next one removes.
  Process([] {
    const Owned owned(64);
    make_token(owned.data, 64);
  }).wait();
  unsetenv("SYMM_IPC_DIRECTORY");
  expect_empty(path());
}

Owned::Owned(size_t bytes) {
  // A forked child makes its own; the parent's is left alone, as the library does.
  static Group group;
  static pid_t made_by = 0;
  static std::mutex mutex;
  {
    const std::lock_guard lock(mutex);
    if (made_by != getpid()) {
      group = create({"thread://sharing", ""}, 0, 1);
      made_by = getpid();
    }
  }
  buffer = group.allocate(bytes);
  data = buffer.span().data();
}

Import import(const Token& token, uint64_t timeout_ms) {
  symm_ipc_import_options_t options = SYMM_IPC_IMPORT_OPTIONS_INIT;
  options.timeout_ms = timeout_ms;
  return Import(token, options);
}

Outcome outcome_of_import(const Token& token, uint64_t timeout_ms) {
  return outcome_of([&] { import(token, timeout_ms); });
}

void wait_for(const std::atomic<int>& value, int at_least) {
  if (!eventually([&] { return value >= at_least; })) throw std::runtime_error("nobody came to step " + std::to_string(at_least));
}

void expect_eventually(const char* what, const std::function<bool()>& so) { EXPECT_TRUE(eventually(so)) << what; }

Process& Sharing::exporter(const std::function<void()>& body) {
  return processes_.emplace_back([&] {
    exporting_ = true;
    body();
  });
}

Process& Sharing::importer(const std::function<void()>& body) {
  return processes_.emplace_back([&] {
    await();
    body();
    go_on();
  });
}

void Sharing::go_on() { (exporting_ ? facts->step : facts->done) = ++turn_; }
void Sharing::await() const { exporting_ ? wait_for(facts->done, turn_) : wait_for(facts->step, turn_ + 1); }
void Sharing::pass() {
  go_on();
  await();
}

Owned Sharing::offer(size_t bytes) {
  Owned owned(bytes);
  facts->token = make_token(owned.data, 64);
  return owned;
}

void Sharing::gone(Process& process) {
  process.reap(20'000);
  processes_.remove_if([&](const Process& one) { return &one == &process; });
}

void Sharing::join() {
  for (Process& process : processes_) process.expect_success("an exporter or importer");
  processes_.clear();
}
}  // namespace support
