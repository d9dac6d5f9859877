// The compiled kernels for a program that has all of the library but them: those of the
// libsymm.so.0 that the loader finds.
#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <string>

#include "kernels/cuda/images.hpp"
#include <symm/symm.h>

namespace symm::cuda {
const Images* symm_images() {
  static std::string why_none;
  static const Images found = [] {
    void* const library = dlopen("libsymm.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      why_none =
          std::string("the kernels are in a file that this program does not find: ") + dlerror();
    } else {
      const auto info =
          reinterpret_cast<decltype(&symm_build_info)>(dlsym(library, "symm_build_info"));
      const auto theirs = reinterpret_cast<decltype(&symm_images)>(dlsym(library, "symm_images"));
      if (info != nullptr && theirs != nullptr && std::strcmp(info(), symm_build_info()) == 0) {
        return *theirs();
      }
      link_map* place = nullptr;
      dlinfo(library, RTLD_DI_LINKMAP, static_cast<void*>(&place));
      why_none =
          std::string(place->l_name) + " has no kernels for this program: it is of another build";
    }
    return Images{{}, 0, why_none.c_str()};
  }();
  return &found;
}
}  // namespace symm::cuda
