// The state that all meshes of a process share, behind one lock.
#include "core/mesh/mesh_process.hpp"

#include <unistd.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/per_process.hpp"
#include "core/base/process.hpp"
#include "core/mesh/peer_events.hpp"

namespace symm {
MeshProcess::MeshProcess() : pid_(getpid()) {}

uint64_t MeshProcess::enter(
    const std::shared_ptr<Mesh>& mesh, const std::shared_ptr<PeerEvents>& events) {
  const std::lock_guard lock(mutex_);
  for (;;) {
    const uint64_t cookie = process::random64();
    if (meshes_.emplace(cookie, ListedMesh{mesh, events}).second) return cookie;
  }
}

void MeshProcess::leave(uint64_t cookie) noexcept {
  const std::lock_guard lock(mutex_);
  meshes_.erase(cookie);
}

std::shared_ptr<PeerEvents> MeshProcess::find(uint64_t cookie) {
  const std::lock_guard lock(mutex_);
  const auto found = meshes_.find(cookie);
  return found == meshes_.end() ? nullptr : found->second.events.lock();
}

std::vector<std::shared_ptr<Mesh>> MeshProcess::all() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Mesh>> meshes;
  for (const auto& [cookie, listed] : meshes_) {
    if (auto alive = listed.mesh.lock()) meshes.push_back(std::move(alive));
  }
  return meshes;
}

// A process that ends by exit(), or by returning from main(), leaves in good order even if it has
// not released its groups: its peers must not be told that it died. A process that is killed, or
// calls _exit(), does not come here. A forked child has no part in its parent's meshes.
[[gnu::destructor]] void say_bye_at_exit() {
  MeshProcess* process = PerProcess<MeshProcess>::existing();
  if (process == nullptr || process->pid_ != getpid()) return;
  try {
    for (const auto& mesh : process->all()) {
      mesh->say_bye();
    }
  } catch (const std::exception&) {
    return;  // out of memory: the peers see the connections close instead
  }
}
}  // namespace symm
