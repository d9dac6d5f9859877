// Faults from outside the library, in a whole life of three ranks. Either the k-th
// allocation or the k-th call of libc of one rank fails, once, for every k; or every
// k-th call of libc is interrupted, or moves half of the bytes that it should move. No
// rank crashes or hangs, all ranks that the fault concerns learn one cause within a
// second, all go on, and no rank leaves anything behind. CI takes a sample of the k.
// SYMM_TEST_FAULTS=<number of samples of each kind> takes more, and 0 takes all.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <new>
#include <random>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "symm/symm.h"
#include "tests/fake_cuda/fake_cuda.hpp"
#include "tests/points/life.hpp"
#include "tests/points/outside.h"

namespace support {
namespace {
enum Fault {
  fails = SYMM_FAILS,
  interrupted = SYMM_INTERRUPTED,
  shortened = SYMM_SHORTENED,
  allocation
};

constexpr const char* kFaults[] = {"fails", "interrupted", "shortened", "allocation"};

enum Way { host, cuda, tcp, machines };

constexpr const char* kWays[] = {"host", "cuda", "tcp", "machines"};

struct Outside {
  Facts facts;
  std::atomic<int64_t> count;  // calls that could meet the fault
  std::atomic<const char*> struck;
  Footprint left[kSize];  // what each rank holds when it has given everything back
};

// The fault that is to happen in this process.
struct {
  std::atomic<bool> armed{false};
  Fault fault{};
  int64_t number = 0;  // of the call that meets the fault; of those that recur, every number-th
  Outside* outside = nullptr;
} faults;

bool strikes(Fault fault, const char* name) {
  if (!faults.armed.load(std::memory_order_relaxed) || in_test || fault != faults.fault) {
    return false;
  }

  const int64_t number = ++faults.outside->count;
  const bool once = fault == fails || fault == allocation;

  // A fault that recurs is drawn by a hash, so that it keeps no step with the calls of a loop.
  const auto drawn =
      static_cast<int64_t>(static_cast<uint64_t>(number) * 0x9E3779B97F4A7C15U >> 33);
  if (once ? number != faults.number : drawn % faults.number != 0) return false;
  faults.outside->struck = name;
  faults.outside->facts.fired_ms = now_ms();

  return true;
}

std::string meeting_of(Way way, const Bootstrap& directory) {
  if (way < tcp) return directory.processes().bootstrap;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(fd);
  return "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

// Waits until this process holds no more than `usual`, what a life without a fault leaves; without
// `usual`, until what it holds changes no more.
void expect_usual(int rank, const Outside* usual, Footprint& left) {
  if (usual == nullptr) {
    left = Footprint::settled();
    return;
  }

  const Footprint& most = usual->left[rank];
  const auto is_usual = [&] {
    left = Footprint::now();
    return left.descriptors <= most.descriptors && left.mappings <= most.mappings &&
           left.threads <= most.threads;
  };
  EXPECT_TRUE(eventually(is_usual, 5'000)) << left << " instead of " << most;
}

// Whether two ranks have learnt of one cause. A rank does not always name itself.
bool have_same_cause(const Facts& facts, int rank, int other) {
  const auto& one = facts.learnt[rank];
  const auto& two = facts.learnt[other];
  const auto blamed = [](int whom, int by) { return whom < 0 ? by : whom; };
  // Two ranks that have lost each other take each other for dead.
  const bool lost = one.status == SYMM_ERR_PEER_FAILED;
  return one.status == two.status && (lost || one.blamed == two.blamed ||
                                         blamed(one.blamed, rank) == blamed(two.blamed, other));
}

// Runs one life with a fault, and returns what went
// wrong. `usual` is what a life without a fault leaves.
std::string live_once(
    Way way, Fault fault, int victim, int64_t number, const Outside* usual, Outside& outside) {
  const Bootstrap directory;
  const std::string meeting = meeting_of(way, directory);
  Facts& facts = outside.facts;
  Processes ranks(kSize, [&](int rank) {
    in_test = true;
    setenv("SYMM_IPC_DIRECTORY", directory.path().c_str(), 1);
    if (way == machines) setenv("SYMM_MACHINE", rank == 0 ? "a" : "b", 1);
    plan.victim = victim;
    plan.again = "first";  // a rank may fail alone, before others have come
    plan.facts = &facts;
    faults.fault = fault;
    faults.number = number;
    faults.outside = &outside;
    faults.armed = rank == victim;
    Life(rank, way == cuda, meeting).live();
    faults.armed = false;
    expect_usual(rank, usual, outside.left[rank]);
  });

  std::ostringstream wrong;
  const bool ended = WIFSIGNALED(ranks[kSize - 1].wait());
  facts.buried = 1;
  int first = -1;
  for (int rank = 0; rank < kSize; ++rank) {
    if (!(rank == kSize - 1 ? ended : ranks[rank].wait() == 0)) {
      wrong << "\nrank " << rank << " ended: " << ranks[rank].said();
    }
    const auto& learnt = facts.learnt[rank];
    if (learnt.ms == 0) continue;
    if (first < 0) first = rank;
    // A second, and that in which an export asks whether a rank that failed is dead.
    if (learnt.ms - facts.fired_ms >= 2'000) wrong << "\nrank " << rank << " learnt late";
    if (fault == interrupted || fault == shortened) wrong << "\nnobody needs to hear of it";
    if (!have_same_cause(facts, rank, first))
      wrong << "\nrank " << rank << " learnt something else";
  }

  // Without a directory of the bootstrap, no process comes by the directory of the exporter that
  // was killed.
  for (const std::string& entry :
      way >= tcp ? std::vector<std::string>() : entries(directory.path())) {
    wrong << "\nleft: " << entry;
  }

  if (wrong.str().empty()) return "";
  const char* struck = outside.struck;
  wrong << "\nin " << kWays[way] << ", rank " << victim << ", " << kFaults[fault] << " " << number
        << ", " << (struck != nullptr ? struck : "nothing");

  for (const auto& learnt : facts.learnt) {
    wrong << "\n  after " << (learnt.ms == 0 ? 0 : learnt.ms - facts.fired_ms) << " ms "
          << learnt.status << " of " << learnt.blamed << ": " << learnt.message;
  }

  return wrong.str();
}

class Faults : public testing::TestWithParam<std::tuple<Way, Fault, int>> {};

TEST_P(Faults, AreSurvivedByAll) {
  setenv("SYMM_CUDA_TUNE", "chunk=65536,one_shot=4096,ll=1024,tile=1024,work_groups=2", 1);
  const auto [way, fault, victim] = GetParam();
  const char* asked = std::getenv("SYMM_TEST_FAULTS");
  const Shared<Outside> usual;
  const std::string without = live_once(way, fault, victim, INT64_MAX, nullptr, *usual);
  if (way == machines && without.find("no engine") != std::string::npos) GTEST_SKIP() << without;
  ASSERT_EQ(without, "");
  const auto calls = static_cast<double>(usual->count);
  const bool once = fault == fails || fault == allocation;
  double lives = way == cuda && fault == allocation ? 40 : 20;
  if (asked != nullptr) lives = std::atoi(asked);
  std::mt19937_64 random(16);  // NOLINT(bugprone-random-generator-seed,cert-msc32-c,cert-msc51-cpp)
  const double step = lives == 0 || !once ? 1 : std::max(1.0, calls / std::abs(lives));
  std::string wrong;
  for (double at = lives < 0 ? -lives : 1; at <= (once ? calls : 3) && !HasFailure();
      at += lives < 0 ? calls : step) {
    const Shared<Outside> outside;
    const auto number = static_cast<int64_t>(
        once ? at + (step - 1) * static_cast<double>(random() % 1000) / 1000 : at + 1);
    wrong += live_once(way, fault, victim, number, &*usual, *outside);
  }

  EXPECT_TRUE(wrong.empty()) << wrong;
}

INSTANTIATE_TEST_SUITE_P(All, Faults,
    testing::Combine(testing::Values(host, cuda, tcp, machines),
        testing::Values(fails, interrupted, shortened, allocation), testing::Values(0, 1)),
    [](const auto& one) {
      return std::string(kWays[std::get<0>(one.param)]) + "_" + kFaults[std::get<1>(one.param)] +
             "_" + std::to_string(std::get<2>(one.param));
    });

// The process can make a group after a failed allocation as before it: it keeps no half
// of what it was about to learn of the driver.
TEST(Allocations, ThatFailLeaveNothingBehind) {
  const Shared<Outside> outside;
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = SYMM_BACKEND_CUDA;
  config.size = 1;

  for (int64_t number = 1; number == 1 || outside->struck != nullptr; ++number) {
    outside->count = 0;
    outside->struck = nullptr;
    Processes one(1, [&](int) {
      faults.fault = allocation;
      faults.number = number;
      faults.outside = &*outside;
      faults.armed = true;
      try {
        Group::create(config);
      } catch (const std::exception&) {
        EXPECT_NE(outside->struck, nullptr);
      }
      faults.armed = false;
      Group::create(config);
    });
    ASSERT_EQ(one[0].wait(), 0) << "allocation " << number << ": " << one[0].said();
  }
}

void* new_or_null(size_t size) {
  if (!fake_cuda::is_inside() && strikes(allocation, "new")) return nullptr;
  return std::malloc(size == 0 ? 1 : size);
}
}  // namespace
}  // namespace support

int symm_strikes(int fault, const char* name) {
  return support::strikes(static_cast<support::Fault>(fault), name) ? 1 : 0;
}

// These functions are not inlined: GCC would see a free() of memory that, it believes, another
// operator new made.
[[gnu::noinline]] void* operator new(size_t size) {
  if (void* made = support::new_or_null(size)) return made;
  throw std::bad_alloc();
}

[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return support::new_or_null(size);
}

[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }

[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
