// SPDX-License-Identifier: Apache-2.0
//
// The compiled kernels, as data in the library.
#include "kernels/cuda/images.hpp"

#ifdef SYMM_FATBIN_DIR
#define SYMM_IMAGE(name)                                                                                                       \
  __asm__(".pushsection .rodata\n.balign 64\n.local symm_fatbin_" #name "\nsymm_fatbin_" #name ":\n.incbin \"" SYMM_FATBIN_DIR \
          "/" #name ".fatbin\"\n.byte 0\n.popsection\n");                                                                      \
  extern "C" const char symm_fatbin_##name[];
SYMM_IMAGE(hybrid)
SYMM_IMAGE(ll)
SYMM_IMAGE(one_shot)
SYMM_IMAGE(multimem)
SYMM_IMAGE(pipeline)
SYMM_IMAGE(pipeline_move)
SYMM_IMAGE(signal)
SYMM_IMAGE(two_shot)
#endif

namespace symm::cuda {

std::span<const void* const> images() {
#ifdef SYMM_FATBIN_DIR
  // The last is loaded only by groups with multicast.
  static const void* const all[] = {symm_fatbin_signal,   symm_fatbin_ll,       symm_fatbin_one_shot,
                                    symm_fatbin_two_shot, symm_fatbin_pipeline, symm_fatbin_pipeline_move,
                                    symm_fatbin_hybrid,   symm_fatbin_multimem};
  return all;
#else
  return {};
#endif
}

}  // namespace symm::cuda
