// Every point of the library (core/base/error.hpp), once in a whole life of three ranks, on the host and on the fake driver: a
// rank fails there, is killed, stopped or delayed. Nobody crashes or hangs, all learn the same cause at once, and go on; nothing
// is left.
#include "tests/support/group.hpp"

namespace support {
namespace {
enum class Action { fail, kill, stop, delay };
enum class Hurt {  // whose call fails when the victim does at a point
  all,             // everybody's, for the same reason
  left,            // the same, of those that the last one leaves behind
  own,             // the victim's, which can be made again
  peer,            // likewise, of the rank before it, which imports from it
  none,            // the library does without
  lost,            // as if the victim, or for it the others, had died
  never,           // nothing can fail there
  absent           // not on this back end
};
struct Row {
  Hurt on_host, on_cuda;
  int victim;
  const char* points;
};
constexpr Row kTable[] = {
    {Hurt::all, Hurt::all, 1,
        "store.set store.linked store.get wireup.introduce wireup.listen wireup.dial wireup.admit wireup.join wireup.voted "
        "monitor.watch mesh.send group.attached exchange.prepare exchange.voted exchange.commit rendezvous.commit part.form"},
    {Hurt::left, Hurt::left, 1, "agreement.tell"},
    {Hurt::all, Hurt::all, 0, "directory.seal"},
    {Hurt::lost, Hurt::lost, 1, "directory.sealed socket.read ipc.serve"},
    {Hurt::none, Hurt::none, 1, "life.hold"},
    {Hurt::all, Hurt::own, 1, "segment.create segment.seal segment.import"},
    {Hurt::own, Hurt::own, 1, "ipc.export ipc.dial ipc.welcome ipc.requested ipc.claimed ipc.withdraw"},
    {Hurt::peer, Hurt::peer, 1, "ipc.admit"},
    {Hurt::never, Hurt::never, 1, "split.voted shrink.agreed"},
    {Hurt::never, Hurt::absent, 1, "call.enter call.entered"},
    {Hurt::absent, Hurt::all, 1, "cuda.control cuda.map cuda.ready"},
};

constexpr int kSize = 3;
int64_t now_ms() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::milliseconds(1); }

struct Facts {
  std::atomic<int64_t> fired_ms;
  std::atomic<int> buried;
  struct {
    int64_t ms;  // of its first failure
    symm_status_t status;
    int blamed, failures;
    char message[512];
  } learnt[kSize];
  struct {
    size_t size;
    std::byte bytes[SYMM_IPC_TOKEN_MAX_SIZE];
  } token[kSize];
};

// What is to happen in this process, once.
struct {
  std::atomic<const char*> point{nullptr};
  Action action{};
  int victim = 0;
  Facts* facts = nullptr;
} plan;

int met(const char* name) {
  const char* planned = plan.point.load();
  if (planned == nullptr || std::strcmp(name, planned) != 0 || !plan.point.compare_exchange_strong(planned, nullptr)) return 0;
  plan.facts->fired_ms = now_ms();
  if (plan.action == Action::fail) return EIO;
  if (plan.action == Action::delay) usleep(50'000);
  if (plan.action != Action::delay) raise(plan.action == Action::kill ? SIGKILL : SIGSTOP);
  return 0;
}

class Life {
 public:
  Life(int rank, bool on_cuda, std::string bootstrap) : me_(rank), on_cuda_(on_cuda), bootstrap_(std::move(bootstrap)) {}

  void live() {
    if (!attempt([&] { create("first", me_, kSize); })) {
      const int gone = plan.action == Action::kill ? 1 : 0;
      create("again", me_ - (me_ > plan.victim ? gone : 0), kSize - gone);
    }
    while (!go_through()) shrink();
    // The last one dies, the others shrink, and all is given back.
    if (me_ == kSize - 1) raise(SIGKILL);
    EXPECT_TRUE(eventually([&] { return group_.status().status != SYMM_OK; }));
    EXPECT_EQ(group_.status().failed_rank, group_.size() - 1) << group_.status().message;
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
    config.device = me_;
    config.bootstrap = bootstrap_.c_str();
    config.name = name;
    config.create_timeout_ms = config.timeout_ms = 15'000;
    group_ = Group::create(config);
  }
  void shrink() {
    while (!attempt([&] { group_ = group_.shrink(); })) {}
  }
  bool has_failed() const { return group_ && group_.status().status != SYMM_OK; }

  // False if it failed, which is written down the first time.
  bool attempt(const std::function<void()>& step) {
    Outcome got = outcome_of(step);
    if (got.status == SYMM_OK) return true;
    if (has_failed() && got.message.find("point:") == std::string::npos)
      got = {group_.status().status, group_.status().message, group_.status().failed_rank, 0};
    auto& learnt = plan.facts->learnt[me_];
    if (++learnt.failures > 6) throw std::runtime_error("it does not end: " + got.message);
    if (learnt.failures > 1) return false;
    learnt.ms = now_ms();
    learnt.status = got.status;
    learnt.blamed = got.rank;
    std::strncpy(learnt.message, got.message.c_str(), sizeof learnt.message - 1);
    return false;
  }

  // False if the group has failed. What failed of itself is done again.
  bool go_through() {
    Buffer buffer;
    Memory memory;
    std::vector<float> many(60'000, 1.0F);
    const symm::Span<float> all(many), few(many.data(), 4);
    const int size = group_.size();
    const int next = (group_.rank() + 1) % size;
    auto& token = plan.facts->token[group_.rank()];
    const auto meet = [&] { group_.split(0); };
    const auto take = [&] {
      const auto& theirs = plan.facts->token[next];
      const symm::Import import(symm::Span<const std::byte>(theirs.bytes, theirs.size));
    };
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
        [&] {
          check(symm_ipc_export(buffer.span().data(), 4096, nullptr, token.bytes, sizeof token.bytes, &token.size, nullptr));
        },
        meet,
        take,
        take,
        meet,
        [&] { symm::ipc_withdraw(buffer.span(), 10'000); },
        meet,
    };
    for (const auto& step : steps) {
      while (!attempt(step)) {
        // What comes of a death may come before it is told.
        if (eventually([&] { return has_failed(); }, plan.action == Action::kill ? 2'000 : 0)) return false;
      }
    }
    return true;
  }

  const int me_;
  const bool on_cuda_;
  const std::string bootstrap_;
  Group group_;
};

void walk(const Row& row, const std::string& point, Action action, bool on_cuda) {
  const Hurt hurt = on_cuda ? row.on_cuda : row.on_host;
  const bool fails = action == Action::fail;
  if (hurt == Hurt::absent || (hurt == Hurt::never && fails)) return;
  const char* const how[] = {"fails", "is killed", "is stopped", "is delayed"};
  SCOPED_TRACE((on_cuda ? "cuda, rank " : "host, rank ") + std::to_string(row.victim) + " " + how[static_cast<int>(action)]);
  const Bootstrap meeting;
  const Shared<Facts> facts;
  Processes ranks(kSize, [&](int rank) {
    setenv("SYMM_IPC_DIRECTORY", meeting.path().c_str(), 1);
    plan.action = action;
    plan.victim = row.victim;
    plan.facts = &*facts;
    if (rank == row.victim) plan.point = point.c_str();
    Life(rank, on_cuda, meeting.processes().bootstrap).live();
  });
  if (action == Action::stop) {
    EXPECT_TRUE(eventually([&] { return facts->fired_ms != 0; }, 10'000));
    usleep(100'000);
    ranks[row.victim].kill(SIGCONT);
  }
  std::vector<int> dead{kSize - 1};
  if (action == Action::kill) dead.push_back(row.victim);
  for (const int rank : dead) EXPECT_TRUE(WIFSIGNALED(ranks[rank].wait())) << rank << ": " << ranks[rank].said();
  facts->buried = 1;
  ranks.expect_success(dead);
  expect_empty(meeting.path());
  EXPECT_NE(facts->fired_ms, 0) << "nobody came by";
  for (int rank = 0; rank < kSize; ++rank) {
    const auto& learnt = facts->learnt[rank];
    SCOPED_TRACE(std::to_string(rank) + " says: " + learnt.message);
    const bool is_hurt = learnt.ms != 0;
    EXPECT_TRUE(!is_hurt || learnt.ms - facts->fired_ms < 1'000);
    if (fails && hurt != Hurt::lost) {
      EXPECT_EQ(is_hurt, hurt == Hurt::all || (hurt == Hurt::left && rank + 1 < kSize) ||
                             (hurt == Hurt::own && rank == row.victim) || (hurt == Hurt::peer && rank + 1 == row.victim));
      EXPECT_TRUE(!is_hurt || std::strstr(learnt.message, point.c_str()) != nullptr);
      EXPECT_TRUE(!is_hurt || learnt.blamed == row.victim || hurt != Hurt::all) << learnt.blamed;
    } else if (action == Action::kill && is_hurt) {
      EXPECT_EQ(learnt.status, SYMM_ERR_PEER_FAILED);
      EXPECT_TRUE(learnt.blamed == row.victim || learnt.blamed == -1) << learnt.blamed;
    }
    EXPECT_TRUE(action < Action::stop || !is_hurt);
  }
}

class Points : public testing::TestWithParam<std::string> {};

TEST_P(Points, LeadToWhatTheTableSays) {
  setenv("SYMM_CUDA_TUNE", "chunk=65536,one_shot=4096,ll=1024,tile=1024,stripes=2", 1);
  for (const Row& row : kTable) {
    if ((' ' + std::string(row.points) + ' ').find(' ' + GetParam() + ' ') == std::string::npos) continue;
    for (const bool on_cuda : {false, true}) {
      for (const Action action : {Action::fail, Action::kill, on_cuda ? Action::delay : Action::stop})
        walk(row, "point:" + GetParam(), action, on_cuda);
    }
  }
}

std::vector<std::string> all_points() {
  std::stringstream all;
  for (const Row& row : kTable) all << row.points << ' ';
  return {std::istream_iterator<std::string>(all), {}};
}
INSTANTIATE_TEST_SUITE_P(All, Points, testing::ValuesIn(all_points()), [](const auto& of) {
  std::string name = of.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});
}  // namespace
}  // namespace support

extern "C" int symm_at_point(const char* name);
int symm_at_point(const char* name) { return support::met(name); }
