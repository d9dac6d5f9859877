// Finds and opens a shared library: one that the process has already, one that the user names,
// one in a Python wheel, or the system's.
#include "core/base/library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "core/base/closed_streams.hpp"

namespace symm {
namespace {
// The path of a library that a Python wheel has installed in `folder` beside symm's own wheel, in
// which this library is symm/lib/libsymm.so.0; the bare soname if there is no such file.
std::string path_in_wheel(const std::string& soname, const char* folder) {
  Dl_info info{};
  link_map* object = nullptr;
  dladdr1(reinterpret_cast<void*>(&path_in_wheel), &info, reinterpret_cast<void**>(&object),
      RTLD_DL_LINKMAP);

  // The name of the program itself is empty in the link map.
  std::error_code ignored;
  const bool is_program = *object->l_name == '\0';
  const auto file = is_program ? std::filesystem::read_symlink("/proc/self/exe", ignored)
                               : std::filesystem::absolute(object->l_name, ignored);

  const auto packages = file.parent_path().parent_path().parent_path();
  const auto path = packages / folder / soname;
  return std::filesystem::exists(path, ignored) ? path.string() : soname;
}
}  // namespace

void* find_library(
    const std::string& soname, const std::string& named, const char* folder, std::string& why) {
  const ClosedStreams held;  // the loader opens files

  // A process should have one copy of a library.
  void* const loaded = dlopen(soname.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (loaded != nullptr) return loaded;

  std::string path = soname;
  if (!named.empty()) {
    path = named;
  } else if (folder != nullptr) {
    path = path_in_wheel(soname, folder);
  }

  void* const found = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (found == nullptr) {
    // dlerror() returns null, too, when there is no memory.
    const char* const message = dlerror();
    why = message != nullptr ? message : soname + " cannot be loaded";
  }
  return found;
}
}  // namespace symm
