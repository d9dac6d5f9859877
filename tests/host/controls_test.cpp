#include "core/host/controls.hpp"

#include <sched.h>
#include <unistd.h>

#include <cstddef>
#include <thread>
#include <utility>

#include "core/backend/backend.hpp"
#include "core/mesh/mesh.hpp"
#include "tests/support/test.hpp"

namespace {
using namespace symm;

TEST(Controls, FenceAlikeOnAllRanksAlsoIfTheirProcessorsChangeMeanwhile) {
  std::thread([] {
    const auto of_rank = [](int rank) {
      TransportContext context;
      context.rank = rank;
      context.size = 2;
      context.machines.machine_of.resize(2);
      return host::Controls(std::move(context), {}, nullptr);
    };
    const auto received = [](const OutgoingMessage& shared) {
      Message message{shared.body, {}};
      message.fds.emplace_back(dup(shared.fds.at(0)));
      return message;
    };
    host::Controls first = of_rank(0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(sched_getcpu()), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    host::Controls second = of_rank(1);
    first.connect(1, received(second.share()));
    second.connect(0, received(first.share()));
    EXPECT_EQ(first.fencing(), second.fencing());
  }).join();
}
}  // namespace
