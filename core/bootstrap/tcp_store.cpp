// The store of ranks that share no directory: the server runs at rank 0 on the monitor thread
// and never waits; a client waits in the thread that asks.
#include "core/bootstrap/tcp_store.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/hash.hpp"
#include "core/base/layouts.hpp"
#include "core/base/little_endian.hpp"
#include "core/base/log.hpp"
#include "core/base/per_process.hpp"
#include "core/base/reserve.hpp"
#include "core/base/text.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/store.hpp"
#include "core/socket/secure.hpp"
#include "core/socket/secure_connection.hpp"
#include "core/socket/secure_listener.hpp"
#include "core/socket/tcp.hpp"

namespace symm {
namespace {
constexpr size_t kLargest = 63 * 1024;    // bytes of a key and its value
constexpr uint64_t kLastWordsMs = 1'000;  // how long rank 0 has to answer after a deadline
// Refusals in a row before they are believed: rank 0 may just be leaving.
constexpr int kMaxRefusals = 10;

enum class RequestKind : uint8_t {
  // From a rank: u16 number and u32 library (a Stamp of layouts::store), u32 rank, u32 size,
  // u64 creation, u64 pid, host. It is equal in all versions, as `failed` is, so that a rank of
  // another number can be refused in words that name both versions.
  join,
  // From a rank, and passed on to all: u16 length of the key, key, value.
  value,
  // From a rank, which asks what ranks have not come. If rank 0 asks, nobody waits for them any
  // longer.
  missing,
  // From a rank that leaves in good order. If it is rank 0, passed on to all.
  bye,
  // To all: all ranks are here.
  done,
  // From a rank, and passed on to all: Failure.
  failed,
  // To those that have come: rank 0 is among them.
  led
};

Bytes frame(RequestKind kind, const Writer& body = {}) {
  return with_reserve([&] {
    Writer out;
    out.number(static_cast<uint8_t>(kind));
    out.bytes(body.bytes_);
    return std::move(out.bytes_);
  });
}

Bytes frame(const Failure& failure) {
  return with_reserve([&] {
    Writer body;
    encode(body, failure);
    return frame(RequestKind::failed, body);
  });
}

// Reads the key of a key and a value; the rest of the frame is the value. Nothing if the frame is
// too short.
std::optional<std::string> read_key(Reader& in) {
  const size_t length = in.left() < 2 ? SIZE_MAX : in.number<uint16_t>();
  return length > in.left() ? std::nullopt : std::optional(in.text(length));
}

// ---- the server at rank 0, on the monitor thread

struct ClientConnection;

// The ranks of one creation.
struct Meeting {
  Meeting(size_t size, std::string where)
      : clients(size), came(size), description(std::move(where)) {}
  void tell(std::span<const std::byte> bytes) const;
  void fail(Failure why);

  std::vector<ClientConnection*> clients;  // by rank; null before it came and after it left
  std::vector<bool> came;
  const std::string description;  // where its ranks meet, for messages
  // Whether a rank has had no news of the failure: it comes late, and not again.
  bool is_news_for(const ClientConnection& client) const;
  int awaited() const { return static_cast<int>(std::count(came.begin(), came.end(), false)); }
  bool is_over() const { return complete || (failure && awaited() == 0); }

  std::set<std::string> keys;
  std::optional<Failure> failure;
  bool complete = false;
};

// Listens at one place, for all creations that meet there now.
struct StoreServer final : std::enable_shared_from_this<StoreServer> {
  ~StoreServer() {
    if (listener) listener->stop();
  }

  // Takes a connection by its first frame; null refuses it.
  std::shared_ptr<ClientConnection> admit(
      const std::shared_ptr<SecureConnection>& connection, std::span<const std::byte> first);
  // Enters the client's rank in its meeting, or fails the meeting.
  void enter(ClientConnection& client);
  Failure missing(const Meeting& meeting) const;
  // Forgets the meeting if nobody will ask for it any more.
  void forget_if_over(uint64_t creation);

