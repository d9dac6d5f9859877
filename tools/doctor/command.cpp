#include <unistd.h>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include "tools/commands.hpp"
#include "tools/doctor/finding.hpp"
#include "tools/text.hpp"

namespace symm::tool {
void add_doctor(CLI::App& app, Action& action) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* doctor =
      app.add_subcommand("doctor", "Check what usually breaks, and say what to do about it (status 1 if something fails)");
  doctor->add_flag("--json", *as_json, "Write JSON");
  doctor->callback([&action, as_json] {
    action = [as_json] {
      const std::vector<Finding> findings = examine();
      const std::string text =
          *as_json ? doctor_json(findings).dump(2) + "\n" : doctor_text(findings, wants_colour(STDOUT_FILENO));
      std::fputs(text.c_str(), stdout);
      return std::fflush(stdout) != 0 || any_failure(findings) ? 1 : 0;
    };
  });
  CLI::App* self_test_rank = app.add_subcommand("self-test", "One rank of the doctor's self test")->group("");
  self_test_rank->callback([&action] { action = run_self_test_rank; });
}
}  // namespace symm::tool
