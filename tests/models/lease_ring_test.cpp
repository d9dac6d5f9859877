// The lease ring and the validity board as they are, in every order in which importer and exporter may touch their words. Each is
// a processor with a buffer of stores, which come to the memory when they like; what is sequentially consistent waits until its
// buffer is empty. The mutant does not wait.
#include <gtest/gtest.h>
#include <ucontext.h>
#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <set>
#include "core/backend/provider.hpp"
#include "core/base/process.hpp"

namespace model {
struct Store {
  void* at;
  uint64_t value;
  size_t bytes;
  void land() const { std::memcpy(at, &value, bytes); }
};

class Machine {
 public:
  using Bodies = std::array<std::function<void()>, 2>;

  void load(const void* at, void* value, size_t bytes) {
    pause();
    std::memcpy(value, at, bytes);
    if (running_ < 0) return;
    for (const Store& store : now().stores)
      if (store.at == at) std::memcpy(value, &store.value, bytes);
  }
  void store(const Store& store, std::memory_order order) {
    pause();
    if (running_ >= 0 && (order != std::memory_order_seq_cst || is_mutant_)) return now().stores.push_back(store);
    if (running_ >= 0) drain(now());
    store.land();
  }

  // Whether it holds in every order; `prepare` makes the bodies of one.
  bool always(bool is_mutant, const std::function<Bodies()>& prepare, const std::function<bool()>& holds) {
    is_mutant_ = is_mutant;
    path_.clear();
    orders_ = 0;
    do {
      bodies_ = prepare();
      run();
      if (!holds()) return false;
      while (!path_.empty() && path_.back().taken + 1 == path_.back().of) path_.pop_back();
      if (!path_.empty()) ++path_.back().taken;
      ++orders_;
    } while (!path_.empty());
    return true;
  }
  uint64_t orders() const { return orders_; }
 private:
  struct Processor {
    ucontext_t context;
    std::array<char, size_t{1} << 18> stack;
    std::deque<Store> stores;
    bool is_done;
  };
  struct Choice {
    size_t taken, of;
  };

  Processor& now() { return processors_[static_cast<size_t>(running_)]; }
  static void drain(Processor& processor) {
    for (; !processor.stores.empty(); processor.stores.pop_front()) processor.stores.front().land();
  }
  void pause() {
    if (running_ >= 0) swapcontext(&now().context, &scheduler_);
  }
  static void begin();

  void run() {
    for (Processor& one : processors_) {
      getcontext(&one.context);
      one.context.uc_stack.ss_sp = one.stack.data();
      one.context.uc_stack.ss_size = one.stack.size();
      one.context.uc_link = &scheduler_;
      one.is_done = false;
      makecontext(&one.context, begin, 0);
    }
    for (size_t depth = 0;; ++depth) {
      std::vector<std::pair<int, bool>> next;  // processor, whether a store of its lands
      for (int i = 0; i < 2; ++i) {
        if (!processors_[static_cast<size_t>(i)].is_done) next.emplace_back(i, false);
        if (!processors_[static_cast<size_t>(i)].stores.empty()) next.emplace_back(i, true);
      }
      if (next.empty()) return;
      if (depth == path_.size()) path_.push_back({0, next.size()});
      const auto [processor, lands] = next[path_[depth].taken];
      running_ = processor;
      if (lands) {
        now().stores.front().land();
        now().stores.pop_front();
      } else {
        swapcontext(&scheduler_, &now().context);
      }
      running_ = -1;
    }
  }

  std::array<Processor, 2> processors_;
  Bodies bodies_;
  ucontext_t scheduler_;
  std::vector<Choice> path_;
  int running_ = -1;
  bool is_mutant_ = false;
  uint64_t orders_ = 0;
};
Machine machine;

void Machine::begin() {
  machine.bodies_[static_cast<size_t>(machine.running_)]();
  machine.now().is_done = true;
}

template <class T> struct Watched {
  T value;
  T load(std::memory_order = std::memory_order_seq_cst) const {
    T loaded;
    machine.load(&value, &loaded, sizeof loaded);
    return loaded;
  }
  void store(T stored, std::memory_order order = std::memory_order_seq_cst) {
    machine.store({&value, stored, sizeof value}, order);
  }
};
}  // namespace model

namespace std {
template <class T> using watched = model::Watched<T>;  // NOLINT(cert-dcl58-cpp): what follows says std::atomic
}  // namespace std
namespace symm::ipc_watched {
using namespace symm::ipc;
}
#define atomic watched
#define ipc ipc_watched
#include "core/ipc/lease_ring.cpp"  // NOLINT(bugprone-suspicious-include)
#include "core/ipc/lease_ring.hpp"
#include "core/ipc/validity_board.hpp"
#undef atomic

namespace symm::ipc {
namespace {
using model::machine;
using model::Machine;
using Kind = LeaseRing::Kind;

struct Ends {
  LeaseRingReader reader;
  LeaseRingWriter writer{host::Segment::import(Fd(dup(reader.fd())), sizeof(LeaseRing))};
};

// A claim on what is withdrawn meanwhile: either its importer sees that, or the exporter sees the claim.
bool claims_and_withdrawals_see_each_other(bool is_mutant) {
  std::unique_ptr<Ends> ends;
  std::unique_ptr<ValidityBoard> board;
  std::set<uint64_t> leases;
  bool is_held[3] = {}, is_seen[3] = {};
  const auto prepare = [&]() -> Machine::Bodies {
    ends = std::make_unique<Ends>();
    board = std::make_unique<ValidityBoard>();
    board->newest.store(2);
    leases.clear();
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
          if (event.kind == Kind::claim) leases.insert(event.lease);
          else leases.erase(event.lease);
        });
        is_seen[number] = leases.contains(number);
      }
    };
    return {import, withdraw};
  };
  return machine.always(is_mutant, prepare, [&] { return (!is_held[1] || is_seen[1]) && (!is_held[2] || is_seen[2]); });
}

// What finds no room while the exporter makes some is written, or asked for.
bool nothing_is_left_behind(bool is_mutant) {
  std::unique_ptr<Ends> ends;
  uint64_t taken = 0;
  bool is_asked_for = false;
  const auto look = [&] { return ends->reader.drain([&](const LeaseRing::Event&) { ++taken; }); };
  const auto prepare = [&]() -> Machine::Bodies {
    ends = std::make_unique<Ends>();
    taken = 0;
    is_asked_for = false;
    while (ends->writer.write({})) {}
    const auto write = [&] {
      for (int i = 0; i < 2; ++i) ends->writer.write_or_defer({});
    };
    const auto read = [&] {
      for (int i = 0; i < 2; ++i) is_asked_for = (look() && ends->reader.is_crowded()) || is_asked_for;
    };
    return {write, read};
  };
  return machine.always(is_mutant, prepare, [&] {
    if (is_asked_for) ends->writer.flush();
    look();
    return taken == LeaseRing::kEvents + 2;
  });
}

TEST(LeaseRingModel, ClaimsAndWithdrawalsSeeEachOther) {
  EXPECT_TRUE(claims_and_withdrawals_see_each_other(false));
  EXPECT_GT(machine.orders(), 1000U);
  EXPECT_FALSE(claims_and_withdrawals_see_each_other(true)) << "the model finds nothing";
}

TEST(LeaseRingModel, NothingIsLeftBehind) {
  EXPECT_TRUE(nothing_is_left_behind(false));
  EXPECT_GT(machine.orders(), 1000U);
  EXPECT_FALSE(nothing_is_left_behind(true)) << "the model finds nothing";
}
}  // namespace
}  // namespace symm::ipc
