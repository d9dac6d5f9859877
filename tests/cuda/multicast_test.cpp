// Multicast on the fake driver, with a process for each rank: off unless asked for, in the right order when it is, and when any
// call fails on one rank, all ranks go on without it, for the same reason, with nothing left behind.
#include "tests/cuda/group.hpp"

namespace symm { namespace {
const bool no_variables = unsetenv("SYMM_MULTICAST") + unsetenv("NCCL_NVLS_ENABLE") + unsetenv("NVSHMEM_DISABLE_NVLS") +
                              unsetenv("TORCH_SYMM_MEM_DISABLE_MULTICAST") ==
                          0;

#define REQUIRE(condition) \
  if (!(condition)) return std::string(#condition) + ", line " + std::to_string(__LINE__)

// What must hold at the end of every process.
std::string left_behind() {
  std::string text;
  for (const auto& [kind, number] : left_in_the_end()) text += format("%ld of %s are left; ", number, kind.c_str());
  for (const std::string& violation : fake_cuda::violations()) text += violation + "; ";
  return text;
}

class CudaMulticast : public testing::Test {
 protected:
  struct Rank {
    int rank;
    int size;
    GroupConfig config;
    std::shared_ptr<Group> create() const { return Group::create(config); }
  };

  // A process for each rank; what their bodies return.
  std::vector<std::string> on_ranks(int size, const std::function<std::string(Rank&)>& body, bool asks = true) {
    const support::TemporaryDirectory meeting;
    support::Processes processes(size, [&](int rank) {
      Rank me{rank, size, config_of(rank, size, "")};
      me.config.multicast = asks;
      me.config.bootstrap = "dir://" + meeting.path();
      std::string said = body(me);
      const std::string left = left_behind();
      return left.empty() ? said : "left behind: " + left + said;
    });
    std::vector<std::string> results;
    for (support::Process& process : processes) results.push_back(process.result());
    return results;
  }
  static void expect_all(const std::vector<std::string>& results, const std::string& expected) {
    for (size_t rank = 0; rank < results.size(); ++rank) EXPECT_EQ(results[rank], expected) << "rank " << rank;
  }
};

CollectiveCall sum_of(const Memory& memory, int rank, Algorithm algorithm, size_t count = 1000) {
  CollectiveCall call = call_of(Collective::allreduce, memory.pointer(rank), count, DType::bf16);
  if (algorithm == Algorithm::multimem_one_shot) call.recv = memory.pointer(rank) + 65536;
  call.algorithm = algorithm;
  return call;
}

TEST_F(CudaMulticast, IsMadeWhereAllAskForIt) {
  const auto body = [](Rank& me) -> std::string {
    {
      const auto group = me.create();
      REQUIRE(group->transport().device().why_no_multicast().empty());
      const auto buffer = Buffer::allocate(*group, 100'000);
      const auto memory = Memory::rendezvous(group, buffer, 0);
      REQUIRE(memory->multicast() != nullptr);
      REQUIRE(memory->view().why_no_multicast.empty());
      for (int rank = 0; rank < me.size; ++rank) REQUIRE(memory->multicast() != memory->pointer(rank));
      REQUIRE(fake_cuda::live()["binding"] == 1);
      // Another of the same group, and one on a part of it, while the first lives.
      const auto second = Memory::rendezvous(group, Buffer::allocate(*group, 5'000'000), 7);
      REQUIRE(second->multicast() != memory->multicast());
      if (const auto part = group->split(me.rank == 0 ? -1 : 0, 0)) {
        const auto third = Memory::rendezvous(part, buffer, 0);
        REQUIRE(third->multicast() != nullptr);
        REQUIRE(fake_cuda::live()["binding"] == 3);
      }
      REQUIRE(fake_cuda::live()["binding"] == 2);

      fake_cuda::launches();
      for (const Algorithm algorithm : {Algorithm::multimem_one_shot, Algorithm::multimem_two_shot}) {
        const CollectiveCall call = sum_of(*memory, me.rank, algorithm);
        const PlanReport report = plan_collective(*group, call);
        REQUIRE(report.algorithm == algorithm);
        REQUIRE(report.slices == (algorithm == Algorithm::multimem_two_shot ? me.size : 1));
        run_collective(*group, call);
      }
      const auto launched = fake_cuda::launches();
      REQUIRE(launched.size() == 2);
      REQUIRE(launched[0].kernel == "symm_multimem_one_shot_bf16" && launched[1].kernel == "symm_multimem_two_shot_bf16");
      REQUIRE(launched[0].blocks == 1 && launched[0].threads == 512);
      // Chosen only by name.
      REQUIRE(plan_collective(*group, sum_of(*memory, me.rank, Algorithm::automatic)).algorithm == Algorithm::one_shot);
    }
    return "done";
  };
  expect_all(on_ranks(3, body), "done");
  expect_all(on_ranks(
                 2,
                 [&](Rank& me) {
                   setenv("SYMM_MULTICAST", "1", 1);
                   const auto group = me.create();
                   return group->transport().device().why_no_multicast();
                 },
                 false),
      "");
}

TEST_F(CudaMulticast, OperandsMustBeReachable) {
  const auto body = [](Rank& me) -> std::string {
    {
      const auto group = me.create();
      const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 1 << 20), 0);
      const auto refused = [&](const std::function<void(CollectiveCall&)>& change, const std::string& why) {
        CollectiveCall call = sum_of(*memory, me.rank, Algorithm::multimem_two_shot);
        change(call);
        const Failure failure = support::failure_of([&] { run_collective(*group, call); });
        const Failure planned = support::failure_of([&] { plan_collective(*group, call); });
        return failure.status == Status::invalid_argument && failure.message.find(why) != std::string::npos &&
                       planned.message == failure.message
                   ? ""
                   : failure.message + " has no " + why;
      };
      std::vector<std::byte> own(4000);
      std::string wrong;
      wrong += refused([&](auto& call) { call.send = own.data(); }, "send is not in this rank's block");
      wrong += refused([&](auto& call) { call.recv = own.data(); }, "recv is not in this rank's block");
      wrong += refused([&](auto& call) { call.send = memory->pointer(1 - me.rank); }, "send is not in this rank's block");
      wrong += refused(
          [&](auto& call) {
            call.send = memory->pointer(me.rank) + 4098;
            call.recv = memory->pointer(me.rank);
          },
          "send lies at byte 4098");
      wrong += refused([&](auto& call) { call.recv = memory->pointer(me.rank) + 4008; }, "recv lies at byte 4008");
      wrong += refused([](auto& call) { call.op = Op::avg; }, "not avg of bf16 by allreduce");
      wrong += refused([](auto& call) { call.dtype = DType::f64; }, "not sum of f64");
      wrong += refused([](auto& call) { call.collective = Collective::reduce; }, "by reduce");
      wrong += refused(
          [&](auto& call) {
            call.algorithm = Algorithm::multimem_one_shot;
            call.recv = memory->pointer(me.rank);
          },
          "not in place");
      if (!wrong.empty()) return wrong;
      CollectiveCall nothing = sum_of(*memory, me.rank, Algorithm::multimem_two_shot, 0);
      nothing.send = nothing.recv = nullptr;
      run_collective(*group, nothing);
    }
    return "done";
  };
  expect_all(on_ranks(2, body), "done");
}

TEST_F(CudaMulticast, ByDefaultAndWhereItIsForbiddenNoCallIsMade) {
  const auto body = [](Rank& me) -> std::string {
    std::string reason;
    {
      const auto group = me.create();
      reason = group->transport().device().why_no_multicast();
      const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 1 << 20), 0);
      REQUIRE(memory->view().multicast == nullptr && memory->view().why_no_multicast == reason);
      const Failure failure = support::failure_of([&] { static_cast<void>(memory->multicast()); });
      REQUIRE(failure.status == Status::unavailable && failure.message.find(reason) != std::string::npos);
      const Failure forced =
          support::failure_of([&] { run_collective(*group, sum_of(*memory, me.rank, Algorithm::multimem_two_shot)); });
      REQUIRE(forced.status == Status::invalid_argument && forced.message.find(reason) != std::string::npos);
      run_collective(*group, sum_of(*memory, me.rank, Algorithm::automatic));
      memory->fill32(1 - me.rank, 0, 7, 1, nullptr);
    }
    REQUIRE(fake_cuda::multicast_calls() == 0);
    return reason;
  };
  expect_all(on_ranks(2, body, false), "nobody asked for it (SYMM_GROUP_MULTICAST or SYMM_MULTICAST=1)");
  for (const auto& variable : std::map<std::string, std::string>{{"SYMM_MULTICAST", "0"}, {"NCCL_NVLS_ENABLE", "0"},
           {"NVSHMEM_DISABLE_NVLS", "1"}, {"TORCH_SYMM_MEM_DISABLE_MULTICAST", "1"}}) {
    for (int where = 0; where < 2; ++where) {
      const auto results = on_ranks(2, [&](Rank& me) {
        if (me.rank == where) setenv(variable.first.c_str(), variable.second.c_str(), 1);
        return body(me);
      });
      expect_all(results, format("rank %d: %s=%s is set", where, variable.first.c_str(), variable.second.c_str()));
    }
  }
  expect_all(on_ranks(2,
                 [&](Rank& me) {
                   if (me.rank == 1) fake_cuda::set_multicast(false);
                   return body(me);
                 }),
      "rank 1: the device has none (CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED)");
  expect_all(on_ranks(2,
                 [&](Rank& me) {
                   if (me.rank == 0) fake_cuda::set_multicast(true, false);
                   return body(me);
                 }),
      "rank 0: the CUDA driver has no multicast; that came with CUDA 12.1");
  for (const std::string& reason : on_ranks(2, [&](Rank& me) {
         me.config.device = 1;
         me.config.overlapping_devices = true;
         return body(me);
       }))
    EXPECT_EQ(reason.find("ranks 0 and 1 share device GPU-"), 0U) << reason;
  expect_all(
      on_ranks(1, [](Rank& me) { return me.create()->transport().device().why_no_multicast(); }), "the group has one rank");
}

