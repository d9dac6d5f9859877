// A process that runs out of descriptors in the middle of an import, on either side, gets an error and keeps nothing.
#include "tests/capi/ipc/sharing.hpp"

namespace support { namespace {
using Descriptors = Sharing;

TEST_F(Descriptors, TheImporterHasNone) {
  exporter([&] {
    const Owned owned(4096);
    const Owned other(4096);
    facts->tokens[0] = make_token(owned.data, 64);
    facts->tokens[1] = make_token(other.data, 64);
    pass();
    expect_eventually("no lease is left of the failed ones", [] { return ipc_stats().leased == 2; });
    pass();
  });
  importer([&] {
    int failures = 0;
    const auto until_it_works = [&](const Token& token) {
      for (int room = 0;; ++room) {
        const Footprint before = Footprint::settled();
        {
          const Limit former(RLIMIT_NOFILE);
          leave_descriptors(room);
          const Outcome outcome = outcome_of_import(token);
          if (outcome.status == SYMM_OK) break;
          EXPECT_NE(outcome.message.find("Too many open files"), std::string::npos) << room << ": " << outcome.message;
          EXPECT_EQ(outcome.status, SYMM_ERR_SYSTEM) << room << ": " << outcome.message;
          ++failures;
        }
        if (room > 20) throw std::runtime_error("no number of descriptors is enough");
        const Footprint after = Footprint::settled();
        // The first failures start the service, which stays.
        if (room > 3) { EXPECT_LE(after.descriptors, before.descriptors) << room; }
      }
    };
    until_it_works(facts->tokens[0]);
    EXPECT_GE(failures, 4) << "socket, pidfd, pages and memory each take a descriptor";
    const int connecting = failures;
    until_it_works(facts->tokens[1]);
    EXPECT_GE(failures, connecting + 1) << "its memory takes one";
    const Import one = import(facts->tokens[0]);
    const Import two = import(facts->tokens[1]);
    pass();
  });
}

TEST_F(Descriptors, TheExporterHasNone) {
  exporter([&] {
    const Owned owned = offer(4096);
    for (int room = 0; room < 3; ++room) {
      const Limit former(RLIMIT_NOFILE);
      Footprint::settled();  // the one before has been let go
      leave_descriptors(room);
      pass();
    }
    EXPECT_GE(ipc_stats().rejected_connections, 3U);
    pass();
  });
  importer([&] {
    for (int room = 0; room < 3; ++room) {
      const Outcome outcome = outcome_of_import(facts->token);
      EXPECT_NE(outcome.status, SYMM_OK) << room;
      EXPECT_NE(outcome.status, SYMM_ERR_TIMEOUT) << room << ": " << outcome.message;
      pass();
    }
    EXPECT_EQ(outcome_of_import(facts->token).message, "");
  });
}
}}  // namespace support
