// The C ABI of groups: creation, groups made of a group, state and end. It checks and converts
// structs of symm.h; core/group does the work.
#include "core/group/group.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capi/guard.hpp"
#include "capi/handle.hpp"
#include "capi/objects.hpp"
#include "capi/options.hpp"
#include "capi/placement.hpp"
#include "capi/structs.hpp"
#include "core/backend/backend.hpp"
#include "core/backend/stats.hpp"
#include "core/backend/topology.hpp"
#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/bootstrap/store.hpp"
#include "core/bootstrap/unique_id.hpp"
#include "core/group/checks.hpp"
#include "core/group/flags.hpp"
#include "core/group/ticket.hpp"
#include "kernels/types.hpp"
#include "symm/symm.h"

using namespace symm;
using namespace symm::capi;

SYMM_OPTIONS(symm_group_config, config, failure, SYMM_GROUP_CONFIG_INIT)
SYMM_OPTIONS(symm_group_options, options, channels, SYMM_GROUP_OPTIONS_INIT)
SYMM_OPTIONS(symm_invite_options, options, failure, SYMM_INVITE_OPTIONS_INIT)
SYMM_OPTIONS(symm_grow_options, options, count, SYMM_GROW_OPTIONS_INIT)

namespace {
StoreCallbacks callbacks_of(const symm_store_t& given) {
  symm_store_t none{};
  none.struct_size = sizeof none;
  const symm_store_t store =
      read_struct(&given, none, SYMM_FIRST_SIZE(symm_store_t, get), "config.store");
  require(store.set, "config.store.set");
  require(store.get, "config.store.get");
  return {store.user, store.set, store.get};
}

static_assert(static_cast<int32_t>(Locality::other_machine) == SYMM_LOCALITY_OTHER_MACHINE);
static_assert(SYMM_UNIQUE_ID_MAX_BYTES == kUniqueIdBytes);
static_assert(SYMM_TICKET_MAX_BYTES == kTicketBytes);
static_assert(static_cast<int32_t>(GrowOptions::Mode::fill_dead) == SYMM_GROW_FILL_DEAD);
static_assert(static_cast<int32_t>(GrowOptions::Mode::append) == SYMM_GROW_APPEND);
static_assert(static_cast<int32_t>(GrowOptions::Mode::spare) == SYMM_GROW_SPARE);

// The bytes of config.id, one of three ways to say where the ranks meet.
std::vector<std::byte> id_of(const symm_group_config_t& given) {
  if (given.id == nullptr) {
    if (given.id_bytes == 0) return {};
    throw Error(Status::invalid_argument, "config.id: is NULL, but config.id_bytes is not 0");
  }
  if (given.id_bytes == 0) {
    throw Error(Status::invalid_argument, "config.id_bytes: is 0, but config.id is not NULL");
  }
  const bool has_bootstrap = given.bootstrap != nullptr && *given.bootstrap != '\0';
  if (has_bootstrap || given.store != nullptr) {
    throw Error(Status::invalid_argument,
        format("config.id: excludes config.%s", has_bootstrap ? "bootstrap" : "store"));
  }
  if (given.id_bytes > SYMM_UNIQUE_ID_MAX_BYTES) {
    throw Error(
        Status::invalid_argument, format("config.id_bytes: is %zu; an id has at most %d bytes",
                                      given.id_bytes, SYMM_UNIQUE_ID_MAX_BYTES));
  }
  const auto* const bytes = static_cast<const std::byte*>(given.id);
  return {bytes, bytes + given.id_bytes};
}

GroupConfig config_of(const symm_group_config_t& given, StoreCallbacks& callbacks) {
  require_flags(given.flags, "config.flags");
  if (given.backend < SYMM_BACKEND_AUTO || given.backend > SYMM_BACKEND_CUDA) {
    throw not_known("config.backend", given.backend);
  }
  require_waiting(given.create_timeout_ms, "config.create_timeout_ms");
  require_lasting(given.timeout_ms, "config.timeout_ms");
  const bool on_device = (given.flags & SYMM_GROUP_ON_DEVICE) != 0;
  require_with_flag(on_device, static_cast<uint64_t>(int64_t{given.device}), "config.device",
      "SYMM_GROUP_ON_DEVICE");
  if (given.device < 0) {
    throw Error(Status::invalid_argument, format("config.device: %d is negative", given.device));
  }
  if (given.backend == SYMM_BACKEND_HOST && given.device != 0) {
    throw Error(Status::invalid_argument,
        format("config.device: %d, and the host back end has one device, 0", given.device));
  }

  GroupConfig asked;
  if (given.store != nullptr) {
    callbacks = callbacks_of(*given.store);
    asked.callbacks = &callbacks;
  }

  asked.rank = given.rank;
  asked.size = given.size;
  asked.backend = static_cast<BackendKind>(given.backend);
  if (on_device && asked.backend == BackendKind::automatic) asked.backend = BackendKind::cuda;
  asked.device = on_device ? given.device : -1;
  set_flags(asked, given.flags);

  asked.bootstrap = given.bootstrap == nullptr ? "" : given.bootstrap;
  asked.create_timeout_ms = given.create_timeout_ms;
  asked.timeout_ms = given.timeout_ms;
  asked.name = given.name == nullptr ? "" : printable(given.name);
  asked.scratch_bytes = given.scratch_bytes;
  asked.channels = given.channels;
  asked.id = id_of(given);
  return asked;
}

SubgroupOptions subgroup_of(const symm_group_options_t* options) {
  const symm_group_options_t given = read_options(options);
  SubgroupOptions asked;
  asked.call_timeout_ms = given.timeout_ms;
  asked.name = given.name;
  asked.flags = given.flags;
  asked.remove_flags = given.remove_flags;
  asked.scratch_bytes = given.scratch_bytes;
  asked.create_timeout_ms = given.create_timeout_ms;
  asked.timeout_ms = given.group_timeout_ms;
  asked.channels = given.channels;
  return asked;
}
}  // namespace

