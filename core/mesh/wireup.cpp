// Makes a mesh, step by step as wireup.hpp lists them. Ranks meet by the store, then connect by
// sockets; each wait has the creation's deadline.
#include "core/mesh/wireup.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/hash.hpp"
#include "core/base/process.hpp"
#include "core/base/reserve.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/store.hpp"
#include "core/mesh/commit_vote.hpp"
#include "core/mesh/groups.hpp"
#include "core/mesh/mesh.hpp"
#include "core/mesh/mesh_process.hpp"
#include "core/mesh/peer_link.hpp"
#include "core/mesh/wire.hpp"
#include "core/socket/directory.hpp"
#include "core/socket/fdpass.hpp"
#include "core/socket/secure.hpp"
#include "core/socket/secure_connection.hpp"
#include "core/socket/secure_listener.hpp"
#include "core/socket/socket.hpp"
#include "core/socket/tcp.hpp"

namespace symm {
namespace {
using State = PeerEvents::State;

// A number that is equal for ranks that can meet in a directory: processes of one kernel that see
// one /tmp. If the ranks met in a directory of the store, they can anyway.
uint64_t machine_of(const Store& store) {
  struct stat place{};
  const bool has_tmp = store.directory().empty() && stat("/tmp", &place) == 0;
  if (!has_tmp && store.directory().empty() && errno != ENOENT && errno != EACCES) {
    throw system_error(errno, "stat", "/tmp");
  }
  return mix(fnv1a(process::boot_id()), has_tmp ? mix(place.st_dev, place.st_ino) : 0);
}
}  // namespace

Wireup::Wireup(Store& store, int rank, int size, const std::string& name, Deadline deadline)
    : store_(store),
      rank_(rank),
      size_(size),
      name_hash_(fnv1a(name)),
      deadline_(deadline),
      records_(store, rank, size, deadline),
      mesh_(std::make_shared<Mesh>(rank, size)),
      events_(*mesh_->events_),
      identities_(static_cast<size_t>(size)),
      spare_(make_fd(eventfd, 0, EFD_CLOEXEC)) {}

std::shared_ptr<Mesh> Wireup::run() {
  Failure mine;
  try {
    introduce();
    open();
    join();
  } catch (...) {
    mine = current_failure();
  }

  // Ranks that this one refused take it for dead. If it refused them because something failed here,
  // it reports that.
  const bool taken_for_dead = mine.status == Status::peer_failed && mine.rank == rank_;
  if (taken_for_dead && listener_ && listener_->trouble().status != Status::ok) {
    mine = listener_->trouble();
  }
  if (mine.status != Status::ok) mine = blamed(std::move(mine), rank_, getpid());

  if (listener_) {
    listener_->close_pending();
    mesh_->rejected_ = listener_->refused();
  }
  if (tcp_listener_) {
    tcp_listener_->stop();
    mesh_->rejected_ += tcp_listener_->refused();
  }
  mesh_->rejected_ += store_.rejected();
  if (mine.status == Status::ok) listener_.reset();
  spare_.reset();

  Failure worst;
  try {
    worst = commit_vote(events_, records_, rank_, size_, mesh_->nonce_, mine, deadline_);
  } catch (...) {
    const Failure own = blamed(current_failure(), rank_, getpid());
    // The others may have made the group already. Its number is the nonce.
    mesh_->broadcast_failure(mesh_->nonce_, own);
    throw Error(own);
  }
  if (worst.status != Status::ok) throw Error(worst);
  with_reserve([this] { mesh_->addresses_ = find_addresses(); });
  return mesh_;
}

// Every rank has voted by now, so all connections stand, and have an address at this end.
std::vector<std::string> Wireup::find_addresses() const {
  const auto links = events_.look([](State& state) { return state.links; });
  std::set<std::string> addresses;
  for (int rank = 0; rank < size_; ++rank) {
    const uint64_t network = identity(rank).network;
    if (rank == rank_ || (network != 0 && network == identity(rank_).network)) continue;

    const auto& link = links[static_cast<size_t>(rank)];
    addresses.insert(link ? link->own_address() : "");
  }

  // The address of loopback, or none, means that something between the hosts passes bytes on.
  const bool unknown = std::any_of(addresses.begin(), addresses.end(),
      [](const auto& address) { return address.empty() || is_loopback(address); });
  if (unknown) return {};
  if (addresses.empty()) return {loopback_address()};
  return {addresses.begin(), addresses.end()};
}

bool Wireup::joined(int rank) const {
  return events_.look([&](State& state) { return state.joined(rank); });
}

void Wireup::look_for_failures() {
  const std::optional<Failure> bad = events_.look([](State& state) -> std::optional<Failure> {
    for (const auto& vote : state.votes) {
      if (vote && vote->status != Status::ok) return vote;
    }
    return std::nullopt;
  });
  if (bad) throw Error(*bad);

  for (int rank = 0; rank < size_; ++rank) {
    const wire::Identity& theirs = identity(rank);
    if (rank == rank_ || theirs.size == 0 || joined(rank)) continue;
    if (auto failure = records_.failure_of(rank, Deadline::after_ms(1))) {
      throw Error(std::move(*failure));
    }

    // A rank that introduced itself and then died left no failure: only its process can tell.
    if (!on_this_machine(rank) || theirs.start_time == 0 || theirs.pid_namespace == 0 ||
        theirs.pid_namespace != pid_namespace()) {
      continue;
    }
    if (!process::is_gone(theirs.pid, theirs.start_time)) continue;
    throw Error({Status::peer_failed, rank, theirs.pid,
        name_of_peer(rank, theirs.pid) + " died while the group was being formed"});
  }
}

// ---- introduce

wire::Identity Wireup::describe_self() const {
  wire::Identity self;
  self.process = MeshProcess::current().token();
  self.cookie = mesh_->cookie_;
  while (self.nonce == 0) {
    self.nonce = process::random64();
  }
  self.name_hash = name_hash_;

  self.pid = getpid();
  self.start_time = process::start_time_of(self.pid);
  self.pid_namespace = pid_namespace();

  self.machine = machine_of(store_);
  self.network = network_namespace();
  self.host = host_name();
  self.address = store_.address().empty() ? self.host : store_.address();
  self.host.resize(std::min(self.host.size(), wire::kMaxName));
  self.size = static_cast<uint32_t>(size_);
  return self;
}

void Wireup::check(int rank, const wire::Identity& theirs) const {
  if (theirs.size != static_cast<uint32_t>(size_)) {
    throw Error({Status::mismatch, rank, theirs.pid,
        format("rank %d has a group of %u ranks, rank %d one of %d", rank, theirs.size, rank_,
            size_)});
  }
  if (theirs.name_hash != name_hash_) {
    throw Error({Status::mismatch, rank, theirs.pid,
        format("ranks %d and %d use different names for the group", rank, rank_)});
  }
}

void Wireup::introduce() {
  mesh_->cookie_ = MeshProcess::current().enter(mesh_, mesh_->events_);
  SYMM_POINT("wireup.introduce");
  const wire::Identity self = describe_self();
  identities_[static_cast<size_t>(rank_)] = self;
  records_.publish(Kind::identity, wire::Type::identity, self);

  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    const wire::Packet packet =
        records_.fetch(Kind::identity, rank, [this] { look_for_failures(); });
    if (packet.header.type != wire::Type::identity) {
      throw Error({Status::mismatch, rank, 0, format("rank %d did not introduce itself", rank)});
    }
    check(rank, packet.identity);
    identities_[static_cast<size_t>(rank)] = packet.identity;
  }

