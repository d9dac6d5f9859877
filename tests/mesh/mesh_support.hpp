// Stores and waits for the tests of the mesh.
#pragma once

#include "core/mesh/mesh.hpp"
#include "tests/support/core.hpp"

namespace support {
// Keys as files of a directory: enough for ranks that are threads, processes or both, and readable by a test that plays a hostile
// rank.
class FileStore final : public symm::Store {
 public:
  FileStore(std::string path, bool for_sockets) : path_(std::move(path)), for_sockets_(for_sockets) {}
  void set(const std::string& key, const symm::Bytes& value, symm::Deadline deadline) override;
  symm::Bytes get(const std::string& key, symm::Deadline deadline) override;
  std::string directory() const override { return for_sockets_ ? path_ : ""; }
  std::string describe() const override { return "files of " + path_; }
 private:
  std::string file_of(const std::string& key) const;
  std::string path_;
  bool for_sockets_;
};

// As those files, but for what a test overrides.
struct OtherStore : symm::Store {
  explicit OtherStore(const std::string& path) : files(path, true) {}
  void set(const std::string& key, const symm::Bytes& value, symm::Deadline deadline) override {
    files.set(key, value, deadline);
  }
  symm::Bytes get(const std::string& key, symm::Deadline deadline) override {
    if (before_dialling && key == "mesh/address/0") before_dialling();
    return files.get(key, deadline);
  }
  std::string directory() const override { return files.directory(); }
  std::string describe() const override { return "other"; }
  std::function<void()> before_dialling;
  FileStore files;
};

struct MeshTest : testing::Test {
  TemporaryDirectory directory;
};
// `body` of each rank, in a process of its own, returns `result`.
void expect_of_ranks(int size, const std::string& result, const std::function<std::string(int rank)>& body);

inline constexpr symm::Topic kTopic{symm::MessageKind::control, 7, 1, 2};

std::shared_ptr<symm::Mesh> connect(const std::string& path, int rank, int size, uint64_t milliseconds = 20'000,
    bool for_sockets = true, const std::string& name = "test");
std::shared_ptr<symm::Revocation> attach_all(symm::Mesh& mesh, uint64_t group);
// The failure that the revocation holds once it has one; status ok if none comes in time.
symm::Failure await_failure(const symm::Revocation& revocation, uint64_t milliseconds = 10'000);
void say(symm::Mesh& mesh, int peer, const symm::Topic& topic, const std::string& text, std::span<const int> fds = {});
std::string hear(symm::Mesh& mesh, int peer, const symm::Topic& topic, size_t size, const symm::Revocation* revocation = nullptr,
    uint64_t milliseconds = 20'000);
// All to all: says to each peer who it is, and checks what each says.
void greet(symm::Mesh& mesh, uint64_t tag);
}  // namespace support
