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

  std::vector<std::vector<std::vector<float>>> send(kCalls);
  std::vector<std::vector<std::vector<float>>> recv(kCalls);
  std::vector<Collective> kinds(kCalls, Collective::allreduce);

  for (size_t call = 0; call < kCalls; ++call) {
    const bool once = form.one_shot != nullptr && random() % 2 == 0;
    if (once && n == 2) {
      kinds[call] = std::array{
          Collective::allreduce, Collective::reduce, Collective::reduce_scatter}[random() % 3];
    }
    const bool has_owners = once && form.one_shot == symm_two_shot_reduce_any_4;
    if (has_owners) kinds[call] = Collective::reduce;
    const bool scatters = kinds[call] == Collective::reduce_scatter;

    // A reduce by owners takes up to four chunks.
    const size_t round = blocks * threads * kPack * (n - 1);
    const size_t slots = once ? 1 : 3 * n;
    const size_t most_bytes = has_owners ? 4 * kRounds * round : form.slot * slots;
    const size_t most = most_bytes / sizeof(float);
    const size_t count = form.whole != 0 ? 4 * form.whole : 1 + random() % most;
    for (size_t rank = 0; rank < n; ++rank) {
      std::vector<float>& operand = send[call].emplace_back(scatters ? n * count : count);
      for (float& x : operand) {
        x = static_cast<float>(random() % 1000);
      }
      recv[call].emplace_back(count, -1.0F);
    }

    for (size_t rank = 0; rank < n; ++rank) {
      CollectiveArgs args =
          args_of(ranks, rank, kinds[call], send[call][rank], recv[call][rank], count);
      args.root = static_cast<int32_t>(call % n);
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
  }

  // One rank is held up, as if its process had lost the device for a while.
  ranks.hold(static_cast<int>(random() % n), static_cast<long>(random() % 500),
      3000 + static_cast<long>(random() % 40'000));
  if (!ranks.run()) return "nothing goes on";

  for (size_t call = 0; call < kCalls; ++call) {
    const size_t count = recv[call][0].size();
    for (size_t i = 0; i < send[call][0].size(); ++i) {
      float sum = send[call][0][i];
      for (size_t r = 1; r < n; ++r) {
        sum += send[call][r][i];
      }
      for (size_t r = 0; r < n; ++r) {
        if (kinds[call] == Collective::reduce_scatter && i / count != r) continue;
        if (recv[call][r][i % count] !=
            (kinds[call] == Collective::reduce && r != call % n ? -1.0F : sum)) {
          return "wrong sums";
        }
      }
    }
  }

  return "";
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

// Operands are any words, among them the words of free cells, in private memory at any address,
// and in place where the call allows it.
TEST(PushKernels, MarksAndFlagsMoveAnyBits) {
  const Collective kinds[] = {Collective::allgather, Collective::alltoall, Collective::broadcast};
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
    std::vector<std::vector<reference::Bytes>> send;
    std::vector<std::vector<reference::Bytes>> recv;
    std::vector<Collective> calls;
    std::vector<size_t> units;
    constexpr size_t kMost = 3 * kMarkedTile;

    for (size_t call = 0; call < kCalls; ++call) {
      calls.push_back(kinds[random() % 3]);
      const bool by_rank = calls[call] == Collective::alltoall;
      const bool in_place = by_rank && random() % 2 == 0;
      const bool is_passed_on = calls[call] == Collective::broadcast && n > 2 && random() % 2 == 0;
      const size_t longest = kMost * (is_passed_on ? n - 1 : 1);
      const size_t limit = random() % 4 == 0 ? longest : 200;
      const size_t unit = 1 + random() % limit;
      const bool by_flags = !is_passed_on && n <= 4 && unit <= 127 * kPack && random() % 2 == 0;
      units.push_back(unit);
      send.emplace_back();
      recv.emplace_back();
      for (size_t rank = 0; rank < n; ++rank) {
        auto& operand = send[call].emplace_back(by_rank ? n * unit : unit);
        for (std::byte& byte : operand) {
          byte = static_cast<std::byte>(random() % 3 != 0 ? 0xFF : random());
        }
        const size_t results = calls[call] == Collective::broadcast ? unit : n * unit;
        recv[call].push_back(in_place ? operand : reference::Bytes(results, std::byte{0xA5}));
      }

      for (size_t rank = 0; rank < n; ++rank) {
        CollectiveArgs args = args_of(
            ranks, rank, calls[call], (in_place ? recv : send)[call][rank], recv[call][rank], unit);
        args.root = static_cast<int32_t>(call % n);
        Kernel kernel = by_flags ? symm_ll_move_4 : symm_marked;
        if (is_passed_on) kernel = symm_marked_passed_on;
        ranks.launch(static_cast<int>(rank), kernel, args);
      }
    }

    ranks.hold(static_cast<int>(random() % n), static_cast<long>(random() % 500),
        3000 + static_cast<long>(random() % 40'000));
    ASSERT_TRUE(ranks.run()) << "nothing goes on, seed " << seed;

    for (size_t call = 0; call < kCalls; ++call) {
      for (size_t rank = 0; rank < n; ++rank) {
        const auto expected = reference::result_of(calls[call], send[call], units[call],
            static_cast<int>(rank), static_cast<int>(call % n), nullptr);
        ASSERT_EQ(recv[call][rank], expected)
            << collective_name(calls[call]) << " of " << units[call] << ", seed " << seed;
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
