// SPDX-License-Identifier: Apache-2.0
//
// What the meshes of one process share: its token, the list of meshes by which threads find each other, and the monitor.
//
// A forked child starts afresh. What it inherits is left as it is, for the threads that used it do not exist in the child and its
// locks may be held for ever.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/socket/monitor.hpp"

namespace symm {

class MeshImpl;

class MeshProcess {
 public:
  static MeshProcess& current();  // made on first use, never destroyed

  const std::array<std::byte, 16>& token() const noexcept { return token_; }
  Monitor& monitor();  // started on first use: ranks that are all threads need none

  // A random number under which other threads of this process find `mesh` as long as it lives.
  uint64_t enter(const std::shared_ptr<MeshImpl>& mesh);
  void leave(uint64_t cookie) noexcept;
  std::shared_ptr<MeshImpl> find(uint64_t cookie);
  std::vector<std::shared_ptr<MeshImpl>> all();

 private:
  MeshProcess();
  friend void say_bye_at_exit();
  std::array<std::byte, 16> token_{};
  int64_t pid_ = 0;
  MeshProcess* inherited_ = nullptr;  // the parent's, kept reachable
  std::mutex mutex_;
  std::unique_ptr<Monitor> monitor_;
  std::map<uint64_t, std::weak_ptr<MeshImpl>> meshes_;
};

}  // namespace symm
