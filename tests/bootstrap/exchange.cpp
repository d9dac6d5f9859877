// One rank of a job: meets the others as its launcher says (or at the URL given),
// exchanges a value with each, several times over, and says what it saw. With the name
// of an MPI library it does so before MPI_Init, between that and MPI_Finalize, and
// after: the two must not disturb each other. Started by launcher_test.sh.
//
//   exchange [url [rounds [libmpi.so]]]
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/base/error.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/bootstrap.hpp"
#include "tests/support/core.hpp"

namespace {
using support::bytes_of;

symm::BootstrapResult exchange(const std::string& url, int rounds) {
  const symm::Deadline deadline = support::soon();
  symm::BootstrapResult meeting;
  for (int round = 0; round < rounds; ++round) {
    meeting = {};
    meeting = symm::bootstrap({url, nullptr, 0, 0, "exchange"}, deadline);
    const auto value = [&](int rank) {
      return bytes_of("round " + std::to_string(round) + " rank " + std::to_string(rank));
    };
    meeting.store->set("address." + std::to_string(meeting.rank), value(meeting.rank), deadline);
    for (int rank = 0; rank < meeting.size; ++rank) {
      if (meeting.store->get("address." + std::to_string(rank), deadline) != value(rank)) {
        throw symm::Error(symm::Status::internal, "wrong value from rank " + std::to_string(rank));
      }
    }
  }

  return meeting;
}

void* symbol(void* library, const char* name) {
  void* const found = dlsym(library, name);
  if (found == nullptr) throw symm::Error(symm::Status::unavailable, dlerror());
  return found;
}
}  // namespace

int main(int argc, char** argv) {
  const std::string url = argc > 1 ? argv[1] : "env://";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 3;
  try {
    const std::string before = support::variables_and_handlers();
    symm::BootstrapResult meeting = exchange(url, rounds);
    if (support::variables_and_handlers() != before) {
      throw symm::Error(symm::Status::internal, "other variables or handlers of signals");
    }

    if (argc > 3) {
      void* const mpi = dlopen(argv[3], RTLD_NOW | RTLD_GLOBAL);
      if (mpi == nullptr) throw symm::Error(symm::Status::unavailable, dlerror());
      if (reinterpret_cast<int (*)(int*, char***)>(symbol(mpi, "MPI_Init"))(nullptr, nullptr) !=
          0) {
        return 1;
      }
      meeting = {};
      meeting = exchange(url, rounds);
      if (reinterpret_cast<int (*)()>(symbol(mpi, "MPI_Finalize"))() != 0) return 1;
      meeting = {};
      meeting = exchange(url, rounds);
    }

    std::printf("rank %d of %d by %s\n", meeting.rank, meeting.size, meeting.description.c_str());
    return 0;
  } catch (const symm::Error& error) {
    std::fprintf(stderr, "%s: %s\n", symm::status_text(error.status()), error.what());
    return 1;
  }
}
