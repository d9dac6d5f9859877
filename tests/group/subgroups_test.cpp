// What groups that are made of a group inherit, and what their options change.
#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "symm/symm.h"
#include "tests/support/group.hpp"

namespace support {
namespace {
// The four calls that make a group of all ranks of another one.
struct Maker {
  const char* name;
  Group (*make)(const Group& group, const symm_group_options_t& options);
};

const Maker kMakers[] = {
    {"split", [](const Group& group, const auto& options) { return group.split(7, 0, options); }},
    {"create_from_ranks",
        [](const Group& group, const auto& options) {
          const int32_t all[] = {0, 1};
          return group.create_from_ranks(all, options);
        }},
    {"local", [](const Group& group, const auto& options) { return group.local(options); }},
    {"shrink", [](const Group& group, const auto& options) { return group.shrink(options); }},
};

Config told(const Bootstrap& meeting) {
  Config config = meeting.threads();
  config.name = "told";
  config.create_timeout_ms = 11'000;
  config.timeout_ms = 12'000;
  config.flags = SYMM_GROUP_CHECK | SYMM_GROUP_SAME_OFFSETS;
  config.scratch_bytes = 200'000;
  config.channels = 16;
  return config;
}

TEST(Subgroups, InheritTheConfiguration) {
  const Bootstrap meeting;
  as_threads(2, [&](int rank) {
    const Group group = create(told(meeting), rank, 2);
    const symm_group_info_t parent = group.info();
    EXPECT_EQ(parent.flags, SYMM_GROUP_CHECK | SYMM_GROUP_SAME_OFFSETS);
    EXPECT_EQ(parent.create_timeout_ms, 11'000U);
    EXPECT_EQ(parent.timeout_ms, 12'000U);

    for (const Maker& maker : kMakers) {
      SCOPED_TRACE(maker.name);
      const Group part = maker.make(group, SYMM_GROUP_OPTIONS_INIT);
      const symm_group_info_t info = part.info();
      EXPECT_EQ(info.flags, parent.flags);
      EXPECT_EQ(info.create_timeout_ms, 11'000U);
      EXPECT_EQ(info.timeout_ms, 12'000U);
      EXPECT_EQ(info.scratch_bytes, parent.scratch_bytes);
      EXPECT_EQ(info.channels, 16);
      EXPECT_EQ(std::string(info.name).rfind("told", 0), 0U) << info.name;
      EXPECT_EQ(std::string(info.name) == "told", maker.name == std::string("shrink"));
      expect_sum(part);
    }
    group.barrier();
  });
}

TEST(Subgroups, TakeEachFieldOfTheirOptions) {
  const Bootstrap meeting;
  as_threads(2, [&](int rank) {
    const Group group = create(told(meeting), rank, 2);
    const uint64_t scratch = group.info().scratch_bytes;

    for (const Maker& maker : kMakers) {
      SCOPED_TRACE(maker.name);
      symm_failure_t failure = SYMM_FAILURE_INIT;
      failure.status = 1;
      symm_group_options_t options = SYMM_GROUP_OPTIONS_INIT;
      options.timeout_ms = 9'000 + static_cast<uint64_t>(rank);  // each rank's own
      options.failure = rank == 0 ? &failure : nullptr;
      options.name = "named";
      options.flags = SYMM_GROUP_ANY_ORDER | SYMM_GROUP_NO_CHECK;
      options.remove_flags = SYMM_GROUP_SAME_OFFSETS;
      options.scratch_bytes = 100'000;
      options.create_timeout_ms = 13'000;
      options.group_timeout_ms = 14'000;
      options.channels = 8;

      const Group part = maker.make(group, options);
      const symm_group_info_t info = part.info();
      EXPECT_EQ(info.flags, SYMM_GROUP_ANY_ORDER | SYMM_GROUP_NO_CHECK);
      EXPECT_EQ(info.create_timeout_ms, 13'000U);
      EXPECT_EQ(info.timeout_ms, 14'000U);
      EXPECT_LT(info.scratch_bytes, scratch);
      EXPECT_EQ(info.channels, 8);
      EXPECT_STREQ(info.name, "named");
      EXPECT_EQ(failure.status, 1) << "nothing is written when the call succeeds";
      expect_sum(part);
      part.barrier({}, 7);
      EXPECT_EQ(
          symm_barrier(part.get(), nullptr, 0, 8, nullptr, nullptr), SYMM_ERR_INVALID_ARGUMENT);

      // What a part was given is inherited by its own parts, and can be taken back there.
      symm_group_options_t back = SYMM_GROUP_OPTIONS_INIT;
      back.flags = SYMM_GROUP_CHECK;
      const symm_group_info_t again = maker.make(part, back).info();
      EXPECT_EQ(again.flags, SYMM_GROUP_ANY_ORDER | SYMM_GROUP_CHECK) << "replaces NO_CHECK";
      EXPECT_EQ(again.channels, 8);
    }
    EXPECT_EQ(group.info().flags, SYMM_GROUP_CHECK | SYMM_GROUP_SAME_OFFSETS) << "is as before";
    group.barrier();
  });
}

TEST(Subgroups, OfDifferentOptionsAreAMismatch) {
  struct Row {
    std::string said;
    std::function<void(symm_group_options_t&)> change;  // on rank 1
  };
  const Row rows[] = {
      {"options.name: rank 1", [](auto& options) { options.name = "other"; }},
      {"options.flags: rank 0 has 0, rank 1 has 16",
          [](auto& options) { options.flags = SYMM_GROUP_ANY_ORDER; }},
      {"options.remove_flags: rank 0 has 0, rank 1 has 2",
          [](auto& options) { options.remove_flags = SYMM_GROUP_CHECK; }},
      {"options.scratch_bytes: rank 0 has 200000, rank 1 has 100000",
          [](auto& options) { options.scratch_bytes = 100'000; }},
      {"options.channels: rank 0 has 16, rank 1 has 8",
          [](auto& options) { options.channels = 8; }},
      {"options.create_timeout_ms: rank 0 has 0, rank 1 has 5000",
          [](auto& options) { options.create_timeout_ms = 5'000; }},
      {"options.group_timeout_ms: rank 0 has 0, rank 1 has 5000",
          [](auto& options) { options.group_timeout_ms = 5'000; }},
  };

  const Bootstrap meeting;
  as_threads(2, [&](int rank) {
    const Group group = create(told(meeting), rank, 2);
    for (const Maker& maker : kMakers) {
      for (const Row& row : rows) {
        SCOPED_TRACE(maker.name + (": " + row.said));
        symm_failure_t failure = SYMM_FAILURE_INIT;
        symm_group_options_t options = SYMM_GROUP_OPTIONS_INIT;
        options.failure = &failure;
        if (rank == 1) row.change(options);
        expect_failure(SYMM_ERR_MISMATCH, {row.said}, [&] { maker.make(group, options); });
        EXPECT_EQ(failure.status, SYMM_ERR_MISMATCH);
        EXPECT_NE(std::string(failure.message).find(row.said), std::string::npos)
            << failure.message;
      }
      expect_sum(maker.make(group, SYMM_GROUP_OPTIONS_INIT));
    }
    group.barrier();
  });
}

// The call has a deadline of its own, shorter than the group's.
TEST(Subgroups, EndAtTheDeadlineOfTheirCall) {
  const Bootstrap meeting;
  as_threads(2, [&](int rank) {
    const Group group = create(told(meeting), rank, 2);
    if (rank == 0) {
      symm_failure_t failure = SYMM_FAILURE_INIT;
      symm_group_options_t options = SYMM_GROUP_OPTIONS_INIT;
      options.timeout_ms = 200;
      options.failure = &failure;
      EXPECT_EQ(
          expect_failure(SYMM_ERR_TIMEOUT, {"rank 1"}, [&] { group.split(0, 0, options); }).rank,
          1);
      EXPECT_EQ(failure.status, SYMM_ERR_TIMEOUT);
      EXPECT_EQ(failure.rank, 1);
    } else {
      EXPECT_TRUE(eventually([&] { return group.status().status == SYMM_ERR_TIMEOUT; }, 10'000));
    }
  });
}

// Flags that the environment asks for, and what forbids them.
TEST(Subgroups, TheProgramOverrulesTheEnvironment) {
  struct Variable {
    const char* name;
    const char* value;
    uint64_t asks;
    uint64_t forbids;
  } const variables[] = {{"SYMM_CHECK", "1", SYMM_GROUP_CHECK, SYMM_GROUP_NO_CHECK},
      {"SYMM_ORDER", "any", SYMM_GROUP_ANY_ORDER, SYMM_GROUP_RANK_ORDER},
      {"SYMM_ORDER", "tree", SYMM_GROUP_TREE_ORDER, SYMM_GROUP_RANK_ORDER},
      {"SYMM_ORDER", "any", SYMM_GROUP_ANY_ORDER, SYMM_GROUP_TREE_ORDER},
      {"SYMM_MULTICAST", "1", SYMM_GROUP_MULTICAST, SYMM_GROUP_NO_MULTICAST}};

  for (const Variable& variable : variables) {
    SCOPED_TRACE(variable.name);
    const Bootstrap meeting;
    Config config = meeting.threads();
    EXPECT_EQ(create(config, 0, 1).info().flags, 0U) << "nothing is set";

    setenv(variable.name, variable.value, 1);
    const Group asked = create(config, 0, 1);
    EXPECT_EQ(asked.info().flags, variable.asks);
    config.flags = variable.forbids;
    const Group forbidden = create(config, 0, 1);
    EXPECT_EQ(forbidden.info().flags, variable.forbids);

    // Groups of groups inherit, and the environment is not asked again.
    symm_group_options_t options = SYMM_GROUP_OPTIONS_INIT;
    options.remove_flags = variable.asks | variable.forbids;
    for (const Group* group : {&asked, &forbidden}) {
      EXPECT_EQ(group->split(0, 0, options).info().flags, 0U);
      EXPECT_EQ(group->split(0).info().flags, group->info().flags);
    }
    unsetenv(variable.name);
  }
}

TEST(Subgroups, TellTheTimeoutsOfTheEnvironment) {
  setenv("SYMM_TIMEOUT_MS", "1234", 1);
  setenv("SYMM_CREATE_TIMEOUT_MS", "5678", 1);
  const Bootstrap meeting;
  Config config = meeting.threads();
  config.timeout_ms = config.create_timeout_ms = 0;
  const symm_group_info_t info = create(config, 0, 1).info();
  unsetenv("SYMM_TIMEOUT_MS");
  unsetenv("SYMM_CREATE_TIMEOUT_MS");
  EXPECT_EQ(info.timeout_ms, 1234U);
  EXPECT_EQ(info.create_timeout_ms, 5678U);
}

// From a memory, a buffer and a heap to what they belong to: the handles that exist already, each
// with a reference of its own.
TEST(Subgroups, ObjectsTellTheirGroup) {
  as_threads(2, [](int, const Group& group) {
    Block block = allocate(group, 4096);
    const symm::Heap heap = group.heap(4096);
    EXPECT_EQ(block.memory.group().get(), group.get());
    EXPECT_EQ(block.buffer.group().get(), group.get());
    EXPECT_EQ(heap.group().get(), group.get());
    EXPECT_EQ(block.memory.buffer().get(), block.buffer.get());

    // A memory keeps its buffer and its group; they are found by it alone.
    Group part = group.split(0);
    Block other = allocate(part, 4096);
    void* const at = other.buffer.span().data();
    other.buffer.reset();
    part.reset();
    EXPECT_EQ(other.memory.buffer().span().data(), at);
    expect_sum(other.memory.group());

    // A buffer does not keep its group.
    Group left = group.split(0);
    const Buffer buffer = left.allocate(64);
    EXPECT_TRUE(buffer.group());
    left.reset();
    EXPECT_FALSE(buffer.group());
    symm_group_t* none = nullptr;
    EXPECT_EQ(symm_buffer_group(buffer.get(), &none), SYMM_ERR_NOT_FOUND);
    group.barrier();
  });
}
}  // namespace
}  // namespace support
