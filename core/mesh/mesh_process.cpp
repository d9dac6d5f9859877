// SPDX-License-Identifier: Apache-2.0
#include "core/mesh/mesh_process.hpp"

#include <unistd.h>

#include <cstring>
#include <new>

#include "core/base/process.hpp"
#include "core/mesh/mesh_impl.hpp"

namespace symm {
namespace {

std::atomic<MeshProcess*> instance{nullptr};
std::atomic<MeshProcess*> of_parent{nullptr};
alignas(std::mutex) std::byte making_storage[sizeof(std::mutex)];
std::mutex& making() { return *std::launder(reinterpret_cast<std::mutex*>(making_storage)); }
[[gnu::constructor]] void make_mutex() { new (making_storage) std::mutex; }

void forget_parent() noexcept {
  PeerFd::close_all_in_child();
  if (MeshProcess* old = instance.exchange(nullptr)) of_parent.store(old);
  make_mutex();  // another thread of the parent may have held it
}

}  // namespace

MeshProcess& MeshProcess::current() {
  if (MeshProcess* existing = instance.load(std::memory_order_acquire)) return *existing;
  const std::lock_guard lock(making());
  if (MeshProcess* existing = instance.load(std::memory_order_acquire)) return *existing;
  process::at_fork_in_child(forget_parent);
  auto* made = new MeshProcess;
  instance.store(made, std::memory_order_release);
  return *made;
}

MeshProcess::MeshProcess() : pid_(getpid()), inherited_(of_parent.load()) {
  const uint64_t drawn[2] = {process::random64(), process::random64()};
  static_assert(sizeof drawn == sizeof token_);
  std::memcpy(token_.data(), drawn, sizeof drawn);
}

Monitor& MeshProcess::monitor() {
  const std::lock_guard lock(mutex_);
  if (!monitor_) monitor_ = std::make_unique<Monitor>();
  return *monitor_;
}

uint64_t MeshProcess::enter(const std::shared_ptr<MeshImpl>& mesh) {
  const std::lock_guard lock(mutex_);
  for (;;) {
    const uint64_t cookie = process::random64();
    if (meshes_.emplace(cookie, mesh).second) return cookie;
  }
}

void MeshProcess::leave(uint64_t cookie) noexcept {
  const std::lock_guard lock(mutex_);
  meshes_.erase(cookie);
}

std::shared_ptr<MeshImpl> MeshProcess::find(uint64_t cookie) {
  const std::lock_guard lock(mutex_);
  const auto found = meshes_.find(cookie);
  return found == meshes_.end() ? nullptr : found->second.lock();
}

std::vector<std::shared_ptr<MeshImpl>> MeshProcess::all() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<MeshImpl>> meshes;
  for (const auto& [cookie, mesh] : meshes_) {
    if (auto alive = mesh.lock()) meshes.push_back(std::move(alive));
  }
  return meshes;
}

// A process that ends by exit() or by returning from main() without having released its groups leaves in good order: its peers
// shall not be told that it died. A process that is killed, or calls _exit(), does not come here. Only the process that made the
// meshes speaks for them.
[[gnu::destructor]] void say_bye_at_exit() {
  MeshProcess* process = instance.load();
  if (process == nullptr || process->pid_ != getpid()) return;
  try {
    for (const auto& mesh : process->all()) mesh->say_bye();
  } catch (const std::exception&) {
    return;  // out of memory: the peers see the connections close instead
  }
}

}  // namespace symm
