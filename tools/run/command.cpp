// The options of symm run, and the command made of them. The launcher is in launcher.cpp.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tools/commands.hpp"
#include "tools/run/job.hpp"
#include "tools/run/launcher.hpp"
#include "tools/text.hpp"
#include <symm/symm.h>

namespace symm::tool {
namespace {
std::chrono::milliseconds from_seconds(double seconds) {
  return std::chrono::milliseconds(
      static_cast<long long>(std::ceil(std::min(1e9, seconds) * 1000)));
}

int number_of_ranks(const std::string& text) {
  int32_t devices = 0;
  if (text == "gpu") {
    progress("looking for GPUs");
    if (symm_device_count(SYMM_BACKEND_CUDA, &devices) != SYMM_OK) {
      throw std::invalid_argument(std::string("gpu: ") + symm_last_error());
    }
    progress("");
    if (devices == 0) throw std::invalid_argument("gpu: there is none");
    return devices;
  }

  char* end = nullptr;
  const long ranks = std::strtol(text.c_str(), &end, 10);
  if (*end != 0 || ranks < 1 || ranks > 4096) {
    throw std::invalid_argument("'" + text + "' ranks: 1 to 4096, or gpu");
  }

  return static_cast<int>(ranks);
}

// Divides a command such as `./a x : -n 3 python b.py`: a colon and a number of ranks
// begin another program.
std::vector<std::pair<int, std::vector<std::string>>> several(
    const CLI::App& run, int ranks, const std::vector<std::string>& words) {
  std::vector<std::pair<int, std::vector<std::string>>> programs{{ranks, {}}};
  for (size_t i = 0; i < words.size(); ++i) {
    const bool counted =
        i + 2 < words.size() &&
        (words[i + 1] == "-np" || run.get_option_no_throw(words[i + 1]) == run.get_option("-n"));
    if (words[i] == ":" && counted) {
      programs.emplace_back(number_of_ranks(words[i + 2]), std::vector<std::string>{});
      i += i + 3 < words.size() && words[i + 3] == "--" ? 3 : 2;
    } else {
      programs.back().second.push_back(words[i]);
    }
  }

  for (const auto& program : programs) {
    if (program.second.empty()) {
      throw std::invalid_argument("which program? symm run -n 4 -- program arguments");
    }
  }

  return programs;
}

struct Arguments {
  RunOptions options;
  double timeout = 0;
  double grace = 2;
  bool no_prefix = false;
  std::string ranks;
  std::string hosts;
  std::string part;
};

// The options of what is started, and where.
void add_job_options(CLI::App* run, Arguments& arguments) {
  run->add_option("-n,--ranks,--np,--nproc-per-node", arguments.ranks,
      "Number of ranks, required without --hosts; gpu: one for each GPU");

  run->add_option("--spares", arguments.options.spares,
         "Processes besides the ranks, which wait, and take the place of a rank that fails")
      ->check(CLI::Range(0, 256));

  run->add_option("--hosts", arguments.hosts, "Machines, each with its number of ranks: a:4,b:4");
  run->add_option("--launcher", arguments.options.launcher,
         "How a machine, %h, is given a line for a shell; its input is passed on")
      ->capture_default_str();
  run->add_option(
         "--port", arguments.options.port, "Where rank 0 listens, with --hosts; otherwise any")
      ->check(CLI::Range(1, 65535));

  run->add_flag("--nccl", arguments.options.nccl,
      "The ranks get symm's drop-in in place of NCCL: collectives go by symm where that was "
      "measured to be faster, and a rank that dies or fails is named in the others' errors");

  run->add_option("--part", arguments.part)->group("");
  run->add_flag("--terminal", arguments.options.terminal)->group("");
}

// The options of when the job ends, and what is written about it.
void add_watch_options(CLI::App* run, Arguments& arguments) {
  run->add_option("--timeout", arguments.timeout, "End the job after so many seconds (status 124)")
      ->check(CLI::PositiveNumber);

  run->add_option("--grace", arguments.grace,
         "Seconds that the other ranks have to end by themselves after a failure, and again after "
         "SIGTERM before SIGKILL")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();

  run->add_option("--log-dir", arguments.options.log_directory,
      "Write what each rank writes to rank.N.out and rank.N.err there, too; the folder is made");
  run->add_option("--trace", arguments.options.trace,
      "Write a timeline of all ranks' calls there, which ui.perfetto.dev opens");

  run->add_flag("--no-prefix", arguments.no_prefix,
      "Hand output on byte for byte, without [rank] before each line");
  run->add_option(
      "--tag", arguments.options.tag, "Write [TAG rank] before each line instead of [rank]");

  run->add_option(
         "--bind", arguments.options.bind, "Bind each rank to a core of its own: none, core")
      ->check(CLI::IsMember({"none", "core"}).description(""));
}

// Completes the options with values that follow from several of them; `words` are the programs.
void finish(const CLI::App& run, Arguments& arguments, const std::vector<std::string>& words) {
  RunOptions& options = arguments.options;
  if (arguments.hosts.empty() == arguments.ranks.empty()) {
    throw std::invalid_argument(
        "how many ranks? symm run -n 4 -- program arguments (either -n or --hosts)");
  }
  if (!arguments.ranks.empty()) options.ranks = number_of_ranks(arguments.ranks);
  if (!arguments.hosts.empty()) {
    options.hosts = parse_hosts(arguments.hosts);
    options.ranks = static_cast<int>(options.hosts.size());
  }
  if (!arguments.part.empty()) options.part = parse_part(arguments.part);

  options.programs = several(run, options.ranks, words);
  if (!arguments.hosts.empty() && options.programs.size() > 1) {
    throw std::invalid_argument("several programs go on one machine, not with --hosts");
  }

  if (options.spares > 0 && (!arguments.hosts.empty() || options.programs.size() > 1)) {
    throw std::invalid_argument("--spares go with one program on one machine");
  }
  options.ranks = 0;
  for (const auto& program : options.programs) {
    options.ranks += program.first;
  }
  if (options.ranks > 4096) {
    throw std::invalid_argument(std::to_string(options.ranks) + " ranks: 1 to 4096");
  }

  if (!options.log_directory.empty()) {
    std::filesystem::create_directories(options.log_directory);
  }
}

int run_job(const Arguments& arguments) {
  RunOptions job = arguments.options;
  job.prefix = !arguments.no_prefix;
  job.verbatim = arguments.no_prefix;
  job.grace = from_seconds(arguments.grace);
  if (arguments.timeout > 0) job.timeout = from_seconds(arguments.timeout);
  if (job.hosts.empty()) return Launcher(job).run();

  // Each machine's part does what is asked for, but for the time-out.
  std::vector<std::string> parts{
      "--grace", std::to_string(arguments.grace), "--bind", std::exchange(job.bind, "none")};
  if (arguments.no_prefix) parts.emplace_back("--no-prefix");
  if (job.nccl) parts.emplace_back("--nccl");
  if (!job.log_directory.empty()) {
    parts.insert(parts.end(), {"--log-dir", std::exchange(job.log_directory, "")});
  }
  if (!job.tag.empty()) parts.insert(parts.end(), {"--tag", job.tag});
  parts.emplace_back("--");
  auto& command = job.programs.front().second;
  command.insert(command.begin(), parts.begin(), parts.end());
  job.prefix = false;
  return Launcher(job).run();
}
}  // namespace

void add_run(
    CLI::App& app, Action& action, bool dashes, const std::vector<std::string>& after_dashes) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* run = app.add_subcommand("run", "Start a program as the ranks of one group");
  run->footer(
      "Examples:\n  symm run -n 4 -- ./program\n  symm run -n 1 ./a : -n 3 python b.py\n  symm run "
      "--hosts a:4,b:4 ./program");
  run->prefix_command();
  add_job_options(run, *arguments);
  add_watch_options(run, *arguments);

  run->callback([=, &action, &after_dashes] {
    std::vector<std::string> words = run->remaining();
    if (!words.empty() && !words.front().empty() && words.front().front() == '-') {
      throw CLI::ValidationError("run", "unknown option " + words.front());
    }
    // These words stood behind the program's name, so they are its arguments.
    if (!words.empty() && dashes) words.emplace_back("--");
    words.insert(words.end(), after_dashes.begin(), after_dashes.end());

    try {
      finish(*run, *arguments, words);
    } catch (const std::filesystem::filesystem_error& error) {
      throw CLI::ValidationError("--log-dir", error.what());
    } catch (const std::invalid_argument& error) {
      throw CLI::ValidationError("run", error.what());
    }
    action = [arguments] { return run_job(*arguments); };
  });
}
}  // namespace symm::tool
