// SPDX-License-Identifier: Apache-2.0
//
// What one rank writes, cut into lines that belong to it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace symm::tool {

// Only whole lines leave, so that ranks never mix within a line. A last line without its newline gets one when the rank closes
// the stream.
class LineAssembler {
 public:
  // On a terminal, text that ends with a carriage return (a progress line) is shown in passing and overwritten by what comes
  // next.
  LineAssembler(std::string prefix, bool terminal) : prefix_(std::move(prefix)), terminal_(terminal) {}

  void feed(std::string_view bytes, std::string& out);
  void finish(std::string& out);

  // A rank that writes on and on without a newline must not fill the memory; it gets its line broken here.
  static constexpr size_t longest_line = size_t{1} << 20;

 private:
  void emit(std::string_view line, char end, std::string& out) const;

  std::string prefix_;
  bool terminal_;
  std::string partial_;
};

}  // namespace symm::tool
