// SPDX-License-Identifier: Apache-2.0
//
// From identities to connections.
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/base/process.hpp"
#include "core/mesh/mesh_process.hpp"
#include "core/mesh/wireup.hpp"

namespace symm {
namespace {

constexpr size_t kMaxPending = 256;  // connections that have not said hello
constexpr int kSliceMs = 100;

}  // namespace

void MeshImpl::enter_process() { cookie_ = MeshProcess::current().enter(shared_from_this()); }

void MeshImpl::join_self(PeerIdentity identity) {
  const std::lock_guard lock(mutex_);
  at(rank_).identity = identity;
  at(rank_).state = State::here;
}

void MeshImpl::join_local(int peer, PeerIdentity identity, std::weak_ptr<MeshImpl> mesh) {
  const std::lock_guard lock(mutex_);
  at(peer).identity = identity;
  at(peer).local = std::move(mesh);
  if (at(peer).state == State::absent) at(peer).state = State::here;  // it may have come, failed and left already
}

void MeshImpl::join_remote(int peer, PeerIdentity identity, PeerFd socket, PeerProcess process) {
  auto link = std::make_shared<PeerLink>(weak_from_this(), peer, std::move(socket), std::move(process));
  {
    const std::lock_guard lock(mutex_);
    at(peer).identity = identity;
    at(peer).link = link;
    at(peer).state = State::here;
  }
  link->connection().start(link);
}

bool MeshImpl::joined(int peer) const {
  const std::lock_guard lock(mutex_);
  return at(peer).link || at(peer).identity.same_process;
}

bool MeshImpl::gone(int peer) const {
  const std::lock_guard lock(mutex_);
  return at(peer).state == State::left || at(peer).state == State::failed;
}

bool Wireup::same_process(int rank) const {
  return identities_[static_cast<size_t>(rank)].process == identities_[static_cast<size_t>(rank_)].process;
}

void Wireup::enter_directory() {
  directory_ = store_.directory();
  if (!directory_.empty()) return;
  if (rank_ == 0) {
    made_.emplace(SharedDirectory::make(default_parent(), "g"));
    directory_ = made_->path();
    return;
  }
  directory_ = fetch(Record::address, 0).address.directory;
  const size_t slash = directory_.rfind('/');
  if (slash == std::string::npos) throw Error({Status::mismatch, 0, 0, "rank 0 published no directory for sockets"});
  made_ = SharedDirectory::enter(directory_.substr(0, slash), directory_.substr(slash + 1));
  if (!made_) {
    throw Error(Status::unavailable,
                format("%s, the directory that rank 0 made for sockets, is not there: do the ranks share a file system?",
                       directory_.c_str()));
  }
}

void Wireup::open() {
  bool alone = true;
  bool awaited = false;
  for (int rank = 0; rank < size_; ++rank) {
    if (identities_[static_cast<size_t>(rank)].process != identities_[0].process) alone = false;
    if (rank > rank_ && !same_process(rank)) awaited = true;
  }
  if (alone) return;  // all ranks are threads of one process
  enter_directory();
  wire::Address address;
  if (awaited) {
    address.name = format("r%d-%016llx", rank_, static_cast<unsigned long long>(process::random64()));
    listener_ = std::make_unique<Listener>(directory_, address.name);
  }
  if (rank_ == 0 && made_) address.directory = directory_;
  wire::Header header;
  header.type = wire::Type::address;
  header.source = static_cast<uint16_t>(rank_);
  publish(Record::address, wire::encode(header, address));
}

void Wireup::join() {
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    if (same_process(rank)) {
      join_thread(rank);
    } else if (rank < rank_) {
      join_by_dialling(rank);
    }
  }
  join_by_accepting();
}

void Wireup::join_thread(int rank) {
  const wire::Identity& identity = identities_[static_cast<size_t>(rank)];
  const std::shared_ptr<MeshImpl> other = MeshProcess::current().find(identity.cookie);
  if (!other) {
    if (auto failure = failure_in_store(rank, Deadline::after_ms(kSliceMs))) throw Error(std::move(*failure));
    throw Error({Status::peer_failed, rank, getpid(), format("rank %d gave up while the group was being formed", rank)});
  }
  PeerIdentity peer;
  peer.pid = getpid();
  peer.process = identity.process;
  peer.same_process = true;
  mesh_->join_local(rank, peer, other);
}

