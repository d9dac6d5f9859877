// A writer by token that is killed or stopped when it has looked at the fence of its put and has
// not stored anything yet.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/points/life.hpp"

namespace support {
namespace {
constexpr size_t kPadBytes = 1 << 16;

// What happens to the writer at its point, and whether one that is stopped is killed then.
struct Fate {
  Action action;
  bool dies;
};

class PutAtItsPoint : public testing::TestWithParam<Fate> {
 protected:
  PutAtItsPoint() { setenv("SYMM_IPC_DIRECTORY", meeting.path().c_str(), 1); }
  ~PutAtItsPoint() override { unsetenv("SYMM_IPC_DIRECTORY"); }

  static bool holds_only(const Buffer& buffer, std::byte value) {
    const symm::Span<std::byte> bytes = buffer.span();
    return std::all_of(
        bytes.data(), bytes.data() + kPadBytes, [value](std::byte byte) { return byte == value; });
  }
  Process writer() const {
    return Process([this] {
      EXPECT_TRUE(eventually([&] { return facts->heard == 1; }));
      const symm::Import there(facts->token[0]);
      const std::vector<std::byte> source(kPadBytes, std::byte{1});
      const symm_piece_t all{0, 0, kPadBytes, 1, 0, 0};
      const symm::Pieces pieces = symm::Pieces(symm::Span(&all, 1)).with_signal(0);
      plan.action = GetParam().action;
      plan.facts = &*facts;
      plan.point = "point:ipc.put";
      there.put_pieces(0, source, pieces, 1);

      EXPECT_TRUE(eventually([&] { return facts->heard == 2; }));
      const Outcome late = outcome_of([&] { there.put_pieces(0, source, pieces, 1); });
      EXPECT_EQ(late.status, SYMM_ERR_ABORTED) << late.message;
    });
  }

  const Bootstrap meeting;
  const Shared<Facts> facts;
};

TEST_P(PutAtItsPoint, TheFenceWaitsForItOrForItsDeath) {
  const bool is_stopped = GetParam().action == Action::stop;
  const bool dies = GetParam().dies;
  Process owner([&] {
    symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
    config.size = 1;
    config.backend = SYMM_BACKEND_HOST;
    config.bootstrap = "thread://pads";
    const Group group = Group::create(config);
    const Buffer buffer = group.allocate(kPadBytes);
    symm_ipc_export_options_t options = SYMM_IPC_EXPORT_OPTIONS_INIT;
    options.channels = 1;
    facts->token[0] = make_token(buffer.span().data(), kPadBytes, options);
    facts->heard = 1;
    EXPECT_TRUE(eventually([&] { return facts->fired_ms != 0; }));

    if (is_stopped) {
      usleep(50'000);
      const Outcome held = outcome_of([&] { symm::ipc_fence(buffer.span(), 2, 20); });
      EXPECT_EQ(held.status, SYMM_ERR_TIMEOUT) << held.message;
      EXPECT_NE(held.message.find("which is stopped"), std::string::npos) << held.message;
      EXPECT_TRUE(holds_only(buffer, std::byte{0}));
      facts->through = 1;
    }
    symm::ipc_fence(buffer.span(), 2, 10'000);
    EXPECT_TRUE(holds_only(buffer, std::byte{dies ? uint8_t{0} : uint8_t{1}}));
    std::fill_n(buffer.span().data(), kPadBytes, std::byte{9});

    const Outcome word =
        outcome_of([&] { symm::ipc_wait_value(facts->token[0], 0, SYMM_COMPARE_GE, 1, 10'000); });
    EXPECT_EQ(word.status, dies ? SYMM_ERR_PEER_FAILED : SYMM_OK) << word.message;
    facts->heard = 2;
    EXPECT_TRUE(eventually([&] { return symm::ipc_stats().leases == 0; }));
    EXPECT_TRUE(holds_only(buffer, std::byte{9}));
  });

  Process writing = writer();
  if (is_stopped) {
    EXPECT_TRUE(eventually([&] { return facts->through == 1; }));
    writing.kill(dies ? SIGKILL : SIGCONT);
  }
  if (dies) {
    EXPECT_TRUE(WIFSIGNALED(writing.wait())) << writing.said();
  } else {
    writing.expect_success("the writer");
  }
  owner.expect_success("the owner");
}
INSTANTIATE_TEST_SUITE_P(Pads, PutAtItsPoint,
    testing::Values(Fate{Action::kill, true}, Fate{Action::stop, false}, Fate{Action::stop, true}));
}  // namespace
}  // namespace support
