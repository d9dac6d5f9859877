#include "tests/mesh/mesh_support.hpp"

namespace support {
using namespace symm;

std::string FileStore::file_of(const std::string& key) const {
  std::string name = "k-" + key;
  std::replace(name.begin(), name.end(), '/', '-');
  return path_ + "/" + name;
}

void FileStore::set(const std::string& key, const Bytes& value, Deadline) {
  static std::atomic<int> number{0};
  const std::string temporary = path_ + "/t-" + std::to_string(getpid()) + "-" + std::to_string(number++);
  std::ofstream(temporary, std::ios::binary)
      .write(reinterpret_cast<const char*>(value.data()), static_cast<std::streamsize>(value.size()));
  std::filesystem::rename(temporary, file_of(key));
}

Bytes FileStore::get(const std::string& key, Deadline deadline) {
  const auto there = [&] { return access(file_of(key).c_str(), R_OK) == 0; };
  if (!retry_until(there, deadline)) throw Error(Status::timeout, "no key " + key);
  std::ifstream file(file_of(key), std::ios::binary);
  return bytes_of(std::string(std::istreambuf_iterator<char>(file), {}));
}

std::shared_ptr<Mesh> connect(
    const std::string& path, int rank, int size, uint64_t milliseconds, bool for_sockets, const std::string& name) {
  FileStore store(path, for_sockets);
  return Mesh::connect(store, rank, size, name, Deadline::after_ms(milliseconds));
}

void expect_of_ranks(int size, const std::string& result, const std::function<std::string(int)>& body) {
  Processes ranks(size, body);
  for (auto& rank : ranks) EXPECT_EQ(rank.result(), result);
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

std::string hear(Mesh& mesh, int peer, const Topic& topic, size_t size, const Revocation* revocation, uint64_t milliseconds) {
  return text_of(mesh.receive(peer, topic, size, 0, revocation, Deadline::after_ms(milliseconds)).body);
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
