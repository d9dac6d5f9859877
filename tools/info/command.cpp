// SPDX-License-Identifier: Apache-2.0
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
  info->callback([&action, as_json] {
    action = [as_json] {
      const nlohmann::json report = info_report();
      const std::string text = *as_json ? report.dump(2) + "\n" : info_text(report, wants_colour(STDOUT_FILENO));
      std::fputs(text.c_str(), stdout);
      return std::fflush(stdout) == 0 ? 0 : 1;
    };
  });
}

}  // namespace symm::tool
