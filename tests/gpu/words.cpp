// Words of blocks that kernels of several ranks change at the same time, also in graphs; words in
// memory of the host; and copies of a value. Of several machines, which one GPU can pretend,
// machines.cpp is about collectives only: there these calls go by UCX.
#include "tests/gpu/world.hpp"
#include "tests/support/options.hpp"
#include "tests/support/word_history.hpp"

namespace gpu {
namespace {
// Whether this rank's GPU can change words of `other` in one step; over PCIe the call says why not.
bool reaches(const Rank& rank, int other) {
  const symm_status_t status = symm_atomic64(
      rank.memory.get(), other, 0, SYMM_ATOMIC_ADD, 0, 0, nullptr, nullptr, rank.stream);
  if (status == SYMM_OK) return true;
  expect(status == SYMM_ERR_UNSUPPORTED &&
             std::strstr(symm_last_error(), "atomic operations") != nullptr,
      who(rank, std::string("refused: ") + symm_last_error()));
  std::printf("rank %d: %s\n", rank.rank, symm_last_error());
  return false;
}

// Additions of all ranks to a word of rank 0, one by one and by a graph that is replayed.
void additions(Rank& rank, std::barrier<>& together) {
  constexpr size_t kAdds = 2000;
  constexpr size_t kReplays = 10;
  constexpr size_t kInGraph = 50;
  const bool takes_part = reaches(rank, 0);
  static std::mutex mutex;
  static std::vector<uint64_t> all;
  if (rank.rank == 0) all.clear();
  rank.settle(together);

  const auto add = [&](size_t slot) {
    rank.memory.atomic64(0, 64, SYMM_ATOMIC_ADD, 1, 0, rank.ordinary + 8 * slot, {}, rank.stream);
  };
  const auto collect = [&](size_t count) {
    const auto fetched = rank.download<uint64_t>(rank.ordinary, count);
    expect(std::is_sorted(fetched.begin(), fetched.end()),
        who(rank, "what a rank fetches on one stream grows"));
    const std::lock_guard lock(mutex);
    all.insert(all.end(), fetched.begin(), fetched.end());
  };

  if (takes_part) {
    for (size_t i = 0; i < kAdds; ++i) {
      add(i);
    }
    collect(kAdds);
    const Graph graph(rank, [&] {
      for (size_t i = 0; i < kInGraph; ++i) {
        add(i);
      }
    });
    for (size_t i = 0; i < kReplays; ++i) {
      graph.replay();
      collect(kInGraph);
    }
  }

  rank.settle(together);
  if (rank.rank == 0) {
    std::sort(all.begin(), all.end());
    bool once = true;
    for (size_t i = 0; i < all.size(); ++i) {
      once = once && all[i] == i;
    }
    expect(once, "each value was fetched once");
    expect(rank.memory.read_value64(0, 64) == all.size(), "the sum is exact");
  }
  rank.settle(together);
}

template <class Word>
void operations_on(const Rank& rank, size_t offset) {
  std::mt19937_64 random(static_cast<unsigned>(rank.rank));
  Word word = 0;
  for (int i = 0; i < 300; ++i) {
    const auto op = static_cast<symm_atomic_op_t>(random() % (SYMM_ATOMIC_COMPARE_SWAP + 1));
    const auto value = static_cast<Word>(op == SYMM_ATOMIC_FETCH ? 0 : random());
    Word compare = 0;
    if (op == SYMM_ATOMIC_COMPARE_SWAP) compare = random() % 2 == 0 ? word : value;
    if constexpr (sizeof(Word) == 4) {
      rank.memory.atomic32(rank.next(), offset, op, value, compare, rank.ordinary, {}, rank.stream);
    } else {
      rank.memory.atomic64(rank.next(), offset, op, value, compare, rank.ordinary, {}, rank.stream);
    }
    expect(rank.download<Word>(rank.ordinary, 1)[0] == word,
        who(rank, "operation " + std::to_string(op) + " fetches what the word was"));
    word = support::changed(op, word, value, compare);
  }
}

void operations(Rank& rank, std::barrier<>& together) {
  if (reaches(rank, rank.next())) {
    operations_on<uint32_t>(rank, 132);
    operations_on<uint64_t>(rank, 136);
  }
  rank.settle(together);
  expect(rank.memory.read_value32(rank.rank, 128) == 0, who(rank, "the word before is untouched"));
  rank.settle(together);
}

// The host and the devices of all ranks add to a word in memory of the host, where the links carry
// that.
void on_host(Rank& rank, std::barrier<>& together) {
  symm_buffer_t* made = nullptr;
  if (symm_alloc(rank.group, 4096, support::placed(SYMM_ALLOC_HOST), &made) != SYMM_OK) return;
  ::symm::Buffer buffer(made);
  ::symm::Memory memory = rank.whole.rendezvous(buffer, 2);

  const symm_status_t status =
      symm_atomic64(memory.get(), 0, 0, SYMM_ATOMIC_ADD, 0, 0, nullptr, nullptr, rank.stream);
  if (rank.rank == 0) {
    std::printf("words of the host: %s\n", status == SYMM_OK ? "yes" : symm_last_error());
  }
  expect(status == SYMM_OK || (status == SYMM_ERR_UNSUPPORTED &&
                                  std::strstr(symm_last_error(), "to the host") != nullptr),
      who(rank, symm_last_error()));

  if (status == SYMM_OK) {
    constexpr int kAdds = 2000;
    auto* const word = reinterpret_cast<std::atomic<uint64_t>*>(memory.span<uint64_t>(0).data());
    for (int i = 0; i < kAdds; ++i) {
      memory.atomic64(0, 0, SYMM_ATOMIC_ADD, 1, 0, nullptr, {}, rank.stream);
      word->fetch_add(1);
    }
    rank.settle(together);
    expect(word->load() == 2 * kAdds * static_cast<uint64_t>(rank.size),
        who(rank, "the sum of devices and hosts is exact"));
  }
  rank.settle(together);
  memory.reset();
  buffer.reset();
  together.arrive_and_wait();
}

// Copies of values of all sizes; and how long the largest ones take.
void fills(Rank& rank, std::barrier<>& together) {
  constexpr size_t kBytes = size_t{32} << 20;
  const int next = rank.next();
  const auto check = [&](uint64_t value, size_t bytes) {
    rank.settle(together);
    const auto seen = rank.download<uint8_t>(rank.block + 4096, kBytes + 8);
    bool right = true;
    for (size_t i = 0; i < kBytes; ++i) {
      right = right && seen[i] == static_cast<uint8_t>(value >> i % bytes * 8);
    }
    expect(right, who(rank, "copies of a value of " + std::to_string(bytes) + " bytes"));
    expect(seen[kBytes] == 0, who(rank, "nothing behind them"));
    rank.settle(together);
  };

  constexpr uint64_t kValue = 0x0102030405060708;
  rank.memory.fill8(next, 4096, 0xA5, kBytes, {}, rank.stream);
  check(0xA5, 1);
  rank.memory.fill16(next, 4096, 0xA5B6, kBytes / 2, {}, rank.stream);
  check(0xA5B6, 2);

  const auto time = [&](const char* what, const std::function<void()>& fill) {
    rank.settle(together);
    const auto start = std::chrono::steady_clock::now();
    fill();
    rank.wait();
    if (rank.rank == 0) std::printf("%s of 32 MiB: %.0f us\n", what, 1e6 * seconds_since(start));
  };
  time("fill32", [&] { rank.memory.fill32(next, 4096, 7, kBytes / 4, {}, rank.stream); });
  check(7, 4);
  time("fill64", [&] { rank.memory.fill64(next, 4096, kValue, kBytes / 8, {}, rank.stream); });
  check(kValue, 8);
}

TEST(Words, AdditionsAreAllThere) { run_ranks(machine().ranks, additions); }

TEST(Words, ChangeAsTheOperationSays) { run_ranks(machine().ranks, operations); }

TEST(Words, OfTheHost) { run_ranks(machine().ranks, on_host); }

TEST(Words, CopiesOfAValue) { run_ranks(machine().ranks, fills); }
}  // namespace
}  // namespace gpu
