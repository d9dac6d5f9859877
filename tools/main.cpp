// The command line program `symm`: run, info, doctor, bench, hold, top.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "tools/commands.hpp"
#include "tools/start.hpp"
#include "tools/text.hpp"
#include <symm/symm.h>

namespace {
// CLI11's, without its ranges and what excludes what, which its errors say.
class Help : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    const std::string what = app->get_name() == "run"
                                 ? " -n RANKS [--] PROGRAM [ARGUMENTS] [: -n RANKS PROGRAM ...]\n"
                                 : "\n";
    const std::string usual = CLI::Formatter::make_usage(app, name);
    return usual.substr(0, usual.find_last_not_of('\n') + 1) + what;
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string type = option->get_type_name();
    const std::string usual = option->get_default_str();
    if (option->get_type_size() == 0) return "";
    return " " + type.substr(0, type.find(':')) + (usual.empty() ? "" : "=" + usual);
  }
};
// The status of a command whose output may have been lost on the way to a full or a limited file.
int with_output_written(int status) {
  const bool is_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (is_written) return status;
  std::fputs("symm: the standard output could not be written to its end\n", stderr);
  return status != 0 ? status : 1;
}
}  // namespace

int main(int argc, char** argv) {
  using namespace symm::tool;
  hold_closed_streams();
  fail_beyond_file_sizes();

  // Words after "--" belong to the program that is run, even if they look like options of symm.
  std::vector<std::string> words(argv + 1, argv + argc);
  const auto dashes = std::find(words.begin(), words.end(), "--");
  const std::vector<std::string> after_dashes(
      dashes == words.end() ? dashes : dashes + 1, words.end());
  const bool has_dashes = dashes != words.end();
  words.erase(dashes, words.end());

  CLI::App app(
      "Symmetric memory for any language: launcher, information, checks and measurements", "symm");
  app.formatter(std::make_shared<Help>());
  app.set_version_flag("--version", [] { return "symm " + version_text(symm_version()); });
  const auto add_text = [&app](const char* flag, std::string (*text)(const CLI::App&),
                            const char* what) {
    app.add_flag_callback(flag, [&app, text] { throw CLI::CallForVersion(text(app), 0); }, what);
  };
  add_text("--man", manual, "Print symm(1)");
  add_text("--bash-completion", bash_completion, "Print what bash completes these words by");
  add_text("--fish-completion", fish_completion, "The same for fish");
  app.require_subcommand(1);
  Action action;
  add_run(app, action, has_dashes, after_dashes);
  add_info(app, action);
  add_doctor(app, action);
  add_bench(app, action);
  add_hold(app, action);
  add_top(app, action);
  // The rule of mpirun for -np; CLI11 would read -n p. Words that are neither options nor their
  // values belong to the program.
  for (size_t i = 1;
      !words.empty() && words[0] == "run" && i < words.size() && words[i].starts_with('-');
      i += words[i] == "--no-prefix" || words[i].find('=') != std::string::npos ? 1 : 2) {
    if (words[i] == "-np") words[i] = "-n";
  }
  const auto commands = app.get_subcommands({});
  const auto far = [&](const CLI::App* command) {
    return words.empty() ? 0 : distance(words[0], command->get_name());
  };
  const auto nearest = *std::ranges::min_element(commands, {}, far);
  if (!words.empty() && !words[0].starts_with('-') && far(nearest) > 0) {
    std::fprintf(stderr,
        "symm: there is no command '%s'; the nearest is '%s', and symm --help lists all\n",
        words[0].c_str(), nearest->get_name().c_str());
    return 2;
  }
  try {
    std::reverse(words.begin(), words.end());  // as CLI11 wants it
    app.parse(words);
    return with_output_written(action());
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    progress("");
    std::fprintf(stderr, "symm: %s\n", error.what());
    return 1;
  }
}
