// The bytes of a ticket, and the packets between a newcomer and a member that asks for it. All
// that comes is checked before it is believed, though only processes of this user can send it.
#include "core/group/ticket.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/hash.hpp"
#include "core/base/layouts.hpp"
#include "core/base/little_endian.hpp"
#include "core/base/peer_fd.hpp"
#include "core/base/process.hpp"
#include "core/base/text.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/store.hpp"
#include "core/mesh/groups.hpp"
#include "core/socket/directory.hpp"
#include "core/socket/fdpass.hpp"
#include "core/socket/socket.hpp"

namespace symm {
namespace {
constexpr std::string_view kTicketMagic = "symmtick";
constexpr char kSocket[] = "newcomer";  // in the directory of a newcomer
constexpr uint64_t kAskMs = 1'000;      // for a member to ask, once it has connected
constexpr uint64_t kLookMs = 5;         // between two looks for newcomers
constexpr size_t kLongestText = 1'024;  // of a packet
constexpr size_t kMostPacket = 4'096;

// In a ticket, in this order: magic, number of the layout, version of the maker's library (those
// three are equal in all versions), pool, until_ns, machine, user, the lengths of the two texts,
// the texts, zeros, and a hash of all that.
constexpr size_t kTicketFixed = kTicketMagic.size() + sizeof(uint16_t) + sizeof(uint32_t) +
                                3 * sizeof(uint64_t) + sizeof(uint32_t) + 2 * sizeof(uint16_t) +
                                sizeof(uint64_t);

uint64_t this_machine() { return fnv1a(process::boot_id()); }

Error no_ticket(const std::string& why) { return {Status::invalid_argument, "ticket: " + why}; }

// Begins the names of the directories of a pool's newcomers.
std::string prefix_of(uint64_t pool) {
  constexpr uint64_t kNewcomers = 0x6e657763'6f6d6572;
  return format("%s%016lx", kSharedPrefix, mix(kNewcomers, pool));
}
}  // namespace

Bytes make_ticket(uint64_t pool, const std::string& group, uint64_t lifetime_ms) {
  const std::string parent = default_parent();
  open_private_directory(parent, true);
  if (kTicketFixed + parent.size() + group.size() > kTicketBytes) {
    throw Error(Status::unavailable,
        format("a ticket has room for the path of a directory of at most %zu bytes, and "
               "XDG_RUNTIME_DIR makes it '%s'",
            kTicketBytes - kTicketFixed - group.size(), parent.c_str()));
  }
  const uint64_t life_ns = nanoseconds_of(lifetime_ms);
  const uint64_t now_ns = process::boot_time_ns();
  const uint64_t until_ns = life_ns > UINT64_MAX - now_ns ? 0 : now_ns + life_ns;

  Writer out;
  out.text(std::string(kTicketMagic));
  out.numbers(layouts::ticket.number, layouts::library, pool, lifetime_ms == 0 ? 0 : until_ns,
      this_machine(), static_cast<uint32_t>(geteuid()), static_cast<uint16_t>(parent.size()),
      static_cast<uint16_t>(group.size()));
  out.text(parent);
  out.text(group);
  out.bytes_.resize(kTicketBytes - sizeof(uint64_t));
  out.number(fnv1a(out.bytes_));
  return std::move(out.bytes_);
}

Ticket read_ticket(std::span<const std::byte> bytes) {
  if (bytes.size() != kTicketBytes) {
    throw Error(Status::invalid_argument,
        format("ticket_bytes: is %zu, and a ticket has %zu", bytes.size(), kTicketBytes));
  }
  Reader in(bytes);
  if (in.text(kTicketMagic.size()) != kTicketMagic) {
    throw no_ticket("these bytes are no ticket that symm_group_invite() has made");
  }
  Stamp stamp;
  stamp.number = in.number<uint16_t>();
  in.numbers(stamp.library);
  if (stamp.number != layouts::ticket.number) {
    throw Error(Status::unsupported, "ticket: " + both_stamps(layouts::ticket, stamp, "its maker"));
  }

  const size_t hashed = kTicketBytes - sizeof(uint64_t);
  if (Reader(bytes.subspan(hashed)).number<uint64_t>() != fnv1a(bytes.first(hashed))) {
    throw no_ticket("was changed on its way");
  }

  Ticket ticket;
  uint64_t machine = 0;
  uint32_t user = 0;
  uint16_t parent_size = 0;
  uint16_t group_size = 0;
  in.numbers(ticket.pool, ticket.until_ns, machine, user, parent_size, group_size);
  if (kTicketFixed + parent_size + group_size > kTicketBytes) {
    throw no_ticket("these bytes are no ticket that symm_group_invite() has made");
  }
  ticket.parent = in.text(parent_size);
  ticket.group = printable(in.text(group_size));

  if (machine != this_machine()) {
    throw Error(Status::unavailable,
        "ticket: was made on another machine, or before this one was started anew; newcomers "
        "come from the machine of the group");
  }
  if (user != geteuid()) {
    throw Error(Status::unavailable,
        format("ticket: was made by user %u, and this process is user %u's: the ranks of a machine "
               "belong to one user",
            user, geteuid()));
  }
  if (ticket.until_ns != 0 && process::boot_time_ns() >= ticket.until_ns) {
    throw no_ticket("has expired");
  }
  return ticket;
}

// ---- packets

namespace {
enum class Kind : uint8_t {
  ask = 1,   // of a member: is the newcomer there? Body: pool.
  here = 2,  // of the newcomer. No body.
  offer = 3  // of the member. Body: RankOffer, whose texts have their lengths before them.
};

constexpr uint32_t kPacketMagic = 0x6b746d73;  // "smtk"
constexpr size_t kPacketHead = 2 * sizeof(uint32_t) + sizeof(uint16_t) + sizeof(uint8_t);
static_assert(kOfferFixed == 6 * sizeof(uint32_t) + 6 * sizeof(uint64_t) + 2 * sizeof(uint16_t));

Writer begin_packet(Kind kind) {
  Writer out;
  out.numbers(kPacketMagic, layouts::ticket.number, layouts::library, static_cast<uint8_t>(kind));
  return out;
}

bool send_packet(const PeerFd& socket, const Writer& packet) {
  return fdpass::send(socket.get(), packet.bytes_, {}) == fdpass::Sent::done;
}

enum class Heard { packet, nothing, end };

// Takes a packet of that kind, and its body. Whatever else comes is the end.
Heard hear_packet(const PeerFd& socket, Kind kind, Bytes& body) {
  std::array<std::byte, kMostPacket> buffer;
  const fdpass::Received received = fdpass::receive(socket.get(), buffer);
  if (received.what == fdpass::Received::What::nothing) return Heard::nothing;
  if (received.what == fdpass::Received::What::closed || received.too_long ||
      received.fds_arrived != 0 || received.size < kPacketHead) {
    return Heard::end;
  }

  Reader in({buffer.data(), received.size});
  const auto magic = in.number<uint32_t>();
  const auto number = in.number<uint16_t>();
  in.number<uint32_t>();
  const auto got = in.number<uint8_t>();
  if (magic != kPacketMagic || number != layouts::ticket.number ||
      got != static_cast<uint8_t>(kind)) {
    return Heard::end;
  }
  body.assign(in.rest().begin(), in.rest().end());
  return Heard::packet;
}

// Waits for a packet of that kind; false if none comes.
bool await_packet(const PeerFd& socket, Kind kind, Bytes& body, Deadline deadline) {
  for (;;) {
    pollfd look{socket.get(), POLLIN, 0};
    if (!poll_until({&look, 1}, deadline)) return false;
    const Heard heard = hear_packet(socket, kind, body);
    if (heard != Heard::nothing) return heard == Heard::packet;
  }
}

Writer packet_of(const RankOffer& offer) {
  Writer out = begin_packet(Kind::offer);
  write_offer(out, offer);
  return out;
}

bool read_whole_offer(const Bytes& body, RankOffer& offer) {
  Reader in(body);
  return read_offer(in, offer) && in.left() == 0;
}
}  // namespace

void write_offer(Writer& out, const RankOffer& offer) {
  out.numbers(offer.rank, offer.size, offer.asker, offer.first_spare, offer.backend, offer.channels,
      offer.deadline_ms, offer.pool, offer.flags, offer.scratch_bytes, offer.create_timeout_ms,
      offer.timeout_ms, static_cast<uint16_t>(offer.place.size()),
      static_cast<uint16_t>(offer.name.size()));
  out.text(offer.place);
  out.text(offer.name);
}

bool read_offer(Reader& in, RankOffer& offer) {
  if (in.left() < kOfferFixed) return false;
  uint16_t place_size = 0;
  uint16_t name_size = 0;
  in.numbers(offer.rank, offer.size, offer.asker, offer.first_spare, offer.backend, offer.channels,
      offer.deadline_ms, offer.pool, offer.flags, offer.scratch_bytes, offer.create_timeout_ms,
      offer.timeout_ms, place_size, name_size);
  const size_t texts = size_t{place_size} + name_size;
  if (in.left() < texts || texts > kLongestText) return false;

  offer.place = in.text(place_size);
  offer.name = printable(in.text(name_size));
  return offer.size >= 1 && offer.size <= kMostRanks && offer.rank >= 0 &&
         offer.rank < offer.size && offer.asker >= 0 && offer.asker < offer.size &&
         offer.first_spare >= -1 && offer.first_spare < kMostRanks &&
         (offer.backend == static_cast<int32_t>(BackendKind::host) ||
             offer.backend == static_cast<int32_t>(BackendKind::cuda));
}

// ---- a newcomer

bool Accepted::is_over() const {
  pollfd look{member.get(), POLLIN, 0};
  return poll_until({&look, 1}, Deadline::after_ms(0));
}

Newcomer::Newcomer(const Ticket& ticket)
    : pool_(ticket.pool),
      place_(SharedDirectory::make(ticket.parent, prefix_of(ticket.pool))),
      listener_(place_->path(), kSocket) {}

Accepted Newcomer::await_offer(Deadline deadline) {
  uint64_t refused = 0;
  for (;;) {
    pollfd queue{listener_.get(), POLLIN, 0};
    if (!poll_until({&queue, 1}, deadline)) {
      throw Error(Status::timeout, "no member made a place for this process before the deadline");
    }

    Accepted accepted;
    accepted.member = listener_.accept(refused);
    if (accepted.member && answer(accepted.member, accepted.offer, deadline)) return accepted;
  }
}

bool Newcomer::answer(PeerFd& member, RankOffer& offer, Deadline deadline) const {
  Bytes body;
  const Deadline patience = std::min(deadline, Deadline::after_ms(kAskMs));
  if (!await_packet(member, Kind::ask, body, patience) || body.size() != sizeof pool_ ||
      Reader(body).number<uint64_t>() != pool_) {
    return false;
  }

  SYMM_POINT("newcomer.asked");
  if (!send_packet(member, begin_packet(Kind::here))) return false;
  SYMM_POINT("newcomer.answered");
  return await_packet(member, Kind::offer, body, deadline) && read_whole_offer(body, offer) &&
         offer.pool == pool_;
}

// ---- a member that looks for newcomers

Newcomers::Newcomers(uint64_t pool) : pool_(pool), parent_(default_parent()) {
  sweep(parent_);  // what newcomers left that were killed
}

// Asks those whose directories were not there at the last look.
void Newcomers::call() {
  const Fd parent = open_private_directory(parent_, true);
  const std::string prefix = prefix_of(pool_) + "-";
  std::vector<std::string> names;
  list_directory(parent.get(), [&](const char* name) {
    const auto is_it = [&](const Ready& one) { return one.name == name; };
    const bool is_known = std::any_of(asked_.begin(), asked_.end(), is_it) ||
                          std::any_of(ready_.begin(), ready_.end(), is_it);
    if (!is_known && std::string_view(name).starts_with(prefix)) names.emplace_back(name);
  });

  for (std::string& name : names) {
    Ready one;
    try {
      one.socket = dial(parent_ + "/" + name, kSocket);
      if (one.socket) one.pid = identify(one.socket.get()).pid;
    } catch (const Error& error) {
      // It has gone, or does not listen yet. What this process lacks is an error of its own.
      const bool is_gone = error.status() == Status::peer_failed ||
                           error.failure().os_error == ENOENT ||
                           error.status() == Status::unavailable;
      if (!is_gone) throw;
      continue;
    }

    Writer ask = begin_packet(Kind::ask);
    ask.number(pool_);
    one.name = std::move(name);
    if (one.socket && send_packet(one.socket, ask)) asked_.push_back(std::move(one));
  }
}

bool Newcomers::gather(size_t count, Deadline deadline) {
  const auto is_gone = [](const Ready& one) {
    pollfd look{one.socket.get(), POLLIN, 0};
    return poll_until({&look, 1}, Deadline::after_ms(0));
  };
  std::erase_if(ready_, is_gone);

  while (ready_.size() < count) {
    call();
    std::vector<pollfd> fds;
    for (const Ready& one : asked_) {
      fds.push_back({one.socket.get(), POLLIN, 0});
    }
    poll_until(fds, std::min(deadline, Deadline::after_ms(kLookMs)));

    // The names sort by the time at which the newcomers began to wait.
    std::erase_if(asked_, [&](Ready& one) { return hear(one); });
    std::sort(ready_.begin(), ready_.end(),
        [](const Ready& a, const Ready& b) { return a.name < b.name; });
    if (ready_.size() < count && deadline.expired()) return false;
  }
  return true;
}

// Whether it need not be heard any more: it is ready now, or it has gone.
bool Newcomers::hear(Ready& newcomer) {
  Bytes body;
  const Heard heard = hear_packet(newcomer.socket, Kind::here, body);
  if (heard == Heard::packet) ready_.push_back(std::move(newcomer));
  return heard != Heard::nothing;
}

void Newcomers::offer(const Ready& newcomer, const RankOffer& offer) const {
  send_packet(newcomer.socket, packet_of(offer));
}

void Newcomers::require_there() const {
  for (const Ready& one : ready_) {
    pollfd look{one.socket.get(), POLLIN, 0};
    if (one.rank < 0 || !poll_until({&look, 1}, Deadline::after_ms(0))) continue;
    throw Error({Status::peer_failed, one.rank, one.pid,
        name_of_peer(one.rank, one.pid) + ", a newcomer, died or gave up while the group grew"});
  }
}
}  // namespace symm