  // The ranks that have had no news yet of a meeting that has failed.
  std::atomic<int> late = 0;
  std::shared_ptr<SecureListener> listener;
  std::string description;
  std::string host;
  std::list<std::shared_ptr<ClientConnection>> clients;
  // By creation, the meetings that wait for ranks, or that have failed before all had come: ranks
  // that come late are told so. Only its clients hold one that is complete.
  std::map<uint64_t, std::shared_ptr<Meeting>> open;

  // At the maker of ids, set before it listens: it takes only the creations of `ids`, of which no
  // group has been formed yet, and which threads add to.
  bool serves_ids = false;
  void expect(uint64_t creation);
  bool is_expected(uint64_t creation);
  void spend(uint64_t creation);
  // What messages call a creation.
  std::string name_of(uint64_t creation) const {
    return serves_ids ? format("id:%016lx", creation) : description;
  }
  std::mutex ids_mutex;
  std::set<uint64_t> ids;
};

struct ClientConnection final : SecureConnection::Receiver,
                                std::enable_shared_from_this<ClientConnection> {
  const char* on_frame(std::span<const std::byte> bytes) override;

  void on_end(bool, const std::string&) override { leave(false); }

  void leave(bool in_good_order);
  void answer_missing(StoreServer& at);

  void refuse(Failure why) {
    meeting->fail(std::move(why));
    connection->post(frame(*meeting->failure));
  }

  std::string name() const { return format("rank %u (pid %ld on %s)", rank, pid, host.c_str()); }

  std::weak_ptr<StoreServer> server;
  // Keeps the server as long as this client of a complete meeting is connected: rank 0 may have
  // left.
  std::shared_ptr<StoreServer> kept_server;
  std::shared_ptr<Meeting> meeting;
  std::shared_ptr<SecureConnection> connection;
  Stamp stamp;
  uint32_t rank = 0;
  uint32_t size = 0;
  uint64_t creation = 0;
  int64_t pid = 0;
  std::string host;
};

void Meeting::tell(std::span<const std::byte> bytes) const {
  for (const ClientConnection* client : clients) {
    if (client != nullptr) client->connection->post(bytes);
  }
}

bool Meeting::is_news_for(const ClientConnection& client) const {
  return client.size == came.size() && !came[client.rank];
}

void Meeting::fail(Failure why) {
  if (failure) return;
  failure = std::move(why);
  tell(frame(*failure));
}

Failure StoreServer::missing(const Meeting& meeting) const {
  Failure failure = missing_ranks(meeting.came, meeting.description);

  const uint64_t refused = listener->refused();
  if (refused != 0) {
    failure.message += format(
        " (%lu unauthenticated connections were refused; check that all machines share one secret)",
        refused);
  }

  if (listener->on_loopback()) {
    failure.message += " (" + host + " leads to the loopback on the machine " +
                       (serves_ids ? "that made the id" : "of rank 0") +
                       ", so that only ranks of that machine can come)";
  }
  return failure;
}

std::shared_ptr<ClientConnection> StoreServer::admit(
    const std::shared_ptr<SecureConnection>& connection, std::span<const std::byte> first) {
  constexpr size_t kJoin = 31;
  if (first.size() < kJoin || first[0] != static_cast<std::byte>(RequestKind::join)) return nullptr;

  auto client = std::make_shared<ClientConnection>();
  Reader in(first.subspan(1));
  uint16_t number = 0;
  in.numbers(number, client->stamp.library);
  client->stamp.number = number;
  in.numbers(client->rank, client->size, client->creation, client->pid);
  client->host = in.text(std::min<size_t>(in.left(), 64));
  if (client->rank >= client->size || client->size > kMostRanks || !is_clean(client->host)) {
    return nullptr;
  }

  client->server = weak_from_this();
  client->connection = connection;
  if (!is_expected(client->creation)) {
    client->meeting = std::make_shared<Meeting>(client->size, name_of(client->creation));
    clients.push_back(client);
    client->refuse({Status::invalid_argument, -1, 0,
        format("config.id: %s can no longer be used: its group has been formed, and an id serves "
               "for one",
            name_of(client->creation).c_str())});
    return client;
  }

  auto& found = open[client->creation];
  // A rank that comes again after a failure begins anew.
  const bool is_over = found && found->failure && !found->is_news_for(*client);
  if (!found || is_over) found = std::make_shared<Meeting>(client->size, name_of(client->creation));
  const auto meeting = found;
  client->meeting = meeting;
  clients.push_back(client);  // the last step that may fail for want of memory

  enter(*client);
  if (meeting->complete) {
    spend(client->creation);
    meeting->tell(frame(RequestKind::done));
  }
  forget_if_over(client->creation);
  if (!meeting->complete) return client;

  if (open.empty()) listener->drop_silent();
  for (ClientConnection* member : meeting->clients) {
    member->kept_server = shared_from_this();
  }
  return client;
}

void StoreServer::expect(uint64_t creation) {
  const std::lock_guard lock(ids_mutex);
  ids.insert(creation);
}

bool StoreServer::is_expected(uint64_t creation) {
  const std::lock_guard lock(ids_mutex);
  return !serves_ids || ids.count(creation) != 0;
}

void StoreServer::spend(uint64_t creation) {
  const std::lock_guard lock(ids_mutex);
  ids.erase(creation);
}

void StoreServer::forget_if_over(uint64_t creation) {
  const auto found = open.find(creation);
  if (found != open.end() && found->second->is_over()) open.erase(found);

  int awaited = 0;
  for (const auto& [number, meeting] : open) {
    if (meeting->failure) awaited += meeting->awaited();
  }
  late = awaited;
}

void StoreServer::enter(ClientConnection& client) {
  Meeting& meeting = *client.meeting;
  const int rank = static_cast<int>(client.rank);
  if (std::string differs = stamp_difference(
          layouts::store, client.stamp, client.name(), "the store of " + meeting.description);
      !differs.empty()) {
    return client.refuse({Status::mismatch, rank, client.pid, std::move(differs)});
  }
  if (client.size != meeting.clients.size()) {
    return client.refuse({Status::mismatch, rank, client.pid,
        format("%s of %s was told that there are %u ranks, others that there are %zu",
            client.name().c_str(), meeting.description.c_str(), client.size,
            meeting.clients.size())});
  }
  if (const ClientConnection* other = meeting.clients[client.rank]) {
    return client.refuse({Status::mismatch, rank, client.pid,
        format("rank %d of %s is claimed by two: %s, %s", rank, meeting.description.c_str(),
            other->name().c_str(), client.name().c_str())});
  }

  meeting.clients[client.rank] = &client;
  meeting.came[client.rank] = true;
  if (meeting.failure) {
    client.connection->post(frame(*meeting.failure));
    return;
  }

  if (client.rank == 0) {
    meeting.tell(frame(RequestKind::led));
  } else if (meeting.clients[0] != nullptr) {
    client.connection->post(frame(RequestKind::led));
  }
  meeting.complete =
      std::find(meeting.clients.begin(), meeting.clients.end(), nullptr) == meeting.clients.end();
}

void ClientConnection::leave(bool in_good_order) {
  const auto at = server.lock();
  if (!at) return;
  const auto self = shared_from_this();
  kept_server.reset();
  at->clients.remove(self);
  if (size != meeting->clients.size() || meeting->clients[rank] != this) return;

  if (in_good_order && rank == 0) meeting->tell(frame(RequestKind::bye));
  meeting->clients[rank] = nullptr;
  if (in_good_order) return;

  meeting->fail({Status::peer_failed, static_cast<int>(rank), pid,
      format("%s of %s died or gave up while the group was being formed", name().c_str(),
          meeting->description.c_str())});
  at->forget_if_over(creation);
}

void ClientConnection::answer_missing(StoreServer& at) {
  if (meeting->complete || meeting->failure) return;
  if (rank != 0) {
    connection->post(frame(at.missing(*meeting)));
    return;
  }
  // A deadline is no news for those that come later: each has one of its own.
  meeting->fail(at.missing(*meeting));
  at.open.erase(creation);
}

const char* ClientConnection::on_frame(std::span<const std::byte> bytes) {
  const auto at = server.lock();
  if (!at) return nullptr;

  Reader in(bytes);
  RequestKind kind{};
  in.numbers(kind);
  if (kind == RequestKind::bye) {
    leave(true);
    return nullptr;
  }
  if (kind == RequestKind::missing) {
    answer_missing(*at);
    return nullptr;
  }
  if (kind == RequestKind::failed && meeting->complete) {
    Failure why;
    if (decode(in, why) == nullptr) {
      meeting->fail(why);
      return nullptr;
    }
  }

  const auto key = read_key(in);
  if (kind != RequestKind::value || !key || !meeting->complete) {
    return "a request that it may not make";
  }
  if (meeting->keys.insert(*key).second) {
    meeting->tell(bytes);
    return nullptr;
  }
  connection->post(frame(Failure{Status::mismatch, -1, 0,
      "the key \"" + *key + "\" was set twice in " + meeting->description}));
  return nullptr;
}

// The servers of this process, by place.
struct StoreServers {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<StoreServer>> open;
  // The servers of unique ids, by the place that was asked for and a hash of the secret, and by the
  // place in the ids.
  std::map<std::string, std::shared_ptr<StoreServer>> of_ids;
};

std::string name_of(const TcpPlace& place) { return place.host + ":" + std::to_string(place.port); }

std::shared_ptr<StoreServer> open_server(
    const TcpPlace& place, const std::string& description, ServedBy served_by) {
  auto server = std::make_shared<StoreServer>();
  server->serves_ids = served_by == ServedBy::maker_of_id;
  server->description = description;
  server->host = place.host;

  const auto admit = [weak = std::weak_ptr(server)](const auto& connection, auto first) {
    const auto self = weak.lock();
    return self ? self->admit(connection, first) : nullptr;
  };
  server->listener = std::make_shared<SecureListener>(
      place.host, place.port, read_secret(), milliseconds("SYMM_PEER_TIMEOUT_MS"), admit);
  server->listener->start();

  // A numeric address, or `localhost`, was meant as the loopback.
  const bool is_meant = place.host == "localhost" || place.host.find(':') != std::string::npos ||
                        place.host.find_first_not_of("0123456789.") == std::string::npos;
  if (server->listener->on_loopback() && !is_meant) {
    log::write(log::Level::warning,
        "%s: %s leads to the loopback here: rank 0 waits for ranks of this machine only",
        description.c_str(), place.host.c_str());
  }
  return server;
}

std::shared_ptr<StoreServer> server_at(const TcpPlace& place, const std::string& description) {
  StoreServers& servers = PerProcess<StoreServers>::current();
  const std::lock_guard lock(servers.mutex);
  auto& known = servers.open[name_of(place)];
  if (auto server = known.lock()) return server;
  const auto server = open_server(place, description, ServedBy::rank_0);
  known = server;
  return server;
}

// The server of this process at which the ranks of an id meet; null if another process made the
// id.
std::shared_ptr<StoreServer> own_server_of_id(const TcpPlace& place) {
  StoreServers& servers = PerProcess<StoreServers>::current();
  const std::lock_guard lock(servers.mutex);
  const auto found = servers.of_ids.find(name_of(place));
  return found == servers.of_ids.end() ? nullptr : found->second;
}

// ---- the client at every rank

// All values of the creation that rank 0 has told this rank, and what became of the creation.
struct StoreReplica final : SecureConnection::Receiver {
  const char* on_frame(std::span<const std::byte> bytes) override {
    return with_reserve([&] { return take(bytes); });
  }

