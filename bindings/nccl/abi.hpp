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

// The other fields that are addresses: a name of a network came with 2.17.
inline constexpr size_t kNetworkOffset = 32;
inline constexpr size_t kLeastWithNetwork = 40;
inline constexpr uint32_t kNetworkSince = 21700;
// The name of a communicator came with 2.27, behind what stands above.
inline constexpr size_t kNameOffset = 48;
inline constexpr size_t kLeastNamed = 72;
inline constexpr uint32_t kNameSince = 22700;

// What a program that passes no configuration gets, of the size 0, and what `config` says where it
// is one: a caller's struct may be anything, so nothing behind its magic number is believed without
// it.
inline Config read_config(const Config* config) {
  Config read{0, kConfigMagic, 0, 1};
  const bool is_one =
      config != nullptr && config->magic == kConfigMagic && config->size >= kLeastConfig;
  if (!is_one) return read;
  read.size = config->size;
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

// ncclCollConfig_t, with which a collective is called since 2.31. What is not said is kUndefined or
// null. NCCL demands the same on all ranks, but for the tag and what the event is.
struct CollectiveConfig {
  size_t size;
  uint32_t magic;
  uint32_t version;
  const void* extensions;
  int32_t least_blocks;
  int32_t most_blocks;
  int32_t multicast_blocks;
  int32_t cluster_size;
  const char* algorithms;
  int32_t forces_algorithms;
  int32_t policy;
  // For profilers: a call is made as without it.
  uint64_t tag;
};
static_assert(sizeof(CollectiveConfig) == 64);
inline constexpr int32_t kUndefined = INT32_MIN;
// An event came with 2.32, behind what stands above.
inline constexpr size_t kEventOffset = 64;
inline constexpr size_t kLeastWithEvent = 72;

// What a configuration of a collective asks for, the most that only NCCL can do first.
enum class Demand { wrong, event, algorithm, tuning, nothing };

inline Demand demand_of(const CollectiveConfig* config) {
  if (config == nullptr) return Demand::nothing;
  const bool is_one = config->magic == kConfigMagic && config->size >= sizeof(CollectiveConfig) &&
                      (config->forces_algorithms == 0 || config->forces_algorithms == 1);
  if (!is_one) return Demand::wrong;

  const void* event = nullptr;
  if (config->size >= kLeastWithEvent) {
    std::memcpy(&event, reinterpret_cast<const char*>(config) + kEventOffset, sizeof event);
  }
  if (event != nullptr) return Demand::event;

  const bool names = config->algorithms != nullptr && *config->algorithms != '\0';
  if (names && config->forces_algorithms == 1) return Demand::algorithm;
  const bool tunes = names || config->extensions != nullptr || config->least_blocks != kUndefined ||
                     config->most_blocks != kUndefined || config->multicast_blocks != kUndefined ||
                     config->cluster_size != kUndefined || config->policy != kUndefined;
  return tunes ? Demand::tuning : Demand::nothing;
}

// Whether a configuration says that calls do not block, or that they do; none: it says neither.
inline std::optional<bool> read_blocking(const Config* config) {
  const bool says = read_config(config).version != 0 && config->blocking >= 0;
  return says ? std::optional(config->blocking != 0) : std::nullopt;
}
}  // namespace symm::nccl
