// The text of a file of /proc or /sys.
#pragma once

#include <sstream>
#include <string>

namespace symm {
// To be read from; empty if the file cannot be read.
std::istringstream text_of_file(const std::string& path);
}  // namespace symm