  const char* take(std::span<const std::byte> bytes) {
    Reader in(bytes);
    RequestKind kind{};
    in.numbers(kind);

    const std::lock_guard lock(mutex);
    if (kind == RequestKind::value) {
      const auto key = read_key(in);
      if (!key) return "a value without its key";
      values.emplace(*key, Bytes(in.rest().begin(), in.rest().end()));
    } else if (kind == RequestKind::failed) {
      Failure why;
      if (decode(in, why) != nullptr) return "a failure that cannot be read";
      if (!failure) failure = std::move(why);
    }

    complete = complete || kind == RequestKind::done;
    rank_0_left = rank_0_left || kind == RequestKind::bye;
    met_rank_0 = met_rank_0 || kind == RequestKind::led;
    tell_change(changes);
    return nullptr;
  }

  void on_end(bool by_other, const std::string& how) override {
    const std::lock_guard lock(mutex);
    with_reserve([&] { end = how; });
    closed_by_rank_0 = by_other;
    tell_change(changes);
  }

  template <class Look>
  bool await(Deadline deadline, Look look) {
    return await_heard(changes, deadline, [&] {
      const std::lock_guard lock(mutex);
      return look();
    });
  }

  std::mutex mutex;
  Word changes{0};
  std::atomic<bool> complete = false;  // all ranks have come
  std::atomic<bool> rank_0_left = false;
  std::atomic<bool> met_rank_0 = false;
  std::map<std::string, Bytes> values;
  std::optional<Failure> failure;
  std::string end;  // how the connection ended; "": it has not
  bool closed_by_rank_0 = false;
};

class TcpStore final : public Store {
 public:
  TcpStore(const TcpPlace& place, uint64_t creation, int rank, int size,
      const std::string& description, Deadline deadline, ServedBy served_by)
      : place_(place),
        description_(description),
        rank_(rank),
        by_id_(served_by == ServedBy::maker_of_id),
        secret_(read_secret()),
        exceptions_(std::uncaught_exceptions()) {
    Writer body;
    body.numbers(layouts::store.number, layouts::library, rank, size, creation,
        static_cast<int64_t>(getpid()));
    body.text(host_name());
    const Bytes join = frame(RequestKind::join, body);

    try {
      join_meeting(join, deadline);
    } catch (const Error& error) {
      if (server_ && error.status() != Status::timeout) await_late_ranks(deadline);
      throw;
    }
  }

