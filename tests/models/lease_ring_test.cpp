// The lease ring and the validity board as they are, in every order in which importer
// and exporter may touch their words. Each is a processor with a buffer of stores,
// which come to the memory when they like; what is sequentially consistent waits until
// its buffer is empty. The mutant does not wait.

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "core/backend/provider.hpp"
#include "core/backend/segment.hpp"
#include "core/base/fd.hpp"
#include "core/base/process.hpp"
#include "core/ipc/token.hpp"
#include "tests/support/context.hpp"
#include "tests/support/test.hpp"

namespace model {
struct Store {
  void* at;
  uint64_t value;
  size_t bytes;

  void land() const { std::memcpy(at, &value, bytes); }
};

using support::Context;

struct Processor {
  Context context;
  std::array<char, size_t{1} << 18> stack;
  std::deque<Store> stores;
  bool is_done;

  void land() {
    stores.front().land();
    stores.pop_front();
  }
};

std::array<Processor, 2> processors;
std::array<std::function<void()>, 2> bodies;
Context scheduler;
Processor* now = nullptr;  // whose turn it is; null: what is not part of the model
bool is_mutant = false;

void take_turns() {
  if (now != nullptr) now->context.give_turn_to(scheduler);
}

template <class T>
struct Watched {
  T value;

  T load(std::memory_order = std::memory_order_seq_cst) const {
    take_turns();
    uint64_t loaded = value;
    for (size_t i = 0; now != nullptr && i < now->stores.size(); ++i) {
      if (now->stores[i].at == &value) loaded = now->stores[i].value;
    }
    return static_cast<T>(loaded);
  }

  void store(T stored, std::memory_order order = std::memory_order_seq_cst) {
    take_turns();
    const Store made{&value, stored, sizeof value};
    if (now == nullptr) return made.land();
    now->stores.push_back(made);
    while (order == std::memory_order_seq_cst && !is_mutant && !now->stores.empty()) {
      now->land();
    }
  }
};

void begin() {
  bodies[static_cast<size_t>(now - processors.data())]();
  now->is_done = true;
  now->context.give_turn_to(scheduler);
}

// Runs the processors in the order that `path` says, and prolongs it: each turn has the choice
// that was made, and the number of choices.
void run(std::vector<std::pair<size_t, size_t>>& path) {
  for (Processor& one : processors) {
    one.context.prepare(begin, one.stack.data(), one.stack.size());
    one.is_done = false;
  }

  for (size_t depth = 0;; ++depth) {
    std::vector<std::pair<Processor*, bool>> turns;  // whether a store of its lands
    for (Processor& one : processors) {
      if (!one.is_done) turns.emplace_back(&one, false);
      if (!one.stores.empty()) turns.emplace_back(&one, true);
    }
    if (turns.empty()) return;
    if (depth == path.size()) path.emplace_back(0, turns.size());
    const auto [turn, lands] = turns[path[depth].first];
    now = turn;
    lands ? now->land() : scheduler.give_turn_to(now->context);
    now = nullptr;
  }
}

// Whether it holds in every order, and that there are many; `prepare` makes the bodies of one.
bool always(bool mutant, const std::function<decltype(bodies)()>& prepare,
    const std::function<bool()>& holds) {
  is_mutant = mutant;
  std::vector<std::pair<size_t, size_t>> path;
  int orders = 0;
  do {
    bodies = prepare();
    run(path);
    if (!holds()) return false;
    while (!path.empty() && path.back().first + 1 == path.back().second) {
      path.pop_back();
    }
    if (!path.empty()) ++path.back().first;
    ++orders;
  } while (!path.empty());

  return orders > 1000;
}
}  // namespace model

namespace std {
template <class T>
using watched = model::Watched<T>;
}

namespace symm::ipc_watched {
using namespace symm::ipc;
}

#define atomic watched
#define ipc ipc_watched
#include "core/ipc/lease_ring.cpp"
#include "core/ipc/validity_board.hpp"
#undef atomic

namespace symm::ipc {
namespace {
using Kind = LeaseRing::Kind;

void expect_always(
    const std::function<decltype(model::bodies)()>& prepare, const std::function<bool()>& holds) {
  EXPECT_TRUE(model::always(false, prepare, holds));
  EXPECT_FALSE(model::always(true, prepare, holds)) << "the model finds nothing";
}

struct Ends {
  LeaseRingReader reader;
  LeaseRingWriter writer{host::Segment::import(Fd(dup(reader.fd())), sizeof(LeaseRing))};
};

// A claim on what is withdrawn meanwhile: either its
// importer sees that, or the exporter sees the claim.
TEST(LeaseRingModel, ClaimsAndWithdrawalsSeeEachOther) {
  std::unique_ptr<Ends> ends;
  std::unique_ptr<ValidityBoard> board;
  std::set<uint64_t> leases;
  bool is_held[3] = {};
  bool is_seen[3] = {};
  const auto import = [&] {
    for (const uint64_t number : {1U, 2U}) {
      Token token;
      token.slot = 0;
      token.number = number;
      token.bytes = 1;
      LeaseRing::Event event{.kind = Kind::claim, .lease = number};
      ends->writer.write(event);
      is_held[number] = board->is_valid(token, kRegions);
      event.kind = Kind::cancel;
      if (!is_held[number]) ends->writer.write_or_defer(event);
    }
  };

  const auto withdraw = [&] {
    for (const uint64_t number : {1U, 2U}) {
      board->publish(0, {0, 0}, number + 1);
      ends->reader.drain([&](const LeaseRing::Event& event) {
        event.kind == Kind::claim ? static_cast<void>(leases.insert(event.lease))
                                  : static_cast<void>(leases.erase(event.lease));
      });
      is_seen[number] = leases.contains(number);
    }
  };

  const auto prepare = [&]() -> decltype(model::bodies) {
    ends = std::make_unique<Ends>();
    board = std::make_unique<ValidityBoard>();
    board->newest.store(2);
    leases.clear();
    return {import, withdraw};
  };

  expect_always(
      prepare, [&] { return (!is_held[1] || is_seen[1]) && (!is_held[2] || is_seen[2]); });
}

// An entry that finds no room while the exporter makes some is written in the end, or asked for.
TEST(LeaseRingModel, NothingIsLeftBehind) {
  std::unique_ptr<Ends> ends;
  uint64_t taken = 0;
  bool is_asked_for = false;
  const auto look = [&] { return ends->reader.drain([&](const LeaseRing::Event&) { ++taken; }); };
  const auto write = [&] {
    for (int i = 0; i < 2; ++i) {
      ends->writer.write_or_defer({});
    }
  };

  const auto read = [&] {
    for (int i = 0; i < 2; ++i) {
      is_asked_for = (look() && ends->reader.is_crowded()) || is_asked_for;
    }
  };

  const auto prepare = [&]() -> decltype(model::bodies) {
    ends = std::make_unique<Ends>();
    taken = 0;
    is_asked_for = false;
    while (ends->writer.write({})) {
    }
    return {write, read};
  };

  expect_always(prepare, [&] {
    if (is_asked_for) ends->writer.flush();
    look();
    return taken == LeaseRing::kEvents + 2;
  });
}
}  // namespace
}  // namespace symm::ipc
