#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace symm::tool {
struct Captured {
  int status = 0;  // as a shell has it; -1: it did not end in time and was killed
  std::string out;
  std::string err;
};

// Run a program to its end and keep what it writes. Throws ExecError, std::system_error.
Captured capture(const std::vector<std::string>& command, std::chrono::milliseconds limit);
}  // namespace symm::tool
