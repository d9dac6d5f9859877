// SPDX-License-Identifier: Apache-2.0
//
// What the meshes of one process share: its token, and the list of meshes by which threads find each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/base/per_process.hpp"

namespace symm {

class MeshImpl;

class MeshProcess {
 public:
  static MeshProcess& current() { return PerProcess<MeshProcess>::current(); }

  const std::array<std::byte, 16>& token() const noexcept { return token_; }

  // A random number under which other threads of this process find `mesh` as long as it lives.
  uint64_t enter(const std::shared_ptr<MeshImpl>& mesh);
  void leave(uint64_t cookie) noexcept;
  std::shared_ptr<MeshImpl> find(uint64_t cookie);
  std::vector<std::shared_ptr<MeshImpl>> all();

 private:
  friend PerProcess<MeshProcess>;
  MeshProcess();
  friend void say_bye_at_exit();
  std::array<std::byte, 16> token_{};
  const int64_t pid_;
  std::mutex mutex_;
  std::map<uint64_t, std::weak_ptr<MeshImpl>> meshes_;
};

}  // namespace symm
