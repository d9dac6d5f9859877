// A rank that was stopped goes on after the others have given it up. It must neither succeed with what it finds nor harm what
// they do since.
#include "tests/ranks/failure.hpp"

namespace support { namespace {
// Rank 1 is stopped before a call of it and rank 0, in which rank 0 gives up; `after` is what rank 0 does then, before rank 1
// goes on.
void expect_late_call_to_fail(
    int size, const std::function<symm_status_t(Member&)>& call, const std::function<void(Member&)>& after = [](Member&) {}) {
  const auto body = [&](Member& member) {
    if (member.rank < 2) {
      check(call(member));
      if (member.rank == 1) raise(SIGSTOP);
      const symm_status_t status = call(member);
      EXPECT_NE(status, SYMM_OK) << "the other rank had given up; the result is " << member.symmetric_recv()[0];
      if (member.rank == 0) {
        EXPECT_EQ(status, SYMM_ERR_TIMEOUT) << symm_last_error();
        after(member);
      }
    }
    ++member.facts.failed;
    EXPECT_TRUE(eventually([&] { return member.facts.failed == size; }))
        << "the others stay, so that rank 1 does not learn it from their departure";
  };
  as_members(size, body, {.stops = 1});
}

// When a call has failed, its operands are the caller's again, and are overwritten.
TEST(Late, NoStaleResult) {
  for (const auto& [algorithm, count] : {std::pair(SYMM_ALGORITHM_LL, size_t{2}), {SYMM_ALGORITHM_ONE_SHOT, 512},
           {SYMM_ALGORITHM_TWO_SHOT, 4096}, {SYMM_ALGORITHM_TWO_SHOT_STAGED, 4096}}) {
    SCOPED_TRACE(algorithm);
    const auto call = [&](Member& m) { return allreduce(m.group, m.symmetric_send(), m.symmetric_recv(), count, algorithm); };
    expect_late_call_to_fail(2, call, [&](Member& m) { std::fill_n(m.symmetric_send(), count, 77.0F); });
  }
}

TEST(Late, NoBarrierPassedAlone) {
  expect_late_call_to_fail(2, [](Member& m) { return symm_barrier(m.group.get(), nullptr, 0, 0, nullptr, nullptr); });
  // Of three ranks two are a subset.
  const int32_t some[] = {0, 1};
  expect_late_call_to_fail(3, [&](Member& m) { return symm_barrier(m.group.get(), some, 2, 0, nullptr, nullptr); });
}

// What the late rank does with all its might: write wherever it had mapped something, signal, call.
void rage(Member& member) {
  for (uint8_t value = 1; member.facts.go == 0; ++value) {
    for (int peer = 0; peer < member.size; ++peer) {
      std::fill_n(member.block.at<uint8_t>(peer), Member::kBlock, value);
      std::fill_n(member.block.memory.signal_pad(peer).data(), 64 * member.size, value);
      symm_signal(member.block.memory.get(), peer, 3, nullptr);
    }
    EXPECT_NE(allreduce(member.group, member.send.data(), member.recv.data(), 1000), SYMM_OK);
  }
}

void expect_zombie_to_do_no_harm(const std::string& second_name) {
  constexpr int kRanks = 3;
  constexpr int kVictim = 2;
  const auto body = [&](int rank, const Config& config, Facts& facts) {
    {
      Member member(config, rank, kRanks, facts);
      if (rank == kVictim) {
        raise(SIGSTOP);
        ++facts.ready;
        rage(member);
        return;
      }
      member.expect_blame(until_failure(member, operations().front()), SYMM_ERR_TIMEOUT, kVictim);
    }
    ++facts.failed;
    EXPECT_TRUE(eventually([&] { return facts.ready == 1; }));
    const Config second{config.bootstrap, second_name};
    for (int i = 0; i < 3; ++i) expect_working(second, rank, 2, 100);
    if (++facts.failed == 4) facts.go = 1;
  };
  as_ranks(kRanks, body, {.stops = kVictim});
}

TEST(Zombie, CannotHarmANewGroupOfTheSameName) { expect_zombie_to_do_no_harm(""); }
TEST(Zombie, CannotHarmANewGroupOfAnotherName) { expect_zombie_to_do_no_harm("second"); }
}}  // namespace support
