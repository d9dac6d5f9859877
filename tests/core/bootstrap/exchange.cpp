// SPDX-License-Identifier: Apache-2.0
//
// One rank of a job: meets the others as its launcher says (or at the URL given), exchanges a value with each, several times over, and says what it saw.
// Started by launchers_test.sh under mpirun, mpiexec.hydra and by hand.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/bootstrap/bootstrap.hpp"

namespace {

symm::Bytes bytes_of(const std::string& text) {
  symm::Bytes bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string url = argc > 1 ? argv[1] : "env://";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 3;
  try {
    const symm::Deadline deadline = symm::Deadline::after_ms(20'000);
    symm::Meeting meeting;
    for (int round = 0; round < rounds; ++round) {
      meeting = {};
      meeting = symm::meet({url, nullptr, 0, 0, "exchange"}, deadline);
      const auto value = [&](int rank) { return bytes_of("round " + std::to_string(round) + " rank " + std::to_string(rank)); };
      meeting.store->set("address." + std::to_string(meeting.rank), value(meeting.rank), deadline);
      for (int rank = 0; rank < meeting.size; ++rank) {
        if (meeting.store->get("address." + std::to_string(rank), deadline) != value(rank)) {
          std::fprintf(stderr, "rank %d: wrong value from rank %d in round %d\n", meeting.rank, rank, round);
          return 1;
        }
      }
    }
    std::printf("rank %d of %d by %s\n", meeting.rank, meeting.size, meeting.description.c_str());
    return 0;
  } catch (const symm::Error& error) {
    std::fprintf(stderr, "%s: %s\n", symm::name_of(error.status()), error.what());
    return 3;
  }
}
