// Before memory is written anew, nobody may hold it any more.
#include "tests/capi/ipc/sharing.hpp"

namespace support { namespace {
using Withdraw = Sharing;

TEST_F(Withdraw, EndsTheTokensOfAPieceOnly) {
  exporter([&] {
    const Owned owned(4096);
    check(symm_ipc_withdraw(owned.data, 4096, 1));  // of which no token was made
    EXPECT_EQ(ipc_stats().tokens, 0U);
    for (size_t i = 0; i < 4; ++i) facts->tokens[i] = make_token(owned.data + 1024 * i, 1024);
    pass();
    check(symm_ipc_withdraw(owned.data + 1000, 100, 20'000));  // of the first and the second
    facts->tokens[4] = make_token(owned.data, 2048);
    pass();
    const std::string holder = "pid " + std::to_string(facts->tokens[0].size);
    expect_failed(symm_ipc_withdraw(owned.data, 4096, 30), SYMM_ERR_TIMEOUT, {holder});
    go_on();
    check(symm_ipc_withdraw(owned.data, 4096, 20'000));
    pass();
  });
  importer([&] {
    import(facts->tokens[2]);
    pass();
    EXPECT_EQ(outcome_of_import(facts->tokens[0]).status, SYMM_ERR_INVALID_HANDLE);
    EXPECT_EQ(outcome_of_import(facts->tokens[1]).status, SYMM_ERR_INVALID_HANDLE);
    EXPECT_EQ(outcome_of_import(facts->tokens[2]).message, "");
    EXPECT_EQ(outcome_of_import(facts->tokens[3]).message, "");
    Import fresh = import(facts->tokens[4]);
    facts->tokens[0].size = static_cast<size_t>(getpid());
    pass();
    EXPECT_EQ(outcome_of_import(facts->tokens[4]).status, SYMM_ERR_INVALID_HANDLE);
    fresh.reset();
    pass();
  });
}

// A release never waits, so more of them than the ring holds must be told later, though their process does nothing more.
TEST_F(Withdraw, HearsOfReleasesThatFoundNoRoom) {
  constexpr size_t kLeases = 2000;
  const Process& owner = exporter([&] {
    const Owned owned(4096);
    for (const bool by_asking : {false, true}) {
      facts->token = make_token(owned.data, 64);
      pass();  // stopped in between
      if (by_asking) expect_eventually("all leases are over", [] { return ipc_stats().leased == 0; });
      else check(symm_ipc_withdraw(owned.data, 4096, 20'000));
      EXPECT_EQ(ipc_stats().leased, 0U);
    }
    go_on();
  });
  importer([&] {
    for (int round = 0; round < 2; ++round) {
      std::vector<Import> held(kLeases);
      for (Import& one : held) one = import(facts->token);
      owner.kill(SIGSTOP);
      usleep(5000);  // until all of its threads have stopped
      held.clear();
      owner.kill(SIGCONT);
      pass();
    }
  });
}
}}  // namespace support
