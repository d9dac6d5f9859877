// A profiler as NVTX loads it, which says what it hears of ranges: "(two_shot 4096 ", ")".
#include <cstdio>

#include <nvtx3/nvToolsExt.h>

namespace {
int push(nvtxDomainHandle_t, const nvtxEventAttributes_t* range) {
  return std::fprintf(stderr, "(%s %llu ", range->message.ascii,
      static_cast<unsigned long long>(range->payload.ullValue));
}

int pop(nvtxDomainHandle_t) { return std::fprintf(stderr, ")\n"); }
}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(push);
  *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  return 1;
}
