// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/pmi1.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "core/error.hpp"

namespace symm {
namespace {

constexpr size_t kLongestLine = 2048;  // keys of 64 and values of 1024 bytes are the most that servers allow

[[noreturn]] void refuse(const std::string& why) {
  throw Error(Status::unavailable, "the process manager at PMI_FD " + why);
}

// Replies may hold anything; messages are one line of text.
std::string printable(const std::string& text) {
  std::string shown = text.substr(0, 120);
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  return shown;
}

}  // namespace

std::string pmi1_field(const std::string& line, const std::string& command, const std::string& key) {
  std::map<std::string, std::string> fields;
  for (size_t start = 0; start < line.size();) {
    size_t end = line.find(' ', start);
    if (end == std::string::npos) end = line.size();
    const std::string word = line.substr(start, end - start);
    start = end + 1;
    if (word.empty()) continue;
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) refuse("answered '" + printable(line) + "', which is not PMI-1");
    if (!fields.emplace(word.substr(0, equals), word.substr(equals + 1)).second) refuse("gave a field twice: '" + printable(line) + "'");
  }
  if (fields["cmd"] != command) refuse("answered '" + printable(line) + "', where cmd=" + command + " was due");
  if (fields.count("rc") != 0 && fields["rc"] != "0") refuse("refused: '" + printable(line) + "'");
  if (fields[key].empty()) refuse("answered '" + printable(line) + "', without " + key);
  return fields[key];
}

std::string Pmi1::kvsname(Deadline deadline) {
  if (!initialised_) {
    // A process that has an MPI library initialises twice, which servers allow.
    const std::string version = pmi1_field(ask("cmd=init pmi_version=1 pmi_subversion=1", deadline), "response_to_init", "pmi_version");
    if (version != "1") refuse("speaks PMI version " + printable(version) + ", not 1");
    initialised_ = true;
  }
  const std::string name = pmi1_field(ask("cmd=get_my_kvsname", deadline), "my_kvsname", "kvsname");
  if (name.size() > 256) refuse("gave a name of more than 256 bytes");
  return name;
}

std::string Pmi1::ask(const std::string& request, Deadline deadline) {
  if (!asked_) send(request + "\n", deadline);
  asked_ = true;
  std::string line = receive(deadline);
  asked_ = false;
  return line;
}

void Pmi1::send(const std::string& line, Deadline deadline) {
  for (size_t done = 0; done < line.size();) {
    pollfd ready{fd_, POLLOUT, 0};
    if (!poll_until({&ready, 1}, deadline)) throw Error(Status::timeout, "the process manager at PMI_FD takes no request");
    const ssize_t sent = ::send(fd_, line.data() + done, line.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (sent < 0 && (errno == EBADF || errno == ENOTSOCK)) {
      refuse(format("cannot be reached: descriptor %d is %s; was it closed between the launcher and this program?", fd_,
                    errno == EBADF ? "closed" : "not a socket"));
    }
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) refuse("has closed the connection; was MPI finalized before?");
    if (sent < 0) throw system_error(errno, "send", "PMI_FD");
    done += static_cast<size_t>(sent);
  }
}

std::string Pmi1::receive(Deadline deadline) {
  for (;;) {
    const size_t end = received_.find('\n');
    if (end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    if (received_.size() > kLongestLine) refuse(format("sent more than %zu bytes without an end of line", kLongestLine));
    pollfd ready{fd_, POLLIN, 0};
    if (!poll_until({&ready, 1}, deadline)) throw Error(Status::timeout, "the process manager at PMI_FD did not answer before the deadline");
    char buffer[512];
    const ssize_t got = recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got == 0 || (got < 0 && errno == ECONNRESET)) refuse("has closed the connection; was MPI finalized before?");
    if (got < 0) throw system_error(errno, "recv", "PMI_FD");
    received_.append(buffer, static_cast<size_t>(got));
  }
}

std::string pmi1_job(int fd, Deadline deadline) {
  static std::mutex mutex;
  static auto* const conversation = new Pmi1(fd);  // PMI_FD does not change
  static auto* const job = new std::string;
  const std::lock_guard lock(mutex);
  if (job->empty()) *job = conversation->kvsname(deadline);
  return *job;
}

}  // namespace symm
