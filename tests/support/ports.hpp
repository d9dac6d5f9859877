// Where this process can be reached by the network.
#pragma once

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <system_error>

namespace support {
// The local addresses on which sockets of this process listen for TCP, as the kernel writes them:
// "0100007F" is 127.0.0.1.
inline std::set<std::string> listening_addresses() {
  std::set<std::string> own;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string what = std::filesystem::read_symlink(entry.path(), gone);
    if (what.starts_with("socket:[")) own.insert(what.substr(8, what.size() - 9));
  }

  std::set<std::string> addresses;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string word[10];
      for (std::string& one : word) {
        words >> one;
      }
      const bool listens = word[3] == "0A";
      if (listens && own.contains(word[9])) addresses.insert(word[1].substr(0, word[1].find(':')));
    }
  }
  return addresses;
}
}  // namespace support
