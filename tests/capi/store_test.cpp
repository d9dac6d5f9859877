// SPDX-License-Identifier: Apache-2.0
//
// A store of the caller's, as an MPI or torch program would supply one: two ranks, which are threads here, meet through it.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "symm/symm.h"

namespace {

struct Map {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> values;
  bool set_twice = false;

  static symm_status_t set(void* user, const char* key, const void* value, size_t size, uint64_t) {
    auto& map = *static_cast<Map*>(user);
    const std::lock_guard lock(map.mutex);
    map.set_twice |= !map.values.emplace(key, std::string(static_cast<const char*>(value), size)).second;
    map.changed.notify_all();
    return SYMM_OK;
  }
  static symm_status_t get(void* user, const char* key, void* value, size_t capacity, size_t* out_size, uint64_t timeout_ms) {
    auto& map = *static_cast<Map*>(user);
    std::unique_lock lock(map.mutex);
    const auto here = [&] { return map.values.count(key) != 0; };
    if (!map.changed.wait_for(lock, std::chrono::milliseconds(timeout_ms), here)) return SYMM_ERR_TIMEOUT;
    const std::string& found = map.values[key];
    *out_size = found.size();
    if (found.size() > capacity) return SYMM_ERR_INVALID_ARGUMENT;
    std::memcpy(value, found.data(), found.size());
    return SYMM_OK;
  }
  symm_store_t store() { return {sizeof(symm_store_t), this, set, get}; }
};

symm_group_config_t config_of(const symm_store_t& store, int32_t rank, int32_t size) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = SYMM_BACKEND_HOST;
  config.rank = rank;
  config.size = size;
  config.store = &store;
  config.create_timeout_ms = 20000;
  return config;
}

TEST(Store, two_ranks_meet_through_the_callers_store) {
  Map map;
  const symm_store_t store = map.store();
  std::array<float, 2> results{};
  const auto rank_main = [&](int32_t rank) {
    const symm_group_config_t config = config_of(store, rank, 2);
    symm_group_t* group = nullptr;
    ASSERT_EQ(symm_group_create(&config, &group), SYMM_OK) << symm_last_error();
    const float mine = static_cast<float>(rank + 1);
    float& result = results[static_cast<size_t>(rank)];
    EXPECT_EQ(symm_allreduce(group, &mine, &result, 1, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, nullptr), SYMM_OK)
        << symm_last_error();
    EXPECT_EQ(symm_group_finalize(group, 20000), SYMM_OK) << symm_last_error();
    symm_group_release(group);
  };
  std::thread other(rank_main, 1);
  rank_main(0);
  other.join();
  EXPECT_EQ(results[0], 3);
  EXPECT_EQ(results[1], 3);
  EXPECT_FALSE(map.set_twice);
}

TEST(Store, its_failure_is_the_creations_failure) {
  const symm_store_t broken{sizeof broken, nullptr,
                            [](void*, const char*, const void*, size_t, uint64_t) { return SYMM_ERR_SYSTEM + 0; },
                            [](void*, const char*, void*, size_t, size_t*, uint64_t) { return SYMM_ERR_SYSTEM + 0; }};
  const symm_group_config_t config = config_of(broken, 0, 2);
  symm_group_t* group = nullptr;
  EXPECT_EQ(symm_group_create(&config, &group), SYMM_ERR_SYSTEM) << symm_last_error();
  EXPECT_NE(std::string(symm_last_error()).find("store"), std::string::npos) << symm_last_error();
  EXPECT_EQ(group, nullptr);
}

TEST(Store, a_rank_that_does_not_come_is_named) {
  Map map;
  const symm_store_t store = map.store();
  symm_group_config_t config = config_of(store, 0, 2);
  config.create_timeout_ms = 200;
  symm_group_t* group = nullptr;
  EXPECT_EQ(symm_group_create(&config, &group), SYMM_ERR_TIMEOUT);
  EXPECT_NE(std::string(symm_last_error()).find("rank 1"), std::string::npos) << symm_last_error();
}

}  // namespace
