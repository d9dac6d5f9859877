// Groups across machines: what they report, move and fail with.
// The meaning of each call is tested by tests/bindings/behaviours,
// and the bits of the results by the tests of collectives.
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>
#include <vector>

#include "symm/symm.h"
#include "tests/support/machines.hpp"
#include "tests/support/piece_lists.hpp"
#include "tests/support/ports.hpp"
#include "tests/support/process.hpp"
#include "tests/support/word_history.hpp"

namespace support {
namespace {
TEST_F(Multinode, AreToldByInfoAndPointers) {
  expect_on_machines("abba", [](int rank, const Group& group) {
    const symm_group_info_t info = group.info();
    const int here[] = {0, 1, 1, 0};
    const int local[] = {0, 0, 1, 1};
    EXPECT_EQ(info.machines, 2);
    EXPECT_EQ(info.machine, here[rank]);
    EXPECT_EQ(info.local_rank, local[rank]);
    EXPECT_EQ(info.local_size, 2);
    const char* const asked = getenv("SYMM_ENGINE");
    const std::string engine = asked != nullptr ? asked : "ucx";
    EXPECT_TRUE(std::string(info.engine).starts_with(engine + " ")) << info.engine;

    const Block block = allocate(group, 4096);
    void* const* table = nullptr;
    check(symm_memory_pointer_table(block.memory.get(), &table));
    for (int peer = 0; peer < 4; ++peer) {
      const bool mapped = here[peer] == here[rank];
      EXPECT_EQ(group.peer_info(peer).machine, here[peer]);
      EXPECT_EQ(group.peer_info(peer).mapped, mapped ? 1 : 0);
      EXPECT_EQ(table[peer] != nullptr, mapped);
      void* at = nullptr;
      EXPECT_EQ(symm_memory_pointer(block.memory.get(), peer, &at),
          mapped ? SYMM_OK : SYMM_ERR_UNAVAILABLE);
    }
  });
}

TEST_F(Multinode, OfDifferentEnginesAreRefused) {
  const TemporaryDirectory script;
  std::ofstream(script.path() + "/script");
  setenv("FAKE_UCX", (script.path() + "/script").c_str(), 1);
  for (const char* other : {"ucx 1.13.9", "secure 1"}) {
    const auto before = [other](int rank) {
      const bool is_ucx = rank == 0 || *other == 'u';
      setenv("SYMM_ENGINE", is_ucx ? "ucx" : "secure", 1);
      if (rank == 1) setenv("SYMM_UCX", FAKE_UCX, 1);
    };
    for (const std::string& said :
        on_machines("ab", [](int, const Group&) { return "well"; }, before)) {
      EXPECT_NE(said.find("engine: rank"), std::string::npos) << said;
      EXPECT_NE(said.find(other), std::string::npos) << said;
    }
  }
}

// Machines that are one host are connected by its loopback, which no other host reaches.
TEST_F(Multinode, OfOneHostListenOnLoopbackAlone) {
  expect_on_machines("ab", [](int, const Group& group) {
    group.barrier();
    EXPECT_EQ(listening_addresses(), std::set<std::string>{"0100007F"});
  });
}

// A group whose ranks are all on one machine looks for no engine and opens no port.
TEST_F(Multinode, OfOneMachineNeedNothing) {
  expect_on_machines("aa", [](int, const Group& group) {
    group.barrier();
    EXPECT_STREQ(group.info().engine, "");
    const auto text = [](const char* path) {
      std::ostringstream all;
      all << std::ifstream(path).rdbuf();
      return all.str();
    };
    EXPECT_EQ(text("/proc/self/maps").find("libucp"), std::string::npos) << "an engine is loaded";

    const std::string ports =
        text("/proc/self/net/tcp") + text("/proc/self/net/tcp6") + text("/proc/self/net/udp");
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const std::string what = std::filesystem::read_symlink(entry.path(), gone);
      EXPECT_TRUE(!what.starts_with("socket:[") ||
                  ports.find(" " + what.substr(8, what.size() - 9) + " ") == std::string::npos)
          << what;
    }
  });
}

// A rank makes a group with a rank that dies, again and again: SYMM_TRIALS times, or five.
TEST_F(Multinode, KeepNothingOfGroupsWhosePeersDied) {
  const char* wanted = getenv("SYMM_TRIALS");
  constexpr int kWarmUp = 5;
  const int cycles = kWarmUp + (wanted != nullptr ? atoi(wanted) : 5);
  const Bootstrap meeting;
  Config config = meeting.processes();
  const auto join = [&config](int rank, int cycle) {
    setenv("SYMM_MACHINE", rank == 0 ? "a" : "b", 1);
    config.name = "cycle " + std::to_string(cycle);
    return create(config, rank, 2);
  };

  // The process returns a word, so that LeakSanitizer does not look at its exit: UCX leaks.
  Process survivor([&] {
    Footprint before;
    for (int cycle = 0; cycle < cycles; ++cycle) {
      if (cycle == kWarmUp) before = Footprint::settled();
      const Group group = join(0, cycle);
      expect_failure(SYMM_ERR_PEER_FAILED, {"rank 1"}, [&] {
        while (true) {
          group.barrier();
        }
      });
    }
    EXPECT_TRUE(eventually([&] { return Footprint::now().has_no_more_than(before); }))
        << Footprint::now() << ", before: " << before;
    return "well";
  });

  Process others([&] {
    for (int cycle = 0; cycle < cycles; ++cycle) {
      Process dying([&] {
        const Group group = join(1, cycle);
        group.barrier();
        raise(SIGKILL);
      });
      dying.wait();
    }
  });

  EXPECT_EQ(survivor.result(), "well");
  others.expect_success("");
}

// The ranks of one machine form an ordinary group without an engine, which outlives
// failures of the ranks on other machines.
TEST_F(Multinode, HaveLocalGroupsThatOutliveTheRest) {
  const std::vector<std::string> said = on_machines("aba", [](int rank, const Group& group) {
    const Group local = group.local();
    group.barrier();
    std::string end = "nobody died";

    try {
      group.barrier();
      // All ranks have come to the second barrier, so they have left the first.
      if (rank == 1) raise(SIGKILL);
      group.barrier();
    } catch (const Error& error) {
      end = error.status() == SYMM_ERR_PEER_FAILED ? "" : error.what();
    }

    const symm_group_info_t info = local.info();
    local.barrier();
    return end + std::to_string(info.rank) + " of " + std::to_string(info.size) + info.engine;
  });

  EXPECT_EQ(said, (std::vector<std::string>{"0 of 2", "", "1 of 2"}));
}

// Puts so large that each takes several messages, signals after them, and gets.
TEST_F(Multinode, MoveLargeBlocks) {
  constexpr size_t kWords = 700'001;
  // Ranks say that they have come to a barrier to
  // the first rank of a machine, not to each other.
  setenv("SYMM_HOST_TUNE", "tell=0", 1);
  expect_on_machines("aba", [](int rank, const Group& group) {
    const Block block = allocate(group, 3 * kWords * sizeof(uint32_t));
    std::vector<uint32_t> words(kWords);
    std::vector<uint32_t> back(kWords);
    for (int round = 0; round < 5; ++round) {
      for (size_t i = 0; i < kWords; ++i) {
        words[i] = static_cast<uint32_t>(i * 2654435761U) + static_cast<uint32_t>(rank + round);
      }

      const size_t bytes = kWords * sizeof(uint32_t);
      const size_t own = static_cast<size_t>(rank) * bytes;
      for (int peer = 0; peer < 3; ++peer) {
        check(symm_put_signal(
            block.memory.get(), peer, own, words.data(), bytes, 1, nullptr, nullptr));
      }
      for (int peer = 0; peer < 3; ++peer) {
        check(symm_wait_signal(block.memory.get(), peer, 1, nullptr, nullptr));
      }
      for (int peer = 0; peer < 3; ++peer) {
        const uint32_t* from = block.at<uint32_t>(rank) + static_cast<size_t>(peer) * kWords;
        for (size_t i = 0; i < kWords; i += 997) {
          EXPECT_EQ(from[i], words[i] - static_cast<uint32_t>(rank - peer));
        }
        check(symm_get(block.memory.get(), peer, own, back.data(), bytes, nullptr, nullptr));
        EXPECT_EQ(back, words);
      }
      group.barrier();
    }

    check(symm_fill32(block.memory.get(), (rank + 1) % 3, 4, 7, kWords, nullptr, nullptr));
    group.barrier({}, 2);
    EXPECT_EQ(block.at<uint32_t>(rank)[1], 7U);
    EXPECT_EQ(block.at<uint32_t>(rank)[kWords], 7U);

    // The news of the barrier comes to rank 2 by way
    // of rank 0, the put of rank 1 comes directly.
    for (uint32_t round = 0; round < 1000; ++round) {
      group.barrier();
      if (rank == 1)
        check(symm_put(block.memory.get(), 2, 0, &round, sizeof round, nullptr, nullptr));
      group.barrier();
      EXPECT_TRUE(rank != 2 || block.at<uint32_t>(2)[0] == round);
    }
  });
}

// A call that fails while its thread looks for a message leaves the engine to the engine's own
// thread, which serves the process when no rank of it is in a call.
TEST_F(Multinode, AnswerAfterACallThatFailed) {
  const Shared<std::atomic<int>> got;
  expect_on_machines("aab", [&](int rank, const Group& group) {
    const Group other = group.split(0, 0);
    const Block block = allocate(other, 4096);
    std::vector<std::byte> data(100);
    for (int round = 0; round < 20; ++round) {
      const Group one = group.split(0, 0);
      other.barrier();  // all have it before it fails
      if (rank == 0) one.send(1, data);
      if (rank == 1) {
        expect_failure(
            SYMM_ERR_MISMATCH, {"room for 99"}, [&] { one.recv(0, symm::Span(data.data(), 99)); });
      }
    }

    // Rank 1 makes no call until rank 2 has what it gets.
    other.barrier();
    if (rank == 2) {
      for (int k = 0; k < 20; ++k) {
        block.memory.get(1, 0, symm::Span(data.data(), 8), 5'000);
      }
      *got = 1;
    }
    EXPECT_TRUE(eventually([&] { return *got == 1; }));
  });
}

// Additions of ranks on all machines fetch each value once, whoever owns the word; and what waits
// for the word is woken.
TEST_F(Multinode, ChangeWordsInOneStep) {
  constexpr uint64_t kAdds = 2'000;
  constexpr uint64_t kRanks = 3;
  expect_on_machines("aba", [](int rank, const Group& group) {
    const Block block = allocate(group, 4096 + kRanks * kAdds * 8);
    for (int owner = 0; owner < 3; ++owner) {
      auto* const seen = block.at<uint64_t>(rank) + 512;
      std::fill_n(seen, kRanks * kAdds, 0);
      group.barrier();
      for (uint64_t i = 0; i < kAdds; ++i) {
        uint64_t before = 0;
        block.memory.atomic64(owner, 64, SYMM_ATOMIC_ADD, 1, 0, &before);
        ASSERT_LT(before, kRanks * kAdds);
        // Nobody waits for this one.
        block.memory.atomic64(owner, 4096 + before * 8, SYMM_ATOMIC_ADD, before + 1);
      }
      group.barrier();
      EXPECT_EQ(block.memory.read_value64(owner, 64), kRanks * kAdds);
      for (uint64_t i = 0; rank == owner && i < kRanks * kAdds; ++i) {
        ASSERT_EQ(seen[i], i + 1);
      }
      group.barrier();
    }

    // All operations, on words of both sizes, of a rank that is far from 0 and near to 2.
    const auto change = [&](symm_atomic_op_t op, uint32_t value, uint32_t compare = 0) {
      uint32_t narrow = 0;
      uint64_t wide = 0;
      block.memory.atomic32(1, 4, op, value, compare, &narrow);
      block.memory.atomic64(1, 8, op, uint64_t{value} << 32, uint64_t{compare} << 32, &wide);
      EXPECT_EQ(wide, uint64_t{narrow} << 32) << "operation " << op;
      return narrow;
    };
    for (const int turn : {0, 2}) {
      group.barrier();
      if (rank != turn) continue;
      EXPECT_EQ(change(SYMM_ATOMIC_SWAP, 12), turn == 0 ? 0U : 5U);
      EXPECT_EQ(change(SYMM_ATOMIC_ADD, 3), 12U);
      EXPECT_EQ(change(SYMM_ATOMIC_AND, 13), 15U);
      EXPECT_EQ(change(SYMM_ATOMIC_OR, 2), 13U);
      EXPECT_EQ(change(SYMM_ATOMIC_XOR, 6), 15U);
      EXPECT_EQ(change(SYMM_ATOMIC_COMPARE_SWAP, 5, 8), 9U);
      EXPECT_EQ(change(SYMM_ATOMIC_COMPARE_SWAP, 5, 9), 9U);
      EXPECT_EQ(change(SYMM_ATOMIC_FETCH, 0), 5U);
      EXPECT_EQ(block.memory.read_value32(1, 4), 5U);
    }
    group.barrier();

    const auto next = (rank + 1) % 3;
    for (uint64_t round = 1; round <= 200; ++round) {
      block.memory.atomic64(next, 24, SYMM_ATOMIC_ADD, uint64_t{1} << 32);
      block.memory.wait_value64(24, SYMM_COMPARE_GE, round << 32);
    }
    group.barrier();
  });
}

// Calls of all kinds by near and far ranks took effect one after the other, each between its begin
// and its end.
TEST_F(Multinode, HistoriesOfAWordCanBe) {
  constexpr size_t kCalls = 100;
  constexpr size_t kRanks = 4;
  constexpr size_t kEvents = 64;
  expect_on_machines("aabc", [](int rank, const Group& group) {
    const Block block = allocate(group, kEvents + kRanks * kCalls * sizeof(WordEvent));
    std::mt19937_64 random(static_cast<unsigned>(rank));
    size_t overlapping = 0;
    for (int round = 0; round < 10; ++round) {
      const uint64_t first = block.memory.read_value64(0, 8);
      group.barrier();
      const auto mine = record_changes(random, kCalls, [&](const WordEvent& call) {
        uint64_t before = 0;
        block.memory.atomic64(
            0, 8, call.op, call.value, call.compare, call.fetches != 0 ? &before : nullptr);
        return before;
      });
      const size_t at = kEvents + kCalls * sizeof(WordEvent) * static_cast<size_t>(rank);
      block.memory.put(0, at, mine);
      group.barrier();

      if (rank == 0) {
        const auto* const events =
            reinterpret_cast<const WordEvent*>(block.at<std::byte>(0) + kEvents);
        WordHistory history;
        for (size_t other = 0; other < kRanks; ++other) {
          history.emplace_back(events + kCalls * other, events + kCalls * (other + 1));
        }
        overlapping += overlaps(history);
        EXPECT_TRUE(can_be(history, first)) << "round " << round;
      }
      group.barrier();
    }
    if (rank == 0) {
      EXPECT_GT(overlapping, 0U);
    }
  });
}

// Rank 1 has stopped, so that it has the request and sends no reply, and then dies.
TEST_F(Multinode, NameTheRankThatDiesBetweenAnAtomicAndItsReply) {
  SYMM_NOT_UNDER_TSAN("a rank that is stopped is not looked at");
  for (const int which : {0, 1, 2}) {
    const std::vector<std::string> said = on_machines("abc", [&](int rank, const Group& group) {
      const Block block = allocate(group, 4096);
      group.barrier();
      const auto pid = static_cast<pid_t>(group.peer_info(1).pid);
      if (rank == 1) {
        kill(getpid(), SIGSTOP);
        return std::string();
      }
      usleep(300'000);
      std::thread killer([&] {
        usleep(200'000);
        if (rank == 0) kill(pid, SIGKILL);
      });

      symm_failure_t failure = SYMM_FAILURE_INIT;
      const symm_call_options_t options{sizeof options, 20'000, &failure, nullptr};
      symm_memory_t* const memory = block.memory.get();
      uint64_t before = 0;
      const auto start = std::chrono::steady_clock::now();
      symm_status_t status = SYMM_OK;
      if (which == 0) {
        status = symm_atomic64(memory, 1, 0, SYMM_ATOMIC_ADD, 1, 0, &options, &before, nullptr);
      } else if (which == 1) {
        status =
            symm_atomic32(memory, 1, 0, SYMM_ATOMIC_COMPARE_SWAP, 1, 2, &options, &before, nullptr);
      } else {
        status = symm_read_value64(memory, 1, 0, &options, &before);
      }
      const auto took = std::chrono::steady_clock::now() - start;
      killer.join();
      if (took > std::chrono::seconds(10)) return std::string("took too long");
      return std::to_string(status) + " " + std::to_string(failure.rank) + " " +
             std::to_string(group.status().rank);
    });
    const std::string failed = std::to_string(SYMM_ERR_PEER_FAILED) + " 1 1";
    EXPECT_EQ(said, (std::vector<std::string>{failed, "", failed})) << "call " << which;
  }
}

// The victim dies at any moment while all others change its word.
TEST_F(Multinode, NameTheOwnerOfAWordThatIsKilled) {
  for (unsigned round = 0; round < 20; ++round) {
    const Shared<std::atomic<int>> passed;
    const Shared<std::atomic<int>> heard;
    const std::vector<std::string> said = on_machines("abb", [&](int rank, const Group& group) {
      const Block block = allocate(group, 4096);
      group.barrier();
      if (rank == 1) {
        // A rank that is still in the barrier would find the death there.
        eventually([&] { return *passed == 2; });
        usleep(round * 137);
        raise(SIGKILL);
      }
      ++*passed;

      symm_failure_t failure = SYMM_FAILURE_INIT;
      const symm_call_options_t options{sizeof options, 20'000, &failure, nullptr};
      symm_memory_t* const memory = block.memory.get();
      symm_status_t status = SYMM_OK;
      uint64_t last = 0;
      while (status == SYMM_OK) {
        uint64_t before = 0;
        status = symm_atomic64(
            memory, rank == 0 ? 1 : 0, 0, SYMM_ATOMIC_ADD, 1, 0, &options, &before, nullptr);
        if (status == SYMM_OK && before < last) return std::string("a smaller value was fetched");
        if (status == SYMM_OK) last = before;
      }

      // A rank that releases its memory sooner would answer the other that the word is gone.
      ++*heard;
      eventually([&] { return *heard == 2; });
      return std::to_string(status) + " " + std::to_string(failure.rank);
    });
    const std::string failed = std::to_string(SYMM_ERR_PEER_FAILED) + " 1";
    EXPECT_EQ(said, (std::vector<std::string>{failed, "", failed})) << "round " << round;
  }
}

TEST_F(Multinode, SayThatTheMemoryOfAWordWasReleased) {
  expect_on_machines("ab", [](int rank, const Group& group) {
    const Block kept = allocate(group, 4096);
    Block block = allocate(group, 4096, 1);
    group.barrier();
    if (rank == 1) block = Block{};
    kept.memory.signal(1 - rank);
    kept.memory.wait_signal(1 - rank);
    if (rank == 0) {
      uint64_t before = 0;
      expect_failure(SYMM_ERR_UNAVAILABLE, {"rank: 1 has released the memory"},
          [&] { block.memory.atomic64(1, 0, SYMM_ATOMIC_ADD, 1, 0, &before); });
      // What is put there goes nowhere, and rows are fetched by a message of their own.
      const std::vector<symm_piece_t> pieces = {{0, 0, 4, 2, 4, 4}};
      std::vector<uint32_t> row(2);
      block.memory.put_pieces(1, 0, row, pieces);
      expect_failure(SYMM_ERR_UNAVAILABLE, {"rank: 1 has released the memory"},
          [&] { block.memory.get_pieces(1, 0, row, pieces); });
      expect_failure(SYMM_ERR_UNAVAILABLE, {"rank: 1 has released the memory"},
          [&] { static_cast<void>(block.memory.read_value32(1, 0)); });
      // Nobody wants to know what became of this one.
      block.memory.atomic64(1, 0, SYMM_ATOMIC_ADD, 1);
    }
    group.barrier();
  });
}

// Copies of values of any size, longer than a message; and a put with a signal that has a value.
TEST_F(Multinode, FillAndSignalWithValues) {
  constexpr size_t kBytes = (size_t{1} << 20) + 4096;
  expect_on_machines("ab", [](int rank, const Group& group) {
    const Block block = allocate(group, 2 * kBytes);
    const auto* const bytes = block.at<uint8_t>(rank);
    const auto expect_filled = [&](uint64_t value, size_t size) {
      group.barrier();
      EXPECT_EQ(bytes[15], 0U);
      EXPECT_EQ(bytes[16 + kBytes], 0U);
      for (size_t i = 0; i < kBytes; ++i) {
        ASSERT_EQ(bytes[16 + i], value >> i % size * 8 & 0xFFU) << size << " bytes, byte " << i;
      }
      group.barrier();
    };
    constexpr uint64_t kValue = 0x0102030405060708;
    block.memory.fill8(1 - rank, 16, 0xA5, kBytes);
    expect_filled(0xA5, 1);
    block.memory.fill16(1 - rank, 16, 0xA5B6, kBytes / 2);
    expect_filled(0xA5B6, 2);
    block.memory.fill64(1 - rank, 16, kValue, kBytes / 8);
    expect_filled(kValue, 8);

    for (uint64_t round = 1; round <= 100; ++round) {
      const std::vector<uint64_t> mine(1000, round);
      block.memory.put_signal_value(1 - rank, 0, mine, 3, SYMM_SIGNAL_ADD, 1 + (round << 40));
      block.memory.wait_signal_value(1 - rank, 3, SYMM_COMPARE_GE, round * (round + 1) / 2 << 40);
      EXPECT_EQ(block.at<uint64_t>(rank)[999], round);
      group.barrier();
    }
  });
}

// Lists of pieces go to, and come from, a rank on another machine, and their signal comes last.
TEST_F(Multinode, PutAndGetPieces) {
  constexpr size_t kBytes = 4096;
  expect_on_machines("ab", [](int rank, const Group& group) {
    const Block block = allocate(group, kBytes);
    const int other = 1 - rank;
    const std::vector<std::byte> mine = distinct_bytes(kBytes, static_cast<uint64_t>(rank));
    const std::vector<std::byte> theirs = distinct_bytes(kBytes, static_cast<uint64_t>(other));
    std::vector<std::byte> expected(kBytes);
    std::vector<std::byte> here(kBytes);
    PieceLists lists(9, kBytes);

    for (uint64_t round = 1; round <= 100; ++round) {
      const std::vector<symm_piece_t> pieces = lists.draw();
      block.memory.put_pieces(
          other, 0, mine, symm::Pieces(pieces).with_signal(1, SYMM_SIGNAL_SET, round));
      block.memory.wait_signal_value(other, 1, SYMM_COMPARE_EQ, round);
      copy_as_said(expected.data(), theirs.data(), pieces);
      const std::byte* const at = block.at<std::byte>(rank);
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), at)) << "list " << round;

      // The other rank has what it was sent: this rank's bytes in these places.
      const std::vector<symm_piece_t> fetched = lists.draw();
      std::vector<std::byte> seen(kBytes);
      std::vector<std::byte> there(kBytes);
      block.memory.get_pieces(other, 0, seen, symm::Pieces(fetched).with_signal(2));
      copy_as_said(here.data(), mine.data(), pieces);
      copy_as_said(there.data(), here.data(), fetched);
      ASSERT_TRUE(seen == there) << "list " << round;
      block.memory.wait_signal(other, 2);
      group.barrier();
    }
  });
}

// Pages go by their tables, and a page is longer than a message.
TEST_F(Multinode, PutAndGetPages) {
  constexpr size_t kPage = (size_t{1} << 20) + 64;
  expect_on_machines("ab", [](int rank, const Group& group) {
    const Block block = allocate(group, 4 * kPage);
    const std::vector<std::byte> mine = distinct_bytes(3 * kPage, static_cast<uint64_t>(rank));
    const std::vector<uint64_t> from = {2, 0};
    const std::vector<uint64_t> to = {0, 3};
    block.memory.put_pieces(1 - rank, 0, mine, symm::Pieces::pages(kPage, from, to).with_signal(0));
    block.memory.wait_signal(1 - rank);
    std::vector<std::byte> seen(2 * kPage);
    block.memory.get_pieces(1 - rank, 0, seen, symm::Pieces::pages(kPage, to));
    EXPECT_TRUE(std::equal(seen.begin(), seen.begin() + kPage, mine.begin() + 2 * kPage));
    EXPECT_TRUE(std::equal(seen.begin() + kPage, seen.end(), mine.begin()));
    group.barrier();
  });
}

// Rank 1 makes another call and then stops, so it answers no question about that call.
TEST_F(Multinode, NameARankThatMakesAnotherCallAndStops) {
  const std::vector<std::string> said = on_machines("ab", [](int rank, const Group& group) {
    const auto stop = [] {
      usleep(100'000);
      kill(getpid(), SIGSTOP);
    };
    if (rank == 1) std::thread(stop).detach();
    if (rank == 0) usleep(300'000);

    std::vector<float> data(16);
    const symm_status_t status = symm_allreduce(group.get(), data.data(), data.data(),
        data.size() / (rank + 1U), SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, nullptr);
    kill(static_cast<pid_t>(group.peer_info(1).pid), SIGKILL);
    return std::to_string(status) + " " + std::to_string(group.status().rank);
  });
  EXPECT_EQ(said, (std::vector<std::string>{std::to_string(SYMM_ERR_MISMATCH) + " 1", ""}));
}

// The calls that reach a rank on another machine, which is silent: each waits for as long as its
// options say, not for as long as the group would.
TEST_F(Multinode, WaitForASilentRankNoLongerThanTheCallSays) {
  SYMM_NOT_UNDER_TSAN("a rank that is stopped is not looked at");
  constexpr size_t kBytes = size_t{64} << 20;
  constexpr int kCalls = 7;
  for (int which = 0; which < kCalls; ++which) {
    const std::vector<std::string> said = on_machines("ab", [&](int rank, const Group& group) {
      const Block block = allocate(group, kBytes);
      const std::vector<std::byte> mine(kBytes);
      std::vector<std::byte> got(8);
      group.barrier();
      if (rank == 1) {
        kill(getpid(), SIGSTOP);
        return std::string();
      }
      usleep(300'000);

      symm_failure_t failure = SYMM_FAILURE_INIT;
      const symm_call_options_t options{sizeof options, 400, &failure, nullptr};
      symm_memory_t* const memory = block.memory.get();
      const auto start = std::chrono::steady_clock::now();
      symm_status_t status = SYMM_OK;
      if (which == 0) status = symm_get(memory, 1, 0, got.data(), got.size(), &options, nullptr);
      if (which == 1) status = symm_put(memory, 1, 0, mine.data(), kBytes, &options, nullptr);
      if (which == 2) {
        status = symm_put_signal(memory, 1, 0, mine.data(), kBytes, 3, &options, nullptr);
      }
      uint64_t before = 0;
      if (which == 3) {
        status =
            symm_atomic64(memory, 1, 0, SYMM_ATOMIC_COMPARE_SWAP, 1, 2, &options, &before, nullptr);
      }
      if (which == 4) status = symm_read_value64(memory, 1, 0, &options, &before);
      const symm_piece_t piece = {0, 0, kBytes / 4, which == 5 ? 4U : 1U, 0, kBytes / 4};
      const auto call = pieces_at(&piece);
      if (which == 5) {
        status = symm_put_pieces(memory, 1, 0, mine.data(), kBytes, call, &options, nullptr);
      }
      if (which == 6) {
        got.resize(kBytes);
        status = symm_get_pieces(memory, 1, 0, got.data(), kBytes, call, &options, nullptr);
      }
      const auto took = std::chrono::steady_clock::now() - start;

      kill(static_cast<pid_t>(group.peer_info(1).pid), SIGKILL);
      if (took > std::chrono::seconds(10)) return std::string("took too long");
      return std::to_string(status) + " " + std::to_string(failure.status) + " " +
             std::to_string(failure.rank) + " " + std::to_string(group.status().rank);
    });
    const std::string timeout = std::to_string(SYMM_ERR_TIMEOUT);
    EXPECT_EQ(said, (std::vector<std::string>{timeout + " " + timeout + " 1 1", ""}))
        << "call " << which;
  }
}

// The rank that raises a signal, the signal, and
// whether ranks then all-reduce or meet in a barrier.
class MultinodeVictim : public Multinode,
                        public testing::WithParamInterface<std::tuple<int, int, bool>> {};

// The ranks that live name the victim, whatever its part in
// all-reduces of three machines and in a barrier is, and
// though most of them wait for other ranks than the victim.
TEST_P(MultinodeVictim, IsNamed) {
  const auto [victim, signal, reduces] = GetParam();
  setenv("SYMM_HOST_TUNE", "tell=0", 1);
  const auto body = [victim = victim, signal = signal, reduces = reduces](
                        int rank, const Group& group) {
    std::vector<float> data(100'000);
    const uint64_t timeout_ms = signal == SIGSTOP ? 1000 : 20'000;
    symm_status_t status = SYMM_OK;
    for (int call = 0; status == SYMM_OK && call < 1'000'000; ++call) {
      if (rank == victim && call == 4 + victim % 2) raise(signal);
      if (reduces) {
        const auto options =
            forced(call % 2 == 0 ? SYMM_ALGORITHM_HIERARCHICAL : SYMM_ALGORITHM_CHAIN, timeout_ms);
        status = symm_allreduce(group.get(), data.data(), data.data(), data.size(), SYMM_DTYPE_F32,
            SYMM_OP_SUM, options, nullptr);
      } else {
        status = symm_barrier(group.get(), nullptr, 0, 0, within(timeout_ms), nullptr);
      }
    }

    kill(static_cast<pid_t>(group.peer_info(victim).pid), SIGKILL);
    return std::to_string(group.status().rank) +
           (signal == SIGSTOP || status == SYMM_ERR_PEER_FAILED ? "" : "?");
  };

  const std::vector<std::string> said = on_machines("aabbcc", body);
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(said[static_cast<size_t>(rank)], rank == victim ? "" : std::to_string(victim))
        << "rank " << rank;
  }
}

std::string name_of_victim(const testing::TestParamInfo<MultinodeVictim::ParamType>& one) {
  const auto [victim, signal, reduces] = one.param;
  return "Rank" + std::to_string(victim) + (signal == SIGKILL ? "Dies" : "Stops") +
         (reduces ? "InAllreduce" : "InBarrier");
}

INSTANTIATE_TEST_SUITE_P(Signals, MultinodeVictim,
    testing::Combine(testing::Values(1, 2, 5), testing::Values(SIGKILL, SIGSTOP), testing::Bool()),
    name_of_victim);

// The rank that rank 3 waits for in a barrier of two, and whether rank 3 comes first.
class MultinodeBarriers : public Multinode,
                          public testing::WithParamInterface<std::tuple<int32_t, bool>> {};

// Rank 3 comes to a barrier of two with another rank, on its machine or not. The other
// ranks come to a barrier of all, later or earlier than rank 3.
TEST_P(MultinodeBarriers, OfDifferentSetsAreFound) {
  const auto [other, first] = GetParam();
  setenv("SYMM_HOST_TUNE", "tell=0", 1);
  expect_on_machines("aabb", [other = other, first = first](int rank, const Group& group) {
    const int32_t both[] = {other, 3};
    if ((rank == 3) != first) usleep(200'000);
    const auto meet = [&] { group.barrier(symm::Span(both, rank == 3 ? 2 : 0)); };
    expect_failure(SYMM_ERR_MISMATCH, {"different sets on channel 0"}, meet);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Sets, MultinodeBarriers, testing::Combine(testing::Values(1, 2), testing::Bool()));

// The rank that is in another call than the others, and whether ranks tell each other of barriers
// directly.
class MultinodeKinds : public Multinode,
                       public testing::WithParamInterface<std::tuple<int, bool>> {};

// One rank reduces, the others meet in a barrier, and so each waits for one that waits for it, on
// its machine or not.
TEST_P(MultinodeKinds, ThatDifferAreToldSoonAndByName) {
  const auto [odd, by_rounds] = GetParam();
  if (by_rounds) setenv("SYMM_HOST_TUNE", "tell=0", 1);
  expect_on_machines("aabb", [odd = odd](int rank, const Group& group) {
    std::vector<float> data(10);
    group.barrier({}, 3);
    const int64_t began = now_ns();
    expect_failure(SYMM_ERR_MISMATCH,
        {"makes allreduce(f32, sum, count 10)", "makes barrier on channel 3"}, [&] {
          if (rank != odd) return group.barrier({}, 3);
          check(symm_allreduce(group.get(), data.data(), data.data(), data.size(), SYMM_DTYPE_F32,
              SYMM_OP_SUM, nullptr, nullptr));
        });
    EXPECT_LT(now_ns() - began, int64_t{15'000'000'000});
    EXPECT_TRUE(eventually([&] { return group.status().rank == odd; })) << group.status().message;
  });
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, MultinodeKinds, testing::Combine(testing::Values(0, 1, 3), testing::Bool()));

// Rank 3 makes a group of all ranks in another way than the others.
TEST_F(Multinode, TellsCallsThatMakeGroupsApart) {
  for (const char* layout : {"aabb", "abab"}) {
    expect_on_machines(layout, [](int rank, const Group& group) {
      const int64_t began = now_ns();
      expect_failure(
          SYMM_ERR_MISMATCH, {"makes group_split", "makes group_create_from_ranks"}, [&] {
            const int32_t all[] = {0, 1, 2, 3};
            if (rank == 3) {
              group.create_from_ranks(all);
            } else {
              group.split(0);
            }
          });
      EXPECT_LT(now_ns() - began, int64_t{15'000'000'000});
      EXPECT_TRUE(eventually([&] { return group.status().rank == 3; })) << group.status().message;
    });
  }
}

// Each rank waits for the next one in a group of two.
TEST_F(Multinode, FindsGroupsOfDifferentRanksInARing) {
  expect_on_machines("aabb", [](int rank, const Group& group) {
    const int64_t began = now_ns();
    const int32_t ranks[] = {rank, (rank + 1) % 4};
    expect_failure(SYMM_ERR_MISMATCH, {"ranks 0 and 3 name different ranks of this group"},
        [&] { group.create_from_ranks(ranks); });
    EXPECT_LT(now_ns() - began, int64_t{15'000'000'000});
  });
}

// Small calls of a batch are made as one. What they gather together is equal on all ranks, and a
// rank of another machine tells which calls its one call is made of.
TEST_F(Multinode, NamesTheCallOfABatchThatDiffers) {
  for (const char* layout : {"ab", "aabb"}) {
    expect_on_machines(layout, [](int rank, const Group& group) {
      const auto ranks = static_cast<size_t>(group.size());
      const bool is_odd = rank == group.size() - 1;
      std::vector<float> send(41, static_cast<float>(rank));
      std::vector<float> recv(41 * ranks);
      std::vector<symm_collective_call_t> calls;
      for (size_t i = 0; i < 4; ++i) {
        calls.push_back(call_of(SYMM_COLLECTIVE_ALLGATHER, send.data() + 10 * i,
            recv.data() + 10 * ranks * i, 10, SYMM_DTYPE_F32)
                .value);
      }
      group.batch(calls);
      EXPECT_EQ(recv[10 * ranks * 3 - 1], static_cast<float>(group.size() - 1));

      if (is_odd) {
        calls[2].count -= 1;
        calls[3].count += 1;
      }
      expect_failure(SYMM_ERR_MISMATCH,
          {"makes allgather(f32, count 10) as calls[2] of a batch",
              "makes allgather(f32, count 9) as calls[2] of a batch"},
          [&] { group.batch(calls); });
    });
  }
}

// In any order, sums of few small numbers are exact. Sums
// of thirds are rounded, but all ranks get the same bits.
TEST_F(Multinode, AddFloatsInAnyOrderWhereThatIsAllowed) {
  setenv("SYMM_ORDER", "any", 1);
  const std::vector<std::string> said = on_machines("aabbcc", [](int rank, const Group& group) {
    constexpr size_t kCount = 200'000;
    std::string hashes;
    for (const symm_dtype_t dtype : {SYMM_DTYPE_F32, SYMM_DTYPE_BF16}) {
      std::vector<float> data(kCount);
      std::vector<float> in_order(kCount);
      std::vector<float> any(kCount);
      for (size_t i = 0; i < kCount; ++i) {
        const auto number = static_cast<float>((i + 7 * static_cast<size_t>(rank)) % 40);
        if (dtype == SYMM_DTYPE_F32) {
          data[i] = number / 3;
        } else {
          reinterpret_cast<uint16_t*>(data.data())[i] =
              static_cast<uint16_t>(std::bit_cast<uint32_t>(number) >> 16);
        }
      }

      symm_collective_options_t options = SYMM_COLLECTIVE_OPTIONS_INIT;
      const auto add = [&](std::vector<float>& to) {
        check(symm_allreduce(
            group.get(), data.data(), to.data(), kCount, dtype, SYMM_OP_SUM, &options, nullptr));
      };
      add(any);
      options.algorithm = SYMM_ALGORITHM_TWO_SHOT_STAGED;
      add(in_order);

      for (size_t i = 0; i < kCount; ++i) {
        EXPECT_NEAR(any[i], in_order[i], dtype == SYMM_DTYPE_F32 ? 1e-4 : 0);
      }
      EXPECT_EQ(any == in_order, dtype == SYMM_DTYPE_BF16);
      hashes += std::to_string(std::hash<std::string_view>()(
                    {reinterpret_cast<const char*>(any.data()), kCount * 4})) +
                " ";
    }
    return hashes;
  });
  for (const std::string& one : said) {
    EXPECT_EQ(one, said[0]);
  }

  expect_on_machines("aabb", [](int rank, const Group& group) {
    if (rank == 1) setenv("SYMM_ORDER", "ranks", 1);
    const Config config = {.bootstrap = group.info().bootstrap, .name = "b"};
    expect_failure(SYMM_ERR_MISMATCH,
        {"config.flags & SYMM_GROUP_ANY_ORDER: rank 0 has 1, rank 1 has 0"},
        [&] { create(config, rank, 4); });
  });
}

// The numbers are those of symm_algorithm_t.
TEST_F(Multinode, PlanByLayoutAndSize) {
  SYMM_NOT_UNDER_TSAN("a plan is made by one thread");
  const auto planned = [](const std::string& layout, size_t count, symm_algorithm_t algorithm,
                           symm_scale_t position = SYMM_SCALE_NONE) {
    return on_machines(layout, [&](int, const Group& group) {
      std::vector<float> data(count);
      symm_plan_info_t plan;
      const symm_dtype_t dtype = position == SYMM_SCALE_NONE ? SYMM_DTYPE_F32 : SYMM_DTYPE_BF16;
      const auto call = call_of(SYMM_COLLECTIVE_ALLREDUCE, data.data(), data.data(), count, dtype);
      auto options = scaled(position, position == SYMM_SCALE_NONE ? 0 : 0.5);
      options.value.algorithm = algorithm;
      const symm_status_t status = plan_of(group.get(), call, options, plan);
      return status != SYMM_OK ? std::string(symm_last_error())
                               : std::to_string(plan.algorithm) + " " + plan.reason;
    })[0];
  };

  EXPECT_EQ(planned("aabb", 1000, SYMM_ALGORITHM_AUTO).substr(0, 2), "2 ");
  EXPECT_EQ(planned("aabb", 100'000, SYMM_ALGORITHM_AUTO).substr(0, 2), "3 ");
  EXPECT_EQ(planned("aabb", 1'000'000, SYMM_ALGORITHM_AUTO).substr(0, 2), "9 ");
  EXPECT_EQ(planned("abcd", 1'000'000, SYMM_ALGORITHM_AUTO).substr(0, 2), "3 ");
  const std::string with_factor =
      planned("aabb", 1'000'000, SYMM_ALGORITHM_AUTO, SYMM_SCALE_BEFORE);
  EXPECT_EQ(with_factor.substr(0, 51), "9 f32, 1048576 elements at a time: 2 machines over ")
      << with_factor;

  EXPECT_NE(planned("abab", 1'000'000, SYMM_ALGORITHM_AUTO).find("consecutive"), std::string::npos);
  for (const std::string layout : {"abab", "aaab"}) {
    const std::string refused = planned(layout, 1000, SYMM_ALGORITHM_CHAIN);
    EXPECT_NE(refused.find("algorithm chain needs the ranks of each machine to be consecutive"),
        std::string::npos)
        << refused;
  }

  EXPECT_NE(planned("aabb", 1000, SYMM_ALGORITHM_HYBRID_CUBE_MESH)
                .find("algorithm hybrid_cube_mesh is of groups on one machine"),
      std::string::npos);

  setenv("SYMM_HOST_TUNE", "direct=1", 1);
  EXPECT_NE(planned("aabb", 100'000, SYMM_ALGORITHM_AUTO).find("10 2 machines"), std::string::npos);
  EXPECT_NE(planned("aabb", 1000, SYMM_ALGORITHM_BRUCK).find("forced: "), std::string::npos);
}
}  // namespace
}  // namespace support
