// A store of the caller's own, for ranks that are threads or processes: each key is a
// file. Counts the calls of a rank, and can be told what to do in one of them.
#pragma once

#include "tests/support/group.hpp"

namespace support {
struct FileStore {
  const TemporaryDirectory& directory;
  int calls = 0;
  int fatal_call = -1;
  int signal = SIGKILL;

  symm_store_t callbacks() { return {sizeof(symm_store_t), this, set, get}; }

  static std::string file_of(void* user, std::string key) {
    auto& self = *static_cast<FileStore*>(user);
    if (self.calls++ == self.fatal_call) raise(self.signal);
    std::replace(key.begin(), key.end(), '/', '_');
    return self.directory / key;
  }
  static symm_status_t set(void* user, const char* key, const void* value, size_t size, uint64_t) {
    const std::string file = file_of(user, key);
    const std::string part = file + ".part";
    std::ofstream(part).write(static_cast<const char*>(value), static_cast<std::streamsize>(size));
    // as a whole, and once
    return link(part.c_str(), file.c_str()) == 0 ? SYMM_OK : SYMM_ERR_MISMATCH;
  }
  static symm_status_t get(void* user, const char* key, void* value, size_t capacity,
      size_t* out_size, uint64_t timeout_ms) {
    const std::string file = file_of(user, key);
    const auto is_there = [&] { return std::filesystem::exists(file); };
    if (!eventually(is_there, static_cast<int>(std::min<uint64_t>(timeout_ms, 60'000)))) {
      return SYMM_ERR_TIMEOUT;
    }
    *out_size = std::filesystem::file_size(file);
    std::ifstream(file).read(
        static_cast<char*>(value), static_cast<std::streamsize>(std::min(capacity, *out_size)));
    return SYMM_OK;
  }
};
}  // namespace support
