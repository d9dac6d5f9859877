#include <symm/symm.h>
#include <unistd.h>
#include <cstdio>
#include <memory>
#include "tools/commands.hpp"
#include "tools/info/report.hpp"
#include "tools/text.hpp"

namespace symm::tool {
void add_info(CLI::App& app, Action& action) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* info = app.add_subcommand("info", "Show the library, its back ends, the devices and this machine");
  info->add_flag("--json", *as_json, "Write JSON");
  auto variables = std::make_shared<bool>(false);
  info->add_flag("--env", *variables, "Show the environment variables that are read, with their values here (or defaults)")
      ->excludes("--json");
  info->callback([&action, as_json, variables] {
    action = [as_json, variables] {
      const bool colour = wants_colour(STDOUT_FILENO);
      const nlohmann::json report = *variables ? nlohmann::json::parse(symm_build_info())["environment"] : info_report();
      const std::string text = *as_json     ? report.dump(2) + "\n"
                               : *variables ? environment_text(report, colour)
                                            : info_text(report, colour);
      std::fputs(text.c_str(), stdout);
      return std::fflush(stdout) == 0 ? 0 : 1;
    };
  });
}
}  // namespace symm::tool