symm_status_t symm_unique_id(
    const symm_call_options_t* options, void* out_id, size_t capacity, size_t* out_bytes) {
  return produce(options, out_bytes, "out_bytes", [&] {
    check_options(options);
    if (out_id == nullptr) throw Error(Status::invalid_argument, "out_id: is NULL");
    if (capacity < kUniqueIdBytes) {
      throw Error(Status::invalid_argument,
          format("capacity: %zu is less than the %zu bytes of an id", capacity, kUniqueIdBytes));
    }
    const Bytes id = make_unique_id();
    std::memcpy(out_id, id.data(), id.size());
    return id.size();
  });
}

symm_status_t symm_group_create(const symm_group_config_t* config, symm_group_t** out) {
  return produce(config, out, "out", [&] {
    const symm_group_config_t given = read_options(config);
    const EnvironmentAtLoad variables((given.flags & SYMM_GROUP_VARIABLES_AT_LOAD) != 0);
    StoreCallbacks callbacks;
    const GroupConfig asked = config_of(given, callbacks);
    return make_handle<symm_group_t>([&] { return Group::create(asked); });
  });
}

symm_status_t symm_group_split(symm_group_t* group, int32_t color, int32_t key,
    const symm_group_options_t* options, symm_group_t** out) {
  return produce(options, out, "out", [&] {
    const std::shared_ptr<Group> parent = group_of(group);
    const SubgroupOptions asked = subgroup_of(options);
    return make_handle<symm_group_t>([&] { return parent->split(color, key, asked); });
  });
}

symm_status_t symm_group_create_from_ranks(symm_group_t* group, const int32_t* ranks, size_t count,
    const symm_group_options_t* options, symm_group_t** out) {
  return produce(options, out, "out", [&] {
    const std::shared_ptr<Group> parent = group_of(group);
    const SubgroupOptions asked = subgroup_of(options);
    require(ranks, "ranks");
    if (count == 0) throw Error(Status::invalid_argument, "count: is 0");
    return make_handle<symm_group_t>(
        [&] { return parent->create_from_ranks({ranks, count}, asked); });
  });
}

symm_status_t symm_group_local(
    symm_group_t* group, const symm_group_options_t* options, symm_group_t** out) {
  return produce(options, out, "out", [&] {
    const std::shared_ptr<Group> parent = group_of(group);
    const SubgroupOptions asked = subgroup_of(options);
    return make_handle<symm_group_t>([&] { return parent->local(asked); });
  });
}

