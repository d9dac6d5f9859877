// The compiled kernels for a program that has all of the library but its kernels: it takes those
// of the libsymm.so.0 that the loader finds.
#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <string>

#include "kernels/cuda/images.hpp"
#include <symm/symm.h>

namespace symm::cuda {
namespace {
// The kernels in `library`, if it is of the same build as this program; else null.
const Images* images_in(void* library) {
  const auto info = reinterpret_cast<decltype(&symm_build_info)>(dlsym(library, "symm_build_info"));
  const auto theirs = reinterpret_cast<decltype(&symm_images)>(dlsym(library, "symm_images"));
  const bool is_ours =
      info != nullptr && theirs != nullptr && std::strcmp(info(), symm_build_info()) == 0;
  return is_ours ? theirs() : nullptr;
}

Images find_images(std::string& why_none) {
  void* const library = dlopen("libsymm.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    why_none =
        std::string("the kernels are in a file that this program does not find: ") + dlerror();
    return {{}, 0, 0, why_none.c_str()};
  }
  if (const Images* found = images_in(library); found != nullptr) return *found;

  link_map* place = nullptr;
  dlinfo(library, RTLD_DI_LINKMAP, static_cast<void*>(&place));
  why_none =
      std::string(place->l_name) + " has no kernels for this program: it is of another build";
  return {{}, 0, 0, why_none.c_str()};
}
}  // namespace

const Images* symm_images() {
  static std::string why_none;
  static const Images found = find_images(why_none);
  return &found;
}
}  // namespace symm::cuda
