// The bytes of an id, and the choice of the place where its ranks meet.
#include "core/bootstrap/unique_id.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/deadline.hpp"
#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/hash.hpp"
#include "core/base/layouts.hpp"
#include "core/base/little_endian.hpp"
#include "core/base/log.hpp"
#include "core/base/process.hpp"
#include "core/base/text.hpp"
#include "core/bootstrap/dir_store.hpp"
#include "core/bootstrap/directory_rendezvous.hpp"
#include "core/bootstrap/store.hpp"
#include "core/bootstrap/tcp_store.hpp"
#include "core/socket/directory.hpp"
#include "core/socket/secure.hpp"
#include "core/socket/tcp.hpp"

namespace symm {
namespace {
constexpr std::string_view kIdMagic = "symm-id";
constexpr uint64_t kLifeMs = 24 * 3'600'000ULL;       // of an id that nobody uses, on one machine
constexpr std::string_view kThisMachine = "machine";  // a value of SYMM_ID_ADDRESS

// Why an id is for the ranks of one machine. The values travel.
enum class Scope : uint8_t { machines, asked, no_sodium, no_secret, no_address };
constexpr uint8_t kScopes = 5;

struct UniqueId {
  Scope scope = Scope::machines;
  // The three numbers of the note's name. `first` is the number of the creation, too.
  uint64_t first = 0;
  uint64_t time_ns = 0;
  uint64_t second = 0;
  uint64_t machine = 0;  // of the boot id
  uint32_t user = 0;
  uint16_t port = 0;  // 0: the ranks meet in a directory
  std::string host;   // the address, or the machine's name for messages
};

// In an id, in this order: magic, number of the layout, version of the maker's library (those three
// are equal in all versions), scope, first, time_ns, second, machine, user, port, length of the
// host, host, zeros, and a hash of all that.
constexpr size_t kFixed = kIdMagic.size() + 2 + 4 * sizeof(uint64_t) + 2 * sizeof(uint32_t) +
                          sizeof(uint16_t) + 1 + sizeof(uint64_t);
constexpr size_t kLongestHost = kUniqueIdBytes - kFixed;

Bytes encode(const UniqueId& id) {
  Writer out;
  out.text(std::string(kIdMagic));
  out.numbers(static_cast<uint8_t>(layouts::unique_id.number), layouts::library,
      static_cast<uint8_t>(id.scope), id.first, id.time_ns, id.second, id.machine, id.user, id.port,
      static_cast<uint8_t>(id.host.size()));
  out.text(id.host);
  out.bytes_.resize(kUniqueIdBytes - sizeof(uint64_t));
  out.number(fnv1a(out.bytes_));
  return std::move(out.bytes_);
}

Error no_id(const std::string& why) { return {Status::invalid_argument, "config.id: " + why}; }

UniqueId decode(std::span<const std::byte> bytes) {
  if (bytes.size() != kUniqueIdBytes) {
    throw no_id(format("has %zu bytes, and an id has %zu", bytes.size(), kUniqueIdBytes));
  }
  Reader in(bytes);
  if (in.text(kIdMagic.size()) != kIdMagic) {
    throw no_id("these bytes are no id that symm_unique_id() has made");
  }
  Stamp stamp;
  stamp.number = in.number<uint8_t>();
  in.numbers(stamp.library);
  if (stamp.number != layouts::unique_id.number) {
    throw Error(
        Status::unsupported, "config.id: " + both_stamps(layouts::unique_id, stamp, "its maker"));
  }

  const size_t hashed = kUniqueIdBytes - sizeof(uint64_t);
  if (Reader(bytes.subspan(hashed)).number<uint64_t>() != fnv1a(bytes.first(hashed))) {
    throw no_id("was changed on its way, or its end was cut off");
  }

  UniqueId id;
  uint8_t length = 0;
  in.numbers(id.scope, id.first, id.time_ns, id.second, id.machine, id.user, id.port, length);
  if (static_cast<uint8_t>(id.scope) >= kScopes || length > kLongestHost) {
    throw no_id("these bytes are no id that symm_unique_id() has made");
  }
  id.host = printable(in.text(length));
  return id;
}

std::string description_of(const UniqueId& id) { return format("id:%016lx", id.first); }

uint64_t this_machine() { return fnv1a(process::boot_id()); }

std::string name_of_note(const UniqueId& id) {
  return format("%s%016lx-%016lx-%016lx", kNotePrefix, id.first, id.time_ns, id.second);
}

// The address that SYMM_ID_ADDRESS names, or the one by which other machines reach this one.
// `scope` becomes no_address if there is none.
TcpPlace place_to_listen(Scope& scope) {
  TcpPlace place;
  const std::string asked = environment("SYMM_ID_ADDRESS");
  if (asked.empty()) {
    try {
      place.host = outside_address();
    } catch (const Error& error) {
      log::write(log::Level::info, "an id is for this machine only: %s", error.what());
      scope = Scope::no_address;
    }
    return place;
  }

  const bool has_port = asked.starts_with("[") ? asked.find("]:") != std::string::npos
                                               : std::count(asked.begin(), asked.end(), ':') == 1;
  try {
    place = parse_tcp_place(has_port ? asked : asked + ":1", "SYMM_ID_ADDRESS");
  } catch (const Error&) {
    place.host.clear();
  }
  if (!has_port) place.port = 0;
  if (place.host.empty() || place.host.size() > kLongestHost) {
    throw Error(Status::invalid_argument,
        format("SYMM_ID_ADDRESS is '%s'; it must be 'machine', a host of at most %zu bytes, or "
               "host:port",
            asked.c_str(), kLongestHost));
  }
  return place;
}

// Why the ranks cannot meet by TCP, or Scope::machines.
Scope scope_of_this_process() {
  if (environment("SYMM_ID_ADDRESS") == kThisMachine) return Scope::asked;
  if (!can_authenticate()) return Scope::no_sodium;
  try {
    read_secret();
    return Scope::machines;
  } catch (const Error& error) {
    log::write(log::Level::info, "an id is for this machine only: %s", error.what());
    return Scope::no_secret;
  }
}

const char* reason(Scope scope) {
  switch (scope) {
    case Scope::asked: return "SYMM_ID_ADDRESS=machine said so";
    case Scope::no_sodium: return "the library there was built without libsodium";
    case Scope::no_secret: return "the secret could not be read there";
    case Scope::no_address: return "that machine has no address but its loopback";
    case Scope::machines: break;
  }
  return "";
}

// Says in the directory of this user that the id is good.
void leave_note(const UniqueId& id) {
  const std::string parent = default_parent();
  const Fd directory = open_private_directory(parent, true);
  sweep(parent, Sweep::with_jobs);
  const std::string name = name_of_note(id);
  const uint64_t until_ns = process::boot_time_ns() + kLifeMs * kMillisecondNs;
  if (symlinkat((expiry(until_ns) + "id").c_str(), directory.get(), name.c_str()) != 0) {
    throw system_error(errno, "symlink", parent + "/" + name);
  }
}

Error used_up(const UniqueId& id, const std::string& where) {
  return no_id(
      format("%s is not known in %s (any more): its group has been formed, or it is "
             "older than a day, or was made where XDG_RUNTIME_DIR is another directory; "
             "an id serves for one group",
          description_of(id).c_str(), where.c_str()));
}

void require_this_machine_and_user(const UniqueId& id) {
  if (id.machine != this_machine()) {
    throw Error(Status::unavailable,
        format("config.id: %s was made on %s, which is another machine or has been started anew, "
               "for ranks of that machine only: %s",
            description_of(id).c_str(), id.host.c_str(), reason(id.scope)));
  }

  if (id.user != geteuid()) {
    throw Error(Status::unavailable,
        format("config.id: %s was made by user %u, and this process is user %u's: the ranks of a "
               "machine belong to one user",
            description_of(id).c_str(), id.user, geteuid()));
  }
}

std::unique_ptr<Store> open_in_directory(
    const UniqueId& id, int rank, int size, Deadline deadline) {
  require_this_machine_and_user(id);
  const std::string parent = default_parent();
  const Fd directory = open_private_directory(parent, true);
  const std::string note = name_of_note(id);
  const std::string text = read_note(directory.get(), note.c_str());
  if (text.empty() || has_expired(text)) throw used_up(id, parent);

  DirectoryRendezvousConfig config;
  config.base = format("%s/%sid-%016lx%016lx", parent.c_str(), kJobPrefix, id.first, id.second);
  config.description = description_of(id);
  config.rank = rank;
  config.size = size;
  config.remove_base = true;
  auto store = std::make_unique<DirStore>(std::move(config), deadline);
  // All ranks have come. Of two groups that meet at once by one id, the first takes the note.
  if (rank == 0 && unlinkat(directory.get(), note.c_str(), 0) != 0) {
    const Error failure =
        errno == ENOENT ? used_up(id, parent) : system_error(errno, "unlink", parent + "/" + note);
    store->tell(failure.failure());
    throw Error(failure);
  }
  return store;
}
}  // namespace

Bytes make_unique_id() {
  UniqueId id;
  id.first = process::random64();
  id.time_ns = process::boot_time_ns();
  id.second = process::random64();
  id.machine = this_machine();
  id.user = geteuid();

  id.scope = scope_of_this_process();
  const TcpPlace place = id.scope == Scope::machines ? place_to_listen(id.scope) : TcpPlace{};
  if (id.scope == Scope::machines) {
    id.host = place.host;
    id.port = listen_for_creation(place, id.first);
  } else {
    id.host = host_name().substr(0, kLongestHost);
    leave_note(id);
  }
  return encode(id);
}

std::string name_of_id(std::span<const std::byte> id) { return description_of(decode(id)); }

std::unique_ptr<Store> open_by_id(
    std::span<const std::byte> bytes, int rank, int size, Deadline deadline) {
  const UniqueId id = decode(bytes);
  if (id.port == 0) return open_in_directory(id, rank, size, deadline);
  return open_tcp_store({id.host, id.port}, id.first, rank, size, description_of(id), deadline,
      ServedBy::maker_of_id);
}
}  // namespace symm