symm_status_t symm_group_shrink(
    symm_group_t* group, const symm_group_options_t* options, symm_group_t** out) {
  return produce(options, out, "out", [&] {
    const std::shared_ptr<Group> parent = group_of(group);
    const SubgroupOptions asked = subgroup_of(options);
    return make_handle<symm_group_t>([&] { return parent->shrink(asked); });
  });
}

symm_status_t symm_group_invite(symm_group_t* group, const symm_invite_options_t* options,
    void* out_ticket, size_t capacity, size_t* out_bytes) {
  return produce(options, out_bytes, "out_bytes", [&] {
    if (out_ticket == nullptr) throw Error(Status::invalid_argument, "out_ticket: is NULL");
    const symm_invite_options_t given = read_options(options);
    require_lasting(given.lifetime_ms, "options.lifetime_ms");
    if (capacity < kTicketBytes) {
      throw Error(Status::invalid_argument,
          format("capacity: %zu is less than the %zu bytes of a ticket", capacity, kTicketBytes));
    }
    const Bytes ticket = group_of(group)->invite(given.lifetime_ms);
    std::memcpy(out_ticket, ticket.data(), ticket.size());
    return ticket.size();
  });
}

symm_status_t symm_group_join(const void* ticket, size_t ticket_bytes,
    const symm_group_config_t* config, symm_group_t** out) {
  return produce(config, out, "out", [&] {
    if (ticket == nullptr) throw Error(Status::invalid_argument, "ticket: is NULL");
    const auto* const bytes = static_cast<const std::byte*>(ticket);
    const symm_group_config_t given = read_options(config);
    const EnvironmentAtLoad variables((given.flags & SYMM_GROUP_VARIABLES_AT_LOAD) != 0);
    StoreCallbacks callbacks;
    const GroupConfig asked = config_of(given, callbacks);
    return make_handle<symm_group_t>([&] { return Group::join({bytes, ticket_bytes}, asked); });
  });
}

symm_status_t symm_group_grow(
    symm_group_t* group, const symm_grow_options_t* options, symm_group_t** out) {
  return produce(options, out, "out", [&] {
    const std::shared_ptr<Group> parent = group_of(group);
    const symm_grow_options_t given = read_options(options);
    if (given.mode < SYMM_GROW_FILL_DEAD || given.mode > SYMM_GROW_SPARE) {
      throw not_known("options.mode", given.mode);
    }
    const GrowOptions asked{
        given.timeout_ms, static_cast<GrowOptions::Mode>(given.mode), given.count};
    return make_handle<symm_group_t>([&] { return parent->grow(asked); });
  });
}

symm_status_t symm_group_translate_rank(
    symm_group_t* group, symm_group_t* other, int32_t rank, int32_t* out_rank) {
  return produce(out_rank, "out_rank", [&] {
    const Group& there = *slot_of<Group>(other, "other").object;
    there.require_rank("rank", rank);
    const int found = group_of(group)->rank_of(there, rank);
    if (found < 0) throw Error(Status::not_found, "no such rank");
    return found;
  });
}

symm_status_t symm_group_rank(symm_group_t* group, int32_t* out_rank) {
  return guard([&] { require(out_rank, "out_rank") = group_of(group)->rank(); });
}

symm_status_t symm_group_size(symm_group_t* group, int32_t* out_size) {
  return guard([&] { require(out_size, "out_size") = group_of(group)->size(); });
}

