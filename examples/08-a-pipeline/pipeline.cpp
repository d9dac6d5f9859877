// A pipeline: each rank is a stage, and blocks of numbers go from stage to stage.
//   symm run -n 3 -- symm_pipeline
//
// A stage has two slots, so that the next block arrives in one while the stage works on what is
// in the other. Signals of two channels keep the pace: `kFilled` tells the next stage that a slot
// is full, and `kEmptied` tells the stage before that a slot may be written again.
#include <cstddef>
#include <cstdio>
#include <numeric>
#include <vector>

#include <symm/symm.hpp>

namespace {
constexpr size_t kBlocks = 100;
constexpr size_t kElements = 1024;  // of a block
constexpr size_t kSlots = 2;
constexpr int kFilled = 0;
constexpr int kEmptied = 1;

// The work of a stage: out = in + rank.
void work(symm::Span<const double> in, int rank, std::vector<double>& out) {
  for (size_t i = 0; i < kElements; ++i) {
    out[i] = in[i] + rank;
  }
}
}  // namespace

int main() try {
  const symm::Group group = symm::Group::create();
  const symm::Memory memory = group.rendezvous(group.allocate(kSlots * kElements * sizeof(double)));
  const symm::Span<double> slots = memory.span<double>();
  const bool is_first = group.rank() == 0;
  const bool is_last = group.rank() == group.size() - 1;
  const int before = group.rank() - 1;
  const int after = group.rank() + 1;

  std::vector<double> source(kElements);
  std::vector<double> result(kElements);
  double total = 0;
  for (size_t block = 0; block < kBlocks; ++block) {
    const size_t slot = block % kSlots * kElements;

    if (is_first) {
      source.assign(kElements, static_cast<double>(block));
      work(source, group.rank(), result);
    } else {
      memory.wait_signal(before, kFilled);
      work(slots.subspan(slot, kElements), group.rank(), result);
      memory.signal(before, kEmptied);
    }

    if (is_last) {
      total = std::accumulate(result.begin(), result.end(), total);
      continue;
    }
    // The first blocks find their slots empty.
    if (block >= kSlots) memory.wait_signal(after, kEmptied);
    memory.put_signal(after, slot * sizeof(double), result, kFilled);
  }

  if (is_last) {
    std::printf(
        "%zu blocks went through %d stages and add up to %.0f\n", kBlocks, group.size(), total);
  }
  group.finalize();
} catch (const symm::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
