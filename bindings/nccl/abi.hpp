// The part of NCCL's C API that is written by hand here, as bytes: no header of NCCL is needed.
// All versions from 2.14 on agree about what stands here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

namespace symm::nccl {
using Result = int32_t;
inline constexpr Result kSuccess = 0;
inline constexpr Result kCudaError = 1;
inline constexpr Result kSystemError = 2;
inline constexpr Result kInternalError = 3;
inline constexpr Result kInvalidArgument = 4;
inline constexpr Result kInvalidUsage = 5;
inline constexpr Result kRemoteError = 6;
inline constexpr Result kInProgress = 7;
inline constexpr Result kTimeout = 8;
// The first version that knows kTimeout.
inline constexpr uint32_t kTimeoutSince = 23000;

// NCCL_SHRINK_ABORT: ncclCommShrink() ends what is under way in the parent.
inline constexpr int kShrinkAborts = 1;

// ncclScalarHostImmediate: the scalar is in memory of the host; else in that of the device.
inline constexpr int kScalarHostImmediate = 1;

struct Communicator;  // NCCL's own
using Comm = Communicator*;

// Passed by value: on the stack for x86-64, by a pointer to a copy for aarch64.
struct UniqueId {
  uint8_t bytes[128];
};

// The beginning of ncclConfig_t, which later versions append to.
struct Config {
  size_t size;
  uint32_t magic;
  // The version of NCCL that the caller was compiled with.
  uint32_t version;
  int32_t blocking;
};
inline constexpr uint32_t kConfigMagic = 0xcafebeef;
// sizeof(ncclConfig_t) in 2.14, the first version that has it.
inline constexpr size_t kLeastConfig = 24;

// The name of a communicator came with 2.27, behind what stands above.
inline constexpr size_t kNameOffset = 48;
inline constexpr size_t kLeastNamed = 72;
inline constexpr uint32_t kNameSince = 22700;

// What a program that passes no configuration gets, and what `config` says where it is one: a
// caller's struct may be anything, so nothing behind its magic number is believed without it.
inline Config read_config(const Config* config) {
  Config read{0, kConfigMagic, 0, 1};
  const bool is_one =
      config != nullptr && config->magic == kConfigMagic && config->size >= kLeastConfig;
  if (!is_one) return read;
  read.version = config->version;
  read.blocking = config->blocking == 0 ? 0 : 1;
  return read;
}

// The address of the name in a configuration, which may be any; null without one.
inline const char* read_name(const Config* config) {
  const Config read = read_config(config);
  if (read.version < kNameSince || config->size < kLeastNamed) return nullptr;
  const char* name = nullptr;
  std::memcpy(&name, reinterpret_cast<const char*>(config) + kNameOffset, sizeof name);
  return name;
}

// Whether a configuration says that calls do not block, or that they do; none: it says neither.
inline std::optional<bool> read_blocking(const Config* config) {
  const bool says = read_config(config).version != 0 && config->blocking >= 0;
  return says ? std::optional(config->blocking != 0) : std::nullopt;
}
}  // namespace symm::nccl
