// Ranks that are in calls of different kinds, which wait for each other, are told so long before
// their deadline, by the names of both calls. Threads of one rank may be in several calls.
#include <cctype>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "symm/symm.h"
#include "tests/ranks/failure.hpp"

namespace support {
namespace {
using std::chrono::milliseconds;

struct Call {
  std::string name;  // in messages
  std::function<void(const Group&)> make;
};

Call reducing() {
  return {"allreduce(f32, sum, count 10)", [](const Group& group) {
            std::vector<float> data(10);
            check(allreduce(group, data.data(), data.data(), data.size()));
          }};
}
Call of_large_operands() {
  return {"allreduce(f32, sum, count 100000)", [](const Group& group) {
            std::vector<float> data(100'000);
            check(allreduce(group, data.data(), data.data(), data.size()));
          }};
}
Call gathering() {
  return {"allgather(f32, count 100)", [](const Group& group) {
            const std::vector<float> one(100);
            std::vector<float> all(100 * static_cast<size_t>(group.size()));
            check(run(group.get(),
                call_of(SYMM_COLLECTIVE_ALLGATHER, one.data(), all.data(), 100, SYMM_DTYPE_F32),
                nullptr));
          }};
}
Call meeting_on(int channel) {
  return {"barrier on channel " + std::to_string(channel),
      [=](const Group& group) { group.barrier({}, channel); }};
}
Call finalizing() {
  return {"group_finalize", [](const Group& group) { group.finalize(0); }};
}
Call rendezvous() {
  return {"rendezvous", [](const Group& group) { group.rendezvous(group.allocate(8192)); }};
}
Call splitting() {
  return {"group_split", [](const Group& group) { group.split(0); }};
}

Call making_a_group() {
  return {"group_create_from_ranks", [](const Group& group) {
            const int32_t ranks[] = {0, 1, 2};
            group.create_from_ranks(ranks);
          }};
}
Call meeting_here() {
  return {"group_local", [](const Group& group) { group.local(); }};
}
Call making_a_heap() {
  return {"heap_create", [](const Group& group) { group.heap(8192); }};
}

Call making_an_exchange() {
  return {"exchange_create", [](const Group& group) { group.exchange({}); }};
}

std::ostream& operator<<(std::ostream& out, const Call& call) { return out << call.name; }

struct Pair {
  std::string name;
  Call common;
  Call odd;
};
std::ostream& operator<<(std::ostream& out, const Pair& pair) { return out << pair.name; }

class Kinds : public testing::TestWithParam<Pair> {};

TEST_P(Kinds, ThatDifferAreToldSoonAndByName) {
  for (const int odd : {0, 1, 2}) {
    as_threads(3, [&](int rank, const Group& group) {
      group.barrier();
      const Call& call = rank == odd ? GetParam().odd : GetParam().common;
      const int64_t began = now_ns();
      expect_failure(SYMM_ERR_MISMATCH,
          {"makes " + GetParam().common.name, "makes " + GetParam().odd.name},
          [&] { call.make(group); });
      EXPECT_LT(now_ns() - began, int64_t{15'000'000'000}) << "nearer to the deadline than to now";
      EXPECT_EQ(last_failure().rank, odd) << symm_last_error();

      // A rank that makes a new group may hear first that the new group has failed.
      EXPECT_TRUE(eventually([&] { return group.status().status == SYMM_ERR_MISMATCH; }))
          << group.status().status;
    });
  }
}

std::vector<Pair> pairs() {
  return {
      {"BarrierAllreduce", meeting_on(0), reducing()},
      {"AllreduceBarrier", reducing(), meeting_on(0)},
      {"LargeAllreduceBarrier", of_large_operands(), meeting_on(63)},
      {"FinalizeAllreduce", finalizing(), reducing()},
      {"BarrierFinalize", meeting_on(0), finalizing()},
      {"BarriersOfTwoChannels", meeting_on(3), meeting_on(4)},
      {"AllgatherRendezvous", gathering(), rendezvous()},
      {"RendezvousBarrier", rendezvous(), meeting_on(0)},
      {"SplitAllreduce", splitting(), reducing()},
      {"MakingAGroupAllreduce", making_a_group(), reducing()},
      {"BarrierMakingAGroup", meeting_on(0), making_a_group()},
      {"RendezvousSplit", rendezvous(), splitting()},
      {"SplitLocal", splitting(), meeting_here()},
      {"LocalSplit", meeting_here(), splitting()},
      {"SplitMakingAGroup", splitting(), making_a_group()},
      {"MakingAGroupSplit", making_a_group(), splitting()},
      {"LocalRendezvous", meeting_here(), rendezvous()},
      {"HeapRendezvous", making_a_heap(), rendezvous()},
      {"HeapBarrier", making_a_heap(), meeting_on(0)},
      {"SplitHeap", splitting(), making_a_heap()},
      {"ExchangeRendezvous", making_an_exchange(), rendezvous()},
      {"HeapExchange", making_a_heap(), making_an_exchange()},
      {"BarrierExchange", meeting_on(0), making_an_exchange()},
  };
}

INSTANTIATE_TEST_SUITE_P(
    Each, Kinds, testing::ValuesIn(pairs()), [](const auto& pair) { return pair.param.name; });

// The rank in shrink() is told nothing: the others have failed the group, and come to it.
class Shrinking : public testing::TestWithParam<Call> {};

TEST_P(Shrinking, IsNamedToRanksInOtherCallsWhichThenComeToIt) {
  for (const int odd : {0, 1, 2}) {
    as_threads(3, [&](int rank, const Group& group) {
      group.barrier();
      const int64_t began = now_ns();
      if (rank != odd) {
        expect_failure(SYMM_ERR_MISMATCH, {"makes group_shrink", "makes " + GetParam().name},
            [&] { GetParam().make(group); });
        EXPECT_LT(now_ns() - began, int64_t{15'000'000'000});
        EXPECT_EQ(last_failure().rank, odd) << symm_last_error();
      }
      const Group rest = group.shrink();
      EXPECT_EQ(rest.size(), 3);
      expect_sum(rest);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Beside, Shrinking,
    testing::Values(meeting_on(0), reducing(), finalizing(), rendezvous(), splitting()),
    [](const auto& call) {
      std::string name = call.param.name;
      std::erase_if(name, [](char letter) { return std::isalnum(letter) == 0; });
      return name;
    });

// Each rank waits for the next one in a group of two.
TEST(KindsOfCalls, GroupsOfDifferentRanksInARingAreFound) {
  as_threads(3, [](int rank, const Group& group) {
    group.barrier();
    const int64_t began = now_ns();
    const int32_t ranks[] = {rank, (rank + 1) % 3};
    expect_failure(SYMM_ERR_MISMATCH,
        {"group_create_from_ranks: ranks 0 and 2 name different ranks of this group"},
        [&] { group.create_from_ranks(ranks); });
    EXPECT_LT(now_ns() - began, int64_t{15'000'000'000});
    EXPECT_TRUE(eventually([&] { return group.status().status == SYMM_ERR_MISMATCH; }));
    EXPECT_EQ(group.status().rank, 2);
  });
}

// A rank of a group that is made has another number there.
TEST(KindsOfCalls, ARankMissingInANewGroupIsNamedByItsNumberInTheOldOne) {
  as_threads(3, [](int rank, const Group& group) {
    if (rank == 1) {
      const int32_t ranks[] = {1, 2};
      symm_group_options_t options = SYMM_GROUP_OPTIONS_INIT;
      options.timeout_ms = 500;
      expect_failure(SYMM_ERR_TIMEOUT,
          {"in the new group, whose ranks 0, 1, ... are ranks 1, 2 of this one: rank 1 (pid"},
          [&] { group.create_from_ranks(ranks, options); });
      EXPECT_EQ(last_failure().rank, 2);
    }
    group.barrier();
  });
}

// With a deadline that passes earlier, too.
TEST(KindsOfCalls, ThatDifferAreAMismatchAtAShortDeadlineToo) {
  as_threads(2, [](int rank, const Group& group) {
    group.barrier();
    std::vector<float> data(10);
    const symm_status_t status =
        rank == 0 ? symm_allreduce(group.get(), data.data(), data.data(), data.size(),
                        SYMM_DTYPE_F32, SYMM_OP_SUM, forced(SYMM_ALGORITHM_AUTO, 400), nullptr)
                  : symm_barrier(group.get(), nullptr, 0, 0, within(500), nullptr);
    expect_failed(status, SYMM_ERR_MISMATCH, {"rank 0 makes", "rank 1 makes barrier on channel 0"});
  });
}

TEST(KindsOfCalls, BarriersOfDifferentSetsOnOneMachineAreFound) {
  as_threads(3, [](int rank, const Group& group) {
    group.barrier();
    const int32_t both[] = {0, 2};
    expect_failure(SYMM_ERR_MISMATCH, {"different sets on channel 0"},
        [&] { group.barrier(symm::Span(both, rank == 2 ? 2 : 0)); });
  });
}

// Two threads of each rank are in a barrier and in an all-reduce. On rank 0 the one comes late, on
// rank 1 the other: for a while each rank waits for the other in another call.
TEST(KindsOfCalls, OfSeveralThreadsMayCrossForAsLongAsTheyLike) {
  as_threads(2, [](int rank, const Group& group) {
    const auto late = [&](const Call& call, bool comes_late) {
      return [&group, call, comes_late] {
        if (comes_late) std::this_thread::sleep_for(milliseconds(2500));
        call.make(group);
      };
    };
    const auto both = [&](bool first_is_late, bool second_is_late) {
      std::thread other(late(meeting_on(1), first_is_late));
      late(reducing(), second_is_late)();
      other.join();
    };
    // Both threads are seen to wait.
    for (int round = 0; round < 2; ++round) {
      if (rank == round) std::this_thread::sleep_for(milliseconds(400));
      both(false, false);
    }
    both(rank == 0, rank == 1);
    EXPECT_EQ(group.status().status, SYMM_OK) << group.status().message;
  });
}

// Rank 0 waits in a barrier with rank 1, which is busy; another
// thread of rank 1 waits for rank 2 on another channel.
TEST(KindsOfCalls, WaitsOnOtherChannelsShiftNoBlame) {
  as_threads(3, [](int rank, const Group& group) {
    const int32_t near[] = {0, 1};
    const int32_t far[] = {1, 2};
    group.barrier();
    if (rank == 0) {
      std::this_thread::sleep_for(milliseconds(200));
      expect_failed(symm_barrier(group.get(), near, 2, 1, within(700), nullptr), SYMM_ERR_TIMEOUT,
          {"barrier: rank 1", "it is in barrier on channel 5 and waits for rank 2"});
      EXPECT_EQ(last_failure().rank, 1) << symm_last_error();
    } else if (rank == 1) {
      expect_failed(symm_barrier(group.get(), far, 2, 5, within(20'000), nullptr), SYMM_ERR_TIMEOUT,
          {"rank 1"});
    } else {
      EXPECT_TRUE(eventually([&] { return group.status().status == SYMM_ERR_TIMEOUT; }));
      EXPECT_EQ(group.status().rank, 1) << group.status().message;
    }
  });
}

// Rank 1 waits for rank 0, which waits on another channel for rank 2, which is silent. Rank 1 sees
// its deadline pass first, and gives rank 0 the moments until its own.
TEST(KindsOfCalls, ARankThatWaitsElsewhereIsHeardIfItsDeadlinePassesToo) {
  as_threads(3, [](int rank, const Group& group) {
    const int32_t first_and_last[] = {0, 2};
    const int32_t first_two[] = {0, 1};
    group.barrier();
    if (rank == 0) {
      EXPECT_EQ(
          symm_barrier(group.get(), first_and_last, 2, 1, within(700), nullptr), SYMM_ERR_TIMEOUT);
    } else if (rank == 1) {
      EXPECT_EQ(symm_barrier(group.get(), first_two, 2, 2, within(650), nullptr), SYMM_ERR_TIMEOUT);
    } else {
      EXPECT_TRUE(eventually([&] { return group.status().status == SYMM_ERR_TIMEOUT; }));
    }
    EXPECT_EQ(group.status().rank, 2) << group.status().message;
  });
}

struct Refused {
  std::string name;
  std::string said;
  std::function<symm_status_t(const Group&, bool wrong)> call;
};
std::ostream& operator<<(std::ostream& out, const Refused& refused) { return out << refused.name; }

std::vector<Refused> refused_calls() {
  const auto allreduce = [](const Group& group, bool wrong) {
    std::vector<float> data(10);
    return symm_allreduce(group.get(), data.data(), data.data() + (wrong ? 1 : 0), 9,
        SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, nullptr);
  };
  const auto barrier = [](const Group& group, bool wrong) {
    return symm_barrier(group.get(), nullptr, 0, wrong ? -1 : 5, nullptr, nullptr);
  };
  const auto meet = [](const Group& group, bool wrong) {
    const Buffer buffer = group.allocate(4096);
    symm_rendezvous_options_t options = SYMM_RENDEZVOUS_OPTIONS_INIT;
    options.channels = wrong ? 257 : 3;
    symm_memory_t* memory = nullptr;
    const symm_status_t status = symm_rendezvous(group.get(), buffer.get(), &options, &memory);
    if (memory != nullptr) symm_memory_release(memory);
    return status;
  };
  return {{"Allreduce", "allreduce: recv", allreduce}, {"Barrier", "barrier: channel", barrier},
      {"Rendezvous", "rendezvous: options.channels", meet}};
}

class RefusedArguments : public testing::TestWithParam<Refused> {};

TEST_P(RefusedArguments, OfOneRankAreToldToTheOthersWhenChecked) {
  const auto body = [](int rank, const Group& group) {
    group.barrier();
    const int64_t began = now_ns();
    const symm_status_t status = GetParam().call(group, rank == 1);
    if (rank == 1) {
      EXPECT_TRUE(status == SYMM_ERR_INVALID_ARGUMENT || status == SYMM_ERR_UNSUPPORTED) << status;
      EXPECT_TRUE(eventually([&] { return group.status().status == SYMM_ERR_MISMATCH; }));
    } else {
      expect_failed(status, SYMM_ERR_MISMATCH,
          {"rank 1 (pid", "refused the arguments of its call: " + GetParam().said});
      EXPECT_LT(now_ns() - began, int64_t{15'000'000'000});
    }
    EXPECT_EQ(group.status().rank, 1) << group.status().message;
  };
  as_threads(3, body, SYMM_GROUP_CHECK);
}

TEST_P(RefusedArguments, OfAllRanksHarmNothing) {
  const auto body = [](int rank, const Group& group) {
    for (int round = 0; round < 2; ++round) {
      EXPECT_NE(GetParam().call(group, true), SYMM_OK);
      if (rank == round) std::this_thread::sleep_for(milliseconds(500));
      check(GetParam().call(group, false));
    }
  };
  as_threads(3, body, SYMM_GROUP_CHECK);
}

TEST_P(RefusedArguments, OfOneRankThatComesAfterAllHarmNothingUnlessChecked) {
  as_threads(3, [](int rank, const Group& group) {
    if (rank == 1) {
      EXPECT_NE(GetParam().call(group, true), SYMM_OK);
      std::this_thread::sleep_for(milliseconds(500));
    }
    check(GetParam().call(group, false));
  });
}

INSTANTIATE_TEST_SUITE_P(Each, RefusedArguments, testing::ValuesIn(refused_calls()),
    [](const auto& refused) { return refused.param.name; });
}  // namespace
}  // namespace support
