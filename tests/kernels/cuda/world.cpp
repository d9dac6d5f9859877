// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/cuda/world.hpp"

#include <algorithm>

#include "tests/kernels/cuda/model/kernels/cuda/memory.cuh"

namespace symm::cuda::model {
namespace {

constexpr size_t kStack = size_t{64} << 10;
constexpr long kPatience = 1'000'000;  // steps in which nothing changes: then nothing will

Ranks* current = nullptr;

}  // namespace

struct Ranks::Thread {
  Index block{}, thread{};
  const Launch* launch = nullptr;
  unsigned meetings = 0;
  bool ended = false;
  ucontext_t context{};
  std::vector<char> stack;
};

uint32_t load(const uint32_t* from) { return current->load(from); }
Pair load_pair(const uint32_t* from) {
  const uint32_t first = current->load(from);
  return {first, current->load(from + 1, false)};
}
void store(uint32_t* to, uint32_t value) { current->store(to, value); }
void store_pair(uint32_t* to, Pair values) { current->store(to, values.first, &values.second); }
void fence() { current->fence(); }
void meet() { current->meet(); }
uint64_t now() { return current->now(); }

Ranks::Ranks(const Options& options)
    : options_(options),
      half_bytes_(static_cast<uint64_t>(options.ranks) * options.slot),
      random_(options.seed),
      members_(static_cast<size_t>(options.ranks)) {
  const uint64_t ll = (sizeof(ControlWords) + 63) / 64 * 64;
  for (Member& member : members_) member.control.assign((ll + 2 * half_bytes_) / sizeof(uint32_t), 0);
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    DeviceComm& comm = members_[rank].comm;
    comm.rank = static_cast<int32_t>(rank);
    comm.size = options.ranks;
    comm.timeout_ns = options.timeout_ns;
    comm.record = reinterpret_cast<uintptr_t>(&members_[rank].record);
    comm.ll = ll;
    comm.ll_slot = options.slot;
    for (size_t peer = 0; peer < members_.size(); ++peer)
      comm.control[peer] = reinterpret_cast<uintptr_t>(members_[peer].control.data());
  }
  current = this;
}

Ranks::~Ranks() { current = nullptr; }

ControlWords& Ranks::words(int rank) { return words_of(comm(rank), rank); }

void Ranks::launch(int rank, Kernel kernel, const CollectiveArgs& args) {
  members_[static_cast<size_t>(rank)].queue.push_back({std::move(kernel), args});
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
    const uint32_t* second = member.control.data() + (member.comm.ll + half_bytes_) / sizeof(uint32_t);
    if (at >= second && at < member.control.data() + member.control.size()) return at - half_bytes_ / sizeof(uint32_t);
  }
  return at;
}

// A word is stored by itself always, or as the same half of a pair always.
uint32_t Ranks::load(const uint32_t* from, bool may_yield) {
  if (may_yield && random_() % 8 == 0) yield();
  const uint32_t* at = place(from);
  const auto& pending = member_->pending;
  const auto own = std::find_if(pending.rbegin(), pending.rend(),
                                [&](const Pending& p) { return p.by == thread_ && at >= p.to && at < p.to + p.words; });
  return own != pending.rend() ? own->value[at - own->to] : *at;
}

void Ranks::store(uint32_t* to, uint32_t first, const uint32_t* second) {
  member_->pending.push_back({place(to), {first, second != nullptr ? *second : 0}, second != nullptr ? 2U : 1U, thread_});
  ++member_->stored;
  for (const Member& owner : members_) {
    const uint32_t* slots = owner.control.data() + owner.comm.ll / sizeof(uint32_t);
    if (!at_store || to < slots || to >= owner.control.data() + owner.control.size()) continue;
    const uint64_t slot = static_cast<uint64_t>(to - slots) * sizeof(uint32_t) / options_.slot;
    at_store(member_->comm.rank, owner.comm.rank, static_cast<int>(slot) % options_.ranks);
  }
  if (is_held(*member_) || random_() % 8 == 0) yield();
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

// Of those that the same thread has stored to the same word, the oldest.
void Ranks::deliver(Member& member, size_t index) {
  auto& pending = member.pending;
  const Pending chosen = pending[index];
  const auto first =
      std::find_if(pending.begin(), pending.end(), [&](const Pending& p) { return p.to == chosen.to && p.by == chosen.by; });
  std::copy_n(first->value, first->words, first->to);
  pending.erase(first);
  last_change_ = steps_;
}

void Ranks::deliver_all(Member& member) {
  while (!member.pending.empty()) deliver(member, random_() % member.pending.size());
}

// ---- threads

void Ranks::yield() { swapcontext(&thread_->context, &scheduler_); }

void Ranks::meet() {
  const unsigned target = ++thread_->meetings;
  const auto is_late = [&](const std::unique_ptr<Thread>& other) {
    return other->block.x == thread_->block.x && !other->ended && other->meetings < target;
  };
  while (std::any_of(member_->running.begin(), member_->running.end(), is_late)) yield();
}

void Ranks::enter() {
  Thread& self = *current->thread_;
  self.launch->kernel(self.launch->args);
  self.ended = true;
  swapcontext(&self.context, &current->scheduler_);
}

void Ranks::start(Member& member) {
  static constexpr unsigned kSpeeds[] = {1, 8, 64};
  member.speed = kSpeeds[random_() % std::size(kSpeeds)];
  const Launch& launch = member.queue[member.next];
  for (unsigned b = 0; b < options_.blocks; ++b) {
    for (unsigned t = 0; t < options_.threads; ++t) {
      auto thread = std::make_unique<Thread>();
      thread->block.x = b;
      thread->thread.x = t;
      thread->launch = &launch;
      thread->stack.resize(kStack);
      getcontext(&thread->context);
      thread->context.uc_stack.ss_sp = thread->stack.data();
      thread->context.uc_stack.ss_size = thread->stack.size();
      makecontext(&thread->context, &Ranks::enter, 0);
      member.running.push_back(std::move(thread));
    }
  }
  last_change_ = steps_;
}

void Ranks::finish(Member& member) {
  if (!options_.ends_early) deliver_all(member);
  for (Pending& p : member.pending) p.by = nullptr;
  member.running.clear();
  ++member.next;
  last_change_ = steps_;
}

// False: the rank has nothing to do.
bool Ranks::step(Member& member) {
  ++steps_;
  if (member.running.empty()) {
    if (member.next < member.queue.size()) return start(member), true;
    deliver_all(member);
    if (!member.ended && at_end) at_end(static_cast<int>(&member - members_.data()));
    member.ended = true;
    return false;
  }
  if (!member.pending.empty() && random_() % 2 == 0) deliver(member, random_() % member.pending.size());
  if (is_held(member)) return true;
  Thread& chosen = *member.running[random_() % member.running.size()];
  if (!chosen.ended) {
    member_ = &member;
    thread_ = &chosen;
    block_index = chosen.block;
    thread_index = chosen.thread;
    grid_size.x = options_.blocks;
    block_size.x = options_.threads;
    swapcontext(&scheduler_, &chosen.context);
    if (chosen.ended) last_change_ = steps_;
  }
  if (std::all_of(member.running.begin(), member.running.end(), [](const auto& one) { return one->ended; })) finish(member);
  return true;
}

bool Ranks::run() {
  while (true) {
    unsigned total = 0;
    for (const Member& member : members_) total += member.ended ? 0 : member.speed;
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
