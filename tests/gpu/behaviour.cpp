// Everything but arithmetic: graphs, streams, signals, barriers, sub-groups,
// mismatches, deadlines and aborts. Afterwards all memory must have come back.
#include "tests/gpu/world.hpp"
#include "tests/support/options.hpp"

namespace gpu {
namespace {
// Operands are small whole numbers, so that floats hold the sum over all ranks exactly.
float operand(int rank, size_t i, int round) {
  return static_cast<float>(rank + 1) + static_cast<float>(i % 7) + static_cast<float>(round);
}

float sum(int size, size_t i, int round) {
  return static_cast<float>(size * (size + 1) / 2) +
         static_cast<float>(size) * (static_cast<float>(i % 7) + static_cast<float>(round));
}

void upload(const Rank& rank, float* to, size_t count, int round, cudaStream_t stream) {
  std::vector<float> host(count);
  for (size_t i = 0; i < count; ++i) {
    host[i] = operand(rank.rank, i, round);
  }
  rank.upload(to, host.data(), count * sizeof(float), stream);
}

// Whether there are the sums of the first `ranks` ranks.
bool are_sums(
    const Rank& rank, int ranks, const float* from, size_t count, int round, cudaStream_t stream) {
  std::vector<float> host(count);
  rank.download(host.data(), from, count * sizeof(float), stream);
  for (size_t i = 0; i < count; ++i) {
    if (host[i] != sum(ranks, i, round)) return false;
  }
  return true;
}

bool right(const Rank& rank, const float* from, size_t count, int round, cudaStream_t stream) {
  return are_sums(rank, rank.size, from, count, round, stream);
}

symm_status_t allreduce(const Rank& rank, const float* send, float* recv, size_t count,
    cudaStream_t stream, uint64_t timeout_ms = 0, int32_t algorithm = 0) {
  return symm_allreduce(rank.group, send, recv, count, SYMM_DTYPE_F32, SYMM_OP_SUM,
      support::forced(algorithm, timeout_ms), stream);
}

// Counts that are reduced by one_shot, by two_shot and by the pipeline.
constexpr size_t kSmall = 700;
constexpr size_t kMiddle = 200'000;
constexpr size_t kLarge = 6'000'000;

// Two graphs of calls of all sizes are replayed by turns and between eager calls, with new
// operands every time.
void graphs(Rank& rank, std::barrier<>& together) {
  auto* block = reinterpret_cast<float*>(rank.block);
  auto* other = reinterpret_cast<float*>(rank.ordinary);
  const auto calls = [&](size_t first, size_t second) {
    return [&, first, second] {
      for (const size_t count : {first, second}) {
        symm(allreduce(rank, block, other, count, rank.stream), "all-reduce in capture");
      }
      rank.whole.barrier({}, 3, 0, rank.stream);
    };
  };

  // Both calls of the batch together sum as much as a middle one.
  const auto batch = [&] {
    symm_collective_call_t parts[] = {SYMM_COLLECTIVE_CALL_INIT, SYMM_COLLECTIVE_CALL_INIT};
    parts[0].send = block;
    parts[0].recv = other;
    parts[0].count = kSmall;
    parts[1].send = block + kSmall;
    parts[1].recv = other + kSmall;
    parts[1].count = kMiddle - kSmall;
    symm(symm_batch(rank.group, parts, 2, nullptr, rank.stream), "a batch in capture");
  };

  const Graph graphs[] = {
      {rank, calls(kSmall, kMiddle)}, {rank, calls(kLarge, kSmall)}, {rank, batch}};
  rank.settle(together);

  for (int round = 0; round < 12; ++round) {
    upload(rank, block, kLarge, round, rank.stream);
    graphs[round % 3].replay();
    if (round % 3 == 0) {
      symm(allreduce(rank, block, other, kMiddle, rank.stream), "eager all-reduce");
    }

    const size_t check = round % 3 == 1 ? kLarge : kMiddle;
    expect(right(rank, other, check, round, rank.stream), who(rank, "graph replay"));
  }
  rank.settle(together);
}

// Scans of few elements and of many, in a graph, between all-reduces that take other slots of the
// same memory: rank r gets the sums of ranks up to r, and then of those before it.
void scans(Rank& rank, std::barrier<>& together) {
  auto* block = reinterpret_cast<float*>(rank.block);
  auto* other = reinterpret_cast<float*>(rank.ordinary);
  const auto scan = [&](auto call, size_t at, size_t count) {
    symm(call(rank.group, block, other + at, count, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr,
             rank.stream),
        "scan in capture");
  };
  const Graph graph(rank, [&] {
    symm(allreduce(rank, block, other, kSmall, rank.stream), "all-reduce in capture");
    scan(symm_scan, 0, kSmall);
    scan(symm_exscan, kSmall, kSmall);
    scan(symm_scan, 2 * kSmall, kMiddle);
    symm(allreduce(rank, block, other + 3 * kMiddle, kMiddle, rank.stream), "all-reduce");
    scan(symm_exscan, 2 * kSmall + kMiddle, kMiddle);
  });
  rank.settle(together);

  for (int round = 0; round < 6; ++round) {
    upload(rank, block, kMiddle, round, rank.stream);
    graph.replay();
    const auto check = [&](int ranks, size_t at, size_t count) {
      expect(are_sums(rank, ranks, other + at, count, round, rank.stream),
          who(rank, "replay of scans"));
    };
    check(rank.rank + 1, 0, kSmall);
    check(rank.rank, kSmall, kSmall);
    check(rank.rank + 1, 2 * kSmall, kMiddle);
    check(rank.rank, 2 * kSmall + kMiddle, kMiddle);
  }
  rank.settle(together);
}

// All-gathers by copy engines, eagerly on two streams and from a graph by turns.
void engines(Rank& rank, std::barrier<>& together) {
  auto* send = reinterpret_cast<float*>(rank.ordinary);
  auto* recv = reinterpret_cast<float*>(rank.block);

  const size_t unit =
      std::min(size_t{4'000'000}, Rank::kBlock / sizeof(float) / static_cast<size_t>(rank.size));
  const auto gather = [&](cudaStream_t stream) {
    symm(symm_allgather(rank.group, send, recv, unit, SYMM_DTYPE_F32,
             support::forced(SYMM_ALGORITHM_COPY_ENGINE), stream),
        "an all-gather by engines");
  };

  const Graph graph(rank, [&] { gather(rank.stream); });
  rank.settle(together);

  std::vector<float> host(unit * static_cast<size_t>(rank.size));
  for (int round = 0; round < 6; ++round) {
    const cudaStream_t stream = round % 4 == 2 ? rank.second : rank.stream;

    upload(rank, send, unit, round, stream);
    if (round % 2 == 0) {
      gather(stream);
    } else {
      graph.replay();
    }

    rank.download(host.data(), recv, host.size() * sizeof(float), stream);
    bool ok = true;
    for (size_t i = 0; i < host.size(); ++i) {
      ok = ok && host[i] == operand(static_cast<int>(i / unit), i % unit, round);
    }
    expect(ok, who(rank, "all-gather by engines"));

    rank.settle(together);
  }
}

// One-sided calls, and the table of addresses in the memory of the device.
void one_sided_calls(Rank& rank) {
  const int next = rank.next();
  const int last = rank.last();
  std::vector<uint32_t> pattern(777, 7U + static_cast<uint32_t>(rank.rank));
  rank.upload(rank.ordinary, pattern);
  rank.memory.put_signal(
      next, 4, ::symm::Span(rank.ordinary, pattern.size() * 4), 9, {}, rank.stream);
  rank.memory.wait_signal(last, 9, 0, rank.stream);
  rank.memory.write_value32(rank.rank, 0, 99, {}, rank.stream);
  rank.whole.barrier({}, 0, 0, rank.stream);
  rank.memory.get(last, 0, ::symm::Span(rank.ordinary + 65536, 3112), {}, rank.stream);
  void* const* table = nullptr;
  symm(symm_memory_pointer_table(rank.memory.get(), &table), "symm_memory_pointer_table");

  const auto mine = rank.download<uint32_t>(rank.block, 2);
  const auto theirs = rank.download<uint32_t>(rank.ordinary + 65536, 778);
  const int before_last = (last + rank.size - 1) % rank.size;
  expect(mine[0] == 99 && mine[1] == 7U + static_cast<uint32_t>(last),
      who(rank, "put with signal, write value"));
  expect(
      theirs[0] == 99 && theirs[777] == 7U + static_cast<uint32_t>(before_last), who(rank, "get"));
  expect(rank.download<char*>(table, 1)[0] == rank.memory.span<char>(0).data(),
      who(rank, "table of addresses on the device"));
}

// Every rank hands numbers to the next rank and signals several times before anybody waits,
// eagerly and from a graph.
void signals(Rank& rank, std::barrier<>& together) {
  const int next = rank.next();
  const int last = rank.last();
  auto* words = reinterpret_cast<uint32_t*>(rank.block);

  const auto round = [&] {
    for (uint32_t i = 0; i < 3; ++i) {
      rank.memory.fill32(
          next, 4096 * i, 1000 * static_cast<uint32_t>(rank.rank) + i, 64, {}, rank.stream);
      rank.memory.signal(next, 5, {}, rank.stream);
    }
    for (int i = 0; i < 3; ++i) {
      rank.memory.wait_signal(last, 5, 0, rank.stream);
    }
    rank.whole.barrier({}, 0, 0, rank.stream);
  };

  const auto check = [&](const char* what) {
    const auto got = rank.download<uint32_t>(words, 3 * 1024);
    cuda(cudaMemsetAsync(words, 0, got.size() * 4, rank.stream), "clear");
    rank.whole.barrier({}, 1, 0, rank.stream);
    rank.wait();
    bool ok = true;
    for (uint32_t i = 0; i < 3; ++i) {
      ok = ok && got[1024 * i] == 1000 * static_cast<uint32_t>(last) + i &&
           got[1024 * i + 63] == got[1024 * i];
    }
    expect(ok, who(rank, what));
  };

  round();
  check("signals");
  rank.settle(together);
  {
    const Graph graph(rank, round);
    rank.settle(together);
    for (int i = 0; i < 4; ++i) {
      graph.replay();
      check("signals in a graph");
      round();
      check("signals between replays");
    }
    rank.settle(together);
  }

  one_sided_calls(rank);
}

// Barriers and signals of one channel on two streams, then with one of the streams replayed
// from a graph: each barrier and signal counts once, and none hangs.
void channels_on_two_streams(Rank& rank, std::barrier<>& together) {
  constexpr int kRounds = 1000;
  constexpr int kReplays = 200;
  const int next = rank.next();
  const int last = rank.last();

  const auto round = [&](cudaStream_t stream) {
    rank.whole.barrier({}, 3, 0, stream);
    rank.memory.signal(next, 6, {}, stream);
    rank.memory.wait_signal(last, 6, 0, stream);
  };

  for (int i = 0; i < kRounds; ++i) {
    round(rank.stream);
    round(rank.second);
  }
  rank.settle(together);
  {
    const Graph graph(rank, [&] { round(rank.stream); });
    rank.settle(together);
    for (int i = 0; i < kReplays; ++i) {
      graph.replay();
      round(rank.second);
    }
    rank.settle(together);
  }

  expect(rank.memory.test_signal(last, 6) == 0 &&
             rank.memory.test_signal_value(last, 6) == 2 * (kRounds + kReplays),
      who(rank, "signals on two streams"));
  together.arrive_and_wait();
}

// Words of 64 bits: signals that are set, added to and compared, one at a time and several
// at once; and words of the block that are written and waited for.
void values(Rank& rank, std::barrier<>& together) {
  constexpr uint64_t kHigh = uint64_t{1} << 40;
  const int next = rank.next();
  const int last = rank.last();
  rank.memory.fill32(rank.rank, 0, 0, 1024, {}, rank.stream);
  rank.settle(together);

  const auto awaited = [&](int channel, symm_compare_t compare,
                           uint64_t value) -> symm_signal_wait_t {
    return {sizeof(symm_signal_wait_t), last, channel, compare, value};
  };
  const symm_signal_wait_t all[] = {
      awaited(10, SYMM_COMPARE_EQ, kHigh + 3), awaited(11, SYMM_COMPARE_GT, 0)};
  const symm_signal_wait_t any[] = {
      awaited(12, SYMM_COMPARE_NE, 0), awaited(11, SYMM_COMPARE_GE, 1)};

  rank.memory.signal_value(next, 10, SYMM_SIGNAL_SET, kHigh, {}, rank.stream);
  rank.memory.signal_value(next, 10, SYMM_SIGNAL_ADD, 3, {}, rank.stream);
  rank.memory.wait_signal_value(last, 10, SYMM_COMPARE_GE, kHigh + 3, 0, rank.stream);
  rank.memory.signal(next, 11, {}, rank.stream);
  rank.memory.wait_any(any, 0, rank.stream);
  rank.memory.wait_all(all, 0, rank.stream);

  rank.memory.put(next, 1024, ::symm::Span(rank.ordinary, 4096), {}, rank.stream);
  rank.memory.write_value64(next, 64, kHigh + static_cast<uint64_t>(rank.rank), {}, rank.stream);
  rank.memory.wait_value64(
      64, SYMM_COMPARE_EQ, kHigh + static_cast<uint64_t>(last), 0, rank.stream);
  rank.memory.wait_value32(68, SYMM_COMPARE_EQ, 256, 0, rank.stream);

  rank.wait();
  expect(rank.memory.test_signal_value(last, 10) == kHigh + 3, who(rank, "a signal with a value"));
  expect(rank.memory.test_signal(last, 11) == 1, who(rank, "waits for values take nothing"));
  rank.settle(together);
}

// Rank 0 does not come to a call of the part. The scratch that both groups share is then spoilt for
// the other ranks of the whole; only the pipeline uses it.
void spoil_shared_scratch(const Rank& rank, const Rank& part, float* send, float* recv) {
  symm(allreduce(part, send, recv, kLarge, rank.stream, 300, SYMM_ALGORITHM_TWO_SHOT_STAGED),
      "an all-reduce that will fail");
  symm(allreduce(rank, send, recv, kLarge, rank.stream, 0, SYMM_ALGORITHM_TWO_SHOT_STAGED),
      "a call behind the all-reduce that will fail");
  rank.wait();

  expect(rank.whole.status().status == SYMM_ERR_ABORTED,
      who(rank, "the whole after a deadline of a part: ") + rank.whole.status().message);
}

// A group of all ranks and a group of all but the last, in reverse order, take turns on two
// streams, eagerly and in a graph. Each has scratch of its own, and then the library orders
// the calls of each group; or they share scratch, and then it orders the calls of both.
void groups(Rank& rank, std::barrier<>& together, bool shared) {
  Rank part{.rank = rank.rank, .size = std::max(2, rank.size - 1), .pinned = rank.pinned};

  std::vector<int32_t> backwards;
  for (int r = part.size; r-- > 0;) {
    backwards.push_back(r);
  }
  if (rank.rank < part.size) part.whole = rank.whole.create_from_ranks(backwards);
  // Forming a group has the driver load kernels, which must not meet a kernel that waits.
  together.arrive_and_wait();

  part.group = part.whole.get();
  float* operands[] = {
      reinterpret_cast<float*>(rank.block), reinterpret_cast<float*>(rank.ordinary)};
  constexpr size_t kSecond = kLarge + 64;

  const auto calls = [&](int round) {
    symm(symm_stream_wait(rank.group, rank.second, rank.stream, nullptr), "symm_stream_wait");
    cudaStream_t streams[] = {rank.stream, rank.second};
    for (const size_t count : {kSmall, kLarge, kMiddle, kSmall, kLarge}) {
      const float* send = operands[round % 2];
      float* recv = operands[1 - round % 2];
      symm(allreduce(rank, send, recv, count, streams[0]), "all-reduce of all");
      if (part.group != nullptr) {
        symm(allreduce(part, send, recv + kSecond, count, streams[1]), "all-reduce of a part");
      }
      std::swap(streams[0], streams[1]);
    }
    symm(symm_stream_wait(rank.group, rank.stream, rank.second, nullptr), "symm_stream_wait");
  };

  calls(0);
  rank.settle(together);
  {
    const Graph graph(rank, [&] { calls(0); });
    rank.settle(together);

    for (int round = 0; round < 12; ++round) {
      upload(rank, operands[round % 2], kLarge, round, rank.stream);
      if (round % 4 == 0) {
        graph.replay();
      } else {
        calls(round);
      }

      const float* recv = operands[1 - round % 2];
      expect(right(rank, recv, kLarge, round, rank.stream),
          who(rank, "all-reduce beside that of a part"));
      if (part.group != nullptr) {
        expect(right(part, recv + kSecond, kLarge, round, rank.stream),
            who(rank, "all-reduce of a part"));
      }
    }
    rank.settle(together);
  }

  const bool spoils = shared && part.group != nullptr && rank.rank != 0;
  if (spoils) spoil_shared_scratch(rank, part, operands[0], operands[1]);
  if (shared) together.arrive_and_wait();
}

void groups_beside(Rank& rank, std::barrier<>& together) { groups(rank, together, false); }

void groups_in_one_scratch(Rank& rank, std::barrier<>& together) { groups(rank, together, true); }

// A rank does not come to a call: the others are told, and their streams and contexts stay
// usable. A new group works, as the tests that follow show.
void silence(Rank& rank, std::barrier<>& together, size_t count) {
  auto* block = reinterpret_cast<float*>(rank.block);
  auto* other = reinterpret_cast<float*>(rank.ordinary);
  if (rank.rank != rank.size - 1) {
    symm(allreduce(rank, block, other, count, rank.stream, 300), "an all-reduce that will fail");
    const auto start = std::chrono::steady_clock::now();
    expect(cudaStreamSynchronize(rank.stream) == cudaSuccess,
        who(rank, "the stream is usable after a deadline"));
    expect(seconds_since(start) < 10, who(rank, "the kernel leaves at its deadline"));
    const symm_failure_t status = rank.whole.status();
    expect(
        status.status == SYMM_ERR_TIMEOUT, who(rank, "status after a deadline: ") + status.message);
    expect(allreduce(rank, block, other, count, rank.stream) == SYMM_ERR_TIMEOUT,
        who(rank, "calls after a deadline"));
  }

  together.arrive_and_wait();
}

void abort_word(Rank& rank, std::barrier<>& together) {
  auto* block = reinterpret_cast<float*>(rank.block);
  auto* other = reinterpret_cast<float*>(rank.ordinary);
  const Graph graph(rank, [&] {
    for (const size_t count : {kSmall, kMiddle, kLarge}) {
      symm(allreduce(rank, block, other, count, rank.stream), "all-reduce in capture");
    }
  });
  rank.settle(together);

  if (rank.rank != 0) {
    symm(allreduce(rank, block, other, kMiddle, rank.stream), "an all-reduce that will be aborted");
  }

  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  together.arrive_and_wait();
  if (rank.rank == 0) symm(symm_group_abort(rank.group, "a test"), "symm_group_abort");

  const auto expect_idle = [&](const std::string& when) {
    const auto start = std::chrono::steady_clock::now();
    expect(cudaStreamSynchronize(rank.stream) == cudaSuccess,
        who(rank, "the stream is usable " + when));
    const double seconds = seconds_since(start);
    expect(seconds < 2, who(rank, "kernels leave " + when));
    if (rank.rank == 1) std::printf("%s, to idle stream: %.3f ms\n", when.c_str(), seconds * 1e3);
  };

  expect_idle("when the group is aborted");
  expect(rank.whole.status().status == SYMM_ERR_ABORTED, who(rank, "status after an abort"));

  // A replay of a graph does not ask the library whether the group was aborted.
  for (const int replaying : {rank.size, 1}) {
    together.arrive_and_wait();
    if (rank.rank < replaying) graph.replay();
    expect_idle("at a replay after it by " + std::to_string(replaying));
    expect(rank.whole.status().status == SYMM_ERR_ABORTED, who(rank, "status after a replay"));
  }
  together.arrive_and_wait();
}

void mismatch(Rank& rank, std::barrier<>&, bool of_places) {
  auto* block = reinterpret_cast<float*>(rank.block);
  const size_t one = rank.rank == 0 ? 0 : 1;
  const auto call = [&] {
    if (of_places) {
      return symm_allgather(rank.group, rank.ordinary, block + one, 64, SYMM_DTYPE_F32,
          support::forced(SYMM_ALGORITHM_COPY_ENGINE), rank.stream);
    }
    return allreduce(rank, block, reinterpret_cast<float*>(rank.ordinary), 64 + one, rank.stream);
  };

  // A rank that comes when others have found the mismatch gets it from the call.
  const symm_status_t status_of_call = call();
  if (status_of_call != SYMM_ERR_MISMATCH) symm(status_of_call, "a mismatched call");

  rank.wait();

  symm_failure_t status = rank.whole.status();
  for (int i = 0; i < 100 && status.status == SYMM_OK; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    status = rank.whole.status();
  }
  expect(
      status.status == SYMM_ERR_MISMATCH, who(rank, "status after a mismatch: ") + status.message);
  if (rank.rank == 0) std::printf("mismatch: %s\n", status.message);
}

class Behaviour : public testing::Test {
 protected:
  static void run(const std::function<void(Rank&, std::barrier<>&)>& body, uint64_t flags = 0) {
    run_ranks(machine().ranks, body, 20000, flags);
  }

