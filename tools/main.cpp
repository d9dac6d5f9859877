// The command line program `symm`: run, info, doctor, bench.
#include <symm/symm.h>
#include <algorithm>
#include <cstdio>
#include <exception>
#include "tools/commands.hpp"
#include "tools/text.hpp"

int main(int argc, char** argv) {
  using namespace symm::tool;
  // What stands behind "--" belongs to the program that is run, whatever it looks like.
  std::vector<std::string> words(argv + 1, argv + argc);
  const auto dashes = std::find(words.begin(), words.end(), "--");
  const std::vector<std::string> after_dashes(dashes == words.end() ? dashes : dashes + 1, words.end());
  const bool has_dashes = dashes != words.end();
  words.erase(dashes, words.end());

  CLI::App app("Symmetric memory for any language: launcher, information, checks and measurements", "symm");
  app.set_version_flag("--version", [] { return "symm " + version_text(symm_version()); });
  app.require_subcommand(1);
  Action action;
  add_run(app, action, has_dashes, after_dashes);
  add_info(app, action);
  add_doctor(app, action);
  add_bench(app, action);
  try {
    std::reverse(words.begin(), words.end());  // as CLI11 wants it
    app.parse(words);
    return action();
  } catch (const CLI::ParseError& error) { return app.exit(error) == 0 ? 0 : 2; } catch (const std::exception& error) {
    std::fprintf(stderr, "symm: %s\n", error.what());
    return 1;
  }
}
