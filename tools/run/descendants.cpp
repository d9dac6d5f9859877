#include "tools/run/descendants.hpp"
#include <unistd.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>

namespace symm::tool {
namespace {
struct Process {
  pid_t parent = 0;
  char state = '?';
  std::string name;
};

// /proc/<pid>/stat: "pid (name) state ppid ...", where the name may itself hold spaces and parentheses.
using ProcessTable = std::map<pid_t, Process>;

bool read_stat(const std::filesystem::path& directory, Process& out) {
  std::ifstream file(directory / "stat");
  std::string line;
  if (!std::getline(file, line)) return false;
  const size_t open = line.find('(');
  const size_t close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return false;
  out.name = line.substr(open + 1, close - open - 1);
  std::istringstream rest(line.substr(close + 1));
  rest >> out.state >> out.parent;
  return !rest.fail();
}

ProcessTable read_processes() {
  ProcessTable processes;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    Process process;
    if (pid > 0 && read_stat(entry.path(), process)) processes[pid] = process;
  }
  return processes;
}
}  // namespace

std::vector<Descendant> living_descendants(const std::set<pid_t>& except) {
  const ProcessTable processes = read_processes();
  const pid_t self = ::getpid();
  std::vector<Descendant> out;
  for (const auto& [pid, process] : processes) {
    if (pid == self || except.count(pid) != 0 || process.state == 'Z' || process.state == 'X') continue;
    pid_t ancestor = process.parent;
    // Bounded: the table was not read at one instant, so parents may seem to go round in a circle.
    for (size_t steps = 0; ancestor != self && except.count(ancestor) == 0 && steps < processes.size(); ++steps) {
      const auto found = processes.find(ancestor);
      if (found == processes.end()) break;
      ancestor = found->second.parent;
    }
    if (ancestor == self) out.push_back({pid, process.name});
  }
  return out;
}

std::set<pid_t> inherited_children() {
  std::set<pid_t> out;
  for (const auto& [pid, process] : read_processes())
    if (process.parent == ::getpid()) out.insert(pid);
  return out;
}
}  // namespace symm::tool