TEST_F(CudaMulticast, DifferentMasksOfVisibleDevices) {
  const auto body = [](Rank& me) -> std::string {
    fake_cuda::set_devices(1, me.rank);  // each sees one device, as number 0
    const auto group = me.create();
    const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 1 << 20), 0);
    return memory->view().why_no_multicast;
  };
  expect_all(on_ranks(3, body), "");
}

// A block of a group without multicast is as large as it must be, and no larger.
TEST_F(CudaMulticast, ABlockThatDoesNotFit) {
  const auto body = [](Rank& me) -> std::string {
    std::string reason;
    {
      GroupConfig plain = me.config;
      plain.multicast = false;
      plain.name = "plain";
      const auto other = Group::create(plain);
      const auto group = me.create();
      const auto small = Buffer::allocate(me.rank == 1 ? *other : *group, 100);  // 2 MiB are mapped on rank 1, 4 elsewhere
      const auto memory = Memory::rendezvous(group, small, 0);
      reason = memory->view().why_no_multicast;
      *reinterpret_cast<int*>(memory->pointer(me.rank)) = me.rank;
      group->barrier({}, 0, 0, nullptr);
      REQUIRE(Memory::rendezvous(group, Buffer::allocate(*group, 100), 0)->multicast() != nullptr);
    }
    return reason;
  };
  for (const std::string& reason : on_ranks(2, body))
    EXPECT_NE(reason.find("rank 1: its block of 2097152 bytes is no multiple of 4194304"), std::string::npos) << reason;
}

