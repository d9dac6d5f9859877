// The steps of a rendezvous: prepare a signal pad, agree on the size, exchange the descriptors
// of block and pad, map them, agree that all ranks have done so. Nothing is visible before the
// last step, and a failure on one rank is the same failure on all.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/hash.hpp"
#include "core/base/page.hpp"
#include "core/base/wait.hpp"
#include "core/group/agreement.hpp"
#include "core/group/checks.hpp"
#include "core/group/exchange.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "core/group/moving.hpp"
#include "core/mesh/groups.hpp"
#include "core/mesh/mesh.hpp"

namespace symm {
namespace {
void require_agreement(const Buffer& mine, std::span<const Vote> votes) {
  const std::string name = mine.name().empty() ? "" : " " + mine.name();
  for (size_t rank = 1; rank < votes.size(); ++rank) {
    if (votes[rank].value[1] != votes[0].value[1]) {
      throw Error({Status::mismatch, static_cast<int>(rank), 0,
          format("options.channels: rank 0 asks for %d, rank %zu for %d",
              static_cast<int>(votes[0].value[1]), rank, static_cast<int>(votes[rank].value[1]))});
    }

    if (votes[rank].value[0] == votes[0].value[0]) continue;
    throw Error({Status::mismatch, static_cast<int>(rank), 0,
        format("buffer%s: rank 0 brings %lu bytes, rank %zu brings %lu", name.c_str(),
            votes[0].value[0], rank, votes[rank].value[0])});
  }
}

// The message that travels with the descriptors of block and pad.
struct Extents {
  BlockExtent block;
  BlockExtent pad;
};

void require_possible(const BlockExtent& extent, uint64_t bytes) {
  if (extent.bytes == bytes && extent.is_possible()) return;
  throw Error(Status::peer_failed, "a peer sent a block of another size than it announced");
}

// Maps a peer's block, after checking what the peer says about it. The descriptors are those of the
// block, of the pad, and of the allocations behind the block's first one.
std::shared_ptr<Block> import_block(
    ShareableMemory& memory, Message& message, const BlockExtent& extent, uint64_t bytes) {
  require_possible(extent, bytes);
  if (message.fds.size() <= 2) return memory.import(message.take_fd(0), extent);

  std::vector<Fd> parts;
  parts.reserve(message.fds.size() - 1);
  parts.push_back(message.take_fd(0));
  for (size_t i = 2; i < message.fds.size(); ++i) {
    parts.push_back(message.take_fd(i));
  }
  return memory.import_parts(parts, extent);
}

class GroupOutOfBand final : public OutOfBand {
 public:
  static constexpr uint64_t kRounds = 8;  // upper bound for one rendezvous

  GroupOutOfBand(Group& group, const Topic& first, Deadline deadline)
      : group_(group), topic_(first), deadline_(deadline) {}

  std::string commit_vote(const std::string& trouble) override {
    Vote vote;
    if (!trouble.empty()) vote.failure = {Status::unavailable, -1, 0, trouble};
    try {
      symm::commit_vote(group_, next(), vote, deadline_);
    } catch (const Agreed& error) {
      if (error.status() != Status::unavailable) throw;
      return error.what();
    }
    return "";
  }

  Fd hand_out(int fd) override {
    const Topic topic = next();
    if (group_.rank() != 0) return std::move(group_.receive(0, topic, 0, 1, deadline_).fds.at(0));
    for (int peer = 1; peer < group_.size(); ++peer) {
      group_.send(peer, topic, {}, {&fd, 1}, deadline_);
    }
    return {};
  }

 private:
  Topic next() {
    const Topic topic = topic_;
    ++topic_.sequence;
    return topic;
  }

