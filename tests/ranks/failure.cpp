// SPDX-License-Identifier: Apache-2.0
#include "tests/ranks/failure.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <thread>

namespace ranks {
namespace {

constexpr size_t kStaged = 100'000;  // elements per rank: several chunks through the library's memory
constexpr size_t kZeroCopy = 4096;
constexpr size_t kShort = 512;

symm_status_t collective(Member& m, symm_collective_t what, symm_algorithm_t algorithm, size_t count, bool symmetric) {
  symm_collective_options_t options = SYMM_COLLECTIVE_OPTIONS_INIT;
  options.algorithm = algorithm;
  const float* send = symmetric ? m.symmetric_send() : m.send.data();
  float* recv = symmetric ? m.symmetric_recv() : m.recv.data();
  switch (what) {
    case SYMM_COLLECTIVE_ALLREDUCE:
      return symm_allreduce(m.group.get(), send, recv, count, SYMM_DTYPE_F32, SYMM_OP_SUM, &options, nullptr);
    case SYMM_COLLECTIVE_REDUCE_SCATTER:
      return symm_reduce_scatter(m.group.get(), send, recv, count, SYMM_DTYPE_F32, SYMM_OP_SUM, &options, nullptr);
    case SYMM_COLLECTIVE_ALLGATHER: return symm_allgather(m.group.get(), send, recv, count, SYMM_DTYPE_F32, &options, nullptr);
    case SYMM_COLLECTIVE_BROADCAST: return symm_broadcast(m.group.get(), send, recv, count, SYMM_DTYPE_F32, 0, &options, nullptr);
    case SYMM_COLLECTIVE_REDUCE:
      return symm_reduce(m.group.get(), send, recv, count, SYMM_DTYPE_F32, SYMM_OP_SUM, 0, &options, nullptr);
    case SYMM_COLLECTIVE_ALLTOALL: return symm_alltoall(m.group.get(), send, recv, count, SYMM_DTYPE_F32, &options, nullptr);
    default: return SYMM_ERR_INVALID_ARGUMENT;
  }
}

symm_status_t signal_everybody(Member& m) {
  for (int peer = 0; peer < m.size; ++peer) {
    if (const symm_status_t status = symm_put_signal(m.block.memory.get(), peer, 3, nullptr); status != SYMM_OK) return status;
  }
  for (int peer = 0; peer < m.size; ++peer) {
    if (const symm_status_t status = symm_wait_signal(m.block.memory.get(), peer, 3, 0, nullptr); status != SYMM_OK)
      return status;
  }
  return SYMM_OK;
}

symm_status_t rendezvous(Member& m) {
  symm_buffer_t* buffer = nullptr;
  if (const symm_status_t status = symm_alloc(m.group.get(), 8192, 0, &buffer); status != SYMM_OK) return status;
  const Buffer owned(buffer);
  symm_memory_t* memory = nullptr;
  const symm_status_t status = symm_rendezvous(m.group.get(), buffer, 7, &memory);
  const Memory mapped(memory);
  return status;
}

symm_status_t split_in_one(Member& m) {
  symm_group_t* part = nullptr;
  const symm_status_t status = symm_group_split(m.group.get(), 5, 0, &part);
  const Group owned(part);
  return status;
}

std::vector<Operation> make_operations() {
  std::vector<Operation> all{
      {"barrier", [](Member& m) { return symm_barrier(m.group.get(), nullptr, 0, 1, 0, nullptr); }},
      {"barrier_of_first_and_last",
       [](Member& m) {
         const int32_t ranks[] = {0, m.size - 1};
         if (m.rank != 0 && m.rank != m.size - 1) return symm_barrier(m.group.get(), nullptr, 0, 2, 0, nullptr);
         const symm_status_t status = symm_barrier(m.group.get(), ranks, 2, 1, 0, nullptr);
         return status != SYMM_OK ? status : symm_barrier(m.group.get(), nullptr, 0, 2, 0, nullptr);
       }},
      {"wait_signal", signal_everybody},
      {"rendezvous", rendezvous},
      {"split", split_in_one},
  };
  const auto add = [&](const std::string& name, symm_collective_t what, symm_algorithm_t algorithm, size_t count,
                       bool symmetric) {
    all.push_back({name, [=](Member& m) { return collective(m, what, algorithm, count, symmetric); }});
  };
  const std::pair<const char*, symm_collective_t> collectives[] = {
      {"allreduce", SYMM_COLLECTIVE_ALLREDUCE}, {"reduce_scatter", SYMM_COLLECTIVE_REDUCE_SCATTER},
      {"allgather", SYMM_COLLECTIVE_ALLGATHER}, {"broadcast", SYMM_COLLECTIVE_BROADCAST},
      {"reduce", SYMM_COLLECTIVE_REDUCE},       {"alltoall", SYMM_COLLECTIVE_ALLTOALL}};
  for (const auto& [name, what] : collectives) {
    const std::string prefix = name;
    add(prefix + "_ll", what, SYMM_ALGORITHM_LL, 1, false);
    add(prefix + "_one_shot", what, SYMM_ALGORITHM_ONE_SHOT, kShort, false);
    add(prefix + "_two_shot", what, SYMM_ALGORITHM_TWO_SHOT, kZeroCopy, true);
    add(prefix + "_staged", what, SYMM_ALGORITHM_TWO_SHOT_STAGED, kStaged, false);
  }
  return all;
}

}  // namespace

int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

Member::Member(const Config& config, int own_rank, int ranks, Facts* facts) : rank(own_rank), size(ranks) {
  if (facts != nullptr) facts->pids[rank] = getpid();
  group = create(config, rank, size);
  block = allocate(group, kBlock);
  send.assign(kStaged * static_cast<size_t>(size), 1.0F);
  recv.assign(send.size(), 0.0F);
  std::fill_n(symmetric_send(), kBlock / sizeof(float) / 2, 1.0F);
  barrier(group);
  if (facts != nullptr) all_there(*facts, ranks);
}

void all_there(Facts& facts, int ranks) {
  const int turn = facts.turn;
  if (++facts.arrived == ranks) {
    facts.arrived = 0;
    ++facts.turn;
    return;
  }
  while (facts.turn == turn) std::this_thread::yield();
}

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = make_operations();
  return all;
}

