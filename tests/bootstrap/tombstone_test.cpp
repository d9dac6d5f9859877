// Tombstones of attempts to meet: how ranks note that they have read one.
#include "core/bootstrap/tombstone.hpp"

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>

#include "core/socket/directory.hpp"
#include "tests/bootstrap/tombstones.hpp"
#include "tests/support/footprint.hpp"
#include "tests/support/process.hpp"
#include "tests/support/test.hpp"

namespace symm {
namespace {
TEST(Tombstones, GoWhenAllRanksHaveReadThemAtOnce) {
  constexpr int kRanks = 8;
  const support::TemporaryDirectory directory;
  const std::string path = directory / "f-attempt";

  for (int trial = 0; trial < 20; ++trial) {
    set_tombstone(path, support::fresh_tombstone(kRanks));
    std::array<bool, kRanks> has_read{};
    const auto read = [&](int rank) {
      const auto seen = read_tombstone(path);
      if (!seen) return;
      note_reader(path, *seen, rank);
      has_read[static_cast<size_t>(rank)] = true;
    };
    support::as_threads(kRanks, read);

    // A rank that found none, since another one had it at that moment, has not read it.
    for (int rank = 0; rank < kRanks; ++rank) {
      if (!has_read[static_cast<size_t>(rank)]) read(rank);
    }
    ASSERT_FALSE(read_tombstone(path)) << "trial " << trial;
    ASSERT_TRUE(std::filesystem::is_empty(directory.path())) << "trial " << trial;
  }
}
}  // namespace
}  // namespace symm
