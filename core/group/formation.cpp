// Forms a group: finds the ranks, connects them, opens the back end, and exchanges what its
// transport needs. A group that one rank fails to form is formed on no rank.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/numa.hpp"
#include "core/backends.hpp"
#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/hash.hpp"
#include "core/base/log.hpp"
#include "core/base/page.hpp"
#include "core/base/process.hpp"
#include "core/base/text.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/bootstrap.hpp"
#include "core/group/checks.hpp"
#include "core/group/exchange.hpp"
#include "core/group/flags.hpp"
#include "core/group/group.hpp"
#include "core/group/launched_spares.hpp"
#include "core/group/stragglers.hpp"
#include "core/mesh/mesh.hpp"
#include "core/mesh/peer_link.hpp"
#include "core/multinode/transport.hpp"
#include "symm/symm.h"

namespace symm {
namespace {
// The sequence of the first exchange. The sequences of rendezvous never get so high.
constexpr uint64_t kCreation = INT64_MAX;

// A number that is equal on ranks whose devices are in one NVLink domain and can share memory
// in it; 0 if there is no such domain.
uint64_t domain_key(const Backend& backend) {
  std::string why;
  const std::string domain = backend.domain(why);
  if (backend.kind() == BackendKind::cuda) {
    const bool has = !domain.empty();
    log::write(log::Level::debug, "device %d: %s%s", backend.device(),
        has ? "NVLink domain " : "memory of other hosts cannot be mapped: ",
        has ? domain.c_str() : why.c_str());
  }
  return domain.empty() ? 0 : fnv1a(std::string_view(domain)) | 1U;
}

// The facts in a rank's vote, by their place in Vote::value.
struct Fact {
  enum : size_t {
    backend,
    machine,
    members,
    channels,
    scratch_bytes,
    flags,
    added_flags,
    removed_flags,
    create_timeout_ms,
    timeout_ms,
    name,
    domain,
  };
};

// Thrown by all ranks alike when the vote says that they are on other machines than those for
// which the transport was made. The ranks begin again.
struct SeveralMachines {};

PeerFacts own_facts(const Backend& backend) {
  PeerFacts facts{.backend = static_cast<int32_t>(backend.kind()), .device = backend.device()};
  gethostname(facts.host, sizeof facts.host - 1);
  const std::string_view named = environment("SYMM_MACHINE");
  write_text(facts.machine, named.empty() ? process::boot_id() : std::string(named));
  const symm_device_info_t device = device_info(backend.kind(), backend.device());
  write_text(facts.uuid, std::string(device.uuid));
  write_text(facts.bus, bus_of(backend.kind(), backend.device()));
  const bool on_host = backend.kind() == BackendKind::host;
  facts.numa_node = on_host ? host::node_of_processors() : device.numa_node;
  Stragglers::name_revoked(facts.revoked);
  return facts;
}

// Makes safe what a peer sent: texts end, and have no control characters.
PeerFacts cleaned(PeerFacts facts) {
  const auto clean = [](auto& text) {
    text[sizeof text - 1] = '\0';
    std::replace_if(std::begin(text), std::begin(text) + std::strlen(text), is_control, ' ');
  };
  clean(facts.host);
  clean(facts.machine);
  clean(facts.uuid);
  clean(facts.bus);
  return facts;
}

// The NVLink domain of all ranks on the host of `rank`; 0 if they are not all in one.
uint64_t domain_of_host(std::span<const Vote> votes, size_t rank) {
  const uint64_t domain = votes[rank].value[Fact::domain];
  const auto differs = [&](const Vote& other) {
    return other.value[Fact::machine] == votes[rank].value[Fact::machine] &&
           other.value[Fact::domain] != domain;
  };
  if (domain == 0 || std::any_of(votes.begin(), votes.end(), differs)) return 0;
  return domain;
}

// Numbers each rank's host and its machine, in the order of their lowest ranks. Hosts in one
// NVLink domain are one machine. Allocates nothing, which could fail on this rank alone.
void number_machines(Machines& machines, std::span<const Vote> votes) {
  int hosts = 0;
  machines.count = 0;
  for (size_t rank = 0; rank < votes.size(); ++rank) {
    size_t first = 0;
    while (votes[first].value[Fact::machine] != votes[rank].value[Fact::machine]) {
      ++first;
    }
    machines.host_of[rank] = first == rank ? hosts++ : machines.host_of[first];

    const uint64_t domain = first == rank ? domain_of_host(votes, rank) : 0;
    for (size_t other = 0; domain != 0 && other < first; ++other) {
      if (domain_of_host(votes, other) == domain) first = other;
    }
    machines.machine_of[rank] = first == rank ? machines.count++ : machines.machine_of[first];
  }
}

// `source` is the name of the caller's struct in messages.
void require_equal_facts(std::span<const Vote> votes, const char* source) {
  constexpr std::pair<const char*, size_t> kNumbers[] = {
      {"channels", Fact::channels},
      {"scratch_bytes", Fact::scratch_bytes},
      {"flags", Fact::added_flags},
      {"remove_flags", Fact::removed_flags},
      {"create_timeout_ms", Fact::create_timeout_ms},
      {"group_timeout_ms", Fact::timeout_ms},
  };

  const auto& first = votes[0].value;
  for (size_t peer = 0; peer < votes.size(); ++peer) {
    const int rank = static_cast<int>(peer);
    const auto& theirs = votes[peer].value;
    if (theirs[Fact::backend] != first[Fact::backend]) {
      throw Error({Status::mismatch, rank, 0,
          format("config.backend: rank %d has another back end than rank 0", rank)});
    }
    if (theirs[Fact::members] != first[Fact::members]) {
      throw Error({Status::mismatch, rank, 0, "ranks: not all name them in the same order"});
    }
    for (const auto& [name, fact] : kNumbers) {
      if (theirs[fact] == first[fact]) continue;
      throw Error({Status::mismatch, rank, 0,
          format("%s.%s: rank 0 has %lu, rank %d has %lu", source, name, first[fact], rank,
              theirs[fact])});
    }
    if (theirs[Fact::name] != first[Fact::name]) {
      throw Error({Status::mismatch, rank, 0,
          format("%s.name: rank %d has another name than rank 0", source, rank)});
    }

    const uint64_t differing = theirs[Fact::flags] ^ first[Fact::flags];
    if (differing != 0) {
      const uint64_t bit = differing & ~(differing - 1);
      throw Error({Status::mismatch, rank, 0,
          format("%s.flags & %s: rank 0 has %d, rank %d has %d", source, flag_name(bit),
              (first[Fact::flags] & bit) != 0 ? 1 : 0, rank,
              (theirs[Fact::flags] & bit) != 0 ? 1 : 0)});
    }
  }
}
}  // namespace

Group::Group(
    std::shared_ptr<Mesh> mesh, std::vector<int> members, uint64_t id, const std::string& name)
    : mesh_(std::move(mesh)), members_(std::move(members)), id_(id), pool_(id), addresses_(rank_) {
  size_ = static_cast<int>(members_.size());
  machines_.machine_of.resize(members_.size());
  machines_.host_of.resize(members_.size());
  rank_ = static_cast<int>(
      std::find(members_.begin(), members_.end(), mesh_->rank()) - members_.begin());

  std::vector<int64_t> pids(members_.size());
  for (int rank = 0; rank < size_; ++rank) {
    pids[static_cast<size_t>(rank)] = identity(rank).host.empty() ? identity(rank).pid : 0;
  }
  revocation_ = std::make_shared<Revocation>(
      size_, std::make_shared<Page>(mesh_->nonce(), id_, rank_, name, pids));
  past_ = Stragglers::of(*this);
}

GroupConfig Group::completed(GroupConfig config) {
  if (config.create_timeout_ms == 0) {
    config.create_timeout_ms = milliseconds("SYMM_CREATE_TIMEOUT_MS");
  }
  if (config.timeout_ms == 0) config.timeout_ms = milliseconds("SYMM_TIMEOUT_MS");
  if (config.channels == 0) config.channels = kDefaultChannels;
  require_channels(config.channels, "config.channels");

  if (is_on("SYMM_CHECK") && !config.no_check) config.check = true;
  if (is_on("SYMM_MULTICAST") && !config.no_multicast) config.multicast = true;
  const std::string_view order = one_of("SYMM_ORDER", {"ranks", "any", "tree"});
  if (!config.any_order && !config.rank_order && !config.tree_order) {
    config.any_order = order == "any";
    config.tree_order = order == "tree";
  }
  symm::number("SYMM_SPIN");  // refused before ranks meet, and not on the way
  if (config.bootstrap.empty()) config.bootstrap = environment("SYMM_BOOTSTRAP");
  return config;
}

std::shared_ptr<Group> Group::create(const GroupConfig& asked) {
  const Trace traced(nullptr, "group_create");
  if (is_launched_spare(asked)) return join_launched(asked);
  const GroupConfig config = completed(asked);
  const Deadline deadline = Deadline::after_ms(config.create_timeout_ms);
  const BootstrapResult result = symm::bootstrap(
      {config.bootstrap, config.callbacks, config.rank, config.size, config.name, config.id,
          asked.bootstrap.empty() ? "SYMM_BOOTSTRAP" : "config.bootstrap"},
      deadline);

  std::shared_ptr<Mesh> mesh;
  std::vector<int> members;
  try {
    members.resize(static_cast<size_t>(result.size));
    mesh = Mesh::connect(*result.store, result.rank, result.size, config.name, deadline);
  } catch (...) {
    result.store->tell(current_failure());
    throw;
  }
  for (int rank = 0; rank < result.size; ++rank) {
    members[static_cast<size_t>(rank)] = rank;
  }
  const uint64_t id = mesh->nonce();
  auto made = form(mesh, std::move(members), id, config, {}, nullptr, result.description, deadline);
  if (is_launched(asked)) leave_ticket(*made);
  return made;
}

std::shared_ptr<Group> Group::form(const std::shared_ptr<Mesh>& mesh, std::vector<int> members,
    uint64_t id, const GroupConfig& config, const SubgroupOptions& options,
    std::shared_ptr<Backend> inherited, const std::string& bootstrap, Deadline deadline,
    std::shared_ptr<Group> lender, const Maker& maker) {
  std::shared_ptr<Group> group;
  std::shared_ptr<void> listener;
  try {
    group.reset(new Group(mesh, std::move(members), id, config.name));
    group->config_ = config;
    group->asked_ = options;
    group->bootstrap_ = bootstrap;
    group->backend_ = std::move(inherited);
    group->lender_ = std::move(lender);
    group->maker_ = maker;
    mesh->attach(id, group->members_, group->revocation_);
    if (maker.group != nullptr) {
      listener = maker.group->revocation_->listen([&] { group->end_with(*maker.group); });
    }
  } catch (...) {
    mesh->broadcast_failure(id, current_failure());
    throw;
  }

  try {
    SYMM_POINT("group.attached");
    group->connect_transport(deadline);
  } catch (const std::exception& error) {
    group->give_up(error);  // a rank that already succeeded learns that this one did not
  }

  group->maker_ = {};
  group->asked_ = {};
  Page::set((*group->revocation_->page())->backend, static_cast<int64_t>(group->backend_->kind()));
  Stragglers::met(*group);
  log::write(log::Level::info, "group %016lx '%s': rank %d of %d, %s", id, group->name().c_str(),
      group->rank_, group->size_, group->bootstrap_.c_str());
  return group;
}

// A number that is equal on ranks between which descriptors can travel, and that have the same
// SYMM_MACHINE. The mesh decides machine by machine where descriptors travel, so the lowest rank
// that they can come from stands for its machine.
uint64_t Group::machine_key() const {
  int first = 0;
  while (!mesh_->carries_descriptors(members_[static_cast<size_t>(first)])) {
    ++first;
  }
  return mix(
      fnv1a(std::string_view(environment("SYMM_MACHINE"))), static_cast<uint64_t>(first) + 1);
}

TransportContext Group::transport_context(Deadline deadline) {
  TransportContext context;
  static_cast<TransportOptions&>(context) = config_;
  context.rank = rank_;
  context.size = size_;
  context.group = id_;
  context.machines = machines_;
  context.addresses = mesh_->addresses();
  context.until = deadline;
  context.revocation = revocation_;
  context.fail = [this](const Failure& failure) { fail(failure); };
  context.is_left_over = [this] { return requests_->is_left_over(); };
  context.directory = &addresses_;

  for (int peer = 0; peer < size_; ++peer) {
    context.pids.push_back(identity(peer).pid);
  }
  if (lender_) {
    context.lender = lender_->transport_->lender();
    for (int rank = 0; rank < size_; ++rank) {
      context.lender_ranks.push_back(lender_->rank_of(*this, rank));
    }
  }
  return context;
}

// Makes this rank's half of the transport, and the facts that the others need about it.
Offer Group::prepare_transport(bool inherits_backend, Deadline deadline) {
  if (!inherits_backend) {
    transport_.reset();
    backend_ = open_backend(config_.backend, config_.device, machines_.host_rank(rank_));
  }
  if (config_.shared_scratch && backend_->kind() == BackendKind::host) {
    throw Error(Status::unsupported,
        format("%s.flags: SYMM_GROUP_SHARED_SCRATCH, but on the host ranks read each other's "
               "scratch after a call",
            inherits_backend ? "options" : "config"));
  }
  TransportContext context = transport_context(deadline);
  transport_ = machines_.count > 1 ? multinode::open(*backend_, std::move(context))
                                   : backend_->make_transport(std::move(context));

  PeerFacts& facts = facts_[static_cast<size_t>(rank_)];
  facts = own_facts(*backend_);
  Offer offer;
  offer.value[Fact::backend] = static_cast<uint64_t>(backend_->kind());
  offer.value[Fact::machine] = machine_key();
  offer.value[Fact::domain] = domain_key(*backend_);
  offer.value[Fact::members] = fnv1a(std::as_bytes(std::span(members_)));
  offer.value[Fact::channels] = static_cast<uint64_t>(config_.channels);
  offer.value[Fact::scratch_bytes] = config_.scratch_bytes;
  offer.value[Fact::flags] = flags_of(config_) & ~kOwnFlags;
  offer.value[Fact::added_flags] = asked_.flags;
  offer.value[Fact::removed_flags] = asked_.remove_flags;
  offer.value[Fact::create_timeout_ms] = asked_.create_timeout_ms;
  offer.value[Fact::timeout_ms] = asked_.timeout_ms;
  offer.value[Fact::name] =
      asked_.name != nullptr ? fnv1a(std::string_view(printable(asked_.name))) : 0;
  offer.message = transport_->share();
  append(offer.message, facts);
  return offer;
}

// Takes the message that a peer has prepared: the facts are its end, the rest is for
// the transport.
void Group::connect_peer(int peer, Message message) {
  PeerFacts& facts = facts_[static_cast<size_t>(peer)];
  std::memcpy(&facts, message.body.data() + message.body.size() - sizeof facts, sizeof facts);
  facts = cleaned(facts);
  message.body.resize(message.body.size() - sizeof facts);
  transport_->connect(peer, std::move(message), identity(peer));
}

void Group::connect_transport(Deadline deadline) {
  facts_.resize(members_.size());
  const bool inherits_backend = backend_ != nullptr;
  // The machines for which the transport was made. Hosts decide which device a rank has, and
  // devices in which domain it is; so ranks may have to begin again twice.
  Machines made_for;
  constexpr uint64_t kRounds = 3;
  uint64_t round = 0;

  Phases phases;
  phases.prepare = [&] {
    made_for = machines_;
    return prepare_transport(inherits_backend, deadline);
  };
  phases.agree = [&](std::span<const Vote> votes) {
    number_machines(machines_, votes);
    require_equal_facts(votes, inherits_backend ? "options" : "config");
    if (machines_ == made_for) return;
    if (round + 1 < kRounds) throw SeveralMachines();
    throw Error(Status::mismatch, "the NVLink domains of devices change while a group is formed");
  };
  phases.accept = [&](int peer, Message message) { connect_peer(peer, std::move(message)); };
  phases.finish = [&] { finish_transport(); };

  for (bool is_formed = false; !is_formed; ++round) {
    try {
      exchange(*this, MessageKind::control, 0, kCreation - round, phases, deadline);
      is_formed = true;
    } catch (const SeveralMachines&) {
      continue;
    }
  }
}

void Group::finish_transport() {
  transport_->ready();
  for (int peer = 0; peer < size_; ++peer) {
    if (!maps(peer) || shares_host(peer)) continue;
    if (auto link = mesh_->link_if_in(members_[static_cast<size_t>(peer)], id_)) {
      distant_.push_back(std::move(link));
    }
  }

  if (!distant_.empty()) {
    log::write(log::Level::info,
        "group %016lx: the hosts of %zu other ranks are in one NVLink domain with this one", id_,
        distant_.size());
  }
}
}  // namespace symm