  mesh_->nonce_ = identity(0).nonce;
  events_.look(
      [&](State& state) { state.peers.join(rank_, {self.pid, self.process, true, false}); });
}

// ---- open

void Wireup::enter_directory() {
  directory_ = store_.directory();
  if (!directory_.empty()) return;

  // The first rank of this machine makes the directory.
  int first = 0;
  while (!on_this_machine(first)) {
    ++first;
  }
  if (rank_ == first) {
    made_ = SharedDirectory::make(default_parent(), "g");
    directory_ = made_->path();
    return;
  }

  // Ranks but the first put their sockets into the directory that the first has made.
  directory_ =
      records_.fetch(Kind::address, first, [this] { look_for_failures(); }).address.directory;
  const size_t slash = directory_.rfind('/');
  if (slash == std::string::npos) {
    throw Error(
        {Status::mismatch, first, 0, format("rank %d published no directory for sockets", first)});
  }
  made_ = SharedDirectory::enter(directory_.substr(0, slash), directory_.substr(slash + 1));
  if (!made_) {
    throw Error(Status::unavailable, format("%s, the directory that rank %d made for sockets, is "
                                            "not there: do the ranks share a file system?",
                                         directory_.c_str(), first));
  }
}

void Wireup::open() {
  // A rank connects to the ranks before it, so this one awaits those after it.
  bool one_process = true;       // all ranks are threads of one process
  bool needs_directory = false;  // some ranks are other processes of this machine
  bool awaits_local = false;     // some of these connect to this rank
  bool awaits_remote = false;    // some ranks of other machines do
  for (int rank = 0; rank < size_; ++rank) {
    const bool is_local = on_this_machine(rank) && !same_process(rank);
    one_process = one_process && identity(rank).process == identity(0).process;
    needs_directory = needs_directory || is_local;
    awaits_local = awaits_local || (rank > rank_ && is_local);
    awaits_remote = awaits_remote || (rank > rank_ && !on_this_machine(rank));
  }
  if (one_process) return;

  if (needs_directory) enter_directory();
  mesh_->met_in_ = directory_.substr(0, directory_.rfind('/'));
  SYMM_POINT("wireup.listen");

  wire::Address address;
  if (awaits_local) {
    address.name = format("r%d-%016lx", rank_, process::random64());
    listener_ = std::make_unique<HelloListener>(directory_, address.name);
  }
  if (awaits_remote) listen_to_machines();
  if (tcp_listener_) address.port = tcp_listener_->port();
  if (made_) address.directory = directory_;
  records_.publish(Kind::address, wire::Type::address, address);
}