  ~TcpStore() override {
    if (std::uncaught_exceptions() > exceptions_) return;
    try {
      connection_->post(frame(RequestKind::bye));
    } catch (const std::bad_alloc&) {
      return;  // the others see the connection close
    }
  }

  void set(const std::string& key, const Bytes& value, Deadline deadline) override {
    Writer body;
    body.number(static_cast<uint16_t>(key.size()));
    body.text(key);
    body.bytes(value);
    if (body.bytes_.size() > kLargest) {
      throw Error(Status::invalid_argument,
          format("a key and its value have %zu bytes: a store by TCP takes %zu", body.bytes_.size(),
              kLargest));
    }
    if (replica_->await(Deadline::after_ms(0), [&] { return has(key); })) {
      throw Error(Status::mismatch, "the key \"" + key + "\" was set twice in " + description_);
    }

    // Rank 0 tells the value to all ranks, this one included. A rank that fails says so at its
    // deadline, so this one waits a little beyond its own.
    connection_->send(frame(RequestKind::value, body), deadline);
    const auto came_back = [&] { return has(key) || replica_->rank_0_left; };
    if (replica_->await(deadline, came_back) ||
        replica_->await(Deadline::after_ms(kLastWordsMs), came_back)) {
      return;
    }
    throw Error({Status::timeout, server_rank(), 0,
        server_name() + " did not take the key \"" + key + "\" in time"});
  }

