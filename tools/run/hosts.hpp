// A job on several machines: this launcher starts a part of itself on each, by ssh or its like, which starts the ranks there.
#pragma once

#include <string>
#include <string_view>
#include <vector>
#include "tools/unique_fd.hpp"

namespace symm::tool {
using Hosts = std::vector<std::pair<std::string, int>>;  // and how many ranks each has
Hosts parse_hosts(std::string_view text);                // "a:4,b:4". Throws std::invalid_argument

// A part is told what all know in one argument, "first rank:ranks of all:job:host:port", and the secret at the beginning of its
// standard input: arguments are for everybody to read. The end of that input is the end of whoever started it.
struct JobPart {
  int first = 0;
  int size = 0;
  std::string job;
  std::string place;  // of rank 0
};
std::string write_part(const JobPart& part);
JobPart parse_part(const std::string& text);  // throws std::invalid_argument

// `launcher` in words, "%h" being the host, and `line` for a shell there.
std::vector<std::string> command_on(const std::string& host, const std::string& launcher, const std::string& line);
// This program with these options, in the directory where it is now, for a shell.
std::string line_for_shell(const std::vector<std::string>& arguments);

void keep_secret(const std::string& path);                         // reads it from standard input. Throws std::runtime_error
UniqueFd pipe_with(const std::string& text, UniqueFd& write_end);  // the other end, which can be read
}  // namespace symm::tool
