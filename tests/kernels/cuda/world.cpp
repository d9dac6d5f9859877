#include "tests/kernels/cuda/world.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cuda/args.hpp"
#include "tests/kernels/cuda/model/kernels/cuda/memory.cuh"
#include "tests/support/context.hpp"
#include "tools/bench/reference.hpp"

namespace symm::cuda::model {
namespace {
constexpr size_t kStack = size_t{64} << 10;
// After so many steps in which nothing changes, nothing will change any more.
constexpr long kPatience = 1'000'000;

Ranks* current = nullptr;
}  // namespace

struct Ranks::Thread {
  Index block{};
  Index thread{};
  const Launch* launch = nullptr;
  unsigned meetings = 0;
  bool says[2] = {};  // at even and at odd meetings
  float number = 0;   // for a neighbour, see exchange()
  bool ended = false;
  support::Context context;
  std::unique_ptr<char[]> stack;
};

float sum_of(const std::vector<float>& numbers, bool in_tree) {
  std::vector<reference::Bits> bits(numbers.size());
  std::transform(numbers.begin(), numbers.end(), bits.begin(), reference::to_bits<float>);
  return reference::from_bits<float>(reference::reduce(
      SYMM_DTYPE_F32, SYMM_OP_SUM, bits, in_tree ? SYMM_ORDER_TREE : SYMM_ORDER_RANKS));
}

uint32_t load(const uint32_t* from) { return current->load(from); }

Pair load_pair(const uint32_t* from) {
  const uint32_t first = current->load(from);
  return {first, current->load(from + 1, false)};
}

void store(uint32_t* to, uint32_t value) { current->store(to, value); }

void store_pair(uint32_t* to, Pair values) { current->store(to, values.first, &values.second); }

void add(uint32_t* to, uint32_t value) { current->add(to, 1, value); }

void add(uint64_t* to, uint64_t value) { current->add(to, 2, value); }

uint32_t claim(uint32_t* word) { return static_cast<uint32_t>(current->claim(word, 1)); }

uint64_t claim(uint64_t* word) { return current->claim(word, 2); }

void fence() { current->fence(); }

bool meet(bool yes) { return current->meet(yes); }

float exchange(float mine, unsigned with) { return current->exchange(mine, with); }

uint64_t now() { return current->now(); }

void* shared(size_t bytes) { return current->shared(bytes); }

Ranks::Ranks(const Options& options)
    : options_(options),
      half_bytes_(static_cast<uint64_t>(options.ranks) * options.slot),
      random_(options.seed),
      members_(static_cast<size_t>(options.ranks * options.groups)),
      devices_(static_cast<size_t>((options.ranks + options.on_one - 1) / options.on_one),
          {std::vector<unsigned>(options.room, options.units), {}}) {
  const auto n = static_cast<uint64_t>(options.ranks);
  const uint64_t ll = (sizeof(ControlWords) + 63) / 64 * 64;
  const uint64_t pushed = ll + 2 * half_bytes_;
  const uint64_t staged = pushed + (options.work_groups == 0 ? 0 : 4 * half_bytes_);
  const uint64_t stage = static_cast<uint64_t>(options.work_groups) * kSlots * n * options.slot;
  for (size_t at = 0; at < members_.size(); ++at) {
    Member& member = members_[at];
    const size_t rank = at % n;
    member.device = rank / static_cast<size_t>(options.on_one);
    extra_at_ = staged + 2 * stage;
    member.control.assign((extra_at_ + options.extra) / sizeof(uint32_t), 0);
    std::fill(member.control.begin() + static_cast<long>(pushed / sizeof(uint32_t)),
        member.control.begin() + static_cast<long>(staged / sizeof(uint32_t)), 0xFFFFFFFFU);

    DeviceComm& comm = member.comm;
    comm.rank = static_cast<int32_t>(rank);
    comm.size = options.ranks;
    comm.timeout_ns = options.timeout_ns;
    comm.record = reinterpret_cast<uintptr_t>(&members_[options.are_streams ? rank : at].page);
    comm.ll = ll;
    comm.one_shot = pushed;
    comm.two_shot = pushed;
    comm.stage[0] = staged;
    comm.stage[1] = staged + stage;
    comm.ll_slot = options.slot;
    comm.two_shot_slot = options.slot;
    comm.stage_slot = options.slot;
    comm.one_shot_slot = 2 * options.slot;
  }
  for (size_t at = 0; at < members_.size(); ++at) {
    for (size_t peer = 0; peer < n; ++peer) {
      const size_t group = options.are_streams ? 0 : at - at % n;
      members_[at].comm.control[peer] =
          reinterpret_cast<uintptr_t>(members_[group + peer].control.data());
      members_[at].comm.stages[peer] = reinterpret_cast<uintptr_t>(
          members_[options.share_stages ? peer : group + peer].control.data());
    }
  }
  current = this;
}

Ranks::~Ranks() { current = nullptr; }

ControlWords& Ranks::words(int rank) { return words_of(comm(rank), comm(rank).rank); }

void Ranks::launch(
    int rank, Kernel kernel, const CollectiveArgs& args, unsigned blocks, unsigned units) {
  Member& member = members_[static_cast<size_t>(rank)];
  member.queue.push_back({std::move(kernel), args, blocks == 0 ? options_.blocks : blocks, units});
  member.ended = false;
}

void Ranks::hold(int rank, long stores, long steps) {
  Member& member = members_[static_cast<size_t>(rank)];
  member.held_after = stores;
  member.held_until = steps;
}

bool Ranks::is_held(const Member& member) const {
  return member.held_after >= 0 && member.stored >= member.held_after && steps_ < member.held_until;
}

// ---- memory

uint32_t* Ranks::place(const uint32_t* word) const {
  auto* at = const_cast<uint32_t*>(word);
  if (!options_.has_one_half) return at;
  for (const Member& member : members_) {
    const uint32_t* second =
        member.control.data() + (member.comm.ll + half_bytes_) / sizeof(uint32_t);
    if (at >= second && at < member.control.data() + member.control.size()) {
      return at - half_bytes_ / sizeof(uint32_t);
    }
  }
  return at;
}

// This assumes that a word is always stored by itself, or always as the same half of a pair.
uint32_t Ranks::load(const uint32_t* from, bool may_yield) {
  if (may_yield && random_() % 8 == 0) yield();
  const uint32_t* at = place(from);
  const auto& pending = member_->pending;
  const auto own = std::find_if(pending.rbegin(), pending.rend(),
      [&](const Pending& p) { return p.by == thread_ && at >= p.to && at < p.to + p.words; });
  return own != pending.rend() ? own->value[at - own->to] : *at;
}

void Ranks::store(uint32_t* to, uint32_t first, const uint32_t* second) {
  member_->pending.push_back(
      {place(to), {first, second != nullptr ? *second : 0}, second != nullptr ? 2U : 1U, thread_});
  ++member_->stored;
  if (at_store) tell_store(to);
  if (is_held(*member_) || random_() % 8 == 0) yield();
}

void Ranks::tell_store(const uint32_t* to) const {
  for (const Member& owner : members_) {
    const uint32_t* const slots = owner.control.data() + owner.comm.ll / sizeof(uint32_t);
    if (to < slots || to >= slots + 2 * half_bytes_ / sizeof(uint32_t)) continue;
    const uint64_t at = static_cast<uint64_t>(to - slots) * sizeof(uint32_t);
    at_store(
        member_->comm.rank, owner.comm.rank, static_cast<int>(at % half_bytes_ / options_.slot));
  }
}

void Ranks::add(void* to, size_t words, uint64_t value) {
  member_->pending.push_back({place(static_cast<uint32_t*>(to)),
      {static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)}, words, thread_, true});
  if (random_() % 8 == 0) yield();
}

