// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>

#include "tests/ranks/ranks.hpp"

namespace ranks {
namespace {

TEST(Group, ThreadsMeet) {
  for (const int size : {1, 2, 3, 8}) {
    std::set<uint64_t> ids;
    std::mutex mutex;
    as_threads(size, [&](int rank, const Group& group) {
      EXPECT_EQ(rank_of(group), rank);
      EXPECT_EQ(size_of(group), size);
      symm_group_info_t info{};
      info.struct_size = sizeof info;
      check(symm_group_info(group.get(), &info));
      EXPECT_EQ(info.backend, SYMM_BACKEND_HOST);
      EXPECT_EQ(info.channels, 64);
      {
        const std::lock_guard lock(mutex);
        ids.insert(info.id);
      }
      barrier(group);
    });
    EXPECT_EQ(ids.size(), 1U) << "all ranks know the group by one number";
  }
}

TEST(Group, SixtyFourThreadsMeet) {
  as_threads(64, [](int, const Group& group) {
    for (int i = 0; i < 3; ++i) barrier(group);
  });
}

TEST(Group, ProcessesMeetInADirectoryAndLeaveNothing) {
  const BootstrapResult meeting;
  const Config config = meeting.processes();
  Processes processes(4, [&](int rank) {
    for (int i = 0; i < 3; ++i) {
      const Group group = create(config, rank, 4);
      barrier(group);
    }
  });
  processes.expect_success();
  EXPECT_TRUE(std::filesystem::is_empty(meeting.directory()))
      << "left behind: " << std::filesystem::directory_iterator(meeting.directory())->path();
}

TEST(Group, ConcurrentGroupsOfOneBootstrapAreToldApartByName) {
  const BootstrapResult meeting;
  Processes processes(4, [&](int rank) {
    Config config = meeting.processes();
    config.name = rank % 2 == 0 ? "even" : "odd";
    const Group group = create(config, rank / 2, 2);
    EXPECT_EQ(size_of(group), 2);
    barrier(group);
  });
  processes.expect_success();
}

// A store of the caller's own: here a directory of files, each written once.
struct FileStore {
  std::string directory;