void Wireup::join_by_dialling(int rank) {
  const wire::Identity& identity = identities_[static_cast<size_t>(rank)];
  const wire::Packet record = fetch(Record::address, rank);
  if (record.header.type != wire::Type::address || record.address.name.empty()) {
    throw Error({Status::mismatch, rank, identity.pid, format("rank %d published no socket", rank)});
  }
  PeerFd socket;
  PeerProcess process;
  try {
    const auto connected = [&] { return static_cast<bool>(socket = dial(directory_, record.address.name)); };
    if (!retry_until(connected, deadline_)) throw_missing({rank});
    process = identify(socket.get());
  } catch (const Error& error) {
    if (error.status() != Status::peer_failed) throw;
    if (auto failure = failure_in_store(rank, Deadline::after_ms(kSliceMs))) throw Error(std::move(*failure));
    throw Error(
        {Status::peer_failed, rank, identity.pid, name_of_peer(rank, identity.pid) + " died while the group was being formed"});
  }
  wire::Header header;
  header.type = wire::Type::hello;
  header.source = static_cast<uint16_t>(rank_);
  wire::Hello hello;
  hello.nonce = mesh_->nonce();
  hello.name_hash = name_hash_;
  hello.cookie = mesh_->cookie();
  hello.rank = static_cast<uint32_t>(rank_);
  hello.size = static_cast<uint32_t>(size_);
  // Nothing was sent on it before, so it has room; if the other has gone, its silence in the vote tells.
  fdpass::send(socket.get(), wire::encode(header, hello), {});
  const PeerIdentity peer{process.pid, identity.process, false, static_cast<bool>(process.pidfd)};
  mesh_->join_remote(rank, peer, std::move(socket), std::move(process));
}

void Wireup::accept_waiting() {
  for (;;) {
    try {
      PeerFd socket = listener_->accept(rejected_);
      if (!socket) return;
      pending_.push_back(std::move(socket));
    } catch (const Error&) {
      // Out of descriptors, perhaps by connections that say nothing: the oldest goes. A rank says hello as soon as it is
      // connected.
      if (pending_.empty()) throw;
      pending_.pop_front();
      refuse();
      continue;
    }
    if (pending_.size() > kMaxPending) {
      // Those that did speak are heard before any is turned away.
      pending_.remove_if([&](PeerFd& socket) { return take_hello(socket); });
      if (pending_.size() <= kMaxPending) continue;
      pending_.pop_front();
      refuse();
    }
  }
}

bool Wireup::take_hello(PeerFd& socket) {
  std::array<std::byte, wire::kMaxPacket> buffer;
  const fdpass::Received received = fdpass::receive(socket.get(), buffer);
  if (received.what == fdpass::Received::What::nothing) return false;
  wire::Packet packet;
  const wire::Hello& hello = packet.hello;
  const bool valid = received.what == fdpass::Received::What::packet && !received.too_long && received.fds_arrived == 0 &&
                     wire::decode({buffer.data(), received.size}, packet) == nullptr && packet.header.type == wire::Type::hello &&
                     hello.nonce == mesh_->nonce() && hello.name_hash == name_hash_ && hello.size == static_cast<uint32_t>(size_);
  const int rank = valid ? static_cast<int>(hello.rank) : -1;
  if (rank <= rank_ || same_process(rank) || mesh_->joined(rank) ||
      hello.cookie != identities_[static_cast<size_t>(rank)].cookie) {
    refuse();
    return true;
  }
  PeerProcess process = identify(socket.get());
  const PeerIdentity peer{process.pid, identities_[static_cast<size_t>(rank)].process, false, static_cast<bool>(process.pidfd)};
  mesh_->join_remote(rank, peer, std::move(socket), std::move(process));
  return true;
}

void Wireup::join_by_accepting() {
  for (;;) {
    std::vector<int> missing;
    for (int rank = rank_ + 1; rank < size_; ++rank) {
      if (!same_process(rank) && !mesh_->joined(rank)) missing.push_back(rank);
    }
    if (missing.empty()) return;
    if (deadline_.expired()) throw_missing(std::move(missing));
    std::vector<pollfd> fds{{listener_->get(), POLLIN, 0}};
    for (const PeerFd& socket : pending_) fds.push_back({socket.get(), POLLIN, 0});
    const int left = deadline_.remaining_ms();
    const auto slice = static_cast<uint64_t>(left < 0 ? kSliceMs : std::min(left, kSliceMs));
    if (!poll_until(fds, Deadline::after_ms(slice))) look_for_failures(missing);
    accept_waiting();
    pending_.remove_if([&](PeerFd& socket) { return take_hello(socket); });
  }
}

}  // namespace symm