uint64_t Ranks::claim(void* word, size_t words) {
  if (random_() % 8 == 0) yield();
  uint64_t before = 0;
  std::memcpy(&before, word, words * sizeof(uint32_t));
  const uint64_t after = before + 1;
  std::memcpy(word, &after, words * sizeof(uint32_t));
  return before;
}

void Ranks::fence() {
  const auto mine = [&](const Pending& p) { return p.by == thread_; };
  while (true) {
    auto& pending = member_->pending;
    const auto found = std::find_if(pending.begin(), pending.end(), mine);
    if (found == pending.end()) return;
    deliver(*member_, static_cast<size_t>(found - pending.begin()));
  }
}

// Stores of one thread to one word come into view in their order, so the oldest pending store
// to the word of the chosen one is delivered.
void Ranks::deliver(Member& member, size_t index) {
  auto& pending = member.pending;
  const Pending chosen = pending[index];
  const auto first = std::find_if(pending.begin(), pending.end(),
      [&](const Pending& p) { return p.to == chosen.to && p.by == chosen.by; });
  uint64_t before = 0;
  uint64_t value = 0;

  std::memcpy(&value, first->value, sizeof value);
  if (first->is_added) std::memcpy(&before, first->to, first->words * sizeof(uint32_t));
  value += before;
  std::memcpy(first->to, &value, first->words * sizeof(uint32_t));
  pending.erase(first);
  last_change_ = steps_;
}

void Ranks::deliver_all(Member& member) {
  while (!member.pending.empty()) {
    deliver(member, random_() % member.pending.size());
  }
}

// ---- threads

void Ranks::yield() { thread_->context.give_turn_to(scheduler_); }

void* Ranks::shared(size_t bytes) {
  std::vector<uint64_t>& memory = member_->shared[{thread_->block.x, bytes}];
  if (memory.empty()) memory.resize((bytes + 7) / 8);
  return memory.data();
}

// Two entries of Thread::says are enough: a thread comes to the next meeting but one only when all
// have left this meeting, and so have read what was said here.
bool Ranks::meet(bool yes) {
  const unsigned target = ++thread_->meetings;
  thread_->says[target % 2] = yes;
  const unsigned block = thread_->block.x;
  const auto& all = member_->running;
  const auto is_late = [&](const std::unique_ptr<Thread>& other) {
    return other->block.x == block && !other->ended && other->meetings < target;
  };

  while (std::any_of(all.begin(), all.end(), is_late)) {
    yield();
  }

  return std::all_of(all.begin(), all.end(), [&](const std::unique_ptr<Thread>& other) {
    // A thread whose count is smaller had ended before this meeting.
    return other->block.x != block || other->meetings < target || other->says[target % 2];
  });
}

