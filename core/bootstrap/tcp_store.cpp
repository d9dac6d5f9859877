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
#include "core/base/little_endian.hpp"
#include "core/base/per_process.hpp"
#include "core/base/reserve.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/store.hpp"
#include "core/socket/secure.hpp"
#include "core/socket/secure_connection.hpp"
#include "core/socket/secure_listener.hpp"
#include "core/socket/tcp.hpp"

namespace symm {
namespace {
constexpr size_t kLargest = 63 * 1024;  // key and value
constexpr uint64_t kLastWordsMs = 1'000;
constexpr int kMostRefusals = 10;  // in a row, before they are believed: rank 0 may just be leaving

enum class RequestKind : uint8_t {
  join,     // u32 rank, u32 size, u64 creation, u64 pid, host
  value,    // u16 length of the key, key, value: set by a rank, and then told to all
  missing,  // who has not come? Of rank 0: nobody waits for them any longer
  bye,      // leaves in good order; when rank 0 does, all are told
  done,     // all ranks are here
  failed    // Failure: of a rank, then told to all
};

Bytes frame(RequestKind what, const Writer& body = {}) {
  return with_reserve([&] {
    Writer out;
    out.number(static_cast<uint8_t>(what));
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

// The key of a value, whose rest is the value. Null if it is none.
std::optional<std::string> key_in(Reader& in) {
  const size_t length = in.left() < 2 ? SIZE_MAX : in.number<uint16_t>();
  return length > in.left() ? std::nullopt : std::optional(in.text(length));
}

// ---- at rank 0, on the monitor thread

struct ClientConnection;

struct Meeting {                           // the ranks of one creation
  std::vector<ClientConnection*> clients;  // by rank; null before one came, and when it has left
  std::vector<bool> came;
  std::set<std::string> keys;
  std::optional<Failure> failure;
  bool complete = false;
  void tell(std::span<const std::byte> bytes) const;
  void fail(Failure why);
};

// RequestKind listens at one place, for all creations that meet there now.
struct Hub final : std::enable_shared_from_this<Hub> {
  ~Hub() {
    if (listener) listener->stop();
  }

  std::shared_ptr<ClientConnection> admit(
      const std::shared_ptr<SecureConnection>& connection, std::span<const std::byte> first);
  Failure missing(const Meeting& meeting) const;
  std::shared_ptr<SecureListener> listener;
  std::string description;
  std::list<std::shared_ptr<ClientConnection>> clients;
  // one that is complete, or has failed, is known to its clients only
  std::map<uint64_t, std::shared_ptr<Meeting>> open;
};

struct ClientConnection final : SecureConnection::Receiver,
                                std::enable_shared_from_this<ClientConnection> {
  const char* on_frame(std::span<const std::byte> bytes) override;

  void on_end(bool, const std::string&) override { leave(false); }

  void leave(bool in_good_order);

  void refuse(Failure why) {
    meeting->fail(std::move(why)), connection->post(frame(*meeting->failure));
  }

  std::string name() const { return format("rank %u (pid %ld on %s)", rank, pid, host.c_str()); }

  std::weak_ptr<Hub> hub;
  // while this client of a complete meeting is there, whether rank 0 still is or not
  std::shared_ptr<Hub> stays;
  std::shared_ptr<Meeting> meeting;
  std::shared_ptr<SecureConnection> connection;
  uint32_t rank = 0, size = 0;
  uint64_t creation = 0;
  int64_t pid = 0;
  std::string host;
};

void Meeting::tell(std::span<const std::byte> bytes) const {
  for (const ClientConnection* client : clients) {
    if (client != nullptr) client->connection->post(bytes);
  }
}

void Meeting::fail(Failure why) {
  if (failure) return;
  failure = std::move(why);
  tell(frame(*failure));
}

Failure Hub::missing(const Meeting& meeting) const {
  Failure failure = missing_ranks(meeting.came, description);
  if (const uint64_t strangers = listener->refused(); strangers != 0) {
    failure.message +=
        format(" (%lu strangers were turned away: has a machine another secret?)", strangers);
  }
  return failure;
}

std::shared_ptr<ClientConnection> Hub::admit(
    const std::shared_ptr<SecureConnection>& connection, std::span<const std::byte> first) {
  constexpr size_t kJoin = 25;
  if (first.size() < kJoin || first[0] != static_cast<std::byte>(RequestKind::join)) return nullptr;
  auto client = std::make_shared<ClientConnection>();
  Reader in(first.subspan(1));
  in.numbers(client->rank, client->size, client->creation, client->pid);
  client->host = in.text(std::min<size_t>(in.left(), 64));
  if (client->rank >= client->size || client->size > kMostRanks || !is_clean(client->host)) {
    return nullptr;
  }
  client->hub = weak_from_this();
  client->connection = connection;
  auto& here = open[client->creation];
  if (!here) {
    here = std::make_shared<Meeting>(Meeting{std::vector<ClientConnection*>(client->size),
        std::vector<bool>(client->size), {}, {}, false});
  }
  const auto meeting = client->meeting = here;
  clients.push_back(client);  // the last that may fail for want of memory
  const int rank = static_cast<int>(client->rank);
  if (client->size != meeting->clients.size()) {
    client->refuse({Status::mismatch, rank, client->pid,
        format("%s of %s was told that there are %u ranks, others that there are %zu",
            client->name().c_str(), description.c_str(), client->size, meeting->clients.size())});
  } else if (const ClientConnection* other = meeting->clients[client->rank]) {
    client->refuse({Status::mismatch, rank, client->pid,
        format("rank %d of %s is claimed by two: %s, %s", rank, description.c_str(),
            other->name().c_str(), client->name().c_str())});
  } else {
    meeting->clients[client->rank] = client.get();
    meeting->came[client->rank] = true;
    meeting->complete = std::find(meeting->clients.begin(), meeting->clients.end(), nullptr) ==
                        meeting->clients.end();
  }
  if (meeting->complete) meeting->tell(frame(RequestKind::done));
  if (meeting->complete || meeting->failure) open.erase(client->creation);
  if (!meeting->complete) return client;
  for (ClientConnection* one : meeting->clients) {
    one->stays = shared_from_this();
  }
  return client;
}

void ClientConnection::leave(bool in_good_order) {
  const auto at = hub.lock();
  if (!at) return;
  const auto self = shared_from_this();
  stays.reset();
  at->clients.remove(self);
  if (size != meeting->clients.size() || meeting->clients[rank] != this) return;
  if (in_good_order && rank == 0) meeting->tell(frame(RequestKind::bye));
  meeting->clients[rank] = nullptr;
  if (in_good_order) return;
  meeting->fail({Status::peer_failed, static_cast<int>(rank), pid,
      format("%s of %s died or gave up while the group was being formed", name().c_str(),
          at->description.c_str())});
  if (!meeting->complete) at->open.erase(creation);
}

const char* ClientConnection::on_frame(std::span<const std::byte> bytes) {
  const auto at = hub.lock();
  if (!at) return nullptr;
  Reader in(bytes);
  RequestKind what{};
  in.numbers(what);
  if (what == RequestKind::bye) return leave(true), nullptr;
  if (what == RequestKind::missing) {
    if (meeting->complete || meeting->failure) return nullptr;
    if (rank != 0) return connection->post(frame(at->missing(*meeting))), nullptr;
    meeting->fail(at->missing(*meeting));
    return at->open.erase(creation), nullptr;
  }
  if (Failure why; what == RequestKind::failed && meeting->complete && decode(in, why) == nullptr) {
    return meeting->fail(why), nullptr;
  }
  const auto key = key_in(in);
  if (what != RequestKind::value || !key || !meeting->complete)
    return "a request that it may not make";
  if (meeting->keys.insert(*key).second) return meeting->tell(bytes), nullptr;
  connection->post(frame(Failure{
      Status::mismatch, -1, 0, "the key \"" + *key + "\" was set twice in " + at->description}));
  return nullptr;
}

struct Hubs {  // of this process
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Hub>> open;
};

std::shared_ptr<Hub> hub_at(const TcpPlace& place, const std::string& description) {
  Hubs& hubs = PerProcess<Hubs>::current();
  const std::lock_guard lock(hubs.mutex);
  auto& known = hubs.open[place.host + ":" + std::to_string(place.port)];
  if (auto hub = known.lock()) return hub;
  auto hub = std::make_shared<Hub>();
  hub->description = description;
  const auto admit = [weak = std::weak_ptr(hub)](const auto& connection, auto first) {
    const auto self = weak.lock();
    return self ? self->admit(connection, first) : nullptr;
  };
  hub->listener = std::make_shared<SecureListener>(
      place.host, place.port, read_secret(), milliseconds("SYMM_PEER_TIMEOUT_MS"), admit);
  hub->listener->start();
  known = hub;
  return hub;
}

// ---- at every rank

struct Heard final : SecureConnection::Receiver {
  const char* on_frame(std::span<const std::byte> bytes) override {
    return with_reserve([&] { return take(bytes); });
  }

  const char* take(std::span<const std::byte> bytes) {
    Reader in(bytes);
    RequestKind what{};
    in.numbers(what);
    const std::lock_guard lock(mutex);
    if (what == RequestKind::value) {
      const auto key = key_in(in);
      if (!key) return "a value without its key";
      values.emplace(*key, Bytes(in.rest().begin(), in.rest().end()));
    } else if (Failure why; what == RequestKind::failed) {
      if (decode(in, why) != nullptr) return "a failure that cannot be read";
      if (!failure) failure = std::move(why);
    }
    welcome = welcome || what == RequestKind::done;
    left = left || what == RequestKind::bye;
    tell_change(changes);
    return nullptr;
  }

  void on_end(bool by_other, const std::string& how) override {
    const std::lock_guard lock(mutex);
    with_reserve([&] { end = how; });
    closed = by_other;
    tell_change(changes);
  }

  template <class Look>
  bool await(Deadline deadline, Look look) {
    return await_change(changes, deadline, [&] {
      const std::lock_guard lock(mutex);
      return look();
    });
  }

  std::mutex mutex;
  Word changes{0};
  std::atomic<bool> welcome = false, left = false;
  std::map<std::string, Bytes> values;
  std::optional<Failure> failure;
  std::string end;
  bool closed = false;  // by the other side
};

class TcpStore final : public Store {
 public:
  TcpStore(const TcpPlace& place, uint64_t creation, int rank, int size,
      const std::string& description, Deadline deadline)
      : place_(place),
        description_(description),
        rank_(rank),
        secret_(read_secret()),
        exceptions_(std::uncaught_exceptions()) {
    Writer join;
    join.numbers(rank, size, creation, static_cast<int64_t>(getpid()));
    join.text(host_name());
    int refusals = 0;
    for (unsigned attempt = 0; !come_in(attempt, frame(RequestKind::join, join), deadline);
        ++attempt) {
      if (deadline.expired()) {
        throw Error({Status::timeout, 0, 0,
            "rank 0 did not come to " + description + " before the deadline: " + why_});
      }
      refusals = refusal_ ? refusals + 1 : 0;
      if (refusals == kMostRefusals) throw Error(*refusal_);
      const Word never{0};
      sleep_while(never, 0, nullptr, 0, Deadline::after_ms(std::min(10 * (attempt + 1), 100U)));
    }
  }

  ~TcpStore() override {
    if (std::uncaught_exceptions() > exceptions_) return;
    try {
      connection_->post(frame(RequestKind::bye));
    } catch (const std::bad_alloc&) {
      return;  // that it is gone is what they hear
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
    if (heard_->await(Deadline::after_ms(0), [&] { return has(key); })) {
      throw Error(Status::mismatch, "the key \"" + key + "\" was set twice in " + description_);
    }
    connection_->send(frame(RequestKind::value, body), deadline);
    // A rank that fails says so at its deadline, and shall be heard.
    const auto came_back = [&] { return has(key) || heard_->left; };
    if (heard_->await(deadline, came_back) ||
        heard_->await(Deadline::after_ms(kLastWordsMs), came_back)) {
      return;
    }
    throw Error({Status::timeout, 0, 0,
        "rank 0 did not take the key \"" + key + "\" of " + description_ + " in time"});
  }

  Bytes get(const std::string& key, Deadline deadline) override {
    Bytes value;
    const auto look = [&] { return has(key) && (value = heard_->values[key], true); };
    if (heard_->await(deadline, look)) return value;
    throw Error(Status::timeout,
        "the key \"" + key + "\" did not appear in " + description_ + " before the deadline");
  }

  void tell(const Failure& why) const noexcept override {
    try {
      with_reserve(
          [&] { connection_->post(frame(blamed(why, rank_, getpid(), description_.c_str()))); });
    } catch (const std::bad_alloc&) {
      return;  // that this rank gave up is what they hear
    }
  }

  std::string address() const override {
    return rank_ == 0 ? place_.host : own_address(connection_->socket(), place_.host);
  }

  std::string reached(const std::string& at) const override {
    return at == place_.host ? connection_->peer_address() : at;
  }

 private:
  bool has(const std::string& key) const {
    if (heard_->values.count(key) != 0) return true;
    if (heard_->failure) throw Error(*heard_->failure);
    if (heard_->end.empty() || heard_->left) return false;
    throw Error({Status::peer_failed, 0, 0, "rank 0 of " + description_ + " " + heard_->end});
  }

  // Once. False: to be tried again, or the deadline has passed.
  bool come_in(unsigned attempt, const Bytes& join, Deadline deadline) {
    refusal_.reset();
    try {
      if (rank_ == 0) hub_ = hub_at(place_, description_);
      connection_ = std::make_shared<SecureConnection>(dial_tcp(place_.host, place_.port, attempt),
          true, secret_, milliseconds("SYMM_PEER_TIMEOUT_MS"));
    } catch (const Error& error) {
      // a hub may just be closing, another has its turn
      if (error.failure().os_error == EADDRINUSE) refusal_ = error.failure();
      if (error.status() != Status::unavailable && !refusal_) throw;
      why_ = error.what();
      return false;
    }
    heard_ = std::make_shared<Heard>();
    connection_->set_host(place_.host);
    connection_->send(join, deadline);
    connection_->start(heard_);
    const auto decided = [&] {
      if (heard_->failure && !heard_->welcome) throw Error(*heard_->failure);
      return heard_->welcome || !heard_->end.empty();
    };
    if (!heard_->await(deadline, decided)) {
      if (connection_->known()) why_ = "it makes another group just now";
      if (why_.empty()) why_ = "no answer from " + place_.host;
      connection_->post(frame(RequestKind::missing));  // rank 0 knows who is
      if (rank_ != 0) connection_->post(frame(RequestKind::bye));
      if (connection_->known()) heard_->await(Deadline::after_ms(kLastWordsMs), decided);
    } else if (!heard_->welcome) {
      why_ = "it " + heard_->end;
      if (!connection_->known() && heard_->closed) {
        refusal_ = {Status::unavailable, 0, 0,
            format("rank 0 of %s turned rank %d on %s away: the two machines have different "
                   "secrets; make %s the same",
                description_.c_str(), rank_, host_name().c_str(), secret_file().c_str())};
      }
    }
    return heard_->welcome;
  }

  const TcpPlace place_;
  const std::string description_;
  const int rank_;
  const Secret secret_;
  const int exceptions_;
  std::shared_ptr<Hub> hub_;  // of rank 0
  std::shared_ptr<Heard> heard_;
  std::shared_ptr<SecureConnection> connection_;
  std::string why_;
  std::optional<Failure> refusal_;
};
}  // namespace

TcpPlace parse_tcp_place(const std::string& text) {
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
      "bootstrap is 'tcp://" + text +
          "'; tcp:// needs the host of rank 0 and a port, as in tcp://node7:29600");
}

std::unique_ptr<Store> open_tcp_store(const TcpPlace& place, uint64_t creation, int rank, int size,
    const std::string& description, Deadline deadline) {
  return std::make_unique<TcpStore>(place, creation, rank, size, description, deadline);
}
}  // namespace symm
