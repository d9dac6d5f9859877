// The subcommands of symm, each of which is in a folder of its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace symm::tool {
// Each subcommand adds itself to the application and sets `action`, which main() then
// calls for the exit status.
using Action = std::function<int()>;

void add_run(
    CLI::App& app, Action& action, bool dashes, const std::vector<std::string>& after_dashes);
void add_info(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_hold(CLI::App& app, Action& action);
void add_top(CLI::App& app, Action& action);

// Completions for shells, and the manual page, of all commands.
std::string manual(const CLI::App& app);           // symm(1)
std::string bash_completion(const CLI::App& app);  // a script for bash to read
std::string fish_completion(const CLI::App& app);
}  // namespace symm::tool