  Bytes get(const std::string& key, Deadline deadline) override {
    Bytes value;
    const auto look = [&] {
      if (!has(key)) return false;
      value = replica_->values[key];
      return true;
    };
    if (replica_->await(deadline, look)) return value;
    throw Error(Status::timeout,
        "the key \"" + key + "\" did not appear in " + description_ + " before the deadline");
  }

  void tell(const Failure& why) const noexcept override {
    try {
      with_reserve(
          [&] { connection_->post(frame(blamed(why, rank_, getpid(), description_.c_str()))); });
    } catch (const std::bad_alloc&) {
      return;  // the others hear that this rank gave up, without the reason
    }
  }

  uint64_t rejected() const override { return server_ ? server_->listener->refused() : 0; }

  std::string address() const override {
    return server_ ? place_.host : own_address(connection_->socket(), place_.host);
  }

  std::string reached(const std::string& at) const override {
    return at == place_.host ? connection_->peer_address() : at;
  }

 private:
  // The process that has the store, for messages, and the rank to blame for it.
  std::string server_name() const {
    return (by_id_ ? "the process that made " : "rank 0 of ") + description_;
  }
  int server_rank() const { return by_id_ ? -1 : 0; }

  bool has(const std::string& key) const {
    if (replica_->values.count(key) != 0) return true;
    if (replica_->failure) throw Error(*replica_->failure);
    if (replica_->end.empty() || replica_->rank_0_left) return false;
    throw Error({Status::peer_failed, server_rank(), 0, server_name() + " " + replica_->end});
  }

