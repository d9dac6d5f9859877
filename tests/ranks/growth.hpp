// What tests of groups that grow have in common.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/ranks/failure.hpp"

namespace support {
// A ticket for memory that processes share.
struct SharedTicket {
  std::atomic<size_t> size{0};
  std::byte bytes[SYMM_TICKET_MAX_BYTES] = {};

  void set(const symm::Ticket& ticket) {
    std::memcpy(bytes, ticket.data(), ticket.size());
    size = ticket.size();
  }
  symm::Span<const std::byte> await() const {
    EXPECT_TRUE(eventually([&] { return size != 0; }));
    return {bytes, size};
  }
};

inline symm_group_config_t newcomer(uint64_t timeout_ms = 20'000) {
  symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
  config.create_timeout_ms = timeout_ms;
  return config;
}

inline symm_grow_options_t appending(int32_t count, uint64_t timeout_ms = 20'000) {
  symm_grow_options_t options = SYMM_GROW_OPTIONS_INIT;
  options.mode = SYMM_GROW_APPEND;
  options.count = count;
  options.timeout_ms = timeout_ms;
  return options;
}

inline symm_grow_options_t filling(uint64_t timeout_ms = 20'000) {
  symm_grow_options_t options = SYMM_GROW_OPTIONS_INIT;
  options.timeout_ms = timeout_ms;
  return options;
}

// What members and newcomers share, who are processes of a test. They use a directory of their own
// for the library, in which nothing may stay.
struct Scene {
  Scene() { setenv("XDG_RUNTIME_DIR", runtime.path().c_str(), 1); }
  ~Scene() {
    expect_empty(runtime.path() + "/symm");
    unsetenv("XDG_RUNTIME_DIR");
  }

  const TemporaryDirectory runtime;
  const Bootstrap meeting;
  const Shared<Facts> facts;
  const Shared<SharedTicket> ticket;
};
}  // namespace support
