// Versions: tokens that their maker has published under a name and a number. Each is a file in the
// private directory of the exporter, which is written whole and then gets its name, and which
// nobody changes: readers find all of it or nothing. It goes with the directory, so what a killed
// process has published is swept away as its socket is, and nothing is written by two processes.
//
// The name of the file is "p-<hash of the name>-<version>", 16 hexadecimal digits each. Its bytes,
// little-endian:
//    0  u32  magic
//    4  u16  number of the layout (layouts::publication)
//    6  u16  0
//    8  u32  library, the version of the publisher's
//   12  u32  length of the name
//   16  u32  length of the token
//   20  u64  version
//   28       name, then token
//  end  u64  checksum of everything before (FNV-1a)
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/ipc/exporter.hpp"
#include "core/ipc/shares.hpp"
#include "core/ipc/token.hpp"
#include "kernels/compare.hpp"

namespace symm::ipc {
inline constexpr size_t kPublicationFixed = 28;

// Throws Error(invalid_argument), which names the argument, for text that can be no name of a piece
// or a version.
void require_name(const std::string& name, const char* argument);

// A version that was looked up, and its token.
struct Found {
  uint64_t version = 0;
  std::vector<std::byte> token;
};

// The newest version, of any process that lives, for which `compare` with `version` holds. Waits
// for one until the deadline. `directory`: "" for the usual one. Throws Error(timeout).
Found find_published(const std::string& name, Compare compare, uint64_t version,
    const std::string& directory, uint64_t timeout_ms);

// What this process has published.
class Publications {
 public:
  explicit Publications(Exporter& exporter) : exporter_(exporter) {}

  // Then the tokens of all but the `keep` newest versions of the name end; 0: of none.
  void add(const std::string& name, uint64_t version, const Token& token, uint64_t keep);
  void withdraw(const std::string& name, uint64_t version, uint64_t timeout_ms);
  // Some memory was released or withdrawn: versions that lie there are over.
  void drop_ended() noexcept;

 private:
  struct Version {
    Token token;
    std::string file;      // path
    bool is_over = false;  // its token has ended, and may still be held
    Shares::Row shown;     // until it is over
  };
  using Key = std::pair<std::string, uint64_t>;  // name, version
  using Versions = std::map<Key, Version>;

  void end(Version& version);
  bool is_elsewhere(const Version& version) const;
  static void write(const Key& key, const Version& version, const std::string& directory);
  void forget_what_is_over();

  Exporter& exporter_;
  std::mutex mutex_;
  Versions versions_;
};
}  // namespace symm::ipc
