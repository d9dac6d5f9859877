// Publishes, finds and withdraws versions, by files in the directories of exporters.
#include "core/ipc/publication.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/hash.hpp"
#include "core/base/layouts.hpp"
#include "core/base/little_endian.hpp"
#include "core/base/text.hpp"
#include "core/base/wait.hpp"
#include "core/ipc/bundle.hpp"
#include "core/ipc/exporter.hpp"
#include "core/ipc/exporter_listener.hpp"
#include "core/ipc/shares.hpp"
#include "core/ipc/token.hpp"
#include "core/socket/directory.hpp"
#include "kernels/compare.hpp"

namespace symm::ipc {
namespace {
constexpr uint32_t kPublicationMagic = 0x42505953;  // "SYPB"
constexpr size_t kPublicationChecksum = 8;
constexpr size_t kMostBytes = kPublicationFixed + kLongestName + kMaxToken + kPublicationChecksum;

std::string prefix_of(const std::string& name) { return format("p-%016lx-", fnv1a(name)); }

std::vector<std::byte> encode(
    const std::string& name, uint64_t version, std::span<const std::byte> token) {
  Writer out;
  out.numbers(kPublicationMagic, layouts::publication.number, uint16_t{0}, layouts::library,
      static_cast<uint32_t>(name.size()), static_cast<uint32_t>(token.size()), version);
  out.text(name);
  out.bytes(token);
  out.number(fnv1a(out.bytes_));
  return std::move(out.bytes_);
}

// Whether the bytes are such a publication of the name. One of another number is none.
bool decode(std::span<const std::byte> bytes, const std::string& name, Found& found) {
  if (bytes.size() < kPublicationFixed + kPublicationChecksum) return false;
  Reader in(bytes);
  uint32_t magic = 0;
  uint16_t number = 0;
  uint16_t spare = 0;
  uint32_t library = 0;
  uint32_t name_bytes = 0;
  uint32_t token_bytes = 0;
  in.numbers(magic, number, spare, library, name_bytes, token_bytes, found.version);
  if (magic != kPublicationMagic || number != layouts::publication.number ||
      name_bytes > kLongestName || token_bytes > kMaxToken ||
      bytes.size() != kPublicationFixed + name_bytes + token_bytes + kPublicationChecksum) {
    return false;
  }
  if (in.text(name_bytes) != name) return false;

  const std::span<const std::byte> token = in.rest().first(token_bytes);
  found.token.assign(token.begin(), token.end());
  Reader end(bytes.last(kPublicationChecksum));
  return end.number<uint64_t>() == fnv1a(bytes.first(bytes.size() - kPublicationChecksum));
}

// A file of a version in the directory of a process.
struct Candidate {
  uint64_t version;
  std::string path;
};

// The versions of a name that processes which live have published.
std::vector<Candidate> candidates(const std::string& parent, const std::string& name) {
  std::vector<Candidate> all;
  Fd above;
  try {
    above = open_private_directory(parent, false);
  } catch (const Error& error) {
    if (error.failure().os_error == ENOENT) return all;  // nobody has exported anything
    throw;
  }

  sweep(parent);  // what the dead have left
  const std::string prefix = prefix_of(name);
  list_directory(above.get(), [&](const char* entry) {
    if (!std::string_view(entry).starts_with(kSharedPrefix)) return;
    const Fd directory =
        make_fd(::openat, above.get(), entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (!directory) return;  // it has just been removed
    list_directory(directory.get(), [&](const char* file) {
      const std::string_view text = file;
      if (!text.starts_with(prefix) || text.size() != prefix.size() + 16) return;
      char* end = nullptr;
      const uint64_t version = strtoull(file + prefix.size(), &end, 16);
      if (*end == '\0') all.push_back({version, parent + "/" + entry + "/" + file});
    });
  });
  return all;
}

bool read_publication(const std::string& path, const std::string& name, Found& found) {
  const Fd file = make_fd(::open, path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (!file) return false;
  std::byte bytes[kMostBytes + 1];
  const ssize_t size = read_whole(file.get(), bytes, sizeof bytes);
  return size > 0 && decode({bytes, static_cast<size_t>(size)}, name, found);
}

bool holds(Compare compare, uint64_t left, uint64_t right) {
  switch (compare) {
    case Compare::eq: return left == right;
    case Compare::ne: return left != right;
    case Compare::lt: return left < right;
    case Compare::le: return left <= right;
    case Compare::gt: return left > right;
    case Compare::ge: return left >= right;
  }
  return false;
}

// Whether two tokens of this process name memory in common.
bool overlap(const Token& a, const Token& b) {
  return a.block == b.block && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

std::string text_of(const std::set<uint64_t>& versions) {
  if (versions.empty()) return "no version of it is published there";
  std::string text = "the versions there are";
  size_t left = 8;
  for (auto at = versions.rbegin(); at != versions.rend() && left != 0; ++at, --left) {
    text += format("%s %lu", at == versions.rbegin() ? "" : ",", *at);
  }
  return versions.size() > 8 ? text + " and older ones" : text;
}
}  // namespace

void require_name(const std::string& name, const char* argument) {
  if (name.size() > kLongestName) {
    throw Error(Status::invalid_argument,
        format("%s: it has %zu bytes, more than %zu", argument, name.size(), kLongestName));
  }
  if (printable(name) != name) {
    throw Error(Status::invalid_argument,
        format("%s: '%s' is not one line of UTF-8", argument, printable(name).c_str()));
  }
}

Found find_published(const std::string& name, Compare compare, uint64_t version,
    const std::string& directory, uint64_t timeout_ms) {
  const std::string parent = directory.empty() ? directory_for_sockets() : directory;
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  Found found;
  std::set<uint64_t> seen;
  const auto look = [&] {
    std::vector<Candidate> all = candidates(parent, name);
    std::sort(all.begin(), all.end(),
        [](const Candidate& a, const Candidate& b) { return a.version > b.version; });
    seen.clear();
    for (const Candidate& one : all) {
      if (!holds(compare, one.version, version)) {
        seen.insert(one.version);
      } else if (read_publication(one.path, name, found) && found.version == one.version) {
        return true;
      }
    }
    return false;
  };
  if (retry_until(look, deadline)) return found;

  static constexpr const char* kSigns[] = {"=", "!=", "<", "<=", ">", ">="};
  throw Error(Status::timeout, format("no version %s %lu of '%s' is published in %s: %s",
                                   kSigns[static_cast<size_t>(compare)], version, name.c_str(),
                                   parent.c_str(), text_of(seen).c_str()));
}

// ---- what this process has published

// Whether another version that is published has some of the memory, as one under another name may.
bool Publications::is_elsewhere(const Version& version) const {
  return std::any_of(versions_.begin(), versions_.end(), [&](const auto& entry) {
    const Version& other = entry.second;
    return &other != &version && !other.is_over && overlap(other.token, version.token);
  });
}

void Publications::end(Version& version) {
  if (version.is_over) return;
  // First the file, so that a token that is found there has not ended for long.
  unlink(version.file.c_str());
  version.is_over = true;
  version.shown = {};
  if (!is_elsewhere(version)) exporter_.end(version.token);
}

void Publications::forget_what_is_over() {
  std::erase_if(versions_, [this](const auto& entry) {
    return entry.second.is_over && !exporter_.is_held(entry.second.token);
  });
}

void Publications::drop_ended() noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& [key, version] : versions_) {
    if (version.is_over) continue;
    try {
      exporter_.require_valid(version.token);
    } catch (const std::exception&) {
      unlink(version.file.c_str());
      version.is_over = true;
      version.shown = {};
    }
  }
}

// Writes the file of a version, which has its name only when it is whole.
void Publications::write(const Key& key, const Version& version, const std::string& directory) {
  const std::vector<std::byte> bytes = encode(key.first, key.second, ipc::encode(version.token));
  const std::string temporary = directory + "/new-" + hexadecimal(random_id());
  const Fd file = make_fd(
      ::open, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (!file) throw system_error(errno, "open", temporary);
  SYMM_POINT("ipc.publish");
  if (!write_whole(file.get(), bytes.data(), bytes.size()) ||
      rename(temporary.c_str(), version.file.c_str()) != 0) {
    const int error = errno;
    unlink(temporary.c_str());
    throw system_error(error, "write", version.file);
  }
  SYMM_POINT("ipc.published");
}

void Publications::add(
    const std::string& name, uint64_t version, const Token& token, uint64_t keep) {
  require_name(name, "name");
  if (name.empty()) throw Error(Status::invalid_argument, "name: is empty");
  if (token.bytes == 0) throw Error(Status::invalid_argument, "token: it names no memory");
  exporter_.require_valid(token);

  const std::lock_guard lock(mutex_);
  forget_what_is_over();
  std::vector<Versions::iterator> newest;  // of this name, the newest first
  for (auto at = versions_.lower_bound({name, 0}); at != versions_.end() && at->first.first == name;
      ++at) {
    if (at->second.is_over) continue;
    newest.insert(newest.begin(), at);
    if (at->first.second != version && overlap(at->second.token, token)) {
      throw Error(Status::invalid_argument,
          format("token: it names memory of version %lu of '%s', which is not withdrawn",
              at->first.second, name.c_str()));
    }
  }
  if (keep != 0 && newest.size() >= keep && newest[keep - 1]->first.second > version) {
    throw Error(
        Status::invalid_argument, format("version: %lu is older than the %lu of '%s' that are kept",
                                      version, keep, name.c_str()));
  }

  const std::string directory = exporter_.directory();
  const std::string file = directory + "/" + prefix_of(name) + format("%016lx", version);
  const auto [added, is_new] =
      versions_.emplace(Key{name, version}, Version{token, file, false, {}});
  if (!is_new) {
    throw Error(Status::invalid_argument,
        format("version: this process has published %lu of '%s' already", version, name.c_str()));
  }
  try {
    write(added->first, added->second, directory);
  } catch (...) {
    unlink(file.c_str());
    versions_.erase(added);
    throw;
  }
  added->second.shown = Shares::show_version(token, exporter_.bytes_of(token), name, version);

  for (size_t i = keep - 1; keep != 0 && i < newest.size(); ++i) {
    end(newest[i]->second);
  }
}

void Publications::withdraw(const std::string& name, uint64_t version, uint64_t timeout_ms) {
  Token token;
  {
    const std::lock_guard lock(mutex_);
    const auto found = versions_.find({name, version});
    if (found == versions_.end()) {
      throw Error(Status::invalid_argument,
          format("version: %lu of '%s' is none that this process has published, or it is withdrawn",
              version, printable(name).c_str()));
    }
    token = found->second.token;
    end(found->second);
  }

  exporter_.withdraw(token, timeout_ms);
  const std::lock_guard lock(mutex_);
  versions_.erase({name, version});
}
}  // namespace symm::ipc
