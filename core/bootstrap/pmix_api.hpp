// The part of PMIx's API that is used, laid out as the standard has it since version 3, so that no
// header of PMIx is needed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace symm::pmix {
using Code = int;  // pmix_status_t

struct Process {
  char job[256] = "";
  uint32_t rank = 0;
};
inline constexpr uint32_t kAllRanks = UINT32_MAX - 1;

struct Value {
  uint16_t type = 0;
  union {
    bool flag;
    const char* text;
    uint32_t number;
    uint64_t rest[3] = {};
  };
};
inline constexpr uint16_t kBool = 1;
inline constexpr uint16_t kText = 3;
inline constexpr uint16_t kNumber = 14;

struct Info {
  char key[512] = "";
  uint32_t flags = 0;
  Value value;
};
inline constexpr uint8_t kToAll = 3;  // scope of PMIx_Put

static_assert(sizeof(Process) == 260 && sizeof(Value) == 32 && offsetof(Value, text) == 8);
static_assert(offsetof(Info, value) == 520 && sizeof(Info) == 552);

// X(name, result, parameters)
#define SYMM_PMIX_CALLS(X)                                                                       \
  X(PMIx_Init, Code, (Process * self, Info * infos, size_t count))                               \
  X(PMIx_Initialized, int, ())                                                                   \
  X(PMIx_Get, Code,                                                                              \
      (const Process* process, const char* key, const Info* infos, size_t count, Value** value)) \
  X(PMIx_Put, Code, (uint8_t scope, const char* key, Value* value))                              \
  X(PMIx_Commit, Code, ())                                                                       \
  X(PMIx_Fence, Code,                                                                            \
      (const Process* processes, size_t count, const Info* infos, size_t info_count))            \
  X(PMIx_Finalize, Code, (const Info* infos, size_t count))                                      \
  X(PMIx_Error_string, const char*, (Code code))
}  // namespace symm::pmix
