// Who is still there below this process.
#pragma once

#include <sys/types.h>
#include <set>
#include <string>
#include <vector>

namespace symm::tool {
struct Descendant {
  pid_t pid = 0;
  std::string name;
};

// Living descendants of this process, zombies left out. Complete if this process is a subreaper: then none can get away by
// losing its parent. `except` and what descends from them is left out.
std::vector<Descendant> living_descendants(const std::set<pid_t>& except);

// Children that this process had before it did anything: a shell that replaces itself by us (`exec`, or the last command of
// a script) leaves us its own.
std::set<pid_t> inherited_children();
}  // namespace symm::tool