symm_status_t symm_group_info(symm_group_t* group, symm_group_info_t* out) {
  return fill_struct(out, SYMM_FIRST_SIZE(symm_group_info_t, engine), [&] {
    const Group& self = *group_of(group);
    symm_group_info_t filled{};
    filled.rank = self.rank();
    filled.size = self.size();
    filled.backend = static_cast<int32_t>(self.backend().kind());
    filled.device = self.backend().device();
    filled.id = self.id();
    filled.flags = flags_of(self.config());
    filled.create_timeout_ms = self.config().create_timeout_ms;
    filled.timeout_ms = self.config().timeout_ms;
    filled.channels = self.channels();
    filled.unwatched_peers = self.unwatched_peers();
    filled.rejected_connections = self.rejected_connections();
    write_text(filled.bootstrap, self.bootstrap());
    write_text(filled.name, self.name());

    const std::string why_no_multicast = self.transport().device().why_no_multicast();
    filled.multicast = why_no_multicast.empty() ? 1 : 0;
    write_text(filled.multicast_reason, why_no_multicast);

    filled.scratch_bytes = self.transport().scratch_bytes();
    filled.shared_scratch_bytes = self.transport().lent_bytes();
    filled.max_ranks = self.transport().max_ranks();
    filled.max_memories = self.transport().device().max_memories();
    filled.max_channels = kMostChannels;
    filled.max_handles = static_cast<int32_t>(Arena<Group>::kSlots);
    filled.max_name_bytes = static_cast<int32_t>(kMostName);

    const Machines& machines = self.machines();
    filled.machines = machines.count;
    filled.machine = machines.machine_of[static_cast<size_t>(self.rank())];
    filled.local_rank = machines.local_rank(self.rank());
    filled.local_size = machines.local_size(self.rank());
    filled.spares = self.spares();
    write_text(filled.engine, self.transport().engine());
    return filled;
  });
}

symm_status_t symm_group_status(symm_group_t* group, symm_failure_t* out) {
  return fill_struct(out, SYMM_FIRST_SIZE(symm_failure_t, message), [&] {
    Group& self = *group_of(group);
    self.transport().device().check_device_errors();
    return struct_of(self.revocation().failure());
  });
}

symm_status_t symm_group_failed_ranks(
    symm_group_t* group, int32_t* out_ranks, size_t capacity, size_t* out_count) {
  return produce(out_count, "out_count", [&] {
    if (out_ranks == nullptr && capacity != 0) {
      throw Error(Status::invalid_argument, "out_ranks: is NULL, but capacity is not 0");
    }
    const std::vector<int> ranks = group_of(group)->gone_ranks();
    std::copy_n(ranks.begin(), std::min(capacity, ranks.size()), out_ranks);
    return ranks.size();
  });
}

symm_status_t symm_group_failure_fd(symm_group_t* group, int32_t* out_fd) {
  return produce(out_fd, "out_fd", [&] { return group_of(group)->failure_fd(); });
}

symm_status_t symm_group_peer_info(symm_group_t* group, int32_t rank, symm_group_peer_info_t* out) {
  return fill_struct(out, SYMM_FIRST_SIZE(symm_group_peer_info_t, locality), [&] {
    Group& self = *group_of(group);
    self.require_rank("rank", rank);
    const PeerFacts& facts = self.facts(rank);
    const std::vector<int> gone = self.gone_ranks();

    symm_group_peer_info_t filled{};
    filled.rank = rank;
    filled.backend = facts.backend;
    filled.device = facts.device;
    filled.alive = std::find(gone.begin(), gone.end(), rank) == gone.end() ? 1 : 0;
    filled.pid = self.identity(rank).pid;
    write_text(filled.host, facts.host);
    write_text(filled.machine_name, facts.machine);
    write_text(filled.uuid, facts.uuid);
    filled.machine = self.machines().machine_of[static_cast<size_t>(rank)];
    filled.mapped = self.maps(rank) ? 1 : 0;
    filled.numa_node = facts.numa_node;
    filled.links = self.links_to(rank);
    filled.locality = static_cast<int32_t>(self.locality_of(rank));
    return filled;
  });
}

symm_status_t symm_group_topology(symm_group_t* group, symm_topology_class_t* out_class,
    int32_t* out_links, size_t capacity, size_t* out_count) {
  return guard([&] {
    require(out_class, "out_class");
    Group& self = *group_of(group);
    const Links& links = self.links();
    if (out_links == nullptr && capacity != 0) {
      throw Error(Status::invalid_argument, "out_links: is NULL, but capacity is not 0");
    }
    if (out_links != nullptr && capacity < links.count.size()) {
      throw Error(
          Status::invalid_argument, format("capacity: %zu is less than the %zu pairs of %d ranks",
                                        capacity, links.count.size(), self.size()));
    }

    const TopologyClass whole = self.topology();
    if (out_links != nullptr) std::copy(links.count.begin(), links.count.end(), out_links);
    if (out_count != nullptr) *out_count = links.count.size();
    *out_class = static_cast<int32_t>(whole);
  });
}

