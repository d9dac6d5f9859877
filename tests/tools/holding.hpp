// symm hold as a process of a test.
#pragma once

#include "tests/support/process.hpp"

namespace support {
// Becomes symm hold; for the body of a Process. What it says goes nowhere.
[[noreturn]] inline void become_holder(std::vector<std::string> words) {
  words.insert(words.begin(), {SYMM_TOOL, "hold"});
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(null, STDOUT_FILENO);
  execv(SYMM_TOOL, arguments.data());
  throw std::runtime_error("execv failed");
}
}  // namespace support