// ---- join

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
  SYMM_POINT("wireup.join");

  // Life words are shared last: descriptors on their way to ranks that do not read yet could use up
  // the number that the kernel allows a user to have in flight.
  for (const auto& link : events_.look([](State& state) { return state.links; })) {
    if (link) link->share_life(deadline_);
  }
}

Error Wireup::died(int rank, const std::string& how) {
  if (auto failure = records_.failure_of(rank, Deadline::after_ms(WireupRecords::kSliceMs))) {
    return Error(std::move(*failure));
  }
  return Error(
      {Status::peer_failed, rank, identity(rank).pid, how + " while the group was being formed"});
}

void Wireup::join_thread(int rank) {
  const std::shared_ptr<PeerEvents> other = MeshProcess::current().find(identity(rank).cookie);
  if (!other) throw died(rank, format("rank %d gave up", rank));
  const auto link = link_to_thread(rank_, other);
  events_.look([&](State& state) {
    state.peers.join(rank, {getpid(), identity(rank).process, true, false});
    state.links[static_cast<size_t>(rank)] = link;
  });
}

void Wireup::join_process(int rank, PeerFd socket, PeerProcess process) {
  const PeerIdentity peer{
      process.pid, identity(rank).process, false, static_cast<bool>(process.pidfd)};
  events_.look([&](State& state) { state.peers.join(rank, peer); });
  auto link = link_to_process(rank_, rank, std::move(socket), std::move(process), mesh_->events_);
  events_.look([&](State& state) { state.links[static_cast<size_t>(rank)] = std::move(link); });
}

void Wireup::join_by_dialling(int rank) {
  const int64_t pid = identity(rank).pid;
  const wire::Packet record = records_.fetch(Kind::address, rank, [this] { look_for_failures(); });
  const bool by_name = on_this_machine(rank) && !record.address.name.empty();
  if (record.header.type != wire::Type::address ||
      (!by_name && (on_this_machine(rank) || record.address.port == 0))) {
    throw Error({Status::mismatch, rank, pid, format("rank %d published no socket", rank)});
  }
  if (!on_this_machine(rank)) return join_machine(rank, record.address.port);

  PeerFd socket;
  PeerProcess process;
  try {
    const auto connected = [&] {
      socket = dial(directory_, record.address.name);
      return static_cast<bool>(socket);
    };
    if (!retry_until(connected, deadline_)) records_.throw_missing({rank});
    SYMM_POINT("wireup.dial");
    process = identify(socket.get());
  } catch (const Error& error) {
    if (error.status() != Status::peer_failed) throw;
    throw died(rank, name_of_peer(rank, pid) + " died");
  }

  // The hello is the first packet on the socket, so there is room for it. If the peer has gone, the
  // vote will miss it.
  const Bytes packet = hello();
  const auto sent = [&] { return fdpass::send(socket.get(), packet, {}) != fdpass::Sent::crowded; };
  if (!retry_until(sent, deadline_)) records_.throw_missing({rank});
  join_process(rank, std::move(socket), std::move(process));
}

Bytes Wireup::hello() const {
  return wire::encode({.type = wire::Type::hello, .source = static_cast<uint16_t>(rank_)},
      wire::Hello{mesh_->nonce_, name_hash_, mesh_->cookie_, static_cast<uint32_t>(rank_),
          static_cast<uint32_t>(size_)});
}

// ---- other machines. The monitor makes the connections; one that fails is a failure of the peer.

