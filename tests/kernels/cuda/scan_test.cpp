// The kernels of scans, compiled for the host: ranks that need nothing of each other neither run
// ahead nor wait for the wrong rank, whichever calls follow each other and whichever rank is held
// up.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/collective.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/types.hpp"
#include "tests/kernels/cuda/world.hpp"
#include "tests/support/test.hpp"

extern "C" symm::cuda::model::KernelOf<symm::cuda::CollectiveArgs> symm_ll_scan_2, symm_ll_scan_4,
    symm_pipeline_scan;

namespace symm::cuda::model {
namespace {
constexpr uint64_t kTile = 32;
constexpr size_t kCalls = 5;

enum class Way { by_ll, by_pipeline, mixed };

// In LL a warp is for tokens; in the pipeline a thread waits for each rank.
unsigned threads_of(int ranks, Way way, unsigned seed) {
  return way == Way::by_pipeline ? static_cast<unsigned>(ranks) : kWarp + 1 + seed / 2 % 3;
}

// Scans of floats, one after the other.
class Scans {
 public:
  Scans(int ranks, Way way, unsigned seed, uint64_t timeout_ns = UINT64_MAX)
      : size_(ranks),
        way_(way),
        random_(seed),
        ranks_({.ranks = ranks,
            .seed = seed,
            .blocks = 1 + seed % 2,
            .threads = threads_of(ranks, way, seed),
            .slot = 2048,
            .work_groups = 2,
            .timeout_ns = timeout_ns}) {}

  Ranks& ranks() { return ranks_; }

  // Launches a scan on all ranks but `absent`. A rank `other` says that it makes another call.
  void launch(int absent = -1, int other = -1) {
    Scan scan;
    scan.which = random_() % 2 == 0 ? Collective::scan : Collective::exscan;
    scan.in_place = random_() % 2 == 0;
    const bool by_ll = way_ == Way::by_ll || (way_ == Way::mixed && random_() % 2 == 0);
    const size_t count = 1 + random_() % (by_ll ? 100 : 400);
    for (int rank = 0; rank < size_; ++rank) {
      std::vector<float>& operand = scan.send.emplace_back(count);
      std::generate(operand.begin(), operand.end(), [&] { return draw_number(random_); });
      scan.recv.emplace_back(scan.in_place ? operand : std::vector<float>(count, -1.0F));
    }
    scans_.push_back(std::move(scan));

    for (int rank = 0; rank < size_; ++rank) {
      if (rank != absent) launch(rank, by_ll, rank == other);
    }
  }

  // Whether each rank has the sums of the ranks that are its own.
  std::string wrong() const {
    for (const Scan& scan : scans_) {
      for (int rank = 0; rank < size_; ++rank) {
        for (size_t i = 0; i < scan.send[0].size(); ++i) {
          std::vector<float> numbers;
          for (int r = 0; r < ranks_combined(scan.which, rank, size_); ++r) {
            numbers.push_back(scan.send[static_cast<size_t>(r)][i]);
          }
          const float right = numbers.empty() ? 0.0F : sum_of(numbers, false);
          if (scan.recv[static_cast<size_t>(rank)][i] != right) {
            return std::string(collective_name(scan.which)) + " of rank " + std::to_string(rank) +
                   ", element " + std::to_string(i);
          }
        }
      }
    }
    return "";
  }

 private:
  struct Scan {
    Collective which;
    bool in_place;
    std::vector<std::vector<float>> send;
    std::vector<std::vector<float>> recv;
  };

  void launch(int rank, bool by_ll, bool differs) {
    const auto r = static_cast<size_t>(rank);
    Scan& scan = scans_.back();
    const std::vector<float>& send = scan.in_place ? scan.recv[r] : scan.send[r];
    CollectiveArgs args = args_of(ranks_, r, scan.which, send, scan.recv[r], send.size());
    args.count = send.size();
    args.detail = differs ? 2 : 1;
    if (by_ll) {
      ranks_.launch(rank, size_ == 2 ? symm_ll_scan_2 : symm_ll_scan_4, args);
      return;
    }

    const unsigned blocks = 1 + static_cast<unsigned>(send.size()) % 2;
    const uint64_t parts = blocks * static_cast<uint64_t>(size_);
    args.tile = kTile;
    args.tiles = (args.unit + parts * kTile - 1) / (parts * kTile);
    args.copies_out = 1;
    ranks_.launch(rank, symm_pipeline_scan, args, blocks);
  }

  int size_;
  Way way_;
  std::mt19937 random_;
  Ranks ranks_;
  // Operands stay where they are while calls are added.
  std::list<Scan> scans_;
};

class ScanKernels : public testing::TestWithParam<std::tuple<int, Way>> {
 protected:
  int size() const { return std::get<0>(GetParam()); }
  Way way() const { return std::get<1>(GetParam()); }
};

TEST_P(ScanKernels, GiveEachRankTheSumOfItsOwn) {
  const unsigned seeds = way() == Way::mixed ? 4 : 20;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    Scans scans(size(), way(), seed);
    for (size_t call = 0; call < kCalls; ++call) {
      scans.launch();
    }
    scans.ranks().hold(static_cast<int>(seed) % size(), static_cast<long>(seed * 37 % 500),
        3000 + static_cast<long>(seed) * 1000);
    ASSERT_TRUE(scans.ranks().run()) << "seed " << seed;
    ASSERT_EQ(scans.wrong(), "") << "seed " << seed;
  }
}

// Rank 0 of a scan needs nothing of the others, and notices them all the same.
TEST_P(ScanKernels, NameTheRankThatIsMissingOrDiffers) {
  for (const bool is_missing : {false, true}) {
    const int blamed = size() - 1;
    Scans scans(size(), way(), 4, 300'000);
    scans.launch(is_missing ? blamed : -1, is_missing ? -1 : blamed);
    ASSERT_TRUE(scans.ranks().run());
    for (int rank = 0; rank < size() - 1; ++rank) {
      const ErrorRecord& record = scans.ranks().record(rank);
      EXPECT_EQ(record.trouble,
          static_cast<uint32_t>(is_missing ? WaitError::timeout : WaitError::mismatch));
      EXPECT_EQ(record.peer, blamed) << "rank " << rank;
    }
  }
}

std::string name_of(const testing::TestParamInfo<std::tuple<int, Way>>& test) {
  constexpr const char* kNames[] = {"ByLl", "ByPipeline", "Mixed"};
  const auto& [ranks, way] = test.param;
  return kNames[static_cast<size_t>(way)] + ("Of" + std::to_string(ranks));
}

INSTANTIATE_TEST_SUITE_P(Each, ScanKernels,
    testing::Combine(
        testing::Values(2, 3, 4), testing::Values(Way::by_ll, Way::by_pipeline, Way::mixed)),
    name_of);
}  // namespace
}  // namespace symm::cuda::model
