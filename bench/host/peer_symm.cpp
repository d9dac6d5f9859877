// The peer that measures symm itself.
#include <cstddef>
#include <map>
#include <utility>

#include "bench/host/peer.hpp"
#include "symm/symm.h"
#include "tools/bench/call.hpp"
#include <symm/symm.hpp>

namespace peer {
namespace {
symm::Group group;
std::map<void*, symm::Memory> memories;  // by this rank's block
}  // namespace

Place start(int*, char***) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = SYMM_BACKEND_HOST;
  group = symm::Group::create(config);
  return {group.rank(), group.size()};
}

void finish() {
  group.finalize();
  group.reset();
}

void* allocate_symmetric(size_t bytes) {
  symm::Memory memory = group.rendezvous(group.allocate(bytes));
  void* const block = memory.span().data();
  memories.emplace(block, std::move(memory));
  return block;
}

void release_symmetric(void* pointer) { memories.erase(pointer); }

void collective(const symm_collective_call_t& call) {
  symm::check(symm::tool::run(group.get(), call, nullptr, nullptr), "a collective");
}

void barrier() {
  symm::check(symm_barrier(group.get(), nullptr, 0, 0, nullptr, nullptr), "symm_barrier");
}

void send(const void* data, void* inbox, size_t bytes, int to) {
  const auto memory = memories.find(inbox);
  if (memory == memories.end()) {
    symm::check(symm_send(group.get(), to, 0, data, bytes, nullptr, nullptr), "symm_send");
    return;
  }
  symm::check(symm_put_signal(memory->second.get(), to, 0, data, bytes, 0, nullptr, nullptr),
      "symm_put_signal");
}

void receive(void* inbox, size_t bytes, int from) {
  const auto memory = memories.find(inbox);
  if (memory == memories.end()) {
    symm::check(
        symm_recv(group.get(), from, 0, inbox, bytes, nullptr, nullptr, nullptr), "symm_recv");
    return;
  }
  symm::check(
      symm_wait_signal(memory->second.get(), from, 0, nullptr, nullptr), "symm_wait_signal");
}

void exchange(const void* data, void* inbox, size_t offset, size_t bytes, int other) {
  symm_memory_t* const memory = memories.at(inbox).get();
  symm::check(
      symm_put_signal(memory, other, offset, data, bytes, 0, nullptr, nullptr), "symm_put_signal");
  symm::check(symm_wait_signal(memory, other, 0, nullptr, nullptr), "symm_wait_signal");
}
}  // namespace peer
