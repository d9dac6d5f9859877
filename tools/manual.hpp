#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace symm::tool {
std::string manual(const CLI::App& app);           // symm(1)
std::string bash_completion(const CLI::App& app);  // a script for bash to read
}  // namespace symm::tool
