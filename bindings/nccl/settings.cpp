#include "bindings/nccl/settings.hpp"

#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "bindings/nccl/open_file.hpp"
#include <symm/symm.h>

namespace symm::nccl {
const char* variable(const char* name) noexcept {
  const char* const value = secure_getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

bool watching() noexcept {
  static const bool on = [] {
    const char* const mode = variable("SYMM_NCCL_MODE");
    return mode == nullptr || std::strcmp(mode, "off") != 0;
  }();
  return on;
}

namespace {
constexpr size_t kLongestName = 256;

// The words between commas, also empty ones.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char next : text) {
    if (next == ',') {
      words.emplace_back();
    } else {
      words.back() += next;
    }
  }
  return words;
}

constexpr std::pair<const char*, symm_collective_t> kNames[] = {
    {"allgather", SYMM_COLLECTIVE_ALLGATHER}, {"allreduce", SYMM_COLLECTIVE_ALLREDUCE},
    {"alltoall", SYMM_COLLECTIVE_ALLTOALL}, {"broadcast", SYMM_COLLECTIVE_BROADCAST},
    {"gather", SYMM_COLLECTIVE_GATHER}, {"reduce", SYMM_COLLECTIVE_REDUCE},
    {"reducescatter", SYMM_COLLECTIVE_REDUCE_SCATTER}, {"scatter", SYMM_COLLECTIVE_SCATTER}};
constexpr const char* kSendRecvName = "sendrecv";

// Beside "all" there may be what is no collective.
bool stands_alone(const std::string& word, const std::vector<std::string>& words) {
  return word == "none" || std::any_of(words.begin(), words.end(), [](const std::string& other) {
    return other != "all" && other != kSendRecvName;
  });
}

std::optional<uint64_t> milliseconds_in(const std::string& text) {
  uint64_t read = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, read);
  const bool is_number = error == std::errc() && stop == end;
  // symm has a meaning of its own for the second of these.
  if (!is_number || read == 0 || read == SYMM_TIMEOUT_NOW) return std::nullopt;
  return read;
}

Settings read_settings() {
  Settings read;
  const auto refuse = [&](const char* name, const char* value, const std::string& reason) {
    const std::string refusal = std::string(name) + "=" + value + ": " + reason;
    warn("%s; no collective goes to symm", refusal.c_str());
    if (read.refusal.empty()) read.refusal = refusal;
    read.collectives = 0;
  };

  std::string reason;
  const char* const ops = variable("SYMM_NCCL_OPS");
  const auto chosen = ops != nullptr ? collectives_in(ops, reason) : kAllCollectives;
  read.collectives = chosen.value_or(0);
  if (!chosen) refuse("SYMM_NCCL_OPS", ops, reason);
  const char* const timeout = variable("SYMM_NCCL_TIMEOUT_MS");
  const auto deadline = timeout != nullptr ? milliseconds_in(timeout) : 0;
  read.timeout_ms = deadline.value_or(0);
  if (!deadline) {
    refuse("SYMM_NCCL_TIMEOUT_MS", timeout, "this is not a positive number of milliseconds");
  }

  const char* const communicators = variable("SYMM_NCCL_COMMS");
  if (communicators != nullptr) read.communicators = communicators;

  const char* const mode = variable("SYMM_NCCL_MODE");
  const std::string word = mode != nullptr ? mode : "fast";
  read.is_deterministic = word == "deterministic";
  if (word == "off") read.collectives = 0;
  if (word != "fast" && word != "deterministic" && word != "off") {
    refuse("SYMM_NCCL_MODE", mode, "this is none of fast, deterministic and off");
  }
  return read;
}

// Said once, though each line tries again: a FIFO may have got a reader, or a folder been made.
void say_unopened(const char* where, int error) noexcept {
  static std::atomic_flag is_said;
  if (is_said.test_and_set()) return;
  char line[1024];
  char why[128];
  const int length =
      std::snprintf(line, sizeof line, "symm_nccl %d: SYMM_NCCL_LOG=%.512s cannot be opened: %s\n",
          getpid(), where, strerror_r(error, why, sizeof why));
  if (length > 0) write_once(STDERR_FILENO, line, static_cast<size_t>(length));
}