// The n-th call that may fail on one rank does, from the forming of the group to the end of rendezvous.
TEST_F(CudaMulticast, AnyCallMayFailOnOneRank) {
  ASSERT_TRUE(small_scratch && no_variables);
  for (int culprit = 0; culprit < 2; ++culprit) {
    std::set<std::string> fell_back;
    for (int n = 1;; ++n) {
      ASSERT_LT(n, 400);
      const auto results = on_ranks(2, [&](Rank& me) -> std::string {
        std::string failed;
        std::string outcome;
        {
          const auto group = me.create();
          const auto buffer = Buffer::allocate(*group, 1 << 20);
          if (me.rank == culprit) fake_cuda::fail_call(n, 1);
          try {
            const auto memory = Memory::rendezvous(group, buffer, 0);
            const std::string reason = memory->view().why_no_multicast;
            REQUIRE(reason.empty() == (memory->view().multicast != nullptr));
            outcome = reason.empty() ? "multicast" : "fallback " + reason;
            *reinterpret_cast<int*>(memory->pointer(1 - me.rank)) = 7;
          } catch (const Error& error) { outcome = format("error %d ", static_cast<int>(error.status())) + error.what(); }
          failed = fake_cuda::failed_call();
          fake_cuda::fail_call(0, 0);
          // Once more, now that nothing fails.
          REQUIRE(Memory::rendezvous(group, buffer, 0)->multicast() != nullptr);
        }
        return me.rank == culprit ? outcome + "|" + failed : outcome + "|";
      });
      const std::string& mine = results[static_cast<size_t>(culprit)];
      const std::string& others = results[static_cast<size_t>(1 - culprit)];
      const std::string outcome = mine.substr(0, mine.find('|'));
      const std::string failed = mine.substr(mine.find('|') + 1);
      SCOPED_TRACE(format("call %d on rank %d, %s: ", n, culprit, failed.c_str()) + mine + " / " + others);
      EXPECT_EQ(outcome + "|", others);
      if (failed.empty()) {
        EXPECT_EQ(outcome, "multicast");
        break;  // there are fewer calls
      }
      if (outcome.rfind("fallback", 0) == 0) {
        fell_back.insert(failed);
        EXPECT_NE(outcome.find("rank " + std::to_string(culprit)), std::string::npos);
        EXPECT_NE(outcome.find(failed), std::string::npos);
      } else {
        EXPECT_TRUE(outcome == "multicast" || outcome.rfind("error", 0) == 0);
      }
    }
    for (const char* call : {"cuMemImportFromShareableHandle", "cuMulticastAddDevice", "cuMemRetainAllocationHandle",
             "cuMulticastBindMem", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"})
      EXPECT_TRUE(fell_back.contains(call)) << call << " on rank " << culprit;
    if (culprit == 0) {
      EXPECT_TRUE(fell_back.contains("cuMulticastCreate"));
      EXPECT_TRUE(fell_back.contains("cuMemExportToShareableHandle"));
    }
  }
}

// What fails on one rank when the group is formed waits for the vote of the first rendezvous.
TEST_F(CudaMulticast, TheGranularityAndTheKernelsMayFailToo) {
  std::set<std::string> seen;
  for (int n = 1; seen.size() < 2; ++n) {
    ASSERT_LT(n, 400);
    const auto results = on_ranks(2, [&](Rank& me) -> std::string {
      if (me.rank == 1) fake_cuda::fail_call(n, 1);
      std::string reason = "not formed|";
      try {
        const auto group = me.create();
        const std::string failed = fake_cuda::failed_call();
        fake_cuda::fail_call(0, 0);
        const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 4096), 0);
        reason = memory->view().why_no_multicast + "|" + failed;
      } catch (const Error&) { fake_cuda::fail_call(0, 0); }
      return reason;
    });
    const std::string reason = results[1].substr(0, results[1].find('|'));
    EXPECT_EQ(results[0], reason + "|") << results[1];
    if (reason.empty() || reason == "not formed") continue;
    const std::string failed = results[1].substr(results[1].find('|') + 1);
    EXPECT_NE(reason.find("rank 1: " + failed), std::string::npos) << reason;
    if (failed == "cuMulticastGetGranularity" || failed == "cuGraphLaunch") seen.insert(failed);
  }
}
}}  // namespace symm
