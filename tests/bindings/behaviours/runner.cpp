// Runs table.txt as one of three ranks, through symm.hpp, and where its types make a wrong call
// impossible through symm.h. The runners of the other languages are compared with this one.
#include "tests/bindings/behaviours/runner.hpp"

#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>

namespace behaviours {
namespace {
const Verbs& all_verbs() {
  static const Verbs verbs = [] {
    Verbs all;
    for (const Verbs* some : {&verbs_of_groups(), &verbs_of_memories(), &verbs_of_signals(),
             &verbs_of_elements(), &verbs_of_collectives()}) {
      all.insert(some->begin(), some->end());
    }
    return all;
  }();
  return verbs;
}

void call(Runner& runner, const Line& line) {
  const auto verb = all_verbs().find(line.verb);
  if (verb == all_verbs().end()) throw std::runtime_error("unknown verb " + line.verb);
  verb->second(runner, line);
}

// The call must have failed as the line says, or not at all.
void run_line(Runner& runner, const Line& line) {
  try {
    call(runner, line);
  } catch (const symm::Error& error) {
    if (line.failure.empty()) throw;
    const std::string message = symm_last_error();  // what() has the call's name before it
    require(error.status(), constant("STATUS", line.failure), "status (" + message + ")");
    if (line.blamed) require(error.rank(), *line.blamed, "the rank to blame (" + message + ")");
    for (const std::string& words : line.words) {
      if (message.find(words) == std::string::npos) {
        throw std::runtime_error("'" + words + "' is not in '" + message + "'");
      }
    }
    return;
  }

  if (!line.failure.empty()) throw std::runtime_error("it succeeded");
}

int run_table(const char* path, int rank) {
  std::ifstream table(path);
  if (!table) throw std::runtime_error(std::string("cannot read ") + path);
  Runner runner(rank);
  int scenarios = 0;
  int number = 0;

  for (std::string text; std::getline(table, text);) {
    ++number;
    try {
      if (text.empty() || text[0] == '#') continue;
      if (text.starts_with("scenario ")) {
        runner.begin(text.substr(9));
        ++scenarios;
        continue;
      }
      const Line line(text, rank);
      if (!line.mine) continue;
      run_line(runner, line);
      // A call that fails may not have read all of its keys.
      if (line.failure.empty()) line.require_all_used();
    } catch (const std::exception& error) {
      std::cout << "table.txt:" << number << ": rank " << rank << ": " << error.what() << "\n"
                << std::flush;
      return 1;
    }
  }

  std::cout << "rank " << rank << ": " << scenarios << " scenarios\n";
  return scenarios > 0 ? 0 : 1;
}
}  // namespace
}  // namespace behaviours

int main(int argc, char** argv) {
  const char* rank = std::getenv("SYMM_RANK");
  if (argc != 2 || rank == nullptr || behaviours::kRanks == 0) {
    std::cerr << "usage: symm run -n 3 -- " << argv[0] << " table.txt\n";
    return 2;
  }
  return behaviours::run_table(argv[1], std::atoi(rank));
}