// A line goes by one call, so that lines of several processes do not mix. False: it is not written.
bool write_line(const char* where, const char* format, va_list arguments) noexcept {
  char line[1024];
  const int head = std::snprintf(line, sizeof line, "symm_nccl %d: ", getpid());
  const int body =
      std::vsnprintf(line + head, sizeof line - static_cast<size_t>(head), format, arguments);
  const size_t length = std::min(static_cast<size_t>(head + std::max(body, 0)), sizeof line - 1);
  line[length] = '\n';

  const bool to_stderr = std::strcmp(where, "stderr") == 0;
  // A FIFO that nobody reads is not waited for.
  constexpr int kHow = O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK;
  const int fd = to_stderr ? STDERR_FILENO : open_file(where, kHow);
  if (fd < 0) {
    say_unopened(where, errno);
    return false;
  }
  write_once(fd, line, length + 1);
  if (!to_stderr) close(fd);
  return true;
}

const char* log_place() noexcept {
  static const char* const where = variable("SYMM_NCCL_LOG");
  return where;
}
}  // namespace

std::optional<uint32_t> collectives_in(const std::string& list, std::string& reason) {
  const std::vector<std::string> words = words_of(list);
  uint32_t chosen = 0;

  for (const std::string& word : words) {
    const auto* const found = std::find_if(
        std::begin(kNames), std::end(kNames), [&](const auto& one) { return word == one.first; });
    if (word == "all" || word == "none") {
      if (words.size() > 1 && stands_alone(word, words)) {
        reason = word + " stands alone, and not in a list";
      }
      if (word == "all") chosen |= kAllCollectives;
    } else if (word == kSendRecvName) {
      chosen |= kSendRecv;
    } else if (found == std::end(kNames)) {
      reason = word.empty() ? "a name is missing beside a comma" : word + " is not a collective";
    } else {
      chosen |= 1U << found->second;
    }
    if (!reason.empty()) return std::nullopt;
  }
  return chosen;
}

const Settings& settings() {
  static const auto* const read = [] {
    log_place();
    return new Settings(read_settings());
  }();
  return *read;
}

uint64_t hash_of(const Settings& settings) noexcept {
  // The first word is the version of the choice (takes() in choice.hpp).
  const uint64_t words[] = {
      3, settings.collectives, uint64_t{settings.is_deterministic}, settings.timeout_ms};
  uint64_t hash = 0xcbf29ce484222325;
  for (const uint64_t word : words) {
    hash = (hash ^ word) * 0x100000001b3;
    hash ^= hash >> 29;
  }
  return hash;
}

std::optional<std::string> text_at(const char* text, size_t most) {
  std::string read;
  if (text == nullptr) return std::nullopt;
  for (char next = 1; read.size() < most; ++text) {
    iovec to{&next, 1};
    iovec from{const_cast<char*>(text), 1};
    if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != 1) return std::nullopt;
    if (next == 0) break;
    read += next;
  }
  return read;
}

std::string name_at(const char* name) {
  if (!settings().communicators) return "";
  return text_at(name, kLongestName).value_or("");
}

bool may_take(const std::string& name, int taken, int most) {
  const std::optional<std::string>& patterns = settings().communicators;
  if (!patterns) return taken < most;
  const std::vector<std::string> all = words_of(*patterns);
  return std::any_of(all.begin(), all.end(), [&](const std::string& pattern) {
    return !pattern.empty() && fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  });
}

void log(const char* format, ...) noexcept {
  if (log_place() == nullptr) return;
  va_list arguments;
  va_start(arguments, format);
  write_line(log_place(), format, arguments);
  va_end(arguments);
}

void warn(const char* format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  va_list again;
  va_copy(again, arguments);
  const bool is_written = log_place() != nullptr && write_line(log_place(), format, arguments);
  if (!is_written) write_line("stderr", format, again);
  va_end(again);
  va_end(arguments);
}
}  // namespace symm::nccl