symm_status_t symm_group_stats(symm_group_t* group, symm_group_stats_t* out) {
  return fill_struct(out, SYMM_FIRST_SIZE(symm_group_stats_t, waits), [&] {
    Group& self = *group_of(group);
    const GroupStats& stats = self.transport().stats();
    symm_group_stats_t filled{};
    for (const Counter& barriers : stats.barriers) {
      filled.barriers += barriers.value();
    }

    filled.signals_sent = stats.shown.signals_sent.value();
    filled.signals_taken = stats.shown.signals_taken.value();
    filled.failures = stats.shown.failures.value();
    filled.waits = stats.shown.waits.value();
    filled.sleeps = self.revocation().sleeps();
    filled.slept_ns = self.revocation().slept_ns();
    return filled;
  });
}

symm_status_t symm_group_collective_stats(
    symm_group_t* group, symm_collective_t collective, symm_collective_stats_t* out) {
  return fill_struct(out, SYMM_FIRST_SIZE(symm_collective_stats_t, bytes), [&] {
    const GroupStats& stats = group_of(group)->transport().stats();
    if (!is_valid(static_cast<Collective>(collective))) {
      throw not_known("collective", collective);
    }
    const auto& counted = stats.shown.collectives[static_cast<size_t>(collective)];
    symm_collective_stats_t filled{};
    filled.calls = counted.calls.value();
    filled.bytes = counted.bytes.value();
    return filled;
  });
}

symm_status_t symm_group_algorithm_stats(
    symm_group_t* group, symm_algorithm_t algorithm, symm_algorithm_stats_t* out) {
  return fill_struct(out, SYMM_FIRST_SIZE(symm_algorithm_stats_t, calls), [&] {
    const GroupStats& stats = group_of(group)->transport().stats();
    if (!is_valid(static_cast<Algorithm>(algorithm))) throw not_known("algorithm", algorithm);
    symm_algorithm_stats_t filled{};
    filled.calls = stats.shown.algorithms[static_cast<size_t>(algorithm)].value();
    return filled;
  });
}

symm_status_t symm_group_abort(symm_group_t* group, const char* reason) {
  return guard([&] {
    Group& self = *group_of(group);
    const char* separator = reason != nullptr && *reason != '\0' ? ": " : "";
    std::string message = printable(format(
        "rank %d aborted the group%s%s", self.rank(), separator, reason == nullptr ? "" : reason));
    message.resize(length_within(kMaxFailureText, message));  // as the other ranks are told
    self.fail({Status::aborted, self.rank(), self.identity(self.rank()).pid, std::move(message)});
  });
}

symm_status_t symm_group_finalize(symm_group_t* group, const symm_call_options_t* options) {
  return guard(options, [&] { group_of(group)->finalize(timeout_of(options)); });
}

symm_status_t symm_stream_wait(
    symm_group_t* group, void* stream, void* after_stream, const symm_call_options_t* options) {
  return guard(options, [&] {
    check_options(options);
    group_of(group)->transport().stream_wait(stream, after_stream);
  });
}

symm_status_t symm_stream_query(
    symm_group_t* group, void* stream, const symm_call_options_t* options, int32_t* out_done) {
  return guard(options, [&] {
    check_options(options);
    require(out_done, "out_done") = group_of(group)->transport().stream_done(stream) ? 1 : 0;
  });
}

symm_status_t symm_group_synchronize(
    symm_group_t* group, void* stream, const symm_call_options_t* options) {
  return guard(options, [&] { group_of(group)->synchronize(stream, timeout_of(options)); });
}

symm_status_t symm_group_retain(symm_group_t* group) {
  return guard([&] { retain<Group>(group, "group"); });
}

void symm_group_release(symm_group_t* group) {
  release<Group>(group, [](Group& last) { last.forget_memories(); });
}