  static void SetUpTestSuite() {
    // What the driver keeps for good is allocated first: for graphs, and for kernels, those
    // for the size of the sub-groups among them.
    run(graphs);
    run(groups_beside);
    before_ = free_memory();
  }

  static void TearDownTestSuite() { expect_free(before_); }

 private:
  static inline size_t before_ = 0;
};

TEST_F(Behaviour, Graphs) { run(graphs); }

TEST_F(Behaviour, ScansInAGraph) { run(scans); }

TEST_F(Behaviour, Engines) { run(engines, SYMM_GROUP_SAME_OFFSETS); }

TEST_F(Behaviour, Signals) { run(signals); }

TEST_F(Behaviour, ChannelsOnTwoStreams) { run(channels_on_two_streams); }

TEST_F(Behaviour, Values) { run(values); }

TEST_F(Behaviour, Groups) { run(groups_beside); }

TEST_F(Behaviour, GroupsInOneScratch) { run(groups_in_one_scratch, SYMM_GROUP_SHARED_SCRATCH); }

TEST_F(Behaviour, Silence) {
  for (const size_t count : {kSmall, kMiddle, kLarge}) {
    run([&](Rank& rank, std::barrier<>& together) { silence(rank, together, count); });
  }
}

TEST_F(Behaviour, AbortWord) { run(abort_word); }

TEST_F(Behaviour, Mismatch) {
  for (const bool of_places : {false, true}) {
    run([&](Rank& rank, std::barrier<>& together) { mismatch(rank, together, of_places); },
        SYMM_GROUP_CHECK);
  }
}

TEST_F(Behaviour, GraphsAfterFailures) { run(graphs); }
}  // namespace
}  // namespace gpu