  // Tries until all ranks have met.
  void join_meeting(const Bytes& join, Deadline deadline) {
    int refusals = 0;
    for (unsigned attempt = 0; !try_to_join(attempt, join, deadline); ++attempt) {
      if (deadline.expired()) {
        const std::string late =
            by_id_ ? server_name() + " did not answer before the deadline: "
                   : "rank 0 did not come to " + description_ + " before the deadline: ";
        throw Error({Status::timeout, server_rank(), 0, late + why_});
      }
      refusals = refusal_ ? refusals + 1 : 0;
      if (refusals == kMaxRefusals) throw Error(*refusal_);
      mourn();

      const Word never{0};
      sleep_while(never, 0, nullptr, 0, Deadline::after_ms(std::min(10 * (attempt + 1), 100U)));
    }
  }

  // A rank that had met rank 0 and loses it gives it the time in which a dead rank may be started
  // again.
  void mourn() {
    if (by_id_) return;
    if (rank_ != 0 && replica_ && replica_->met_rank_0.exchange(false)) {
      mourning_ = Deadline::after_ms(kRestartMs);
    }
    if (!mourning_.expired()) return;
    throw Error({Status::peer_failed, 0, 0,
        "rank 0 of " + description_ + " died or gave up while the group was being formed"});
  }

  // The reason why this creation failed is here, at rank 0. Ranks that are on their way hear it.
  void await_late_ranks(Deadline deadline) const {
    constexpr uint64_t kLateMs = 500;
    retry_until(
        [&] { return server_->late == 0; }, std::min(deadline, Deadline::after_ms(kLateMs)));
  }

  // Tries once to meet the others at rank 0. False: try again, unless the deadline has passed.
  // why_ and refusal_ say what was in the way.
  bool try_to_join(unsigned attempt, const Bytes& join, Deadline deadline) {
    refusal_.reset();
    if (!connect(attempt)) return false;
    replica_ = std::make_shared<StoreReplica>();
    connection_->set_host(place_.host);
    connection_->send(join, deadline);
    connection_->start(replica_);

    const auto decided = [&] {
      if (replica_->failure && !replica_->complete) throw Error(*replica_->failure);
      return replica_->complete || !replica_->end.empty();
    };
    if (!replica_->await(deadline, decided)) {
      if (connection_->known()) why_ = "it makes another group just now";
      if (why_.empty()) why_ = "no answer from " + place_.host;
      connection_->post(frame(RequestKind::missing));  // the server knows what ranks are missing
      if (rank_ != 0) connection_->post(frame(RequestKind::bye));
      if (connection_->known()) replica_->await(Deadline::after_ms(kLastWordsMs), decided);
    } else if (!replica_->complete) {
      why_ = "it " + replica_->end;
      if (const std::string& differs = connection_->other_version(); !differs.empty()) {
        throw Error({Status::mismatch, server_rank(), 0, server_name() + ": " + differs});
      }
      if (!connection_->known() && replica_->closed_by_rank_0) {
        refusal_ = {Status::unavailable, server_rank(), 0,
            format("%s refused rank %d on %s: the two machines have different secrets; make %s "
                   "the same",
                server_name().c_str(), rank_, host_name().c_str(), secret_file().c_str())};
      } else if (by_id_ && (connection_->known() || connection_->was_refused())) {
        // The maker of an id listens until it ends, so there is nobody to wait for.
        refusal_ = {Status::peer_failed, -1, 0,
            format("%s has ended: %s", server_name().c_str(), replica_->end.c_str())};
      }
    }
    return replica_->complete;
  }

