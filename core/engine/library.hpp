// Libraries that are found at run time.
#pragma once

#include <string>

namespace symm::engine {
// The copy of `soname` that the process has, else `named` if that is not empty, else the one in `folder` of the Python packages
// beside which this library lies, else the loader's; it stays loaded. Null, and `why`.
void* find_library(const std::string& soname, const std::string& named, const char* folder, std::string& why);
}  // namespace symm::engine
