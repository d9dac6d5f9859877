// Hosts in one NVLink domain are one machine: their ranks map each other's memory by
// fabric handles. Hosts are pretended by SYMM_MACHINE, on the fake driver and the fake
// NVML; tests/machines has hosts with a network between them.
#include <stdlib.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/topology.hpp"
#include "core/base/error.hpp"
#include "core/group/collective.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "kernels/types.hpp"
#include "tests/cuda/processes.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"

namespace symm {
namespace {
constexpr const char* kLayout = "aabb";

// Two ranks on each of two hosts, whose GPUs have numbers of their own, as in one
// NVLink domain. `change` changes a rank.
Setting in_domain(const std::function<void(int rank)>& change = {}) {
  Setting setting;
  setting.before = [change](int rank) {
    enter_domain(rank);
    if (change) change(rank);
  };
  setting.change = [](GroupConfig& config) {
    config.device = -1;
    config.overlapping_devices = false;
  };
  return setting;
}

// All ranks have come when this returns, since it is a rendezvous.
void meet(const std::shared_ptr<Group>& group, uint64_t tag) {
  Memory::rendezvous(group, Buffer::allocate(*group, 64), tag);
}

TEST(CudaDomain, RanksOfOtherHostsAreMapped) {
  expect_well(on_machines(
      kLayout,
      [](const std::shared_ptr<Group>& group) {
        const int rank = group->rank();
        EXPECT_EQ(group->machines().count, 1);
        EXPECT_TRUE(group->machines().spans_hosts(rank));
        EXPECT_EQ(group->transport().engine(), "");
        // A host's ranks have its devices, one each.
        EXPECT_EQ(group->backend().device(), rank % 2);

        const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 1 << 20), 1);
        *reinterpret_cast<int*>(memory->pointer(rank)) = 100 + rank;
        meet(group, 2);
        for (int peer = 0; peer < 4; ++peer) {
          const bool is_here = peer / 2 == rank / 2;
          EXPECT_TRUE(group->maps(peer));
          EXPECT_EQ(group->shares_host(peer), is_here);
          EXPECT_EQ(*reinterpret_cast<int*>(memory->pointer(peer)), 100 + peer);
          EXPECT_EQ(memory->pointer_table()[peer], memory->pointer(peer));
          if (!is_here) {
            EXPECT_EQ(group->locality_of(peer), Locality::nvlink);
          }
        }
        EXPECT_GT(fake_cuda::fabric_imports(), 0);

        // The kernels of one machine do collectives, and know the stages of all ranks.
        fake_cuda::launches();
        run_collective(
            *group, call_of(Collective::allreduce, memory->pointer(rank), 100'000, DType::bf16));
        const auto launch = fake_cuda::launches().at(0);
        EXPECT_EQ(launch.kernel, "symm_pipeline_bf16_4");
        for (const uint64_t stages : launch.stages) {
          EXPECT_NE(stages, 0U);
        }
        EXPECT_EQ(group->local()->size(), 4);
        meet(group, 3);
      },
      in_domain()));
}

// Descriptors do not travel between hosts, so there is nothing to fall back to.
TEST(CudaDomain, ARefusedImportFailsTheGroupOnAllRanks) {
  Setting setting = in_domain([](int rank) { fake_cuda::settings().fabric_import = rank != 3; });
  expect_all(on_machines(
                 kLayout, [](const std::shared_ptr<Group>&) {}, setting),
      {"rank 3", "another host of the NVLink domain cannot be mapped",
          "cuMemImportFromShareableHandle", "SYMM_FABRIC=0"});
}

TEST(CudaDomain, AForgedHandleIsRefused) {
  Setting setting = in_domain([](int rank) { fake_cuda::settings().fabric_forged = rank == 2; });
  expect_all(on_machines(
                 kLayout, [](const std::shared_ptr<Group>&) {}, setting),
      {"rank 0", "cuMemImportFromShareableHandle with a fabric handle"});
}

// A rendezvous fails alike on all ranks if one of them cannot map; the group lives on.
TEST(CudaDomain, ARefusedImportFailsTheRendezvousOnAllRanks) {
  expect_well(on_machines(
      kLayout,
      [](const std::shared_ptr<Group>& group) {
        meet(group, 1);
        if (group->rank() == 1) fake_cuda::settings().fabric_import = false;
        const auto buffer = Buffer::allocate(*group, 1 << 20);
        const Failure failure = support::failure_of([&] { Memory::rendezvous(group, buffer, 2); });
        EXPECT_EQ(failure.status, Status::unavailable);
        EXPECT_EQ(failure.rank, 1);
        EXPECT_NE(failure.message.find("cannot be mapped"), std::string::npos) << failure.message;
        EXPECT_FALSE(group->revocation().revoked());

        // This rank knows now that fabric handles do not
        // work here. So the next group does without them.
        const Failure next = support::failure_of([&] { group->split(0, 0); });
        EXPECT_EQ(next.status, Status::ok) << next.message;
      },
      in_domain()));
}

TEST(CudaDomain, MemoryWithoutAFabricHandleIsRefused) {
  expect_well(on_machines(
      kLayout,
      [](const std::shared_ptr<Group>& group) {
        const auto on_host = Buffer::allocate(*group, 1 << 20, {.on_host = true});
        const Failure failure = support::failure_of([&] { Memory::rendezvous(group, on_host, 1); });
        EXPECT_EQ(failure.status, Status::unsupported);
        EXPECT_NE(failure.message.find("by a fabric handle"), std::string::npos) << failure.message;
        meet(group, 2);
      },
      in_domain()));
}

// What keeps hosts apart, and the reason that the rank gives.
// Each is a machine of its own then, and NCCL connects them.
struct Apart {
  const char* what;
  std::function<void(int rank)> change;
  const char* why;  // of rank 3; "": it has a domain
};

TEST(CudaDomain, WhateverIsMissingKeepsHostsApart) {
  const auto domain = [](const char* text) {
    return [text](int rank) {
      if (rank >= 2) setenv("FAKE_NVML_DOMAIN", text, 1);
    };
  };
  const Apart all[] = {
      {"another cluster", domain("d,5,3,0"), ""},
      {"another clique", domain("c,6,3,0"), ""},
      {"no domain", domain("c,5,0,0"), "is in no NVLink domain"},
      {"not joined yet", domain("c,5,2,0"),
          "has not joined its NVLink domain yet (fabric state 2)"},
      {"failed to join", domain("c,5,3,9"), "could not join its NVLink domain"},
      {"a cluster of zeros", domain("-,5,3,0"), "has no cluster UUID"},
      {"a GPU that NVML does not see",
          [](int rank) {
            if (rank == 3) setenv("FAKE_NVML_BLIND", "3", 1);
          },
          "NVML does not see the device at 0000:2d:00.0: Not Found"},
      {"one rank of a host",
          [](int rank) {
            if (rank == 3) setenv("SYMM_FABRIC", "0", 1);
          },
          "SYMM_FABRIC=0"},
      {"no IMEX channel", [](int rank) { fake_cuda::settings().fabric_create = rank < 2; },
          "cuMemCreate with a fabric handle"},
  };
  for (const Apart& one : all) {
    SCOPED_TRACE(one.what);
    expect_well(on_machines(
        kLayout,
        [&](const std::shared_ptr<Group>& group) {
          EXPECT_EQ(group->machines().count, 2);
          EXPECT_FALSE(group->machines().spans_hosts(group->rank()));
          EXPECT_FALSE(group->maps((group->rank() + 2) % 4));
          EXPECT_TRUE(group->maps(group->rank() ^ 1));
          EXPECT_EQ(group->backend().device(), group->rank() % 2);
          std::string why;
          group->backend().domain(why);
          if (group->rank() == 3) {
            EXPECT_NE(why.find(one.why), std::string::npos) << why;
          }
        },
        in_domain(one.change)));
  }
}

// Three hosts, of which two are in one domain.
TEST(CudaDomain, OtherHostsAreOtherMachines) {
  Setting setting = in_domain([](int rank) {
    if (rank >= 4) setenv("FAKE_NVML_DOMAIN", "e,1,3,0", 1);
  });
  expect_well(on_machines(
      "aabbcc",
      [](const std::shared_ptr<Group>& group) {
        EXPECT_EQ(group->machines().machine_of, (std::vector<int>{0, 0, 0, 0, 1, 1}));
        EXPECT_EQ(group->machines().host_of, (std::vector<int>{0, 0, 1, 1, 2, 2}));
        EXPECT_EQ(group->backend().device(), group->rank() % 2);
        const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 1 << 20), 1);
        for (int peer = 0; peer < 6; ++peer) {
          EXPECT_EQ(group->maps(peer), peer / 4 == group->rank() / 4);
        }
        EXPECT_EQ(group->local()->size(), group->rank() < 4 ? 4 : 2);
      },
      setting));
}

TEST(CudaDomain, HasNoMulticastAndSaysWhy) {
  Setting setting = in_domain();
  const auto change = setting.change;
  setting.change = [change](GroupConfig& config) {
    change(config);
    config.multicast = true;
  };
  expect_well(on_machines(
      kLayout,
      [](const std::shared_ptr<Group>& group) {
        EXPECT_EQ(group->transport().device().why_no_multicast(),
            "the group spans several hosts of an NVLink domain");
      },
      setting));
}
}  // namespace
}  // namespace symm
