// A store of the caller's, as an MPI or torch program would supply one: two ranks,
// which are threads here, meet through it.
#include <cstddef>
#include <cstdint>
#include <optional>

#include "symm/symm.h"
#include "tests/support/file_store.hpp"

namespace {
using namespace support;

// Which store is meant is not seen by where it lies: here the second of one rank lies
// where its first lay, the other's does not.
TEST(Store, AnotherMayLieInItsPlace) {
  const TemporaryDirectory directories[2];
  as_threads(2, [&](int rank) {
    std::optional<FileStore> stores[2];
    for (int i = 0; i < 2; ++i) {
      auto& store = stores[rank == 0 ? 0 : i];
      store.reset();
      store.emplace(directories[i]);
      const symm_store_t callbacks = store->callbacks();
      create({.store = &callbacks}, rank, 2).barrier();
    }
  });
}

TEST(Store, ItsFailureIsTheCreationsFailure) {
  const symm_store_t broken{sizeof broken, nullptr,
      [](void*, const char*, const void*, size_t, uint64_t) { return SYMM_ERR_SYSTEM + 0; },
      [](void*, const char*, void*, size_t, size_t*, uint64_t) { return SYMM_ERR_SYSTEM + 0; }};
  expect_failure(SYMM_ERR_SYSTEM, {"store"}, [&] { create({.store = &broken}, 0, 2); });
}
}  // namespace
