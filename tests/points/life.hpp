// A whole life of three ranks, in which something happens to one rank, and what each rank learns.
#pragma once

#include "tests/support/group.hpp"

namespace support {
inline constexpr int kSize = 3;
inline constexpr uint64_t kTimeoutMs = 15'000;  // the timeout of the groups' calls
inline int64_t now_ms() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::milliseconds(1);
}

struct Facts {
  std::atomic<int64_t> fired_ms;
  std::atomic<int> heard;
  std::atomic<int> through;
  std::atomic<int> buried;
  struct Learnt {
    int64_t ms;  // when its first call failed
    symm_status_t status;
    int blamed;
    int failures;
    char message[512];
  } learnt[kSize];
  Token token[kSize];
  std::atomic<uint64_t> version[kSize];  // that each has published
};

enum class Action { fail, kill, stop, delay };

// The action that is to happen in this process, once.
struct Plan {
  std::atomic<const char*> point{nullptr};
  Action action{};
  const char* again = "again";  // name of the group that is made if the first could not be
  int victim = 0;
  Facts* facts = nullptr;
};
inline Plan plan;
inline thread_local bool in_test = false;  // false while the thread is in a call of the library

class Life {
 public:
  Life(int rank, bool on_cuda, std::string bootstrap)
      : me_(rank), on_cuda_(on_cuda), bootstrap_(std::move(bootstrap)) {}

  void live() {
    const int gone = plan.action == Action::kill ? 1 : 0;
    const auto make = [&] {
      while (!attempt(
          [&] { create(plan.again, me_ - (me_ > plan.victim ? gone : 0), kSize - gone); })) {
      }
    };

    if (!attempt([&] { create("first", me_, kSize); })) make();
    while (!go_through()) {
      shrink();
      if (group_.size() < kSize - gone) make();  // some that live have lost each other
    }

    // The last one dies, the others shrink, and all is given back.
    ++plan.facts->through;
    if (me_ == kSize - 1 && eventually([&] { return plan.facts->through >= kSize - gone; })) {
      raise(SIGKILL);
    }

    EXPECT_TRUE(eventually([&] { return group_.status().status != SYMM_OK; }));
    ++plan.facts->heard;  // before another dies, whose death could be seen first
    EXPECT_TRUE(eventually([&] { return plan.facts->heard >= group_.size() - 1; }));
    EXPECT_EQ(group_.status().rank, group_.size() - 1) << group_.status().message;
    shrink();
    attempt([&] { group_.split(0); });
    EXPECT_TRUE(eventually([] { return plan.facts->buried != 0; }));  // what it held is free
  }

 private:
  void create(const char* name, int rank, int size) {
    symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
    config.rank = rank;
    config.size = size;
    config.backend = on_cuda_ ? SYMM_BACKEND_CUDA : SYMM_BACKEND_HOST;
    if (on_cuda_) config.flags = SYMM_GROUP_ON_DEVICE;
    config.device = on_cuda_ ? me_ : 0;
    config.bootstrap = bootstrap_.c_str();
    config.name = name;
    config.create_timeout_ms = kTimeoutMs;
    config.timeout_ms = kTimeoutMs;
    group_ = Group::create(config);
  }
  void shrink() {
    while (!attempt([&] { group_ = group_.shrink(); })) {
    }
  }
  bool has_failed() const { return group_ && group_.status().status != SYMM_OK; }

  // False if it failed, which is written down the first time.
  bool attempt(const std::function<void()>& step) {
    Outcome got;
    try {
      in_test = false;
      got = outcome_of(step);
    } catch (const std::bad_alloc&) {
      got = {SYMM_ERR_OUT_OF_MEMORY, "in symm.hpp"};
    }

    in_test = true;
    if (got.status == SYMM_OK) return true;
    if (has_failed() && got.message.find("point:") == std::string::npos) {
      got = {group_.status().status, group_.status().message, group_.status().rank, 0};
    }

    auto& learnt = plan.facts->learnt[me_];
    if (++learnt.failures > 6) throw std::runtime_error("it does not end: " + got.message);
    if (learnt.failures > 1) return false;
    learnt.ms = now_ms();
    learnt.status = got.status;
    learnt.blamed = got.rank;
    std::strncpy(learnt.message, got.message.c_str(), sizeof learnt.message - 1);

    return false;
  }

  // Returns false if the group has failed. A step that fails without the group is done again.
  bool go_through() {
    Buffer buffer;
    Memory memory;
    std::vector<float> many(60'000, 1.0F);
    const symm::Span<float> all(many);
    const symm::Span<float> few(many.data(), 4);
    const int size = group_.size();
    const int next = (group_.rank() + 1) % size;
    const auto meet = [&] { group_.split(0); };
    const auto take = [&] { const symm::Import import(plan.facts->token[next]); };
    symm::PublishedVersion found;
    const std::function<void()> steps[] = {
        [&] { buffer = group_.allocate(1 << 20); },
        [&] { memory = group_.rendezvous(buffer); },
        [&] { memory.put(next, 64, many); },
        [&] { memory.signal(next); },
        [&] { on_cuda_ ? void() : memory.wait_signal((next + size - 2) % size); },
        [&] { group_.allreduce(few, few, SYMM_OP_SUM); },
        [&] { EXPECT_TRUE(on_cuda_ || many[3] == static_cast<float>(size)) << many[3]; },
        [&] { group_.allreduce(all, all, SYMM_OP_MAX); },
        [&] { group_.barrier(); },
        [&] { plan.facts->token[group_.rank()] = make_token(buffer.span().data(), 4096); },
        meet,
        take,
        take,
        meet,
        [&] { symm::ipc_withdraw(buffer.span(), 10'000); },
        meet,
        [&] { publish_two_pieces(buffer); },
        meet,
        [&] { found = symm::ipc_lookup("life", SYMM_COMPARE_EQ, plan.facts->version[next]); },
        meet,
        [&] {
          // Mapped anew: what was imported above is mapped for writing.
          symm_ipc_import_options_t reading = SYMM_IPC_IMPORT_OPTIONS_INIT;
          reading.flags = SYMM_IPC_READ_ONLY;
          const symm::Import bundle(found.token, reading);
          EXPECT_EQ(bundle.bundle_piece("b").bytes, 4096U);
        },
        meet,
        [&] { symm::ipc_withdraw_version("life", plan.facts->version[group_.rank()], {10'000}); },
        meet,
    };

    for (const auto& step : steps) {
      while (!attempt(step)) {
        // A call may fail as a consequence of a death before the rank hears of the death itself.
        if (eventually([&] { return has_failed(); }, plan.action == Action::kill ? 2'000 : 0)) {
          return false;
        }
      }
    }
    return true;
  }

  // A version that this process has not published before, also if it does all of this again.
  void publish_two_pieces(const Buffer& buffer) {
    symm_ipc_piece_t pieces[2] = {SYMM_IPC_PIECE_INIT, SYMM_IPC_PIECE_INIT};
    pieces[0].pointer = buffer.span().data();
    pieces[1].pointer = buffer.span().data() + 8192;
    pieces[0].bytes = 4096;
    pieces[1].bytes = 4096;
    pieces[0].name = "a";
    pieces[1].name = "b";
    published_ += kSize;
    const auto version = published_ + static_cast<uint64_t>(me_);
    symm::ipc_publish("life", version, symm::ipc_export_bundle(pieces));
    plan.facts->version[group_.rank()] = version;
  }

  uint64_t published_ = 0;
  const int me_;
  const bool on_cuda_;
  const std::string bootstrap_;
  Group group_;
};
}  // namespace support