  Group& group_;
  Topic topic_;
  Deadline deadline_;
};

// What this rank offers to the others: its block and its pad, as its view of the memory says, too.
// The descriptors in `more_fds` stay open until all ranks have them.
Offer offer_of(const Group& group, const Buffer& buffer, int channels, const Block& pad,
    MemoryView& view, std::vector<Fd>& more_fds) {
  ShareableHandle block_handle = buffer.block()->share();
  view.on_host[static_cast<size_t>(group.rank())] = block_handle.extent.on_host != 0;
  const ShareableHandle pad_handle = pad.share();
  if (group.machines().spans_hosts(group.rank()) && block_handle.extent.fabric == FabricHandle{}) {
    throw Error(Status::unsupported,
        "buffer: ranks on other hosts of the NVLink domain map it by a fabric handle, which "
        "memory of the host and adopted memory do not have");
  }
  Offer offer{
      {buffer.bytes(), static_cast<uint64_t>(channels)}, {{}, {block_handle.fd, pad_handle.fd}}};
  append(offer.message, Extents{block_handle.extent, pad_handle.extent});
  more_fds = std::move(block_handle.more_fds);
  for (const Fd& fd : more_fds) {
    offer.message.more_fds.push_back(fd.get());
  }
  return offer;
}

// The block behind an address of a memory's blocks or pads.
const std::shared_ptr<Block>& block_at(const MemoryView& view, const std::byte* address) {
  return *std::find_if(view.owned.begin(), view.owned.end(),
      [&](const auto& block) { return block->data() == address; });
}

// Graphs with signals of the group before have to end when its pads become those of another group's
// memory. They do so once that group has failed. A rank that has heard of the death only by the
// agreement makes it fail here. The host has no graphs.
void end_graphs(const Memory& from, const Moving& moving) {
  Group& before = from.group();
  if (before.backend().kind() == BackendKind::host) return;
  const auto gone = std::find(moving.former.begin(), moving.former.end(), -1);
  if (gone == moving.former.end()) return;
  const auto rank = static_cast<int>(gone - moving.former.begin());
  const int64_t pid = before.identity(rank).pid;
  before.fail({Status::peer_failed, rank, pid,
      name_of_peer(rank, pid) + " is gone, and a newcomer has its place"});
}

// Ends a move in place: the memory of the fresh pads is mapped at the addresses of the old ones.
void show_in_place(const std::vector<std::shared_ptr<Block>>& pads,
    const std::vector<std::shared_ptr<Block>>& fresh, MemoryView& view) {
  for (size_t rank = 0; rank < pads.size(); ++rank) {
    SYMM_POINT("move.show");
    pads[rank]->show(*fresh[rank]);
  }
  view.own_tables = nullptr;
}
}  // namespace

// A rendezvous from its first step to its last. Long, since the steps share the
// objects that they make.
std::shared_ptr<Memory> meet(const std::shared_ptr<Group>& group, const Memory::MakeBuffer& make,
    uint64_t tag, int channels, Deadline deadline, const Moving* moving) {
  Backend& backend = group->backend();
  const uint64_t sequence = group->next_sequence(tag);
  const auto size = static_cast<size_t>(group->size());
  const auto me = static_cast<size_t>(group->rank());
  const size_t pad_bytes = backend.pad_bytes(group->size(), channels);
  std::shared_ptr<Buffer> buffer;
  std::vector<std::shared_ptr<Block>> blocks(size);
  std::vector<std::shared_ptr<Block>> pads(size);
  const auto view = std::make_shared<MemoryView>();
  view->on_host.resize(size);
  std::shared_ptr<Memory> memory;
  // The memory that moves here, and whose pads stay at their addresses.
  const Memory* const from = moving != nullptr ? moving->from.get() : nullptr;
  const Memory* const place = from != nullptr && moving->in_place ? from : nullptr;
  std::vector<std::shared_ptr<Block>> fresh_pads;
  // Open until all ranks have them.
  std::vector<Fd> more_fds;

  Phases phases;
  phases.prepare = [&] {
    buffer = make();
    blocks[me] = buffer->block();
    pads[me] = backend.memory().allocate(pad_bytes, {});
    return offer_of(*group, *buffer, channels, *pads[me], *view, more_fds);
  };
  phases.agree = [&](std::span<const Vote> votes) { require_agreement(*buffer, votes); };
  phases.accept = [&](int peer, Message message) {
    if (!group->maps(peer)) return;
    const auto extents = first_of<Extents>(message);
    // What this rank has mapped already stays at its address.
    const int former = from != nullptr ? moving->former[static_cast<size_t>(peer)] : -1;
    blocks[static_cast<size_t>(peer)] =
        former >= 0 ? block_at(from->view(), from->view().blocks[static_cast<size_t>(former)])
                    : import_block(backend.memory(), message, extents.block, buffer->bytes());
    view->on_host[static_cast<size_t>(peer)] = extents.block.on_host != 0;
    require_possible(extents.pad, pad_bytes);
    pads[static_cast<size_t>(peer)] = backend.memory().import(message.take_fd(1), extents.pad);
  };
  phases.finish = [&] {
    // The id is equal on all ranks, and never 0, which means private memory.
    view->id = mix(mix(group->id(), tag), sequence) | 1U;
    view->bytes = buffer->bytes();
    view->channels = channels;
    view->taken = std::vector<std::atomic<uint64_t>>(static_cast<size_t>(channels) * size);
    if (blocks[me]->owners_address() != nullptr) view->adopted = blocks[me];

    if (place != nullptr) {
      fresh_pads = pads;
      view->own_tables = fresh_pads[me]->data();
      for (size_t rank = 0; rank < size; ++rank) {
        pads[rank] = block_at(place->view(), place->view().pads[rank]);
      }
      end_graphs(*from, *moving);
      pads[me]->require_unused(deadline_to_tell(deadline));
    }
    for (size_t rank = 0; rank < size; ++rank) {
      view->blocks.push_back(blocks[rank] ? blocks[rank]->data() : nullptr);
      view->pads.push_back(pads[rank] ? pads[rank]->data() : nullptr);
      if (blocks[rank]) view->owned.insert(view->owned.end(), {blocks[rank], pads[rank]});
    }
    memory = std::make_shared<Memory>(group, buffer, view, place);
  };
  exchange(*group, MessageKind::segment, tag, sequence, phases, deadline);
  more_fds.clear();

  // If multicast fails on any rank, the memory works without it.
  GroupOutOfBand out_of_band(*group,
      {MessageKind::out_of_band, group->id(), tag, sequence * GroupOutOfBand::kRounds}, deadline);
  group->transport().device().add_multicast(*view, blocks, out_of_band);

  if (moving != nullptr) moving->agree();
  SYMM_POINT("rendezvous.commit");
  if (place != nullptr) show_in_place(pads, fresh_pads, *view);
  if (from != nullptr) moving->from->moved_to(*view);
  pads[me]->will_not_be_shared();
  group->addresses().insert(view, memory);
  buffer->become(memory);
  return memory;
}

// The wait has a limit, since a process that has become another program is never certain to be
// dead.
uint64_t patience_with_stragglers(const Group& group, uint64_t timeout_ms) {
  constexpr uint64_t kMostMs = 30'000;
  return std::min(kMostMs, (timeout_ms != 0 ? timeout_ms : group.create_timeout_ms()) / 2);
}

std::shared_ptr<Memory> Memory::rendezvous(const std::shared_ptr<Group>& group,
    const std::shared_ptr<Buffer>& buffer, uint64_t tag, uint64_t timeout_ms, int channels) {
  group->require_usable();
  if (buffer->kind() != group->backend().kind() || buffer->device() != group->backend().device()) {
    throw Error(Status::invalid_argument, "buffer: lies on another device than the group's");
  }
  if (std::shared_ptr<Memory> met = buffer->memory_on(*group)) return met;

  const uint64_t patience = patience_with_stragglers(*group, timeout_ms);
  // The function is small enough for a std::function to hold it without an allocation: if
  // memory ran out here, only this rank would know of the failure.
  const auto make = [&buffer, patience] {
    buffer->require_memory();
    buffer->require_no_stragglers(patience);
    return buffer;
  };
  static_assert(sizeof make <= 2 * sizeof(void*));
  return rendezvous(group, make, tag, timeout_ms, channels);
}

std::shared_ptr<Memory> Memory::rendezvous_and_keep(const std::shared_ptr<Group>& group,
    const std::shared_ptr<Buffer>& buffer, uint64_t tag, uint64_t timeout_ms, int channels) {
  // The list gets its room before the ranks meet: an allocation that fails afterwards
  // would fail on this rank alone.
  std::list<std::shared_ptr<Memory>> kept(1);
  std::shared_ptr<Memory> memory = rendezvous(group, buffer, tag, timeout_ms, channels);
  kept.front() = memory;
  group->keep(std::move(kept));
  return memory;
}

std::shared_ptr<Memory> Memory::rendezvous(const std::shared_ptr<Group>& group,
    const MakeBuffer& make, uint64_t tag, uint64_t timeout_ms, int channels) {
  const Trace traced(group->page(), "rendezvous");
  group->require_usable();
  group->with_refusals_told("rendezvous", [&] {
    require_waiting(timeout_ms, "options.timeout_ms");
    if (require_channels(channels, "options.channels") == 0) channels = group->channels();
  });

  try {
    return meet(group, make, tag, channels,
        timeout_ms != 0 ? Deadline::after_ms(timeout_ms) : group->create_deadline(), nullptr);
  } catch (const std::exception& error) {
    leave_in_step(*group, error, "rendezvous: ");
  }
}
}  // namespace symm
