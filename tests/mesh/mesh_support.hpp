// Meeting, talking and waiting for the tests of the mesh.
#pragma once

#include "core/mesh/mesh.hpp"
#include "tests/support/core.hpp"

namespace support {
// As another, but that a test sees what is about to be set, and what was got before it is used.
struct WatchedStore final : symm::Store {
  using Watch = std::function<void(const std::string& key, const symm::Bytes& value)>;
  WatchedStore(symm::Store& its, Watch its_watch) : store(its), watch(std::move(its_watch)) {}
  void set(const std::string& key, const symm::Bytes& value, symm::Deadline deadline) override {
    watch(key, value);
    store.set(key, value, deadline);
  }
  symm::Bytes get(const std::string& key, symm::Deadline deadline) override {
    const symm::Bytes value = store.get(key, deadline);
    return watch(key, value), value;
  }
  std::string directory() const override { return has_directory ? store.directory() : ""; }
  std::string address() const override { return store.address(); }
  symm::Store& store;
  Watch watch;
  bool has_directory = true;
};

struct MeshTest : testing::Test {
  TemporaryDirectory directory;
};

inline constexpr symm::Topic kTopic{symm::MessageKind::control, 7, 1, 2};

// Of the ranks that meet in this directory, for which they may be threads, processes or both.
std::unique_ptr<symm::Store> open_store(const std::string& path, int rank, int size);
std::shared_ptr<symm::Mesh> connect(const std::string& path, int rank, int size);
std::shared_ptr<symm::Revocation> attach_all(symm::Mesh& mesh, uint64_t group);
// The failure that the revocation holds once it has one; status ok if none comes in time.
symm::Failure await_failure(const symm::Revocation& revocation, uint64_t milliseconds = 10'000);
void say(symm::Mesh& mesh, int peer, const symm::Topic& topic, const std::string& text, std::span<const int> fds = {});
std::string hear(symm::Mesh& mesh, int peer, const symm::Topic& topic, size_t size);
// All to all: says to each peer who it is, and checks what each says.
void greet(symm::Mesh& mesh, uint64_t tag);
}  // namespace support
