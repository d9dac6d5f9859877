// The state that the meshes of one process share: the token of the process, and the list of meshes
// by which its threads find each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/base/per_process.hpp"
#include "core/base/process.hpp"

namespace symm {
class Mesh;
class PeerEvents;

class MeshProcess {
 public:
  static MeshProcess& current() { return PerProcess<MeshProcess>::current(); }

  const std::array<std::byte, 16>& token() const noexcept { return token_; }

  // Returns a random number by which other threads of this process find `events` as long as `mesh`
  // lives.
  uint64_t enter(const std::shared_ptr<Mesh>& mesh, const std::shared_ptr<PeerEvents>& events);
  void leave(uint64_t cookie) noexcept;
  std::shared_ptr<PeerEvents> find(uint64_t cookie);  // null if there is none any more
  std::vector<std::shared_ptr<Mesh>> all();

 private:
  friend PerProcess<MeshProcess>;
  MeshProcess();
  friend void say_bye_at_exit();
  struct ListedMesh {
    std::weak_ptr<Mesh> mesh;
    std::weak_ptr<PeerEvents> events;
  };
  const std::array<std::byte, 16> token_ = process::random_id();
  const int64_t pid_;
  std::mutex mutex_;
  std::map<uint64_t, ListedMesh> meshes_;  // by cookie
};
}  // namespace symm
