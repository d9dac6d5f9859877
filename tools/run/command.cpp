#include <cmath>
#include <memory>
#include "tools/commands.hpp"
#include "tools/run/launcher.hpp"

namespace symm::tool {
namespace {
std::chrono::milliseconds from_seconds(double seconds) {
  return std::chrono::milliseconds(static_cast<long long>(std::ceil(seconds * 1000)));
}
}  // namespace

void add_run(CLI::App& app, Action& action, bool dashes, const std::vector<std::string>& after_dashes) {
  struct Arguments {
    RunOptions options;
    double timeout = 0;
    double grace = 2;
    bool no_prefix = false;
    std::string hosts;
    std::string part;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* run = app.add_subcommand("run", "Start a program as the ranks of one group");
  run->footer(
      "symm run -n RANKS [options] [--] program [arguments]\nsymm run --hosts a:4,b:4 [options] [--] program [arguments]");
  run->prefix_command();
  run->add_option("-n,--ranks", arguments->options.ranks, "Number of ranks, required without --hosts")
      ->check(CLI::Range(1, 4096));
  run->add_option("--hosts", arguments->hosts, "Machines, each with its number of ranks: a:4,b:4");
  run->add_option(
         "--launcher", arguments->options.launcher, "How a machine, %h, is given a line for a shell; its input is passed on")
      ->capture_default_str();
  run->add_option("--port", arguments->options.port, "Where rank 0 listens, with --hosts; otherwise any")
      ->check(CLI::Range(1, 65535));
  run->add_option("--part", arguments->part)->group("");
  run->add_option("--timeout", arguments->timeout, "End the job after so many seconds (status 124)")->check(CLI::PositiveNumber);
  run->add_option("--grace", arguments->grace,
         "Seconds that the other ranks have to end by themselves after a failure, and again after SIGTERM before SIGKILL")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  run->add_flag("--no-prefix", arguments->no_prefix, "Do not write [rank] before each line");
  run->add_option("--tag", arguments->options.tag, "Write [TAG rank] before each line instead of [rank]");
  run->add_option("--bind", arguments->options.bind, "Bind each rank to a core of its own: none, core")
      ->transform(
          CLI::CheckedTransformer(std::map<std::string, Bind>{{"none", Bind::none}, {"core", Bind::core}}).description(""));
  run->callback([=, &action, &after_dashes] {
    std::vector<std::string> command = run->remaining();
    if (!command.empty() && !command.front().empty() && command.front().front() == '-') {
      throw CLI::ValidationError("run", "unknown option " + command.front());
    }
    try {
      if (!arguments->hosts.empty() && arguments->options.ranks != 0) throw std::invalid_argument("either -n or --hosts");
      if (!arguments->hosts.empty()) arguments->options.hosts = parse_hosts(arguments->hosts);
      if (!arguments->hosts.empty()) arguments->options.ranks = static_cast<int>(arguments->options.hosts.size());
      if (!arguments->part.empty()) arguments->options.part = parse_part(arguments->part);
    } catch (const std::invalid_argument& error) { throw CLI::ValidationError("run", error.what()); }
    if (arguments->options.ranks == 0) throw CLI::ValidationError("run", "how many ranks? symm run -n 4 -- program arguments");
    if (!command.empty() && dashes) command.emplace_back("--");  // they stood behind the program, so they are its own
    command.insert(command.end(), after_dashes.begin(), after_dashes.end());
    if (command.empty()) throw CLI::ValidationError("run", "which program? symm run -n 4 -- program arguments");
    action = [arguments, command] {
      RunOptions options = arguments->options;
      options.command = command;
      options.prefix = !arguments->no_prefix;
      options.grace = from_seconds(arguments->grace);
      if (arguments->timeout > 0) options.timeout = from_seconds(arguments->timeout);
      if (!options.hosts.empty()) {  // each part does what is asked for but the time-out
        std::vector<std::string> parts{
            "--grace", std::to_string(arguments->grace), "--bind", options.bind == Bind::core ? "core" : "none"};
        if (arguments->no_prefix) parts.emplace_back("--no-prefix");
        if (!options.tag.empty()) parts.insert(parts.end(), {"--tag", options.tag});
        parts.emplace_back("--");
        options.command.insert(options.command.begin(), parts.begin(), parts.end());
        options.prefix = false;
        options.bind = Bind::none;
      }
      return Launcher(options).run();
    };
  });
}
}  // namespace symm::tool