std::ostream& operator<<(std::ostream& out, const Operation& operation) { return out << operation.name; }

std::string name_of(const testing::TestParamInfo<Operation>& info) { return info.param.name; }

symm_status_t allreduce(const Group& group, const float* send, float* recv, size_t count, symm_algorithm_t algorithm) {
  symm_collective_options_t options = SYMM_COLLECTIVE_OPTIONS_INIT;
  options.algorithm = algorithm;
  return symm_allreduce(group.get(), send, recv, count, SYMM_DTYPE_F32, SYMM_OP_SUM, &options, nullptr);
}

symm_status_t until_failure(Member& member, const Operation& operation) {
  for (;;) {
    if (const symm_status_t status = operation.call(member); status != SYMM_OK) return status;
  }
}

symm_group_status_t status_of(const Group& group) {
  symm_group_status_t status{};
  status.struct_size = sizeof status;
  check(symm_group_status(group.get(), &status));
  return status;
}

symm_failure_t last_failure() {
  symm_failure_t failure{};
  failure.struct_size = sizeof failure;
  check(symm_last_failure(&failure));
  return failure;
}

void expect_named(symm_status_t got, symm_status_t expected, int culprit, int64_t pid) {
  const std::string message = symm_last_error();
  EXPECT_EQ(got, expected) << message;
  EXPECT_NE(message.find("rank " + std::to_string(culprit)), std::string::npos) << message;
  EXPECT_NE(message.find("pid " + std::to_string(pid)), std::string::npos) << message;
  EXPECT_EQ(last_failure().rank, culprit) << message;
  EXPECT_EQ(last_failure().pid, pid) << message;
}

void expect_blame(const Group& group, symm_status_t got, symm_status_t expected, int culprit, int64_t pid) {
  expect_named(got, expected, culprit, pid);
  // A call on a part of the group, or on what was to become one, may fail before the group itself has heard.
  EXPECT_TRUE(eventually([&] { return status_of(group).status != SYMM_OK; })) << "the group was not revoked";
  const symm_group_status_t status = status_of(group);
  EXPECT_EQ(status.status, expected) << status.message;
  EXPECT_EQ(status.failed_rank, culprit) << status.message;
  EXPECT_EQ(status.failed_pid, pid) << status.message;
  EXPECT_STRNE(status.message, "");
  // It stays so.
  EXPECT_EQ(symm_barrier(group.get(), nullptr, 0, 0, 0, nullptr), expected);
}

bool names_rank(const std::string& message, int rank) {
  for (size_t at = message.find("rank"); at != std::string::npos; at = message.find("rank", at + 1)) {
    // "rank 3" or "ranks 1, 3": numbers with commas between them.
    size_t i = at + 4;
    if (message[i] == 's') ++i;
    while (i + 1 < message.size() && message[i] == ' ' && std::isdigit(static_cast<unsigned char>(message[i + 1]))) {
      size_t digits = 0;
      if (std::stoi(message.substr(i + 1), &digits) == rank) return true;
      i += 1 + digits;
      if (message[i] == ',') ++i;
    }
  }
  return false;
}

void expect_working(const Config& config, int rank, int size, int rounds) {
  const Group group = create(config, rank, size);
  const Block block = allocate(group, 1 << 16);
  constexpr size_t kCount = 4096;
  float* send = block.at<float>(rank);
  std::vector<float> recv(kCount);
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < kCount; ++i) send[i] = static_cast<float>(rank + round) + static_cast<float>(i % 7);
    check(allreduce(group, send, recv.data(), kCount));
    size_t wrong = 0;
    for (size_t i = 0; i < kCount; ++i) {
      const float expected =
          static_cast<float>(size * (size - 1) / 2 + size * round) + static_cast<float>(static_cast<size_t>(size) * (i % 7));
      if (recv[i] != expected) ++wrong;
    }
    ASSERT_EQ(wrong, 0U) << "in round " << round << " on rank " << rank;
  }
  check(symm_group_finalize(group.get(), 0));
}

void expect_empty(const std::string& directory) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    ADD_FAILURE() << "left behind: " << entry.path();
}

}  // namespace ranks
