// SPDX-License-Identifier: Apache-2.0
//
// Rendezvous, top to bottom: prepare a signal pad, agree on the size, exchange the descriptors of block and pad, map them, agree
// that all could. Nothing is visible before the last step, and a failure on one rank is the same failure on all.
#include <array>
#include <cstring>

#include "core/group/memory.hpp"
#include "core/group/vote.hpp"

namespace symm {
namespace {

Failure failure_of(const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) return known->failure();
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return {Status::out_of_memory, -1, 0, "out of host memory"};
  return {Status::internal, -1, 0, error.what()};
}

void require_equal_sizes(const std::vector<Ballot>& ballots) {
  for (size_t rank = 1; rank < ballots.size(); ++rank) {
    if (ballots[rank].value[0] == ballots[0].value[0]) continue;
    throw Error(
        {Status::mismatch, static_cast<int>(rank), 0,
         format("buffer: rank 0 brings %llu bytes, rank %zu brings %llu", static_cast<unsigned long long>(ballots[0].value[0]),
                rank, static_cast<unsigned long long>(ballots[rank].value[0]))});
  }
}

// The memory's number: what all ranks know equally. Tags and sequences are mixed so that neighbours are far apart.
uint64_t memory_id(uint64_t group, uint64_t tag, uint64_t sequence) {
  uint64_t x = group ^ (tag * 0x9E3779B97F4A7C15U) ^ (sequence * 0xC2B2AE3D27D4EB4FU);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return (x ^ (x >> 31)) | 1U;  // 0 means private memory
}

struct Pair {
  std::shared_ptr<Block> block, pad;
};

// What travels with the descriptors of both.
struct Extents {
  Extent block, pad;
};

Pair receive_pair(Group& group, int peer, const Topic& topic, const Extents& expected, Deadline deadline) {
  Message message = group.receive(peer, topic, sizeof(Extents), 2, deadline);
  Extents extents;
  std::memcpy(&extents, message.body.data(), sizeof extents);
  const auto import = [&](size_t which, const Extent& extent, uint64_t bytes) {
    if (extent.bytes != bytes || !extent.is_possible())
      throw Error(Status::peer_failed, "a peer sent a block of another size than it announced");
    return group.backend().import(std::move(message.fds.at(which)), extent);
  };
  return {import(0, extents.block, expected.block.bytes), import(1, extents.pad, expected.pad.bytes)};
}

class GroupOutOfBand final : public OutOfBand {
 public:
  static constexpr uint64_t kRounds = 8;  // that one rendezvous may have
  GroupOutOfBand(Group& group, const Topic& first, Deadline deadline) : group_(group), topic_(first), deadline_(deadline) {}

  std::string vote(const std::string& trouble) override {
    Ballot ballot;
    if (!trouble.empty()) ballot.failure = {Status::unavailable, -1, 0, trouble};
    try {
      symm::vote(group_, next(), ballot, deadline_);
    } catch (const Error& error) {
      if (error.status() != Status::unavailable) throw;
      return error.what();
    }
    return "";
  }

