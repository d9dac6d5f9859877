// The error model: messages belong to a thread,
// success leaves them alone, every status has a name.
#include <stdlib.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/support/group.hpp"

namespace {
using support::last_failure;

std::string fail_with_device(int32_t device) {
  symm_device_info_t info{};
  info.struct_size = sizeof info;
  EXPECT_EQ(symm_device_info(SYMM_BACKEND_HOST, device, &info), SYMM_ERR_INVALID_ARGUMENT);
  return symm_last_error();
}

TEST(LastError, BelongsToItsThread) {
  const std::string mine = fail_with_device(77);
  EXPECT_NE(mine.find("77"), std::string::npos) << mine;
  std::string theirs;
  std::thread([&] { theirs = fail_with_device(88); }).join();
  EXPECT_NE(theirs.find("88"), std::string::npos) << theirs;
  EXPECT_EQ(symm_last_error(), mine);
  const symm_failure_t failure = last_failure();
  EXPECT_EQ(failure.message, mine);
  EXPECT_EQ(failure.status, SYMM_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(failure.rank, -1) << "nobody is to blame for an argument";
  EXPECT_EQ(failure.pid, 0);
}

TEST(LastError, SuccessLeavesItAlone) {
  const std::string before = fail_with_device(77);
  size_t bytes = 0;
  int32_t devices = 0;
  ASSERT_EQ(symm_dtype_bytes(SYMM_DTYPE_F16, &bytes), SYMM_OK);
  ASSERT_EQ(symm_device_count(SYMM_BACKEND_HOST, &devices), SYMM_OK);
  {
    const symm::Group group = support::create({"thread://last-error", ""}, 0, 1);
    float value = 1;
    ASSERT_EQ(symm_allreduce(
                  group.get(), &value, &value, 1, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, nullptr),
        SYMM_OK);
    ASSERT_EQ(symm_group_finalize(group.get(), support::within(1000)), SYMM_OK);
  }

  symm_group_release(nullptr);
  EXPECT_EQ(symm_last_error(), before);
}

TEST(LastError, IsOneLineAndCutNotOverrun) {
  std::string url = "pigeon://\nsecond line ";
  for (int i = 0; i < 2500; ++i) {
    url += "\u00e9";
  }
  support::expect_failure(SYMM_ERR_INVALID_ARGUMENT, {}, [&] { support::create({url}, 0, 1); });
  const std::string message = symm_last_error();
  EXPECT_NE(message.find("pigeon"), std::string::npos);
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_TRUE(message.size() < 1024 && message.ends_with("\u00e9"))
      << "not in the middle of a character";
}

std::string group_name_of(symm_group_t* group) {
  symm_group_info_t info{};
  info.struct_size = sizeof info;
  EXPECT_EQ(symm_group_info(group, &info), SYMM_OK) << symm_last_error();
  return info.name;
}

TEST(Texts, OfTheCallerBecomeOneLineOfUtf8) {
  constexpr const char* kGiven = "bad \xff\n\x01";
  constexpr const char* kTold = "bad ?  ";
  const symm::Group group = support::create({"thread://texts", kGiven}, 0, 1);
  EXPECT_EQ(group_name_of(group.get()), kTold);

  symm_group_options_t options = SYMM_GROUP_OPTIONS_INIT;
  options.name = kGiven;
  symm_group_t* part = nullptr;
  ASSERT_EQ(symm_group_split(group.get(), 0, 0, &options, &part), SYMM_OK) << symm_last_error();
  EXPECT_EQ(group_name_of(part), kTold);
  symm_group_release(part);

  symm_alloc_options_t how = SYMM_ALLOC_OPTIONS_INIT;
  how.name = kGiven;
  symm_buffer_t* buffer = nullptr;
  ASSERT_EQ(symm_alloc(group.get(), 64, &how, &buffer), SYMM_OK) << symm_last_error();
  symm_buffer_info_t info{};
  info.struct_size = sizeof info;
  EXPECT_EQ(symm_buffer_info(buffer, &info), SYMM_OK);
  EXPECT_STREQ(info.name, kTold);
  symm_buffer_release(buffer);

  support::expect_failure(SYMM_ERR_INVALID_ARGUMENT,
      {"config.bootstrap: is 'bad ?  '; known are env://"},
      [&] { support::create({kGiven}, 0, 1); });

  ASSERT_EQ(symm_group_abort(group.get(), kGiven), SYMM_OK);
  EXPECT_STREQ(group.status().message, "rank 0 aborted the group: bad ?  ");
}

TEST(Texts, ThatDifferInWhatIsNotTakenAreOneName) {
  support::as_processes(2, [](int rank, const symm::Group& group) {
    symm_group_options_t options = SYMM_GROUP_OPTIONS_INIT;
    options.name = rank == 0 ? "a\tpart" : "a part";
    symm_group_t* part = nullptr;
    ASSERT_EQ(symm_group_split(group.get(), 0, 0, &options, &part), SYMM_OK) << symm_last_error();
    EXPECT_EQ(group_name_of(part), "a part");
    symm_group_release(part);
  });
}

// A message goes to other ranks with at most 512 bytes, and is no longer on the rank that aborts.
TEST(Texts, OfAnAbortAreTheSameOnAllRanks) {
  support::as_processes(2, [](int rank, const symm::Group& group) {
    const std::string reason(1000, 'x');
    if (rank == 1) {
      ASSERT_EQ(symm_group_abort(group.get(), reason.c_str()), SYMM_OK);
    }
    EXPECT_TRUE(support::eventually([&] { return group.status().status == SYMM_ERR_ABORTED; }));
    const std::string told = std::string("rank 1 aborted the group: ") + reason;
    EXPECT_EQ(group.status().message, told.substr(0, 512));
  });
}

TEST(Refusals, SayWhatIsWrong) {
  const symm::Group group = support::create({"thread://refusals", ""}, 0, 1);
  const symm::Buffer buffer = group.allocate(64);
  const symm::Memory memory = group.rendezvous(buffer);
  float x[8] = {};
  size_t bytes = 0;
  const auto expect = [](symm_status_t status, symm_status_t wanted, const std::string& message) {
    EXPECT_EQ(status, wanted) << message;
    EXPECT_EQ(symm_last_error(), message);
  };

  expect(symm_dtype_bytes(-2, &bytes), SYMM_ERR_INVALID_ARGUMENT, "dtype: -2 is negative");
  expect(symm_dtype_bytes(0x0300, &bytes), SYMM_ERR_INVALID_ARGUMENT, "dtype: 0x300 has no bits");
  expect(symm_dtype_bytes(0x0221, &bytes), SYMM_ERR_UNSUPPORTED,
      "dtype: 0x221 is not known to this library");
  int32_t count = 0;
  expect(symm_device_count(-3, &count), SYMM_ERR_INVALID_ARGUMENT, "backend: -3 is negative");
  uint64_t id = 0;
  expect(symm_log_to_fd(2, -1, &id), SYMM_ERR_INVALID_ARGUMENT, "level: -1 is negative");

  symm_collective_call_t call = SYMM_COLLECTIVE_CALL_INIT;
  call.collective = -1;
  expect(symm_collective(group.get(), &call, nullptr, nullptr), SYMM_ERR_INVALID_ARGUMENT,
      "collective: -1 is negative");

  symm_signal_wait_t wait{};
  wait.struct_size = sizeof wait;
  wait.compare = SYMM_COMPARE_EQ;
  wait.value = 7;
  const symm_call_options_t now{sizeof now, SYMM_TIMEOUT_NOW, nullptr, nullptr};
  expect(symm_wait_signals(memory.get(), &wait, 1, -1, nullptr, nullptr, nullptr),
      SYMM_ERR_INVALID_ARGUMENT, "mode: -1 is negative");
  EXPECT_EQ(symm_wait_signals(memory.get(), &wait, 1, SYMM_WAIT_ALL, &now, nullptr, nullptr),
      SYMM_ERR_TIMEOUT);
  EXPECT_TRUE(std::string(symm_last_error()).starts_with("wait_signals: ")) << symm_last_error();
  EXPECT_EQ(symm_wait_signal_value(memory.get(), 0, 0, SYMM_COMPARE_EQ, 7, &now, nullptr, nullptr),
      SYMM_ERR_TIMEOUT);
  EXPECT_TRUE(std::string(symm_last_error()).starts_with("wait_signal_value: "))
      << symm_last_error();

  const char* const cannot_look =
      "options.timeout_ms: SYMM_TIMEOUT_NOW, but this call cannot look once";
  expect(symm_signal(memory.get(), 0, 0, &now, nullptr), SYMM_ERR_INVALID_ARGUMENT, cannot_look);
  expect(symm_put(memory.get(), 0, 0, x, 4, &now, nullptr), SYMM_ERR_INVALID_ARGUMENT, cannot_look);
  expect(symm_group_finalize(group.get(), &now), SYMM_ERR_INVALID_ARGUMENT, cannot_look);
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.timeout_ms = SYMM_TIMEOUT_NOW;
  symm_group_t* none = nullptr;
  expect(symm_group_create(&config, &none), SYMM_ERR_INVALID_ARGUMENT,
      "config.timeout_ms: SYMM_TIMEOUT_NOW, which is for single calls only");

  for (const size_t rows : {0, 1, 2}) {
    expect(symm_allgather_rows(group.get(), x, x + 4, rows, 2, 1, SYMM_DTYPE_F32, nullptr, nullptr),
        SYMM_ERR_INVALID_ARGUMENT, "recv_stride: 1 is less than the 2 elements of all ranks' rows");
    expect(symm_reduce_scatter_rows(
               group.get(), x, x + 4, rows, 2, 1, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, nullptr),
        SYMM_ERR_INVALID_ARGUMENT, "send_stride: 1 is less than the 2 elements of all ranks' rows");
  }
}

TEST(LastFailure, IsNothingBeforeTheFirstFailure) {
  symm_failure_t failure{};
  std::string message = "unset";
  std::thread other([&] {
    failure = last_failure();
    message = symm_last_error();
  });

  other.join();
  EXPECT_EQ(message, "");
  EXPECT_EQ(failure.status, SYMM_OK);
  EXPECT_EQ(failure.rank, -1);
  EXPECT_EQ(failure.pid, 0);
  EXPECT_STREQ(failure.message, "");
}

// All ranks learn the error number that the rank to blame got.
TEST(LastFailure, HasTheErrorNumberOfTheSystemCall) {
  SYMM_NOT_UNDER_ASAN(
      "UndefinedBehaviorSanitizer opens a pipe to look at an object's type, and takes a failure "
      "for a bad object");
  support::as_processes(2, [](int rank, const symm::Group& group) {
    const symm::Buffer buffer = group.allocate(64);
    group.barrier();
    if (rank == 1) {
      const rlimit none{0, 0};  // no descriptor for the pad
      ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
      symm_buffer_t* another = nullptr;
      support::expect_failed(symm_alloc(group.get(), 64, nullptr, &another), SYMM_ERR_SYSTEM,
          {"memfd_create", "errno 24", "ulimit -n"});
    }

    symm_memory_t* memory = nullptr;
    EXPECT_EQ(symm_rendezvous(group.get(), buffer.get(), nullptr, &memory), SYMM_ERR_SYSTEM);
    const symm_failure_t failure = last_failure();
    EXPECT_EQ(failure.os_error, EMFILE) << failure.message;
    EXPECT_EQ(failure.cuda_result, 0);
    EXPECT_EQ(failure.rank, 1);

    try {
      group.rendezvous(buffer);
      if (rank == 1) ADD_FAILURE() << "there is no descriptor still";
    } catch (const symm::Error& error) {
      EXPECT_EQ(error.os_error(), EMFILE) << error.what();
    }
  });
}

TEST(StatusString, EveryStatusHasANameOfItsOwn) {
  std::set<std::string> names;
  constexpr symm_status_t kNone = -12;
  for (symm_status_t status = SYMM_ERR_NOT_FOUND; status <= SYMM_OK; ++status) {
    if (status == kNone) continue;
    const char* name = symm_status_string(status);
    ASSERT_NE(name, nullptr) << status;
    EXPECT_STRNE(name, "") << status;
    EXPECT_STRNE(name, "unknown status") << status;
    EXPECT_TRUE(names.insert(name).second) << status << " shares the name " << name;
  }

  for (const symm_status_t unknown : {1, kNone, SYMM_ERR_NOT_FOUND - 1, INT32_MIN, INT32_MAX}) {
    EXPECT_STREQ(symm_status_string(unknown), "unknown status") << unknown;
  }
}

TEST(Backend, AutomaticIsTheHostUnlessTheEnvironmentAsks) {
  const auto automatic = [](const char* variable) {
    int32_t count = 0;
    variable == nullptr ? unsetenv("SYMM_BACKEND") : setenv("SYMM_BACKEND", variable, 1);
    const symm_status_t status = symm_device_count(SYMM_BACKEND_AUTO, &count);
    unsetenv("SYMM_BACKEND");
    return status;
  };

  int32_t count = 0;
  EXPECT_EQ(automatic(nullptr), SYMM_OK);
  EXPECT_EQ(automatic("host"), SYMM_OK);
  EXPECT_EQ(automatic("cuda"), symm_device_count(SYMM_BACKEND_CUDA, &count))
      << "asked for, and not to be had";
  EXPECT_EQ(automatic("vulkan"), SYMM_ERR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(symm_last_error()).find("SYMM_BACKEND"), std::string::npos)
      << symm_last_error();
}

TEST(Backend, ADeviceSaysWhyNot) {
  symm_device_info_t info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(symm_device_info(SYMM_BACKEND_HOST, 0, &info), SYMM_OK);
  EXPECT_EQ(info.multicast != 0, std::string(info.multicast_reason).empty());
  EXPECT_EQ(info.dmabuf != 0, std::string(info.dmabuf_reason).empty());
  EXPECT_STRNE(info.name, "");
}

TEST(Version, HeaderAndLibraryAgree) {
  EXPECT_EQ(symm_version(), static_cast<uint32_t>(SYMM_VERSION));
  const std::string info = symm_build_info();
  const std::string version = std::to_string(SYMM_VERSION_MAJOR) + "." +
                              std::to_string(SYMM_VERSION_MINOR) + "." +
                              std::to_string(SYMM_VERSION_PATCH);
  EXPECT_NE(info.find("\"version\": \"" + version + "\""), std::string::npos) << info;
  EXPECT_EQ(info.front(), '{');
  EXPECT_EQ(info.back(), '}');
}
}  // namespace