  bool connect(unsigned attempt) {
    try {
      if (by_id_) {
        server_ = own_server_of_id(place_);
      } else if (rank_ == 0) {
        server_ = server_at(place_, description_);
      }

      connection_ = std::make_shared<SecureConnection>(dial_tcp(place_.host, place_.port, attempt),
          true, secret_, milliseconds("SYMM_PEER_TIMEOUT_MS"));
      return true;
    } catch (const Error& error) {
      // The address may be in use by a server that is just closing, or that is not symm's.
      if (error.failure().os_error == EADDRINUSE) refusal_ = error.failure();
      if (error.status() != Status::unavailable && !refusal_) throw;
      why_ = error.what();
      return false;
    }
  }

  const TcpPlace place_;
  const std::string description_;
  const int rank_;
  const bool by_id_;
  const Secret secret_;
  const int exceptions_;                 // in flight at the start; more at the end: it failed
  std::shared_ptr<StoreServer> server_;  // where this process has it
  std::shared_ptr<StoreReplica> replica_;
  std::shared_ptr<SecureConnection> connection_;
  std::string why_;
  std::optional<Failure> refusal_;
  Deadline mourning_ = Deadline::never();
};
}  // namespace

TcpPlace parse_tcp_place(const std::string& text, const char* source) {
  TcpPlace place;
  const size_t colon = text.rfind(':');

  if (colon != std::string::npos) {
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, place.port);
    if (error != std::errc{} || stop != end) place.port = 0;
    place.host = text.substr(0, colon);
    if (place.host.size() > 2 && place.host.front() == '[') {
      place.host = place.host.substr(1, place.host.size() - 2);
    }
  }

  if (place.port != 0 && !place.host.empty()) return place;
  throw Error(Status::invalid_argument,
      format("%s: is 'tcp://%s'; tcp:// needs the host of rank 0 and a port, as in "
             "tcp://node7:29600",
          source, text.c_str()));
}

uint16_t listen_for_creation(const TcpPlace& place, uint64_t creation) {
  StoreServers& servers = PerProcess<StoreServers>::current();
  std::shared_ptr<StoreServer> server;

  {
    const std::lock_guard lock(servers.mutex);
    // A process whose secret is replaced listens for each of its secrets.
    const std::string asked = format("%s %016lx", name_of(place).c_str(), fnv1a(read_secret()));
    auto& known = servers.of_ids[asked];
    if (!known) {
      known = open_server(place, "a unique id", ServedBy::maker_of_id);
      const TcpPlace told{place.host, known->listener->port()};
      servers.of_ids.emplace(name_of(told), known);
    }
    server = known;
  }

  server->expect(creation);
  return server->listener->port();
}

std::unique_ptr<Store> open_tcp_store(const TcpPlace& place, uint64_t creation, int rank, int size,
    const std::string& description, Deadline deadline, ServedBy served_by) {
  return std::make_unique<TcpStore>(place, creation, rank, size, description, deadline, served_by);
}
}  // namespace symm
