// Versions: what is published is found by its name, by any process, whole or not at all, and goes
// with the process that published it.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/capi/ipc/weights.hpp"

namespace support {
namespace {
symm_ipc_publish_options_t keeping(uint64_t versions) {
  symm_ipc_publish_options_t options = SYMM_IPC_PUBLISH_OPTIONS_INIT;
  options.keep = versions;
  return options;
}

Outcome outcome_of_lookup(const std::string& name, symm_compare_t compare, uint64_t version) {
  return outcome_of([&] { symm::ipc_lookup(name, compare, version, only_look()); });
}

using Versions = Sharing;

TEST_F(Versions, CoexistAndAreFoundByTheirNumbers) {
  exporter([&] {
    const Weights one(1);
    const Weights two(2);
    const Weights five(5);
    symm::ipc_publish("model", 1, one.token());
    symm::ipc_publish("model", 2, two.token());
    symm::ipc_publish("model", 5, five.token());
    symm::ipc_publish("another", 9, one.token());
    pass();
  });

  importer([&] {
    const auto found = [](symm_compare_t compare, uint64_t version) {
      const symm::PublishedVersion at = symm::ipc_lookup("model", compare, version, only_look());
      EXPECT_EQ(version_of(Import(at.token)), static_cast<int>(at.version));
      return at.version;
    };
    EXPECT_EQ(found(SYMM_COMPARE_GE, 0), 5U);
    EXPECT_EQ(found(SYMM_COMPARE_GT, 1), 5U);
    EXPECT_EQ(found(SYMM_COMPARE_EQ, 2), 2U);
    EXPECT_EQ(found(SYMM_COMPARE_LT, 5), 2U);
    EXPECT_EQ(found(SYMM_COMPARE_LE, 1), 1U);
    EXPECT_EQ(found(SYMM_COMPARE_NE, 5), 2U);
    const Outcome none = outcome_of_lookup("model", SYMM_COMPARE_GT, 5);
    EXPECT_EQ(none.status, SYMM_ERR_TIMEOUT);
    EXPECT_NE(none.message.find("> 5 of 'model'"), std::string::npos) << none.message;
    EXPECT_NE(none.message.find("5, 2, 1"), std::string::npos) << none.message;
    EXPECT_NE(outcome_of_lookup("nobody", SYMM_COMPARE_GE, 0).message.find("no version of it"),
        std::string::npos);
  });
}

TEST_F(Versions, AreWaitedFor) {
  exporter([&] {
    const Weights one(1);
    symm::ipc_publish("model", 1, one.token());
    pass();
    const Weights two(2);
    symm::ipc_publish("model", 2, two.token());
    pass();
  });

  importer([&] {
    go_on();
    EXPECT_EQ(symm::ipc_lookup("model", SYMM_COMPARE_GT, 1).version, 2U);
  });
}

TEST_F(Versions, OnlySoManyAreKeptAndReadersKeepTheirs) {
  exporter([&] {
    std::vector<std::unique_ptr<Weights>> weights;
    for (int version = 1; version <= 3; ++version) {
      weights.push_back(std::make_unique<Weights>(version));
    }
    symm::ipc_publish("model", 1, weights[0]->token(), keeping(2));
    const symm::PublishedVersion first = symm::ipc_lookup("model");
    pass();
    symm::ipc_publish("model", 2, weights[1]->token(), keeping(2));
    symm::ipc_publish("model", 3, weights[2]->token(), keeping(2));
    EXPECT_EQ(outcome_of([&] { Import{first.token}; }).status, SYMM_ERR_INVALID_HANDLE);
    EXPECT_EQ(
        outcome_of([&] { symm::ipc_publish("model", 0, weights[0]->token(), keeping(2)); }).status,
        SYMM_ERR_INVALID_ARGUMENT)
        << "older than those that are kept";
    EXPECT_EQ(outcome_of_lookup("model", SYMM_COMPARE_LT, 2).status, SYMM_ERR_TIMEOUT);

    const std::string holder = "pid " + std::to_string(facts->tokens[0].size);
    expect_failed(symm_ipc_withdraw_version("model", 1, within(SYMM_TIMEOUT_NOW)), SYMM_ERR_TIMEOUT,
        {holder});
    EXPECT_EQ(last_failure().pid, static_cast<int64_t>(facts->tokens[0].size));
    pass();
    check(symm_ipc_withdraw_version("model", 1, within(20'000)));
    expect_failed(symm_ipc_withdraw_version("model", 1, within(1)), SYMM_ERR_INVALID_ARGUMENT,
        {"version: 1"});
    EXPECT_EQ(symm::ipc_lookup("model").version, 3U) << "others stay";
    check(symm_ipc_withdraw_version("model", 3, within(1)));
    EXPECT_EQ(symm::ipc_lookup("model").version, 2U);
  });

  importer([&] {
    facts->tokens[0].size = static_cast<size_t>(getpid());
    Import mine(symm::ipc_lookup("model").token);
    pass();
    EXPECT_EQ(version_of(mine), 1);
    mine.reset();
  });
}

TEST_F(Versions, GoWithTheirMemory) {
  exporter([&] {
    auto one = std::make_unique<Weights>(1);
    auto two = std::make_unique<Weights>(2);
    symm::ipc_publish("model", 1, one->token());
    symm::ipc_publish("model", 2, two->token());
    two.reset();
    EXPECT_EQ(symm::ipc_lookup("model").version, 1U);
    check(symm_ipc_withdraw(one->second.data, 1, within(1)));
    EXPECT_EQ(outcome_of_lookup("model", SYMM_COMPARE_GE, 0).status, SYMM_ERR_TIMEOUT);
    symm::ipc_publish("model", 3, one->token());
    EXPECT_EQ(symm::ipc_lookup("model").version, 3U);
  });
}

TEST_F(Versions, WithImpossibleArgumentsAreRefused) {
  exporter([&] {
    const Weights one(1);
    const symm::Token token = one.token();
    const auto refused = [&](const std::string& name, uint64_t version, const symm::Token& what) {
      const Outcome got = outcome_of([&] { symm::ipc_publish(name, version, what); });
      EXPECT_EQ(got.status, SYMM_ERR_INVALID_ARGUMENT) << got.message;
      return got.message;
    };
    EXPECT_NE(refused("", 1, token).find("name"), std::string::npos);
    EXPECT_NE(refused("a\nb", 1, token).find("name"), std::string::npos);
    EXPECT_NE(refused(std::string(1001, 'x'), 1, token).find("name"), std::string::npos);
    EXPECT_NE(refused("model", 1, symm::Token(10)).find("token"), std::string::npos);
    symm::ipc_publish(std::string(1000, 'x'), 1, token);
    EXPECT_EQ(symm::ipc_lookup(std::string(1000, 'x')).version, 1U);
    symm::ipc_publish("model", UINT64_MAX, token);
    EXPECT_NE(refused("model", UINT64_MAX, token).find("already"), std::string::npos);
    EXPECT_NE(refused("model", 2, token).find("not withdrawn"), std::string::npos);
    facts->token.size = token.size();
    std::copy(token.begin(), token.end(), facts->token.bytes);
    pass();
  });

  importer([&] {
    const symm::Span<const std::byte> token = facts->token;
    EXPECT_EQ(
        outcome_of([&] { symm::ipc_publish("mine", 1, token); }).status, SYMM_ERR_INVALID_ARGUMENT)
        << "another process's";
  });
}

TEST_F(Versions, GoWithAPublisherThatIsKilled) {
  Process& publisher = exporter([&] {
    const Weights one(1);
    symm::ipc_publish("model", 1, one.token());
    go_on();
    sleep_for_ever();
  });

  importer([&] {
    const Import mine(symm::ipc_lookup("model").token);
    go_on();
    expect_eventually("its death is noticed", [&] { return mine.info().exporter_alive == 0; });
    // The descriptors of a process that is killed are closed one after the other.
    expect_eventually("its version is gone",
        [&] { return outcome_of_lookup("model", SYMM_COMPARE_GE, 0).status == SYMM_ERR_TIMEOUT; });
    EXPECT_EQ(version_of(mine), 1);
  });

  wait_for(facts->done, 1);
  publisher.kill(SIGKILL);
  gone(publisher);
}

// A publisher replaces its versions without end, and writes into memory that is withdrawn. Readers
// are killed at any time. No reader sees two versions in one import, and nothing is left.
TEST_F(Versions, AreNeverMixedThoughReadersAreKilled) {
  constexpr int kReaders = 3;
  constexpr int kKills = 30;
  exporter([&] {
    std::vector<std::unique_ptr<Process>> readers;
    const auto start = [&] {
      return std::make_unique<Process>([&] {
        for (;;) {
          symm_ipc_import_options_t reading = SYMM_IPC_IMPORT_OPTIONS_INIT;
          reading.flags = SYMM_IPC_READ_ONLY;
          const Outcome read = outcome_of([&] {
            const symm::PublishedVersion found = symm::ipc_lookup("model");
            const Import bundle(found.token, reading);
            if (version_of(bundle) != static_cast<int>(found.version)) ++facts->done;
          });
          if (read.status != SYMM_OK && read.status != SYMM_ERR_INVALID_HANDLE) {
            facts->tokens[0].size = 1;
            std::copy_n(reinterpret_cast<const std::byte*>(read.message.data()),
                std::min<size_t>(read.message.size(), 500), facts->tokens[1].bytes);
          }
          ++facts->step;
        }
      });
    };

    Weights weights[3] = {Weights(0), Weights(1), Weights(2)};
    symm::ipc_publish("model", 0, weights[0].token(), keeping(2));
    for (int i = 0; i < kReaders; ++i) {
      readers.push_back(start());
    }

    int version = 0;
    for (int kill = 0; kill < kKills; ++kill) {
      for (int more = 0; more < 4; ++more) {
        ++version;
        Weights& next = weights[version % 3];
        if (version >= 3) {
          check(symm_ipc_withdraw_version(
              "model", static_cast<uint64_t>(version - 3), within(20'000)));
        }
        for (size_t i = 0; i < kInts; ++i) {
          next.first.at<int>()[i] = version;
          next.second.at<int>()[i] = version;
        }
        symm::ipc_publish("model", static_cast<uint64_t>(version), next.token(), keeping(3));
      }
      std::unique_ptr<Process>& victim = readers[static_cast<size_t>(kill % kReaders)];
      victim->kill(SIGKILL);
      EXPECT_TRUE(victim->reap(20'000));
      victim = start();
    }

    const int read = facts->step;
    expect_eventually("all read on", [&] { return facts->step > read + 10; });
    for (const auto& reader : readers) {
      reader->kill(SIGKILL);
      EXPECT_TRUE(reader->reap(20'000));
    }
    EXPECT_EQ(facts->done, 0) << "imports with mixed versions";
    EXPECT_EQ(facts->tokens[0].size, 0U)
        << std::string(reinterpret_cast<const char*>(facts->tokens[1].bytes), 500).c_str();
    expect_eventually("no lease is left", [] { return ipc_stats().leases == 0; });
    facts->done = 0;
  });
}
}  // namespace
}  // namespace support
