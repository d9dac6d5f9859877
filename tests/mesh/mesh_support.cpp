#include "tests/mesh/mesh_support.hpp"
#include "core/bootstrap/dir_store.hpp"

namespace support {
using namespace symm;

std::unique_ptr<Store> open_store(const std::string& path, int rank, int size) {
  return std::make_unique<DirStore>(DirectoryRendezvousConfig{path, "", "", "dir://" + path, rank, size}, soon());
}

std::shared_ptr<Mesh> connect(const std::string& path, int rank, int size) {
  return Mesh::connect(*open_store(path, rank, size), rank, size, "test", soon());
}

std::shared_ptr<Revocation> attach_all(Mesh& mesh, uint64_t group) {
  std::vector<int> members;
  for (int rank = 0; rank < mesh.size(); ++rank) members.push_back(rank);
  auto revocation = std::make_shared<Revocation>(mesh.size());
  mesh.attach(group, members, revocation);
  return revocation;
}

Failure await_failure(const Revocation& revocation, uint64_t milliseconds) {
  retry_until([&] { return revocation.revoked(); }, Deadline::after_ms(milliseconds));
  return revocation.failure();
}

void say(Mesh& mesh, int peer, const Topic& topic, const std::string& text, std::span<const int> fds) {
  mesh.send(peer, topic, bytes_of(text), fds, soon());
}

std::string hear(Mesh& mesh, int peer, const Topic& topic, size_t size) {
  return text_of(mesh.receive(peer, topic, size, 0, nullptr, soon()).body);
}

void greet(Mesh& mesh, uint64_t tag) {
  const Topic topic{MessageKind::control, 7, tag, 0};
  const auto words = [](int from, int to) { return format("%03d to %03d", from, to); };
  for (int peer = 0; peer < mesh.size(); ++peer)
    if (peer != mesh.rank()) say(mesh, peer, topic, words(mesh.rank(), peer));
  for (int peer = 0; peer < mesh.size(); ++peer) {
    if (peer == mesh.rank()) continue;
    const std::string heard = hear(mesh, peer, topic, 10);
    if (heard != words(peer, mesh.rank())) throw Error(Status::internal, "heard " + heard);
  }
}
}  // namespace support