  static symm_status_t set(void* user, const char* key, const void* value, size_t size, uint64_t) {
    const std::string path = static_cast<FileStore*>(user)->path(key);
    FILE* file = std::fopen((path + ".tmp").c_str(), "wb");
    if (file == nullptr) return SYMM_ERR_SYSTEM;
    const bool written = std::fwrite(value, 1, size, file) == size;
    std::fclose(file);
    return written && std::rename((path + ".tmp").c_str(), path.c_str()) == 0 ? SYMM_OK : SYMM_ERR_SYSTEM;
  }
  static symm_status_t get(void* user, const char* key, void* value, size_t capacity, size_t* out_size, uint64_t timeout_ms) {
    const std::string path = static_cast<FileStore*>(user)->path(key);
    for (uint64_t waited = 0;; ++waited) {
      if (FILE* file = std::fopen(path.c_str(), "rb")) {
        *out_size = std::fread(value, 1, capacity, file);
        std::fclose(file);
        return SYMM_OK;
      }
      if (waited >= timeout_ms) return SYMM_ERR_TIMEOUT;
      usleep(1000);
    }
  }
  std::string path(const char* key) const {
    std::string name;
    for (const char* c = key; *c != '\0'; ++c) name += *c == '/' ? '_' : *c;
    return directory + "/" + name;
  }
};

symm_status_t create_from(symm_store_t& store, int rank, int size, symm_group_t** out) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.rank = rank;
  config.size = size;
  config.store = &store;
  config.create_timeout_ms = 20'000;
  return symm_group_create(&config, out);
}

TEST(Group, MeetsThroughTheCallersStore) {
  const BootstrapResult meeting;
  Processes processes(3, [&](int rank) {
    FileStore files{meeting.directory()};
    symm_store_t store{sizeof store, &files, FileStore::set, FileStore::get};
    symm_group_t* group = nullptr;
    check(create_from(store, rank, 3, &group));
    const Group owned(group);
    barrier(owned);
  });
  processes.expect_success();
}

TEST(Group, TheStoresErrorFailsTheCreation) {
  FileStore files{"/nonexistent"};
  symm_store_t store{sizeof store, &files, FileStore::set, FileStore::get};
  symm_group_t* group = nullptr;
  EXPECT_EQ(create_from(store, 0, 2, &group), SYMM_ERR_SYSTEM);
  EXPECT_EQ(group, nullptr);
  EXPECT_NE(std::string(symm_last_error()).find("store"), std::string::npos) << symm_last_error();
}

TEST(Group, MissingRanksAreNamed) {
  const BootstrapResult meeting;
  Config config = meeting.threads();
  config.create_timeout_ms = 300;
  as_threads(2, [&](int index) {
    const int rank = index * 2;  // ranks 0 and 2 of 4
    try {
      create(config, rank, 4);
      ADD_FAILURE() << "rank " << rank << " formed a group of 4 with 2 ranks";
    } catch (const Failed& failed) {
      EXPECT_EQ(failed.status, SYMM_ERR_TIMEOUT);
      EXPECT_NE(std::string(failed.what()).find("1, 3"), std::string::npos) << failed.what();
    }
  });
}

TEST(Group, SplitOrdersByKeyAndExcludesNegativeColors) {
  as_threads(5, [](int rank, const Group& group) {
    const Group part = split(group, rank == 4 ? -1 : rank % 2, -rank);
    if (rank == 4) {
      EXPECT_EQ(part, nullptr);
      return;
    }
    EXPECT_EQ(size_of(part), 2);
    EXPECT_EQ(rank_of(part), rank < 2 ? 1 : 0) << "the higher rank has the lower key";
    barrier(part);
  });
}

TEST(Group, SplitOfASplitOutlivesItsParents) {
  const BootstrapResult meeting;
  Processes processes(4, [&](int rank) {
    Group group = create(meeting.processes(), rank, 4);
    Group half = split(group, rank / 2, rank);
    Group alone = split(half, rank % 2, 0);
    group.reset();
    half.reset();
    barrier(alone);
    EXPECT_EQ(size_of(alone), 1);
  });
  processes.expect_success();
}

TEST(Group, StatusIsOkUntilRevoked) {
  as_threads(2, [](int rank, const Group& group) {
    symm_group_status_t status{};
    status.struct_size = sizeof status;
    check(symm_group_status(group.get(), &status));
    EXPECT_EQ(status.status, SYMM_OK);
    EXPECT_EQ(status.failed_rank, -1);
    barrier(group);
    if (rank == 0) check(symm_group_abort(group.get(), "enough"));
    EXPECT_EQ(symm_barrier(group.get(), nullptr, 0, 0, 10'000, nullptr), SYMM_ERR_ABORTED);
    EXPECT_NE(std::string(symm_last_error()).find("rank 0 aborted the group: enough"), std::string::npos) << symm_last_error();
    check(symm_group_status(group.get(), &status));
    EXPECT_EQ(status.status, SYMM_ERR_ABORTED);
    EXPECT_EQ(status.failed_rank, 0);
  });
}

TEST(Group, AfterFinalizeOnlyQueriesWork) {
  as_threads(3, [](int, const Group& group) {
    check(symm_group_finalize(group.get(), 10'000));
    EXPECT_EQ(symm_barrier(group.get(), nullptr, 0, 0, 1000, nullptr), SYMM_ERR_INVALID_HANDLE);
    EXPECT_EQ(size_of(group), 3);
  });
}

TEST(Group, WorksFromTheEnvironmentOfASingleProcess) {
  symm_group_t* group = nullptr;
  check(symm_group_create(nullptr, &group));
  const Group owned(group);
  EXPECT_EQ(size_of(owned), 1);
  barrier(owned);
  float value = 3;
  check(symm_allreduce(group, &value, &value, 1, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, nullptr));
  EXPECT_EQ(value, 3.0F);
}

}  // namespace
}  // namespace ranks