float Ranks::exchange(float mine, unsigned with) {
  thread_->number = mine;
  last_change_ = steps_;
  meet(true);
  const auto& all = member_->running;
  const auto neighbour =
      std::find_if(all.begin(), all.end(), [&](const std::unique_ptr<Thread>& other) {
        return other->block.x == thread_->block.x && other->thread.x == (thread_->thread.x ^ with);
      });
  const float theirs = (*neighbour)->number;

  // The neighbour must not have another number before this thread has read this one.
  meet(true);
  return theirs;
}

void Ranks::enter() {
  Thread& self = *current->thread_;
  self.launch->kernel(self.launch->args);
  self.ended = true;
  self.context.give_turn_to(current->scheduler_);
}

void Ranks::start(Member& member) {
  static constexpr unsigned kSpeeds[] = {1, 8, 64};
  member.speed = kSpeeds[random_() % std::size(kSpeeds)];
  member.next_block = 0;
  Device& device = devices_[member.device];
  device.launched.push_back(&member);
  let_in(device);
}

void Ranks::let_in(Device& device) {
  while (!device.launched.empty()) {
    Member& member = *device.launched.front();
    const Launch& launch = member.queue[member.next];
    const auto emptiest = std::max_element(device.free.begin(), device.free.end());
    if (*emptiest < launch.units) return;

    *emptiest -= launch.units;
    member.multiprocessors[member.next_block] = static_cast<size_t>(emptiest - device.free.begin());
    for (unsigned t = 0; t < options_.threads; ++t) {
      let_in(member, launch, t);
    }
    if (++member.next_block == launch.blocks) device.launched.erase(device.launched.begin());
    last_change_ = steps_;
  }
}

void Ranks::let_in(Member& member, const Launch& launch, unsigned index) {
  auto thread = std::make_unique<Thread>();
  thread->block.x = member.next_block;
  thread->thread.x = index;
  thread->launch = &launch;
  thread->stack = std::make_unique_for_overwrite<char[]>(kStack);
  thread->context.prepare(&Ranks::enter, thread->stack.get(), kStack);
  member.running.push_back(std::move(thread));
}

void Ranks::leave(Member& member, unsigned block) {
  const auto is_there = [&](const std::unique_ptr<Thread>& one) {
    return one->block.x == block && !one->ended;
  };
  if (std::any_of(member.running.begin(), member.running.end(), is_there)) return;

  Device& device = devices_[member.device];
  device.free[member.multiprocessors.at(block)] += member.queue[member.next].units;
  let_in(device);
}

void Ranks::finish(Member& member) {
  if (!options_.ends_early) deliver_all(member);
  for (Pending& p : member.pending) {
    p.by = nullptr;
  }
  member.running.clear();
  member.shared.clear();
  member.multiprocessors.clear();
  member.next_block = 0;
  ++member.next;
  last_change_ = steps_;
}

// Returns false if the rank has nothing to do.
bool Ranks::step(Member& member) {
  ++steps_;
  const auto& launched = devices_[member.device].launched;
  const bool is_under_way = member.next_block != 0 ||
                            std::find(launched.begin(), launched.end(), &member) != launched.end();

  if (!is_under_way) {
    if (member.next < member.queue.size()) {
      start(member);
      return true;
    }
    deliver_all(member);
    if (!member.ended && at_end) at_end(static_cast<int>(&member - members_.data()));
    member.ended = true;
    return false;
  }

  if (!member.pending.empty() && random_() % 2 == 0) {
    deliver(member, random_() % member.pending.size());
  }
  if (is_held(member) || member.running.empty()) return true;

  Thread& chosen = *member.running[random_() % member.running.size()];
  if (!chosen.ended) {
    member_ = &member;
    thread_ = &chosen;
    block_index = chosen.block;
    thread_index = chosen.thread;
    grid_size.x = chosen.launch->blocks;
    block_size.x = options_.threads;
    scheduler_.give_turn_to(chosen.context);
    if (chosen.ended) {
      last_change_ = steps_;
      leave(member, chosen.block.x);
    }
  }

  if (member.next_block == member.queue[member.next].blocks &&
      std::all_of(member.running.begin(), member.running.end(),
          [](const auto& one) { return one->ended; })) {
    finish(member);
  }

  return true;
}

bool Ranks::run() {
  while (true) {
    unsigned total = 0;
    for (const Member& member : members_) {
      total += member.ended ? 0 : member.speed;
    }
    if (total == 0) return true;

    unsigned ticket = static_cast<unsigned>(random_()) % total;
    for (Member& member : members_) {
      const unsigned share = member.ended ? 0 : member.speed;
      if (ticket < share) {
        step(member);
        break;
      }
      ticket -= share;
    }

    if (steps_ - last_change_ > kPatience) return false;
  }
}
}  // namespace symm::cuda::model
