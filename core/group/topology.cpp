// The links between the devices of a group's ranks. The ranks have told each other the names of
// their devices when the group was made; NVML of this machine knows the links between them.
#include "core/backend/topology.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backends.hpp"
#include "core/base/error.hpp"
#include "core/group/group.hpp"

namespace symm {
namespace {
bool share_device(const PeerFacts& a, const PeerFacts& b) {
  return std::strcmp(a.uuid, b.uuid) == 0;
}
}  // namespace

const Links& Group::links() {
  const std::lock_guard lock(links_mutex_);
  if (links_) return *links_;
  if (!why_no_links_.empty()) throw Error(Status::unavailable, why_no_links_);

  std::vector<int> here;
  std::vector<std::string> buses;
  for (int rank = 0; rank < size_; ++rank) {
    // NVML knows the devices of this host.
    if (!shares_host(rank)) continue;
    here.push_back(rank);
    buses.emplace_back(facts(rank).bus);
  }

  const auto size = static_cast<size_t>(size_);
  Links found{size_, std::vector<int32_t>(size * size, -1)};
  try {
    const Links between = links_of_buses(backend_->kind(), buses);
    for (size_t a = 0; a < here.size(); ++a) {
      for (size_t b = 0; b < here.size(); ++b) {
        const bool same = share_device(facts(here[a]), facts(here[b]));
        found.count[static_cast<size_t>(here[a]) * size + static_cast<size_t>(here[b])] =
            same ? 0 : between.between(static_cast<int>(a), static_cast<int>(b));
      }
    }
  } catch (const Error& error) {
    if (error.status() == Status::unavailable) why_no_links_ = error.what();
    throw;
  }

  for (size_t rank = 0; rank < size; ++rank) {
    found.count[rank * size + rank] = 0;
  }
  links_ = std::move(found);
  return *links_;
}

TopologyClass Group::topology() {
  Links counted = links();
  for (int a = 0; a < size_; ++a) {
    for (int b = 0; b < size_; ++b) {
      if (!shares_host(a) || !shares_host(b) || !share_device(facts(a), facts(b))) continue;
      counted.count[static_cast<size_t>(a) * static_cast<size_t>(size_) + static_cast<size_t>(b)] =
          1;
    }
  }
  return classify(counted);
}

int32_t Group::links_to(int rank) {
  if (rank == rank_) return 0;
  try {
    return links().between(rank_, rank);
  } catch (const Error& error) {
    if (error.status() != Status::unavailable) throw;
    return -1;
  }
}

Locality Group::locality_of(int rank) {
  if (!maps(rank)) return Locality::other_machine;
  if (!shares_host(rank)) return Locality::nvlink;
  const PeerFacts& mine = facts(rank_);
  const PeerFacts& theirs = facts(rank);
  const bool on_host = backend_->kind() == BackendKind::host;

  if (rank == rank_ || (!on_host && share_device(mine, theirs))) return Locality::same_device;
  if (links_to(rank) > 0) return Locality::nvlink;
  const bool same_node = mine.numa_node >= 0 && mine.numa_node == theirs.numa_node;
  return same_node ? Locality::same_node : Locality::same_machine;
}
}  // namespace symm
