// symm.hpp: each function works, and fails as documented. Ranks are threads. The file is compiled
// as C++17, the oldest standard that the header allows.
#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "symm/symm.h"
#include "tests/support/test.hpp"
#include <symm/symm.hpp>

namespace {
struct Half {
  uint16_t bits;
};
}  // namespace

template <>
struct symm::Dtype<Half> {
  static constexpr symm_dtype_t value = SYMM_DTYPE_F16;
};

namespace {
symm::Group join(int rank, int size) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.backend = SYMM_BACKEND_HOST;
  config.bootstrap = "thread://cpp";
  config.rank = rank;
  config.size = size;
  return symm::Group::create(config);
}

// Runs `body` as each of `size` ranks.
void together(int size, const std::function<void(const symm::Group&)>& body) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&body, rank, size] {
      try {
        const symm::Group group = join(rank, size);
        body(group);
        if (group.status().status == SYMM_OK) group.finalize();
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }

  for (std::thread& rank : ranks) {
    rank.join();
  }
}

// The Error that `call` throws.
template <class Call>
symm::Error failure_of(const Call& call) {
  try {
    call();
  } catch (const symm::Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {SYMM_OK, "", ""};
}

// The table of behaviours tests the rest of collectives and memory through this header, too.
TEST(Cpp, OnlyTheRootNeedsWhatTheRootAloneUses) {
  together(2, [](const symm::Group& group) {
    const std::vector<float> send =
        group.rank() == 0 ? std::vector<float>{0, 1, 2, 3} : std::vector<float>{10, 11, 12, 13};
    std::array<float, 4> four{};
    group.broadcast(group.rank() == 1 ? send : std::vector<float>(), four, 1);
    EXPECT_EQ(four[3], 13);
    std::vector<float> on_root(group.rank() == 0 ? 4 : 0);
    group.reduce(send, on_root, SYMM_OP_AVG, 0);
    EXPECT_EQ(on_root, group.rank() == 0 ? (std::vector<float>{5, 6, 7, 8}) : std::vector<float>());
  });
}

// Types of fixed widths are in the table of behaviours.
TEST(Cpp, OtherTypesAreReducedInPlace) {
  EXPECT_EQ(symm::Dtype<unsigned long long>::value, SYMM_DTYPE_U64);
  EXPECT_EQ(symm::Dtype<std::byte>::value, SYMM_DTYPE_U8);
  together(2, [](const symm::Group& group) {
    std::array<long long, 3> wide{1, -2, 3};
    group.allreduce(wide, wide, SYMM_OP_PROD);
    EXPECT_EQ(wide, (std::array<long long, 3>{1, 4, 9}));
    std::array<std::complex<double>, 2> numbers{{{1, 2}, {0, -1}}};
    group.allreduce(numbers, numbers, SYMM_OP_PROD);
    EXPECT_EQ(numbers[0], std::complex<double>(-3, 4));
    EXPECT_EQ(numbers[1], std::complex<double>(-1, 0));
    std::array<symm::Pair<float, int32_t>, 1> best{{{2.5F, 7 - group.rank()}}};
    group.allreduce(best, best, SYMM_OP_MAXLOC);
    EXPECT_TRUE(best[0] == (symm::Pair<float, int32_t>{2.5F, 6}));
    Half one{0x3C00};
    group.allreduce(symm::Span(&one, 1), symm::Span(&one, 1), SYMM_OP_SUM);
    EXPECT_EQ(one.bits, 0x4000);  // 2
  });
}

TEST(Cpp, OptionsForceAnAlgorithmAndAPlanNamesIt) {
  together(2, [](const symm::Group& group) {
    std::vector<double> values(1000, 1);
    std::vector<double> sums(1000);
    symm::Options options;
    options.algorithm = SYMM_ALGORITHM_ONE_SHOT;
    const symm_plan_info_t plan =
        group.plan(SYMM_COLLECTIVE_ALLREDUCE, values, sums, values.size(), SYMM_OP_SUM, options);
    EXPECT_EQ(plan.algorithm, SYMM_ALGORITHM_ONE_SHOT);
    EXPECT_STRNE(plan.reason, "");
  });
}

TEST(Cpp, OperandsThatDoNotFitAreRefusedBeforeAnythingIsDone) {
  const symm::Group group = join(0, 1);
  std::vector<int32_t> three(3);
  std::vector<int32_t> four(4);
  const auto refused = [](const symm::Error& error, const char* words) {
    EXPECT_EQ(error.status(), SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(error.rank(), -1);
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  };

  refused(failure_of([&] { group.allreduce(three, four, SYMM_OP_SUM); }),
      "symm_allreduce: invalid argument: send: 3 elements, not 4");
  refused(failure_of([&] { group.reduce_scatter(three, four, SYMM_OP_SUM); }),
      "send: 3 elements, not 4");
  refused(failure_of([&] { group.allgather(three, four); }), "recv: 4 elements, not 3");
  refused(failure_of([&] { group.broadcast(three, four, 0); }), "send: 3 elements, not 4");
  refused(
      failure_of([&] { group.reduce(three, four, SYMM_OP_SUM, 0); }), "recv: 4 elements, not 3");
  refused(failure_of([&] { group.alltoall(three, four); }), "send: 3 elements, not 4");
  group.allreduce(four, four, SYMM_OP_SUM);
}

TEST(Cpp, MemoryIsSeenAsAType) {
  together(2, [](const symm::Group& group) {
    const symm::Memory memory = group.rendezvous(group.allocate(4096));
    const int32_t other = 1 - group.rank();
    const auto mine = memory.span<uint32_t>();
    ASSERT_EQ(mine.size(), 1024u);

    const std::array<uint32_t, 2> words{static_cast<uint32_t>(group.rank()), 7};
    memory.put(other, 8, words);
    group.barrier();
    EXPECT_EQ(mine[2], static_cast<uint32_t>(other));
    EXPECT_EQ(mine[3], 7u);

    EXPECT_EQ(memory.signal_pad(other).size(), static_cast<size_t>(memory.info().channels) * 2);
    EXPECT_EQ(memory.pointer_table()[other], memory.span<std::byte>(other).data());
    EXPECT_EQ(memory.signal_pad_table()[other], memory.signal_pad(other).data());
    EXPECT_EQ(failure_of([&] { memory.multicast_pointer(); }).status(), SYMM_ERR_UNAVAILABLE);

    const symm::Error far = failure_of([&] { memory.put(other, 4090, words); });
    EXPECT_EQ(std::string(far.what()).find("symm_put: invalid argument: "), 0u) << far.what();
    group.barrier();
  });
}

TEST(Cpp, HandlesCopyByAReferenceAndAnEmptyOneIsRefused) {
  symm::Group group = join(0, 1);
  symm::Buffer buffer = group.allocate(4096);
  symm::Memory memory = group.rendezvous(buffer);

  const symm::Memory found = group.find(memory.span().data() + 4095).value().memory;
  const symm::Group copy = group;
  EXPECT_EQ(copy.get(), group.get());

  const symm::Group moved = std::move(group);
  EXPECT_FALSE(group);  // NOLINT(bugprone-use-after-move): what is left is promised
  EXPECT_EQ(failure_of([&] { group.barrier(); }).status(), SYMM_ERR_INVALID_HANDLE);

  symm::Buffer kept = buffer;
  buffer.reset();
  EXPECT_EQ(failure_of([&] { buffer.span(); }).status(), SYMM_ERR_INVALID_HANDLE);
  kept.span<int>()[0] = 1;
  kept.reset();
  memory.reset();
  found.span<int>()[0] = 1;  // what was found is a reference, too, and the memory keeps its block

  EXPECT_EQ(failure_of([] { symm::Memory().info(); }).status(), SYMM_ERR_INVALID_HANDLE);
  EXPECT_EQ(failure_of([&] { symm::Group().allgatherv(found.span(), found.span(), {}); }).status(),
      SYMM_ERR_INVALID_HANDLE);

  symm::Group last = copy;
  last = moved;
  symm_group_t* owned = last.detach();
  EXPECT_FALSE(last);
  symm_group_release(owned);
  copy.barrier();
}

TEST(Cpp, MemoryPassesByToken) {
  const symm::Group group = join(0, 1);
  const symm::Buffer buffer = group.allocate(8192);
  const symm::Span<int> block = buffer.span<int>();

  block[1024] = 42;
  symm::Import import(symm::ipc_export(block.subspan(1024, 16)));
  EXPECT_EQ(import.span<int>().size(), 16u);
  EXPECT_EQ(import.span<int>()[0], 42);

  import.stream_wait(nullptr);
  import.record_use(nullptr);

  symm::Import moved = std::move(import);
  EXPECT_FALSE(import);  // NOLINT(bugprone-use-after-move)
  symm::Import& same = moved;
  moved = std::move(same);

  EXPECT_EQ(symm::ipc_stats().leases, 1u);
  moved = symm::Import();
  EXPECT_EQ(symm::ipc_stats().leases, 0u);
}

TEST(Cpp, APieceCountsItsRowsInElements) {
  constexpr symm_piece_t column = symm::piece_of_rows<double>(3, 5, 2, 7, 10);
  EXPECT_EQ(column.from, 24u);
  EXPECT_EQ(column.to, 40u);
  EXPECT_EQ(column.bytes, 16u);
  EXPECT_EQ(column.rows, 7u);
  EXPECT_EQ(column.from_stride, 80u);
  EXPECT_EQ(column.to_stride, 80u);
}

TEST(Cpp, DevicesAndWhatTheHostCannotDo) {
  EXPECT_EQ(symm::device_count(SYMM_BACKEND_HOST), 1);
  EXPECT_GT(symm::device_info(SYMM_BACKEND_HOST, 0).memory_bytes, 0u);
  EXPECT_EQ(symm::topology(SYMM_BACKEND_HOST).devices, 1u);
  EXPECT_EQ(symm::topology(SYMM_BACKEND_HOST).links, std::vector<int32_t>{0});
  EXPECT_EQ(failure_of([] { symm::device_info(SYMM_BACKEND_HOST, 1); }).status(),
      SYMM_ERR_INVALID_ARGUMENT);

  const symm::Group group = join(0, 1);
  std::vector<float> own(1024);
  EXPECT_EQ(failure_of([&] { group.adopt(own); }).status(), SYMM_ERR_UNSUPPORTED);
  EXPECT_EQ(failure_of([&] { group.allocate(4096).export_dmabuf(0, 4096); }).status(),
      SYMM_ERR_UNAVAILABLE);
  EXPECT_EQ(failure_of([&] { group.allocate(0); }).status(), SYMM_ERR_INVALID_ARGUMENT);
}
}  // namespace
