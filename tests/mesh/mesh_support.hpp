// Meeting, talking and waiting for the tests of the mesh.
#pragma once

#include "core/bootstrap/dir_store.hpp"
#include "core/mesh/mesh.hpp"
#include "tests/support/core.hpp"

namespace support {
using namespace symm;

// A store on top of another. A test sees what is about to be set, and what was got before the
// caller uses it.
struct WatchedStore final : Store {
  using Watch = std::function<void(const std::string& key, const Bytes& value)>;
  WatchedStore(Store& watched, Watch watcher) : store(watched), watch(std::move(watcher)) {}
  void set(const std::string& key, const Bytes& value, Deadline deadline) override {
    watch(key, value);
    store.set(key, value, deadline);
  }
  Bytes get(const std::string& key, Deadline deadline) override {
    const Bytes value = store.get(key, deadline);
    watch(key, value);
    return value;
  }
  std::string directory() const override { return has_directory ? store.directory() : ""; }
  std::string address() const override { return store.address(); }
  std::string reached(const std::string& at) const override { return store.reached(at); }
  Store& store;
  Watch watch;
  bool has_directory = true;
};

struct MeshTest : testing::Test {
  TemporaryDirectory directory;
};

inline constexpr Topic kTopic{MessageKind::control, 7, 1, 2};

// The store of ranks that meet in directory `path`; they may be threads, processes or both.
inline std::unique_ptr<Store> open_store(const std::string& path, int rank, int size) {
  return std::make_unique<DirStore>(
      DirectoryRendezvousConfig{path, "", "", "dir://" + path, rank, size}, soon());
}
inline std::shared_ptr<Mesh> connect(const std::string& path, int rank, int size) {
  return Mesh::connect(*open_store(path, rank, size), rank, size, "test", soon());
}

inline std::shared_ptr<Revocation> attach_all(Mesh& mesh, uint64_t group) {
  std::vector<int> members(static_cast<size_t>(mesh.size()));
  std::iota(members.begin(), members.end(), 0);
  auto revocation = std::make_shared<Revocation>(mesh.size());
  mesh.attach(group, members, revocation);
  return revocation;
}

// The failure that the revocation holds once it has one; status ok if none comes in time.
inline Failure await_failure(const Revocation& revocation, uint64_t milliseconds = 10'000) {
  retry_until([&] { return revocation.revoked(); }, Deadline::after_ms(milliseconds));
  return revocation.failure();
}

inline void say(Mesh& mesh, int peer, const Topic& topic, const std::string& text,
    std::span<const int> fds = {}) {
  mesh.send(peer, topic, bytes_of(text), fds, soon());
}
inline std::string hear(Mesh& mesh, int peer, const Topic& topic, size_t size) {
  return text_of(mesh.receive(peer, topic, size, 0, nullptr, soon()).body);
}

// Says to each peer which rank this is, and checks what each peer says.
inline void greet(Mesh& mesh, uint64_t tag) {
  const Topic topic{MessageKind::control, 7, tag, 0};
  const auto words = [](int from, int to) { return format("%03d to %03d", from, to); };
  for (int peer = 0; peer < mesh.size(); ++peer) {
    if (peer != mesh.rank()) say(mesh, peer, topic, words(mesh.rank(), peer));
  }
  for (int peer = 0; peer < mesh.size(); ++peer) {
    if (peer != mesh.rank()) {
      EXPECT_EQ(hear(mesh, peer, topic, 10), words(peer, mesh.rank()));
    }
  }
}
}  // namespace support
