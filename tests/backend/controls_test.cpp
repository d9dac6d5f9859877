#include "core/host/controls.hpp"
#include "tests/support/core.hpp"

namespace symm::host {
namespace {
TEST(Controls, FenceAlikeOnAllRanksAlsoIfTheirProcessorsChangeMeanwhile) {
  std::thread([] {
    const auto of_rank = [](int rank) {
      TransportContext context;
      context.rank = rank;
      context.size = 2;
      context.machines.of = {0, 0};
      context.scratch_bytes = 1 << 16;
      return Controls(std::move(context), {}, nullptr);
    };
    const auto connect = [](Controls& to, int rank, const Controls& from) {
      const OutgoingMessage shared = from.share();
      Message message;
      message.body = shared.body;
      message.fds.emplace_back(dup(shared.fds.at(0)));
      to.connect(rank, std::move(message));
    };
    Controls first = of_rank(0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(sched_getcpu()), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    Controls second = of_rank(1);
    connect(first, 1, second);
    connect(second, 0, first);
    EXPECT_EQ(first.fencing(), second.fencing());
  }).join();
}
}  // namespace
}  // namespace symm::host
