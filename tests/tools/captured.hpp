// The tool as its users start it, and what it must say.
#pragma once

#include "tests/support/test.hpp"
#include "tools/run/processes.hpp"

namespace symm::tool {
using Words = std::vector<std::string>;

inline Words operator+(Words front, const Words& back) {
  front.insert(front.end(), back.begin(), back.end());
  return front;
}
inline Captured capture(const Words& command) {
  return capture(command, std::chrono::seconds(120));
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
inline void expect_said(const std::string& text, const Words& parts) {
  for (const std::string& part : parts) {
    EXPECT_TRUE(contains(text, part)) << part << " is missing in\n" << text;
  }
}
// The output of a command, which must have ended well.
inline std::string out_of(const Captured& result) {
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  return result.out;
}
inline void expect_end(const Captured& result, int status, const Words& said) {
  EXPECT_EQ(result.status, status) << result.err;
  expect_said(result.err, said);
}
}  // namespace symm::tool
