// Words, pieces and fences on a token: a maker and those who have imported it, which are in no
// group.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "symm/symm.h"
#include "tests/capi/ipc/sharing.hpp"

namespace support {
namespace {
using symm::ipc_fence;
using symm::ipc_wait_value;
using symm::Span;

constexpr size_t kPadBytes = 4096;
constexpr size_t kPadPage = 256;

symm_ipc_export_options_t with_channels(int32_t channels, uint64_t fence_bytes = 0) {
  symm_ipc_export_options_t options = SYMM_IPC_EXPORT_OPTIONS_INIT;
  options.channels = channels;
  options.fence_bytes = fence_bytes;
  return options;
}

Token token_with_channels(
    const void* pointer, size_t bytes, int32_t channels = 2, uint64_t fence_bytes = 0) {
  return make_token(pointer, bytes, with_channels(channels, fence_bytes));
}

// A list of one piece.
struct OnePiece {
  symm_piece_t piece;
  symm::Pieces list() const { return Span(&piece, 1); }
};
// One that lies alike on both sides.
OnePiece alike(uint64_t at, uint64_t bytes) { return {{at, at, bytes, 1, 0, 0}}; }

Span<std::byte> page_of(const Owned& owned, size_t number) {
  return {owned.data + number * kPadPage, kPadPage};
}

class Pads : public Sharing {
 protected:
  Owned offer_channels(int32_t channels = 2, uint64_t fence_bytes = 0) {
    Owned owned(kPadBytes);
    facts->token = token_with_channels(owned.data, kPadBytes, channels, fence_bytes);
    return owned;
  }
};

void expect_refused(symm_status_t status, const char* words, const std::function<void()>& call) {
  const Outcome outcome = outcome_of(call);
  EXPECT_EQ(outcome.status, status) << outcome.message;
  EXPECT_NE(outcome.message.find(words), std::string::npos) << outcome.message;
}

TEST_F(Pads, APutIsThereWhenItsSignalIs) {
  exporter([&] {
    const Owned owned = offer_channels();
    go_on();
    for (uint64_t round = 1; round <= 200; ++round) {
      EXPECT_EQ(ipc_wait_value(facts->token, 1, SYMM_COMPARE_GE, round), round);
      for (size_t i = 0; i < kPadBytes / 8; i += 2) {
        ASSERT_EQ(owned.at<uint64_t>()[i], round + i) << i;
      }
      facts->step = 100 + static_cast<int>(round);
    }
  });

  importer([&] {
    const Import there = import(facts->token);
    std::vector<uint64_t> source(kPadBytes / 8);
    const OnePiece every_other{{0, 0, 8, kPadBytes / 16, 16, 16}};
    for (uint64_t round = 1; round <= 200; ++round) {
      for (size_t i = 0; i < source.size(); ++i) {
        source[i] = round + i;
      }
      there.put_pieces(0, source, every_other.list().with_signal(1, SYMM_SIGNAL_SET, round));
      wait_for(facts->step, 100 + static_cast<int>(round));
    }
  });
}

TEST_F(Pads, AGetTellsTheOwnerThatItIsOver) {
  exporter([&] {
    const Owned owned = offer_channels();
    for (size_t i = 0; i < kPadBytes; ++i) {
      owned.data[i] = static_cast<std::byte>(i * 7);
    }
    go_on();
    EXPECT_EQ(ipc_wait_value(facts->token, 0, SYMM_COMPARE_NE, 0), 5U);
  });

  importer([&] {
    const Import there = import_for_reading(facts->token);
    std::vector<std::byte> pages(3 * kPadPage);
    const std::vector<uint64_t> from{9, 2, 5};
    there.get_pieces(
        0, pages, symm::Pieces::pages(kPadPage, from).with_signal(0, SYMM_SIGNAL_ADD, 5));
    for (size_t i = 0; i < pages.size(); ++i) {
      EXPECT_EQ(
          pages[i], static_cast<std::byte>((from[i / kPadPage] * kPadPage + i % kPadPage) * 7))
          << i;
    }
    expect_refused(SYMM_ERR_INVALID_ARGUMENT, "reading only",
        [&] { there.put_pieces(0, pages, alike(0, 8).list()); });
  });
}

// Sums of several processes and threads are whole, and the owner, which sleeps, misses none.
TEST_F(Pads, ManyAddToOneWord) {
  constexpr uint64_t kAdds = 2000;
  exporter([&] {
    const Owned owned = offer_channels();
    go_on();
    EXPECT_EQ(ipc_wait_value(facts->token, 0, SYMM_COMPARE_GE, 4 * kAdds), 4 * kAdds);
    facts->step = 9;
  });
  for (int process = 0; process < 2; ++process) {
    importer([&] {
      const Import there = import(facts->token);
      as_threads(2, [&](int) {
        for (uint64_t i = 0; i < kAdds; ++i) {
          there.signal_value(0, SYMM_SIGNAL_ADD, 1);
        }
      });
      wait_for(facts->step, 9);
    });
  }
}

// ---- who was to write

TEST_F(Pads, AWriterThatIsKilledEndsTheWaitWithItsName) {
  exporter([&] {
    const Owned owned = offer_channels();
    pass();
    go_on();
    const Outcome outcome =
        outcome_of([&] { ipc_wait_value(facts->token, 0, SYMM_COMPARE_GE, 2, 20'000); });
    EXPECT_EQ(outcome.status, SYMM_ERR_PEER_FAILED) << outcome.message;
    EXPECT_EQ(outcome.pid, facts->done >> 8);
    EXPECT_NE(outcome.message.find("was 1, not >= 2"), std::string::npos) << outcome.message;

    // What was there in time counts, though the writer is gone.
    EXPECT_EQ(ipc_wait_value(facts->token, 0, SYMM_COMPARE_EQ, 1), 1U);

    // The next one to import the token is waited for.
    facts->step = 50;
    wait_for(facts->done, INT32_MAX);
    EXPECT_EQ(ipc_wait_value(facts->token, 0, SYMM_COMPARE_GE, 2), 2U);
  });

  Process& victim = importer([&] {
    const Import there = import(facts->token);
    there.signal_value(0, SYMM_SIGNAL_ADD, 1);
    go_on();
    wait_for(facts->step, 2);
    facts->done = getpid() << 8;
    sleep_for_ever();
  });
  wait_for(facts->done, 256);
  victim.kill(SIGKILL);
  gone(victim);

  Process next([&] {
    wait_for(facts->step, 50);
    const Import there = import(facts->token);
    facts->done = INT32_MAX;
    usleep(20'000);
    there.signal_value(0, SYMM_SIGNAL_ADD, 1);
  });
  next.expect_success("the next writer");
}

// The wait is for whoever is left: the death of one of two writers does not end it.
TEST_F(Pads, AWriterThatLivesIsWaitedFor) {
  exporter([&] {
    const Owned owned = offer_channels();
    go_on();
    EXPECT_EQ(ipc_wait_value(facts->token, 0, SYMM_COMPARE_GE, 1), 1U);
    facts->step = 40;
    expect_refused(SYMM_ERR_PEER_FAILED, "is gone",
        [&] { ipc_wait_value(facts->token, 0, SYMM_COMPARE_GE, 2, 20'000); });
  });
  Process& first = importer([&] {
    const Import there = import(facts->token);
    ++facts->done;
    sleep_for_ever();
  });
  Process& second = importer([&] {
    const Import there = import(facts->token);
    ++facts->done;
    wait_for(facts->step, 30);
    usleep(50'000);
    there.signal_value(0, SYMM_SIGNAL_ADD, 1);
    sleep_for_ever();
  });
  wait_for(facts->done, 2);
  first.kill(SIGKILL);
  gone(first);
  facts->step = 30;
  wait_for(facts->step, 40);
  second.kill(SIGKILL);
  gone(second);
}

TEST_F(Pads, ADeadlineNamesWhoIsStopped) {
  exporter([&] {
    const Owned owned = offer_channels();
    expect_refused(SYMM_ERR_TIMEOUT, "nobody has imported",
        [&] { ipc_wait_value(facts->token, 0, SYMM_COMPARE_NE, 0, 20); });
    expect_refused(SYMM_ERR_TIMEOUT, "nobody has imported",
        [&] { ipc_wait_value(facts->token, 0, SYMM_COMPARE_NE, 0, SYMM_TIMEOUT_NOW); });
    pass();
    expect_eventually("the writer is stopped", [&] { return facts->step == 40; });
    const Outcome outcome =
        outcome_of([&] { ipc_wait_value(facts->token, 0, SYMM_COMPARE_NE, 0, 50); });
    EXPECT_EQ(outcome.status, SYMM_ERR_TIMEOUT);
    EXPECT_NE(outcome.message.find("which is stopped"), std::string::npos) << outcome.message;
    EXPECT_GT(outcome.pid, 0);
    facts->step = 41;
  });
  Process& writer = importer([&] {
    const Import there = import(facts->token);
    go_on();
    sleep_for_ever();
  });
  wait_for(facts->done, 1);
  writer.kill(SIGSTOP);
  int status = 0;
  waitpid(writer.pid(), &status, WUNTRACED);
  facts->step = 40;
  wait_for(facts->step, 41);
  writer.kill(SIGKILL);
  gone(writer);
}

TEST_F(Pads, AWaitEndsWithTheToken) {
  exporter([&] {
    const Owned owned = offer_channels();
    std::thread other([&] {
      usleep(20'000);
      symm::ipc_withdraw(owned.buffer.span());
    });
    expect_refused(SYMM_ERR_INVALID_HANDLE, "withdrawn",
        [&] { ipc_wait_value(facts->token, 0, SYMM_COMPARE_NE, 0, 20'000); });
    other.join();
    expect_refused(SYMM_ERR_INVALID_HANDLE, "withdrawn",
        [&] { ipc_wait_value(facts->token, 0, SYMM_COMPARE_NE, 0); });
    EXPECT_NE(outcome_of_import(facts->token).status, SYMM_OK);
  });
}

TEST_F(Pads, AnOwnerThatIsGoneIsToldAtOnce) {
  Process& maker = exporter([&] {
    const Owned owned = offer_channels();
    go_on();
    sleep_for_ever();
  });
  Process& writer = importer([&] {
    const Import there = import(facts->token);
    facts->done = 7;
    expect_eventually("the death is noticed", [&] { return there.info().exporter_alive == 0; });
    expect_refused(SYMM_ERR_PEER_FAILED, "is gone",
        [&] { there.put_pieces(0, facts->tokens, alike(0, 8).list()); });
    expect_refused(
        SYMM_ERR_PEER_FAILED, "is gone", [&] { there.signal_value(0, SYMM_SIGNAL_ADD, 1); });
  });
  wait_for(facts->done, 7);
  maker.kill(SIGKILL);
  gone(maker);
  (void)writer;
}

// ---- fences

TEST_F(Pads, AFenceClosesItsPagesToOlderEpochs) {
  exporter([&] {
    const Owned owned = offer_channels(1, kPadPage);
    pass();
    ipc_fence(page_of(owned, 3), 7);
    pass();
    EXPECT_EQ(page_of(owned, 3)[0], std::byte{2}) << "only what was of epoch 7";
    EXPECT_EQ(page_of(owned, 2)[0], std::byte{1});
    EXPECT_EQ(ipc_wait_value(facts->token, 0, SYMM_COMPARE_GE, 2), 2U);
    // A fence does not sink.
    ipc_fence(page_of(owned, 3), 5);
    ipc_fence(owned.buffer.span(), 6);
    go_on();
  });

  importer([&] {
    const Import there = import(facts->token);
    std::vector<std::byte> source(kPadBytes, std::byte{1});
    const auto put = [&](uint64_t epoch, uint64_t at, uint64_t bytes) {
      there.put_pieces(0, source, alike(at, bytes).list().with_signal(0), epoch);
    };
    pass();
    // The pages beside it are open to older requests, and a piece that reaches into it is refused
    // as a whole.
    put(1, 2 * kPadPage, kPadPage);
    expect_refused(SYMM_ERR_ABORTED, "epoch: 6 is late", [&] { put(6, 3 * kPadPage, 1); });
    expect_refused(
        SYMM_ERR_ABORTED, "from byte 768 on", [&] { put(6, 2 * kPadPage, kPadPage + 1); });
    source.assign(kPadBytes, std::byte{2});
    put(7, 3 * kPadPage, kPadPage);
    pass();
    expect_refused(SYMM_ERR_ABORTED, "epoch 7 and later", [&] { put(6, 4 * kPadPage - 1, 1); });
    expect_refused(SYMM_ERR_ABORTED, "epoch 6 and later", [&] { put(5, 0, 1); });
    put(6, 0, 1);
  });
}

// A withdrawal that is not waited for ends the token, but not the writer, whom a fence still keeps
// off.
TEST_F(Pads, AFenceKeepsOffWhoHoldsATokenThatHasEnded) {
  exporter([&] {
    const Owned owned = offer_channels();
    pass();
    EXPECT_EQ(symm_ipc_withdraw(owned.data, kPadBytes, within(SYMM_TIMEOUT_NOW)), SYMM_ERR_TIMEOUT);
    ipc_fence(owned.buffer.span(), 3);
    pass();
    EXPECT_EQ(owned.data[0], std::byte{4});
  });
  importer([&] {
    const Import there = import(facts->token);
    const auto put = [&](uint64_t epoch) {
      const std::vector<std::byte> source(8, static_cast<std::byte>(epoch));
      there.put_pieces(0, source, alike(0, 8).list(), epoch);
    };
    pass();
    expect_refused(SYMM_ERR_ABORTED, "epoch: 2 is late", [&] { put(2); });
    put(4);
  });
}

// The owner gives pages to request after request, and raises the fence each time before a writer
// has ended, which pays no heed to it. No store of a former request is found in the pages of the
// next one.
TEST_F(Pads, AMillionFencesLetNoLateStoreIn) {
  constexpr uint64_t kFences = 1'000'000;
  exporter([&] {
    const Owned owned = offer_channels(1, kPadPage);
    auto* const words = owned.at<std::atomic<uint64_t>>();
    constexpr size_t kWords = kPadPage / 8;
    pass();
    wait_for(facts->done, 2);
    uint64_t late = 0;
    uint64_t landed = 0;
    for (uint64_t epoch = 1; epoch <= kFences; ++epoch) {
      const size_t number = epoch % 2;
      ipc_fence(page_of(owned, number), epoch);
      for (size_t i = 0; i < kWords; ++i) {
        words[number * kWords + i].store(UINT64_MAX, std::memory_order_relaxed);
      }
      facts->step.store(static_cast<int>(epoch) + 10, std::memory_order_relaxed);
      for (size_t i = 0; i < kWords; ++i) {
        const uint64_t seen = words[number * kWords + i].load(std::memory_order_relaxed);
        late += seen < epoch ? 1 : 0;
        landed += seen != UINT64_MAX ? 1 : 0;
      }
    }
    facts->step = INT32_MAX;
    wait_for(facts->writing, 2);
    EXPECT_EQ(late, 0U);
    EXPECT_GT(landed, 0U) << "no put was seen to land, so none could have been late";
  });

  for (int writer = 0; writer < 2; ++writer) {
    importer([&] {
      const Import there = import(facts->token);
      ++facts->done;
      wait_for(facts->step, 11);
      std::vector<uint64_t> source(2 * kPadPage / 8);
      uint64_t refused = 0;
      uint64_t done = 0;
      while (facts->step < INT32_MAX) {
        const auto epoch = static_cast<uint64_t>(std::max(facts->step.load() - 10, 1));
        source.assign(source.size(), epoch);
        const Outcome outcome = outcome_of([&] {
          there.put_pieces(0, source, alike(epoch % 2 * kPadPage, kPadPage).list(), epoch);
        });
        (outcome.status == SYMM_OK ? done : refused) += 1;
        if (outcome.status != SYMM_OK) {
          ASSERT_EQ(outcome.status, SYMM_ERR_ABORTED);
        }
      }
      ++facts->writing;
      EXPECT_GT(done, 0U);
      EXPECT_GT(refused, 0U);
    });
  }
}

// Wherever a writer is killed, the wait for its word names it, a fence does not wait for it, and
// nothing of its put comes later.
TEST_F(Pads, AWriterKilledAtAnyMomentLeavesNothing) {
  constexpr int kKills = 200;
  exporter([&] {
    const Owned owned = offer_channels();
    for (int round = 1; round <= kKills; ++round) {
      facts->step = round;
      wait_for(facts->writing, round);  // until then the last one, who is dead, would be awaited
      const auto epoch = static_cast<uint64_t>(round);
      const Outcome outcome =
          outcome_of([&] { ipc_wait_value(facts->token, 1, SYMM_COMPARE_GE, 1, 20'000); });
      ASSERT_EQ(outcome.status, SYMM_ERR_PEER_FAILED) << outcome.message;
      ipc_fence(owned.buffer.span(), epoch + 1, 20'000);
      std::memset(owned.data, 0, kPadBytes);
      expect_eventually("its lease is over", [] { return ipc_stats().leases == 0; });
      EXPECT_TRUE(std::all_of(
          owned.data, owned.data + kPadBytes, [](std::byte byte) { return byte == std::byte{0}; }));
      facts->done = round;
    }
  });

  for (int round = 1; round <= kKills; ++round) {
    wait_for(facts->step, round);
    Process writer([&] {
      const Import there = import(facts->token);
      const std::vector<std::byte> source(kPadBytes, std::byte{1});
      facts->writing = round;
      for (;;) {
        there.put_pieces(
            0, source, alike(0, kPadBytes).list().with_signal(0), static_cast<uint64_t>(round));
      }
    });
    wait_for(facts->writing, round);
    usleep(static_cast<useconds_t>(round * 7 % 100));
    writer.kill(SIGKILL);
    writer.reap(20'000);
    wait_for(facts->done, round);
  }
}

// ---- misuse

TEST_F(Pads, WhatCannotHaveChannelsSaysSo) {
  exporter([&] {
    const Owned owned(kPadBytes);
    const auto refused = [&](symm_status_t status, const char* words,
                             const symm_ipc_export_options_t& options, size_t bytes = kPadBytes) {
      expect_refused(status, words, [&] { (void)make_token(owned.data, bytes, options); });
    };
    refused(SYMM_ERR_INVALID_ARGUMENT, "options.channels: -1", with_channels(-1));
    refused(SYMM_ERR_UNSUPPORTED, "at most 4096", with_channels(4097));
    refused(SYMM_ERR_INVALID_ARGUMENT, "options.fence_bytes", with_channels(0, 64));
    refused(SYMM_ERR_UNSUPPORTED, "no bytes", with_channels(1), 0);
    symm_ipc_export_options_t held = with_channels(1);
    held.hold_ms = 5;
    refused(SYMM_ERR_INVALID_ARGUMENT, "options.hold_ms: is given beside channels", held);

    const symm_ipc_export_options_t options = with_channels(1);
    const symm_ipc_piece_t pieces[] = {{sizeof pieces[0], owned.data, 64, "p", nullptr, 0}};
    expect_refused(
        SYMM_ERR_UNSUPPORTED, "a bundle", [&] { symm::ipc_export_bundle(pieces, options); });
  });
}

TEST_F(Pads, MisuseOfATokenIsRefused) {
  exporter([&] {
    const Owned owned(kPadBytes);
    const Token plain = make_token(owned.data, kPadBytes);
    const Token token = token_with_channels(owned.data + kPadPage, 4 * kPadPage, 2, kPadPage);
    const Import without = import(plain);
    const Import there = import(token);
    std::vector<std::byte> source(kPadBytes, std::byte{9});
    const OnePiece byte = alike(0, 1);

    without.put_pieces(8, source, byte.list());
    EXPECT_EQ(owned.data[8], std::byte{9});
    expect_refused(SYMM_ERR_INVALID_ARGUMENT, "without channels",
        [&] { without.put_pieces(0, source, byte.list(), 1); });
    expect_refused(SYMM_ERR_INVALID_ARGUMENT, "without channels",
        [&] { without.put_pieces(0, source, byte.list().with_signal(0)); });
    expect_refused(SYMM_ERR_INVALID_ARGUMENT, "without channels",
        [&] { without.signal_value(0, SYMM_SIGNAL_ADD, 1); });
    expect_refused(SYMM_ERR_INVALID_ARGUMENT, "without channels",
        [&] { ipc_wait_value(plain, 0, SYMM_COMPARE_EQ, 0); });

    expect_refused(SYMM_ERR_INVALID_ARGUMENT, "channel: 2 is not in 0 .. 1",
        [&] { there.signal_value(2, SYMM_SIGNAL_ADD, 1); });
    expect_refused(SYMM_ERR_INVALID_ARGUMENT, "channel: -1 is not",
        [&] { ipc_wait_value(token, -1, SYMM_COMPARE_EQ, 0); });
    expect_refused(SYMM_ERR_UNSUPPORTED, "op: 2", [&] { there.signal_value(0, 2, 1); });
    expect_refused(SYMM_ERR_UNSUPPORTED, "compare: 6", [&] { ipc_wait_value(token, 0, 6, 0); });
    expect_refused(SYMM_ERR_INVALID_ARGUMENT, "epoch: is UINT64_MAX",
        [&] { there.put_pieces(0, source, byte.list(), UINT64_MAX); });
    expect_refused(SYMM_ERR_INVALID_ARGUMENT, "offset: 1025 is beyond",
        [&] { there.put_pieces(1025, source, byte.list()); });
    expect_refused(SYMM_ERR_INVALID_ARGUMENT, "go beyond the 1024 bytes of the import",
        [&] { there.put_pieces(0, source, alike(1024, 1).list()); });
    EXPECT_EQ(owned.data[5 * kPadPage], std::byte{0});

    expect_refused(SYMM_ERR_INVALID_ARGUMENT, "fence_bytes",
        [&] { ipc_fence(Span(owned.data + kPadPage, kPadPage - 1), 1); });
    there.put_pieces(0, source, byte.list());  // no fence was raised
    ipc_fence(Span(owned.data, 2 * kPadPage), 1);
    expect_refused(
        SYMM_ERR_ABORTED, "epoch: 0 is late", [&] { there.put_pieces(0, source, byte.list()); });
    expect_refused(
        SYMM_ERR_INVALID_ARGUMENT, "lies in no buffer", [&] { ipc_fence(Span(source), 1); });
    facts->token = token;
    pass();
  });

  importer([&] {
    const Import mine = import(facts->token);
    expect_refused(SYMM_ERR_INVALID_ARGUMENT, "alone can wait for its words",
        [&] { ipc_wait_value(facts->token, 0, SYMM_COMPARE_EQ, 0); });
    expect_refused(SYMM_ERR_INVALID_ARGUMENT, "only the process that owns",
        [&] { ipc_fence(mine.span(), 1); });
    const symm_ipc_export_options_t options = with_channels(1);
    expect_refused(SYMM_ERR_UNSUPPORTED, "memory of another process",
        [&] { (void)make_token(mine.span().data(), 64, options); });
  });
}

// A pad goes with its token and its leases, and its writers' numbers are given anew.
TEST_F(Pads, WritersComeAndGo) {
  exporter([&] {
    const Owned owned(kPadBytes);
    const Token token = token_with_channels(owned.data, kPadBytes, 1);
    std::vector<Import> most;
    for (int i = 0; i < 64; ++i) {
      most.push_back(import(token));
    }
    expect_refused(SYMM_ERR_UNAVAILABLE, "64 imports", [&] { import(token); });
    most.clear();
    for (int i = 0; i < 200; ++i) {
      import(token).signal_value(0, SYMM_SIGNAL_ADD, 1);
    }
    EXPECT_EQ(ipc_wait_value(token, 0, SYMM_COMPARE_EQ, 200), 200U);
    expect_refused(SYMM_ERR_TIMEOUT, "all have let go",
        [&] { ipc_wait_value(token, 0, SYMM_COMPARE_EQ, 201, 5); });
    symm::ipc_withdraw(owned.buffer.span());
    EXPECT_EQ(ipc_stats().leases, 0U);
  });
}

TEST_F(Pads, AnImportThatSleepsWakesWithItsPad) {
  exporter([&] {
    const Owned owned = offer_channels();
    go_on();
    EXPECT_EQ(ipc_wait_value(facts->token, 0, SYMM_COMPARE_GE, 2), 2U);
  });
  importer([&] {
    const Import there = import(facts->token);
    there.signal_value(0, SYMM_SIGNAL_ADD, 1);
    there.suspend();
    expect_refused(
        SYMM_ERR_INVALID_ARGUMENT, "suspended", [&] { there.signal_value(0, SYMM_SIGNAL_ADD, 1); });
    there.resume(facts->token);
    there.signal_value(0, SYMM_SIGNAL_ADD, 1);
  });
}
}  // namespace
}  // namespace support