namespace {
// Makes the peer known to the events before its link exists, for frames may come at once.
std::shared_ptr<PeerLink> enter_machine(PeerEvents& events, int rank, int peer,
    const wire::Identity& theirs, const std::shared_ptr<SecureConnection>& connection,
    std::weak_ptr<PeerEvents> weak) {
  connection->set_host(theirs.host + " (" + theirs.address + ")");
  events.look([&](State& state) {
    state.peers.join(peer, {theirs.pid, theirs.process, false, false, theirs.host});
  });
  auto link = link_to_machine(rank, peer, connection, std::move(weak));
  events.change([&](State& state) -> Notices {
    state.links[static_cast<size_t>(peer)] = link;
    return {};
  });
  return link;
}
}  // namespace

void Wireup::listen_to_machines() {
  const auto admit =
      [this_rank = rank_, size = size_, nonce = mesh_->nonce_, name = name_hash_,
          identities = identities_,
          weak = std::weak_ptr(mesh_->events_)](const std::shared_ptr<SecureConnection>& connection,
          std::span<const std::byte> first) -> std::shared_ptr<SecureConnection::Receiver> {
    wire::Packet packet;
    const auto events = weak.lock();
    if (!events || wire::decode(first, packet) != nullptr ||
        packet.header.type != wire::Type::hello) {
      return nullptr;
    }

    const wire::Hello& hello = packet.hello;
    const int rank = static_cast<int>(hello.rank);
    if (hello.size != static_cast<uint32_t>(size) || rank <= this_rank) return nullptr;

    const wire::Identity& theirs = identities[hello.rank];
    const bool awaited = hello.nonce == nonce && hello.name_hash == name &&
                         hello.cookie == theirs.cookie &&
                         theirs.machine != identities[static_cast<size_t>(this_rank)].machine;
    if (!awaited || events->look([&](State& state) { return state.joined(rank); })) return nullptr;
    return std::dynamic_pointer_cast<SecureConnection::Receiver>(
        enter_machine(*events, this_rank, rank, theirs, connection, weak));
  };

  tcp_listener_ = std::make_shared<SecureListener>(
      identity(rank_).address, 0, read_secret(), milliseconds("SYMM_PEER_TIMEOUT_MS"), admit);
  tcp_listener_->start();
}

void Wireup::join_machine(int rank, uint16_t port) {
  const wire::Identity& theirs = identity(rank);
  const auto connection =
      std::make_shared<SecureConnection>(dial_tcp(store_.reached(theirs.address), port), true,
          read_secret(), milliseconds("SYMM_PEER_TIMEOUT_MS"));
  connection->send(hello(), deadline_);
  enter_machine(events_, rank_, rank, theirs, connection, mesh_->events_);
}

// Takes the socket of a process that said hello, in the thread that makes the mesh; false
// refuses it. Of two ranks the higher one dials, so a hello of a lower one is refused, as is
// one of another job.
bool Wireup::admit(const wire::Hello& hello, PeerFd& socket) {
  const int rank = static_cast<int>(hello.rank);
  if (hello.nonce != mesh_->nonce_ || hello.name_hash != name_hash_ ||
      hello.size != static_cast<uint32_t>(size_) || rank <= rank_ || same_process(rank) ||
      !on_this_machine(rank) || joined(rank) || hello.cookie != identity(rank).cookie) {
    return false;
  }

  SYMM_POINT("wireup.admit");
  PeerProcess process = identify(socket.get());
  join_process(rank, std::move(socket), std::move(process));
  return true;
}

void Wireup::join_by_accepting() {
  Deadline next_look = Deadline::after_ms(WireupRecords::kSliceMs);
  for (;;) {
    std::vector<int> missing;
    for (int rank = rank_ + 1; rank < size_; ++rank) {
      if (!same_process(rank) && !joined(rank)) missing.push_back(rank);
    }
    if (missing.empty()) return;
    if (deadline_.expired()) records_.throw_missing(std::move(missing));

    const Deadline until = std::min(next_look, deadline_);
    if (std::any_of(
            missing.begin(), missing.end(), [this](int rank) { return on_this_machine(rank); })) {
      listener_->admit(
          until, [this](const wire::Hello& hello, PeerFd& socket) { return admit(hello, socket); });
    } else {
      events_.await(nullptr, until, [&](State& state) { return state.joined(missing.front()); });
    }

    if (!next_look.expired()) continue;
    look_for_failures();
    next_look = Deadline::after_ms(WireupRecords::kSliceMs);
  }
}

std::shared_ptr<Mesh> Mesh::connect(
    Store& store, int rank, int size, const std::string& name, Deadline deadline) {
  return Wireup(store, rank, size, name, deadline).run();
}
}  // namespace symm
