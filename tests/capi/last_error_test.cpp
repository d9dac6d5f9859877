// SPDX-License-Identifier: Apache-2.0
//
// The error model: messages belong to a thread, success leaves them alone, every status has a name.
#include <unistd.h>

#include <set>
#include <string>
#include <thread>

#include "tests/support/group.hpp"
#include "tests/support/options.hpp"

namespace {

std::string fail_with_level(int32_t level) {
  EXPECT_EQ(symm_set_log_callback(nullptr, nullptr, level), SYMM_ERR_INVALID_ARGUMENT);
  return symm_last_error();
}

TEST(LastError, is_empty_before_the_first_failure) {
  std::string message = "unset";
  std::thread([&] { message = symm_last_error(); }).join();
  EXPECT_EQ(message, "");
}

TEST(LastError, belongs_to_its_thread) {
  const std::string mine = fail_with_level(77);
  EXPECT_NE(mine.find("77"), std::string::npos) << mine;
  std::string theirs;
  std::thread([&] { theirs = fail_with_level(88); }).join();
  EXPECT_NE(theirs.find("88"), std::string::npos) << theirs;
  EXPECT_EQ(symm_last_error(), mine);
}

TEST(LastError, success_leaves_it_alone) {
  const std::string before = fail_with_level(77);
  size_t bytes = 0;
  int32_t devices = 0;
  ASSERT_EQ(symm_dtype_size(SYMM_DTYPE_F16, &bytes), SYMM_OK);
  ASSERT_EQ(symm_device_count(SYMM_BACKEND_HOST, &devices), SYMM_OK);
  {
    const symm::Group group = support::create({"thread://last-error", ""}, 0, 1);
    float value = 1;
    ASSERT_EQ(symm_allreduce(group.get(), &value, &value, 1, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, nullptr), SYMM_OK);
    ASSERT_EQ(symm_group_finalize(group.get(), support::within(1000)), SYMM_OK);
  }
  symm_group_release(nullptr);
  EXPECT_EQ(symm_last_error(), before);
}

TEST(LastError, is_one_line_and_cut_not_overrun) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = SYMM_BACKEND_HOST;
  const std::string url = "pigeon://" + std::string(5000, 'x') + "\nsecond line";
  config.bootstrap = url.c_str();
  symm_group_t* group = nullptr;
  ASSERT_EQ(symm_group_create(&config, &group), SYMM_ERR_INVALID_ARGUMENT);
  const std::string message = symm_last_error();
  EXPECT_NE(message.find("pigeon"), std::string::npos);
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_LT(message.size(), 1024u);
}

symm_failure_t last_failure() {
  symm_failure_t failure{};
  failure.struct_size = sizeof failure;
  EXPECT_EQ(symm_last_failure(&failure), SYMM_OK);
  return failure;
}

TEST(LastFailure, is_nothing_before_the_first_failure) {
  symm_failure_t failure{};
  std::thread([&] { failure = last_failure(); }).join();
  EXPECT_EQ(failure.status, SYMM_OK);
  EXPECT_EQ(failure.rank, -1);
  EXPECT_EQ(failure.pid, 0);
  EXPECT_STREQ(failure.message, "");
}

TEST(LastFailure, says_what_symm_last_error_says_and_nobody_is_to_blame_for_an_argument) {
  const std::string message = fail_with_level(77);
  const symm_failure_t failure = last_failure();
  EXPECT_EQ(failure.status, SYMM_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(failure.rank, -1);
  EXPECT_EQ(failure.pid, 0);
  EXPECT_EQ(failure.message, message);
}

TEST(LastFailure, names_the_rank_that_did_not_come_and_its_process) {
  symm::Group groups[2];
  support::as_threads(2, [&](int rank) { groups[rank] = support::create({"thread://last-failure", ""}, rank, 2); });
  symm_collective_options_t options = SYMM_COLLECTIVE_OPTIONS_INIT;
  options.timeout_ms = 1;
  float value = 1;
  EXPECT_EQ(symm_allreduce(groups[0].get(), &value, &value, 1, SYMM_DTYPE_F32, SYMM_OP_SUM, &options, nullptr), SYMM_ERR_TIMEOUT);
  const symm_failure_t failure = last_failure();
  EXPECT_EQ(failure.status, SYMM_ERR_TIMEOUT);
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.pid, getpid());
}

TEST(StatusString, every_status_has_a_name_of_its_own) {
  std::set<std::string> names;
  for (symm_status_t status = SYMM_ERR_NOT_FOUND; status <= SYMM_OK; ++status) {
    const char* name = symm_status_string(status);
    ASSERT_NE(name, nullptr) << status;
    EXPECT_STRNE(name, "") << status;
    EXPECT_STRNE(name, "unknown status") << status;
    EXPECT_TRUE(names.insert(name).second) << status << " shares the name " << name;
  }
  for (const symm_status_t unknown : {1, SYMM_ERR_NOT_FOUND - 1, INT32_MIN, INT32_MAX}) {
    EXPECT_STREQ(symm_status_string(unknown), "unknown status") << unknown;
  }
}

TEST(Version, header_and_library_agree) {
  EXPECT_EQ(symm_version(), static_cast<uint32_t>(SYMM_VERSION));
  const std::string info = symm_build_info();
  const std::string version =
      std::to_string(SYMM_VERSION_MAJOR) + "." + std::to_string(SYMM_VERSION_MINOR) + "." + std::to_string(SYMM_VERSION_PATCH);
  EXPECT_NE(info.find("\"version\": \"" + version + "\""), std::string::npos) << info;
  EXPECT_EQ(info.front(), '{');
  EXPECT_EQ(info.back(), '}');
}

}  // namespace
