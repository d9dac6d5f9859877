// The links between the ranks of a group: processes on the fake driver, of which each sees one GPU
// of a machine that the fake NVML knows.
#include "core/backend/topology.hpp"

#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "kernels/compare.hpp"
#include "tests/cuda/processes.hpp"
#include "tests/fake_cuda/machines.hpp"

namespace symm {
namespace {
using support::TemporaryDirectory;

// A rank for each letter of `layout`, with GPU `gpus[rank]` of `machine` as its only device.
void as_ranks(const std::string& machine, const std::string& layout, const std::vector<int>& gpus,
    const Body& body) {
  const TemporaryDirectory top;
  Setting setting;
  setting.before = [&](int rank) {
    static_cast<void>(nvmlInit_v2());
    setenv("FAKE_NVML_MACHINE", machine.c_str(), 1);
    fake_cuda::settings().devices = {1, gpus[static_cast<size_t>(rank)]};
  };
  setting.change = [](GroupConfig& config) {
    config.device = 0;
    config.overlapping_devices = true;
  };
  auto ranks = start(layout, body, setting, top / "ranks");
  for (support::Process& rank : *ranks) {
    EXPECT_EQ(rank.result(), "");
  }
}

TEST(CudaTopology, IsThatOfTheMachineThoughEachRankSeesOneGpu) {
  const std::vector<int> gpus{0, 3, 4, 1};
  as_ranks("dgx1v", "aaaa", gpus, [&](const std::shared_ptr<Group>& group) {
    const auto& wired = fake_machine::find("dgx1v")->links;
    for (int a = 0; a < 4; ++a) {
      for (int b = 0; b < 4; ++b) {
        EXPECT_EQ(group->links().between(a, b),
            wired[static_cast<size_t>(gpus[static_cast<size_t>(a)])]
                 [static_cast<size_t>(gpus[static_cast<size_t>(b)])]);
      }
      const bool linked = group->links_to(a) > 0;
      EXPECT_EQ(group->locality_of(a) == Locality::nvlink, linked);
    }
    EXPECT_EQ(group->locality_of(group->rank()), Locality::same_device);
    EXPECT_EQ(group->topology(), TopologyClass::unknown);  // 3 and 4 have no link
  });
}

TEST(CudaTopology, OfASwitchIsFullyConnected) {
  as_ranks("dgx2", "aaa", {0, 7, 15}, [](const std::shared_ptr<Group>& group) {
    EXPECT_EQ(group->links().between(0, 2), 6);
    EXPECT_EQ(group->topology(), TopologyClass::fully_connected);
  });
}

TEST(CudaTopology, RanksThatShareAGpuCountAsLinked) {
  as_ranks("dgx2", "aaa", {5, 5, 6}, [](const std::shared_ptr<Group>& group) {
    EXPECT_EQ(group->links().between(0, 1), 0);
    EXPECT_EQ(group->links().between(1, 2), 6);
    EXPECT_EQ(group->topology(), TopologyClass::fully_connected);
    if (group->rank() == 0) {
      EXPECT_EQ(group->locality_of(1), Locality::same_device);
    }
  });
}

TEST(CudaTopology, WithoutLinksTheNumaNodeSaysHowFarARankIs) {
  as_ranks("pcie", "aa", {0, 1}, [](const std::shared_ptr<Group>& group) {
    const int other = 1 - group->rank();
    EXPECT_EQ(group->links_to(other), 0);
    const bool same =
        group->facts(0).numa_node >= 0 && group->facts(0).numa_node == group->facts(1).numa_node;
    EXPECT_EQ(group->locality_of(other), same ? Locality::same_node : Locality::same_machine);
  });
}

TEST(CudaTopology, AGpuThatNvmlDoesNotSeeIsNamedAndKept) {
  setenv("FAKE_NVML_BLIND", "1", 1);
  as_ranks("dgx2", "aa", {0, 1}, [](const std::shared_ptr<Group>& group) {
    for (int i = 0; i < 2; ++i) {
      support::expect_failure(Status::unavailable, {"NVML does not see"}, [&] { group->links(); });
    }
    EXPECT_EQ(group->links_to(1 - group->rank()), -1);
    EXPECT_NE(group->locality_of(1 - group->rank()), Locality::nvlink);
  });
  unsetenv("FAKE_NVML_BLIND");
}

// Each rank sees one GPU, and NVML says which links carry atomic operations: NVLink does.
TEST(CudaTopology, WordsAreChangedOverNvlinkAlone) {
  const Body body = [](const std::shared_ptr<Group>& group) {
    const auto buffer = Buffer::allocate(*group, 4096);
    const auto memory = Memory::rendezvous(group, buffer, 0);
    for (int rank = 0; rank < group->size(); ++rank) {
      const auto change = [&] {
        memory->change_value(rank, 0, {AtomicOp::add, 8, 1}, nullptr, nullptr);
      };
      if (rank == group->rank() || group->links_to(rank) > 0) {
        change();
      } else {
        support::expect_failure(
            Status::unsupported, {"the block of rank " + std::to_string(rank), "PCIe"}, change);
      }
    }
  };
  as_ranks("pcie_bridges", "aaaa", {0, 1, 2, 3}, body);
  as_ranks("hgx_h100", "aa", {2, 5}, body);
  as_ranks("pcie", "aa", {1, 2}, body);

  // What is not known is refused, too.
  setenv("FAKE_NVML_BLIND", "1", 1);
  as_ranks("hgx_h100", "aa", {0, 1}, [](const std::shared_ptr<Group>& group) {
    const auto buffer = Buffer::allocate(*group, 4096);
    const auto memory = Memory::rendezvous(group, buffer, 0);
    support::expect_failure(
        Status::unsupported, {"it is not known", "NVML does not see GPU-"}, [&] {
          memory->change_value(1 - group->rank(), 0, {AtomicOp::add, 8, 1}, nullptr, nullptr);
        });
  });
  unsetenv("FAKE_NVML_BLIND");
}
}  // namespace
}  // namespace symm
