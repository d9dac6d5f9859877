// Marks ranges for a profiler, if there is one and the library was built with NVTX's headers.
#include "core/base/nvtx.hpp"

#include <cstdint>

#include "core/base/environment.hpp"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

namespace symm::nvtx {
namespace {
nvtxDomainHandle_t domain() noexcept {
  static const nvtxDomainHandle_t made = nvtxDomainCreateA("symm");
  return made;
}
}  // namespace

// NVTX itself finds the profiler's library by this variable, also in a program with privileges that
// its caller lacks, in which it must not be asked.
bool is_there() noexcept { return *environment("NVTX_INJECTION64_PATH") != '\0'; }

void push(const char* text, uint64_t bytes) noexcept {
  nvtxEventAttributes_t range{};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  range.payload.ullValue = bytes;
  range.messageType = NVTX_MESSAGE_TYPE_ASCII;
  range.message.ascii = text;
  nvtxDomainRangePushEx(domain(), &range);
}

void pop() noexcept { nvtxDomainRangePop(domain()); }
}  // namespace symm::nvtx
#else
namespace symm::nvtx {
bool is_there() noexcept { return false; }

void push(const char*, uint64_t) noexcept {}

void pop() noexcept {}
}  // namespace symm::nvtx
#endif