  Fd hand_out(int fd) override {
    const Topic topic = next();
    if (group_.rank() != 0) return std::move(group_.receive(0, topic, 0, 1, deadline_).fds.at(0));
    for (int peer = 1; peer < group_.size(); ++peer) group_.send(peer, topic, {}, {&fd, 1}, deadline_);
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

}  // namespace

std::shared_ptr<Memory> Memory::rendezvous(std::shared_ptr<Group> group, std::shared_ptr<Buffer> buffer, uint64_t tag) {
  group->require_usable();
  Backend& backend = group->backend();
  if (buffer->kind() != backend.kind() || buffer->device() != backend.device()) {
    throw Error(Status::invalid_argument, "buffer: lies on another device than the group's");
  }
  const Deadline deadline = group->create_deadline();
  const uint64_t sequence = group->next_sequence(tag);
  const auto topic = [&](MessageKind kind, uint64_t round) { return Topic{kind, group->id(), tag, sequence * 2 + round}; };
  const size_t pad_bytes =
      static_cast<size_t>(kChannels) * static_cast<size_t>(group->size()) * sizeof(Word) + backend.pad_extra();

  try {
    // Prepare.
    Ballot ballot;
    std::shared_ptr<Block> pad;
    Extents extents;
    std::array<int, 2> fds{};
    try {
      pad = backend.allocate(pad_bytes, {});
      const ShareableHandle handles[] = {buffer->block()->share(), pad->share()};
      extents = {handles[0].extent, handles[1].extent};
      fds = {handles[0].fd, handles[1].fd};
    } catch (const std::exception& error) {
      ballot.failure = failure_of(error);
    }
    ballot.value[0] = buffer->bytes();
    require_equal_sizes(vote(*group, topic(MessageKind::vote, 0), ballot, deadline));

    // Exchange and map.
    auto view = std::make_shared<MemoryView>();
    view->id = memory_id(group->id(), tag, sequence);
    view->bytes = buffer->bytes();
    std::vector<std::shared_ptr<Block>> blocks(static_cast<size_t>(group->size()));
    std::vector<std::shared_ptr<Block>> pads(blocks.size());
    if (buffer->block()->owners_address() != nullptr) view->adopted = buffer->block();
    blocks[static_cast<size_t>(group->rank())] = buffer->block();
    pads[static_cast<size_t>(group->rank())] = pad;
    for (int peer = 0; peer < group->size(); ++peer) {
      if (peer != group->rank())
        group->send(peer, topic(MessageKind::segment, 0), std::as_bytes(std::span(&extents, 1)), fds, deadline);
    }
    ballot = {};
    for (int peer = 0; peer < group->size(); ++peer) {
      if (peer == group->rank()) continue;
      try {
        Pair pair = receive_pair(*group, peer, topic(MessageKind::segment, 0), extents, deadline);
        blocks[static_cast<size_t>(peer)] = std::move(pair.block);
        pads[static_cast<size_t>(peer)] = std::move(pair.pad);
      } catch (const std::exception& error) {
        if (ballot.failure.status != Status::ok) continue;
        ballot.failure = failure_of(error);
        // What it sent was wrong: the vote is not to blame this rank, which only says so.
        if (ballot.failure.status == Status::peer_failed && ballot.failure.rank < 0) ballot.failure.rank = peer;
      }
    }
    std::shared_ptr<Memory> memory;
    if (ballot.failure.status == Status::ok) {
      try {
        for (size_t rank = 0; rank < blocks.size(); ++rank) {
          view->blocks.push_back(blocks[rank]->data());
          view->pads.push_back(pads[rank]->data());
          view->owned.push_back(blocks[rank]);
          view->owned.push_back(std::move(pads[rank]));
        }
        memory = std::make_shared<Memory>(group, std::move(buffer), view);
      } catch (const std::exception& error) {
        ballot.failure = failure_of(error);
      }
    }
    vote(*group, topic(MessageKind::vote, 1), ballot, deadline);

    // Whatever fails here, on any rank, the memory works without.
    GroupOutOfBand out_of_band(*group, {MessageKind::out_of_band, group->id(), tag, sequence * GroupOutOfBand::kRounds},
                               deadline);
    group->transport().add_multicast(*view, blocks, out_of_band);

    // Commit.
    pad->will_not_be_shared();
    group->addresses().insert(view, memory);
    return memory;
  } catch (const Error& error) {
    // A rank that was late or died leaves the others out of step with it: the group is of no more use. A failure that was voted
    // on is not like that.
    if (error.status() == Status::timeout || error.status() == Status::peer_failed || error.status() == Status::aborted) {
      Failure failure = error.failure();
      failure.message = "rendezvous: " + failure.message;
      group->fail(failure);
      group->revocation().throw_if_revoked();
    }
    throw;
  }
}

}  // namespace symm
