// The kernels that push, compiled for the host, with messages of several chunks among them. All
// ranks get all sums, whatever sizes follow each other and whichever rank is held up anywhere.
// Packs are torn into words.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/args.hpp"
#include "kernels/types.hpp"
#include "tests/kernels/cuda/world.hpp"
#include "tests/kernels/reference.hpp"
#include "tests/support/test.hpp"

extern "C" symm::cuda::model::KernelOf<symm::cuda::CollectiveArgs> symm_ll_move_4, symm_marked,
    symm_marked_passed_on, symm_one_shot_any_4, symm_one_shot_ahead_any, symm_two_shot_any_2,
    symm_two_shot_any_4, symm_two_shot_reduce_any_4, symm_two_shot_without_tokens_4;

namespace symm::cuda::model {
namespace {
using Kernel = void (*)(CollectiveArgs);
constexpr size_t kCalls = 4;
constexpr size_t kRounds = 5;  // rounds of a chunk of a reduce by owners

struct Form {
  const char* name;
  int ranks;
  uint64_t slot;  // bytes of a slice of a chunk
  Kernel two_shot;
  Kernel one_shot;   // drawn as often as the other; null: never
  size_t whole = 0;  // packs of every message; 0: any number of elements
};

constexpr Form kForms[] = {
    {"one chunk", 4, 32, symm_two_shot_any_4, nullptr, 8},
    {"two chunks", 4, 32, symm_two_shot_any_4, nullptr, 16},
    {"the last chunk is short", 4, 32, symm_two_shot_any_4, nullptr, 9},
    {"any sizes", 4, 32, symm_two_shot_any_4, nullptr},
    {"any sizes in short chunks", 4, 16, symm_two_shot_any_4, nullptr},
    {"any sizes of 3 ranks", 3, 64, symm_two_shot_any_4, nullptr},
    {"one shot and two", 4, 64, symm_two_shot_any_4, symm_one_shot_any_4},
    {"one shot and two of 3 ranks", 3, 32, symm_two_shot_any_4, symm_one_shot_any_4},
    {"one shot ahead, reduces and reduce-scatters among them, and two", 2, 256, symm_two_shot_any_2,
        symm_one_shot_ahead_any},
    {"reduces by owners, and two shots", 4, 256, symm_two_shot_any_4, symm_two_shot_reduce_any_4},
    {"reduces by owners, and two shots, of 3 ranks", 3, 256, symm_two_shot_any_4,
        symm_two_shot_reduce_any_4},
};

// A call of all ranks that sums.
struct Sum {
  Collective kind = Collective::allreduce;
  int root = 0;
  bool in_tree = false;
  std::vector<std::vector<float>> send;
  std::vector<std::vector<float>> recv;
};

// Draws call number `call` and launches its kernels. A chunk of a call by owners has rounds of
// `round` bytes.
Sum launch_sum(Ranks& ranks, const Form& form, size_t call, size_t round, std::mt19937& random) {
  const auto n = static_cast<size_t>(form.ranks);
  Sum sum;
  sum.root = static_cast<int>(call % n);
  sum.in_tree = random() % 2 == 0;
  const bool once = form.one_shot != nullptr && random() % 2 == 0;
  if (once && n == 2) {
    sum.kind = std::array{
        Collective::allreduce, Collective::reduce, Collective::reduce_scatter}[random() % 3];
  }
  const bool has_owners = once && form.one_shot == symm_two_shot_reduce_any_4;
  if (has_owners) sum.kind = Collective::reduce;
  const bool scatters = sum.kind == Collective::reduce_scatter;

  // A reduce by owners takes up to four chunks.
  const size_t slots = once ? 1 : 3 * n;
  const size_t most_bytes = has_owners ? 4 * kRounds * round : form.slot * slots;
  const size_t most = most_bytes / sizeof(float);
  const size_t count = form.whole != 0 ? 4 * form.whole : 1 + random() % most;
  for (size_t rank = 0; rank < n; ++rank) {
    std::vector<float>& operand = sum.send.emplace_back(scatters ? n * count : count);
    for (float& x : operand) {
      x = draw_number(random);
    }
    sum.recv.emplace_back(count, -1.0F);
  }

  for (size_t rank = 0; rank < n; ++rank) {
    CollectiveArgs args = args_of(ranks, rank, sum.kind, sum.send[rank], sum.recv[rank], count);
    args.root = sum.root;
    args.in_tree = sum.in_tree ? 1 : 0;
    args.tile = scatters ? args.unit : form.slot * n;
    args.tiles = (args.unit + args.tile - 1) / args.tile;
    // A part of the unit needs more than one launch.
    const uint64_t part =
        scatters || (once && n > 2 && call % 2 == 0) ? args.unit / 32 * 16 + 16 : args.unit;
    for (uint64_t left = args.unit; left > 0;
        left -= args.unit, args.send += args.unit, args.recv += args.unit) {
      args.unit = std::min(left, part);
      if (has_owners) args.tiles = (args.unit + kRounds * round - 1) / (kRounds * round);
      ranks.launch(static_cast<int>(rank), once ? form.one_shot : form.two_shot, args);
    }
  }
  return sum;
}

// Whether each rank has the sums that it is to get, and no others.
bool is_right(const Sum& sum) {
  const size_t n = sum.send.size();
  const size_t count = sum.recv[0].size();
  for (size_t i = 0; i < sum.send[0].size(); ++i) {
    std::vector<float> numbers;
    for (const std::vector<float>& operand : sum.send) {
      numbers.push_back(operand[i]);
    }
    const float right = sum_of(numbers, sum.in_tree);
    for (size_t r = 0; r < n; ++r) {
      if (sum.kind == Collective::reduce_scatter && i / count != r) continue;
      const bool gets_none = sum.kind == Collective::reduce && r != static_cast<size_t>(sum.root);
      if (sum.recv[r][i % count] != (gets_none ? -1.0F : right)) return false;
    }
  }
  return true;
}

// Every rank makes some calls one after the other. Returns "" if all calls ended and all results
// are right.
std::string outcome(const Form& form, unsigned seed) {
  std::mt19937 random(seed);
  const auto n = static_cast<size_t>(form.ranks);

  // A work group is there so that there is scratch.
  const unsigned blocks = 1 + seed % 2;
  const unsigned threads = 1 + seed / 2 % 3;
  Ranks ranks({.ranks = form.ranks,
      .seed = seed,
      .blocks = blocks,
      .threads = threads,
      .slot = form.slot,
      .work_groups = 1});

  std::vector<Sum> sums;
  for (size_t call = 0; call < kCalls; ++call) {
    sums.push_back(launch_sum(ranks, form, call, blocks * threads * kPack * (n - 1), random));
  }

  // One rank is held up, as if its process had lost the device for a while.
  ranks.hold(static_cast<int>(random() % n), static_cast<long>(random() % 500),
      3000 + static_cast<long>(random() % 40'000));
  if (!ranks.run()) return "nothing goes on";
  return std::ranges::all_of(sums, is_right) ? "" : "wrong sums";
}

TEST(PushKernels, AllRanksGetAllSums) {
  for (const Form& form : kForms) {
    // Calls by owners are long.
    const unsigned seeds = form.one_shot == symm_two_shot_reduce_any_4 ? 12 : 25;
    for (unsigned seed = 0; seed < seeds; ++seed) {
      ASSERT_EQ(outcome(form, seed), "") << form.name << ", seed " << seed;
    }
  }
}

TEST(PushKernels, RanksNoticeThatTheirRootsDiffer) {
  Ranks ranks({.ranks = 2, .seed = 7, .threads = 2, .work_groups = 1});
  const std::vector<float> send(50);
  std::vector<float> recv[2] = {send, send};

  for (int rank = 0; rank < 2; ++rank) {
    CollectiveArgs args = args_of(
        ranks, static_cast<size_t>(rank), Collective::reduce, send, recv[rank], send.size());
    args.root = rank;
    args.detail = static_cast<uint64_t>(rank);
    ranks.launch(rank, symm_one_shot_ahead_any, args);
  }

  ASSERT_TRUE(ranks.run());
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(static_cast<WaitError>(ranks.record(rank).trouble), WaitError::mismatch);
  }
}

// A call of all ranks that moves bytes.
struct Move {
  Collective kind;
  size_t unit;
  int root;
  std::vector<reference::Bytes> send;
  std::vector<reference::Bytes> recv;
};

// Draws a call of `n` ranks and launches its kernels. Operands are any words, among them the words
// of free cells, in private memory at any address, and in place where the call allows it.
Move launch_move(Ranks& ranks, size_t n, size_t call, std::mt19937& random) {
  constexpr size_t kMost = 3 * kMarkedTile;
  const Collective kinds[] = {Collective::allgather, Collective::alltoall, Collective::broadcast};
  Move move;
  move.kind = kinds[random() % 3];
  move.root = static_cast<int>(call % n);
  const bool by_rank = move.kind == Collective::alltoall;
  const bool in_place = by_rank && random() % 2 == 0;
  const bool is_passed_on = move.kind == Collective::broadcast && n > 2 && random() % 2 == 0;
  const size_t longest = kMost * (is_passed_on ? n - 1 : 1);
  const size_t limit = random() % 4 == 0 ? longest : 200;
  const size_t unit = 1 + random() % limit;
  move.unit = unit;
  const bool by_flags = !is_passed_on && n <= 4 && unit <= 127 * kPack && random() % 2 == 0;

  for (size_t rank = 0; rank < n; ++rank) {
    auto& operand = move.send.emplace_back(by_rank ? n * unit : unit);
    for (std::byte& byte : operand) {
      byte = static_cast<std::byte>(random() % 3 != 0 ? 0xFF : random());
    }
    const size_t results = move.kind == Collective::broadcast ? unit : n * unit;
    move.recv.push_back(in_place ? operand : reference::Bytes(results, std::byte{0xA5}));
  }

  Kernel kernel = by_flags ? symm_ll_move_4 : symm_marked;
  if (is_passed_on) kernel = symm_marked_passed_on;
  for (size_t rank = 0; rank < n; ++rank) {
    CollectiveArgs args = args_of(
        ranks, rank, move.kind, (in_place ? move.recv : move.send)[rank], move.recv[rank], unit);
    args.root = move.root;
    ranks.launch(static_cast<int>(rank), kernel, args);
  }
  return move;
}

TEST(PushKernels, MarksAndFlagsMoveAnyBits) {
  for (unsigned seed = 0; seed < 15; ++seed) {
    std::mt19937 random(seed);
    const size_t n = 2 + seed % 5;
    const unsigned threads = kWarp * (2 + seed / 2 % 2);

    // A slot has room for three tiles of cells, two of them with a token, or for 127 packs beside
    // flags and a token.
    Ranks ranks({.ranks = static_cast<int>(n),
        .seed = seed,
        .blocks = 1 + seed % 2,
        .threads = threads,
        .slot = 4096,
        .work_groups = 1});
    std::vector<Move> moves;
    for (size_t call = 0; call < kCalls; ++call) {
      moves.push_back(launch_move(ranks, n, call, random));
    }

    ranks.hold(static_cast<int>(random() % n), static_cast<long>(random() % 500),
        3000 + static_cast<long>(random() % 40'000));
    ASSERT_TRUE(ranks.run()) << "nothing goes on, seed " << seed;

    for (const Move& move : moves) {
      for (size_t rank = 0; rank < n; ++rank) {
        const auto expected = reference::result_of(
            move.kind, move.send, move.unit, static_cast<int>(rank), move.root, nullptr);
        ASSERT_EQ(move.recv[rank], expected)
            << collective_name(move.kind) << " of " << move.unit << ", seed " << seed;
      }
    }
  }
}

// Without tokens a cell can be freed when the next message is in it already. That message is then
// waited for in vain, which the model must notice.
TEST(PushKernels, TheModelSeesAThreadThatHearsNothing) {
  Form form = kForms[2];
  form.two_shot = symm_two_shot_without_tokens_4;
  unsigned seed = 0;
  while (seed < 500 && outcome(form, seed) != "nothing goes on") {
    ++seed;
  }
  EXPECT_LT(seed, 500U);
}
}  // namespace
}  // namespace symm::cuda::model
