// SPDX-License-Identifier: Apache-2.0
#include "tests/capi/ipc/sharing.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>

namespace sharing {

Directory::Directory() { setenv("SYMM_IPC_DIRECTORY", path().c_str(), 1); }

Directory::~Directory() {
  // A killed exporter leaves a directory behind, which the next one removes.
  {
    Processes next(1, [](int) {
      const Owned owned(64);
      make_token(owned.data, 64);
    });
    next.wait(0);
  }
  unsetenv("SYMM_IPC_DIRECTORY");
  for (const auto& entry : std::filesystem::directory_iterator(path())) ADD_FAILURE() << entry.path() << " was left behind";
}

Owned::Owned(size_t bytes) {
  // A forked child makes its own; the parent's is left alone, as the library does.
  static ranks::Group group;
  static pid_t made_by = 0;
  static std::mutex mutex;
  {
    const std::lock_guard lock(mutex);
    if (made_by != getpid()) {
      ranks::Config config;
      config.bootstrap = "thread://sharing";
      group = ranks::create(config, 0, 1);
      made_by = getpid();
    }
  }
  symm_buffer_t* made = nullptr;
  check(symm_alloc(group.get(), bytes, 0, &made));
  buffer.reset(made);
  void* pointer = nullptr;
  check(symm_buffer_pointer(made, &pointer));
  data = static_cast<std::byte*>(pointer);
}

Token make_token(const void* pointer, size_t bytes, uint64_t hold_ms, uint64_t hold_imports) {
  const symm_ipc_export_options_t options{sizeof options, hold_ms, hold_imports};
  Token token;
  check(symm_ipc_export(pointer, bytes, &options, token.bytes, sizeof token.bytes, &token.size, nullptr));
  return token;
}

Import import(const Token& token, uint64_t timeout_ms, const char* directory) {
  symm_ipc_import_options_t options = SYMM_IPC_IMPORT_OPTIONS_INIT;
  options.timeout_ms = timeout_ms;
  options.directory = directory;
  symm_ipc_t* ipc = nullptr;
  check(symm_ipc_import(token.bytes, token.size, &options, &ipc, nullptr));
  return Import(ipc);
}

Outcome outcome_of_import(const Token& token, uint64_t timeout_ms) {
  try {
    import(token, timeout_ms);
    return {};
  } catch (const Failed& failed) {
    return {failed.status, failed.what()};
  }
}

symm_ipc_info_t Import::info() const {
  symm_ipc_info_t info{};
  info.struct_size = sizeof info;
  check(symm_ipc_info(get(), &info));
  return info;
}

symm_ipc_stats_t stats() {
  symm_ipc_stats_t stats{};
  stats.struct_size = sizeof stats;
  check(symm_ipc_stats(&stats));
  return stats;
}

symm_ipc_report_t collect() {
  symm_ipc_report_t report{};
  report.struct_size = sizeof report;
  check(symm_ipc_collect(&report));
  return report;
}

void reach(Facts& facts, int step) { facts.step.store(step); }

void wait_for(const std::atomic<int>& value, int at_least) {
  if (!eventually([&] { return value.load() >= at_least; }))
    throw std::runtime_error("nobody came to step " + std::to_string(at_least));
}

void expect_eventually(const char* what, const std::function<bool()>& so) { EXPECT_TRUE(eventually(so)) << what; }

}  // namespace sharing
