#include "core/base/library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace symm {
namespace {
// A wheel's library lies beside ours, in which this one is symm/lib/libsymm.so.0.
std::string of_wheel(const std::string& soname, const char* folder) {
  Dl_info us{};
  link_map* object = nullptr;
  dladdr1(
      reinterpret_cast<void*>(&of_wheel), &us, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP);
  std::error_code ignored;
  const bool is_program = *object->l_name == '\0';  // which dladdr calls what its caller did
  const auto file = is_program ? std::filesystem::read_symlink("/proc/self/exe", ignored)
                               : std::filesystem::absolute(object->l_name, ignored);
  const auto packages = file.parent_path().parent_path().parent_path();
  const auto path = packages / folder / soname;
  return std::filesystem::exists(path, ignored) ? path.string() : soname;
}
}  // namespace

void* find_library(
    const std::string& soname, const std::string& named, const char* folder, std::string& why) {
  // a process has one copy
  if (void* const here = dlopen(soname.c_str(), RTLD_NOW | RTLD_NOLOAD)) return here;
  const std::string path = !named.empty()      ? named
                           : folder != nullptr ? of_wheel(soname, folder)
                                               : soname;
  void* const found = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char* const said = found == nullptr ? dlerror() : nullptr;  // null, too, for want of memory
  if (found == nullptr) why = said != nullptr ? said : soname + " cannot be loaded";
  return found;
}
}  // namespace symm
