#include "tools/run/hosts.hpp"
#include <fcntl.h>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include "tools/run/environment.hpp"

namespace symm::tool {
namespace {
constexpr size_t kSecretBytes = 32;

// Of `text`, which they are all of.
int number(std::string_view text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? value : -1;
}

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}
}  // namespace

Hosts parse_hosts(std::string_view text) {
  Hosts hosts;
  std::istringstream words{std::string(text)};
  for (std::string word; std::getline(words, word, ',');) {
    const size_t colon = word.rfind(':');
    const int ranks = colon == std::string::npos ? -1 : number(std::string_view(word).substr(colon + 1));
    if (colon == 0 || ranks < 1 || ranks > 4096 || word.front() == '-')
      throw std::invalid_argument("'" + word + "' is no host with its ranks, as in node7:4");
    hosts.emplace_back(word.substr(0, colon), ranks);
  }
  if (hosts.empty()) throw std::invalid_argument("no hosts");
  return hosts;
}

std::string write_part(const JobPart& part) {
  return std::to_string(part.first) + ":" + std::to_string(part.size) + ":" + part.job + ":" + part.place;
}

JobPart parse_part(const std::string& text) {
  JobPart part;
  std::istringstream words(text);
  std::string first, size;
  std::getline(words, first, ':') && std::getline(words, size, ':') && std::getline(words, part.job, ':') &&
      std::getline(words, part.place);
  part.first = number(first);
  part.size = number(size);
  if (part.first < 0 || part.size <= part.first || part.place.empty()) throw std::invalid_argument("no part of a job: " + text);
  return part;
}

std::vector<std::string> command_on(const std::string& host, const std::string& launcher, const std::string& line) {
  std::vector<std::string> command;
  std::istringstream words(launcher);
  for (std::string word; words >> word;) {
    for (size_t at = 0; (at = word.find("%h", at)) != std::string::npos; at += host.size()) word.replace(at, 2, host);
    command.push_back(word);
  }
  command.push_back(line);
  return command;
}

std::string line_for_shell(const std::vector<std::string>& arguments) {
  std::string line = "cd " + quoted(std::filesystem::current_path()) + " && exec";
  line += " " + quoted(std::filesystem::read_symlink("/proc/self/exe"));
  for (const std::string& argument : arguments) line += " " + quoted(argument);
  return line;
}

void keep_secret(const std::string& path) {
  std::string bytes(kSecretBytes, '\0');
  for (char& byte : bytes) {
    if (::read(STDIN_FILENO, &byte, 1) != 1)
      throw std::runtime_error("no secret came on standard input: this is what symm run --hosts starts, not people");
  }
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file || ::write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    throw std::system_error(errno, std::generic_category(), path);
}

UniqueFd pipe_with(const std::string& text, UniqueFd& write_end) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  write_end = UniqueFd(ends[1]);
  UniqueFd read_end(ends[0]);
  if (::write(write_end.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw std::system_error(errno, std::generic_category(), "write");
  return read_end;
}
}  // namespace symm::tool
