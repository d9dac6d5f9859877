// The compiled kernels, as data in the library. SYMM_IMAGES lists the .cu files of this folder.
#include "kernels/cuda/images.hpp"

#include <string_view>

#ifdef SYMM_FATBIN_DIR
#include "image_list.hpp"

#define SYMM_INCLUDE(name)                                                                     \
  __asm__(".pushsection .rodata\n.balign 64\n.local symm_fatbin_" #name "\nsymm_fatbin_" #name \
          ":\n.incbin \"" SYMM_FATBIN_DIR "/" #name ".fatbin\"\n.byte 0\n.popsection\n");      \
  extern "C" const char symm_fatbin_##name[];
SYMM_IMAGES(SYMM_INCLUDE)
#endif

namespace symm::cuda {
const Images* symm_images() {
#ifdef SYMM_FATBIN_DIR
  // Only groups with multicast load its kernels.
#define SYMM_IMAGE(name) \
  {#name, symm_fatbin_##name, !std::string_view(#name).starts_with("multimem")},
  static const Image all[] = {SYMM_IMAGES(SYMM_IMAGE)};
  static const Images images{all, SYMM_OLDEST_ARCHITECTURE, SYMM_NEWEST_ARCHITECTURE, ""};
#else
  static const Images images{
      {}, 0, 0, "this build of symm has no CUDA kernels (it was configured without nvcc)"};
#endif
  return &images;
}
}  // namespace symm::cuda
