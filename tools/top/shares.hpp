// Which versions are published on this machine, and who holds them: what the processes of this user
// show (symm/page.h).
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace symm::tool {
// {"versions": [{"name", "version", "bytes", "pid", "seconds", "holders"}], "orphans": [{"pid",
// "state", "bytes", "holders"}], "left_out"}. An orphan is memory of which no process that is seen
// here has published a version; "pid" is its maker's, as that knows itself. A holder is {"pid",
// "leases", "seconds"}. Processes whose shares have another layout are added to `unreadable`.
nlohmann::json look_at_shares(std::map<pid_t, std::string>& unreadable);

// The versions as a table; "" if there are none and nobody holds anything.
std::string shares_text(const nlohmann::json& shares, bool colour);
// "model 7: 16 GiB by pid 12, held by pids 13 and 14 (2)", one for each line of that table.
std::vector<std::string> shares_lines(const nlohmann::json& shares);
}  // namespace symm::tool
